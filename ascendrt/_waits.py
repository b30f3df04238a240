"""Waits for the device that Ctrl-C ends: Python cannot act on a signal inside a call, so the thread
that gets signals waits in slices, or has a call without a limit made by another thread. Other
threads wait in one call.

Must never keep the failure of a slice that only ran out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ascendrt import _lib
from ascendrt._lib import fast, lib
from ascendrt.clocks import clock
from ascendrt.errors import code_of

_NS_PER_MS = 1_000_000
_SLICE_MS = 200
_LONG_NS = 50 * _NS_PER_MS
_RAN_OUT = {code_of(f"ACL_ERROR_RT_{what}_SYNC_TIMEOUT") for what in ("STREAM", "EVENT")}


# Threads that are inside of a function in a stream: it would wait for its own end.
in_functions: set[int] = set()


def refuse_in_function() -> None:
    """Raise RuntimeError for a wait that could never end. Called before each wait."""
    if in_functions and threading.get_ident() in in_functions:
        raise RuntimeError(
            "a function in a stream cannot wait for the device: work behind it goes on when it "
            "returns; wait outside of it"
        )


def wait(api: str, *handle: int) -> tuple[int, str]:
    """Wait by a function `api`; returns the status, and which function gave it."""
    pointers = [_lib.pointer(each) for each in handle]
    limited = api + "WithTimeout"
    if not gets_signals() or not _lib.has(limited):
        return int(getattr(lib, api)(*pointers)), api
    while (code := _slice(limited, *pointers, _SLICE_MS)) in _RAN_OUT:
        _lib.forget_failure()
    return code, limited


def wait_within(limit_ms: int, api: str, handle: int) -> tuple[int, str]:
    """Wait for so long at most; a negative limit is judged by the library."""
    limited, pointer = api + "WithTimeout", _lib.pointer(handle)
    if gets_signals():
        until_ns = clock().after_ms(limit_ms)
        while limit_ms > _SLICE_MS:
            if (code := _slice(limited, pointer, _SLICE_MS)) not in _RAN_OUT:
                return code, limited
            _lib.forget_failure()
            limit_ms = max(1, (until_ns - clock().now_ns()) // _NS_PER_MS)
    return int(getattr(lib, limited)(pointer, limit_ms)), limited


def comes_soon(api: str, handle: int) -> bool:
    """True unless a wait by `api` has run out; what it failed with comes to who goes on."""
    limited = api + "WithTimeout"
    if clock().is_virtual or not _lib.has(limited):
        return False
    code = _slice(limited, _lib.pointer(handle), _SLICE_MS)
    if code:
        _lib.forget_failure()
    return code not in _RAN_OUT


def elsewhere(call: Callable[[], int], afterwards: Callable[[], None]) -> int:
    """Make a call in this thread's context on another thread; returns its status.

    Ctrl-C ends the wait for it, not the call: then `afterwards` is called when it is over.
    """
    context = fast.get_context()

    def there() -> int:
        if context:
            fast.set_context(context)
        return call()

    future = clock().start(there)
    try:
        code = future.result()
    except KeyboardInterrupt:
        future.add_done_callback(lambda _: afterwards())
        raise
    return code and call()  # a failure tells its cause to the thread that it came from


class Durations:
    """How long runs of a model take. A thread that waits in one call computes the run itself, which
    is faster; so only what may be long is waited for in slices.
    """

    def __init__(self) -> None:
        self._long: bool | None = None  # not known

    def in_slices(self) -> bool:
        """True when Ctrl-C could come too late in a wait in one call."""
        return self._long is not False and gets_signals() and not clock().is_virtual

    def note(self, began_ns: int) -> None:
        """Remember how long a run took that began then and is over."""
        if clock().now_ns() - began_ns > _LONG_NS:
            self._long = True
        elif self._long is None:
            self._long = False


def gets_signals() -> bool:
    """True on the thread on which Python acts on Ctrl-C."""
    return threading.current_thread() is threading.main_thread()


def _slice(api: str, *arguments: Any) -> int:
    try:
        return int(getattr(lib, api)(*arguments))
    except KeyboardInterrupt:
        _lib.forget_failure()
        raise
