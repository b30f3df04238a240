"""Element types of the ABI and their numpy counterparts.

Must never guess: a type that numpy does not have is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ascendrt._gen.enums import aclDataType

if TYPE_CHECKING:
    import numpy as np

_NUMPY_NAMES = {
    aclDataType.ACL_FLOAT: "float32",
    aclDataType.ACL_FLOAT16: "float16",
    aclDataType.ACL_DOUBLE: "float64",
    aclDataType.ACL_INT8: "int8",
    aclDataType.ACL_INT16: "int16",
    aclDataType.ACL_INT32: "int32",
    aclDataType.ACL_INT64: "int64",
    aclDataType.ACL_UINT8: "uint8",
    aclDataType.ACL_UINT16: "uint16",
    aclDataType.ACL_UINT32: "uint32",
    aclDataType.ACL_UINT64: "uint64",
    aclDataType.ACL_BOOL: "bool",
    aclDataType.ACL_COMPLEX64: "complex64",
    aclDataType.ACL_COMPLEX128: "complex128",
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
    import numpy as np

    names = {int(key): name for key, name in _NUMPY_NAMES.items()}
    if value not in names:
        raise TypeError(f"numpy has no type for {name_of(value)}; pass the bytes as uint8 instead")
    return np.dtype(names[value])
