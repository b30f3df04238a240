"""Serving in the hands of those who misuse it: every request ends, and no wait is for ever."""

from __future__ import annotations

import asyncio
import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import acl
import numpy as np
import pytest
from servingkit import WIDTH

import ascendrt
from ascendrt.serving.devices import Worker

NAN, INF = float("nan"), float("inf")
LIMIT_MS = 20_000


def batcher(**options: Any) -> ascendrt.DynamicBatcher[int, int]:
    return ascendrt.DynamicBatcher(lambda batch: batch, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_delay_ms": NAN}, ValueError, "max_delay_ms is not a number"),
        ({"max_delay_ms": -1}, ValueError, "max_delay_ms is -1; it must be at least 0"),
        ({"max_delay_ms": "1"}, TypeError, "max_delay_ms is '1'; it must be a number"),
        ({"max_batch": 0}, ValueError, "max_batch is 0; it must be at least 1"),
        ({"max_batch": NAN}, TypeError, "max_batch is nan; it must be a whole number"),
        ({"max_batch": 2.5}, TypeError, "max_batch is 2.5; it must be a whole number"),
        ({"max_queue": 0}, ValueError, "max_queue is 0; it must be at least 1"),
        ({"max_queue": 1.5}, TypeError, "max_queue is 1.5; it must be a whole number"),
        ({"workers": 0}, ValueError, "workers is 0; it must be at least 1"),
        ({"gears": [2, 0]}, ValueError, "a gear is 0; it must be at least 1"),
        ({"gears": ["a"]}, TypeError, "a gear is 'a'; it must be a whole number"),
    ],
)
def test_limits_of_a_batcher(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        batcher(**options)


def test_a_delay_may_be_for_ever() -> None:
    with batcher(max_delay_ms=INF, max_batch=3) as endless:
        futures = [endless.submit(n) for n in range(4)]
        assert [future.result(LIMIT_MS) for future in futures[:3]] == [0, 1, 2]
        with pytest.raises(TimeoutError):
            futures[3].result(50)
    assert futures[3].result() == 3
    with batcher(max_delay_ms=0, max_batch=10**20) as eager:
        assert eager(5) == 5


def test_limits_of_pools_and_pipelines(models: Path) -> None:
    for depth in (0, 1.5, NAN, "2", None):
        with pytest.raises((TypeError, ValueError), match=f"depth is {depth!r}; it must be"):
            ascendrt.DevicePool([0], depth=depth)  # type: ignore[arg-type]
    with ascendrt.DevicePool([0]) as pool:
        for size in (-1, 1.5, NAN, INF, None):
            with pytest.raises((TypeError, ValueError), match=r"memory_bytes is .*; it must be"):
                pool.submit(int, memory_bytes=size)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a job is a function of a Worker, not 5"):
            pool.submit(5)  # type: ignore[arg-type]
    with ascendrt.Device(0), ascendrt.Model(models / "one.om") as model:
        for depth in (0, NAN, "2"):
            with pytest.raises((TypeError, ValueError), match=r"depth is .*; it must be"):
                ascendrt.Pipeline(model, depth=depth)  # type: ignore[arg-type]
        with ascendrt.ModelPool(budget_bytes=10) as small:
            with pytest.raises(ValueError, match=r"'one' needs .* the whole budget of 10"):
                small.add("one", models / "one.om")
            assert small.models() == []


def test_times_that_are_none() -> None:
    future = ascendrt.clock().start(lambda: 5)
    assert future.result(INF) == 5
    late = ascendrt.clock().start(lambda: time.sleep(0.2))
    with pytest.raises(ValueError, match="timeout_ms is not a number"):
        late.result(NAN)
    with pytest.raises(TypeError, match="timeout_ms is '1'"):
        late.result("1")  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        late.result(-1)
    with pytest.raises(TimeoutError, match="no result within 10 ms"):
        late.result(timeout=0.01)
    with pytest.raises(TypeError, match="timeout is '1'; it must be a number of seconds"):
        late.exception(timeout="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not both"):
        late.result(5, timeout=5)
    with batcher(max_delay_ms=INF, max_batch=2) as batches:
        waiting = batches.submit(1)
        with pytest.raises(TimeoutError, match="no result within 20 ms"):
            waiting.exception(timeout=0.02)
        batches.submit(2)
        assert waiting.result(timeout=30) == 1
    late.result()


def test_what_a_callback_raises_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """It ended the thread that ran the batches, and whoever waited then waited for ever."""

    def fail(_: object) -> None:
        raise KeyboardInterrupt("a callback")

    with batcher(max_delay_ms=50) as batches, caplog.at_level(logging.ERROR):
        future = batches.submit(1)
        future.add_done_callback(fail)
        told: list[object] = []
        future.add_done_callback(told.append)
        assert future.result(LIMIT_MS) == 1
        future.add_done_callback(fail)
        assert batches.submit(2).result(LIMIT_MS) == 2
    assert told == [future]
    assert caplog.text.count("a function that was to be called") == 2


class Short(list[int]):
    """Says to be longer than it is."""

    def __len__(self) -> int:
        return 1


def test_answers_that_lie_about_their_number() -> None:
    with ascendrt.DynamicBatcher(lambda batch: Short()) as batches:
        with pytest.raises(ValueError, match="1 requests got 0 answers"):
            batches.submit(1).result(LIMIT_MS)
        with pytest.raises(ValueError, match="answers"):
            batches.submit(1).result(LIMIT_MS)


def test_closing_from_within_does_not_wait_for_itself(models: Path) -> None:
    def close_batcher(batch: list[int]) -> list[int]:
        batches.close()
        return batch

    batches = ascendrt.DynamicBatcher(close_batcher)
    assert batches.submit(1).result(LIMIT_MS) == 1
    batches.close()
    pool = ascendrt.DevicePool([0])
    assert pool.submit(lambda worker: pool.close()).result(LIMIT_MS) is None
    pool.close()
    with ascendrt.Device(0) as device:
        before = device.memory()
        kept = ascendrt.ModelPool()
        kept.add("one", models / "one.om")
        with kept.lease("one") as model:
            kept.close()
            assert model(np.zeros((1, WIDTH), np.float32))[0].shape[0] == 1
        assert model.closed
        assert device.memory() == before


def test_waiting_from_within_is_refused_or_needless() -> None:
    words = "a batch cannot wait for another answer"
    batches = ascendrt.DynamicBatcher(lambda batch: [batches(n) for n in batch])
    with batches, pytest.raises(RuntimeError, match=words):
        batches.submit(1).result(LIMIT_MS)
    with ascendrt.DevicePool([0], depth=1) as pool:
        job = lambda outer: pool.run(lambda inner: inner is outer)  # noqa: E731
        assert pool.submit(job).result(LIMIT_MS)


BREAKERS: dict[str, Callable[[Worker], object]] = {
    "closes the device": lambda worker: worker.device.close(),
    "closes the stream": lambda worker: worker.stream.close(),
    "resets the device": lambda worker: acl.rt.reset_device(0),
    "leaves another context": lambda worker: worker.cache.setdefault("c", ascendrt.Context(0)),
    "ends the thread": lambda worker: (_ for _ in ()).throw(SystemExit(3)),
}


@pytest.mark.parametrize("breaker", BREAKERS)
def test_a_job_that_breaks_its_worker_harms_no_other(breaker: str) -> None:
    def good(worker: Worker) -> bool:
        with ascendrt.Memory(64) as memory:
            worker.stream.fill(memory, 1)
            worker.stream.synchronize()
        return worker.device.memory().free_bytes > 0

    with ascendrt.DevicePool([0], depth=1) as pool:
        for _ in range(2):
            broken = pool.submit(BREAKERS[breaker])
            assert pool.submit(good).result(LIMIT_MS)
            broken.exception(LIMIT_MS)


def test_the_results_before_a_bad_request_are_not_lost(models: Path) -> None:
    rows = [np.full((1, WIDTH), n, np.float32) for n in range(5)]
    with ascendrt.Device(0), ascendrt.Model(models / "one.om") as model:
        for bad in ([rows[0][0]], None):
            with ascendrt.Pipeline(model, depth=3) as pipeline:
                results = pipeline.map([[row] for row in rows] + [bad])  # type: ignore[list-item]
                got = [next(results)[0] for _ in rows]
                assert [float(each.ravel()[0]) for each in got] == [3.0 * n + 1 for n in range(5)]
                with pytest.raises((TypeError, ValueError), match=r"shape|list of arrays"):
                    next(results)


@pytest.mark.parametrize("way", ["answered", "cancelled"])
def test_every_request_ends_whatever_happens(way: str, seed: int) -> None:
    """A run that fails now and then, clients that leave, and an end in the midst of it."""
    draw = random.Random(seed)
    calls = iter(range(1 << 60))

    def run(batch: list[int]) -> list[int]:
        if next(calls) % 5 == 3:
            raise OSError("now and then")
        time.sleep(0.001)
        return [2 * n for n in batch]

    batches = ascendrt.DynamicBatcher(run, max_batch=4, max_delay_ms=1, workers=2)
    ends = dict.fromkeys(("answered", "failed", "cancelled", "refused"), 0)
    lock = threading.Lock()

    def client(number: int) -> None:
        for n in range(number, number + 200):
            end = "answered"
            try:
                future = batches.submit(n)
                if n % 7 == 0:
                    future.cancel()
                assert future.result(LIMIT_MS) == 2 * n
            except OSError:
                end = "failed"
            except CancelledError:
                end = "cancelled"
            except ValueError:
                end = "refused"
            with lock:
                ends[end] += 1

    threads = [threading.Thread(target=client, args=(1000 * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.05 + draw.random() / 20)
    batches.close(cancel=way == "cancelled")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sum(ends.values()) == 6 * 200
    counts = batches.metrics()
    assert (counts.queued, counts.running) == (0, 0)
    assert (counts.answered, counts.failed) == (ends["answered"], ends["failed"])
    assert counts.cancelled == ends["cancelled"]


def test_event_loops_that_end_while_they_wait() -> None:
    with batcher(max_delay_ms=30) as batches:

        async def leave() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(batches.infer(1), 0.001)
            kept.append(asyncio.ensure_future(batches.infer(2)))
            await asyncio.sleep(0)

        kept: list[asyncio.Future[int]] = []
        for _ in range(3):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(leave())
            loop.close()  # with a request on its way
        assert batches(3) == 3


def test_a_signal_may_come_in_the_midst_of_a_call(models: Path) -> None:
    """Its function uses the same object; only a wait that could not end is refused."""
    words = "signal came in the midst of another call of this"
    batches: ascendrt.DynamicBatcher[int, int] = ascendrt.DynamicBatcher(list, max_delay_ms=0)
    with batches._changed:  # where the function of a signal finds itself
        assert batches.metrics().queued == 0
        withdrawn, answered = batches.submit(1), batches.submit(2)
        assert withdrawn.cancel()
        with pytest.raises(RuntimeError, match=words):
            answered.result()
        batches.close()
    assert answered.result(LIMIT_MS) == 2
    batches.close()
    assert batches.metrics().cancelled == 1

    pool = ascendrt.DevicePool([0], depth=1)
    with pool._changed:
        jobs = [pool.submit(lambda _: 3) for _ in range(3)]
        assert pool.queued == 2 and pool.metrics()[0].running == 1
        with pytest.raises(RuntimeError, match=words):
            jobs[0].result()
        pool.close()
    assert [job.result(LIMIT_MS) for job in jobs] == [3, 3, 3]
    pool.close()

    with ascendrt.Device(0):
        kept = ascendrt.ModelPool()
        kept.add("one", models / "one.om")
        with kept._changed:
            assert len(kept("one", np.zeros((1, WIDTH), np.float32))) == 1
            kept.swap("one", models / "one.om")
            assert kept.models()[0].version == 2
            kept.close()
        kept.close()


SIGNALS = """
import faulthandler, random, signal, sys, time
import numpy as np
import ascendrt

faulthandler.dump_traceback_later(50, exit=True)
picture, what = np.zeros((1, {width}), np.float32), sys.argv[2]
serves = busy = False


def came(*_):
    global busy
    if not serves or busy:
        return
    busy = True
    try:
        if what == "interrupt":
            raise KeyboardInterrupt
        if what == "close":
            batches.close(), jobs.close(), models.close()
        else:
            batches.submit(1), batches.metrics(), jobs.submit(lambda _: 1), jobs.metrics()
            models.swap("one", sys.argv[1]), models.models(), models("one", picture)
    finally:
        busy = False


signal.signal(signal.SIGALRM, came)
with ascendrt.Device(0):
    for _ in range(3 if what == "use" else 40):
        batches = ascendrt.DynamicBatcher(list, max_batch=4, max_delay_ms=0.1)
        jobs, models = ascendrt.DevicePool([0]), ascendrt.ModelPool()
        models.add("one", sys.argv[1])
        asked, serves, until = [], True, time.monotonic() + 0.5
        each = 0.003 if what == "use" else 0
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.01), each)
        try:
            while time.monotonic() < until:
                asked += [batches.submit(1), jobs.submit(lambda _: 1)]
                batches.metrics(), models("one", picture)
        except (ValueError, KeyboardInterrupt):
            pass  # closed, or interrupted
        serves = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        batches.close(), jobs.close(), models.close()
        assert [each.result(timeout=5) for each in asked] == [1] * len(asked)
        assert jobs.metrics()[0].running == batches.metrics().running == 0
"""


@pytest.mark.parametrize("what", ["use", "close", "interrupt"])
def test_signals_in_the_midst_of_everything(models: Path, what: str) -> None:
    """Nothing hangs, and every request that was taken is answered."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALS.format(width=WIDTH), models / "one.om", what],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_job_cannot_wait_for_another_of_its_pool() -> None:
    """It would wait for ever where the pool has no thread for the other one."""
    with ascendrt.DevicePool([0], depth=1) as pool:
        outer = pool.submit(lambda _: pool.submit(lambda _: 1).result())
        with pytest.raises(RuntimeError, match=r"pool\.run\(job\) inside of a job runs it there"):
            outer.result(LIMIT_MS)


def test_what_is_printed_tells_what_it_is(models: Path) -> None:
    with ascendrt.Device(0), ascendrt.ModelPool() as kept, ascendrt.DevicePool([0]) as pool:
        kept.add("one", models / "one.om")
        assert repr(kept) == "ModelPool(one)"
        assert repr(pool) == "DevicePool([0], depth=2, 0 waiting)"
        with kept.lease("one") as model, ascendrt.Pipeline(model) as pipeline:
            assert repr(pipeline) == f"Pipeline(Model(id={model.model_id}), depth=3)"
    with batcher(max_batch=4) as batches:
        assert repr(batches) == "DynamicBatcher(max_batch=4, 0 waiting)"
    closed = [repr(each) for each in (batches, kept, pool)]
    assert all("closed" in each for each in closed), closed
