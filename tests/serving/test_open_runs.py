"""Runs that are not waited for, of a model whose shapes only a run tells."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from servingkit import WIDTH, affine

import ascendrt
from ascendrt.serving import Pipeline


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return affine(
        tmp_path_factory.mktemp("open"), "open", "rows", 3.0, ("--input_shape=x:1~64,16",)
    )


@pytest.fixture
def model(path: Path) -> Iterator[ascendrt.Model]:
    with ascendrt.Device(0), ascendrt.Model(path) as opened:
        assert opened.is_open
        yield opened


def rows(count: int, number: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.full((count, WIDTH), number, np.float32)


def test_each_run_has_the_shape_of_its_input(model: ascendrt.Model) -> None:
    array = rows(64, 0)
    runs = []
    for number in range(20):
        array[:] = number
        runs.append(model.run_async([array[: number + 1]]))  # taken as it is now
    for number, run in enumerate(runs):
        (result,) = run.result()
        assert run.done
        assert np.array_equal(result, rows(number + 1, number * 3 + 1))


def test_a_run_can_be_awaited_and_queued_by_name(model: ascendrt.Model) -> None:
    async def main() -> list[float]:
        runs = [model.run_async({"x": rows(n + 1, n)}) for n in range(5)]
        return [float((await run)[0].sum()) for run in runs]

    assert asyncio.run(main()) == [(n * 3 + 1) * (n + 1) * WIDTH for n in range(5)]


def test_a_run_has_its_place_in_the_clients_stream(model: ascendrt.Model) -> None:
    order: list[str] = []
    go = threading.Event()
    with ascendrt.Stream() as stream:
        stream.call(lambda: go.wait(30))
        stream.call(lambda: order.append("before"))
        first = model.run_async([rows(2, 1)], stream)
        stream.call(lambda: order.append("between"))
        second = model.run_async([rows(3, 2)], stream)
        stream.call(lambda: order.append("after"))
        assert not first.done
        assert order == []
        go.set()
        stream.synchronize()
        assert order == ["before", "between", "after"]
        assert second.result()[0].shape == (3, WIDTH)
        assert first.result()[0][0, 0] == 4


def test_a_failed_run_lets_the_stream_go_on(model: ascendrt.Model) -> None:
    """The shape fits the description; the device finds that the range is left."""
    went_on = threading.Event()
    with ascendrt.Stream() as stream:
        run = model.run_async([rows(65, 1)], stream)
        stream.call(went_on.set)
        with pytest.raises(ascendrt.AclError, match="aclmdlExecute") as caught:
            run.result()
        stream.synchronize()
        assert went_on.is_set()
        with pytest.raises(ascendrt.AclError) as again:
            run.result()
        assert again.value is caught.value
        assert model.run_async([rows(64, 1)], stream).result()[0].shape == (64, WIDTH)


def test_runs_outlive_the_model_and_may_be_dropped(path: Path) -> None:
    with ascendrt.Device(0):
        with ascendrt.Model(path) as model, ascendrt.Stream() as stream:
            kept = model.run_async([rows(2, 5)], stream)
            for _ in range(10):
                model.run_async([rows(3, 6)], stream)  # nobody takes its result
            gc.collect()
            stream.synchronize()
        assert kept.done
        assert kept.result()[0][0, 0] == 16


def test_many_threads_run_one_model(model: ascendrt.Model) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        runs = [model.run_async([rows(n + 1, number)]) for n in range(10)]
        if any(run.result()[0][0, 0] != number * 3 + 1 for run in runs):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert wrong == []


def test_a_pipeline_takes_such_a_model(model: ascendrt.Model) -> None:
    with Pipeline(model) as pipeline:
        results = list(pipeline.map([rows(n + 1, n)] for n in range(12)))
    assert [result[0].shape[0] for result in results] == list(range(1, 13))
