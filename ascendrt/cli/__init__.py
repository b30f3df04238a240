"""The `ascendrt` command: one module per subcommand, imported when it is asked for.

Owns: parsing, exit codes (parsing.EXIT_CODES) and the form of error texts. A user's mistake never
shows a traceback (ASCENDRT_TRACEBACK=1 shows it to whoever hunts a bug of ours). With --json a
failure is a JSON object too: {"error": {...}} on the output, the text on the error channel as ever.
A failure of which the words alone are the cause is a WrongUsage, anything else is none.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

from ascendrt.cli.parsing import EXIT_CODES, Parser, WrongUsage
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


_DONE, _FAILED, _WRONG, _INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    warnings.formatwarning = _format_warning
    _write_any_name()
    try:
        options = _parser(arguments).parse_args(arguments)
        code = _run(options)
        if sys.stdout is not None:  # None: the caller closed it, as in `>&-`
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
        _drop_output()
        return _DONE
    except (AscendrtError, OSError, ValueError, TypeError, OverflowError, MemoryError) as error:
        if os.environ.get("ASCENDRT_TRACEBACK"):
            raise
        return _tell(error, _wants_json(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _write_any_name() -> None:
    """Show the bytes of file names that are no text in the encoding of the terminal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is not written yet go nowhere: the end of the process would try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> int:
    command: Command = options.command
    try:
        return command(options)
    except WrongUsage as error:
        error.usage = error.usage or options.parser.format_usage()
        raise


def _wants_json(arguments: Sequence[str]) -> bool:
    words = list(arguments)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _tell(error: Exception, as_json: bool) -> int:
    code = _WRONG if isinstance(error, WrongUsage) else _FAILED
    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # without "[Errno 2]"
        where = "" if error.filename is None else f"{error.filename}: "
        text = where + error.strerror
    usage = error.usage if isinstance(error, WrongUsage) else ""
    print(f"{usage}ascendrt: error: {text}", file=sys.stderr)
    if as_json:
        try:
            print(json.dumps({"error": _facts(error, text, code)}, indent=1), flush=True)
        except OSError:  # perhaps this is what the error is about
            _drop_output()
    return code


def _facts(error: Exception, text: str, exit_code: int) -> dict[str, object]:
    facts: dict[str, object] = {"kind": type(error).__name__, "text": text, "exit_code": exit_code}
    if isinstance(error, AclError):
        ids = {key: str(value) for key, value in error.ids.items()}
        facts |= {"code": error.code, "name": error.name, "api": error.api, "ids": ids}
    return facts


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    return f"ascendrt: warning: {message}\n"


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; only the module of the wanted subcommand is imported."""
    from ascendrt import __version__

    parser = Parser(prog="ascendrt", description="AscendCL runtime and emulator", epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"ascendrt {__version__}")
    parser.set_defaults(json=False)
    parser.add_json()
    chosen = parser.add_subparsers(required=True, metavar="COMMAND")
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        sub = chosen.add_parser(name, help=summary, description=summary)
        if name == wanted:
            import_module(f"ascendrt.cli.{name}").configure(sub)
    return parser
