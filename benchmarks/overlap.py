"""A service of copy in (2 ms), compute (8 ms) and copy out (1 ms), written right and wrong.

Times come from events of the device in programs/overlap.c, which checks every answer.
With all other costs 0 the sums are known: a stream that does one thing after the other takes 11 ms
per request, a pipeline 8 ms and 3 ms once. `paced` sleeps to the modelled moments, so there the
time on the wall has to be the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import modelled

REQUESTS = 1000
PACED_REQUESTS = 60
SERIAL_MS, PIPELINE_MS, ENDS_MS = 11.0, 8.0, 3.0
TASKS = {"h2d.latency_us": 2000.0, "d2h.latency_us": 1000.0, "op.kernel.us": 8000.0}
PROGRAMS = ("one_stream", "sync", "double_buffer", "stages")


def expected_ms(program: str, requests: int) -> float:
    """What the sums say."""
    serial = program in ("one_stream", "sync")
    return SERIAL_MS * requests if serial else PIPELINE_MS * requests + ENDS_MS


def measure() -> dict[str, object]:
    """Seconds of 1000 requests per program, and deviations from the sums."""
    figures: dict[str, object] = {"requests": REQUESTS, "paced_requests": PACED_REQUESTS}
    exact = modelled.settings(modelled.NOTHING | TASKS)
    usual = modelled.settings(TASKS)
    worst = paced_worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, model = modelled.build("overlap", folder), modelled.kernel(folder, "kernel")
        for kind in PROGRAMS:
            took_ms, wall_ms = times_ms(program, kind, REQUESTS, model, exact)
            worst = max(worst, abs(took_ms / expected_ms(kind, REQUESTS) - 1))
            with_costs_ms, _ = times_ms(program, kind, REQUESTS, model, usual)
            figures[f"{kind}_s"] = took_ms / 1e3
            figures[f"{kind}_default_costs_s"] = with_costs_ms / 1e3
            figures[f"{kind}_wall_s"] = wall_ms / 1e3
        for kind in PROGRAMS:
            _, wall_ms = times_ms(program, kind, PACED_REQUESTS, model, exact, clock="paced")
            deviation = abs(wall_ms / expected_ms(kind, PACED_REQUESTS) - 1)
            figures[f"{kind}_paced_deviation"] = deviation
            paced_worst = max(paced_worst, deviation)
    return figures | {"deviation": worst, "paced_deviation": paced_worst}


def times_ms(
    program: Path, kind: str, requests: int, model: Path, timing: str, clock: str = "virtual"
) -> tuple[float, float]:
    """The time between the events of a run, and the time on the wall."""
    text = modelled.run(
        program, kind, requests, model, ASCENDRT_TIMING=timing, ASCENDRT_CLOCK=clock
    )
    took_ms, wall_ms = map(float, text.split())
    return took_ms, wall_ms
