"""Streams and events: ordered asynchronous work and marks in it.

Must never keep a Python object of the device layer alive by accident: handles are numbers here.
"""

from __future__ import annotations

import threading

from ascendrt import _lib
from ascendrt._gen.enums import aclrtEventRecordedStatus, aclrtStreamStatus
from ascendrt._lib import call, lib
from ascendrt._owned import Owned

_STREAM_COMPLETE = int(aclrtStreamStatus.ACL_STREAM_STATUS_COMPLETE)
_SLICE_MS = 200
_RAN_OUT = 507046  # ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
_EVENT_COMPLETE = int(aclrtEventRecordedStatus.ACL_EVENT_RECORDED_STATUS_COMPLETE)


class Stream(Owned):
    """A queue of work in the calling thread's current context.

    Raises: AclError 107002 without a current device or context.
    Source: aclrtCreateStream.
    """

    def __init__(self) -> None:
        handle = _lib.new("aclrtStream *")
        call("aclrtCreateStream", handle)
        self._handle = handle[0]
        self._closed = False

    def __repr__(self) -> str:
        return f"Stream({_lib.address(self._handle):#x})"

    def _release(self) -> None:
        call("aclrtDestroyStream", self._handle, ids={"stream": self})

    @property
    def handle(self) -> _lib.Handle:
        """The aclrtStream, for calls this object does not wrap."""
        self._require_open()
        return self._handle

    def _synchronize_interruptibly(self) -> None:
        """Wait in slices on the thread that gets Ctrl-C: Python cannot act on it inside a call."""
        sliced = "aclrtSynchronizeStreamWithTimeout"
        if threading.current_thread() is not threading.main_thread() or not _lib.has(sliced):
            call("aclrtSynchronizeStream", self.handle, ids={"stream": self})
            return
        code = _RAN_OUT
        while code == _RAN_OUT:
            try:
                code = lib.aclrtSynchronizeStreamWithTimeout(self.handle, _SLICE_MS)
            except KeyboardInterrupt:
                _lib.forget_failure()
                raise
            if code == _RAN_OUT:
                _lib.forget_failure()
        _lib.check(code, sliced, stream=self)

    @property
    def done(self) -> bool:
        """True when everything queued so far has run."""
        status = _lib.new("aclrtStreamStatus *")
        call("aclrtStreamQuery", self.handle, status, ids={"stream": self})
        return int(status[0]) == _STREAM_COMPLETE

    def synchronize(self, timeout_ms: int | None = None) -> None:
        """Wait until everything queued has run; with `timeout_ms`, at most so long.

        Raises: WaitTimeoutError when the time ran out; AclError of a task that failed.
        """
        if timeout_ms is None:
            self._synchronize_interruptibly()
        else:
            call(
                "aclrtSynchronizeStreamWithTimeout",
                self.handle,
                timeout_ms,
                ids={"stream": self, "timeout_ms": timeout_ms},
            )

    def record(self, event: Event) -> Event:
        """Queue a mark: `event` is complete when all work before it has run. Returns `event`."""
        call("aclrtRecordEvent", event.handle, self.handle, ids={"stream": self, "event": event})
        return event

    def wait(self, event: Event) -> None:
        """Let later work of this stream wait for a recorded event; does not block the caller."""
        call(
            "aclrtStreamWaitEvent", self.handle, event.handle, ids={"stream": self, "event": event}
        )


class Event(Owned):
    """A mark in a stream, with a time stamp.

    Raises: AclError 107002 without a current device or context.
    Source: aclrtCreateEvent (the plain kind: synchronisation and time line).
    """

    def __init__(self) -> None:
        handle = _lib.new("aclrtEvent *")
        call("aclrtCreateEvent", handle)
        self._handle = handle[0]
        self._closed = False

    def __repr__(self) -> str:
        return f"Event({_lib.address(self._handle):#x})"

    def _release(self) -> None:
        call("aclrtDestroyEvent", self._handle, ids={"event": self})

    @property
    def handle(self) -> _lib.Handle:
        """The aclrtEvent, for calls this object does not wrap."""
        self._require_open()
        return self._handle

    @property
    def done(self) -> bool:
        """True when the last recorded mark was reached; False when it was never recorded."""
        status = _lib.new("aclrtEventRecordedStatus *")
        call("aclrtQueryEventStatus", self.handle, status, ids={"event": self})
        return int(status[0]) == _EVENT_COMPLETE

    def synchronize(self) -> None:
        """Wait for the recorded mark; returns at once when it was never recorded."""
        call("aclrtSynchronizeEvent", self.handle, ids={"event": self})

    def elapsed_ms(self, since: Event) -> float:
        """Return the time from the mark `since` to this one.

        Units: milliseconds. Raises: AclError 507000 if one was never recorded, 107006 if one is
        not finished.
        """
        result = _lib.new("float *")
        call("aclrtEventElapsedTime", result, since.handle, self.handle)
        return float(result[0])
