"""The rules of streams, events, copies, callbacks and captures hold on the modelled clock as well.

The conformance files run again, unchanged, under a seed; tests that compare with real time are
marked `wall_clock` there and skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ascendrt import _ctl

TESTS = Path(__file__).resolve().parents[1]
FILES = ("04_stream", "05_event", "06_memcpy", "07_callback", "10_capture", "10_notify")
# Under 1, records of notifies run late.
RUNS = [*((name, "20") for name in FILES), ("10_notify", "1")]
LONG_S = 280


@pytest.mark.parametrize("name, seed", RUNS)
def test_conformance_on_the_modelled_clock(name: str, seed: str) -> None:
    path = TESTS / "conformance" / f"test_{name}.py"
    machine = f"modelled-{name}-{seed}-{os.getpid()}"
    variables = {
        "ASCENDRT_CLOCK": "virtual",
        "ASCENDRT_SCHED_SEED": seed,
        # Not "private": a private machine is shared with the process that starts another.
        "ASCENDRT_MACHINE": machine,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    try:
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=LONG_S,
            check=False, cwd=TESTS.parent,
        )  # fmt: skip
    finally:
        _ctl.ledger_file(machine).unlink(missing_ok=True)
    assert done.returncode == 0, f"ASCENDRT_SCHED_SEED={seed}\n{done.stdout[-4000:]}"
    assert " passed" in done.stdout
