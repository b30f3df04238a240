"""Serving in virtual time:  python simulations.py NAME WORD...  prints one line of JSON.

The work of a batch or a job is a fill on the emulated device, whose duration the caller sets by
ASCENDRT_TIMING (latency and bandwidth of the device's copies). Nothing here sleeps in real time.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import ascendrt
from ascendrt.serving import DevicePool, DynamicBatcher, Worker

UNIT = 1000  # bytes of one request's share of a batch


class Device:
    """Fills as many units as a batch has requests; made on the thread that uses it."""

    def __init__(self) -> None:
        self._ready: tuple[ascendrt.Device, ascendrt.Stream, ascendrt.Memory] | None = None

    def __call__(self, batch: list[int]) -> list[int]:
        if self._ready is None:
            self._ready = (ascendrt.Device(0), ascendrt.Stream(), ascendrt.Memory(64 * UNIT))
        _, stream, memory = self._ready
        stream.fill(memory, 1, len(batch) * UNIT)
        stream.synchronize()
        return batch


def batching(seed: str, rate: str, count: str, max_batch: str, max_delay_ms: str) -> Any:
    """Poisson arrivals; quantiles of the time from arrival to answer."""
    clock, draw = ascendrt.clock(), random.Random(int(seed))
    sent = []
    with DynamicBatcher(
        Device(), max_batch=int(max_batch), max_delay_ms=float(max_delay_ms)
    ) as batcher:
        began = due = clock.now_ns()
        for number in range(int(count)):
            due += round(draw.expovariate(float(rate)) * 1e9)
            clock.sleep_until_ns(due)
            sent.append((clock.now_ns(), batcher.submit(number)))
        wrong = sum(future.result() != number for number, (_, future) in enumerate(sent))
        metrics = batcher.metrics()
    took = sorted((future.finished_ns or 0) - at for at, future in sent)
    thirds = [took_of(sent[i * len(sent) // 3 : (i + 1) * len(sent) // 3]) for i in range(3)]
    return {
        "wrong": wrong,
        "answered": metrics.answered,
        "p50_ms": took[len(took) // 2] / 1e6,
        "p99_ms": took[int(len(took) * 0.99)] / 1e6,
        "thirds_p50_ms": thirds,
        "mean_batch": metrics.mean_batch,
        "wait_ms_p99": metrics.wait_ms_p99,
        "seconds": (clock.now_ns() - began) / 1e9,
    }


def took_of(sent: list[tuple[int, ascendrt.Future[int]]]) -> float:
    """Median of one part of the run, in milliseconds."""
    took = sorted((future.finished_ns or 0) - at for at, future in sent)
    return took[len(took) // 2] / 1e6


def devices(seed: str, jobs: str, depth: str) -> Any:
    """Jobs of log-uniform 1 to 100 ms on four devices; the busy time of each."""
    draw = random.Random(int(seed))
    clock = ascendrt.clock()
    busy_ms = [0.0] * 4

    def job(duration_ms: float) -> Callable[[Worker], int]:
        def work(worker: Worker) -> int:
            memory = worker.cache.get("memory")
            if memory is None:
                memory = worker.cache["memory"] = ascendrt.Memory(100 * UNIT)
            start, end = ascendrt.Event(), ascendrt.Event()
            with start, end:
                worker.stream.record(start)
                worker.stream.fill(memory, 1, max(round(duration_ms * UNIT), 1))
                worker.stream.record(end)
                worker.stream.synchronize()
                busy_ms[worker.device.index] += end.elapsed_ms(start)
            return worker.device.index

        return work

    began = clock.now_ns()
    with DevicePool(depth=int(depth)) as pool:
        durations = [10 ** draw.uniform(0, 2) for _ in range(int(jobs))]
        futures = [pool.submit(job(duration)) for duration in durations]
        for future in futures:
            future.result()
        loads = pool.metrics()
    return {
        "busy_ms": busy_ms,
        "wanted_ms": sum(durations),
        "jobs": [load.jobs for load in loads],
        "seconds": (clock.now_ns() - began) / 1e9,
    }


def loop() -> Any:
    """An event loop, threads and the device in one virtual time."""
    clock = ascendrt.clock()
    order: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append(name)

    async def device_work() -> None:
        with ascendrt.Stream() as stream, ascendrt.Memory(100 * UNIT) as memory:
            stream.fill(memory, 1, 50 * UNIT)  # 50 ms
            await stream
        order.append("device")

    async def thread() -> None:
        await clock.start(lambda: clock.sleep_ms(30))
        order.append("thread")

    async def main() -> float:
        began = clock.now_ns()
        parts = [sleeper("late", 3600), sleeper("early", 0.02), sleeper("middle", 0.04)]
        await asyncio.gather(*parts, device_work(), thread())
        return (clock.now_ns() - began) / 1e9

    with ascendrt.Device(0):
        seconds = ascendrt.run(main())
    return {"order": order, "seconds": seconds}


def clients(seed: str, count: str) -> Any:
    """Coroutines that ask, are cancelled or time out; each answer is its own."""
    draw, clock = random.Random(int(seed)), ascendrt.clock()
    tally = {"right": 0, "wrong": 0, "cancelled": 0, "late": 0}

    async def client(batcher: DynamicBatcher[int, int], number: int) -> None:
        await asyncio.sleep(draw.random())
        patience = draw.choice((math.inf, math.inf, 0.001, 0.01))
        try:
            answer = await asyncio.wait_for(
                batcher.infer(number), None if patience == math.inf else patience
            )
            tally["right" if answer == number else "wrong"] += 1
        except asyncio.TimeoutError:
            tally["late"] += 1

    async def main() -> None:
        with DynamicBatcher(Device(), max_batch=4, max_delay_ms=2) as batcher:
            tasks = [asyncio.create_task(client(batcher, n)) for n in range(int(count))]
            doomed = draw.sample(tasks, int(count) // 10)
            await asyncio.sleep(0.5)
            for task in doomed:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            tally["cancelled"] = sum(isinstance(each, asyncio.CancelledError) for each in ended)
            metrics = batcher.metrics()
            tally.update(
                queued=metrics.queued, running=metrics.running, answered=metrics.answered,
                withdrawn=metrics.cancelled, failed=metrics.failed,
            )  # fmt: skip

    began = clock.now_ns()
    with ascendrt.Device(0):
        ascendrt.run(main())
    return tally | {"seconds": (clock.now_ns() - began) / 1e9}


def overlap(om: str, count: str) -> Any:
    """The same requests one by one, and through pipelines."""
    import numpy as np

    clock, asked = ascendrt.clock(), [np.full((1, 16), n, np.float32) for n in range(int(count))]
    took_ms: dict[str, float] = {}
    with ascendrt.Device(0), ascendrt.Model(om) as model, ascendrt.Stream() as stream:
        model.run_async([asked[0]], stream).result()
        began = clock.now_ns()
        for row in asked:
            model.run_async([row], stream).result()
        took_ms["one_by_one_ms"] = (clock.now_ns() - began) / 1e6
        for name, depth in (("double_ms", 2), ("piped_ms", 3)):
            with ascendrt.Pipeline(model, depth=depth) as pipeline:
                began = clock.now_ns()
                answers = list(pipeline.map([row] for row in asked))
                took_ms[name] = (clock.now_ns() - began) / 1e6
    right = sum(float(answer[0][0, 0]) == n * 3 + 1 for n, answer in enumerate(answers))
    return took_ms | {"right": right}


def full_devices() -> Any:
    """Where jobs go, one after the other, when all devices but number 2 hold much."""
    devices, held = [], []
    for index in (0, 1, 3):
        devices.append(ascendrt.Device(index))
        held.append(ascendrt.Memory(devices[-1].memory().free_bytes // 2))
    with DevicePool() as pool:
        places = [pool.run(lambda worker: worker.device.index) for _ in range(10)]
    for each in (*held, *devices):
        each.close()
    return places


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
