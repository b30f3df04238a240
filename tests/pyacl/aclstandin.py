"""A library set in which every function of the interface does one thing.

For facts that hold for all calls: the shape of an answer on success and on failure, and whether
other threads run meanwhile.

Owns: the C source of the set, its build, and a child process that calls every row once. As a
program: python aclstandin.py MODE prints {name: answer} as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAILURE = 507899
SLEEP_S = 0.04
# Calls that end or change the process the children run in, or read memory at an address.
_OWN_WAYS = {"util.stop_thread", "util.start_thread", "util.ptr_to_bytes", "util.ptr_to_numpy"}
_HEAD = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static char text[1 << 20];
static long answer(void) {
  static long code = -1;
  if (code < 0) code = atol(getenv("STANDIN_CODE"));
  usleep(atoi(getenv("STANDIN_SLEEP_US")));
  return code;
}
"""
_BODIES = {
    "status": "int {name}() {{ return (int)answer(); }}",
    "profiling off": "int {name}() {{ return (int)answer(); }}",
    "void": "void {name}() {{ answer(); }}",
    "pointer": "void *{name}() {{ return answer() == 0 ? text : 0; }}",
    "value": "{ret} {name}() {{ return answer() == 0 ? ({ret})7 : ({ret})0; }}",
}


def source(only: frozenset[str] | None = None) -> str:
    """The C of a set with every function, or with `only` some."""
    import model as abi

    lines = [_HEAD]
    for function in abi.load().functions:
        if only is not None and function.name not in only:
            continue
        if function.name == "aclrtGetDeviceCount":
            lines.append("int aclrtGetDeviceCount(uint32_t *count) { *count = 1; return 0; }")
            continue
        ret = function.ret if function.ret in ("float", "size_t", "uint64_t") else "long"
        lines.append(_BODIES[function.answer].format(name=function.name, ret=ret))
    return "\n".join(lines)


def build(folder: Path, only: frozenset[str] | None = None) -> Path:
    """Compile the set; returns its folder."""
    folder.mkdir(exist_ok=True)
    path = folder / "standin.c"
    path.write_text(source(only))
    command = [os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC"]
    command += ["-Wl,-soname,libascendcl.so", "-o", str(folder / "libascendcl.so"), str(path)]
    subprocess.run(command, check=True, timeout=120)
    return folder


def ask(folder: Path, mode: str, code: int = 0, sleep_us: int = 0) -> dict[str, Any]:
    """Call every row once in a child bound to the set; returns what MODE tells of each."""
    environment = {
        **os.environ,
        "ASCENDRT_LIBRARY_DIR": str(folder),
        "STANDIN_CODE": str(code),
        "STANDIN_SLEEP_US": str(sleep_us),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "aclstandin.py"), mode],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _shapes() -> dict[str, Any]:
    """{name: [problem or null, value of the status or null]}"""
    from aclcalls import ROWS, problem

    found: dict[str, Any] = {}
    for row in ROWS:
        if row.name in _OWN_WAYS or row.name.startswith("util."):
            continue
        answer = row.function()(*row.harmless())
        last = answer[-1] if isinstance(answer, tuple) else answer
        has_status = bool(row.results) and row.results[-1].name == "code"
        found[row.name] = [problem(row, answer), last if has_status else None, repr(answer)]
    return found


class _Counter(threading.Thread):
    """Counts as long as it gets the GIL; sleeps in between, so that it never keeps it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.end = False

    def run(self) -> None:
        while not self.end:
            self.count += 1
            time.sleep(0.0005)


def _progress() -> dict[str, Any]:
    """{name: steps that another thread made during the call}"""
    from aclcalls import ROWS

    counter = _Counter()
    counter.start()
    found = {}
    for row in ROWS:
        if not row.c or not row.releases_gil:
            continue
        before = counter.count
        row.function()(*row.harmless())
        found[row.name] = counter.count - before
    counter.end = True
    return found


if __name__ == "__main__":
    print(json.dumps({"shapes": _shapes, "progress": _progress}[sys.argv[1]]()))
