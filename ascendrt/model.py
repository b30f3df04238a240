"""Offline models: load, describe, run on numpy arrays.

Owns: the model id, its datasets and one set of device buffers. Must never reshape or convert an
input on its own: what does not fit is refused with what would fit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt import _lib, dtypes
from ascendrt._gen.enums import aclFormat
from ascendrt._lib import call, lib
from ascendrt._owned import Owned
from ascendrt.device import init
from ascendrt.memory import Memory


@dataclass(frozen=True)
class TensorSpec:
    """What a model says of one input or output. A dimension of -1 is decided when it runs."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    format: str
    size_bytes: int
    acl_dtype: int

    @property
    def is_dynamic(self) -> bool:
        """True when some dimension is not fixed."""
        return any(size < 0 for size in self.shape)

    def check(self, array: np.ndarray[Any, Any], what: str) -> None:
        """Compare an array with this description.

        Raises: TypeError for another dtype, ValueError for another shape; the text says both sides.
        """
        expected = dtypes.to_numpy(self.acl_dtype)
        if array.dtype != expected:
            raise TypeError(
                f"{what} has dtype {array.dtype}, the model expects {expected}; "
                f"convert it with .astype('{expected}')"
            )
        fits = len(self.shape) == array.ndim and all(
            wanted in (-1, size) for wanted, size in zip(self.shape, array.shape, strict=False)
        )
        if not fits:
            raise ValueError(f"{what} has shape {array.shape}, the model expects {self.shape}")


class Description(Owned):
    """The inputs and outputs of a model, read through an aclmdlDesc."""

    def __init__(self) -> None:
        handle = lib.aclmdlCreateDesc()
        if not handle:
            raise _lib.failure(_lib.recent_code(), "aclmdlCreateDesc")
        self._handle = handle
        self._closed = False

    def _release(self) -> None:
        call("aclmdlDestroyDesc", self._handle)

    def of_model(self, model_id: int) -> Description:
        """Fill from a loaded model."""
        call("aclmdlGetDesc", self._handle, model_id, ids={"model_id": model_id})
        return self

    def of_file(self, path: Path) -> Description:
        """Fill from a file that is not loaded."""
        call("aclmdlGetDescFromFile", self._handle, os.fsencode(path), ids={"path": path})
        return self

    def specs(self, side: str) -> tuple[TensorSpec, ...]:
        """Return the descriptions of one side, "Input" or "Output"."""
        count = getattr(lib, f"aclmdlGetNum{side}s")(self._handle)
        return tuple(self._spec(side, index) for index in range(count))

    def _spec(self, side: str, index: int) -> TensorSpec:
        dims = _lib.new("aclmdlIODims *")
        ids = {"side": side.lower(), "index": index}
        call(f"aclmdlGet{side}Dims", self._handle, index, dims, ids=ids)
        acl_dtype = int(getattr(lib, f"aclmdlGet{side}DataType")(self._handle, index))
        layout = int(getattr(lib, f"aclmdlGet{side}Format")(self._handle, index))
        return TensorSpec(
            name=_lib.text(getattr(lib, f"aclmdlGet{side}NameByIndex")(self._handle, index)),
            dtype=dtypes.name_of(acl_dtype),
            shape=tuple(int(dims.dims[i]) for i in range(dims.dimCount)),
            format=_format_name(layout),
            size_bytes=int(getattr(lib, f"aclmdlGet{side}SizeByIndex")(self._handle, index)),
            acl_dtype=acl_dtype,
        )


class _Dataset(Owned):
    """An aclmdlDataset with one device buffer per tensor, in index order.

    A tensor of open shape has no memory of its own: every run allocates what its result needs.
    """

    def __init__(self, specs: tuple[TensorSpec, ...]) -> None:
        self._specs = specs
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
        memory = None if spec.is_dynamic else Memory(max(spec.size_bytes, 1))
        self._memories.append(memory)
        pointer = _lib.null() if memory is None else memory.pointer
        buffer = lib.aclCreateDataBuffer(pointer, 0 if memory is None else memory.size_bytes)
        if not buffer:
            raise _lib.failure(_lib.recent_code(), "aclCreateDataBuffer", tensor=spec.name)
        self._buffers.append(buffer)
        call("aclmdlAddDatasetBuffer", self.handle, buffer, ids={"tensor": spec.name})

    def write(self, index: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a tensor to its buffer."""
        memory = self._memories[index]
        assert memory is not None, self._specs[index]
        memory.write(np.ascontiguousarray(array))

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
        for memory in self._memories:
            if memory is not None:
                memory.close()


class Model(Owned):
    """A loaded offline model, callable on numpy arrays.

    It belongs to the context that was current when it was loaded and may be called from any thread;
    calls take turns.

    Raises: FileNotFoundError; ModelError for a file that is no usable model or was built for
    another chip; AclError 107002 without a current device.
    Source: aclmdlLoadFromFile, aclmdlLoadFromMem, aclmdlExecute.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        init()
        self._turn = threading.Lock()
        self._context = _lib.current_context()
        self.model_id = _load(source)
        self._closed = False
        self._datasets: list[_Dataset] = []
        try:
            with Description() as description:
                description.of_model(self.model_id)
                self.inputs = description.specs("Input")
                self.outputs = description.specs("Output")
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Model(id={self.model_id})"

    def _release(self) -> None:
        with self._turn, _lib.in_context(self._context):
            for dataset in self._datasets:
                dataset.close()
            call("aclmdlUnload", self.model_id, ids={"model_id": self.model_id})

    def __call__(
        self, *arrays: npt.ArrayLike, **named: npt.ArrayLike
    ) -> list[np.ndarray[Any, Any]]:
        """Run the model once and wait for the result.

        Give the inputs in order, or by name. Shapes and dtypes must be those of `inputs`; the
        result holds one new array per entry of `outputs`.

        Raises: TypeError and ValueError for inputs that do not fit; AclError of the run.
        """
        self._require_open()
        inputs = self._arrange(arrays, named)
        with self._turn, _lib.in_context(self._context):
            feed, fetch = self._prepare()
            for index, array in enumerate(inputs):
                feed.write(index, array)
            ids = {"model_id": self.model_id}
            call("aclmdlExecute", self.model_id, feed.handle, fetch.handle, ids=ids)
            return [fetch.read(index) for index in range(len(self.outputs))]

    def _prepare(self) -> tuple[_Dataset, _Dataset]:
        if not self._datasets:
            for spec in self.inputs:
                if spec.is_dynamic:
                    raise ValueError(
                        f"tensor {spec.name!r} has the open shape {spec.shape}; "
                        "convert the model again with --input-shape to fix it"
                    )
            feed = _Dataset(self.inputs)
            try:
                self._datasets = [feed, _Dataset(self.outputs)]
            except BaseException:
                feed.close()
                raise
        return self._datasets[0], self._datasets[1]

    def _arrange(
        self, arrays: tuple[npt.ArrayLike, ...], named: Mapping[str, npt.ArrayLike]
    ) -> list[np.ndarray[Any, Any]]:
        names = [spec.name for spec in self.inputs]
        if arrays and named:
            raise TypeError("give the inputs either in order or by name, not both")
        if len(arrays or named) != len(names):
            raise TypeError(
                f"the model takes {len(names)} inputs {names}, got {len(arrays or named)}"
            )
        if unknown := sorted(set(named) - set(names)):
            raise TypeError(f"the model has no input {unknown}; its inputs are {names}")
        ordered = [np.asarray(value) for value in (arrays or (named[name] for name in names))]
        for index, (spec, array) in enumerate(zip(self.inputs, ordered, strict=True)):
            spec.check(array, f"input {index} ({spec.name!r})")
        return ordered


def _load(source: str | os.PathLike[str] | bytes) -> int:
    model_id = _lib.new("uint32_t *")
    if isinstance(source, bytes):
        ids: dict[str, object] = {"size_bytes": len(source)}
        call("aclmdlLoadFromMem", _lib.readable(source), len(source), model_id, ids=ids)
    else:
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"no model file {path}")
        call("aclmdlLoadFromFile", os.fsencode(path), model_id, ids={"path": path})
    return int(model_id[0])


def _format_name(value: int) -> str:
    try:
        return aclFormat(value).name.removeprefix("ACL_FORMAT_")
    except ValueError:
        return f"aclFormat({value})"


def required_memory(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return (work, weight) memory in bytes that a model file will need.

    Raises: ModelError for a file that is no usable model. Source: aclmdlQuerySize.
    """
    work, weights = _lib.new("size_t *"), _lib.new("size_t *")
    call("aclmdlQuerySize", os.fsencode(path), work, weights, ids={"path": path})
    return int(work[0]), int(weights[0])
