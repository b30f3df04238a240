"""The only module that touches cffi: calls, checks, buffers, callbacks.

Owns: `lib` (each ABI function by its vendor name; the first one asked for loads the backend), the
guards (`call` raises, `check` raises for a code at hand, `check_quiet` warns and never raises), and
references to what C holds on to. Every call releases the GIL. Must never decide which library set
is used.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from ascendrt import _backend, errors

if TYPE_CHECKING:
    from ascendrt import _fast
    from ascendrt._gen.functions import Functions

# A pointer or handle of the ABI: cffi has no static types for them.
Handle: TypeAlias = Any


class _Library:
    """The ABI functions and constants; a name is looked up once, then it is a plain attribute."""

    def __getattr__(self, name: str) -> Any:
        _backend.load()
        from ascendrt._cffi import lib as raw

        value = getattr(raw, name)
        if callable(value) and not raw.art_has(name.encode()):
            value = _missing(name)
        setattr(self, name, value)
        return value


lib = cast("Functions", _Library())


class _FastCalls:
    """The calls of ascendrt._fast; the first one asked for loads the backend."""

    def __getattr__(self, name: str) -> Any:
        _backend.load()
        from ascendrt import _fast

        value = getattr(_fast, name)
        setattr(self, name, value)
        return value


# Handles and addresses are ints there; see csrc/fastmodule.c.
if TYPE_CHECKING:
    fast = _fast
else:
    fast = _FastCalls()


def _missing(name: str) -> Callable[..., Any]:
    def raise_missing(*_: object) -> Any:
        raise _missing_symbol(name)

    return raise_missing


def _missing_symbol(name: str) -> errors.MissingSymbolError:
    backend = _backend.load()
    text = f"none of the libraries in {backend.directory} has {name}"
    return errors.MissingSymbolError(name, "; not loaded: ".join((text, *backend.unloaded)))


def has(name: str) -> bool:
    """True when the loaded libraries have this function. Source: vendors leave functions out."""
    _backend.load()
    from ascendrt._cffi import lib as raw

    return bool(raw.art_has(name.encode()))


def call(api: str, *arguments: Any, ids: Mapping[str, object] | None = None) -> None:
    """Call a function that answers a status.

    `ids` says what the call is about and appears in the error's text.

    Raises: AclError of the right family; MissingSymbolError.
    """
    code = getattr(lib, api)(*arguments)
    if code:
        raise failure(code, api, **(ids or {}))


def check(code: int, api: str, **ids: object) -> None:
    """Raise AclError unless `code` is 0."""
    if code:
        raise failure(code, api, **ids)


def check_quiet(code: int, api: str, **ids: object) -> None:
    """Warn unless `code` is 0; for clean-up, where raising would hide the first error."""
    if code:
        warnings.warn(str(failure(code, api, **ids)), RuntimeWarning, stacklevel=2)


def warn(error: Exception) -> None:
    """Tell of an error in clean-up, where raising is not possible."""
    warnings.warn(str(error), RuntimeWarning, stacklevel=3)


def failure(code: int, api: str, **ids: object) -> errors.AclError:
    """Build the exception of a call that just failed on this thread, with the library's text."""
    if code == errors.NOT_SUPPORTED_CODE and not has(api):
        return _missing_symbol(api)
    expected, _expected.prefixes = getattr(_expected, "prefixes", ()), ()
    error = errors.make(code, api, _recent_text(), expected, **ids)
    if not fast.get_context():
        _expected.prefixes = expected
        _expect(code, api)
    return error


# Per thread: how the texts of failures begin that were told or forgotten and may still come: a
# thread without a context cannot take them back.
_expected = threading.local()


def _expect(code: int, api: str) -> None:
    begin = f"[{code} {errors.describe(code)[0]}] {api}: "
    _expected.prefixes = tuple({*getattr(_expected, "prefixes", ()), begin})


def _recent_text() -> str:
    from ascendrt._cffi import lib as raw

    return text(raw.aclGetRecentErrMsg())


def forget_failure(code: int = 0, api: str = "") -> None:
    """Take back code and text of an outcome that is no failure for the user."""
    _recent_text()
    lib.aclrtGetLastError(0)
    if code and not fast.get_context():
        _expect(code, api)


def recent_code() -> int:
    """Return and clear this thread's last error; for functions that answer no status."""
    return int(lib.aclrtGetLastError(0)) or errors.code_of("ACL_ERROR_FAILURE")


@cache
def _ffi() -> Any:
    from ascendrt._cffi import ffi

    return ffi


def new(kind: str) -> Handle:
    """Return a zeroed C object; `kind` ends in `*` or `[n]`. Freed with its last reference."""
    return _ffi().new(kind)


def null() -> Handle:
    """Return the null pointer."""
    return _ffi().NULL


def text(pointer: Handle) -> str:
    """Return the text behind a `char *`; empty for null."""
    ffi = _ffi()
    if pointer == ffi.NULL:
        return ""
    value: bytes = ffi.string(pointer)
    return value.decode(errors="replace")


def address(pointer: Handle) -> int:
    """Return a pointer as a number."""
    return int(_ffi().cast("uintptr_t", pointer))


def pointer(number: int) -> Handle:
    """Return a number as a pointer."""
    return _ffi().cast("void *", number)


def owned_buffer(number: int, size_bytes: int, free: Callable[[], None]) -> Any:
    """Return host memory as an object with the buffer protocol; `free` runs with its last view."""
    ffi = _ffi()
    over = sys.is_finalizing  # the process's end frees it then
    data = ffi.gc(ffi.cast("char *", number), lambda _: None if over() else free())
    return ffi.buffer(data, size_bytes)


def offset(pointer: Handle, size_bytes: int) -> Handle:
    """Return a pointer moved on by a number of bytes."""
    ffi = _ffi()
    return ffi.cast("void *", ffi.cast("char *", pointer) + size_bytes)


def readable(data: Any) -> Handle:
    """Return a pointer to the bytes of a contiguous buffer; valid while the result lives."""
    return _ffi().from_buffer(data)


def writable(data: Any) -> Handle:
    """Return a pointer for writing into a contiguous buffer; valid while the result lives.

    Raises: ValueError when the buffer is read-only or not contiguous.
    """
    try:
        return _ffi().from_buffer(data, require_writable=True)
    except (BufferError, ValueError) as error:
        raise ValueError(f"the target array must be writable and contiguous: {error}") from error


class Callback:
    """A Python function that C may call, such as "void(void *)"; it lives until `release`.

    An exception inside cannot cross C: it is kept in `error` and reported as a warning.
    Threads: runs on whatever thread C calls from, which then takes the GIL.
    """

    _alive: ClassVar[set[Callback]] = set()

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self.error: BaseException | None = None
        self.pointer: Handle = _ffi().callback(kind, function, onerror=self._keep)
        Callback._alive.add(self)

    def _keep(self, kind: Any, error: BaseException, trace: Any) -> None:
        self.error = error
        warnings.warn(f"a callback raised {error!r}", RuntimeWarning, stacklevel=2)

    def release(self) -> None:
        """Let go; C must not call any more."""
        Callback._alive.discard(self)


def current_context() -> Handle | None:
    """Return the calling thread's context, or None when it has none."""
    handle = new("aclrtContext *")
    return handle[0] if lib.aclrtGetCurrentContext(handle) == 0 else None


@contextmanager
def in_context(context: Handle | None) -> Iterator[None]:
    """Make a context current for the block, then give the thread its own one back.

    A thread that had none keeps `context`: the ABI has no way to take it off again.
    """
    before = current_context()
    if context is None or before == context:
        yield
        return
    call("aclrtSetCurrentContext", context)
    try:
        yield
    finally:
        if before is not None:
            check_quiet(lib.aclrtSetCurrentContext(before), "aclrtSetCurrentContext")
