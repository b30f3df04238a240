"""Runtimes that are compared with each other, in one process, in turn.

A runtime's threads look for more work after a run, onnxruntime's for some 30 ms and libgomp's for
some 5 ms, and would take the cores from whoever comes next. So every turn begins with a pause, the
same for all, and with one run that is not counted and fills the caches again.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PAUSE_S = 0.06
RUNS = 3  # counted ones of a turn

Run = Callable[[], Any]


class Times:
    """Milliseconds of a run of each, turn by turn."""

    def __init__(self, runs: Mapping[str, Run], turns: int) -> None:
        self._turns: dict[str, list[float]] = {who: [] for who in runs}
        for _ in range(turns):
            for who, run in runs.items():
                self._turns[who].append(_turn_ms(run))

    def __contains__(self, who: object) -> bool:
        return who in self._turns

    def medians(self) -> dict[str, float]:
        return {who: statistics.median(taken) for who, taken in self._turns.items()}

    def speed(self, of: str, over: str) -> float:
        """How many times as fast one is as the other: the median over the turns.

        A turn compares what ran within a second or so: a machine that gets slower or faster in
        between changes little.
        """
        return statistics.median(
            b / a for a, b in zip(self._turns[of], self._turns[over], strict=True)
        )


def _turn_ms(run: Run) -> float:
    time.sleep(PAUSE_S)
    run()
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def environment(threads: int) -> dict[str, str]:
    """Of a process in which every runtime computes on that many threads."""
    return os.environ | {
        "ASCENDRT_BACKEND": "emu",
        "ASCENDRT_MACHINE": "private",
        "ASCENDRT_COMPUTE_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }


def onnxruntime_session(model: bytes | Path, threads: int) -> Any:
    """A session on the CPU, otherwise as it comes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
