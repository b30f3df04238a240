"""One rule for everything that owns a handle: close once, work in a `with`, warn when left open.

Owns: what is done when the runtime has taken the handle back already. Must never raise from a
finalizer.

Note [Any order]: a stream ends with its context, whoever closes what first. Closing an object whose
handle is gone (its context ended, the device was reset, the runtime was finalized) finds its work
done and says nothing; every other refusal is an error. Some releases need a context on the calling
thread, which a thread of the garbage collector has not: they are tried again in the object's own.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ascendrt import _forks, _lib
from ascendrt.closing import Closing
from ascendrt.errors import AscendrtError, code_of

if TYPE_CHECKING:
    from typing_extensions import Self

_INVALID_HANDLE = code_of("ACL_ERROR_RT_INVALID_HANDLE")
# Of a handle, and of a reference to a device that somebody else has dropped.
_GONE = {_INVALID_HANDLE, code_of("ACL_ERROR_RT_CONTEXT_RELEASE_ERROR")}
_AFTER_FORK = code_of("ACL_ERROR_RT_INTERNAL_ERROR")
_NO_CONTEXT = code_of("ACL_ERROR_RT_CONTEXT_NULL")
# What a release answers that is to be done in a context of its own.
_IN_ANOTHER = frozenset(
    code_of(f"ACL_ERROR_RT_{name}_CONTEXT") for name in ("STREAM", "MODEL", "LABEL")
) | {_NO_CONTEXT}


class Owned(Closing):
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
            raise self._refusal()

    def _refusal(self) -> ValueError:
        return ValueError(f"this {type(self).__name__} is closed")

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except AscendrtError as second:  # the first error is the one to report
            warnings.warn(f"while handling another error: {second}", RuntimeWarning, stacklevel=2)

    def __del__(self) -> None:
        if self._closed or _forked or sys.is_finalizing():
            return
        try:  # a warning may be an error, and the resource is given back all the same
            warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)
        finally:
            try:
                self.close()
            except AscendrtError as error:
                warnings.warn(f"closing {self!r}: {error}", RuntimeWarning, stacklevel=2)


class InContext(Owned):
    """An object of a context. A thread that has no context gets this one when it uses the object:
    a new thread has none, and an event loop's helpers and finalizers run on such threads.
    """

    _context = 0

    def asked(self, api: str, function: Callable[..., int], *arguments: int, **ids: object) -> int:
        """Return the answer of a call that gives a value, or a code as a negative number.

        Raises: AclError; a thread without context gets that of the object, as in `failed`.
        """
        answer = function(*arguments)
        if answer == -_NO_CONTEXT and not _lib.fast.set_context(self._context):
            _lib.forget_failure()
            answer = function(*arguments)
        if answer < 0:
            raise _lib.failure(-answer, api, **ids)
        return answer

    def failed(
        self, code: int, api: str, function: Callable[..., int], *arguments: Any, **ids: object
    ) -> None:
        """See to a call that answered `code`, not 0; in a thread without context it is repeated.

        Raises: AclError unless the repeated call succeeds.
        """
        if code == _NO_CONTEXT and not _lib.fast.set_context(self._context):
            _lib.forget_failure()
            code = function(*arguments)
        if code:
            raise _lib.failure(code, api, **ids)


def settle(code: int, api: str, context: int, free: Callable[[], int], **ids: object) -> None:
    """See to a release that answered `code`, not 0; Note [Any order]. `context` 0: of none.

    Raises: AclError when the runtime refuses for a reason of its own.
    """
    if code in _IN_ANOTHER and context:
        code = _again_in(context, free)
    parents = _forked or (code == _AFTER_FORK and _forks.count() > 0)
    if code in _GONE or (code and parents):
        _lib.forget_failure(code, api)
    elif code:
        raise _lib.failure(code, api, **ids)


def _again_in(context: int, free: Callable[[], int]) -> int:
    before = _lib.fast.get_context()
    if _lib.fast.set_context(context):
        return _INVALID_HANDLE  # the context is gone, and with it what it held
    try:
        return free()
    finally:
        if before:
            _lib.fast.set_context(before)


_used = False  # the runtime, before a fork
_forked = False  # after that: it cannot be used here, and what there was is the parent's


def note_use() -> None:
    """Remember that a child forked from now on cannot use the runtime."""
    global _used
    _used = True


def _note_fork() -> None:
    global _forked
    _forked = _forked or _used


os.register_at_fork(after_in_child=_note_fork)
