"""Every row of rows.txt has a test, and no row is left out.

Owns: which numbers a kind has. rows.txt says what happened, so a row cannot be dropped there, nor
moved to another kind, without a change here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KINDS = {
    "thread-context": {1, 3, 5, 7, 9, 11},
    "handle-of-other-device": {13, 15, 17},
    "device-id-visibility": {19, 21, 23, 25, 27},
    "init-finalize": {37, 39, 41, 43},
    "exit-crash": {45, 47},
    "fork-multiprocess": {49, 51, 53},
    "leak": {63, 65, 67, 69},
    "memcpy-kind-size": {101, 103, 105},
    "model-io-dynamic": {119, 121, 123, 125, 127},
    "python-binding": {141, 143, 145},
    "ipc-vmm": {151},
    "no-hardware-demand": {161, 163, 171, 179},
}


def rows(text: str) -> dict[str, set[int]]:
    """The numbers of each kind."""
    kinds = dict[str, set[int]]()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            number, _, rest = line.partition(" ")
            kind, _, told = rest.partition(" ")
            assert told, f"row {number} says nothing"
            numbers = kinds.setdefault(kind, set())
            assert int(number) not in numbers, f"row {number} stands twice"
            numbers.add(int(number))
    return kinds


def shown(programs: Iterable[str]) -> set[int]:
    """The rows that tests are marked with. A test that never runs shows nothing."""
    found = set[int]()
    for program in programs:
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
                names = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
                if names & {"pytest.mark.skip", "pytest.mark.xfail"}:
                    continue
                for call in calls:
                    if ast.unparse(call.func) in ("pain", "pytest.mark.pain"):
                        found |= {int(ast.unparse(each)) for each in call.args}
    return found


def check(text: str, programs: Iterable[str]) -> None:
    assert rows(text) == KINDS, "rows.txt has other rows than the kinds have"
    assert shown(programs) == set().union(*KINDS.values()), "a row without a test, or no row"


def sources() -> tuple[str, list[str]]:
    programs = [path.read_text(encoding="utf-8") for path in sorted(HERE.glob("test_*.py"))]
    return (HERE / "rows.txt").read_text(encoding="utf-8"), programs


def test_each_row_is_shown() -> None:
    check(*sources())


def test_no_line_can_be_dropped() -> None:
    """Without any one row the check fails."""
    text, programs = sources()
    lines = text.splitlines()
    told = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
    assert len(told) == 43
    for i in told:
        with pytest.raises((AssertionError, ValueError)):
            check("\n".join(lines[:i] + lines[i + 1 :]), programs)


def test_no_mark_can_be_dropped() -> None:
    """Without the marks of any one row, the check fails; so it does when its tests are skipped."""
    text, programs = sources()
    for number in sorted(shown(programs)):
        mark = f"@pain({number})\n"
        for instead in ("", "@pytest.mark.skip\n" + mark):
            with pytest.raises(AssertionError):
                check(text, [program.replace(mark, instead) for program in programs])
