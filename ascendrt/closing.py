"""What is closed at the end of a `with`: one base for objects of the runtime and of serving.

Owns: that several are closed although one refuses, and that nothing of it is copied. Must never:
know what is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, SupportsIndex

if TYPE_CHECKING:
    from typing_extensions import Self


class Unique:
    """Base of what belongs to this process and has one owner."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse copy and pickle: a copy would give back what is the first one's."""
        raise TypeError(
            f"a {type(self).__name__} belongs to this process and can be neither copied nor "
            "pickled; share it, or make another one where it is needed"
        )


class Closing(Unique):
    """Base of everything that is closed at the end of a `with`."""

    def close(self) -> None:
        """Give back what is held; further calls do nothing."""
        raise TypeError(f"{type(self).__name__} holds nothing")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """Close; `error` is what ends the block."""
        self.close()


class _Closes(Protocol):
    def close(self) -> None: ...


def close_all(owned: Iterable[_Closes]) -> None:
    """Close each, also when one of them fails; the first failure comes out then."""
    first: Exception | None = None
    for each in owned:
        try:
            each.close()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
