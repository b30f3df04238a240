"""`ascendrt env`: shell lines for `eval "$(ascendrt env)"`. Loads no library."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from ascendrt._backend import package_bin_dir, package_lib_dir


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options (none)."""
    parser.epilog = 'use it as: eval "$(ascendrt env)"'
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the lines."""
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
