"""What all subcommands share: parsers that say what was probably meant, errors, checks of files."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from ascendrt.errors import AscendrtError

EXIT_CODES = (
    "exit codes: 0 done; 1 refused, failed, or a problem was found; 2 wrong usage; "
    "`run` gives the exit code of its command, 126 and 127 when that cannot be started"
)


class CommandError(AscendrtError):
    """A request that cannot be done; the text is shown as it is."""


class WrongUsage(CommandError):
    """A request that no machine could do: its words are wrong. `usage` is shown before the text."""

    def __init__(self, text: str, usage: str = "") -> None:
        self.usage = usage
        super().__init__(text)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors end with a suggestion, where one is near."""

    # Of all parsers of this process: what the outermost one refuses may belong to an inner one.
    _options: ClassVar[set[str]] = set()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.set_defaults(parser=self)  # the innermost one stays, for the usage in errors

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        self._options.update(name for name in names if str(name).startswith("-"))
        return super().add_argument(*names, **settings)

    def add_json(self, about: str = "print one JSON object") -> None:
        """Declare --json, which counts wherever it stands: before the command too."""
        self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=about)

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message + _meant(message, self._options), self.format_usage())


def printable(text: str, keep: str = "") -> str:
    """Escape what is no visible character: names of files may hold what steers a terminal."""
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def _meant(message: str, options: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a word that argparse refuses."""
    choice = re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", message)
    if choice:
        return suggestion(choice[1], re.findall(r"[\w.-]+", choice[2]))
    unknown = re.search(r"unrecognized arguments: (-[^\s=]+)", message)
    return suggestion(unknown[1], options) if unknown else ""


def suggestion(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean ...?" with the nearest of the known words, or nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def require_file(path: Path, option: str = "") -> None:
    """Check what will be read. Raises: CommandError that says what is there instead of a file."""
    if not path.is_file():
        kind = "does not exist"
        if path.exists():
            kind = "is a folder, not a file" if path.is_dir() else "is no regular file"
        raise CommandError(f"{option} {path} {kind}".lstrip())


def cannot_write(path: Path, error: OSError, option: str = "") -> CommandError:
    """Return the error for a file that cannot be written."""
    reason = error.strerror or str(error)
    return CommandError(f"{option} {path} cannot be written: {reason}".lstrip())
