"""One rule for everything that owns a handle: close once, work in a `with`, warn when left open.

Must never raise from a finalizer.
"""

from __future__ import annotations

import sys
import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from ascendrt.errors import AscendrtError

if TYPE_CHECKING:
    from typing_extensions import Self


class Owned:
    """Base of objects that own a resource of the runtime.

    A subclass implements `_release`, which frees the resource and raises AclError on failure.
    """

    _closed = True

    def _release(self) -> None:
        raise TypeError(f"{type(self).__name__} owns nothing")

    @property
    def closed(self) -> bool:
        """True once the resource was given back (or was never had)."""
        return self._closed

    def close(self) -> None:
        """Give the resource back; further calls do nothing.

        Raises: AclError when the runtime refuses; the object counts as closed all the same.
        """
        if not self._closed:
            self._closed = True
            self._release()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"this {type(self).__name__} is closed")

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except AscendrtError as second:  # the first error is the one to report
            warnings.warn(f"while handling another error: {second}", RuntimeWarning, stacklevel=2)

    def __del__(self) -> None:
        if self._closed or sys.is_finalizing():
            return
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
        try:
            self.close()
        except AscendrtError as error:
            warnings.warn(f"closing {self!r}: {error}", RuntimeWarning, stacklevel=2)
