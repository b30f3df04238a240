"""The weight of the tree: files, functions, the emulator as a whole. Deleting is a feature."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 800
HEADER_LINES = 250
FUNCTION_LINES = 40
# The runtime (layers, memory, entries) and the model compiler (formats, importer, planner) each
# have a budget of their own; kernels in ops/ have none.
BUDGETS = {"runtime": 30_300, "model": 24_000}
_FOLDERS = ("ascendrt", "csrc", "emulator", "tests", "benchmarks", "examples")
_SUFFIXES = (".py", ".c", ".h", ".cpp", ".hpp")
_NO_FUNCTION = re.compile(
    r"(namespace|class|struct|enum|union|extern|constexpr|inline constexpr)\b"
)


def hand_written(root: Path, *folders: str) -> Iterator[tuple[str, list[str]]]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in _SUFFIXES and not re.search(r"/_?gen/", name):
                yield name, path.read_text(encoding="utf-8").splitlines()


def long_functions_cpp(lines: list[str]) -> list[tuple[str, int]]:
    """Free functions and out-of-class members: from a line in column 0 to the brace in column 0."""
    found, start = [], None
    for number, line in enumerate(lines):
        if start is None and re.match(r"[A-Za-z_].*", line) and not _NO_FUNCTION.match(line):
            start = number
        if start is not None and line.rstrip().endswith(";") and not line.startswith(" "):
            start = None
        if line == "}" and start is not None:
            if number - start + 1 > FUNCTION_LINES:
                found.append((lines[start], number - start + 1))
            start = None
    return found


def long_functions_python(text: str) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append((node.name, length))
    return found


def test_no_file_is_too_long(root: Path) -> None:
    long = {n: len(t) for n, t in hand_written(root, *_FOLDERS) if len(t) > FILE_LINES}
    assert long == {}


def test_no_header_is_too_long(root: Path) -> None:
    files = hand_written(root, "emulator", "csrc")
    long = {n: len(t) for n, t in files if n.endswith(("hpp", ".h")) and len(t) > HEADER_LINES}
    assert long == {}


def test_no_function_is_too_long(root: Path) -> None:
    long = []
    for name, lines in hand_written(root, "ascendrt", "csrc", "emulator"):
        python = name.endswith(".py")
        found = long_functions_python("\n".join(lines)) if python else long_functions_cpp(lines)
        long += [f"{name}: {function} has {length} lines" for function, length in found]
    assert long == []


def test_the_emulator_stays_small(root: Path) -> None:
    lines = dict.fromkeys(BUDGETS, 0)
    for name, text in hand_written(root, "emulator"):
        if not name.startswith("emulator/ops/"):
            lines["model" if name.startswith("emulator/model/") else "runtime"] += len(text)
    assert min(lines.values()) > 0
    assert {part: count for part, count in lines.items() if count > BUDGETS[part]} == {}


def test_the_function_counter_itself() -> None:
    body = ["int f(int a,", "      int b) {", *["  ++a;"] * 38, "}"]
    assert long_functions_cpp(body) == [("int f(int a,", 41)]
    assert long_functions_cpp(["int g();", *body[:2], *["  ++a;"] * 37, "}"]) == []
    assert long_functions_cpp(["namespace a {", *[""] * 50, "}"]) == []
