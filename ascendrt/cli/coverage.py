"""`ascendrt coverage`: the generated table of what the emulator implements. Loads no library."""

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
    text = files("ascendrt").joinpath("_gen/coverage.json").read_text(encoding="utf-8")
    table = json.loads(text)
    if options.json:
        print(json.dumps({"levels": LEVELS, **table}, indent=1))
        return 0
    print(f"{'area':24} tier " + " ".join(f"{level:>8}" for level in LEVELS))
    for row in table["areas"]:
        print(f"{row['area']:24} {row['tier']:4} " + _figures(row))
    print(f"{'all':24} {'':4} " + _figures(table["totals"]))
    return 0


def _figures(counts: dict[str, int]) -> str:
    return " ".join(f"{counts[level]:8}" for level in LEVELS)
