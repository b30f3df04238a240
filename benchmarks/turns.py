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


def medians_ms(runs: Mapping[str, Run], turns: int) -> dict[str, float]:
    """Milliseconds of one run of each."""
    times: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(turns):
        for who, run in runs.items():
            time.sleep(PAUSE_S)
            run()
            for _ in range(RUNS):
                start = time.perf_counter()
                run()
                times[who].append(time.perf_counter() - start)
    return {who: statistics.median(taken) * 1e3 for who, taken in times.items()}


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
