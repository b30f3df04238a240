"""Dynamic batching: single requests in, batches to the model, single answers out.

Owns: the queue of requests and the threads that run batches. Must never lose a request: each ends
with an answer, an error or a cancellation, also when the batcher closes.

Note [When a batch leaves]: at once when `max_batch` requests wait, otherwise `max_delay_ms` after
the oldest of them came. That delay runs while a batch is under way too: under load requests wait
for the device only, and a batch takes all that came meanwhile.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ascendrt.clocks import Clock, Future, clock, thread_id
from ascendrt.closing import Closing
from ascendrt.errors import AscendrtError
from ascendrt.numbers import nanoseconds, whole

if TYPE_CHECKING:
    from ascendrt.model import Model

Request = TypeVar("Request")
Answer = TypeVar("Answer")
_NS_PER_MS = 1e6
_KEPT_WAITS = 1024


class QueueFullError(AscendrtError):
    """The batcher has `max_queue` requests waiting; try again later or elsewhere."""


@dataclass(frozen=True)
class BatchMetrics:
    """What a batcher has done so far and what waits now."""

    queued: int
    running: int
    answered: int
    failed: int
    cancelled: int
    refused: int
    batches: int
    sizes: dict[int, int]  # how many batches of each size ran
    padded: int  # rows that were run for nothing: a gear larger than its batch
    wait_ms_p50: float  # from a request's arrival to the start of its batch; of the last 1024
    wait_ms_p99: float

    @property
    def mean_batch(self) -> float:
        """Requests per batch."""
        requests = sum(size * count for size, count in self.sizes.items())
        return requests / self.batches if self.batches else 0.0


class _Entry(Future[Answer], Generic[Request, Answer]):
    """A request in the queue, which is also what its sender waits for."""

    __slots__ = ("arrived_ns", "batcher", "request")

    def __init__(
        self, batcher: DynamicBatcher[Request, Answer], request: Request, now_ns: int
    ) -> None:
        super().__init__(batcher.clock)
        self.batcher = batcher
        self.request = request
        self.arrived_ns = now_ns

    def exception(
        self, timeout_ms: float | None = None, *, timeout: float | None = None
    ) -> BaseException | None:
        if not self.done():
            self.batcher.refuse_own_wait()
        return super().exception(timeout_ms, timeout=timeout)

    def cancel(self) -> bool:
        waited = not self.done()
        cancelled = super().cancel()
        if cancelled and waited:
            self.batcher._withdrawn(self)
        return cancelled


class DynamicBatcher(Closing, Generic[Request, Answer]):
    """Collects requests into batches and hands back to each its own answer.

    `run` takes a list of requests and returns as many answers, in order; it runs on a thread of
    the batcher's, with `workers` of them at a time. It is called with at most `max_batch` requests.
    With `gears` (batch sizes a model was compiled for) no batch is larger than the largest one.
    `check` looks at a request when it comes and raises for one that would spoil its batch.
    DynamicBatcher.of_model() makes one for a Model.

    Raises: ValueError for limits that make no sense.
    """

    def __init__(
        self,
        run: Callable[[list[Request]], Sequence[Answer]],
        *,
        max_batch: int = 8,
        max_delay_ms: float = 2.0,
        max_queue: int | None = None,
        gears: Sequence[int] = (),
        workers: int = 1,
        check: Callable[[Request], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        most = whole(max_batch, "max_batch", 1)
        self._delay_ns = nanoseconds(max_delay_ms, "max_delay_ms")
        if self._delay_ns < 0:
            raise ValueError(f"max_delay_ms is {max_delay_ms}; it must be at least 0")
        self.max_queue = None if max_queue is None else whole(max_queue, "max_queue", 1)
        self.gears = tuple(sorted(whole(gear, "a gear", 1) for gear in gears))
        self.max_batch = min(most, self.gears[-1]) if self.gears else most
        count = whole(workers, "workers", 1)
        self.clock = clock or _the_clock()
        self._run = run
        self._check = check
        self._changed = self.clock.condition()
        self._queue: deque[_Entry[Request, Answer]] = deque()
        self._closed = False
        self._counts = dict.fromkeys(
            ("running", "answered", "failed", "cancelled", "refused", "batches", "padded"), 0
        )
        self._sizes: dict[int, int] = {}
        self._waits_ns: deque[int] = deque(maxlen=_KEPT_WAITS)
        self._threads: set[int] = set()  # that run batches
        self._workers: list[Future[None]] = []
        try:
            for _ in range(count):
                self._workers.append(self.clock.start(self._work))
        except BaseException:  # no room for another thread
            self.close()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._queue)} waiting"
        return f"DynamicBatcher(max_batch={self.max_batch}, {state})"

    @staticmethod
    def of_model(
        model: Model, **options: Any
    ) -> DynamicBatcher[npt.ArrayLike | Sequence[npt.ArrayLike], list[np.ndarray[Any, Any]]]:
        """Return a batcher whose requests are inputs of one row, without the batch dimension.

        A request is one array, or a sequence of as many as the model has inputs; the answer is one
        array per output. A model compiled for several batches runs each in the smallest gear that
        holds it; one of a fixed batch runs partial batches filled up with zeros; one of an open
        batch (-1) runs batches of any size up to `max_batch`, which must be given then.

        Raises: ValueError for a model whose tensors do not begin with one batch dimension.
        """
        from ascendrt.serving._rows import ModelRows

        rows = ModelRows(model)
        if rows.gears:
            options.setdefault("max_batch", rows.gears[-1])
        elif "max_batch" not in options:
            raise ValueError(
                "the batch of this model is open (-1): say max_batch=..., or convert the model "
                "with --dynamic_batch_size=1,2,4,8"
            )
        return DynamicBatcher(rows.run, gears=rows.gears, check=rows.check, **options)

    # ---- clients

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request; the future can be waited for, awaited or cancelled.

        Raises: QueueFullError; ValueError when the batcher is closed; what `check` raises.
        """
        if self._check is not None:
            self._check(request)
        entry = _Entry(self, request, self.clock.now_ns())
        with self._changed:
            if self._closed:
                raise ValueError("this DynamicBatcher is closed")
            if self.max_queue is not None and len(self._queue) >= self.max_queue:
                self._counts["refused"] += 1
                raise QueueFullError(f"{len(self._queue)} requests wait already")
            self._queue.append(entry)
            # One thread waits for the first request, or for a batch to be full.
            if len(self._queue) == 1 or len(self._queue) % self.max_batch == 0:
                self._changed.notify_all()
        return entry

    def __call__(self, request: Request) -> Answer:
        """Queue a request and wait for its answer. Raises: as submit; what the run raised."""
        return self.submit(request).result()

    async def infer(self, request: Request) -> Answer:
        """Queue a request and await its answer; cancelling the task withdraws it."""
        return await self.submit(request)

    def metrics(self) -> BatchMetrics:
        """Return what was done so far and what waits now."""
        with self._changed:
            waits = sorted(self._waits_ns)
            return BatchMetrics(
                queued=len(self._queue),
                sizes=dict(self._sizes),
                wait_ms_p50=_quantile(waits, 0.5) / _NS_PER_MS,
                wait_ms_p99=_quantile(waits, 0.99) / _NS_PER_MS,
                **self._counts,
            )

    def close(self, *, cancel: bool = False) -> None:
        """Answer what waits, or cancel it, and end; further calls only wait for that.

        Inside of a batch it waits for nothing, nor in the function of a signal that came in the
        midst of another call: the batcher ends when that has.
        """
        if self._changed.is_parents:
            return  # and its threads close it
        waits = thread_id() not in self._threads and not self._changed.is_held
        with self._changed:
            self._closed = True
            dropped = list(self._queue) if cancel else []
            self._changed.notify_all()
        for entry in dropped:
            entry.cancel()
        if waits:
            for worker in self._workers:
                worker.result()

    def _leave(self, error: BaseException | None) -> None:
        self.close(cancel=error is not None)

    # ---- batches

    def _withdrawn(self, entry: _Entry[Request, Answer]) -> None:
        with self._changed:
            self._counts["cancelled"] += 1
            try:
                self._queue.remove(entry)
            except ValueError:
                return  # a worker has it and will see
            self._changed.notify_all()

    def refuse_own_wait(self) -> None:
        """Raise RuntimeError where the answer may need this very thread."""
        self._changed.refuse_held("DynamicBatcher")
        if thread_id() in self._threads:
            raise RuntimeError("a batch cannot wait for another answer of its own DynamicBatcher")

    def _work(self) -> None:
        self._threads.add(thread_id())
        try:
            while batch := self._collect():
                self._run_batch(batch)
        finally:
            self._threads.discard(thread_id())

    def _collect(self) -> list[_Entry[Request, Answer]]:
        """Wait for a batch, Note [When a batch leaves]; none when the batcher has ended."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: bool(self._queue) or self._closed)
                if not self._queue:
                    return []
                leaves_ns = self._queue[0].arrived_ns + self._delay_ns
                if not (self._closed or len(self._queue) >= self.max_batch) and (
                    self.clock.now_ns() < leaves_ns
                ):
                    self._changed.wait(leaves_ns)
                elif batch := self._take():
                    return batch

    def _take(self) -> list[_Entry[Request, Answer]]:
        """Take a batch out of the queue; none when all of it was cancelled."""
        batch: list[_Entry[Request, Answer]] = []
        while self._queue and len(batch) < self.max_batch:
            entry = self._queue.popleft()
            if entry.begin():
                batch.append(entry)
        if batch:
            self._note_start(batch)
        if self._queue:
            self._changed.notify_all()  # another worker's turn
        return batch

    def _note_start(self, batch: list[_Entry[Request, Answer]]) -> None:
        size, now = len(batch), self.clock.now_ns()
        self._counts["running"] += size
        self._counts["batches"] += 1
        self._counts["padded"] += self.gear_for(size) - size
        self._sizes[size] = self._sizes.get(size, 0) + 1
        self._waits_ns.extend(now - entry.arrived_ns for entry in batch)

    def gear_for(self, size: int) -> int:
        """Return the batch that the model runs for so many requests."""
        index = bisect.bisect_left(self.gears, size)
        return self.gears[index] if index < len(self.gears) else size

    def _run_batch(self, batch: list[_Entry[Request, Answer]]) -> None:
        answers: Sequence[Answer] = ()
        error: BaseException | None = None
        try:
            answers = list(self._run([entry.request for entry in batch]))
            if len(answers) != len(batch):
                raise ValueError(f"{len(batch)} requests got {len(answers)} answers")
        except BaseException as raised:
            error = raised
        with self._changed:  # who has an answer finds it counted
            self._counts["running"] -= len(batch)
            self._counts["answered" if error is None else "failed"] += len(batch)
        if error is not None:
            for entry in batch:
                entry.set_exception(error)
            return
        for entry, answer in zip(batch, answers, strict=True):
            entry.set_result(answer)


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


def _the_clock() -> Clock:
    return clock()
