"""`ascendrt coverage`: the generated table of what the emulator implements. Loads no library."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from importlib.resources import files
from typing import Any

from ascendrt.cli.parsing import CommandError, Parser, suggestion

LEVELS = ("full", "partial", "stub", "absent")


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="list functions with this in it")
    parser.add_json()
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the table."""
    table, python = _read("coverage.json"), _read("pyacl.json")
    if options.name:
        return _list_functions(table, python, options.name, options.json)
    if options.json:
        print(json.dumps({"levels": LEVELS, **table, "python_absent": python["absent"]}, indent=1))
        return 0
    print(f"{'area':24} tier " + " ".join(f"{level:>8}" for level in LEVELS))
    for row in table["areas"]:
        print(f"{row['area']:24} {row['tier']:4} " + _figures(row))
    print(f"{'all':24} {'':4} " + _figures(table["totals"]))
    absent = Counter(name.partition(".")[0] for name in python["absent"])
    modules = ", ".join(f"{count} of acl.{module}" for module, count in sorted(absent.items()))
    print(f"the Python module acl: {len(python['calls'])} calls; left out: {modules}")
    return 0


def _read(name: str) -> dict[str, Any]:
    text = files("ascendrt").joinpath(f"_gen/{name}").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def _list_functions(table: dict[str, Any], python: dict[str, Any], part: str, as_json: bool) -> int:
    """List functions by a part of the C name or of the Python name."""
    wanted = part.lower().removeprefix("acl.")
    rows = [row for row in table["functions"] if any(wanted in name for name in _names(row))]
    absent = [name for name in python["absent"] if wanted in name]
    if not rows and not absent:
        meant = suggestion(part.removeprefix("acl."), _all_names(table))
        raise CommandError(f"no function of the interface has {part!r} in its name{meant}")
    if as_json:
        told = {"levels": LEVELS, "functions": rows, "python_absent": absent}
        print(json.dumps(told, indent=1))
        return 0
    for row in rows:
        calls = "".join(f" acl.{name}" for name in row.get("acl", ()))
        print(f"{row['name']:44} {row['emu']:8} {row['area']:20}{calls}".rstrip())
    print(*(f"acl.{name:40} absent" for name in absent), sep="\n", end="\n" if absent else "")
    return 0


def _names(row: dict[str, Any]) -> list[str]:
    return [row["name"].lower(), *row.get("acl", ())]


def _all_names(table: dict[str, Any]) -> list[str]:
    return [name for row in table["functions"] for name in (row["name"], *row.get("acl", ()))]


def _figures(counts: dict[str, int]) -> str:
    return " ".join(f"{counts[level]:8}" for level in LEVELS)
