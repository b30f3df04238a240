"""Copies between host and device against memcpy() over equally faulted-in buffers, from C.

copy.c runs twice: confined to one processor (one thread copies), and on all of them (large copies
are shared by two). Must never compare figures of two runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from .handoff import compile_c, run

LARGE = 64 << 20
SMALL_FROM = 64 << 10
SMALL_UP_TO = 4 << 20


def measure() -> dict[str, object]:
    """Return speeds as multiples of memcpy's: by size and direction, and the worst that count."""
    from ascendrt import _backend

    library = str(_backend.package_lib_dir() / "libascendcl.so")
    everywhere = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(Path(__file__).with_suffix(".c"), Path(folder))
        shared = run(program, library)
        try:
            os.sched_setaffinity(0, {max(everywhere)})
            alone = run(program, library)
        finally:
            os.sched_setaffinity(0, everywhere)
    return {
        "small_ratio": min(_ratios(alone, lambda size: SMALL_FROM <= size <= SMALL_UP_TO)),
        "ratio_16k": min(_ratios(alone, lambda size: size == 16 << 10)),
        "ratio_4k": min(_ratios(alone, lambda size: size == 4 << 10)),
        "large_ratio_one_thread": min(_ratios(alone, lambda size: size == LARGE)),
        "large_ratio_two_threads": min(_ratios(shared, lambda size: size == LARGE)),
        **{f"one_thread_{name}": value for name, value in alone.items()},
        **{f"two_threads_{name}": value for name, value in shared.items()},
        "processors": len(everywhere),
    }


def _ratios(figures: dict[str, float], wanted: Callable[[int], bool]) -> list[float]:
    """The multiples for the sizes that are wanted, in all directions."""
    parts = ((name.rsplit("_", 1), value) for name, value in figures.items() if "gbps" not in name)
    return [value for (_, size), value in parts if wanted(int(size))]
