"""A pool of devices: jobs go to the one with the least to do.

Owns: a few threads per device with a stream each, and the queue of jobs for all. Must never bind a
job to a device before one has room: what waits goes to whoever is free first.

Note [Least loaded]: a device has room while fewer than `depth` jobs are under way on it and its
free memory, less what those jobs have asked for, holds what the next one asks for. Among those with
room the one with the fewest jobs is taken, then the one with clearly more free memory, then the one
that has worked least. An idle device takes any job that its whole memory could hold: nothing would
make more room. What no device could ever hold is refused when it comes.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ascendrt.clocks import Clock, Future, clock, thread_id
from ascendrt.closing import Closing, close_all
from ascendrt.device import Device, MemoryInfo, device_count
from ascendrt.errors import AclError
from ascendrt.numbers import whole
from ascendrt.stream import Stream

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Args = TypeVarTuple("Args")

T = TypeVar("T")
_MEMORY_STEPS = 16  # differences below a sixteenth of the memory decide nothing


@dataclass(frozen=True)
class DeviceLoad:
    """What one device of a pool is doing and has done."""

    device: int
    running: int
    jobs: int
    failed: int
    busy_ms: float  # of the pool's clock, summed over jobs
    free_bytes: int
    total_bytes: int


class Worker:
    """What a job works with: a device that is current on the job's thread, and a stream of it.

    It lives as long as the pool: jobs may leave in `cache` what they want to find again. What there
    has a `close` is closed with the pool, the latest first.
    """

    def __init__(self, index: int) -> None:
        self.device = Device(index)
        try:
            self.stream = Stream()
        except BaseException:
            self.device.close()
            raise
        self.cache: dict[str, Any] = {}

    def renew(self) -> None:
        """Have device and stream in order, whatever the job before has done to them."""
        index = self.device.index
        try:
            self.device.use()
        except (AclError, ValueError):  # reset, finalized or closed
            self.device.close()
            self.device = Device(index)
        try:
            _ = self.stream.done
        except (AclError, ValueError):
            self.stream.close()
            self.stream = Stream()

    def free_memory(self) -> MemoryInfo | None:
        """Return what the device has; None after a job that took the device away."""
        try:
            return self.device.memory()
        except (AclError, ValueError):
            return None

    def close(self) -> None:
        """Close what the cache holds, then the rest; the pool calls it."""
        kept = [each for each in self.cache.values() if callable(getattr(each, "close", None))]
        self.cache.clear()
        close_all([*reversed(kept), self.stream, self.device])


class _Job(Future[T]):
    """A job in the queue, which is also what its sender waits for."""

    __slots__ = ("function", "given", "memory_bytes", "pool")

    def __init__(
        self, pool: DevicePool, function: Callable[[Worker], T], memory_bytes: int
    ) -> None:
        super().__init__(pool.clock)
        self.pool = pool
        self.function = function
        self.memory_bytes = memory_bytes
        self.given = False  # to a device

    def exception(
        self, timeout_ms: float | None = None, *, timeout: float | None = None
    ) -> BaseException | None:
        if not self.done():
            self.pool.refuse_own_wait()
        return super().exception(timeout_ms, timeout=timeout)


class _State:
    """One device of the pool; the pool's lock guards it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.assigned: deque[_Job[Any]] = deque()
        self.running = 0
        self.reserved_bytes = 0
        self.jobs = 0
        self.failed = 0
        self.busy_ns = 0
        self.memory = MemoryInfo(0, 0)

    def has_room(self, job: _Job[Any], depth: int) -> bool:
        if self.running == 0:
            return job.memory_bytes <= self.memory.total_bytes
        free = self.memory.free_bytes - self.reserved_bytes
        return self.running < depth and job.memory_bytes <= free

    def load(self) -> tuple[int, int, int]:
        used = self.memory.total_bytes - self.memory.free_bytes + self.reserved_bytes
        return (self.running, used * _MEMORY_STEPS // (self.memory.total_bytes or 1), self.busy_ns)


class DevicePool(Closing):
    """Runs jobs on the least loaded of several devices; see Note [Least loaded].

    A job is a function of a Worker. It runs on a thread of the pool with the device current; what
    it has queued in the worker's stream is over before its result is given out.

    Raises: UsageError for a device that does not exist; ValueError for no device or no depth.
    """

    def __init__(
        self, devices: Sequence[int] | None = None, *, depth: int = 2, clock: Clock | None = None
    ) -> None:
        self.depth = depth = whole(depth, "depth", 1)
        indexes = list(range(device_count())) if devices is None else list(devices)
        if not indexes:
            raise ValueError(f"a pool needs a device, got {devices=}")
        self.clock = clock or _the_clock()
        self._changed = self.clock.condition()
        self._queue: deque[_Job[Any]] = deque()
        self._states = [_State(index) for index in indexes]
        self._closed = False
        self._workers: dict[int, Worker] = {}  # by their threads
        opened: list[Future[None]] = [Future(self.clock) for _ in range(depth * len(indexes))]
        self._threads: list[Future[None]] = []
        try:
            for position, mine in enumerate(opened):
                state = self._states[position % len(indexes)]
                self._threads.append(self.clock.start(partial(self._work, state, mine)))
            for each in opened:
                each.result()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._queue)} waiting"
        devices = [each.index for each in self._states]
        return f"DevicePool({devices}, depth={self.depth}, {state})"

    def submit(
        self, job: Callable[[Worker, Unpack[Args]], T], *args: Unpack[Args], memory_bytes: int = 0
    ) -> Future[T]:
        """Queue `job(worker, *args)`; `memory_bytes` is what it will allocate on the device.

        The future can be waited for, awaited, or cancelled until the job begins. Raises: ValueError
        when the pool is closed, and for a need beyond the whole memory of every device.
        """
        if not callable(job):
            raise TypeError(f"a job is a function of a Worker, not {job!r}")
        needed = whole(memory_bytes, "memory_bytes", 0)
        entry = _Job(self, lambda worker: job(worker, *args), needed)
        with self._changed:
            if self._closed:
                raise ValueError("this DevicePool is closed")
            most = max(state.memory.total_bytes for state in self._states)
            if entry.memory_bytes > most:
                raise ValueError(
                    f"memory_bytes is {entry.memory_bytes}; the largest device of the pool has "
                    f"{most} bytes in all"
                )
            self._queue.append(entry)
            self._dispatch()
        return entry

    def run(
        self, job: Callable[[Worker, Unpack[Args]], T], *args: Unpack[Args], memory_bytes: int = 0
    ) -> T:
        """Queue `job(worker, *args)` and wait for its result.

        Inside of a job it runs there, as a part of it.
        """
        worker = self._workers.get(thread_id())
        if worker is not None:
            result = job(worker, *args)
            worker.stream.synchronize()
            return result
        return self.submit(job, *args, memory_bytes=memory_bytes).result()

    def metrics(self) -> list[DeviceLoad]:
        """Return what each device is doing and has done."""
        with self._changed:
            return [
                DeviceLoad(
                    state.index, state.running, state.jobs, state.failed, state.busy_ns / 1e6,
                    state.memory.free_bytes, state.memory.total_bytes,
                )
                for state in self._states
            ]  # fmt: skip

    @property
    def queued(self) -> int:
        """Jobs that no device has begun."""
        with self._changed:
            self._first()  # sorts out what has begun or was cancelled
            return len(self._queue)

    def close(self, *, cancel: bool = False) -> None:
        """Run what is queued, or cancel it, then give the devices back; again: wait for that.

        A block that ends with an error cancels it.

        Inside of a job it waits for nothing, nor in the function of a signal that came in the midst
        of another call: the pool ends when its jobs have.
        """
        if self._changed.is_parents:
            return  # and its threads close it
        waits = thread_id() not in self._workers and not self._changed.is_held
        with self._changed:
            self._closed = True
            dropped = list(self._queue) if cancel else []
        for job in dropped:
            job.cancel()
        with self._changed:
            self._dispatch()  # what a submit left that Ctrl-C ended
            self._changed.notify_all()
        if waits:
            for thread in self._threads:
                thread.result()

    def _leave(self, error: BaseException | None) -> None:
        self.close(cancel=error is not None)

    def refuse_own_wait(self) -> None:
        """Raise RuntimeError where a job that waits may need this very thread."""
        self._changed.refuse_held("DevicePool")
        if thread_id() in self._workers:
            raise RuntimeError(
                "a job cannot wait for another job of its own DevicePool, which may wait for its "
                "thread; pool.run(job) inside of a job runs it there"
            )

    # ---- with the lock held

    def _dispatch(self) -> None:
        """Give queued jobs to devices while one has room."""
        given = False
        while (job := self._first()) is not None:
            free = [state for state in self._states if state.has_room(job, self.depth)]
            if not free:
                break
            state = min(free, key=_State.load)
            if job.given:
                continue
            # No call in between: neither Ctrl-C nor a signal's function finds half of it.
            job.given = True
            state.running += 1
            state.reserved_bytes += job.memory_bytes
            state.assigned.append(job)
            given = True
        if given:
            self._changed.notify_all()

    def _first(self) -> _Job[Any] | None:
        """Return the first job that wants a device; others go out of the queue."""
        with contextlib.suppress(IndexError):
            while True:
                job = self._queue[0]
                if not (job.done() or job.given):
                    return job
                with contextlib.suppress(ValueError):  # a signal's function was faster
                    self._queue.remove(job)
        return None

    # ---- threads of the devices

    def _work(self, state: _State, opened: Future[None]) -> None:
        try:
            worker = self._workers[thread_id()] = Worker(state.index)
            try:
                with self._changed:
                    state.memory = worker.device.memory()
                opened.set_result(None)
                while (job := self._next(state)) is not None:
                    self._run(state, worker, job)
            finally:
                del self._workers[thread_id()]
                worker.close()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    def _next(self, state: _State) -> _Job[Any] | None:
        with self._changed:
            self._changed.wait_for(
                lambda: bool(state.assigned) or (self._closed and not self._queue)
            )
            return state.assigned.popleft() if state.assigned else None

    def _run(self, state: _State, worker: Worker, job: _Job[Any]) -> None:
        began_ns = self.clock.now_ns()
        result, error = self._call(worker, job) if job.begin() else (None, None)
        memory = worker.free_memory()
        with self._changed:
            state.memory = memory or state.memory
            state.running -= 1
            state.reserved_bytes -= job.memory_bytes
            state.jobs += 1
            state.failed += error is not None
            state.busy_ns += self.clock.now_ns() - began_ns
            self._dispatch()
            if self._closed and not self._queue:
                self._changed.notify_all()
        if error is None:
            job.set_result(result)
        else:
            job.set_exception(error)

    @staticmethod
    def _call(worker: Worker, job: _Job[Any]) -> tuple[Any, BaseException | None]:
        try:
            worker.renew()
            result = job.function(worker)
            worker.stream.synchronize()
        except BaseException as error:
            return None, error
        return result, None


def _the_clock() -> Clock:
    return clock()
