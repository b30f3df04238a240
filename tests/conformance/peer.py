"""A second process that talks with the test: for what processes share.

Owns: starting it, one JSON line in each direction per step. Must never leave it running.

A peer runs a function taken by its source: it sees the names of rawabi, `say` and `hear`, and its
arguments. Both sides wait a bounded time.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import TracebackType
from typing import Any

import rawabi

WAIT_S = 30.0


class Peer:
    """A process that runs `body(**arguments)` on the same emulated machine as this one."""

    def __init__(self, body: Callable[..., Any], **arguments: Any) -> None:
        source = textwrap.dedent(inspect.getsource(body)) + f"\n{body.__name__}(**arguments)\n"
        environ = dict(os.environ)
        environ[rawabi.ZERO_VARIABLE] = ",".join(sorted(rawabi.acl.zeroed))
        environ.setdefault("ASCENDRT_MACHINE", "private")
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)], env=environ,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,  # select() sees all
        )  # fmt: skip
        self.say({"source": source, "arguments": arguments})

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def say(self, value: Any) -> None:
        """Send a value that the peer's hear() returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """Return what the peer said next."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], WAIT_S)
        assert ready, "the peer says nothing"
        line = self._process.stdout.readline()
        assert line, f"the peer ended with status {self._process.wait(WAIT_S)}"
        return json.loads(line)

    def kill(self) -> None:
        """End it as the kernel would: no clean-up."""
        self._process.kill()
        self._process.wait(WAIT_S)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def say(value: Any) -> None:
    """In the peer: send a value to the test."""
    print(json.dumps(value), flush=True)


def hear() -> Any:
    """In the peer: return the next value that the test sent; ends with it."""
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    return json.loads(line)


def _main() -> None:
    order = hear()
    scope = {**vars(rawabi), "arguments": order["arguments"], "say": say, "hear": hear}
    exec(compile(order["source"], "<peer>", "exec"), scope)
    hear()  # stays alive until the test ends it
    os._exit(0)


if __name__ == "__main__":
    _main()
