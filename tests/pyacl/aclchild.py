"""New processes for statements that change theirs, and short checks of answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

from aclcalls import BY_NAME
from acleffects import Recorder

CHILD_TIMEOUT_S = 60


class Child:
    """Runs statements in a new process; the calls that they make count as made by the test."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.printed = ""

    def __call__(self, body: str, **environment: str) -> Any:
        """Return what the statements leave in `answer`."""
        code = f"import acl, json, os, sys\n{textwrap.dedent(body)}\nprint(json.dumps(answer))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ASCENDRT_MACHINE": "private", **environment},
            capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, check=False,
        )  # fmt: skip
        self.printed = done.stdout + done.stderr
        assert done.returncode == 0, done.stderr
        self._recorder.called.update(n for n in BY_NAME if f"acl.{n}(" in body)
        return json.loads(done.stdout.splitlines()[-1])


def ok(answer: tuple[Any, ...]) -> Any:
    """The value of an answer (value, 0)."""
    assert answer[-1] == 0, answer
    return answer[0] if len(answer) == 2 else answer[:-1]


def forget(acl: Recorder) -> None:
    """Drop the texts of earlier failures; needs a context."""
    for _ in range(64):
        if acl.get_recent_err_msg() is None:
            return
    raise AssertionError("there is no end of error messages")


def recent(acl: Recorder) -> str:
    return str(acl.get_recent_err_msg())
