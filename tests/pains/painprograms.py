"""How the tests of known pains run their programs: each in a new process, as people wrote it.

Owns: the fixtures (conftest.py takes them from here) and what they give.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance"))

import models

REPOSITORY = Path(__file__).resolve().parents[2]
DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
TIMEOUT_S = 120
HEAD = """
import json, os, sys
import acl

def told():
    return str(acl.get_recent_err_msg())

def answer(*values):
    print("ANSWER", json.dumps(values), flush=True)

"""
Program = Callable[..., Any]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    return {**kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", **changes}


class Run:
    """A program that ran: its answers, and what it printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.errors = done.returncode, done.stderr
        self.lines = done.stdout.splitlines()
        self.answers = [json.loads(t[7:]) for t in self.lines if t.startswith("ANSWER ")]

    @property
    def answer(self) -> Any:
        """The values of the only answer."""
        assert self.code == 0, self.errors
        (one,) = self.answers
        return one


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs statements after `import acl`; `answer(...)` in them tells values."""

    def run(body: str, *words: object, **settings: str) -> Run:
        command = [sys.executable, "-c", HEAD + textwrap.dedent(body), *map(str, words)]
        return Run(
            subprocess.run(
                command,
                env=environment(**settings),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                cwd=tmp_path,
                check=False,
            )
        )

    return run


def convert(target: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "ascendrt", "om", "convert", str(DIGITS), "-o", str(target)]
    subprocess.run(
        [*command, *options], env=environment(), check=True, timeout=TIMEOUT_S, capture_output=True
    )
    return target


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo network, [1, 1, 8, 8] float to [1, 10] float."""
    return convert(tmp_path_factory.mktemp("om") / "digits.om")


@pytest.fixture(scope="session")
def rows_om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network x[n, 4] -> -x, compiled for batches of 2 and 5; see tests/conformance/models.py."""
    files = models.OmFiles(tmp_path_factory.mktemp("rows"))
    return Path(os.fsdecode(files.path(files.rows)))
