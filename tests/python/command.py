"""How the tests start the `ascendrt` command and scripts: fresh process, emulator, bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
TIMEOUT_S = 120


def environment(**changes: str) -> dict[str, str]:
    """The tests' environment on the emulator, without settings of the machine, plus `changes`."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("ASCENDRT_", "ASCEND_", "LD_LIBRARY_PATH"))
    }
    return {**kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", **changes}


def run(
    *words: object, cwd: Path | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run any command and return what it printed."""
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(**changes),
        cwd=cwd,
        check=False,
    )


def ascendrt(
    *words: object, cwd: Path | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run the `ascendrt` command."""
    return run(sys.executable, "-m", "ascendrt", *words, cwd=cwd, **changes)
