"""The order of tasks by seed: right programs are right under all of them, wrong ones show."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import modelled

SEEDS = 200
RIGHT, WRONG = 0, 2
# Enough time on the host for what the slow engines do, little enough that tasks overlap.
TIMING = modelled.settings({"host.event_create_us": 1, "host.launch_us": 2})


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modelled.build("orders", tmp_path_factory.mktemp("orders"))


def answer(program: Path, kind: str, seed: int) -> int:
    environ = {
        "ASCENDRT_CLOCK": "virtual",
        # Longer than a busy machine keeps the program's one thread from running.
        "ASCENDRT_HOST_GRACE_MS": "2000",
        "ASCENDRT_MACHINE": "private",
        "ASCENDRT_SCHED_SEED": str(seed),
        "ASCENDRT_TIMING": TIMING,
    }
    done = subprocess.run(
        [program, kind], env=os.environ | environ, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode in (RIGHT, WRONG), f"seed {seed}: {done.stderr}"
    assert f"ASCENDRT_SCHED_SEED={seed}" in done.stderr
    return done.returncode


def answers(program: Path, kind: str) -> list[int]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda seed: answer(program, kind, seed), range(SEEDS)))


@pytest.mark.parametrize("kind", ["chain", "fork"])
def test_a_right_program_is_right_under_every_seed(orders: Path, kind: str) -> None:
    wrong = [seed for seed, code in enumerate(answers(orders, kind)) if code == WRONG]
    assert not wrong, f"seeds {wrong}"


@pytest.mark.parametrize("kind", ["chain-early", "chain-reuse", "fork-early"])
def test_a_missing_dependency_shows(orders: Path, kind: str) -> None:
    codes = answers(orders, kind)
    print(f"{kind}: {codes.count(WRONG)} of {SEEDS} seeds show it")
    assert WRONG in codes
    seed = codes.index(WRONG)
    assert answer(orders, kind, seed) == WRONG, f"seed {seed} does not repeat"
