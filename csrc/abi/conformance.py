"""Which rule of rules.toml is shown by which conformance test, and the page that says so.

Owns: reading rules and tests (without importing them), the state of a rule, docs/conformance.md.
Must never run a test. `python csrc/abi/conformance.py` writes the page, `--check` compares it.

A rule is one of
  function absent  none of its functions, or not every function it needs, is emulated yet; a test
                   that is there already is skipped
  tested           a test carries it
  guess            a test carries it, and the rule is our inference, to be checked on hardware
  blocked          nothing can provoke it through the ABI; the rule says why
  later            sections 11 and 12, whose tests come with their functions
  untested         none of these: a mistake
"""

from __future__ import annotations

import argparse
import ast
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = Path("csrc/abi/rules.toml")
TESTS = Path("tests/conformance")
COVERAGE = Path("ascendrt/_gen/coverage.json")
PAGE = Path("docs/conformance.md")
IMPLEMENTED = ("full", "partial")
TESTED_SECTIONS = range(11)
SECTIONS = (
    "Rules that hold everywhere", "Init and finalize", "Device", "Context", "Streams", "Events",
    "Memory", "Callbacks", "Buffers and tensor descriptions", "Models",
    "Capture and model instances", "Kernels and single operators", "Base of two-phase operators",
)  # fmt: skip
STATES = ("tested", "guess", "function absent", "blocked", "later", "untested")


@dataclass(frozen=True)
class Rule:
    """One rule and code."""

    id: str
    functions: tuple[str, ...]
    answer: str
    mark: tuple[str, ...]
    text: str
    source: str
    chips: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    blocked: str = ""

    @property
    def section(self) -> int:
        """The number before the dot of the id."""
        return int(self.id[1:].split(".")[0])

    @property
    def is_guess(self) -> bool:
        """Whether hardware has to confirm the rule."""
        return "G" in self.mark


@dataclass(frozen=True)
class Test:
    """A test function that carries a rule."""

    rule: str
    file: str
    name: str
    guess: bool


def read_rules(root: Path = ROOT) -> list[Rule]:
    """Read rules.toml."""
    rows = tomllib.loads((root / RULES).read_text(encoding="utf-8"))["rule"]
    return [
        Rule(
            row["id"],
            tuple(row["functions"]),
            str(row["code"]) if "code" in row else str(row["answer"]),
            tuple(row["mark"]),
            row["text"],
            row["source"],
            tuple(row.get("chips", ())),
            tuple(row.get("needs", ())),
            row.get("blocked", ""),
        )
        for row in rows
    ]


def read_tests(root: Path = ROOT) -> list[Test]:
    """Find the test functions with @rule("..."), in any file below tests/conformance."""
    tests: list[Test] = []
    for path in sorted((root / TESTS).rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                guess = any(_name(each) == "guess" for each in node.decorator_list)
                for rule in _rules_of(node.decorator_list):
                    tests.append(Test(rule, path.name, node.name, guess))
    return tests


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _rules_of(decorators: Iterable[ast.expr]) -> Iterator[str]:
    for node in decorators:
        if isinstance(node, ast.Call) and _name(node.func) == "rule":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def read_coverage(root: Path = ROOT) -> dict[str, str]:
    """Return the state of every function in the emulator."""
    table = json.loads((root / COVERAGE).read_text(encoding="utf-8"))
    return {row["name"]: row["emu"] for row in table["functions"]}


def missing_functions(rule: Rule, coverage: Mapping[str, str]) -> list[str]:
    """Return the functions for want of which a rule cannot be shown; empty when it can be."""
    missing = [each for each in rule.needs if coverage.get(each, "absent") not in IMPLEMENTED]
    if not any(coverage.get(each, "absent") in IMPLEMENTED for each in rule.functions):
        missing += rule.functions
    return sorted(set(missing))


def state_of(rule: Rule, tests: Iterable[Test], coverage: Mapping[str, str]) -> str:
    """Return one of STATES."""
    if rule.section not in TESTED_SECTIONS:
        return "later"
    if missing_functions(rule, coverage):
        return "function absent"
    if any(test.rule == rule.id for test in tests):
        return "guess" if rule.is_guess else "tested"
    return "blocked" if rule.blocked else "untested"


def page(root: Path = ROOT) -> str:
    """Return the text of docs/conformance.md."""
    rules, tests, coverage = read_rules(root), read_tests(root), read_coverage(root)
    states = {rule.id: state_of(rule, tests, coverage) for rule in rules}
    lines = [
        "# Conformance",
        "",
        "Generated by `python csrc/abi/conformance.py` from `csrc/abi/rules.toml` and the tests in",
        "`tests/conformance`; do not edit. A row is one rule and code of the AscendCL interface.",
        "Marks: S seen in the open source runtime, D documented, G our inference, to be checked on",
        "hardware. Status: *tested*; *guess* = tested, but the rule is an inference; *function",
        "absent* = the emulator lacks the function, a test (if there is one) is skipped;",
        "*blocked* = cannot be provoked through the ABI; *later* = sections 11 and 12.",
        "",
        *_totals(rules, states),
    ]
    for number, title in enumerate(SECTIONS):
        lines += ["", f"## {number}. {title}", "", "| rule | functions | answer | what | mark "
                  "| status | test |", "|---|---|---|---|---|---|---|"]  # fmt: skip
        for rule in rules:
            if rule.section == number:
                lines.append(_row(rule, tests, states[rule.id], coverage))
    return "\n".join(lines) + "\n"


def _totals(rules: list[Rule], states: Mapping[str, str]) -> list[str]:
    lines = ["| section | rules | " + " | ".join(STATES) + " |", "|---" * (2 + len(STATES)) + "|"]
    counts = {
        number: [states[rule.id] for rule in rules if rule.section == number]
        for number in range(len(SECTIONS))
    }
    for number, found in counts.items():
        lines.append(_total_row(f"{number}. {SECTIONS[number]}", found))
    lines.append(_total_row("all", [state for found in counts.values() for state in found]))
    return lines


def _total_row(title: str, found: list[str]) -> str:
    figures = [str(len(found)), *(str(found.count(state)) for state in STATES)]
    return f"| {title} | " + " | ".join(figures) + " |"


def _row(rule: Rule, tests: list[Test], state: str, coverage: Mapping[str, str]) -> str:
    shown = [f"{test.file}: `{test.name}`" for test in tests if test.rule == rule.id]
    text = rule.text + (f" ({', '.join(rule.chips)})" if rule.chips else "")
    if state == "function absent":
        state += ": " + _first(missing_functions(rule, coverage))
    if state == "blocked":
        state += f": {rule.blocked}"
    cells = [rule.id, _first(rule.functions), rule.answer, text, ",".join(rule.mark), state,
             "<br>".join(shown)]  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _first(names: Iterable[str]) -> str:
    """A list of names, cut so that a row stays readable."""
    names = list(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def main() -> int:
    """Write or compare the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    check = parser.parse_args().check
    text, path = page(), ROOT / PAGE
    if not check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is out of date: run `python csrc/abi/conformance.py`")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
