"""Offline models: load, run on numpy arrays, at once or in a stream.

Owns: the model id and the device memory of its runs. Must never reshape or convert an input on its
own: what does not fit is refused with what would fit.

Note [Slots]: a run needs device memory for its tensors, and for a run in a stream pinned memory
beside it. Such a set is a slot; it is used again once its run is over and its results were taken.
Executions of one model take turns, also those in different streams: a model's work memory is one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt import _lib, dtypes
from ascendrt._lib import call, fast
from ascendrt._owned import Owned, settle
from ascendrt.clocks import clock
from ascendrt.dataset import Dataset
from ascendrt.device import Scope, init
from ascendrt.errors import AclError
from ascendrt.memory import PinnedMemory
from ascendrt.stream import Event, Stream
from ascendrt.tensors import GEAR_TENSOR, Description, Gear, Gears, TensorSpec

__all__ = ["Description", "Gears", "Model", "Run", "TensorSpec", "required_memory"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Plan:
    """How a run goes: its inputs, its gear, and what its outputs look like."""

    inputs: list[Array]
    gear: Gear | None
    outputs: list[tuple[int, ...]]  # shapes of the results


class Model(Owned):
    """A loaded offline model, callable on numpy arrays.

    It belongs to the context that was current when it was loaded and may be called from any thread.
    `inputs` and `outputs` describe its tensors, `gears` the shapes it was compiled for.

    Raises: FileNotFoundError; ModelError for a file that is no usable model or was built for
    another chip; AclError 107002 without a current device.
    Source: aclmdlLoadFromFile, aclmdlLoadFromMem, aclmdlExecuteAsync.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        init()
        self._order = threading.Lock()  # of the executions, and of the slots
        self.scope = Scope()
        self._free: list[_Slot] = []
        self._slots: list[_Slot] = []
        self._runs: weakref.WeakSet[Run] = weakref.WeakSet()
        self._shapes_by_gear: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._last: _Slot | None = None  # whose execution was queued last
        self._last_stream: Stream | None = None
        self.model_id = _load(source)
        self._closed = False
        self._description = Description()
        try:
            self._description.of_model(self.model_id)
            self.gears = self._description.gears()
            self._all_inputs = self._description.specs("Input")
            self.inputs = tuple(spec for spec in self._all_inputs if spec.name != GEAR_TENSOR)
            self.outputs = self._description.specs("Output")
        except BaseException:
            self.close()
            raise
        self._has_gears = self.gears.kind != "none"
        # Only a run tells the shape of such results, and only a run that is waited for.
        self._open = not self._has_gears and any(spec.is_dynamic for spec in self.outputs)

    def __repr__(self) -> str:
        return f"Model(id={self.model_id})"

    def _release(self) -> None:
        for run in list(self._runs):
            run.collect()
        with self.scope:
            for slot in self._slots:
                slot.close()
            self._description.close()
            if code := self._unload():
                settle(
                    code, "aclmdlUnload", self.scope.context, self._unload, model_id=self.model_id
                )

    def _unload(self) -> int:
        return int(_lib.lib.aclmdlUnload(self.model_id))

    def __call__(self, *arrays: npt.ArrayLike, **named: npt.ArrayLike) -> list[Array]:
        """Run the model once and wait for the result.

        Give the inputs in order, or by name. Dtypes must be those of `inputs`, shapes as well; a
        dimension of -1 takes what a gear of the model has, the batch also less. Contiguous arrays
        go to the device from where they are, others are copied once. The result holds one new
        array per entry of `outputs`.

        Raises: TypeError and ValueError for inputs that do not fit; AclError of the run.
        """
        plan = self._plan(arrays, named)
        with self.scope:
            slot = self._take()
            try:
                return slot.run_at_once(plan)
            finally:
                self._give(slot)

    def run_async(
        self, inputs: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike], stream: Stream
    ) -> Run:
        """Queue a run in a stream of the model's context and return at once.

        The inputs are taken as they are now: they may be changed when this returns. Wait with
        `run.result()`, `await run`, or whatever waits for the stream.

        Raises: as a call; ValueError for a model of which only a run tells the result's shape.
        """
        return self.run_staged(inputs, stream, stream, stream)

    def run_staged(
        self,
        inputs: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike],
        copy_in: Stream,
        compute: Stream,
        copy_out: Stream,
    ) -> Run:
        """Queue a run with its parts in streams of their own, which wait for each other.

        Raises: as run_async.
        """
        named = inputs if isinstance(inputs, Mapping) else {}
        plan = self._plan(() if isinstance(inputs, Mapping) else tuple(inputs), named)
        if self._open:
            raise ValueError(
                "only a run of this model tells the shape of its result; call the model instead"
            )
        with self.scope:
            slot = self._take()
            try:
                slot.queue(plan, copy_in, compute, copy_out)
            except BaseException:
                slot.abandon(copy_in, compute, copy_out)
                self._give(slot)
                raise
        run = Run(self, slot, plan, (compute, copy_out, copy_in))
        self._runs.add(run)
        return run

    # ---- slots

    def _take(self) -> _Slot:
        with self._order:
            for index, slot in enumerate(self._free):
                if slot.is_over():
                    return self._free.pop(index)
        if (spec := self._unbounded()) is not None:
            raise ValueError(
                f"tensor {spec.name!r} has the open shape {spec.shape}; "
                "convert the model again with --input-shape to fix it"
            )
        slot = _Slot(self)
        with self._order:
            self._slots.append(slot)
        return slot

    def _unbounded(self) -> TensorSpec | None:
        if self._has_gears:
            return None
        return next((spec for spec in self.inputs if spec.is_dynamic), None)

    def _give(self, slot: _Slot) -> None:
        with self._order:
            self._free.append(slot)

    def _execute(self, slot: _Slot, gear: Gear | None, stream: Stream) -> None:
        """Queue the execution behind the one before it, wherever that is."""
        with self._order:
            if self._last is not None and self._last_stream is not stream:
                stream.wait(self._last.computed)
            if gear is not None:
                self._set_gear(slot, gear)
            arguments = (self.model_id, slot.feed_address, slot.fetch_address, stream._address)
            if code := fast.model_execute_async(*arguments):
                raise _lib.failure(code, "aclmdlExecuteAsync", model_id=self.model_id)
            stream.record(slot.computed)
            self._last, self._last_stream = slot, stream

    def _set_gear(self, slot: _Slot, gear: Gear) -> None:
        ids = {"model_id": self.model_id, self.gears.kind: gear.value}
        target = (self.model_id, slot.feed.handle, self.gears.index)
        if self.gears.kind == "batch":
            call("aclmdlSetDynamicBatchSize", *target, gear.value[0], ids=ids)
        elif self.gears.kind == "image":
            call("aclmdlSetDynamicHWSize", *target, *gear.value, ids=ids)
        else:
            dims = _lib.new("aclmdlIODims *")
            dims.dimCount = len(gear.value)
            for index, size in enumerate(gear.value):
                dims.dims[index] = size
            call("aclmdlSetInputDynamicDims", *target, dims, ids=ids)

    # ---- inputs and shapes

    def _plan(self, arrays: tuple[npt.ArrayLike, ...], named: Mapping[str, npt.ArrayLike]) -> _Plan:
        self._require_open()
        inputs = self._arrange(arrays, named)
        if not self._has_gears:
            return _Plan(inputs, None, [spec.shape for spec in self.outputs])
        gear = self.gears.choose(self.inputs, [array.shape for array in inputs])
        return _Plan(inputs, gear, self._result_shapes(gear))

    def _result_shapes(self, gear: Gear) -> list[tuple[int, ...]]:
        shapes = self._gear_shapes(gear.value)
        if gear.rows is None:
            return shapes
        # The dims that follow the batch are those that another batch changes.
        other = self._gear_shapes(next(v for v in reversed(self.gears.values) if v != gear.value))
        return [
            (gear.rows, *shape[1:]) if shape[:1] != second[:1] else shape
            for shape, second in zip(shapes, other, strict=True)
        ]

    def _gear_shapes(self, value: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Ask the model, once per gear: it tells the shapes of the gear that was set last."""
        if value not in self._shapes_by_gear:
            with self.scope:
                slot = self._take()
                with self._order:
                    self._set_gear(slot, Gear(value, None))
                    self._shapes_by_gear[value] = [
                        self._description.output_shape(index) for index in range(len(self.outputs))
                    ]
                self._give(slot)
        return self._shapes_by_gear[value]

    def _arrange(
        self, arrays: tuple[npt.ArrayLike, ...], named: Mapping[str, npt.ArrayLike]
    ) -> list[Array]:
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


class _Slot(Owned):
    """What one run needs; see Note [Slots]. Used with the model's context current."""

    def __init__(self, model: Model) -> None:
        self._model = model
        bounded = model._has_gears
        self._owned: list[Owned] = []
        self._closed = False
        self._staged: tuple[list[PinnedMemory], list[PinnedMemory]] | None = None
        try:
            self.feed = self._own(Dataset(model._all_inputs, bounded=bounded))
            self.fetch = self._own(Dataset(model.outputs, bounded=bounded))
            self.ready = self._own(Event())  # the inputs are in
            self.computed = self._own(Event())  # the execution is over
            self.over = self._own(Event())  # and so are the copies of its results
            self.stream = self._own(Stream())
        except BaseException:
            self.close()
            raise
        self.feed_address = _lib.address(self.feed.handle)
        self.fetch_address = _lib.address(self.fetch.handle)
        self._places = [
            index for index, spec in enumerate(model._all_inputs) if spec.name != GEAR_TENSOR
        ]
        self._dtypes: list[np.dtype[Any]] | None = None
        self.queued = False

    def _own(self, owned: Any) -> Any:
        self._owned.append(owned)
        return owned

    def _release(self) -> None:
        if self._staged is not None:
            self._owned += [*self._staged[0], *self._staged[1]]
        for owned in reversed(self._owned):
            owned.close()

    def is_over(self) -> bool:
        """True when the last run of the slot is done with its memory."""
        if self.queued and not self.over.done:
            return False
        self.queued = False
        return True

    def dtype(self, index: int) -> np.dtype[Any]:
        """Return the element type of an output. Raises: TypeError where numpy has none."""
        if self._dtypes is None:
            self._dtypes = [dtypes.to_numpy(spec.acl_dtype) for spec in self._model.outputs]
        return self._dtypes[index]

    # ---- a run that is waited for

    def run_at_once(self, plan: _Plan) -> list[Array]:
        model = self._model
        for place, array in zip(self._places, plan.inputs, strict=True):
            memory = self.feed.memory(place)
            memory.write(np.ascontiguousarray(array))
            if (rest := self._unused(array, plan.gear)) > 0:
                memory.write(np.zeros(rest, np.uint8), array.nbytes)
        if model._open:
            with model._order:
                arguments = (model.model_id, self.feed.handle, self.fetch.handle)
                call("aclmdlExecute", *arguments, ids={"model_id": model.model_id})
            return [self.fetch.read(index) for index in range(len(plan.outputs))]
        model._execute(self, plan.gear, self.stream)
        self.stream.synchronize()
        return [
            self.fetch.memory(index).read(shape, self.dtype(index))
            for index, shape in enumerate(plan.outputs)
        ]

    @staticmethod
    def _unused(array: Array, gear: Gear | None) -> int:
        """Return the bytes of a batch's rows that the gear has and the input has not."""
        if gear is None or gear.rows is None or not array.shape[0]:
            return 0
        return (gear.value[0] - gear.rows) * (int(array.nbytes) // int(array.shape[0]))

    # ---- a run in a stream

    def queue(self, plan: _Plan, copy_in: Stream, compute: Stream, copy_out: Stream) -> None:
        inputs, outputs = self._staging()
        for place, array, pinned in zip(self._places, plan.inputs, inputs, strict=True):
            size = array.nbytes + self._unused(array, plan.gear)
            np.copyto(pinned.numpy(array.shape, array.dtype), array)
            pinned.numpy()[array.nbytes : size] = 0
            if size:
                copy_in.write(self.feed.memory(place), pinned.numpy((size,)))
        self.queued = True
        if compute is not copy_in:
            compute.wait(copy_in.record(self.ready))
        self._model._execute(self, plan.gear, compute)
        if copy_out is not compute:
            copy_out.wait(self.computed)
        for index, (shape, pinned) in enumerate(zip(plan.outputs, outputs, strict=True)):
            copy_out.read_into(self.fetch.memory(index), pinned.numpy(shape, self.dtype(index)))
        copy_out.record(self.over)

    def abandon(self, *streams: Stream) -> None:
        """After a run that could be queued in part only: wait until nothing of it is left."""
        for stream in streams:
            with contextlib.suppress(AclError, ValueError):
                stream.synchronize()
        self.queued = False

    def _staging(self) -> tuple[list[PinnedMemory], list[PinnedMemory]]:
        if self._staged is None:
            self._staged = (
                [PinnedMemory(self.feed.memory(place).size_bytes) for place in self._places],
                [
                    PinnedMemory(self.fetch.memory(index).size_bytes)
                    for index in range(len(self._model.outputs))
                ],
            )
        return self._staged

    def results(self, plan: _Plan) -> list[Array]:
        """Return copies of what the run left in pinned memory."""
        _, outputs = self._staging()
        return [
            pinned.numpy(shape, self.dtype(index)).copy()
            for index, (shape, pinned) in enumerate(zip(plan.outputs, outputs, strict=True))
        ]


class Run:
    """A run in a stream: `result()` waits for it, `await` does in an event loop."""

    def __init__(self, model: Model, slot: _Slot, plan: _Plan, streams: tuple[Stream, ...]) -> None:
        self._model, self._slot, self._plan, self._streams = model, slot, plan, streams
        self._failures = [stream.failures for stream in streams]
        self._lock = threading.Lock()
        self._results: list[Array] | None = None
        self._error: AclError | None = None
        self._taken = False

    @property
    def done(self) -> bool:
        """True when `result()` would not wait."""
        return self._taken or self._slot.over.done

    def result(self) -> list[Array]:
        """Wait, and return one array per output.

        Raises: AclError of the run, or of other work in the stream meanwhile.
        """
        self.collect()
        if self._error is not None:
            raise self._error
        assert self._results is not None
        return self._results

    def __await__(self) -> Generator[Any, None, list[Array]]:
        if not self.done:
            yield from clock().start(self.collect).__await__()
        return self.result()

    def collect(self) -> None:
        """Wait, and take the results out of the slot, which goes back to the model."""
        with self._lock:
            if self._taken:
                return
            try:
                self._slot.over.synchronize()
                for stream, failures in zip(self._streams, self._failures, strict=True):
                    stream.check_failures(failures)
                self._results = self._slot.results(self._plan)
            except AclError as error:
                self._error = error
            self._taken = True
            self._model._give(self._slot)
            self._model._runs.discard(self)

    def __del__(self) -> None:
        if not self._taken:
            self._model._give(self._slot)  # is used again once it is over


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


def required_memory(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return (work, weight) memory in bytes that a model file will need.

    Raises: ModelError for a file that is no usable model. Source: aclmdlQuerySize.
    """
    work, weights = _lib.new("size_t *"), _lib.new("size_t *")
    call("aclmdlQuerySize", os.fsencode(path), work, weights, ids={"path": path})
    return int(work[0]), int(weights[0])
