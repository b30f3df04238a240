"""`ascendrt env`: shell lines for `eval "$(ascendrt env)"`. Loads no library."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from ascendrt._backend import package_bin_dir, package_lib_dir
from ascendrt.cli.parsing import Parser
from ascendrt.cli.run import add_machine, check_machine, environment, settings


def configure(parser: Parser) -> None:
    """Declare the options."""
    add_machine(parser)
    parser.add_json("print the values, for other tools")
    parser.epilog = 'use it as: eval "$(ascendrt env)"'
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the lines."""
    check_machine(options)
    chosen = settings(vars(options))
    if options.json:
        environ = environment(os.environ, vars(options))
        names = ("LD_LIBRARY_PATH", "PATH", *chosen)
        print(json.dumps({name: environ[name] for name in names}, indent=1))
        return 0
    print("\n".join(lines(package_lib_dir(), package_bin_dir(), chosen)))
    return 0


def lines(libraries: Path, programs: Path, chosen: Mapping[str, str]) -> list[str]:
    """Return export lines; safe under `set -u` and when repeated."""
    return [
        f"export LD_LIBRARY_PATH={shlex.quote(str(libraries))}"
        "${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}",
        f"export PATH={shlex.quote(str(programs))}${{PATH:+:${{PATH}}}}",
        *(f"export {name}={shlex.quote(value)}" for name, value in chosen.items()),
    ]
