"""`ascendrt env`: shell lines for `eval "$(ascendrt env)"`. Loads no library."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

from ascendrt._backend import package_bin_dir, package_lib_dir
from ascendrt.cli.parsing import Parser
from ascendrt.cli.run import environment


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_json("print the values, for other tools")
    parser.epilog = 'use it as: eval "$(ascendrt env)"'
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the lines."""
    if options.json:
        environ = environment(os.environ, {})
        names = ("LD_LIBRARY_PATH", "PATH", "ASCENDRT_BACKEND")
        print(json.dumps({name: environ[name] for name in names}, indent=1))
        return 0
    print("\n".join(lines(package_lib_dir(), package_bin_dir())))
    return 0


def lines(libraries: Path, programs: Path) -> list[str]:
    """Return export lines; safe under `set -u` and when repeated."""
    return [
        f"export LD_LIBRARY_PATH={shlex.quote(str(libraries))}"
        "${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}",
        f"export PATH={shlex.quote(str(programs))}${{PATH:+:${{PATH}}}}",
        "export ASCENDRT_BACKEND=emu",
    ]
