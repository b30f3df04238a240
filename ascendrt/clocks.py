"""Time and waiting for threads and event loops of Python: the wall's, or the virtual clock's.

Owns: the process's one Clock, what threads wait on, futures, the threads that wait in place of an
event loop, event loops that follow the clock. Everything above that waits or reads time does so
through a Clock and nothing else, so that in virtual time (ASCENDRT_CLOCK=virtual) a program with
threads and coroutines takes modelled time and no real one. Must never wait with a lock held.

Note [Virtual waits]: the virtual clock stands while a thread that has called the runtime is
elsewhere, for that thread could act at any moment; one that waits on a lock of Python would hold it
for the grace time (docs/virtual-time.md). A thread that waits on a Signal has told the clock so,
and with it how long.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import contextlib
import itertools
import logging
import math
import os
import selectors
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from ascendrt import _backend, _forks, numbers
from ascendrt.closing import Unique

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Self, TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NS_PER_S = 1_000_000_000
_IO_PATIENCE_S = 0.02
_EXIT_PATIENCE_S = 1.0
_MOST_IDLE = 32  # threads that are kept for later


class Signal(Protocol):
    """What one thread waits for and others set. `set` before `wait` is not lost."""

    def set(self) -> None:
        """Let the waiting thread go on; the next wait ends at once when nobody waits."""

    def wait(self, until_ns: int | None = None) -> bool:
        """Wait for `set` and take it back; False when the clock came to `until_ns` before."""


class _WallSignal:
    """A signal in real time: a lock that is free while the signal is set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # set already
            self._lock.release()

    def wait(self, until_ns: int | None = None) -> bool:
        if until_ns is None:
            return self._lock.acquire()
        left_s = (until_ns - time.monotonic_ns()) / _NS_PER_S
        return self._lock.acquire(timeout=min(max(left_s, 0), threading.TIMEOUT_MAX))


class Clock:
    """Reads time and makes what waits for it. `clock()` gives the process's one."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.monotonic_ns,
        signal: Callable[[], Signal] = _WallSignal,
        *,
        is_virtual: bool = False,
    ) -> None:
        self.now_ns = now_ns
        self.signal = signal
        self.is_virtual = is_virtual
        self._idle: list[_Worker] = []

    def _forked(self) -> None:
        """In a child: the threads are the parent's, and so is the runtime with its clock."""
        self._idle = []
        if self.is_virtual:
            self.now_ns, self.signal, self.is_virtual = time.monotonic_ns, _WallSignal, False

    def after_ms(self, delay_ms: float) -> int:
        """Return the moment in so many milliseconds, in nanoseconds of this clock."""
        return self.now_ns() + numbers.nanoseconds(delay_ms, "the time")

    def sleep_ms(self, delay_ms: float) -> None:
        """Let time pass for this thread."""
        self.sleep_until_ns(self.after_ms(delay_ms))

    def sleep_until_ns(self, until_ns: int) -> None:
        """Let time pass for this thread until a moment; at once when it is over."""
        self.signal().wait(until_ns)

    def condition(self) -> Condition:
        """Return a lock with waits that go by this clock."""
        return Condition(self)

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on a thread of its own; threads are kept for the next one.

        What waits for the result, and what waits inside by this clock, lets virtual time pass.
        """
        future: Future[T] = Future(self)
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self)
        worker.give(lambda: future.run(function))
        return future

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop whose timers go by this clock."""
        return _VirtualLoop(self) if self.is_virtual else asyncio.new_event_loop()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Do what asyncio.run does, in an event loop of this clock."""
        loop = self.new_event_loop()
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(main)
        finally:
            try:
                _cancel_all(loop)
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.run_until_complete(loop.shutdown_default_executor())
            finally:
                asyncio.set_event_loop(None)
                loop.close()


@cache
def clock() -> Clock:
    """Return the clock of this process; loads the libraries if nothing has yet.

    Raises: BackendError when no library set can be had.
    """
    modelled = _backend.load().modelled_time()
    made = Clock() if modelled is None else Clock(*modelled, is_virtual=True)
    atexit.register(_end_idle, made)
    os.register_at_fork(after_in_child=made._forked)
    return made


def thread_id() -> int:
    """Return what tells the calling thread from all that live now."""
    return threading.get_ident()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as asyncio.run does; in virtual time its sleeps take no real time."""
    return clock().run(main)


if TYPE_CHECKING:

    class _Lock:
        def acquire(self) -> bool: ...
        def release(self) -> None: ...
        def __enter__(self) -> bool: ...
        def __exit__(self, *raised: object) -> None: ...
        def _is_owned(self) -> bool: ...

else:
    _Lock = _thread.RLock


class Condition(_Lock):
    """A lock, and waits for a change of what it guards. Used as threading.Condition is.

    A signal's function may take it again in the midst of what it guards, but not wait then: who
    would be waited for needs it too. Entering it is one step of C, so that Ctrl-C comes before or
    after it. In a forked child the parent's raise RuntimeError: whom they would wait for is not
    there.
    """

    is_parents = False
    """True in a child that was forked after it was made."""

    def __new__(cls, clock: Clock) -> Self:
        return super().__new__(cls)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Signal] = deque()
        _conditions.add(self)

    @property
    def is_held(self) -> bool:
        """True when the calling thread is inside, as it is in the function of a signal there."""
        return self._is_owned()

    def refuse_held(self, what: str) -> None:
        """Raise RuntimeError for a wait that could not end, for this thread holds the lock."""
        if self.is_held:
            raise RuntimeError(
                f"a signal came in the midst of another call of this {what}, and its function "
                "cannot wait for what needs the same: hand the wait to a thread"
            )

    def wait(self, until_ns: int | None = None) -> bool:
        """Give up the lock and wait for a notice; False when the moment came before."""
        signal = self._clock.signal()
        self._waiting.append(signal)
        try:
            self.release()
            self.refuse_held("object")
            return signal.wait(until_ns)
        finally:
            self.acquire()
            with contextlib.suppress(ValueError):  # noticed
                self._waiting.remove(signal)

    def wait_for(self, ready: Callable[[], bool], until_ns: int | None = None) -> bool:
        """Wait until `ready()` holds; returns what it says in the end."""
        while not ready():
            if not self.wait(until_ns):
                return ready()
        return True

    def notify(self, count: int = 1) -> None:
        """Wake so many of the waiting threads."""
        for signal in itertools.islice(self._waiting.copy(), count):
            signal.set()  # first: Ctrl-C in between may not leave it asleep
            with contextlib.suppress(ValueError):  # a signal's function was faster
                self._waiting.remove(signal)

    def notify_all(self) -> None:
        """Wake every waiting thread."""
        self.notify(len(self._waiting))


class _Parents(Condition):
    """What a condition becomes in a forked child."""

    is_parents = True

    def __enter__(self) -> bool:
        _forks.refuse(-1, "this object")
        return False


_conditions: weakref.WeakSet[Condition] = weakref.WeakSet()


def _disown() -> None:
    for each in list(_conditions):
        each.__class__ = _Parents


os.register_at_fork(after_in_child=_disown)


_PENDING, _RUNNING, _DONE, _FAILED, _CANCELLED = range(5)
# Guards the state of all futures; nothing is called while it is held.
_futures = _forks.lock()


class Future(Unique, Generic[T]):
    """A result that comes later: wait for it, await it, or cancel it while it is not begun."""

    __slots__ = ("__weakref__", "_born", "_callbacks", "_clock", "_state", "_value", "finished_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._born = _forks.count()
        self._state = _PENDING
        self._value: object = None
        self._callbacks: list[Callable[[Future[T]], None]] = []
        self.finished_ns: int | None = None

    def __repr__(self) -> str:
        words = ("pending", "running", "done", "failed", "cancelled")
        return f"<Future {words[self._state]}>"

    def done(self) -> bool:
        """True once there is a result, an error, or a cancellation."""
        return self._state >= _DONE

    def cancelled(self) -> bool:
        """True when it was cancelled before it began."""
        return self._state == _CANCELLED

    def cancel(self) -> bool:
        """Cancel unless it has begun; returns whether it is cancelled now."""
        with _futures:
            if self._state == _PENDING:
                self._finish(_CANCELLED, None)
            elif self._state != _CANCELLED:
                return False
        self._tell()
        return True

    def begin(self) -> bool:
        """For who makes the result: False when nobody wants it any more."""
        with _futures:
            if self._state == _PENDING:
                self._state = _RUNNING
            return self._state == _RUNNING

    def set_result(self, value: T) -> None:
        """For who makes the result; nothing happens to a cancelled future."""
        self._set(_DONE, value)

    def set_exception(self, error: BaseException) -> None:
        """For who makes the result; nothing happens to a cancelled future."""
        self._set(_FAILED, error)

    def run(self, function: Callable[[], T]) -> None:
        """Make the result by a call."""
        if not self.begin():
            return
        try:
            value = function()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)

    def result(self, timeout_ms: float | None = None, *, timeout: float | None = None) -> T:
        """Wait for the result, for so many milliseconds at most, or `timeout` seconds.

        Raises: what making it raised; concurrent.futures.CancelledError; TimeoutError.
        """
        error = self.exception(timeout_ms, timeout=timeout)
        if error is not None:
            raise error
        return cast("T", self._value)

    def exception(
        self, timeout_ms: float | None = None, *, timeout: float | None = None
    ) -> BaseException | None:
        """Wait as `result` does, and return the error instead of raising it; None for a result.

        Raises: concurrent.futures.CancelledError; TimeoutError.
        """
        if not self.done():
            _forks.refuse(self._born, "this Future")
            limit_ns = _limit_ns(timeout_ms, timeout)
            until = None if limit_ns is None else self._clock.now_ns() + limit_ns
            signal = self._clock.signal()
            tell = _Teller(signal)
            self.add_done_callback(tell)
            if not signal.wait(until) and not self.done():
                self._forget(tell)
                raise TimeoutError(f"no result within {(limit_ns or 0) / 1e6:g} ms")
        if self._state == _CANCELLED:
            raise CancelledError
        return cast("BaseException", self._value) if self._state == _FAILED else None

    def add_done_callback(self, function: Callable[[Future[T]], None]) -> None:
        """Call a function with this future once it is done, at once when it is.

        What it raises is logged: whoever made the result has nothing to do with it.
        """
        with _futures:
            self._callbacks.append(function)  # first, for a signal may end it meanwhile
            if self._state < _DONE or function not in self._callbacks:
                return
            self._callbacks.remove(function)
        self._call(function)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            _forks.refuse(self._born, "this Future")
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def tell(_: Future[T]) -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(wake)

            self.add_done_callback(tell)
            try:
                yield from waiter
            except asyncio.CancelledError:
                self._forget(tell)
                self.cancel()
                raise
        if self._state == _CANCELLED:
            raise asyncio.CancelledError
        return self.result()

    def _set(self, state: int, value: object) -> None:
        with _futures:
            if self._state >= _DONE:
                return
            self._finish(state, value)
        self._tell()

    def _finish(self, state: int, value: object) -> None:
        self._value = value
        self.finished_ns = self._clock.now_ns()
        self._state = state

    def _tell(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, function: Callable[[Future[T]], None]) -> None:
        try:
            function(self)
        except BaseException:
            _log.exception("a function that was to be called for %r failed", self)

    def _forget(self, function: Callable[[Future[T]], None]) -> None:
        with _futures, contextlib.suppress(ValueError):
            self._callbacks.remove(function)


def _limit_ns(timeout_ms: float | None, timeout: float | None) -> int | None:
    if timeout is None:
        return None if timeout_ms is None else numbers.nanoseconds(timeout_ms, "timeout_ms")
    if timeout_ms is not None:
        raise TypeError("give timeout_ms (milliseconds) or timeout (seconds), not both")
    return numbers.nanoseconds(timeout, "timeout", "seconds")


class _Teller:
    """A callback that sets a signal; unlike a lambda it can be found again."""

    __slots__ = ("_signal",)

    def __init__(self, signal: Signal) -> None:
        self._signal = signal

    def __call__(self, _: object) -> None:
        self._signal.set()


class _Worker:
    """A thread that runs one function after another; idle ones wait in the clock's list."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._signal = clock.signal()
        self._job: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._work, name="ascendrt-wait", daemon=True)
        known = self._known = threading.Lock()
        known.acquire()
        self.thread.start()
        known.acquire()  # the clock must not go on before it has heard of the thread

    def give(self, job: Callable[[], None] | None) -> None:
        """Hand over the next function; None ends the thread."""
        self._job = job
        self._signal.set()

    def _work(self) -> None:
        self._clock.now_ns()
        self._known.release()
        while True:
            self._signal.wait()
            job, self._job = self._job, None
            if job is None:
                return
            job()
            del job
            if len(self._clock._idle) >= _MOST_IDLE:
                return
            self._clock._idle.append(self)


def _end_idle(clock: Clock) -> None:
    """End the idle threads before the interpreter does: it cannot stop one inside a call."""
    idle, clock._idle = clock._idle, []
    for worker in idle:
        worker.give(None)
    for worker in idle:
        worker.thread.join(_EXIT_PATIENCE_S)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


class _VirtualSelector(selectors.DefaultSelector):
    """Waits for the virtual clock. Sockets get a little real time first: they know no other."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.wake = clock.signal()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if len(self.get_map()) > 1:  # more than what wakes the loop
            ready = super().select(_IO_PATIENCE_S)
            if ready or timeout is None:
                return ready
        until = None if timeout is None else self._clock.now_ns() + math.ceil(timeout * _NS_PER_S)
        self.wake.wait(until)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that lives in virtual time."""

    def __init__(self, clock: Clock) -> None:
        self._art_clock = clock
        self._art_selector = _VirtualSelector(clock)
        super().__init__(self._art_selector)

    def time(self) -> float:
        return self._art_clock.now_ns() / _NS_PER_S

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]
    ) -> asyncio.Future[T]:
        """The loop's own threads (asyncio.to_thread) wait by the clock for the next function."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return asyncio.ensure_future(self._art_clock.start(lambda: func(*args)), loop=self)

    def _write_to_self(self) -> None:
        super()._write_to_self()  # type: ignore[misc]  # no public name for what wakes the loop
        self._art_selector.wake.set()
