"""Slots: what one run of a model needs beside the model, and the run itself.

Owns: device memory, pinned memory, events and a stream per run that may be under way. Must never
decide what is run: a plan says so. Used with the model's context current.

A run in streams is a hot path: what does not change from run to run of a shape is kept in a _Form.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import threading
import weakref
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ascendrt import _lib, _waits, dtypes
from ascendrt._lib import fast
from ascendrt._owned import Owned
from ascendrt.clocks import clock
from ascendrt.closing import Unique, close_all
from ascendrt.dataset import Dataset
from ascendrt.errors import AclError
from ascendrt.memory import Memory, PinnedMemory
from ascendrt.stream import Event, Stream
from ascendrt.tensors import GEAR_TENSOR, Gear

if TYPE_CHECKING:
    from ascendrt._openrun import Gate
    from ascendrt.model import Model

Array = np.ndarray[Any, Any]
_COPY = struct.Struct("=QQQQ")  # target, room, source, size


class Plan(NamedTuple):
    """How a run goes: its inputs, its gear, and the shapes of its results."""

    inputs: Sequence[Array]
    gear: Gear | None
    outputs: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class _Form:
    """The copies of a slot for inputs of one shape, through pinned memory."""

    inputs: list[tuple[Array, Array | None]]  # the rows used, the rest of the gear
    outputs: list[Array]
    ins: bytes  # copies as csrc/fastmodule.c reads them
    outs: bytes


class Slot(Owned):
    """See ascendrt/model.py, Note [Slots]."""

    def __init__(self, model: Model) -> None:
        self._model = model
        bounded = model.has_gears
        self._owned: list[Owned] = []
        self._closed = False
        self._forms: dict[Gear | None, _Form] = {}
        self._pinned: tuple[list[PinnedMemory], list[PinnedMemory]] | None = None
        self.run: weakref.ref[Run] | None = None  # whose result is still in the slot
        self.queued = False
        self.user = 0  # the thread of the call or run that has the slot
        self._follows = False  # a client's stream
        self._gate: Gate | None = None
        try:
            self.feed = self._own(Dataset(model.all_inputs, bounded=bounded))
            self.fetch = self._own(Dataset(model.outputs, bounded=bounded))
            self.ready = self._own(Event())  # the client's stream has come to the run
            self.computed = self._own(Event())  # the execution is over
            self.over = self._own(Event())  # and so are the copies of its results
            self.stream = self._own(Stream())
        except BaseException:
            self.close()
            raise
        self.takes_turn = False  # its last execution waits for another run's
        self.gear: Gear | None = None  # that the dataset is set to
        self.sets = (_lib.address(self.feed.handle), _lib.address(self.fetch.handle))
        self._stream_address = self.stream.address
        self.events = (self.computed.address, self.over.address)
        specs = enumerate(model.all_inputs)
        self._places = [index for index, spec in specs if spec.name != GEAR_TENSOR]

    def gate(self) -> Gate:
        """Return what a run in a thread holds a client's stream back with."""
        if self._gate is None:
            from ascendrt._openrun import Gate

            self._gate = self._own(Gate())
        return self._gate

    def _own(self, owned: Any) -> Any:
        self._owned.append(owned)
        return owned

    def _release(self) -> None:
        # The stream first: its copies use the rest.
        close_all(reversed(self._owned))
        self._forms.clear()

    def is_over(self) -> bool:
        """True when the last run of the slot is done with its memory."""
        if self.queued and not self.over.done:
            return False
        self.queued = False
        return True

    def _dtype(self, index: int) -> np.dtype[Any]:
        return dtypes.to_numpy(self._model.outputs[index].acl_dtype)

    @staticmethod
    def _unused(array: Array, gear: Gear | None) -> int:
        """Return the bytes of a batch's rows that the gear has and the input has not."""
        if gear is None or gear.rows is None or not array.shape[0]:
            return 0
        return (gear.value[0] - gear.rows) * (int(array.nbytes) // int(array.shape[0]))

    # ---- a run that is waited for

    def run_at_once(self, plan: Plan) -> list[Array]:
        """Run and return the results; arrays are copied from and to where they are."""
        model = self._model
        for place, array in zip(self._places, plan.inputs, strict=True):
            self.feed.write(place, array)
            if (rest := self._unused(array, plan.gear)) > 0:
                self.feed.memory(place).write(np.zeros(rest, np.uint8), array.nbytes)
        if model.is_open:
            model.execute_now(self)
            return [self.fetch.read(index) for index in range(len(plan.outputs))]
        model.queue(self, plan.gear)
        try:
            self._wait_at_once()
        except KeyboardInterrupt:
            self.queued = True  # the run goes on
            raise
        return [
            self.fetch.memory(index).read(shape, self._dtype(index))
            for index, shape in enumerate(plan.outputs)
        ]

    # ---- a run in streams

    def queue(self, plan: Plan, stream: Stream | None) -> None:
        """Queue a run in the slot's stream, and thereby in its place in the client's."""
        form = self._forms.get(plan.gear)
        if form is None:
            form = self._forms[plan.gear] = self._form(plan)
        for (view, rest), array in zip(form.inputs, plan.inputs, strict=True):
            view[...] = array
            if rest is not None:
                rest.fill(0)
        before = 0 if stream is None else stream.record(self.ready).address
        self._model.queue(self, plan.gear, before, form.ins, form.outs)
        self.queued, self._follows = True, stream is not None
        if stream is not None:
            stream.wait(self.over)

    def wait(self) -> None:
        """Wait for the run. It takes its own time only, unless it follows a client's stream."""
        if self._follows:
            self.stream.synchronize()
        else:
            self._wait_at_once()

    def _wait_at_once(self) -> None:
        """Wait with nothing between: a thread that comes at once runs the work itself."""
        if self.takes_turn:  # another's work, which may wait for anything
            self.stream.synchronize()
            return
        wait, address, api = fast.synchronize_stream, self._stream_address, "aclrtSynchronizeStream"
        durations, began_ns = self._model.durations, clock().now_ns()
        if durations.in_slices():
            code, api = _waits.wait(api, address)
        else:
            code = wait(address)
        durations.note(began_ns)
        if code:
            self.stream.failed(code, api, wait, address, model_id=self._model.model_id)

    def abandon(self) -> None:
        """After a run that could be queued in part only: wait until nothing of it is left.

        Not after Ctrl-C: then it was queued or was not.
        """
        with contextlib.suppress(AclError):
            self.stream.synchronize()
        self.queued = False

    def _form(self, plan: Plan) -> _Form:
        if self._pinned is None:
            feeds = [self.feed.memory(place) for place in self._places]
            fetches = [self.fetch.memory(index) for index in range(len(self._model.outputs))]
            self._pinned = (self._pin(feeds), self._pin(fetches))
        inputs: list[tuple[Array, Array | None]] = []
        outputs: list[Array] = []
        ins = outs = b""
        for place, array, pinned in zip(self._places, plan.inputs, self._pinned[0], strict=True):
            memory, unused = self.feed.memory(place), self._unused(array, plan.gear)
            size = array.nbytes + unused
            rest = pinned.numpy()[array.nbytes : size] if unused else None
            inputs.append((pinned.numpy(array.shape, array.dtype), rest))
            ins += _COPY.pack(memory.address, memory.size_bytes, pinned.address, size)
        for index, (shape, pinned) in enumerate(zip(plan.outputs, self._pinned[1], strict=True)):
            view, memory = pinned.numpy(shape, self._dtype(index)), self.fetch.memory(index)
            outputs.append(view)
            outs += _COPY.pack(pinned.address, pinned.size_bytes, memory.address, view.nbytes)
        return _Form(inputs, outputs, ins, outs)

    def _pin(self, memories: list[Memory]) -> list[PinnedMemory]:
        pinned = [PinnedMemory(memory.size_bytes) for memory in memories]
        self._owned[:0] = pinned
        return pinned

    def results(self, plan: Plan) -> list[Array]:
        """Return copies of what the run left in pinned memory."""
        return [view.copy() for view in self._forms[plan.gear].outputs]


class Run(Unique):
    """A run under way: `result()` waits for it, `await` does in an event loop."""

    def __init__(self, model: Model, slot: Slot, plan: Plan) -> None:
        self._model, self._slot, self._plan = model, slot, plan
        self._lock = threading.RLock()  # a signal's function may collect in between
        self._outcomes: list[tuple[list[Array], Exception | None]] = []  # the first one counts
        slot.run = weakref.ref(self)
        self._owed = [slot]  # to the model; no call lies between the two, so Ctrl-C does not

    @property
    def done(self) -> bool:
        """True when `result()` would not wait."""
        return not self._owed or self._slot.over.done

    def result(self) -> list[Array]:
        """Wait, and return one array per output.

        Raises: AclError of the run.
        """
        self.collect()
        results, error = self._outcomes[0]
        if error is not None:
            raise error
        return results

    def __await__(self) -> Generator[Any, None, list[Array]]:
        if not self.done:
            yield from clock().start(self.collect).__await__()
        return self.result()

    def collect(self) -> None:
        """Wait, and take the results out of the slot, which goes back to the model."""
        with self._lock:
            if self._outcomes:
                return
            try:
                outcome: tuple[list[Array], Exception | None] = (self._wait(), None)
            except Exception as error:
                outcome = ([], error)
            self._outcomes.append(outcome)
            with contextlib.suppress(IndexError):  # a signal's function gave it back
                slot = self._owed.pop()
                slot.run = None
                self._model.give(slot)

    def _wait(self) -> list[Array]:
        self._slot.wait()
        return self._slot.results(self._plan)

    def __del__(self) -> None:
        if getattr(self, "_owed", None) and not sys.is_finalizing():  # Ctrl-C while it is made
            self._model.give(self._slot)  # is used again once it is over
