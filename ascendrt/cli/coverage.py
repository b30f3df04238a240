"""`ascendrt coverage`: the generated table of what the emulator implements. Loads no library."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from importlib.resources import files
from typing import Any

from ascendrt.cli import CommandError

LEVELS = ("full", "partial", "stub", "absent")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="list functions with this in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the table."""
    table, python = _read("coverage.json"), _read("pyacl.json")
    if options.json:
        print(json.dumps({"levels": LEVELS, **table, "python_absent": python["absent"]}, indent=1))
        return 0
    if options.name:
        return _list_functions(table, python, options.name)
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


def _list_functions(table: dict[str, Any], python: dict[str, Any], part: str) -> int:
    """List functions by a part of the C name or of the Python name."""
    wanted = part.lower().removeprefix("acl.")
    lines = []
    for row in table["functions"]:
        names = [row["name"].lower(), *row.get("acl", ())]
        if any(wanted in name for name in names):
            calls = "".join(f" acl.{name}" for name in row.get("acl", ()))
            lines.append(f"{row['name']:44} {row['emu']:8} {row['area']:20}{calls}".rstrip())
    lines += [f"acl.{name:40} absent" for name in python["absent"] if wanted in name]
    if not lines:
        raise CommandError(f"no function of the interface has {part!r} in its name")
    print("\n".join(lines))
    return 0


def _figures(counts: dict[str, int]) -> str:
    return " ".join(f"{counts[level]:8}" for level in LEVELS)
