"""`ascendrt coverage`: the generated table of what the emulator implements. Loads no library."""

from __future__ import annotations

import argparse
import json
from importlib.resources import files

from ascendrt.cli import CommandError

LEVELS = ("full", "partial", "stub", "absent")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="list functions with this in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the table."""
    text = files("ascendrt").joinpath("_gen/coverage.json").read_text(encoding="utf-8")
    table = json.loads(text)
    if options.json:
        print(json.dumps({"levels": LEVELS, **table}, indent=1))
        return 0
    if options.name:
        return _list_functions(table, options.name)
    print(f"{'area':24} tier " + " ".join(f"{level:>8}" for level in LEVELS))
    for row in table["areas"]:
        print(f"{row['area']:24} {row['tier']:4} " + _figures(row))
    print(f"{'all':24} {'':4} " + _figures(table["totals"]))
    return 0


def _list_functions(table: dict[str, list[dict[str, str]]], part: str) -> int:
    rows = [row for row in table["functions"] if part.lower() in row["name"].lower()]
    for row in rows:
        print(f"{row['name']:44} {row['emu']:8} {row['area']}")
    if not rows:
        raise CommandError(f"no function of the interface has {part!r} in its name")
    return 0


def _figures(counts: dict[str, int]) -> str:
    return " ".join(f"{counts[level]:8}" for level in LEVELS)
