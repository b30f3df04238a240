"""Device memory: one allocation, explicit copies in and out.

Must never dereference a device pointer: on a card it faults, and on the emulator it does too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt import _backend, _lib
from ascendrt._gen.enums import aclrtMemcpyKind, aclrtMemMallocPolicy
from ascendrt._lib import call
from ascendrt._owned import Owned
from ascendrt.device import give_to_context
from ascendrt.errors import AscendrtError

_TO_DEVICE = int(aclrtMemcpyKind.ACL_MEMCPY_HOST_TO_DEVICE)
_TO_HOST = int(aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_HOST)
_HUGE_FIRST = int(aclrtMemMallocPolicy.ACL_MEM_MALLOC_HUGE_FIRST)


def memory_stats() -> dict[str, Any]:
    """Return what this process holds of each device it uses.

    Units: bytes. Per device, context and owner: live, peak, reserved (charged to this process),
    what threads and pools keep ready, number of blocks, fragmentation (1 - live / reserved).

    Raises: AscendrtError where the backend does not tell (real cards).
    """
    return _told(blocks=False)


def memory_snapshot() -> dict[str, Any]:
    """Return `memory_stats()` and every live block with its owner.

    With ASCENDRT_MEMORY_TRACE=1 each block has the call stack of its allocation. The result is
    plain data for json.dump. Raises: AscendrtError.
    """
    return _told(blocks=True)


def _told(blocks: bool) -> dict[str, Any]:
    answer = _backend.load().memory(blocks)
    if answer is None:
        raise AscendrtError("this backend does not tell what its memory holds; use its own tools")
    return answer


class Memory(Owned):
    """An allocation on the current device.

    A Context object closes what was made under it. Units: bytes. Raises: ValueError for a size
    below 1; OutOfMemoryError; AclError 107002 without a current device. Source: aclrtMalloc (huge
    pages for large sizes, contents undefined).
    """

    def __init__(self, size_bytes: int) -> None:
        if size_bytes < 1:
            raise ValueError(f"size_bytes is {size_bytes}; an allocation has at least 1 byte")
        pointer = _lib.new("void **")
        call("aclrtMalloc", pointer, size_bytes, _HUGE_FIRST, ids={"size_bytes": size_bytes})
        self.size_bytes = size_bytes
        self._pointer = pointer[0]
        self._closed = False
        give_to_context(self)

    @classmethod
    def from_array(cls, array: npt.ArrayLike) -> Memory:
        """Allocate what `array` needs and copy it in."""
        source = np.ascontiguousarray(array)
        memory = cls(max(source.nbytes, 1))
        memory.write(source)
        return memory

    @classmethod
    def adopt(cls, pointer: _lib.Handle, size_bytes: int) -> Memory:
        """Take over an allocation that a call made; it is freed with the object."""
        memory = cls.__new__(cls)
        memory.size_bytes = size_bytes
        memory._pointer = pointer
        memory._closed = False
        return memory

    def __repr__(self) -> str:
        return f"Memory({self.size_bytes} bytes at {_lib.address(self._pointer):#x})"

    def _release(self) -> None:
        call("aclrtFree", self._pointer, ids={"memory": self})

    @property
    def pointer(self) -> _lib.Handle:
        """The device pointer, for calls this object does not wrap."""
        self._require_open()
        return self._pointer

    @property
    def address(self) -> int:
        """The device pointer as a number."""
        return _lib.address(self.pointer)

    def write(self, source: npt.ArrayLike, offset_bytes: int = 0) -> None:
        """Copy a host array to the device, as contiguous bytes; returns when it is there.

        Raises: ValueError when it does not fit. Source: aclrtMemcpy; streams are not waited for.
        """
        array = np.ascontiguousarray(source)
        room = self._room(array.nbytes, offset_bytes)
        if array.nbytes:
            target = _lib.offset(self.pointer, offset_bytes)
            data = _lib.readable(array)
            call("aclrtMemcpy", target, room, data, array.nbytes, _TO_DEVICE, ids={"memory": self})

    def read_into(self, target: np.ndarray[Any, Any], offset_bytes: int = 0) -> None:
        """Fill a contiguous, writable host array from the device.

        Raises: ValueError when the range is outside the allocation or the array is not writable.
        """
        self._room(target.nbytes, offset_bytes)
        if target.nbytes:
            data = _lib.writable(target)
            source = _lib.offset(self.pointer, offset_bytes)
            size = target.nbytes
            call("aclrtMemcpy", data, size, source, size, _TO_HOST, ids={"memory": self})

    def read(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, offset_bytes: int = 0
    ) -> np.ndarray[Any, Any]:
        """Copy a part of the allocation into a new array.

        Shapes: any whose bytes lie inside. Raises: ValueError when they do not.
        """
        result = np.empty(shape, dtype)
        self.read_into(result, offset_bytes)
        return result

    def fill(self, byte: int) -> None:
        """Set every byte to the same value, 0 to 255."""
        if not 0 <= byte <= 255:
            raise ValueError(f"byte is {byte}; it must be 0 to 255")
        size = self.size_bytes
        call("aclrtMemset", self.pointer, size, byte, size, ids={"memory": self})

    def _room(self, size_bytes: int, offset_bytes: int) -> int:
        self._require_open()
        room = self.size_bytes - offset_bytes
        if offset_bytes < 0 or size_bytes > room:
            raise ValueError(
                f"{size_bytes} bytes at offset {offset_bytes} do not fit in {self.size_bytes} bytes"
            )
        return room
