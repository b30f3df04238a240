"""docs/settings.md: a wrong value is refused with a text that says what it may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import ascendrt

from ascendrt.cli.settings import KNOWN, faults

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


@pytest.mark.parametrize(
    ("devices", "soc", "hbm"),
    [
        (64, "Ascend910B1", "4g"), (0, "Ascend310P3", "512MiB"), (1, "Ascend910B4", "1073741824"),
        (65, None, None), (None, "ascend910B1", None), (None, None, "0"), (None, None, "4 G"),
        (None, None, "4Q"), (None, None, "99999999999G"), (None, None, "4GB"),
        (None, None, "2097151B"), (None, None, "2M"), (None, None, "1025G"),
    ],
)  # fmt: skip
def test_a_machine_is_judged_as_the_core_judges_it(
    devices: int | None, soc: str | None, hbm: str | None
) -> None:
    names = ("ASCENDRT_DEVICES", "ASCENDRT_SOC", "ASCENDRT_HBM_SIZE")
    given = dict(zip(names, (devices, soc, hbm), strict=True))
    told = ascendrt("info", **{name: str(value) for name, value in given.items() if value})
    refused = [name for name in names if f"{name}='" in told.stdout]
    assert refused == [name for name, f in zip(names, faults(devices, soc, hbm), strict=True) if f]
