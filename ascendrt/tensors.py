"""What a model says of itself: tensors, and the shapes it was compiled for.

Owns: the aclmdlDesc. Must never know how a model is run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ascendrt import _lib, dtypes
from ascendrt._gen.enums import aclFormat
from ascendrt._lib import call, lib
from ascendrt._owned import Owned, settle

GEAR_TENSOR = "ascend_mbatch_shape_data"  # ACL_DYNAMIC_TENSOR_NAME
AIPP_TENSOR = "ascend_dynamic_aipp_data"  # ACL_DYNAMIC_AIPP_NAME
_WHOLE_MODEL = (1 << 64) - 1
_NO_RANK = (-2,)


@dataclass(frozen=True)
class TensorSpec:
    """What a model says of one input or output. A dimension of -1 is decided when it runs; the
    shape (-2,) says that the number of dimensions is decided then as well.
    """

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

    def row(self) -> TensorSpec:
        """Return the description of one element of the first dimension."""
        return replace(self, shape=self.shape[1:])

    def check(self, array: np.ndarray[Any, Any], what: str) -> None:
        """Compare an array with this description.

        Raises: TypeError for another dtype, ValueError for another shape; the text says both sides.
        """
        if array.dtype == np.object_:
            raise TypeError(
                f"{what} is no array of numbers (None, a ragged list, or device memory?); give a "
                f"numpy array of {dtypes.to_numpy(self.acl_dtype)}, of device memory what its "
                "read() returns"
            )
        dtypes.require(array.dtype, self.acl_dtype, what)
        if self.shape != _NO_RANK and not _fits(array.shape, self.shape):
            advice = _advice(array.shape, self.shape)
            raise ValueError(
                f"{what} has shape {array.shape}, the model expects {self.shape}{advice}"
            )


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(given) == len(wanted) and all(
        size in (-1, have) for size, have in zip(wanted, given, strict=True)
    )


def _advice(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Name the usual reasons why a shape does not fit."""
    if _fits(given, wanted[1:]):
        return "; the first dimension is missing, array[None] has it"
    if _fits(given[1:], wanted):
        return "; one dimension too many (a batch of one, or an array in a list?)"
    if _fits(given[1:], wanted[1:]) and given:
        return "; its batch is fixed: convert it with --dynamic_batch_size for others"
    if math.prod(given) == math.prod(wanted):
        return "; it has as many elements: transpose or reshape it"
    return ""


GearKind = Literal["none", "batch", "image", "dims"]


@dataclass(frozen=True)
class Gears:
    """The shapes a model was compiled for, where it was for several.

    `values` are batch sizes, (height, width) pairs, or the dims of all inputs in a row; in
    ascending order. `index` is the input that tells the model which one it is to run.
    """

    kind: GearKind = "none"
    values: tuple[tuple[int, ...], ...] = ()
    index: int = -1

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes; empty for gears of another kind."""
        return tuple(value[0] for value in self.values) if self.kind == "batch" else ()

    def choose(self, specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]) -> Gear:
        """Choose for inputs of these shapes: a batch takes the next larger gear, others fit.

        Raises: ValueError when no gear fits; the text lists those there are.
        """
        open_sizes = [
            size
            for spec, shape in zip(specs, shapes, strict=True)
            for wanted, size in zip(spec.shape, shape, strict=True)
            if wanted < 0
        ]
        if self.kind == "batch":
            return self._choose_batch(open_sizes)
        if self.kind == "image":
            value = tuple(open_sizes[:2])
            fits = value in self.values and open_sizes == [*value] * (len(open_sizes) // 2)
        else:
            value = tuple(size for shape in shapes for size in shape)
            fits = value in self.values
        if not fits:
            known = ", ".join("x".join(map(str, each)) for each in self.values)
            raise ValueError(
                f"inputs of shapes {[*shapes]} fit no gear; the model was compiled for {known}"
            )
        return Gear(value, None)

    def _choose_batch(self, sizes: list[int]) -> Gear:
        if len(set(sizes)) != 1 or sizes[0] < 1:
            raise ValueError(f"the inputs have batches of {sizes}; all must be one size above 0")
        for (batch,) in self.values:
            if batch >= sizes[0]:
                return Gear((batch,), sizes[0])
        raise ValueError(
            f"the batch of {sizes[0]} is larger than every gear; the model was compiled for "
            f"{[*self.batches]}"
        )


@dataclass(frozen=True)
class Gear:
    """A chosen gear. `rows`: how much of its batch is used; None when that has no meaning."""

    value: tuple[int, ...]
    rows: int | None


class Description(Owned):
    """The inputs and outputs of a model, read through an aclmdlDesc."""

    def __init__(self) -> None:
        handle = lib.aclmdlCreateDesc()
        if not handle:
            raise _lib.failure(_lib.recent_code(), "aclmdlCreateDesc")
        self._handle = handle
        self._closed = False

    def _release(self) -> None:
        if code := self._destroy():
            settle(code, "aclmdlDestroyDesc", 0, self._destroy)

    def _destroy(self) -> int:
        return int(lib.aclmdlDestroyDesc(self._handle))

    def of_model(self, model_id: int) -> Description:
        """Fill from a loaded model."""
        call("aclmdlGetDesc", self._handle, model_id, ids={"model_id": model_id})
        return self

    def of_file(self, path: Path) -> Description:
        """Fill from a file that is not loaded."""
        call("aclmdlGetDescFromFile", self._handle, os.fsencode(path), ids={"path": path})
        return self

    def of_memory(self, content: bytes) -> Description:
        """Fill from the content of a file."""
        size = len(content)
        data = _lib.readable(content)
        call("aclmdlGetDescFromMem", self._handle, data, size, ids={"size_bytes": size})
        return self

    def specs(self, side: str) -> tuple[TensorSpec, ...]:
        """Return the descriptions of one side, "Input" or "Output"."""
        count = getattr(lib, f"aclmdlGetNum{side}s")(self._handle)
        return tuple(self._spec(side, index) for index in range(count))

    def gears(self) -> Gears:
        """Return the shapes the model was compiled for."""
        index = _lib.new("size_t *")
        if lib.aclmdlGetInputIndexByName(self._handle, GEAR_TENSOR.encode(), index):
            _lib.forget_failure()
            return Gears()
        for kind, values in self._gear_lists():
            if values:
                return Gears(kind, tuple(sorted(values)), int(index[0]))
        return Gears()

    def _gear_lists(self) -> Iterator[tuple[GearKind, list[tuple[int, ...]]]]:
        batch = _lib.new("aclmdlBatch *")
        call("aclmdlGetDynamicBatch", self._handle, batch)
        yield "batch", [(int(batch.batch[i]),) for i in range(batch.batchCount)]
        image = _lib.new("aclmdlHW *")
        call("aclmdlGetDynamicHW", self._handle, _WHOLE_MODEL, image)
        pairs = range(image.hwCount)
        yield "image", [(int(image.hw[i][0]), int(image.hw[i][1])) for i in pairs]
        count = _lib.new("size_t *")
        call("aclmdlGetInputDynamicGearCount", self._handle, _WHOLE_MODEL, count)
        dims = _lib.new(f"aclmdlIODims[{max(int(count[0]), 1)}]")
        if count[0]:
            call("aclmdlGetInputDynamicDims", self._handle, _WHOLE_MODEL, dims, count[0])
        yield (
            "dims",
            [tuple(int(d.dims[k]) for k in range(d.dimCount)) for d in dims[0 : count[0]]],
        )

    def output_shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an output in the gear that was set last."""
        dims = _lib.new("aclmdlIODims *")
        call("aclmdlGetCurOutputDims", self._handle, index, dims, ids={"output": index})
        return tuple(int(dims.dims[i]) for i in range(dims.dimCount))

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


def _format_name(value: int) -> str:
    try:
        return aclFormat(value).name.removeprefix("ACL_FORMAT_")
    except ValueError:
        return f"aclFormat({value})"
