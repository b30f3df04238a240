"""What a test of effects declares and is held to.

`@shows("rt.malloc", "rt.free")` says: this test observes what these calls do (a state that
changes, a value that no constant could give). The fixture `acl` is the module under a recorder: a
shape that the table does not tell fails the test at once, and a declared call that the test never
made fails it at the end. A test whose functions the loaded library lacks is skipped.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aclcalls import BY_NAME, problem

HERE = Path(__file__).parent
UNSHOWN = HERE / "unshown.txt"


def shows(*names: str) -> pytest.MarkDecorator:
    """Declare the calls whose effect a test observes."""
    unknown = set(names) - BY_NAME.keys()
    assert not unknown, f"no such calls: {sorted(unknown)}"
    return pytest.mark.shows(*names)


class Recorder:
    """The module `acl`, or a submodule: calls through it are noted and their answers checked."""

    def __init__(self, module: Any, prefix: str = "", called: set[str] | None = None) -> None:
        self.called: set[str] = set() if called is None else called
        self._module, self._prefix = module, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if type(value) is type(ast):
            made: Any = Recorder(value, f"{name}.", self.called)
        else:
            made = self._checked(self._prefix + name, value)
        setattr(self, name, made)
        return made

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        row = BY_NAME[name]

        def call(*arguments: Any) -> Any:
            answer = function(*arguments)
            self.called.add(name)
            wrong = problem(row, answer)
            assert wrong is None, f"{name}: {wrong}"
            return answer

        return call


def declared() -> dict[str, list[str]]:
    """{call: the tests that show it}, read from the sources of this folder."""
    found: dict[str, list[str]] = {}
    for path, test, names in _declarations():
        for name in names:
            found.setdefault(name, []).append(f"{path.name}::{test}")
    return found


def _declarations() -> Iterator[tuple[Path, str, list[str]]]:
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "shows":
                    yield path, node.name, [a.value for a in mark.args]  # type: ignore[attr-defined]


def unshown() -> dict[str, str]:
    """{call: why no test observes its effect}"""
    found = {}
    for line in UNSHOWN.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            found[name] = reason.strip()
    return found
