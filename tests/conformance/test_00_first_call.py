"""Any call may be the first of a process (section 0): none finds the library unprepared."""

from __future__ import annotations

import os
from typing import Any

import pytest
from rawabi import acl, coverage, ffi, has, lib, load, run_fresh


@pytest.mark.emulator
@pytest.mark.parametrize("pointers", ["null", "zeros"])
def test_every_call_may_be_the_first(pointers: str) -> None:
    """Each in a fork of a process that has called nothing yet."""

    def body(names: list[str], pointers: str) -> Any:
        import signal

        load()
        zeros, wrong = ffi.new("char[65536]"), []

        def argument(kind: Any) -> Any:
            if kind.kind != "pointer":
                return ffi.new(ffi.getctype(kind, "*"))[0]
            return ffi.cast(kind, zeros) if pointers == "zeros" else ffi.NULL

        for name in names:
            function = getattr(lib, name)
            kind = ffi.typeof(function)
            if kind.ellipsis or "Callback" in name:
                continue
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                answer = function(*map(argument, kind.args))
                os._exit(1 if kind.result.kind == "primitive" and answer == 500000 else 0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status != 0:
                wrong.append(f"{name}: {status}")
        return wrong

    names = sorted(name for name in coverage() if name.startswith("acl") and has(name))
    assert len(names) > 450
    assert run_fresh(body, names=names, pointers=pointers) == []


@pytest.mark.emulator
def test_where_a_program_runs_may_be_asked_first() -> None:
    def body() -> Any:
        mode = ffi.new("aclrtRunMode *", 7)
        return [acl.aclrtGetRunMode(mode), int(mode[0])]

    assert run_fresh(body) == [0, 1]
