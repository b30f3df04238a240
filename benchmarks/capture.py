"""A replay of recorded tasks against submitting the same tasks again, from C in one run.

Both fill the same bytes, which are verified after every batch; rounds alternate, the least
disturbed round of each counts. Must never compare figures of two runs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path


def measure() -> dict[str, object]:
    """Return nanoseconds per task and their ratio."""
    from ascendrt import _backend

    libraries = _backend.package_lib_dir()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "capture"
        command = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-o", str(program)]
        command += [str(Path(__file__).with_suffix(".c")), f"-I{_backend.package_include_dir()}"]
        command += [f"-L{libraries}", "-lascendcl", f"-Wl,-rpath,{libraries}"]
        subprocess.run(command, check=True, timeout=120)
        environment = {**os.environ, "ASCENDRT_MACHINE": "private", "ASCENDRT_DEVICES": "1"}
        done = subprocess.run(
            [str(program)], env=environment, capture_output=True, check=True, timeout=300, text=True
        )
    lines = (line.split() for line in done.stdout.splitlines())
    return {"tasks": 256, **{name: float(value) for name, value in lines}}
