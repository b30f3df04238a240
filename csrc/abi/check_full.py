"""`emu = full` is a claim: every rule of the function is shown by a conformance test.

Owns: finding full functions whose [S] or [D] rules (csrc/abi/rules.toml) no test in
tests/conformance carries as @pytest.mark.rule("<id>"). Guesses, rules that say why nothing can
provoke them (`blocked`), and rules that need a function which is not emulated yet do not count.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from model import Model


def marked_rules(source: str) -> Iterator[str]:
    """The ids of every rule("...") mark in a test file, under any alias of pytest.mark."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "rule":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def unproven(model: Model, rules_text: str, tests: list[str]) -> list[str]:
    """One line per rule of a full function that no test shows."""
    shown = {rule for text in tests for rule in marked_rules(text)}
    full = {f.name for f in model.functions if f.emu == "full"}
    emulated = {f.name for f in model.functions if f.emu in ("full", "partial")}
    rules = tomllib.loads(rules_text).get("rule", [])
    spoken_of = {name for rule in rules if rule["id"] in shown for name in rule["functions"]}
    problems = []
    for name in sorted(full - spoken_of):
        problems.append(f"{name} is full, but no conformance test shows any rule of it")
    for rule in rules:
        if rule["id"] in shown or "blocked" in rule or not set(rule["mark"]) & {"S", "D"}:
            continue
        if not set(rule.get("needs", ())) <= emulated:
            continue
        for name in sorted(full & set(rule["functions"])):
            problems.append(f"{name} is full, but no conformance test shows rule {rule['id']}")
    return problems


def check(model: Model, root: Path) -> list[str]:
    """The problems of the repository at `root`."""
    rules = root / "csrc" / "abi" / "rules.toml"
    tests = sorted((root / "tests" / "conformance").rglob("*.py"))
    text = rules.read_text(encoding="utf-8") if rules.is_file() else ""
    return unproven(model, text, [t.read_text(encoding="utf-8") for t in tests])
