"""How the client tests start a client: its own interpreter, `ascendrt run`, bounded time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import environments
import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
RUN_TIMEOUT_S = 180
Emulated = Callable[..., Any]


@pytest.fixture
def emulated(tmp_path: Path) -> Emulated:
    """Call it with an interpreter and the name of a program: its JSON answer comes back.

    The working folder is the test's own: clients drop files where they run.
    """

    def start(
        python: Path, program: str, *arguments: str, stdin: str = "", **variables: str
    ) -> Any:
        command = [sys.executable, "-m", "ascendrt", "run", "--", str(python)]
        done = subprocess.run(
            [*command, str(PROGRAMS / program), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            cwd=tmp_path,
            env={
                **os.environ,
                "ASCENDRT_BACKEND": "emu",
                "ASCENDRT_MACHINE": "private",
                **variables,
            },
            check=False,
        )
        assert done.returncode == 0, f"{program} exited {done.returncode}\n{done.stderr[-6000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return start


@pytest.fixture(scope="session")
def torch_npu_python() -> Path:
    return environments.torch_npu_python()


@pytest.fixture(scope="session")
def torch_npu_files() -> Path:
    return environments.torch_npu_files()


@pytest.fixture(scope="session")
def onnxruntime_cann_python() -> Path:
    return environments.onnxruntime_cann_python()


def undefined_symbols(library: Path) -> list[str]:
    """The vendor names a library leaves to CANN: acl*, rt*, Msprof* and the C++ namespace ge."""
    listing = output(["nm", "-D", "--undefined-only", str(library)])
    names = [line.split()[-1].split("@")[0] for line in listing.splitlines() if line.strip()]
    return [name for name in names if re.match(r"(acl[A-Za-z]|rt[A-Z]|Msprof|_ZNK?2ge)", name)]


def needed_libraries(library: Path) -> list[str]:
    listing = output(["readelf", "-d", str(library)])
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", listing)


def output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout
