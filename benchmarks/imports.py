"""How long `import ascendrt` takes beside `import numpy`, each in a new process.

Rounds alternate; the figure is the ratio of the medians. Also counts what the import must not
bring: numpy, cffi, and any library of ours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

ROUNDS = 31
TIMED = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
BROUGHT = """
import json, sys
import ascendrt
names = [n for n in ("numpy", "cffi", "_cffi_backend", "ascendrt._cffi", "acl") if n in sys.modules]
with open("/proc/self/maps") as maps:
    names += sorted({line.split()[-1] for line in maps if "ascendrt" in line and ".so" in line})
print(json.dumps(names))
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def measure() -> dict[str, object]:
    """Import each in turn; returns the ratio and what came along."""
    times: dict[str, list[float]] = {"ascendrt": [], "numpy": []}
    for _ in range(ROUNDS):
        for name, seconds in times.items():
            seconds.append(float(run(TIMED.format(name))))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    return {
        "ascendrt_ms": round(medians["ascendrt"] * 1e3, 2),
        "numpy_ms": round(medians["numpy"] * 1e3, 2),
        "ratio": round(medians["ascendrt"] / medians["numpy"], 3),
        "brought": len(json.loads(run(BROUGHT))),
    }
