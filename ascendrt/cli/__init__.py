"""The `ascendrt` command: one module per subcommand, imported when it is asked for.

Owns: parsing, exit codes (parsing.EXIT_CODES) and the form of error texts. A user's mistake never
shows a traceback (ASCENDRT_TRACEBACK=1 shows it to whoever hunts a bug of ours). With --json a
failure is a JSON object too: {"error": {...}} on the output, the text on the error channel as ever.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

from ascendrt.errors import AclError, AscendrtError

Command = Callable[[argparse.Namespace], int]

_COMMANDS = {
    "doctor": "say what is wrong with this machine's setting, and what to do",
    "info": "show the backend, its libraries, devices, chip and memory",
    "smi": "show devices, the processes that use them, and their memory",
    "coverage": "show how much of the ABI the emulator implements",
    "bench": "measure memory, copies, streams and models on this machine",
    "env": "print shell lines that put the emulator's libraries in place",
    "run": "run a program on the emulator",
    "om": "convert, describe and run offline models",
    "sdk": "write a folder that CANN projects can build and run against",
}


class CommandError(AscendrtError):
    """A request that cannot be done; the text is shown as it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(arguments).parse_args(arguments)
    command: Command = options.command
    warnings.formatwarning = _format_warning
    try:
        code = command(options)
        if sys.stdout is not None:  # None: the caller closed it, as in `>&-`
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (AscendrtError, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        if os.environ.get("ASCENDRT_TRACEBACK"):
            raise
        print(f"ascendrt: error: {error}", file=sys.stderr)
        if getattr(options, "json", False):
            print(json.dumps({"error": _facts(error)}, indent=1))
        return 1
    except KeyboardInterrupt:
        return 130


def _facts(error: Exception) -> dict[str, object]:
    facts: dict[str, object] = {"kind": type(error).__name__, "text": str(error)}
    if isinstance(error, AclError):
        ids = {key: str(value) for key, value in error.ids.items()}
        facts |= {"code": error.code, "name": error.name, "api": error.api, "ids": ids}
    return facts


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"ascendrt: warning: {message}\n"


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; only the module of the wanted subcommand is imported."""
    from ascendrt import __version__
    from ascendrt.cli.parsing import EXIT_CODES, Parser

    parser = Parser(prog="ascendrt", description="AscendCL runtime and emulator", epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"ascendrt {__version__}")
    chosen = parser.add_subparsers(required=True, metavar="COMMAND")
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        sub = chosen.add_parser(name, help=summary, description=summary)
        if name == wanted:
            import_module(f"ascendrt.cli.{name}").configure(sub)
    return parser
