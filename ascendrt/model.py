"""Offline models: load, run on numpy arrays, at once or in a stream.

Owns: the model id and the device memory of its runs. Must never reshape or convert an input on its
own: what does not fit is refused with what would fit.

Note [Slots]: a run needs device memory for its tensors, for a run that is not waited for pinned
memory beside it, and a stream of its own, so that a failure in it is that run's. Such a set is a
slot; it is used again once its run is over and its results were taken. Executions of one model take
turns, whatever their streams: a model's work memory is one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ascendrt import _lib, _waits, dtypes, interop
from ascendrt._lib import call, fast
from ascendrt._openrun import OpenRun
from ascendrt._owned import Owned, settle
from ascendrt._slot import Array, Plan, Run, Slot
from ascendrt.aipp import Aipp, aipp_index, as_bytes, is_aipp_block
from ascendrt.clocks import Signal, clock
from ascendrt.closing import close_all
from ascendrt.device import Scope, init
from ascendrt.errors import AclError
from ascendrt.stream import Stream
from ascendrt.tensors import GEAR_TENSOR, Description, Gear, Gears, TensorSpec

# A path, or the content of a file (any contiguous buffer).
Source = str | os.PathLike[str] | bytes | bytearray | memoryview

__all__ = ["Description", "Gears", "Model", "Run", "TensorSpec", "required_memory"]


# By the number that _fast.queue_run gives.
_STEPS = ("", "aclrtStreamWaitEvent", "aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtRecordEvent")


class Model(Owned):
    """A loaded offline model, callable on numpy arrays.

    It belongs to the context that was current when it was loaded and may be called from any thread.
    `inputs` and `outputs` describe its tensors, `gears` the shapes it was compiled for.

    Raises: FileNotFoundError; ModelError for a file that is no usable model or was built for
    another chip; AclError 107002 without a current device.
    Source: aclmdlLoadFromFile, aclmdlLoadFromMem, aclmdlExecuteAsync.
    """

    def __init__(self, source: Source) -> None:
        init()
        # Of executions, slots and users. A finalizer or a signal may come in between.
        self._order = threading.RLock()
        self._turns = threading.RLock()  # of the executions that are waited for
        self.durations = _waits.Durations()
        self.scope = Scope()
        self._free: list[Slot] = []
        self._slots: list[Slot] = []
        self._users: list[int] = []  # the threads of calls and runs that have a slot
        self._left: Signal | None = None  # for who closes the model: they have gone
        self._ends_with_last_user = False
        self._shapes_by_gear: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._last: Slot | None = None  # whose execution was queued last
        self.model_id = _load(source)
        self.scope.ids["model_id"] = self.model_id
        self._closed = False
        self._description = Description()
        try:
            self._description.of_model(self.model_id)
            self.gears = self._description.gears()
            specs = self._description.specs("Input")
            pictures = self.gears.kind == "none" and any(map(is_aipp_block, specs))
            self.all_inputs = as_bytes(self.model_id, specs) if pictures else specs
            self.inputs = tuple(spec for spec in self.all_inputs if spec.name != GEAR_TENSOR)
            self.outputs = self._description.specs("Output")
        except BaseException:
            self.close()
            raise
        self.has_gears = self.gears.kind != "none"
        # Only a run tells the shape of such results, and only a call that waits for it.
        specs = (*self.inputs, *self.outputs)
        self.is_open = not self.has_gears and any(spec.is_dynamic for spec in specs)
        self._fixed_outputs = [spec.shape for spec in self.outputs]
        self._expected = self._fixed_inputs()

    def __repr__(self) -> str:
        return f"Model(id={self.model_id})"

    def _release(self) -> None:
        runs = [slot.run() for slot in self._slots if slot.run is not None]
        for run in runs:
            if run is not None:
                run.collect()
        self._wait_for_users()

    def _wait_for_users(self) -> None:
        """Give all back when the last call is over.

        A signal or a finalizer that closes the model inside of a call does not wait: that call
        does it at its end. So it is when the wait is interrupted.
        """
        with self._order:
            waits = bool(self._users) and threading.get_ident() not in self._users
            left = self._left = clock().signal() if waits else None
        try:
            if left is not None:
                left.wait()
        finally:
            with self._order:
                self._ends_with_last_user = bool(self._users)
            if not self._ends_with_last_user:
                self._end()

    def _end(self) -> None:
        with self.scope.if_alive():
            try:
                close_all([*self._slots, self._description])
            finally:
                if code := self._unload():
                    again, ids = self._unload, {"model_id": self.model_id}
                    settle(code, "aclmdlUnload", self.scope.context, again, **ids)

    def _unload(self) -> int:
        return int(_lib.lib.aclmdlUnload(self.model_id))

    def __call__(self, *arrays: npt.ArrayLike, **named: npt.ArrayLike) -> list[Array]:
        """Run the model once and wait for the result.

        Give the inputs in order, or by name. Dtypes must be those of `inputs`, shapes as well; a
        dimension of -1 takes what a gear of the model has, the batch also less, and any size that
        the model allows when it has no gears. Types that numpy lacks (bfloat16, 8-bit floats) are
        given as unsigned integers that hold their bits, or as arrays of ml_dtypes, and come back as
        those integers. Contiguous arrays go to the device from where they are, others are copied
        once. The result holds one new array per entry of `outputs`.

        Raises: TypeError and ValueError for inputs that do not fit; AclError of the run.
        """
        plan = self._plan(arrays, named)
        with self.scope:
            slot = self._take()
            if self.is_open and self.durations.in_slices():
                return self._begin(slot, plan, None).result()
            try:
                return slot.run_at_once(plan)
            finally:
                self.give(slot)

    def run_async(
        self,
        inputs: Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike],
        stream: Stream | None = None,
    ) -> Run:
        """Queue a run and return at once; wait with `run.result()` or `await run`.

        With a stream of the model's context the run has its place there: it begins when all work
        before it is over, and later work waits for it. Without one, its copies overlap with what
        other runs compute. The inputs are taken as they are now: they may be changed when this
        returns. A failure of the run is told by the run.
        Of a model of open shapes a thread of the package waits for the run.

        Raises: as a call.
        """
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"stream is {stream!r}; it must be a Stream or None")
        named = inputs if isinstance(inputs, Mapping) else {}
        plan = self._plan(() if isinstance(inputs, Mapping) else _in_order(inputs), named)
        with self.scope:
            run = self._begin(self._take(), plan, stream)
        if self._closed:  # meanwhile: who closes waits for it
            run.collect()
        return run

    def _begin(self, slot: Slot, plan: Plan, stream: Stream | None) -> Run:
        slot.run = None
        try:
            if self.is_open:
                return OpenRun(self, slot, plan, stream)
            slot.queue(plan, stream)
            return Run(self, slot, plan)
        except AclError:
            slot.abandon()
            self.give(slot)
            raise
        except BaseException:  # what was queued goes on
            if slot.run is None:  # else the run gives it back
                slot.queued = True  # or it was not: it is over when the slot's event is
                self.give(slot)
            raise

    def aipp_block(self, aipp: Aipp, image: int = 0) -> Array:
        """Return parameters of a dynamic AIPP as the array that its input takes.

        `image` is the input that holds the pictures; without gears it takes max_src_image_size of
        the configuration in bytes, of which the pictures are the first. So
        `model(pictures, model.aipp_block(Aipp(...)))` runs with these parameters.

        Raises: ValueError for an input without a dynamic AIPP; AclError 100000 for parameters that
        do not fit the model. Source: aclmdlGetAippType, aclmdlSetInputAIPP.
        """
        self._require_open()
        with self.scope:
            index = aipp_index(self.model_id, image)
            if index is None:
                raise ValueError(f"input {image} of the model has no dynamic AIPP")
            spec, slot = self.all_inputs[index], self._take()
            try:
                aipp.set_for(self.model_id, slot.feed.handle, index, spec)
                block = np.empty(spec.shape, dtypes.to_numpy(spec.acl_dtype))
                slot.feed.memory(index).read_into(block)
                return block
            finally:
                self.give(slot)

    # ---- slots

    def _take(self) -> Slot:
        user = threading.get_ident()
        with self._order:
            self._require_open()
            self._users.append(user)
            slot = self._idle()
            if slot is not None:
                slot.user = user
                return slot
        try:
            slot = Slot(self)
        except BaseException:
            self._leave_user(user)
            raise
        slot.user = user
        with self._order:
            self._slots.append(slot)
        return slot

    def _idle(self) -> Slot | None:
        """Take out a slot whose last run is over, if there is one."""
        for slot in self._free.copy():
            try:
                self._free.remove(slot)
            except ValueError:  # a signal's function took it
                continue
            if slot.is_over():
                return slot
            self._free.append(slot)
        return None

    def give(self, slot: Slot) -> None:
        """Take a slot back for the next run."""
        with self._order:
            user = slot.user  # of this run: the slot may be another's at once
            self._free.append(slot)
        self._leave_user(user)

    def _leave_user(self, user: int) -> None:
        with self._order:
            self._users.remove(user)
            if self._users or not self._closed:
                return
            left, ends = self._left, self._ends_with_last_user
        if left is not None:
            left.set()
        if ends:
            self._end()

    def queue(
        self, slot: Slot, gear: Gear | None, before: int = 0, ins: bytes = b"", outs: bytes = b""
    ) -> None:
        """Queue an execution behind the one before it, and its copies around it."""
        stream = slot.stream.address
        with self._order:
            if gear is not None and gear != slot.gear:
                self._set_gear(slot, gear)
                slot.gear = gear
            last = self._last
            turn = 0 if last is None or last is slot else last.events[0]
            slot.takes_turn = last is not None and turn != 0 and not last.computed.done
            ended = fast.queue_run(
                self.model_id, *slot.sets, stream, before, turn, *slot.events, ins, outs
            )
            if ended:
                step, code = ended >> 32, ended & 0xFFFFFFFF
                raise _lib.failure(code, _STEPS[step], model_id=self.model_id)
            self._last = slot

    def execute_now(self, slot: Slot) -> None:
        """Run and wait; for models of which only a run tells the shape of the results."""
        with self._turns:
            began_ns = clock().now_ns()
            arguments = (self.model_id, slot.feed.handle, slot.fetch.handle)
            call("aclmdlExecute", *arguments, ids={"model_id": self.model_id})
            self.durations.note(began_ns)

    def _set_gear(self, slot: Slot, gear: Gear) -> None:
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

    def _plan(self, arrays: tuple[npt.ArrayLike, ...], named: Mapping[str, npt.ArrayLike]) -> Plan:
        self._require_open()
        if not named and self._fits_at_once(arrays):
            return Plan(cast("tuple[Array, ...]", arrays), None, self._fixed_outputs)
        inputs = self._arrange(arrays, named)
        if not self.has_gears:
            return Plan(inputs, None, self._fixed_outputs)
        gear = self.gears.choose(self.inputs, [array.shape for array in inputs])
        return Plan(inputs, gear, self.result_shapes(gear))

    def result_shapes(self, gear: Gear) -> list[tuple[int, ...]]:
        """Return the shapes of the results that a run in a gear has."""
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
                try:
                    self._shapes_by_gear[value] = self._ask_shapes(slot, Gear(value, None))
                finally:
                    self.give(slot)
        return self._shapes_by_gear[value]

    def _ask_shapes(self, slot: Slot, gear: Gear) -> list[tuple[int, ...]]:
        with self._order:
            slot.gear = None
            self._set_gear(slot, gear)
            return [self._description.output_shape(index) for index in range(len(self.outputs))]

    def _fixed_inputs(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]] | None:
        """Return shape and type of each input, where both are fixed and numpy has the type."""
        try:
            expected = [(spec.shape, dtypes.to_numpy(spec.acl_dtype)) for spec in self.inputs]
        except TypeError:
            return None
        return None if any(spec.is_dynamic for spec in self.inputs) else expected

    def _fits_at_once(self, arrays: tuple[npt.ArrayLike, ...]) -> bool:
        """True for arrays that need no second look; what is wrong with others _arrange says."""
        if self._expected is None or len(arrays) != len(self._expected):
            return False
        for array, (shape, dtype) in zip(arrays, self._expected, strict=True):
            if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return False
        return True

    def _output_shape(self, index: int, gear: Gear) -> tuple[int, ...]:
        shape = self.outputs[index].shape
        if self.gears.kind == "batch" and all(size >= 0 for size in shape[1:]):
            rows = gear.rows if shape[:1] == (-1,) else None
            return shape if rows is None else (rows, *shape[1:])
        raise ValueError(
            f"the model does not tell the shape of output {index} in gear {gear.value}"
        )

    def _arrange(
        self, arrays: tuple[npt.ArrayLike, ...], named: Mapping[str, npt.ArrayLike]
    ) -> list[Array]:
        names = [spec.name for spec in self.inputs]
        if arrays and named:
            raise TypeError("give the inputs either in order or by name, not both")
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            raise TypeError("give a call its inputs by name as model(**inputs), not as one dict")
        if len(arrays or named) != len(names):
            inputs = "1 input" if len(names) == 1 else f"{len(names)} inputs"
            aipp = any(map(is_aipp_block, self.inputs))
            raise TypeError(
                f"the model takes {inputs} {names}, got {len(arrays or named)}"
                + ("; aipp_block() makes the parameters of a dynamic AIPP" * aipp)
            )
        if unknown := sorted(set(named) - set(names)):
            raise TypeError(f"the model has no input {unknown}; its inputs are {names}")
        ordered = []
        values = arrays or map(named.__getitem__, names)
        for index, (spec, value) in enumerate(zip(self.inputs, values, strict=True)):
            array = interop.array(value)
            spec.check(array, f"input {index} ({spec.name!r})")
            ordered.append(dtypes.bits(array))
        return ordered


def _in_order(inputs: Sequence[npt.ArrayLike]) -> tuple[npt.ArrayLike, ...]:
    if not isinstance(inputs, Iterable) or hasattr(inputs, "dtype") or isinstance(inputs, str):
        raise TypeError(
            "give a run its inputs as a list of arrays or a dict by name, one for each input of "
            f"the model; this is one {type(inputs).__name__}"
        )
    return tuple(inputs)


def _load(source: Source) -> int:
    model_id = _lib.new("uint32_t *")
    content = _content(source)
    if content is not None:
        size = content.nbytes
        data, ids = _lib.readable(content), {"size_bytes": size}
        call("aclmdlLoadFromMem", data, size, model_id, ids=ids)
    else:
        path = Path(cast("str", source))
        if not path.exists():
            raise FileNotFoundError(f"no model file {path}")
        call("aclmdlLoadFromFile", os.fsencode(path), model_id, ids={"path": path})
    return int(model_id[0])


def _content(source: Source) -> memoryview | None:
    """Return the bytes of a model that is not given as a path."""
    if isinstance(source, (str, os.PathLike)):
        return None
    try:
        return memoryview(source).cast("B")
    except TypeError as error:
        raise TypeError(
            "a model is given by its path (str, Path) or its content (bytes, another contiguous "
            f"buffer), not by {type(source).__name__}: {error}"
        ) from None


def required_memory(source: Source) -> tuple[int, int]:
    """Return (work, weight) memory in bytes that a model will need; of a file or its contents.

    Raises: ModelError for what is no usable model. Source: aclmdlQuerySize, aclmdlQuerySizeFromMem.
    """
    init()
    work, weights = _lib.new("size_t *"), _lib.new("size_t *")
    content = _content(source)
    if content is not None:
        size, data = content.nbytes, _lib.readable(content)
        call("aclmdlQuerySizeFromMem", data, size, work, weights, ids={"size_bytes": size})
    else:
        path = os.fsencode(cast("str", source))
        call("aclmdlQuerySize", path, work, weights, ids={"path": source})
    return int(work[0]), int(weights[0])
