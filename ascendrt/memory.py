"""Memory: allocations on a device and pinned ones on the host, explicit copies in and out.

Must never dereference a device pointer: on a card it faults, and on the emulator it does too.

Note [Views of pinned memory]: numpy arrays, memoryviews and DLPack capsules over pinned memory hold
the allocation itself, not the object. Closing the object with views about ends its use; the memory
goes back to the runtime with the last view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from ascendrt import _backend, _fast, _lib, interop, numbers
from ascendrt._copies import TO_DEVICE, TO_HOST
from ascendrt._lib import call, fast, lib
from ascendrt._owned import InContext, Owned, settle
from ascendrt.device import contexts, give_to_context
from ascendrt.errors import AscendrtError

if TYPE_CHECKING:
    from typing_extensions import Self

_DLPACK_CPU, _DLPACK_OTHER = 1, 12
_ON_DEVICE = (
    "device memory is no host memory, so nothing on the host can view it; copy it with "
    "memory.read(shape, dtype) or memory.read_into(array); PinnedMemory is an array without a copy"
)
_fast.watch_contexts(contexts)


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


class Memory(_fast.Block, InContext):
    """An allocation on the current device.

    A Context object closes what was made under it. Units: bytes. Raises: ValueError for a size
    below 1; OutOfMemoryError; AclError 107002 without a current device. Source: aclrtMalloc (huge
    pages for large sizes, contents undefined).
    """

    # Making and closing are hot paths and lie in the base; what is rare is here.

    def _not_allocated(self, size_bytes: int, code: int) -> None:
        raise _lib.failure(code, "aclrtMalloc", size_bytes=size_bytes)

    def _not_freed(self, code: int) -> None:
        free = partial(fast.free, self._address)
        settle(code, "aclrtFree", self._context, free, memory=self)

    def _join_context(self) -> None:
        give_to_context(self)

    def _abandoned(self) -> None:
        Owned.__del__(self)

    @classmethod
    def from_array(cls, array: interop.HostArray) -> Self:
        """Allocate what `array` needs and copy it in (also a list). Raises: as write."""
        source = interop.view(np.asarray(array) if isinstance(array, list) else array)
        memory = cls(max(source.nbytes, 1))
        memory.write(source)
        return memory

    @classmethod
    def adopt(cls, pointer: _lib.Handle, size_bytes: int) -> Self:
        """Take over an allocation that a call made; it is freed with the object."""
        memory = cls.__new__(cls)
        memory.size_bytes = size_bytes
        memory._address = _lib.address(pointer)
        memory._context = fast.get_context()
        memory._closed = False
        return memory

    @staticmethod
    def pinned(size_bytes: int) -> PinnedMemory:
        """Allocate pinned host memory; the same as PinnedMemory(size_bytes)."""
        return PinnedMemory(size_bytes)

    def __repr__(self) -> str:
        return f"Memory({self.size_bytes} bytes at {self._address:#x})"

    @property
    def pointer(self) -> _lib.Handle:
        """The device pointer, for calls this object does not wrap."""
        return _lib.pointer(self.address)

    @property
    def address(self) -> int:
        """The device pointer as a number."""
        self._require_open()
        return self._address

    def write(self, source: interop.HostArray, offset_bytes: int = 0) -> None:
        """Copy a host array to the device, as contiguous bytes; returns when it is there.

        Raises: ValueError when it does not fit or is not contiguous; TypeError for what is no
        array on the host. Source: aclrtMemcpy; streams are not waited for.
        """
        array = interop.view(source)
        target, room = self.span(array.nbytes, offset_bytes)
        if array.nbytes:
            arguments = (target, room, interop.address(array), array.nbytes, TO_DEVICE)
            if code := fast.memcpy(*arguments):
                self.failed(code, "aclrtMemcpy", fast.memcpy, *arguments, memory=self)

    def read_into(self, target: interop.HostArray, offset_bytes: int = 0) -> None:
        """Fill a contiguous, writable host array from the device.

        Raises: ValueError when the range is outside the allocation or the array is not writable.
        """
        array = interop.view(target, writable=True)
        size = array.nbytes
        source, _ = self.span(size, offset_bytes)
        if size:
            arguments = (interop.address(array), size, source, size, TO_HOST)
            if code := fast.memcpy(*arguments):
                self.failed(code, "aclrtMemcpy", fast.memcpy, *arguments, memory=self)

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
        size = self.size_bytes
        arguments = (self.pointer, size, numbers.byte(byte), size)
        if code := lib.aclrtMemset(*arguments):
            self.failed(code, "aclrtMemset", lib.aclrtMemset, *arguments, memory=self)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        """Refuse `np.asarray(memory)`: numpy would otherwise wrap the object itself."""
        raise TypeError(_ON_DEVICE)

    def __dlpack__(self, **options: Any) -> NoReturn:
        """Refuse DLPack, which would otherwise say that this is no capsule."""
        raise BufferError(_ON_DEVICE)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_OTHER, 0)

    def span(self, size_bytes: int, offset_bytes: int = 0) -> tuple[int, int]:
        """Return the address at an offset, and the bytes from there to the end.

        Raises: ValueError when the size does not fit there.
        """
        if self._closed:
            raise self._refusal()
        offset = numbers.whole(offset_bytes, "offset_bytes")
        room = numbers.room_for(size_bytes, offset, self.size_bytes)
        return self._address + offset, room


class PinnedMemory(Owned):
    """Host memory that the device copies from and to directly; a stream's copies then overlap.

    It is an array of bytes to numpy (`np.asarray`, `numpy`), to DLPack (`torch.from_dlpack`) and
    as `buffer`, without a copy; see Note [Views of pinned memory]. Raises: ValueError for a size
    below 1; OutOfMemoryError; AclError 107002 without a current device. Source: aclrtMallocHost.
    """

    def __init__(self, size_bytes: int) -> None:
        size_bytes = numbers.allocation(size_bytes)
        out = _lib.new("void **")
        call("aclrtMallocHost", out, size_bytes, ids={"size_bytes": size_bytes})
        self.size_bytes = size_bytes
        self._address = _lib.address(out[0])
        self._block: Any = _lib.owned_buffer(
            self._address, size_bytes, partial(_free_host, out[0], size_bytes, fast.get_context())
        )
        self._closed = False

    def __repr__(self) -> str:
        return f"PinnedMemory({self.size_bytes} bytes at {self._address:#x})"

    def __len__(self) -> int:
        return self.size_bytes

    def _release(self) -> None:
        self._block = None  # the last view frees

    @property
    def address(self) -> int:
        """The address as a number, for calls this object does not wrap."""
        self._require_open()
        return self._address

    @property
    def buffer(self) -> memoryview:
        """The bytes as a writable memoryview."""
        return memoryview(self._data())

    def _data(self) -> Any:
        block = self._block
        if block is None:
            raise self._refusal()
        return block

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.buffer

    @property
    def __array_interface__(self) -> dict[str, object]:
        data = self._data()
        return {"version": 3, "shape": (self.size_bytes,), "typestr": "|u1", "data": data}

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_CPU, 0)

    def numpy(
        self, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike = np.uint8,
        offset_bytes: int = 0,
    ) -> np.ndarray[Any, Any]:  # fmt: skip
        """Return a part of the memory as an array, without a copy; all of it without a shape.

        Raises: ValueError when the array would not lie inside.
        """
        data, kind = self._data(), np.dtype(dtype)
        offset = numbers.whole(offset_bytes, "offset_bytes")
        room = numbers.room_for(0, offset, self.size_bytes)
        if shape is None:
            shape = (room // (kind.itemsize or 1),)
        sizes = shape if isinstance(shape, Iterable) else (shape,)
        count = math.prod(numbers.whole(size, "a size of the shape", 0) for size in sizes)
        numbers.room_for(count * kind.itemsize, offset, self.size_bytes)
        return np.frombuffer(data, kind, count, offset).reshape(shape)


def _free_host(pointer: _lib.Handle, size_bytes: int, context: int) -> None:
    """Free pinned memory when nothing views it any more: on any thread, at any time."""
    if code := lib.aclrtFreeHost(pointer):
        ids = {"address": hex(_lib.address(pointer)), "size_bytes": size_bytes}
        try:
            settle(code, "aclrtFreeHost", context, lambda: int(lib.aclrtFreeHost(pointer)), **ids)
        except AscendrtError as error:
            _lib.warn(error)
