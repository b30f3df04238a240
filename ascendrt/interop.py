"""Host arrays of every kind as numpy views: numpy itself, buffers, array interface, DLPack.

Must never copy: what cannot be viewed in place is refused, with what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ascendrt import _lib

# What a host array may be. numpy arrays, PinnedMemory, torch tensors on the CPU, bytes, memoryview,
# array.array: no common static type says so.
HostArray = Any
_DLPACK_CPU, _DLPACK_PINNED = 1, 3


def view(value: HostArray, *, writable: bool = False) -> np.ndarray[Any, Any]:
    """Return a contiguous numpy view of host memory; it keeps what it views alive.

    Raises: TypeError for what is no array on the host; ValueError when it is not contiguous or,
    with `writable`, read-only.
    """
    array = value if type(value) is np.ndarray else _as_array(value)
    if array.dtype.hasobject:
        raise TypeError(
            f"an array of dtype {array.dtype} holds Python objects, which mean nothing elsewhere; "
            "give an array of numbers"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"the array of shape {array.shape} and strides {array.strides} is not contiguous; give "
            + (
                "a new array, np.empty(array.shape, array.dtype), and copy from it afterwards"
                if writable
                else "np.ascontiguousarray(array), which copies it"
            )
        )
    if writable and not array.flags.writeable:
        raise ValueError("the target array must be writable; this one is read-only")
    return array


def address(array: np.ndarray[Any, Any]) -> int:
    """Return where the elements of a contiguous array lie."""
    try:
        return _lib.address(_lib.readable(array))
    except (BufferError, TypeError, ValueError):  # a type that buffers have not, such as bfloat16
        return int(array.__array_interface__["data"][0])


def array(value: Any) -> np.ndarray[Any, Any]:
    """Return an input of a model as an array: also of a list, in any order, copied if it must be.

    Raises: TypeError for a masked array and for what lies on a device.
    """
    if hasattr(value, "__dlpack__") or isinstance(value, np.ndarray):
        return _as_array(value)
    return np.asarray(value)


def refuse_masked(value: object) -> None:
    """Raise TypeError for an array whose mask would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask here; give array.filled(value) or array.data"
        )


def _by_numpy(value: Any, convert: Callable[[Any], np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    try:
        return convert(value)
    except (TypeError, RuntimeError, BufferError) as error:
        kind = getattr(value, "dtype", "")
        text = f"numpy makes no array of this {type(value).__name__} of {kind}: {error}"
        if "upported" in str(error):  # other errors of torch say what to do
            text += (
                "; of a type that numpy lacks, such as bfloat16, give the bits, as "
                "tensor.view(torch.uint16)"
            )
        raise TypeError(text) from error


def _as_array(value: HostArray) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        refuse_masked(value)
        return value
    kind = type(value).__name__
    device = getattr(value, "__dlpack_device__", None)
    if device is not None and int(device()[0]) not in (_DLPACK_CPU, _DLPACK_PINNED):
        raise TypeError(
            f"this {kind} lies on a device; copy it to the host first: memory.read(shape, dtype) "
            "of a Memory, tensor.cpu() of a tensor"
        )
    if hasattr(value, "__array_interface__") or (device is not None and hasattr(value, "numpy")):
        return _by_numpy(value, np.asarray)
    if device is not None:
        return _by_numpy(value, np.from_dlpack)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise TypeError(
            f"{kind} is no array in host memory; give a numpy array, a buffer or what has "
            "__dlpack__ or __array_interface__ (np.asarray makes an array of a list)"
        ) from None
