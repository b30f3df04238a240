"""The tensors of one run of a model: an aclmdlDataset and the device memory behind it.

Must never decide what a model is run on, or wait for a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt import _lib, dtypes
from ascendrt._gen.enums import aclFormat
from ascendrt._lib import call, lib
from ascendrt._owned import Owned
from ascendrt.closing import close_all
from ascendrt.memory import Memory
from ascendrt.tensors import TensorSpec

_ND = int(aclFormat.ACL_FORMAT_ND)


class Dataset(Owned):
    """An aclmdlDataset with one device buffer per tensor, in index order.

    A tensor of open shape, which no gear bounds, has no memory of its own: `write` gives an input
    what its array needs, every run allocates what its result needs.
    """

    def __init__(self, specs: tuple[TensorSpec, ...], *, bounded: bool = False) -> None:
        self._specs = specs
        self._is_open = [spec.is_dynamic and not bounded for spec in specs]
        self._buffers: list[_lib.Handle] = []
        self._memories: list[Memory | None] = []
        self.handle = lib.aclmdlCreateDataset()
        if not self.handle:
            raise _lib.failure(_lib.recent_code(), "aclmdlCreateDataset")
        self._closed = False
        try:
            for spec in specs:
                self._add(spec)
        except BaseException:
            self.close()
            raise

    def _add(self, spec: TensorSpec) -> None:
        memory = None if self._is_open[len(self._memories)] else Memory(max(spec.size_bytes, 1))
        self._memories.append(memory)
        pointer = _lib.null() if memory is None else memory.pointer
        buffer = lib.aclCreateDataBuffer(pointer, 0 if memory is None else memory.size_bytes)
        if not buffer:
            raise _lib.failure(_lib.recent_code(), "aclCreateDataBuffer", tensor=spec.name)
        self._buffers.append(buffer)
        call("aclmdlAddDatasetBuffer", self.handle, buffer, ids={"tensor": spec.name})

    def memory(self, index: int) -> Memory:
        """Return what holds a tensor. Raises: ValueError when only a run gives it memory."""
        memory = self._memories[index]
        if memory is None:
            raise ValueError(f"tensor {self._specs[index].name!r} has no memory before a run")
        return memory

    def write(self, index: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a tensor to its buffer; of one of open shape its shape becomes that of the array."""
        if self._is_open[index]:
            self._fit(index, array)
        plain = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        self.memory(index).write(plain)

    def _fit(self, index: int, array: np.ndarray[Any, Any]) -> None:
        """Make room for an array, and tell its shape to the next run."""
        spec, memory = self._specs[index], self._memories[index]
        if memory is None or memory.size_bytes < array.nbytes:
            made = Memory(max(array.nbytes, 1))
            ids = {"tensor": spec.name}
            call(
                "aclUpdateDataBuffer", self._buffers[index], made.pointer, made.size_bytes, ids=ids
            )
            self._memories[index] = made
            if memory is not None:
                memory.close()
        if lib.aclmdlGetDatasetTensorDesc(self.handle, index) and self._shape(index) == array.shape:
            return
        dims = _lib.new(f"int64_t[{max(array.ndim, 1)}]")
        for place, size in enumerate(array.shape):
            dims[place] = size
        desc = lib.aclCreateTensorDesc(spec.acl_dtype, array.ndim, dims, _ND)
        if not desc:
            raise _lib.failure(_lib.recent_code(), "aclCreateTensorDesc", tensor=spec.name)
        try:
            call("aclmdlSetDatasetTensorDesc", self.handle, desc, index, ids={"tensor": spec.name})
        finally:
            lib.aclDestroyTensorDesc(desc)

    def read(self, index: int, dtype: npt.DTypeLike | None = None) -> np.ndarray[Any, Any]:
        """Copy a tensor to a new array after a run, in the shape that it has in this run.

        Another dtype than that of the description stands for the bytes, in one dimension.
        """
        spec, memory, shape = self._specs[index], self._memories[index], self._specs[index].shape
        taken = None
        if memory is None:
            shape = self._shape(index)
            memory = taken = self._take(index)
        try:
            if dtype is None:
                return memory.read(shape, dtypes.to_numpy(spec.acl_dtype))
            size = memory.size_bytes if taken else spec.size_bytes
            return memory.read((size // np.dtype(dtype).itemsize,), dtype)
        finally:
            if taken is not None:
                taken.close()

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of a tensor, of an open one that of the last run."""
        spec = self._specs[index]
        return self._shape(index) if spec.is_dynamic else spec.shape

    def _shape(self, index: int) -> tuple[int, ...]:
        desc = lib.aclmdlGetDatasetTensorDesc(self.handle, index)
        size = _lib.new("int64_t *")
        shape = []
        for dim in range(lib.aclGetTensorDescNumDims(desc)):
            call("aclGetTensorDescDimV2", desc, dim, size, ids={"tensor": index})
            shape.append(int(size[0]))
        return tuple(shape)

    def _take(self, index: int) -> Memory:
        buffer = self._buffers[index]
        pointer = lib.aclGetDataBufferAddr(buffer)
        size = int(lib.aclGetDataBufferSizeV2(buffer))
        call("aclUpdateDataBuffer", buffer, _lib.null(), 0)
        return Memory.adopt(pointer, size)

    def _release(self) -> None:
        _lib.check_quiet(lib.aclmdlDestroyDataset(self.handle), "aclmdlDestroyDataset")
        for buffer in self._buffers:
            _lib.check_quiet(lib.aclDestroyDataBuffer(buffer), "aclDestroyDataBuffer")
        close_all(memory for memory in self._memories if memory is not None)
