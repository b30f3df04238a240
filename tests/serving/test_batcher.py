"""The batcher's promises one by one, in real time, with plain functions in place of a model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from servingkit import WIDTH

import ascendrt
from ascendrt.clocks import Clock, Future
from ascendrt.serving import DevicePool, DynamicBatcher, QueueFullError


class Gate:
    """Runs batches when told to, and remembers them."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.began = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.batches.append(batch)
        self.began.set()
        assert self.open.wait(30)
        return [-number for number in batch]


def test_a_full_batch_leaves_at_once_and_a_partial_one_after_the_delay() -> None:
    gate = Gate()
    gate.open.set()
    with DynamicBatcher(gate, max_batch=4, max_delay_ms=10_000) as batcher:
        futures = [batcher.submit(number) for number in range(4)]
        assert [future.result(5000) for future in futures] == [0, -1, -2, -3]
        began = time.monotonic()
    with DynamicBatcher(gate, max_batch=4, max_delay_ms=50) as batcher:
        assert batcher(7) == -7
        assert time.monotonic() - began >= 0.05
    assert gate.batches == [[0, 1, 2, 3], [7]]


def test_what_comes_while_a_batch_runs_leaves_together() -> None:
    gate = Gate()
    with DynamicBatcher(gate, max_batch=8, max_delay_ms=0) as batcher:
        first = batcher.submit(0)
        assert gate.began.wait(10)
        rest = [batcher.submit(number) for number in range(1, 6)]
        assert batcher.metrics().queued == 5
        assert batcher.metrics().running == 1
        gate.open.set()
        assert [future.result() for future in (first, *rest)] == [0, -1, -2, -3, -4, -5]
        metrics = batcher.metrics()
    assert gate.batches == [[0], [1, 2, 3, 4, 5]]
    assert (metrics.answered, metrics.batches, metrics.sizes) == (6, 2, {1: 1, 5: 1})
    assert metrics.mean_batch == 3
    assert 0 <= metrics.wait_ms_p50 <= metrics.wait_ms_p99


def test_a_request_can_be_withdrawn_until_it_runs() -> None:
    gate = Gate()
    with DynamicBatcher(gate, max_batch=8, max_delay_ms=0) as batcher:
        running = batcher.submit(0)
        assert gate.began.wait(10)
        waiting = [batcher.submit(number) for number in (1, 2, 3)]
        assert waiting[1].cancel()
        assert waiting[1].cancel()
        assert not running.cancel()
        gate.open.set()
        assert [waiting[0].result(), waiting[2].result(), running.result()] == [-1, -3, 0]
        with pytest.raises(CancelledError):
            waiting[1].result()
        assert batcher.metrics().cancelled == 1
    assert gate.batches == [[0], [1, 3]]


def test_a_cancelled_task_withdraws_its_request() -> None:
    gate = Gate()

    async def main(batcher: DynamicBatcher[int, int]) -> int:
        running = asyncio.ensure_future(batcher.infer(0))
        await asyncio.to_thread(gate.began.wait, 10)
        doomed = asyncio.ensure_future(batcher.infer(1))
        kept = asyncio.ensure_future(batcher.infer(2))
        await asyncio.sleep(0)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        gate.open.set()
        await running
        return await kept

    with DynamicBatcher(gate, max_batch=8, max_delay_ms=0) as batcher:
        assert asyncio.run(main(batcher)) == -2
    assert gate.batches == [[0], [2]]


def test_a_failing_batch_tells_each_of_its_requests_and_goes_on() -> None:
    def run(batch: list[int]) -> list[int]:
        if 13 in batch:
            raise RuntimeError("thirteen")
        return batch

    with DynamicBatcher(run, max_batch=2, max_delay_ms=10_000) as batcher:
        bad = [batcher.submit(13), batcher.submit(1)]
        good = [batcher.submit(2), batcher.submit(3)]
        for future in bad:
            with pytest.raises(RuntimeError, match="thirteen"):
                future.result(5000)
        assert [future.result(5000) for future in good] == [2, 3]
        metrics = batcher.metrics()
        assert (metrics.failed, metrics.answered) == (2, 2)


def test_a_run_with_too_few_answers_is_an_error_for_all() -> None:
    def lossy(batch: list[int]) -> list[int]:
        return batch[1:]

    with (
        DynamicBatcher(lossy, max_batch=2, max_delay_ms=0) as batcher,
        pytest.raises(ValueError, match="1 requests got 0 answers"),
    ):
        batcher(1)


def test_a_bad_request_spoils_no_batch() -> None:
    def check(number: int) -> None:
        if number < 0:
            raise ValueError("negative")

    def run(batch: list[int]) -> list[int]:
        return batch

    with DynamicBatcher(run, check=check, max_delay_ms=0) as batcher:
        with pytest.raises(ValueError, match="negative"):
            batcher.submit(-1)
        assert batcher(4) == 4


def test_a_full_queue_refuses() -> None:
    gate = Gate()
    with DynamicBatcher(gate, max_batch=1, max_delay_ms=0, max_queue=2) as batcher:
        batcher.submit(0)
        assert gate.began.wait(10)
        batcher.submit(1)
        batcher.submit(2)
        with pytest.raises(QueueFullError, match="2 requests wait"):
            batcher.submit(3)
        assert batcher.metrics().refused == 1
        gate.open.set()


def test_closing_answers_what_waits_or_cancels_it() -> None:
    gate = Gate()
    gate.open.set()
    batcher = DynamicBatcher(gate, max_batch=8, max_delay_ms=10_000)
    waiting = [batcher.submit(number) for number in range(3)]
    batcher.close()
    assert [future.result(0) for future in waiting] == [0, -1, -2]
    with pytest.raises(ValueError, match="closed"):
        batcher.submit(1)
    batcher = DynamicBatcher(gate, max_batch=8, max_delay_ms=10_000)
    doomed = batcher.submit(1)
    batcher.close(cancel=True)
    assert doomed.cancelled()
    batcher.close()


def test_several_workers_share_the_queue(seed: int) -> None:
    ran: list[int] = []

    def run(batch: list[int]) -> list[int]:
        time.sleep(0.001)
        ran.extend(batch)
        return [number * 2 for number in batch]

    with DynamicBatcher(run, max_batch=4, max_delay_ms=1, workers=3) as batcher:
        futures = [batcher.submit(number) for number in range(500)]
        assert [future.result(30_000) for future in futures] == [n * 2 for n in range(500)]
    assert sorted(ran) == list(range(500))


def test_gears_bound_the_batch_and_count_what_is_padded() -> None:
    def run(batch: list[int]) -> list[int]:
        return batch

    with DynamicBatcher(run, gears=(8, 1, 4), max_batch=100, max_delay_ms=10_000) as batcher:
        assert batcher.max_batch == 8
        assert [batcher.gear_for(size) for size in (1, 2, 4, 5, 8)] == [1, 4, 4, 8, 8]
        futures = [batcher.submit(number) for number in range(8)]
        for future in futures:
            future.result(5000)
        futures = [batcher.submit(number) for number in range(3)]
        batcher.close()
        assert batcher.metrics().padded == 1


def test_rows_of_a_model_keep_apart(models: Path) -> None:
    rows = np.random.default_rng(5).random((20, WIDTH), np.float32)
    with (
        ascendrt.Device(0),
        ascendrt.Model(models / "batch8.om") as model,
        DynamicBatcher.of_model(model, max_delay_ms=1) as batcher,
    ):
        assert batcher.max_batch == 8
        futures = [batcher.submit(row) for row in rows]
        for row, future in zip(rows, futures, strict=True):
            (answer,) = future.result(30_000)
            np.testing.assert_array_equal(answer, row * 3 + 1)
        with pytest.raises(TypeError, match="float64"):
            batcher.submit(rows[0].astype(np.float64))
        with pytest.raises(ValueError, match=r"\(16,\)"):
            batcher.submit(rows[:2])


def test_a_model_of_several_batches_runs_in_the_gear_that_fits(models: Path) -> None:
    rows = np.random.default_rng(6).random((30, WIDTH), np.float32)
    with ascendrt.Device(0), ascendrt.Model(models / "gears.om") as model:
        assert model.gears.batches == (1, 2, 4, 8)
        for count in (1, 3, 4, 5, 8):
            batch = rows[:count]
            (at_once,) = model(batch)
            np.testing.assert_array_equal(at_once, batch * 3 + 1)
            (later,) = model.run_async([batch]).result()
            np.testing.assert_array_equal(later, batch * 3 + 1)
        with pytest.raises(ValueError, match=r"batch of 9 .* compiled for \[1, 2, 4, 8\]"):
            model(rows[:9])
        with DynamicBatcher.of_model(model, max_delay_ms=10_000) as batcher:
            assert batcher.max_batch == 8
            futures = [batcher.submit(row) for row in rows]
            batcher.close()
            for row, future in zip(rows, futures, strict=True):
                np.testing.assert_array_equal(future.result()[0], row * 3 + 1)
            assert batcher.metrics().padded == sum(
                count * (batcher.gear_for(size) - size)
                for size, count in batcher.metrics().sizes.items()
            )


def test_a_model_of_an_open_batch_runs_what_waits(models: Path) -> None:
    rows = np.random.default_rng(7).random((7, WIDTH), np.float32)
    with ascendrt.Device(0), ascendrt.Model(models / "open.om") as model:
        with pytest.raises(ValueError, match=r"is open \(-1\): say max_batch=.*dynamic_batch_size"):
            DynamicBatcher.of_model(model)
        with DynamicBatcher.of_model(model, max_batch=5, max_delay_ms=10_000) as batcher:
            futures = [batcher.submit(row) for row in rows]
            batcher.close()
            for row, future in zip(rows, futures, strict=True):
                np.testing.assert_array_equal(future.result()[0], row * 3 + 1)
            told = batcher.metrics()
            assert (told.sizes, told.padded) == ({5: 1, 2: 1}, 0)
            with pytest.raises(ValueError, match=r"\(16,\)"):
                batcher.submit(rows[:2])


def test_a_fixed_batch_of_one_is_a_batch(models: Path) -> None:
    row = np.ones(WIDTH, np.float32)
    with (
        ascendrt.Device(0),
        ascendrt.Model(models / "one.om") as model,
        DynamicBatcher.of_model(model) as batcher,
    ):
        assert batcher.max_batch == 1
        np.testing.assert_array_equal(batcher(row)[0], row * 3 + 1)


@pytest.mark.parametrize("kind", [DynamicBatcher, DevicePool])
def test_without_room_for_its_threads_none_is_left(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Future[None]] = []
    start = Clock.start

    def limited(clock: Clock, function: Callable[[], None]) -> Future[None]:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(start(clock, function))
        return started[-1]

    monkeypatch.setattr(Clock, "start", limited)
    with pytest.raises(RuntimeError, match="new thread"):
        kind(list, workers=5) if kind is DynamicBatcher else kind([0], depth=5)
    assert [future.done() for future in started] == [True] * 3
