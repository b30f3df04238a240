"""Re-measures every figure the project claims (claims.toml) and says which falls short.

Each command runs in a process of its own and prints one JSON object as its last line.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 1800


@dataclass(frozen=True)
class Claim:
    """One figure: how to get it and its bar ("<= 1.15", ">= 0.97", "== 360")."""

    name: str
    text: str
    command: str
    field: str
    bar: str
    measured: float
    short: str = ""  # why the last figure misses the bar; empty when it holds

    def holds(self, value: float) -> bool:
        relation, _, limit = self.bar.partition(" ")
        bound = float(limit)
        return {"<=": value <= bound, ">=": value >= bound, "==": value == bound}[relation]


def load(path: Path = ROOT / "benchmarks" / "claims.toml") -> list[Claim]:
    """Read the list."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Claim(name=name, **row) for name, row in table["claim"].items()]


def run(command: str) -> dict[str, float]:
    """Run one command from the repository root; returns the JSON object it prints last."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    done = subprocess.run(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise RuntimeError(f"`{command}` ended with {done.returncode} and printed no JSON object")
    figures: dict[str, float] = json.loads(lines[-1])
    return figures


def judge_all() -> int:
    """Measure all claims; returns 1 when one falls short or cannot be measured."""
    results: dict[str, dict[str, float] | str] = {}
    short = 0
    for claim in load():
        if claim.command not in results:
            try:
                results[claim.command] = run(claim.command)
            except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
                results[claim.command] = str(error)
        figures = results[claim.command]
        verdict = "FALLS SHORT"
        if isinstance(figures, str):
            shown = figures
        elif claim.field not in figures:
            shown = f"no field {claim.field}"
        else:
            shown = f"{figures[claim.field]:.4g}"
            verdict = "holds" if claim.holds(figures[claim.field]) else verdict
        short += verdict != "holds"
        print(f"{claim.name:20} {shown:>10} (bar {claim.bar}, last {claim.measured:g}) {verdict}")
    print(f"{short} claim(s) fall short" if short else "every claim holds")
    return 1 if short else 0
