"""Limits of the system for a process: the emulator keeps to them, or names the one in its way."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

TIMEOUT_S = 120
USE = """
    import resource
    import ascendrt
    with ascendrt.Device(0), ascendrt.Stream(), ascendrt.Memory(1 << 20) as memory:
        memory.fill(1)
    print("done")
"""


def run(limit: str, size: int, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    code = textwrap.dedent(USE).replace(
        "import ascendrt\n",
        f"import ascendrt, ascendrt._cffi\nresource.setrlimit(resource.{limit}, ({size},) * 2)\n",
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", **settings},
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize("gigabytes", [2, 8, 40])
def test_few_addresses_are_enough_for_a_small_device(gigabytes: int) -> None:
    done = run("RLIMIT_AS", gigabytes << 30, ASCENDRT_HBM_SIZE="64M", ASCENDRT_WORKERS="2")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_few_addresses_for_a_large_device() -> None:
    done = run("RLIMIT_AS", 8 << 30)
    assert done.returncode == 1, done.stderr
    assert "507033" in done.stderr and "ASCENDRT_HBM_SIZE" in done.stderr


def test_small_files_only() -> None:
    """Device memory is a memory file, and the kernel ends a process that exceeds this limit."""
    done = run("RLIMIT_FSIZE", 1 << 20)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "507033" in done.stderr and "ulimit -f" in done.stderr
