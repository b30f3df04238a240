"""Progress of long work, on the error channel and only where a person looks at it.

Needs tqdm (`pip install ascendrt[progress]`); without it, or where the channel is no terminal,
nothing is shown and nothing else changes.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_DELAY_S = 1.0  # work that is over by then shows nothing
_TICK_S = 0.2


def steps(items: Sequence[T], what: str) -> Iterator[T]:
    """Go through the items; the bar tells how many are over."""
    bar = _bar(what, len(items))
    try:
        for item in items:
            yield item
            if bar is not None:
                bar.update()
    finally:
        if bar is not None:
            bar.close()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show for how long the block has been at work: one call whose end nobody can foresee.

    It runs no Python, which would see a Ctrl-C: that ends the process as it ends other programs.
    """
    bar = _bar(what, None)
    if bar is None:
        with _killable():
            yield
        return
    over = threading.Event()

    def tick() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the call's
        while not over.wait(_TICK_S):
            bar.update(0)
            bar.refresh()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        with _killable():
            yield
    finally:
        over.set()
        thread.join()
        bar.close()


@contextmanager
def _killable() -> Iterator[None]:
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _bar(what: str, total: int | None) -> Any:
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    form = None if total else "{desc}: {elapsed}"
    return tqdm(
        desc=what, total=total, delay=_DELAY_S if total else 0, leave=False, bar_format=form,
        file=sys.stderr,
    )  # fmt: skip
