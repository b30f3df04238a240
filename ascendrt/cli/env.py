"""`ascendrt env`: shell lines for `eval "$(ascendrt env)"`. Loads no library."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ascendrt._backend import package_lib_dir


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options (none)."""
    parser.epilog = 'use it as: eval "$(ascendrt env)"'
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the lines."""
    print("\n".join(lines(package_lib_dir())))
    return 0


def lines(directory: Path) -> list[str]:
    """Return export lines; safe under `set -u` and when repeated."""
    quoted = shlex.quote(str(directory))
    return [
        f"export LD_LIBRARY_PATH={quoted}${{LD_LIBRARY_PATH:+:${{LD_LIBRARY_PATH}}}}",
        "export ASCENDRT_BACKEND=emu",
    ]
