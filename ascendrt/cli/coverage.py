"""`ascendrt coverage`: the generated coverage table, counted per area and tier. Loads no library."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files

LEVELS = ("full", "partial", "stub", "absent")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the table."""
    rows = load()
    if options.json:
        print(json.dumps({"levels": LEVELS, "areas": count(rows), "functions": rows}, indent=1))
        return 0
    head = f"{'area':24} tier " + " ".join(f"{level:>8}" for level in LEVELS)
    print(head)
    for entry in count(rows):
        figures = " ".join(f"{entry[level]:8}" for level in LEVELS)
        print(f"{entry['area']:24} {entry['tier']:4} {figures}")
    totals = " ".join(f"{sum(row['emu'] == level for row in rows):8}" for level in LEVELS)
    print(f"{'all':24} {'':4} {totals}")
    return 0


def load() -> list[dict[str, object]]:
    """Return one row per function: name, area, tier, emu."""
    text = files("ascendrt").joinpath("_gen/coverage.json").read_text(encoding="utf-8")
    rows: list[dict[str, object]] = json.loads(text)["functions"]
    return rows


def count(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Count functions per area and tier at each level."""
    table: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows:
        key = (str(row["area"]), int(str(row["tier"])))
        counts = table.setdefault(key, dict.fromkeys(LEVELS, 0))
        counts[str(row["emu"])] += 1
    return [{"area": area, "tier": tier, **table[area, tier]} for area, tier in sorted(table)]
