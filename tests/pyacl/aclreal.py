"""Every call of calls.txt on the loaded library set, in a process of its own.

Owns: making each call succeed and fail once. As a program: python aclreal.py MODE FOLDER prints a
JSON line [name, what was found] for each call as it goes, so that a death or a hang has a name.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import acl
import aclwaits
from aclcalls import BY_NAME, Row, problem
from aclscene import LINES, Files, Line, Scene

from ascendrt import _ctl

HERE = Path(__file__).parent
NO_ID = 2**32 - 1
LIMIT_S = 20  # of one call


@contextmanager
def scene(files: Files) -> Iterator[Scene]:
    """A scene on device 0; nothing of it is left afterwards."""
    acl.init()
    assert acl.rt.set_device(0) == 0
    made = Scene(acl, files)
    try:
        yield made
    finally:
        made.close()
        acl.rt.reset_device_force(0)
        acl.rt.get_last_error(0)


def _elsewhere(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a function gives on a thread without a context."""
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def blank(value: Any) -> bool:
    """Nothing, as C leaves it: zeros, no text; in a dict or list all the way down."""
    if isinstance(value, dict):
        return all(blank(part) for part in value.values())
    if isinstance(value, list):
        return all(blank(part) for part in value)
    return value is None or (isinstance(value, int | float | str) and value in (0, -1, NO_ID, ""))


def _left(row: Row, given: list[Any], answer: tuple[Any, ...]) -> list[Any]:
    """What a failed call tells besides its code, arguments handed back apart."""
    handed = dict(zip([argument.name for argument in row.arguments], given, strict=False))
    values = zip([result.name for result in row.results[:-1]], answer, strict=False)
    return [each for each in values if not blank(each[1]) and each not in handed.items()]


def make(row: Row, given: list[Any]) -> dict[str, Any]:
    """One call, and what its answer tells."""
    try:
        answer = row.function()(*given)
    except ValueError as error:
        return {"problem": None, "failed": True, "left": [], "said": str(error), "answer": None}
    parts = answer if row.shape == "tuple" else (answer,)
    if row.results and row.results[-1].name == "code":
        failed = parts[-1] != 0
    else:
        failed = row.shape == "bare" and blank(answer)
    return {
        "problem": problem(row, answer),
        "failed": failed,
        "left": _left(row, given, parts) if failed else [],
        "said": acl.get_recent_err_msg() if failed else "",
        "answer": repr(answer),
    }


def succeed(row: Row, line: Line, files: Files) -> dict[str, Any]:
    with scene(files) as made:
        return make(row, made.arguments(line.good))


def fail(row: Row, line: Line, files: Files) -> dict[str, Any]:
    """The way to fail that is told; else with nulls, and on a thread without a context."""
    with scene(files) as made:
        if line.bad:
            return make(row, made.arguments(line.bad))
        found = make(row, row.harmless())
        return found if found["failed"] else _elsewhere(lambda: make(row, row.harmless()))


def _noted(found: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    try:
        return found(*arguments)
    except Exception:
        return {"problem": traceback.format_exc(limit=-2)}


def both(files: Files) -> Iterator[tuple[str, Any]]:
    """{name: {success: .., failure: ..}}; of calls that the library lacks, only {lacking: ..}."""
    with scene(files):
        for name in sorted(BY_NAME.keys() - LINES.keys()):
            row = BY_NAME[name]
            yield name, {"lacking": make(row, row.harmless())}
    for name, line in LINES.items():
        row = BY_NAME[name]
        yield (
            name,
            {
                "success": _noted(lambda row=row, line=line: succeed(row, line, files)),
                "failure": _noted(lambda row=row, line=line: fail(row, line, files)),
            },
        )


def waits(files: Files) -> Iterator[tuple[str, Any]]:
    """{name: {held: .., given_up: ..}} of a call that finds its stream and the default one busy.

    `control` is a call that sleeps with the GIL in hand.
    """
    acl.init()
    counters = aclwaits.Waits(acl)
    yield "control", counters.during(ctypes.PyDLL(None).usleep, 1000)
    for name, line in LINES.items():
        with scene(files) as made:
            given = made.arguments(line.good)
            busy = [0] if name.startswith(("init", "finalize")) else [0, made["stream"]]
            if acl.rt.get_context()[1] == 0:
                counters.gate(*busy)
            if "event" in made.made:
                assert acl.rt.record_event(made["event"], made["stream"]) == 0
            yield name, counters.during(BY_NAME[name].function(), *given)


class Filler:
    """Puts work on a stream from a thread of its own until there is no more room."""

    def __init__(self, made: Scene) -> None:
        self.end, self.count = False, 0
        self._block, self._stream = made["block"], made["stream"]
        self._context = acl.rt.get_context()[0]
        self.thread = threading.Thread(target=self._fill)

    def _fill(self) -> None:
        acl.rt.set_context(self._context)
        while not self.end:
            assert acl.rt.memset_async(self._block, 64, 0, 64, self._stream) == 0
            self.count += 1

    def until_full(self) -> None:
        self.thread.start()
        before = -1
        while self.count != before or before == 0:
            before = self.count
            time.sleep(0.06)

    def close(self) -> None:
        self.end = True
        self.thread.join()


def full(files: Files) -> Iterator[tuple[str, Any]]:
    """The same of calls that put work on a stream without room for any."""
    acl.init()
    counters = aclwaits.Waits(acl)
    for name in SUBMITTING:
        with scene(files) as made:
            given, filler = made.arguments(LINES[name].good), Filler(made)
            counters.gate(made["stream"], closed=filler.until_full)
            found = counters.during(BY_NAME[name].function(), *given)
            filler.close()
            assert acl.rt.synchronize_stream(made["stream"]) == 0
            yield name, found


# Calls with a stream that wait for something else than room on it, or for nothing.
_OTHERS = ("rt.synchronize_", "rt.destroy_", "rt.stream_abort", "rt.unsubscribe_", "mdl.execute_v2")
SUBMITTING = [
    row.name
    for row in BY_NAME.values()
    if row.releases_gil and any(argument.name == "stream" for argument in row.arguments)
    if row.name in LINES and not row.name.startswith(_OTHERS)
]
MODES = {"both": both, "waits": waits, "full": full}


def ask(mode: str, folder: Path) -> dict[str, Any]:
    """What MODE finds, in a child with two devices and an installation around it."""
    for package in ("cann", "runtime"):
        info = folder / "share" / "info" / package
        info.mkdir(parents=True)
        (info / "version.info").write_text("Version=9.0.0\n")
    machine = f"pyacl-real-{os.getpid()}"
    environment = {
        **os.environ,
        "ASCENDRT_DEVICES": "2",
        "ASCENDRT_MACHINE": machine,
        "ASCEND_HOME_PATH": str(folder),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    if mode != "both":
        environment["LD_PRELOAD"] = str(aclwaits.build(folder))
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(HERE / "aclreal.py"), mode, str(folder)],
            env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    finally:
        _ctl.ledger_file(machine).unlink(missing_ok=True)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"after {list(found)[-1:]}: {done.stderr[-3000:]}"
    return found


def main(mode: str, folder: str) -> None:
    for name, found in MODES[mode](Files(Path(folder))):
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        print(json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
