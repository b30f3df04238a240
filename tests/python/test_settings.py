"""docs/settings.md: a wrong value is refused with a text that says what it may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import ascendrt

from ascendrt.cli.settings import KNOWN

# Any text is one: a name, a file to write, a switch that is on when it is set.
FREE = {"ASCENDRT_MACHINE", "ASCENDRT_TRACE", "ASCENDRT_TRACEBACK"}
MODELLED = {"ASCENDRT_TIMING", "ASCENDRT_SCHED_SEED", "ASCENDRT_HOST_GRACE_MS"}


@pytest.mark.parametrize("name", sorted(set(KNOWN) - FREE))
@pytest.mark.parametrize("value", ["nonsense", "-1"])
def test_a_wrong_value_is_refused(name: str, value: str, digits_om: Path, tmp_path: Path) -> None:
    """A program that loads a model meets all settings, whatever its kernels need."""
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    clock = {"ASCENDRT_CLOCK": "virtual"} if name in MODELLED else {}
    words = ("--input", tmp_path / "x.npy", "--out", tmp_path)
    done = ascendrt("om", "run", digits_om, *words, **{**clock, name: value})
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert name in done.stderr and value in done.stderr
    assert "Traceback" not in done.stderr
