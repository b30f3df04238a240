"""Times of events in modelled time against known sums and against the simulator."""

from __future__ import annotations

import random
from pathlib import Path

import plans
import pytest
import simulator

from benchmarks import modelled
from benchmarks import overlap as named

SOC = "Ascend910B1"
TOLERANCE = 1e-3
PACED_TOLERANCE = 0.03
FIGURES = simulator.figures_of(SOC)


@pytest.mark.parametrize("kind", named.PROGRAMS)
def test_named_programs(overlap: tuple[Path, Path], kind: str) -> None:
    timing = modelled.settings(modelled.NOTHING | named.TASKS)
    took_ms, wall_ms = named.times_ms(overlap[0], kind, 1000, overlap[1], timing)
    assert took_ms == pytest.approx(named.expected_ms(kind, 1000), rel=TOLERANCE)
    assert wall_ms < took_ms / 2  # nothing slept


@pytest.mark.parametrize("kind", named.PROGRAMS)
def test_named_programs_paced(overlap: tuple[Path, Path], kind: str) -> None:
    timing = modelled.settings(modelled.NOTHING | named.TASKS)
    expected_ms = named.expected_ms(kind, 40)
    worst = []
    for _ in range(5):  # other work on the machine holds a sleeper up now and then
        times_ms = named.times_ms(overlap[0], kind, 40, overlap[1], timing, clock="paced")
        worst.append(max(abs(each / expected_ms - 1) for each in times_ms))
        if worst[-1] <= PACED_TOLERANCE:
            return
    pytest.fail(f"deviations of all runs: {worst}")


@pytest.mark.parametrize("seed", range(100))
def test_random_pipeline(player: Path, kernels: list[Path], seed: int) -> None:
    draw = random.Random(seed)
    changed = plans.random_figures(draw)
    plan = plans.random_plan(draw, kernels)
    machine = simulator.Machine(FIGURES | changed, simulator.cube_cores_of(SOC))
    expected_ms = machine.play(plan)
    printed = modelled.run(
        player, text="\n".join(plan) + "\n", ASCENDRT_SOC=SOC,
        ASCENDRT_TIMING=modelled.settings(changed),
    )  # fmt: skip
    times_ms = [float(line) for line in printed.split()]
    assert times_ms == pytest.approx(expected_ms, abs=TOLERANCE * max(expected_ms)), f"seed {seed}"
