"""The device pool in real time. Two entries for device 0 stand for two devices."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import CancelledError

import pytest
from servingkit import simulate

import ascendrt
from ascendrt.serving import DevicePool, Worker


def test_jobs_run_with_their_device_current() -> None:
    def job(worker: Worker) -> int:
        with ascendrt.Memory(64) as memory:
            worker.stream.fill(memory, 7)
            worker.stream.synchronize()
            return int(memory.read((1,), "uint8")[0]) + worker.device.index

    with DevicePool([0]) as pool:
        assert [pool.submit(job).result() for _ in range(20)] == [7] * 20
        (load,) = pool.metrics()
        assert (load.device, load.jobs, load.running, load.failed) == (0, 20, 0, 0)
        assert load.busy_ms > 0
        assert 0 < load.free_bytes <= load.total_bytes


def test_jobs_take_arguments() -> None:
    def job(worker: Worker, left: int, right: int) -> int:
        return worker.device.index + left - right

    with DevicePool([0]) as pool:
        futures = [pool.submit(job, n, 1, memory_bytes=64) for n in range(5)]
        assert [future.result() for future in futures] == [-1, 0, 1, 2, 3]
        assert pool.run(job, 9, 2) == 7
        assert pool.run(lambda worker: pool.run(job, 5, 1)) == 4  # inside of a job


def test_workers_are_kept_from_job_to_job() -> None:
    def job(worker: Worker) -> tuple[int, int]:
        worker.cache["count"] = worker.cache.get("count", 0) + 1
        return id(worker), worker.cache["count"]

    with DevicePool([0], depth=1) as pool:
        seen = [pool.run(job) for _ in range(5)]
    assert [count for _, count in seen] == [1, 2, 3, 4, 5]
    assert len({worker for worker, _ in seen}) == 1


def test_what_a_job_kept_is_closed_with_the_pool() -> None:
    def job(worker: Worker) -> ascendrt.Memory:
        kept: ascendrt.Memory = worker.cache.setdefault("block", ascendrt.Memory(64))
        worker.cache["number"] = 5  # needs no closing
        return kept

    with DevicePool([0], depth=1) as pool:
        block = pool.run(job)
        assert not block.closed
    assert block.closed


def test_what_a_job_leaves_in_its_stream_is_over_with_it() -> None:
    ran: list[int] = []
    with DevicePool([0]) as pool:
        pool.run(lambda worker: worker.stream.call(lambda: ran.append(1)))
        assert ran == [1]


def test_an_error_is_the_jobs_own() -> None:
    def bad(worker: Worker) -> None:
        raise KeyError("own")

    def later(worker: Worker) -> None:
        worker.stream.call(lambda: dict[str, int]()["late"])

    with DevicePool([0]) as pool:
        with pytest.raises(KeyError, match="own"):
            pool.run(bad)
        with pytest.raises(KeyError, match="late"):
            pool.run(later)
        assert pool.run(lambda worker: 3) == 3
        assert pool.metrics()[0].failed == 2


class Held:
    """Jobs that say where they are and wait."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began: list[Worker] = []
        self.changed = threading.Condition()

    def __call__(self, worker: Worker) -> None:
        with self.changed:
            self.began.append(worker)
            self.changed.notify_all()
        assert self.go.wait(30)

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.began) >= count, 10)


def test_jobs_spread_before_they_pile_up() -> None:
    held = Held()
    with DevicePool([0, 0], depth=2) as pool:
        futures = [pool.submit(held) for _ in range(5)]
        held.wait_for(4)
        assert [load.running for load in pool.metrics()] == [2, 2]
        assert pool.queued == 1
        held.go.set()
        for future in futures:
            future.result(10_000)
        assert sum(load.jobs for load in pool.metrics()) == 5


def test_a_job_waits_for_the_memory_it_needs() -> None:
    held = Held()
    with DevicePool([0], depth=2) as pool:
        free = pool.metrics()[0].free_bytes
        first = pool.submit(held, memory_bytes=free // 2 + 1)
        held.wait_for(1)
        second = pool.submit(lambda worker: 2, memory_bytes=free // 2 + 1)
        assert not second.done()
        assert pool.queued == 1
        held.go.set()
        first.result(10_000)
        assert second.result(10_000) == 2
        # More than is free: an idle device takes it, the allocation itself will tell.
        total = pool.metrics()[0].total_bytes
        assert pool.submit(lambda worker: 3, memory_bytes=total).result(10_000) == 3
        with pytest.raises(ValueError, match=f"memory_bytes is {1 << 50}; .* has {total} bytes"):
            pool.submit(lambda worker: 4, memory_bytes=1 << 50)
        with pytest.raises(ValueError, match="memory_bytes"):
            pool.run(lambda worker: 4, memory_bytes=total + 1)


def test_a_queued_job_can_be_withdrawn() -> None:
    held = Held()
    with DevicePool([0], depth=1) as pool:
        running = pool.submit(held)
        held.wait_for(1)
        doomed, kept = pool.submit(lambda worker: 1), pool.submit(lambda worker: 2)
        assert doomed.cancel()
        assert not running.cancel()
        held.go.set()
        assert kept.result(10_000) == 2
        with pytest.raises(CancelledError):
            doomed.result()


def test_jobs_can_be_awaited() -> None:
    async def main(pool: DevicePool) -> list[int]:
        return await asyncio.gather(*(pool.submit(lambda worker, n=n: n) for n in range(5)))  # type: ignore[misc]

    with DevicePool([0]) as pool:
        assert asyncio.run(main(pool)) == [0, 1, 2, 3, 4]


def test_closing_runs_what_is_queued() -> None:
    pool = DevicePool([0], depth=1)
    futures = [pool.submit(lambda worker: 1) for _ in range(10)]
    pool.close()
    assert [future.result(0) for future in futures] == [1] * 10
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.submit(lambda worker: 1)


def test_devices_that_do_not_exist() -> None:
    with pytest.raises(ascendrt.UsageError, match="device=99"):
        DevicePool([0, 99])
    with pytest.raises(ValueError, match="needs a device"):
        DevicePool([])
    with pytest.raises(ValueError, match="depth is 0"):
        DevicePool([0], depth=0)


def test_jobs_go_to_the_device_with_more_free_memory() -> None:
    """Four devices, three of them nearly full: what comes one by one goes to the fourth."""
    assert (
        simulate("full_devices", timing={}, ASCENDRT_DEVICES="4", ASCENDRT_HBM_SIZE="64M")
        == [2] * 10
    )


@pytest.mark.parametrize("way", ["close", "error"])
def test_what_no_device_has_begun_can_be_cancelled_at_the_end(way: str) -> None:
    begun, go_on, jobs = threading.Event(), threading.Event(), []

    def first(_: Worker) -> int:
        begun.set()
        go_on.wait(20)
        return 1

    def use(pool: ascendrt.DevicePool) -> None:
        jobs.append(pool.submit(first))
        begun.wait(20)
        jobs.extend(pool.submit(lambda _: 2) for _ in range(50))
        threading.Timer(0.2, go_on.set).start()
        if way == "error":
            raise KeyboardInterrupt
        pool.close(cancel=True)

    with contextlib.suppress(KeyboardInterrupt), ascendrt.DevicePool([0], depth=1) as pool:
        use(pool)
    assert jobs[0].result(20_000) == 1
    assert all(job.cancelled() for job in jobs[1:])
    assert pool.queued == 0
