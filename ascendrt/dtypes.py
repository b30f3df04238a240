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


def name_of(value: int) -> str:
    """Return the constant's name, or the number where this ABI version has no such type."""
    try:
        return aclDataType(value).name
    except ValueError:
        return f"aclDataType({value})"


def to_numpy(value: int) -> np.dtype[Any]:
    """Return the numpy type of an aclDataType.

    Raises: TypeError for types numpy lacks (bfloat16, 4-bit and 8-bit floats, strings).
    """
    if value not in _NUMPY_TYPES:
        raise TypeError(f"numpy has no type for {name_of(value)}; pass the bytes as uint8 instead")
    return _NUMPY_TYPES[value]
