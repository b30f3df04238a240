"""Element types of the ABI and their numpy counterparts.

Must never guess: a type that numpy does not have is refused by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendrt._gen.enums import aclDataType

_NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    int(aclDataType.ACL_FLOAT): np.dtype("float32"),
    int(aclDataType.ACL_FLOAT16): np.dtype("float16"),
    int(aclDataType.ACL_DOUBLE): np.dtype("float64"),
    int(aclDataType.ACL_INT8): np.dtype("int8"),
    int(aclDataType.ACL_INT16): np.dtype("int16"),
    int(aclDataType.ACL_INT32): np.dtype("int32"),
    int(aclDataType.ACL_INT64): np.dtype("int64"),
    int(aclDataType.ACL_UINT8): np.dtype("uint8"),
    int(aclDataType.ACL_UINT16): np.dtype("uint16"),
    int(aclDataType.ACL_UINT32): np.dtype("uint32"),
    int(aclDataType.ACL_UINT64): np.dtype("uint64"),
    int(aclDataType.ACL_BOOL): np.dtype("bool"),
    int(aclDataType.ACL_COMPLEX64): np.dtype("complex64"),
    int(aclDataType.ACL_COMPLEX128): np.dtype("complex128"),
}

# What numpy lacks: the integers that hold the bits, and what the package ml_dtypes calls the type.
_BITS: dict[int, tuple[np.dtype[Any], str]] = {
    int(aclDataType.ACL_BF16): (np.dtype("uint16"), "bfloat16"),
    int(aclDataType.ACL_HIFLOAT8): (np.dtype("uint8"), ""),
    int(aclDataType.ACL_FLOAT8_E5M2): (np.dtype("uint8"), "float8_e5m2"),
    int(aclDataType.ACL_FLOAT8_E4M3FN): (np.dtype("uint8"), "float8_e4m3fn"),
    int(aclDataType.ACL_FLOAT8_E8M0): (np.dtype("uint8"), "float8_e8m0fnu"),
}
_FOREIGN = {name for _, name in _BITS.values() if name}


def name_of(value: int) -> str:
    """Return the constant's name, or the number where this ABI version has no such type."""
    try:
        return aclDataType(value).name
    except ValueError:
        return f"aclDataType({value})"


def to_numpy(value: int) -> np.dtype[Any]:
    """Return the numpy type of an aclDataType; of bfloat16 and 8-bit floats that of their bits.

    Raises: TypeError for types that are no whole bytes, and for strings.
    """
    if value in _BITS:
        return _BITS[value][0]
    if value not in _NUMPY_TYPES:
        raise TypeError(
            f"numpy has no type for {name_of(value)}; load the model with acl.mdl, whose buffers "
            "are bytes"
        )
    return _NUMPY_TYPES[value]


def require(dtype: np.dtype[Any], value: int, what: str) -> None:
    """Raise TypeError for an array of another type than an aclDataType's."""
    expected = to_numpy(value)
    own = _BITS[value][1] if value in _BITS else ""
    if dtype == expected or (own and dtype.name == own):
        return
    if value not in _BITS:
        says, advice = str(expected), f"convert it with .astype('{expected}')"
    else:
        says = f"{name_of(value)} as its bits, {expected}"
        advice = "numpy lacks the type" + (f"; .astype(ml_dtypes.{own}) makes it" if own else "")
    raise TypeError(f"{what} has dtype {dtype}, the model expects {says}; {advice}")


def bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View an array of a type that only ml_dtypes has as the integers that hold its bits."""
    return array.view(f"u{array.itemsize}") if array.dtype.name in _FOREIGN else array
