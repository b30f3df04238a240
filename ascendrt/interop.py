"""Host arrays of every kind as numpy views: numpy itself, buffers, array interface, DLPack.

Must never copy: what cannot be viewed in place is refused, with what to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# What a host array may be. numpy arrays, PinnedMemory, torch tensors on the CPU, bytes, memoryview,
# array.array: no common static type says so.
HostArray = Any
_DLPACK_CPU, _DLPACK_PINNED = 1, 3


def view(value: HostArray, *, writable: bool = False) -> np.ndarray[Any, Any]:
    """Return a contiguous numpy view of host memory; it keeps what it views alive.

    Raises: TypeError for what is no array on the host; ValueError when it is not contiguous or,
    with `writable`, read-only.
    """
    array = value if isinstance(value, np.ndarray) else _as_array(value)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"the array of shape {array.shape} and strides {array.strides} is not contiguous; "
            "give np.ascontiguousarray(array), which copies it"
        )
    if writable and not array.flags.writeable:
        raise ValueError("the target array must be writable; this one is read-only")
    return array


def address(array: np.ndarray[Any, Any]) -> int:
    """Return where the elements of an array lie."""
    return int(array.__array_interface__["data"][0])


def _as_array(value: HostArray) -> np.ndarray[Any, Any]:
    kind = type(value).__name__
    device = getattr(value, "__dlpack_device__", None)
    if device is not None and int(device()[0]) not in (_DLPACK_CPU, _DLPACK_PINNED):
        raise TypeError(f"this {kind} lies on a device; copy it to the host first")
    if hasattr(value, "__array_interface__") or (device is not None and hasattr(value, "numpy")):
        return np.asarray(value)
    if device is not None:
        return np.from_dlpack(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise TypeError(
            f"{kind} is no array in host memory; give a numpy array, a buffer or what has "
            "__dlpack__ or __array_interface__ (np.asarray makes an array of a list)"
        ) from None
