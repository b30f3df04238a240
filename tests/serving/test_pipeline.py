"""The pipeline and runs in streams: right answers in order, and a real overlap in virtual time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from servingkit import WIDTH, simulate

import ascendrt
from ascendrt.serving import Pipeline


@pytest.fixture
def model(models: Path) -> Iterator[ascendrt.Model]:
    with ascendrt.Device(0), ascendrt.Model(models / "one.om") as opened:
        yield opened


def rows(count: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return [np.full((1, WIDTH), number, np.float32) for number in range(count)]


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_results_come_in_order(model: ascendrt.Model, depth: int) -> None:
    with Pipeline(model, depth=depth) as pipeline:
        results = list(pipeline.map([row] for row in rows(50)))
    assert [float(result[0][0, 0]) for result in results] == [n * 3 + 1 for n in range(50)]


def test_inputs_may_change_at_once(model: ascendrt.Model) -> None:
    row = np.zeros((1, WIDTH), np.float32)
    runs = []
    with Pipeline(model) as pipeline:
        for number in range(20):
            row[:] = number
            runs.append(pipeline.submit([row]))
        row[:] = -1
    assert [float(run.result()[0][0, 0]) for run in runs] == [n * 3 + 1 for n in range(20)]


def test_many_threads_share_a_pipeline(model: ascendrt.Model) -> None:
    wrong: list[int] = []

    def client(pipeline: Pipeline, number: int) -> None:
        for _ in range(20):
            run = pipeline.submit({"x": np.full((1, WIDTH), number, np.float32)})
            if float(run.result()[0][0, 0]) != number * 3 + 1:
                wrong.append(number)

    with Pipeline(model) as pipeline:
        threads = [threading.Thread(target=client, args=(pipeline, n)) for n in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    assert wrong == []


def test_runs_can_be_awaited_and_outlive_the_model(models: Path) -> None:
    async def main(model: ascendrt.Model) -> list[float]:
        with ascendrt.Stream() as stream, ascendrt.Stream() as other:
            first = [model.run_async([row], stream) for row in rows(5)]
            second = [model.run_async({"x": row}, other) for row in rows(5)]
            results = [await run for run in (*first, *second)]
        return [float(result[0][0, 0]) for result in results]

    with ascendrt.Device(0):
        with ascendrt.Model(models / "one.om") as model:
            assert asyncio.run(main(model)) == [1, 4, 7, 10, 13] * 2
            stream = ascendrt.Stream()
            late = model.run_async(rows(1), stream)
            model.run_async(rows(1), stream)  # nobody takes its result
        assert float(late.result()[0][0, 0]) == 1
        assert late.done
        stream.close()


def test_a_run_without_a_stream_can_be_awaited(model: ascendrt.Model) -> None:
    """The thread that waits in place of the event loop has no context of its own."""

    async def main() -> list[float]:
        runs = [model.run_async([row]) for row in rows(50)]
        return [float((await run)[0][0, 0]) for run in runs]

    assert asyncio.run(main()) == [n * 3 + 1 for n in range(50)]
    run = model.run_async(rows(1))
    taken: list[float] = []
    thread = threading.Thread(target=lambda: taken.append(float(run.result()[0][0, 0])))
    thread.start()
    thread.join(30)
    assert taken == [1]


def test_bad_inputs_and_a_closed_pipeline_are_refused(model: ascendrt.Model) -> None:
    with pytest.raises(ValueError, match="depth is 0"):
        Pipeline(model, depth=0)
    pipeline = Pipeline(model)
    with pytest.raises(ValueError, match=r"\(1, 16\)"):
        pipeline.submit([np.zeros((2, WIDTH), np.float32)])
    (result,) = pipeline.submit(rows(1)).result()
    assert result[0, 0] == 1
    pipeline.close()
    pipeline.close()
    with pytest.raises(ValueError, match="Pipeline is closed"):
        pipeline.submit(rows(1))


def test_copies_and_computing_overlap(models: Path) -> None:
    """10 ms in, 10 ms of computing, 10 ms out: 30 requests one by one take 900 ms, here 320."""
    timing = {"h2d.latency_us": 10_000.0, "d2h.latency_us": 10_000.0, "kernel.floor_us": 10_000.0}
    figures = simulate("overlap", models / "one.om", 30, timing=timing)
    assert figures["right"] == 30
    assert figures["one_by_one_ms"] == pytest.approx(900, rel=0.01)
    assert figures["piped_ms"] == pytest.approx(320, rel=0.01)
    assert figures["double_ms"] <= 0.67 * figures["one_by_one_ms"]


def test_a_failure_is_told_by_the_run_that_failed(model: ascendrt.Model) -> None:
    go = threading.Event()
    with ascendrt.Stream() as stream:
        stream.call(lambda: go.wait(30))
        runs = [model.run_async([row], stream) for row in rows(3)]
        broken = model._slots[1].feed.memory(0)
        broken.close()  # the copy to it has not run yet
        go.set()
        with pytest.raises(ascendrt.AclError, match="aclrtSynchronizeStream") as caught:
            runs[1].result()
        with pytest.raises(ascendrt.AclError) as again:
            runs[1].result()
        assert again.value is caught.value
        assert [float(runs[n].result()[0][0, 0]) for n in (0, 2)] == [1, 7]
        stream.synchronize()


def test_a_run_has_its_place_in_the_clients_stream(model: ascendrt.Model) -> None:
    order: list[str] = []
    go = threading.Event()
    with ascendrt.Stream() as stream:
        stream.call(lambda: go.wait(30))
        stream.call(lambda: order.append("before"))
        run = model.run_async(rows(1), stream)
        stream.call(lambda: order.append(f"after, done={run.done}"))
        assert not run.done
        go.set()
        stream.synchronize()
        assert order == ["before", "after, done=True"]
        assert run.result()[0][0, 0] == 1


@pytest.mark.parametrize("clock", ["real", "virtual", "paced"])
@pytest.mark.parametrize("ending", ["", "raise KeyError('own')"])
def test_open_serving_objects_do_not_disturb_the_end_of_the_process(
    models: Path, clock: str, ending: str
) -> None:
    code = f"""
import ascendrt, numpy as np
device, model = ascendrt.Device(0), ascendrt.Model({str(models / "one.om")!r})
row = np.zeros((1, {WIDTH}), np.float32)
batcher = ascendrt.DynamicBatcher.of_model(model, max_delay_ms=1)
assert batcher(row[0])[0][0] == 1
devices = ascendrt.DevicePool()
assert devices.run(lambda worker: worker.device.index) == 0
pipeline, pool = ascendrt.Pipeline(model), ascendrt.ModelPool()
run = pipeline.submit([row])
pool.add("a", {str(models / "one.om")!r})
clock = ascendrt.clock()
sleeping = clock.start(lambda: clock.sleep_ms(200))
{ending}
"""
    environ = {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", "ASCENDRT_CLOCK": clock}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environ, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == (1 if ending else 0), done.stderr
    assert done.stderr.count("Traceback") == (1 if ending else 0), done.stderr
