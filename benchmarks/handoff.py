"""How fast tasks reach a stream and come back, from C, against PoCL's command queue in one run.

Both run the same loops in handoff.c, in processes of their own and in turn; the medians of three
runs are compared. PoCL is the Debian package pocl-opencl-icd (with ocl-icd-libopencl1); where it is
missing the figures say so. Must never compare figures of two runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROUNDS = 3
NO_OPENCL = 3  # exit code of handoff.c


def measure() -> dict[str, object]:
    """Return nanoseconds per step, tasks per second, and the ratios to PoCL."""
    from ascendrt import _backend

    library = _backend.package_lib_dir() / "libascendcl.so"
    rounds: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        program = compile_c(Path(__file__).with_suffix(".c"), Path(folder))
        for _ in range(ROUNDS):
            rounds.append({**run(program, str(library)), **run(program, "pocl")})
    ours = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    figures: dict[str, object] = {**ours, "tasks_per_second": 1e9 / ours["sustained_ns"]}
    if "pocl_handoff_ns" not in ours:
        return {**figures, "rivals_missing": "PoCL (apt-get install pocl-opencl-icd)"}
    return {
        **figures,
        "handoff_ratio": ours["pocl_handoff_ns"] / ours["handoff_ns"],
        "sustained_ratio": ours["pocl_sustained_ns"] / ours["sustained_ns"],
        "rivals_missing": "none",
    }


def compile_c(source: Path, folder: Path) -> Path:
    """Compile one C file of this folder into a program."""
    program = folder / source.stem
    command = [os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(source), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return program


def run(program: Path, argument: str) -> dict[str, float]:
    """Run it on a machine of its own; its lines are "name value"."""
    environment = {**os.environ, "ASCENDRT_MACHINE": "private", "ASCENDRT_DEVICES": "1"}
    done = subprocess.run(
        [str(program), argument],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=600,
        text=True,
        check=False,
    )
    if done.returncode == NO_OPENCL:
        return {}
    done.check_returncode()
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in lines}
