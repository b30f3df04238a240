"""Unmodified Ray: it finds emulated NPUs, gives each worker one of them, and serves models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import environments
import pytest

pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * environments.INSTALL_TIMEOUT_S)]

EXAMPLES = environments.REPOSITORY / "examples"
PROGRAM = EXAMPLES / "ray_serve" / "demo.py"
RUN_TIMEOUT_S = 600
REQUESTS, LEAST_RIGHT = 2000, 0.97


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as its wheel holds it, for PYTHONPATH."""
    root = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    build = f"--config-settings=build-dir={environments.REPOSITORY}/build/python"
    words = ["wheel", "--no-deps", "--no-build-isolation", build, "-w", str(root)]
    subprocess.run([*pip, *words, str(environments.REPOSITORY)], check=True, timeout=1000)
    (wheel,) = root.glob("*.whl")
    words = ["install", "--no-deps", "--target", str(root / "site"), str(wheel)]
    subprocess.run([*pip, *words], check=True, timeout=300)
    return root / "site"


def test_two_nodes_of_two_devices_serve(site: Path, tmp_path: Path) -> None:
    """Every request is answered, and answered right, though a replica is killed half-way."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    settings = {
        "ASCENDRT_BACKEND": "emu", "ASCENDRT_DEVICES": "2", "ASCENDRT_MACHINE": "private",
        "PYTHONPATH": str(site), "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    om = tmp_path / "digits.om"
    convert = [sys.executable, "-m", "ascendrt", "om", "convert"]
    subprocess.run(
        [*convert, str(EXAMPLES / "digits" / "digits.onnx"), "-o", str(om)],
        check=True,
        timeout=120,
    )
    done = subprocess.run(
        [str(environments.ray_python()), str(PROGRAM), str(om)],
        env={**kept, **settings}, capture_output=True, text=True, timeout=RUN_TIMEOUT_S,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["npus"] == 4
    # Each actor sees one device: (count, code of device 0, what it was given, code of device 1).
    assert sorted(told["seen"]) == [[1, 0, "0", 107001]] * 2 + [[1, 0, "1", 107001]] * 2
    assert told["killed"] and told["answers"] == REQUESTS
    print(f"{REQUESTS} answers in {told['seconds']:.1f} s, {told['accuracy']:.1%} as labelled")
    assert told["accuracy"] >= LEAST_RIGHT
