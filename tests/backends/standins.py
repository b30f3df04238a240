"""Stand-in library sets built at test time, and a way to ask a fresh process about them.

The choice of a backend is made once per process, so what concerns loading runs in a child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("standin.c")

# The machine that runs the tests may have a toolkit or a card: neither may be seen by them.
PRELUDE = """
from ascendrt import _backend
_backend.STANDARD_ROOTS = ()
_backend.DEVICE_GLOB = {glob!r}
"""


def compile_library(target: Path, *flags: str, source: Path = SOURCE) -> Path:
    """Build a shared library with the system compiler; its SONAME is its file name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    command += [f"-Wl,-soname,{target.name}", "-o", str(target), str(source), *flags]
    subprocess.run(command, check=True, timeout=60)
    return target


@dataclass(frozen=True)
class Toolkit:
    """A folder of the shape of a CANN installation."""

    root: Path

    @property
    def lib64(self) -> Path:
        return self.root / "lib64"


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment of the tests without anything that steers the choice, plus `changes`."""
    steering = ("ASCENDRT_", "ASCEND_", "LD_LIBRARY_PATH")
    base = {key: value for key, value in os.environ.items() if not key.startswith(steering)}
    return {**base, **changes}


def run_python(
    code: str, glob: str = "/nonexistent/davinci*", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that sees no standard place and no card."""
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", PRELUDE.format(glob=glob) + code],
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
