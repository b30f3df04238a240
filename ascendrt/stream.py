"""Streams and events: ordered asynchronous work and marks in it.

Owns: what a copy in flight needs (host arrays and memory objects live until it is over), functions
of Python in a stream. Must never keep a Python object of the device layer alive by accident:
handles are numbers here.

Note [What is kept]: threads share streams. What a task needs is appended after the task was queued,
and the list is taken away before the mark is recorded, or the wait begun, with which it is dropped:
so the task comes before that, also when another thread takes the list while this one appends.
"""

from __future__ import annotations

import logging
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ascendrt import _forks, _lib, _waits, numbers
from ascendrt._copies import ON_DEVICE, TO_DEVICE, TO_HOST
from ascendrt._gen.enums import (
    aclrtEventRecordedStatus,
    aclrtMemLocationType,
    aclrtStreamStatus,
)
from ascendrt._lib import call, fast, lib
from ascendrt._owned import InContext, settle
from ascendrt.clocks import clock
from ascendrt.errors import WaitTimeoutError

if TYPE_CHECKING:
    from ascendrt.interop import HostArray
    from ascendrt.memory import Memory

_log = logging.getLogger(__name__)
_STREAM_COMPLETE = int(aclrtStreamStatus.ACL_STREAM_STATUS_COMPLETE)
_STREAM_RUNNING = int(aclrtStreamStatus.ACL_STREAM_STATUS_NOT_READY)
_EVENT_COMPLETE = int(aclrtEventRecordedStatus.ACL_EVENT_RECORDED_STATUS_COMPLETE)
_EVENT_PENDING = int(aclrtEventRecordedStatus.ACL_EVENT_RECORDED_STATUS_NOT_READY)
_PINNED = int(aclrtMemLocationType.ACL_MEM_LOCATION_TYPE_HOST)
# So many copies are kept alive together before their stream is asked how far it is.
_KEPT_TOGETHER = 64
# So many tasks have room in a stream of every chip, and so many are queued between two marks.
_SURELY_FIT = 1900
_MARKED_TOGETHER = 512


class _Mark(NamedTuple):
    """What is no longer needed once an event has come."""

    event: Event
    kept: list[object]
    tasks: int  # queued since the mark before

    def has_come(self) -> bool:
        """True when it was passed; anything for one that another thread has dropped."""
        status = fast.event_status(self.event._address)
        if status < 0:
            _lib.forget_failure()
        return status == _EVENT_COMPLETE


class Stream(InContext):
    """A queue of work in the calling thread's current context.

    `await stream` waits as `synchronize` does, without blocking the event loop.

    Raises: AclError 107002 without a current device or context.
    Source: aclrtCreateStream.
    """

    def __init__(self) -> None:
        handle = _lib.new("aclrtStream *")
        call("aclrtCreateStream", handle)
        self._address = _lib.address(handle[0])
        self._context = fast.get_context()
        self._kept: list[object] = []
        self._guard = threading.RLock()  # of the marks; a signal may come in between
        self._marks: deque[_Mark] = deque()
        self._tasks = 0  # up to the last mark, and since the last one that has come
        self._room = _MARKED_TOGETHER  # tasks until the next mark
        self._crowded = False  # there may be no room: submitting may wait
        self._stuck: _Mark | None = None  # a mark that did not come soon
        self._recording: list[object] | None = None
        self._raised: list[BaseException] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"Stream({self._address:#x})"

    def _release(self) -> None:
        try:
            self._finish()
            if code := self._destroy():
                settle(code, "aclrtDestroyStream", self._context, self._destroy, stream=self)
        finally:
            self._drop_kept()
            for error in self._raised:
                _log.error("a function in %r raised, nobody waited for it", self, exc_info=error)
            self._raised.clear()

    def _finish(self) -> None:
        """Wait for what is queued, as destroying does, but so that Ctrl-C drops it."""
        if not (_waits.gets_signals() and self._is_running()):
            return
        try:
            _waits.wait("aclrtSynchronizeStream", self._address)
        except KeyboardInterrupt:
            lib.aclrtDestroyStreamForce(_lib.pointer(self._address))
            raise

    def _destroy(self) -> int:
        return int(lib.aclrtDestroyStream(_lib.pointer(self._address)))

    @property
    def handle(self) -> _lib.Handle:
        """The aclrtStream, for calls this object does not wrap."""
        self._require_open()
        return _lib.pointer(self._address)

    @property
    def address(self) -> int:
        """The handle as a number."""
        if self._closed:
            raise self._refusal()
        return self._address

    @property
    def done(self) -> bool:
        """True when everything queued so far has run."""
        self._require_open()
        status = self.asked("aclrtStreamQuery", fast.stream_status, self._address, stream=self)
        return status == _STREAM_COMPLETE

    def synchronize(self, timeout_ms: int | None = None) -> None:
        """Wait until everything queued has run; with `timeout_ms`, at most so long.

        Raises: WaitTimeoutError when the time ran out; AclError of a task that failed; what a
        function of `call` raised.
        """
        self._require_open()
        _waits.refuse_in_function()
        kept, self._kept = self._kept, []  # before the wait: Note [What is kept]
        marks = self._take_marks()
        try:
            if timeout_ms is None:
                self._synchronize()
            else:
                self._synchronize_within(numbers.int32(timeout_ms, "timeout_ms"))
        except BaseException:  # the work may still go on
            self._kept[:0] = kept
            with self._guard:
                self._marks.extendleft(reversed(marks))
                self._tasks += sum(mark.tasks for mark in marks)
            raise
        self._crowded = False
        for mark in marks:
            mark.event.close()
        if self._raised:
            raise self._raised.pop(0)

    def _synchronize(self) -> None:
        call, address = fast.synchronize_stream, self._address
        if _waits.gets_signals() and self._is_running():
            code, api = _waits.wait("aclrtSynchronizeStream", address)
        else:
            code, api = call(address), "aclrtSynchronizeStream"
        if code:
            self.failed(code, api, call, address, stream=self)

    def _is_running(self) -> bool:
        status = fast.stream_status(self._address)
        if status < 0:
            _lib.forget_failure()  # what comes next says it again
        return status == _STREAM_RUNNING

    def _synchronize_within(self, timeout_ms: int) -> None:
        code, api = _waits.wait_within(timeout_ms, "aclrtSynchronizeStream", self._address)
        if code:
            again, arguments = lib.aclrtSynchronizeStreamWithTimeout, (self.handle, timeout_ms)
            try:
                self.failed(code, api, again, *arguments, stream=self, timeout_ms=timeout_ms)
            except WaitTimeoutError as error:  # its text knows of the last slice only
                error.text = re.sub(
                    r"within \d+ ms", f"within {timeout_ms} ms", error.text, count=1
                )
                raise

    def __await__(self) -> Generator[Any, None, None]:
        self._require_open()
        if self.done:
            self.synchronize()  # tells of failures, and waits for nothing
        else:
            yield from clock().start(self.synchronize).__await__()

    # ---- work

    def record(self, event: Event) -> Event:
        """Queue a mark: `event` is complete when all work before it has run. Returns `event`."""
        if self._closed or event._closed:
            raise self._refusal() if self._closed else event._refusal()
        call, mark, stream = fast.record_event, event._address, self._address
        if code := self.submit(event, call, mark, stream) if self._crowded else call(mark, stream):
            self.failed(code, "aclrtRecordEvent", call, mark, stream, stream=self, event=event)
        self._room -= 1
        if self._room <= 0:
            self._mark()
        return event

    def wait(self, event: Event) -> None:
        """Let later work of this stream wait for a recorded event; does not block the caller."""
        if self._closed or event._closed:
            raise self._refusal() if self._closed else event._refusal()
        call, mark, stream = fast.stream_wait_event, event._address, self._address
        if code := self.submit(event, call, stream, mark) if self._crowded else call(stream, mark):
            self.failed(code, "aclrtStreamWaitEvent", call, stream, mark, stream=self, event=event)
        self._room -= 1
        if self._room <= 0:
            self._mark()

    def write(self, memory: Memory, source: HostArray, offset_bytes: int = 0) -> None:
        """Queue a copy of a host array to the device.

        The stream keeps `source` and `memory` until the copy is over; leave the elements as they
        are until then. Of memory that is not pinned the call waits for the stream and the copy.

        Raises: as Memory.write.
        """
        from ascendrt import interop  # and with it numpy, which a stream alone does not need

        array = interop.view(source)
        target, room = memory.span(array.nbytes, offset_bytes)
        data, size = interop.address(array), array.nbytes
        self._copy(target, room, data, size, TO_DEVICE, (array, memory))

    def read_into(self, memory: Memory, target: HostArray, offset_bytes: int = 0) -> None:
        """Queue a copy from the device to a host array; it is whole after `synchronize`.

        The stream keeps `target` and `memory` until the copy is over. Into memory that is not
        pinned it is over when the call returns: it waits for the stream. Raises: as
        Memory.read_into.
        """
        from ascendrt import interop

        array = interop.view(target, writable=True)
        size, data = array.nbytes, interop.address(array)
        source, _ = memory.span(size, offset_bytes)
        self._copy(data, size, source, size, TO_HOST, (array, memory))

    def copy(self, target: Memory, source: Memory, size_bytes: int | None = None) -> None:
        """Queue a copy between allocations of this device, by default of all of `source`.

        Raises: ValueError when it does not fit.
        """
        size = _size_of_part(source, size_bytes)
        begin, _ = source.span(size)
        end, room = target.span(size)
        self._copy(end, room, begin, size, ON_DEVICE, (target, source))

    def fill(self, memory: Memory, byte: int, size_bytes: int | None = None) -> None:
        """Queue setting the first bytes, by default all, to the same value, 0 to 255."""
        self._require_open()
        size = _size_of_part(memory, size_bytes)
        address, room = memory.span(size)
        arguments = (address, room, numbers.byte(byte), size, self._address)
        call = fast.memset_async
        if code := self.submit(memory, call, *arguments) if self._crowded else call(*arguments):
            self.failed(code, "aclrtMemsetAsync", call, *arguments, stream=self, memory=memory)
        self.keep(memory)

    def call(self, function: Callable[[], object]) -> None:
        """Queue a function; it runs on a thread of the runtime once all work before it has run.

        Later work waits for it. What it raises is raised by the next `synchronize`. It must not
        call the runtime, as on a card. Source: aclrtLaunchHostFunc.
        """
        self._require_open()
        self.keep(_Function(self, function))

    def _copy(
        self, target: int, room: int, source: int, size: int, kind: int, keep: object
    ) -> None:
        self._require_open()
        if not size:
            return
        arguments = (target, room, source, size, kind, self._address)
        call = fast.memcpy_async
        if self._crowded or (kind != ON_DEVICE and _waits.gets_signals() and self._is_running()):
            waits = kind != ON_DEVICE and not _is_pinned(target if kind == TO_HOST else source)
            code = self.submit(keep, call, *arguments, waits=waits)
        else:
            code = call(*arguments)
        if code:
            self.failed(code, "aclrtMemcpyAsync", call, *arguments, stream=self, size_bytes=size)
        self.keep(keep)

    def submit(
        self, owner: object, call: Callable[..., int], *arguments: Any, waits: bool = False
    ) -> int:
        """Queue a task where there may be no room, so that Ctrl-C ends the wait for it.

        `waits`: the call does in any case. Returns the status of the call. Interrupted, the task is
        queued all the same once there is room, and `owner` is kept until it has run.
        """
        if not _waits.gets_signals():
            return call(*arguments)
        if not waits and not self._has_no_room():
            return call(*arguments)
        return _waits.elsewhere(lambda: call(*arguments), lambda: self.keep(owner))

    def _has_no_room(self) -> bool:
        oldest = self._first_mark() if self._see_room() else None
        if oldest is not None and oldest is not self._stuck:
            if not _waits.comes_soon("aclrtSynchronizeEvent", oldest.event._address):
                self._stuck = oldest
            self._see_room()
        return self._crowded

    # ---- what work in flight needs

    def keep(self, owner: object) -> None:
        """Keep an object alive until all work queued so far has run: that of one task."""
        if self._recording is not None:
            self._recording.append(owner)
            return
        self._kept.append(owner)
        self._room -= 1
        if self._room <= 0 or len(self._kept) >= _KEPT_TOGETHER:
            self._mark()

    def begin_recording(self) -> list[object]:
        """Return the list that takes what work needs which is recorded from now on."""
        self._recording = []
        return self._recording

    def end_recording(self) -> None:
        """Keep things until work has run again."""
        self._recording = None

    def _mark(self) -> None:
        """Drop what is no longer needed, and note up to where the rest is."""
        if self._recording is not None:  # what is recorded takes no room
            self._room = _MARKED_TOGETHER
            return
        if self._see_room():
            return
        tasks, self._room = _MARKED_TOGETHER - self._room, _MARKED_TOGETHER
        kept, self._kept = self._kept, []
        event = self.record(Event())
        with self._guard:
            self._marks.append(_Mark(event, kept, tasks))
            self._tasks += tasks
        self._see_room()

    def _see_room(self) -> bool:
        """Drop what is no longer needed; returns whether there may be no room for more."""
        while mark := self._first_mark():
            if not mark.has_come():
                break
            with self._guard:  # another thread may have dropped it meanwhile
                dropped = mark is self._first_mark()
                if dropped:
                    self._marks.popleft()
                    self._tasks -= mark.tasks
            if dropped:
                mark.event.close()
        self._crowded = self._tasks >= _SURELY_FIT - _MARKED_TOGETHER
        return self._crowded

    def _first_mark(self) -> _Mark | None:
        with self._guard:
            return self._marks[0] if self._marks else None

    def _take_marks(self) -> deque[_Mark]:
        with self._guard:
            marks, self._marks, self._tasks = self._marks, deque(), 0
        return marks

    def _drop_kept(self) -> None:
        self._kept = []
        for mark in self._take_marks():
            mark.event.close()


def _is_pinned(address: int) -> bool:
    """True for host memory that the device reaches while the host goes on."""
    found = _lib.new("aclrtPtrAttributes *")
    call("aclrtPointerGetAttributes", _lib.pointer(address), found)
    return int(found.location.type) == _PINNED


def _size_of_part(memory: Memory, size_bytes: int | None) -> int:
    """Return how many of its bytes are meant."""
    return memory.size_bytes if size_bytes is None else numbers.whole(size_bytes, "size_bytes", 0)


class _Function:
    """A function of Python in a stream. C knows it by a number.

    The stream keeps it until it has run, a graph for as long as it may be replayed.
    """

    _lock = _forks.lock()
    _entry: _lib.Callback | None = None
    _alive: ClassVar[weakref.WeakValueDictionary[int, _Function]] = weakref.WeakValueDictionary()
    _last = 0

    def __init__(self, stream: Stream, function: Callable[[], object]) -> None:
        self._raised = stream._raised
        self._function = function
        with _Function._lock:
            if _Function._entry is None:
                _Function._entry = _lib.Callback("void(void *)", _Function._run)
            _Function._last += 1
            number = _Function._last
        _Function._alive[number] = self
        arguments = (stream.handle, _Function._entry.pointer, _lib.pointer(number))
        launch = lib.aclrtLaunchHostFunc
        if code := stream.submit(self, launch, *arguments):
            stream.failed(code, "aclrtLaunchHostFunc", launch, *arguments, stream=stream)

    @staticmethod
    def _run(number: _lib.Handle) -> None:
        own = _Function._alive.get(_lib.address(number))
        if own is None:
            return  # its stream was closed
        thread = threading.get_ident()
        _waits.in_functions.add(thread)
        try:
            own._function()
        except BaseException as error:
            own._raised.append(error)
        finally:
            _waits.in_functions.discard(thread)


class Event(InContext):
    """A mark in a stream, with a time stamp. `await event` waits for it in an event loop.

    Raises: AclError 107002 without a current device or context.
    Source: aclrtCreateEvent (the plain kind: synchronisation and time line).
    """

    def __init__(self) -> None:
        handle = _lib.new("aclrtEvent *")
        call("aclrtCreateEvent", handle)
        self._address = _lib.address(handle[0])
        self._context = fast.get_context()
        self._closed = False

    def __repr__(self) -> str:
        return f"Event({self._address:#x})"

    def _release(self) -> None:
        if code := self._destroy():
            settle(code, "aclrtDestroyEvent", self._context, self._destroy, event=self)

    def _destroy(self) -> int:
        return int(lib.aclrtDestroyEvent(_lib.pointer(self._address)))

    @property
    def handle(self) -> _lib.Handle:
        """The aclrtEvent, for calls this object does not wrap."""
        self._require_open()
        return _lib.pointer(self._address)

    @property
    def address(self) -> int:
        """The handle as a number."""
        self._require_open()
        return self._address

    @property
    def done(self) -> bool:
        """True when the last recorded mark was reached; False when it was never recorded."""
        self._require_open()
        api = "aclrtQueryEventStatus"
        return self.asked(api, fast.event_status, self._address, event=self) == _EVENT_COMPLETE

    def synchronize(self) -> None:
        """Wait for the recorded mark; returns at once when it was never recorded."""
        self._require_open()
        _waits.refuse_in_function()
        call, address = fast.synchronize_event, self._address
        if _waits.gets_signals() and self._is_pending():
            code, api = _waits.wait("aclrtSynchronizeEvent", address)
        else:
            code, api = call(address), "aclrtSynchronizeEvent"
        if code:
            self.failed(code, api, call, address, event=self)

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done:
            yield from clock().start(self.synchronize).__await__()

    def _is_pending(self) -> bool:
        status = fast.event_status(self._address)
        if status < 0:
            _lib.forget_failure()  # what comes next says it again
        return status == _EVENT_PENDING

    def elapsed_ms(self, since: Event) -> float:
        """Return the time from the mark `since` to this one.

        Units: milliseconds. Raises: AclError 507000 if one was never recorded, 107006 if one is
        not finished.
        """
        result = _lib.new("float *")
        ids = {"since": since, "event": self}
        call("aclrtEventElapsedTime", result, since.handle, self.handle, ids=ids)
        return float(result[0])
