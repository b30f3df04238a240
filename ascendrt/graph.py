"""Graphs: the work of a stream, recorded once and replayed as often as wanted.

Owns: the aclmdlRI, and what its tasks read and write. Must never let go of memory that a replay
still uses: what was recorded keeps its arrays and allocations until the graph is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ascendrt import _lib
from ascendrt._gen.enums import aclmdlRICaptureMode
from ascendrt._lib import call, fast, lib
from ascendrt._owned import InContext, settle
from ascendrt.stream import Stream

Mode = Literal["global", "thread", "relaxed"]
_MODES: dict[str, int] = {
    "global": int(aclmdlRICaptureMode.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL),
    "thread": int(aclmdlRICaptureMode.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL),
    "relaxed": int(aclmdlRICaptureMode.ACL_MODEL_RI_CAPTURE_MODE_RELAXED),
}


class Graph(InContext):
    """Recorded work. `with Graph.capture(stream) as graph:` records what the block queues.

    Nothing of the block runs then; `graph.replay(stream)` runs it, with the addresses that were
    recorded: change the contents of the arrays and of the memory between replays, not what is used.
    """

    def __init__(self) -> None:
        raise TypeError("record a graph: with Graph.capture(stream) as graph: ...")

    @classmethod
    @contextmanager
    def capture(cls, stream: Stream, mode: Mode = "thread") -> Iterator[Graph]:
        """Record what the block queues in `stream`, and in streams that wait for its events.

        `mode` says which calls that cannot be recorded are refused meanwhile: those of all threads
        ("global"), of this one ("thread"), or none ("relaxed").

        Raises: AclError 107024 and others for work that cannot be recorded; then no graph is made.
        Source: aclmdlRICaptureBegin, aclmdlRICaptureEnd.
        """
        call("aclmdlRICaptureBegin", stream.handle, _MODES[mode], ids={"stream": stream})
        graph = cls.__new__(cls)
        graph._address, graph._context = 0, fast.get_context()
        graph._needs = stream.begin_recording()
        try:
            yield graph
        except BaseException:
            stream.end_recording()
            graph._end(stream, failed=True)
            raise
        stream.end_recording()
        graph._end(stream, failed=False)

    _address: int
    _needs: list[object]

    def _end(self, stream: Stream, *, failed: bool) -> None:
        handle = _lib.new("aclmdlRI *")
        code = int(lib.aclmdlRICaptureEnd(stream.handle, handle))
        self._address = _lib.address(handle[0])
        if code or failed:
            error = _lib.failure(code, "aclmdlRICaptureEnd", stream=stream) if code else None
            if self._address:
                self._destroy()
            if error is not None and not failed:
                raise error
            return
        self._closed = False

    def __repr__(self) -> str:
        return f"Graph({self._address:#x})"

    def _release(self) -> None:
        try:
            if code := self._destroy():
                settle(code, "aclmdlRIDestroy", self._context, self._destroy, graph=self)
        finally:
            self._needs = []

    def _destroy(self) -> int:
        return int(lib.aclmdlRIDestroy(_lib.pointer(self._address)))

    @property
    def handle(self) -> _lib.Handle:
        """The aclmdlRI, for calls this object does not wrap."""
        self._require_open()
        return _lib.pointer(self._address)

    def replay(self, stream: Stream) -> None:
        """Queue all of the recorded work in a stream. Source: aclmdlRIExecuteAsync."""
        self._require_open()
        arguments = (self._address, _lib.address(stream.handle))
        call = fast.graph_execute_async
        if code := stream.submit(self._needs, call, *arguments):
            ids = {"graph": self, "stream": stream}
            self.failed(code, "aclmdlRIExecuteAsync", call, *arguments, **ids)
        stream.keep(self._needs)
