"""What a forked child must not wait for: threads stay in the parent, and with them the locks that
they hold. Must never: be asked for by what a child may use, but for what was made before it.
"""

from __future__ import annotations

import os
import threading

_count = 0


def count() -> int:
    """Return how many forks lie between this process and the one that imported this module."""
    return _count


def lock() -> threading.RLock:
    """Return a lock of a module: no other thread holds it in a child, for no fork happens then.

    A signal's function may come in between and take it again.
    """
    made = threading.RLock()
    os.register_at_fork(
        before=made.acquire, after_in_parent=made.release, after_in_child=made.release
    )
    return made


def refuse(born: int, what: str) -> None:
    """Raise RuntimeError for what was made when `count()` was `born`, if that was in a parent."""
    if born != _count:
        raise RuntimeError(
            f"{what} was made before this process was forked and its threads are the parent's: "
            "make it after the fork, or start processes with the method 'spawn'"
        )


def _note() -> None:
    global _count
    _count += 1


os.register_at_fork(after_in_child=_note)
