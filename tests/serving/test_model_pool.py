"""The model pool: exchange under load, room by eviction, nobody is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from servingkit import WIDTH

import ascendrt
from ascendrt.model import required_memory
from ascendrt.serving import ModelPool, UnknownModelError

ROW = np.ones((1, WIDTH), np.float32)


def answer(pool: ModelPool, name: str = "net") -> float:
    return float(pool(name, ROW)[0][0, 0])


@pytest.mark.timeout(280)
def test_fifty_exchanges_under_load_fail_no_request(models: Path) -> None:
    sources = [models / "one.om", models / "one_v2.om"]
    answers: list[float] = []
    errors: list[BaseException] = []
    stop = threading.Event()
    with ascendrt.Device(0):  # what this process holds already
        live_before = [d["live_bytes"] for d in _devices()]
    with ascendrt.Device(0) as device, ModelPool() as pool:
        pool.add("net", sources[0])

        def client() -> None:
            while not stop.is_set():
                try:
                    answers.append(answer(pool))
                except BaseException as error:
                    errors.append(error)

        threads = [threading.Thread(target=client) for _ in range(6)]
        for each in threads:
            each.start()
        used: list[int] = []
        for number in range(1, 51):
            before = len(answers)
            pool.swap("net", sources[number % 2])
            while len(answers) < before + 12 and not errors:  # requests on the new one
                pass
            used.append(device.memory().free_bytes)
        stop.set()
        for each in threads:
            each.join(60)
        assert errors == []
        assert {*answers} == {4.0, 6.0}  # x * 3 + 1 and x * 5 + 1 of one
        assert answer(pool) == 4.0
        (row,) = pool.models()
        assert (row.version, row.users, row.loaded) == (51, 0, True)
        # What old models held came back: late in the run no more is gone than early.
        assert min(used[25:]) >= min(used[:10]) - (8 << 20)
    with ascendrt.Device(0):
        assert [d["live_bytes"] for d in _devices()] == live_before


def _devices() -> list[dict[str, int]]:
    return [dict(device) for device in ascendrt.memory_stats()["devices"]]


def test_the_memory_of_exchanged_models_comes_back(models: Path) -> None:
    with ascendrt.Device(0), ModelPool() as pool:
        pool.add("net", models / "one.om")
        answer(pool)
        before = _devices()[0]["live_bytes"]
        for number in range(20):
            pool.swap("net", models / ("one.om", "one_v2.om")[number % 2])
            answer(pool)
        assert _devices()[0]["live_bytes"] == before


def test_a_running_request_ends_on_its_own_model(models: Path) -> None:
    with ascendrt.Device(0), ModelPool() as pool:
        pool.add("net", models / "one.om")
        with pool.lease("net") as model:
            pool.swap("net", models / "one_v2.om")
            assert float(model(ROW)[0][0, 0]) == 4.0
            assert answer(pool) == 6.0
            assert not model.closed
        assert model.closed


def test_a_model_that_does_not_load_leaves_the_old_one(models: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.om"
    bad.write_bytes(b"x" * 1000)
    with ascendrt.Device(0), ModelPool() as pool:
        pool.add("net", models / "one.om")
        with pytest.raises(ascendrt.ModelError):
            pool.swap("net", bad)
        assert answer(pool) == 4.0
        with pytest.raises(ascendrt.ModelError):
            pool.add("bad", bad)
        assert [row.name for row in pool.models()] == ["net"]


def test_a_budget_evicts_what_was_used_longest_ago(models: Path) -> None:
    with ascendrt.Device(0):
        from ascendrt.model import required_memory

        size = sum(required_memory(models / "one.om"))
        with ModelPool(budget_bytes=2 * size) as pool:
            for name in ("a", "b", "c"):
                pool.add(name, models / "one.om")
            assert [row.loaded for row in pool.models()] == [False, True, True]
            assert answer(pool, "b") == 4.0
            assert answer(pool, "a") == 4.0  # loads again, c goes
            assert [row.loaded for row in pool.models()] == [True, True, False]
            assert pool.evictions == 2
            with pool.lease("a"), pool.lease("b"):
                assert answer(pool, "c") == 4.0  # more than the budget: those in use stay
                assert all(row.loaded for row in pool.models())


def test_a_full_device_evicts(models: Path) -> None:
    loads: list[object] = []

    def load(source: object) -> ascendrt.Model:
        loads.append(source)
        if len(loads) == 3:
            raise ascendrt.OutOfMemoryError(207001, "aclmdlLoadFromFile")
        return ascendrt.Model(source)  # type: ignore[arg-type]

    with ascendrt.Device(0), ModelPool(load=load) as pool:
        pool.add("a", models / "one.om")
        pool.add("b", models / "one.om")
        pool.add("c", models / "one.om")
        assert [row.loaded for row in pool.models()] == [False, True, True]
        assert len(loads) == 4


def test_without_anything_to_evict_the_error_comes_out(models: Path) -> None:
    def load(source: object) -> ascendrt.Model:
        raise ascendrt.OutOfMemoryError(207001, "aclmdlLoadFromFile")

    with ascendrt.Device(0), ModelPool(load=load) as pool:
        with pytest.raises(ascendrt.OutOfMemoryError):
            pool.add("a", models / "one.om")
        assert pool.models() == []


def test_many_ask_for_a_model_that_is_not_loaded_and_it_is_loaded_once(models: Path) -> None:
    loads: list[object] = []

    def load(source: object) -> ascendrt.Model:
        loads.append(source)
        return ascendrt.Model(source)  # type: ignore[arg-type]

    answers: list[float] = []
    with ascendrt.Device(0), ModelPool(load=load) as pool:
        pool.add("net", models / "one.om", preload=False)
        assert loads == []
        threads = [threading.Thread(target=lambda: answers.append(answer(pool))) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    assert (answers, len(loads)) == ([4.0] * 8, 1)


def test_models_may_come_from_memory(models: Path) -> None:
    with ascendrt.Device(0), ModelPool() as pool:
        pool.add("net", (models / "one.om").read_bytes())
        pool.add("file", models / "one.om")
        assert answer(pool) == 4.0
        one, other = pool.models()
        assert one.size_bytes == other.size_bytes > 0
        pool.swap("net", (models / "one_v2.om").read_bytes())
        assert answer(pool) == 6.0


def test_names(models: Path) -> None:
    with ascendrt.Device(0):
        pool = ModelPool()
        pool.add("net", models / "one.om")
        with pytest.raises(ValueError, match="has a model 'net'"):
            pool.add("net", models / "one.om")
        with pytest.raises(UnknownModelError, match="no model 'other'; it has: net"):
            answer(pool, "other")
        with pytest.raises(KeyError):
            pool.swap("other", models / "one.om")
        pool.remove("net")
        with pytest.raises(UnknownModelError, match="it has: none"):
            answer(pool)
        pool.close()
        pool.close()
        with pytest.raises(ValueError, match="closed"):
            answer(pool)


def test_the_budget_holds_when_many_load_at_once(models: Path) -> None:
    """Models in use may be beyond it; what nobody uses any more may not."""
    size, together = sum(required_memory(models / "one.om")), threading.Barrier(4)

    def load(source: object) -> ascendrt.Model:
        together.wait(20)
        return ascendrt.Model(models / "one.om")

    names = [f"model {number}" for number in range(4)]
    with ascendrt.Device(0), ascendrt.ModelPool(budget_bytes=2 * size, load=load) as pool:
        for name in names:
            pool.add(name, models / "one.om", preload=False)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda name: pool(name, ROW), names))
        assert sum(model.loaded for model in pool.models()) == 2
        assert pool.evictions == 2
        assert [model.runs for model in pool.models()] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda pool: pool.remove("one"), UnknownModelError),
        (lambda pool: pool.close(), ValueError),
    ],
)
def test_an_exchange_that_comes_too_late_is_told(
    models: Path, end: Callable[[ascendrt.ModelPool], None], error: type[Exception]
) -> None:
    made: list[ascendrt.Model] = []

    def load(source: object) -> ascendrt.Model:
        made.append(ascendrt.Model(models / "one.om"))
        if len(made) == 2:
            end(pool)
        return made[-1]

    with ascendrt.Device(0), ascendrt.ModelPool(load=load) as pool:
        pool.add("one", models / "one.om")
        assert pool.models()[0].runs == 0
        with pytest.raises(error):
            pool.swap("one", models / "one.om")
        assert [model.closed for model in made] == [True, True]


def test_a_name_is_a_text(models: Path) -> None:
    with ascendrt.Device(0), ascendrt.ModelPool() as pool:
        for name in (None, 5, ["one"]):
            with pytest.raises(TypeError, match="the name of a model is a text, not"):
                pool.add(name, models / "one.om")  # type: ignore[arg-type]
