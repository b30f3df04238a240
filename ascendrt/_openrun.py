"""Runs of models of open shapes that are not waited for: a thread waits in the caller's place.

Only such a run tells the shapes of its results, and only a call that waits gives them memory. Its
place in a client's stream is kept by a notify, which the stream waits for and the thread records.
Must never leave the client's stream waiting: the notify is recorded however the run ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ascendrt import _lib
from ascendrt._lib import call, lib
from ascendrt._owned import Owned
from ascendrt._slot import Array, Plan, Run, Slot
from ascendrt.clocks import clock

if TYPE_CHECKING:
    from ascendrt.model import Model
    from ascendrt.stream import Stream

_AS_LONG_AS_IT_TAKES = 0  # timeout of aclrtWaitAndResetNotify


class Gate(Owned):
    """Holds a stream back until it is opened, once. Source: aclrtCreateNotify."""

    def __init__(self) -> None:
        handle = _lib.new("aclrtNotify *")
        call("aclrtCreateNotify", handle, 0)
        self._handle = handle[0]
        self._closed = False

    def hold(self, stream: Stream) -> None:
        """Let later work of a stream wait."""
        call("aclrtWaitAndResetNotify", self._handle, stream.handle, _AS_LONG_AS_IT_TAKES)

    def open(self, stream: Stream) -> None:
        """Let it go on when the work of another stream is over."""
        call("aclrtRecordNotify", self._handle, stream.handle)

    def _release(self) -> None:
        _lib.check_quiet(lib.aclrtDestroyNotify(self._handle), "aclrtDestroyNotify")


class OpenRun(Run):
    """A run under way in a thread of its own; used as every run."""

    def __init__(self, model: Model, slot: Slot, plan: Plan, stream: Stream | None) -> None:
        # The inputs are those of this moment: the thread copies them later.
        copied = Plan([np.array(array) for array in plan.inputs], plan.gear, plan.outputs)
        super().__init__(model, slot, copied)
        self._gate: Gate | None = None
        try:
            if stream is not None:
                self._hold(stream)
            self._future = clock().start(self._work)
        except BaseException:
            self._owed.clear()
            slot.run = None  # who called takes the slot back
            if self._gate is not None:
                self._gate.open(slot.stream)
            raise

    def _hold(self, stream: Stream) -> None:
        gate = self._slot.gate()
        stream.record(self._slot.ready)
        gate.hold(stream)
        self._gate = gate
        stream.record(self._slot.over)
        self._slot.queued = True

    @property
    def done(self) -> bool:
        """True when `result()` would not wait."""
        return not self._owed or self._future.done()

    def _work(self) -> list[Array]:
        with self._model.scope:
            try:
                if self._gate is not None:
                    self._slot.ready.synchronize()
                return self._slot.run_at_once(self._plan)
            finally:
                if self._gate is not None:
                    self._gate.open(self._slot.stream)

    def _wait(self) -> list[Array]:
        return self._future.result()
