"""Every row of rows.txt has a test, or a reason why not yet."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent


def rows() -> tuple[set[int], dict[int, str]]:
    known, later, listed = set[int](), dict[int, str](), True
    for line in (HERE / "rows.txt").read_text(encoding="utf-8").splitlines():
        if line == "later":
            listed = False
        elif line and not line.startswith("#"):
            number, _, rest = line.partition(" ")
            assert rest, f"row {number} says nothing"
            if listed:
                known.add(int(number))
            else:
                later[int(number)] = rest
    return known, later


def shown() -> set[int]:
    found = set[int]()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "pain",
                "pytest.mark.pain",
            ):
                found |= {int(ast.unparse(each)) for each in node.args}
    return found


def test_each_row_is_shown_or_later() -> None:
    known, later = rows()
    assert len(known) == 43
    assert shown() | later.keys() == known
    assert shown() & later.keys() == set(), "shown, so no longer to be listed as later"
