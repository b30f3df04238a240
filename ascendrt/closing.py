"""What is closed at the end of a `with`: one base for objects of the runtime and of serving.

Must never: know what is closed.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Closing:
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
