"""Parsers of the command line that say what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

EXIT_CODES = (
    "exit codes: 0 done; 1 refused, failed, or a problem was found; 2 wrong usage; "
    "`run` gives the exit code of its command, 126 and 127 when that cannot be started"
)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors end with a suggestion, where one is near."""

    # Of all parsers of this process: what the outermost one refuses may belong to an inner one.
    _options: ClassVar[set[str]] = set()

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        self._options.update(name for name in names if str(name).startswith("-"))
        return super().add_argument(*names, **settings)

    def error(self, message: str) -> NoReturn:
        super().error(message + _meant(message, self._options))


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
