"""`ascendrt run -- CMD`: replaces itself with CMD, the emulator's libraries and `atc` in front.

Must never change what the user set on purpose, except the search paths and the backend.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping

from ascendrt._backend import package_bin_dir, package_lib_dir
from ascendrt.cli.parsing import Parser, WrongUsage
from ascendrt.cli.settings import faults

_VARIABLES = {
    "devices": "ASCENDRT_DEVICES",
    "soc": "ASCENDRT_SOC",
    "hbm_size": "ASCENDRT_HBM_SIZE",
    "memory": "ASCENDRT_DEVICE_MEMORY",
    "machine": "ASCENDRT_MACHINE",
    "clock": "ASCENDRT_CLOCK",
    "trace": "ASCENDRT_TRACE",
}


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.usage = "ascendrt run [options] -- CMD [ARG ...]"
    add_machine(parser)
    parser.add_argument("cmd", nargs=argparse.REMAINDER, metavar="-- CMD [ARG ...]")
    parser.set_defaults(command=command)


def add_machine(parser: Parser) -> None:
    """Declare the options that describe the emulated machine."""
    parser.add_argument(
        "--devices", type=int, metavar="N", help="number of devices, 0 to 64 (default 1)"
    )
    parser.add_argument("--soc", metavar="NAME", help="chip name (default Ascend910B1)")
    parser.add_argument("--hbm-size", metavar="SIZE", help="device memory, such as 4G")
    parser.add_argument(
        "--memory",
        choices=["strict", "open"],
        help="open: device pointers are readable by the host, as on a board",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="emulated machine shared by processes of that name; private = this process tree",
    )
    parser.add_argument(
        "--clock",
        choices=["real", "virtual", "paced"],
        help="virtual: modelled time, nothing sleeps; paced: modelled time on the wall",
    )
    parser.add_argument("--trace", metavar="FILE", help="modelled time: write a trace for Perfetto")


def command(options: argparse.Namespace) -> int:
    """Run the command; returns only when it could not be started."""
    words = options.cmd[1:] if options.cmd[:1] == ["--"] else options.cmd
    if not words:
        raise WrongUsage("say what to run: ascendrt run -- ./program arguments")
    if options.json:
        raise WrongUsage("run prints nothing of its own: a --json for the program goes behind `--`")
    check_machine(options)
    environ = environment(os.environ, vars(options))
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        os.execve(program, words, environ)
    kind = "is no program" if os.path.exists(words[0]) else "was not found"
    hint = " (is it executable? for a script say: python3 script.py)"
    print(f"ascendrt run: {words[0]} {kind}{hint}", file=sys.stderr)
    return 126 if os.path.exists(words[0]) else 127


def check_machine(options: argparse.Namespace) -> None:
    """Refuse what the emulator would refuse later, in the middle of the program."""
    given = {"--devices": options.devices, "--soc": options.soc, "--hbm-size": options.hbm_size}
    for (option, value), fault in zip(given.items(), faults(*given.values()), strict=True):
        if fault:
            raise WrongUsage(f"{option} {value}: {fault}")


def environment(base: Mapping[str, str], options: Mapping[str, object]) -> dict[str, str]:
    """Return the environment of the program: `base`, our files first, the chosen settings."""
    environ = dict(base)
    for variable, folder in (
        ("LD_LIBRARY_PATH", package_lib_dir()),
        ("PATH", package_bin_dir()),
    ):
        before = environ.get(variable)
        environ[variable] = f"{folder}:{before}" if before else str(folder)
    return environ | settings(options)


def settings(options: Mapping[str, object]) -> dict[str, str]:
    """Return the variables that choose the emulator and the machine of the options."""
    chosen = {
        variable: str(options[option])
        for option, variable in _VARIABLES.items()
        if options.get(option) is not None
    }
    return {"ASCENDRT_BACKEND": "emu"} | chosen
