"""What can go wrong, as exception classes; the code table is the generated one.

Owns: the families of AclError and the choice of family for a code. Must never load a library:
errors are raised about libraries that could not be loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ascendrt._gen import codes as _codes


class AscendrtError(Exception):
    """Root of every error this package raises on its own account."""


class BackendError(AscendrtError, RuntimeError):
    """No usable library set: the text lists each place tried and the reason."""


class BackendWarning(UserWarning):
    """A toolkit was found but cannot be used; the emulator takes its place."""


class AclError(AscendrtError, RuntimeError):
    """A call answered with a status other than 0.

    Attributes: `code` (int), `name` (the constant's name), `api` (the function), `ids` (what the
    call was about, such as device=0), `text` (the library's own message, may be empty), `cause`
    (the first failure on this thread that nobody has asked about, when it was an earlier one),
    `hint` (likely cause or fix, may be empty).
    """

    cause = ""

    def __init__(self, code: int, api: str, text: str = "", **ids: object) -> None:
        self.code = code
        self.api = api
        self.ids = ids
        self.text = text
        self.name, self.hint = describe(code)
        super().__init__(code, api, text)

    def __str__(self) -> str:
        about = ", ".join(f"{key}={value}" for key, value in self.ids.items())
        head = f"{self.api} failed with {self.code} {self.name}" + (f" ({about})" if about else "")
        parts = [head]
        # The emulator's texts begin with what the head says already, and hold the advice.
        prefix = f"[{self.code} {self.name}] {self.api}: "
        own = self.text.removeprefix(prefix)
        if own:
            parts.append(own)
        if self.hint and self.hint not in self.text and not self.text.startswith(prefix):
            parts.append(f"hint: {self.hint}")
        if self.code in _IN_PYTHON:
            parts.append(f"in Python: {_IN_PYTHON[self.code]}")
        if self.cause:
            parts.append(f"before it, on this thread: {self.cause}")
        return "\n  ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        ids = {key: _plain(value) for key, value in self.ids.items()}
        return (_rebuild, (type(self), self.code, self.api, self.text, ids, self.cause))


class UsageError(AclError):
    """The request was wrong: an argument, a handle, an order of calls (codes 1xxxxx)."""


class ModelError(UsageError):
    """The graph engine refuses a model, its file or its inputs (codes 145xxx and 545xxx)."""


class ResourceError(AclError):
    """Something ran out or is not there (codes 2xxxxx and 3xxxxx)."""


class OutOfMemoryError(ResourceError, MemoryError):
    """Device or host memory for the device ran out."""


class NotSupportedError(AclError):
    """The chip, the library or the emulator does not offer what was asked."""


class WaitTimeoutError(AclError, TimeoutError):
    """A wait with a limit ran out; the work may still be going on."""


class DeviceError(AclError):
    """The runtime or the device failed while working (codes 5xxxxx)."""


class MissingSymbolError(NotSupportedError):
    """The loaded libraries do not have this function at all."""

    def __init__(self, api: str, text: str = "") -> None:
        super().__init__(NOT_SUPPORTED_CODE, api, text)

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingSymbolError, (self.api, self.text))


def code_of(name: str) -> int:
    """Return the status code of that name. Raises: KeyError for a name that is no status."""
    return _CODE_OF[name]


_CODE_OF = {row.name: code for code, row in _codes.CODES.items()}
NOT_SUPPORTED_CODE = code_of("ACL_ERROR_RT_FEATURE_NOT_SUPPORT")
# What the texts, which are about C, leave open.
_IN_PYTHON = {
    code_of("ACL_ERROR_RT_CONTEXT_NULL"): (
        "use ascendrt.Device(i), device.use() or context.use() on the thread that asks, and keep "
        "the object (`with ascendrt.Device(i):`): one that nothing refers to is closed"
    ),
}
_OUT_OF_MEMORY = ("MEMORY_ALLOCATION", "BAD_ALLOC", "OOM")
_NOT_SUPPORTED = ("NOT_SUPPORT", "UNSUPPORTED", "COMPILING_STUB_MODE")


def describe(code: int) -> tuple[str, str]:
    """Return (name, hint) of a status code; an unknown code is called UNKNOWN with no hint."""
    row = _codes.CODES.get(code)
    return (row.name, row.hint) if row else ("UNKNOWN", "")


def family(code: int) -> type[AclError]:
    """Choose the exception class for a code: by what its name says, else by its range."""
    name, _ = describe(code)
    if any(word in name for word in _OUT_OF_MEMORY):
        return OutOfMemoryError
    if any(word in name for word in _NOT_SUPPORTED):
        return NotSupportedError
    if name.endswith("TIMEOUT"):
        return WaitTimeoutError
    if code // 1000 in (145, 545):
        return ModelError
    return {1: UsageError, 2: ResourceError, 3: ResourceError, 5: DeviceError}.get(
        code // 100000, AclError
    )


_QUESTION = re.compile(r"\[\d+ \w+\] (aclGetRecentErrMsg|aclrtGetCurrentContext): ")


def make(
    code: int, api: str, text: str = "", expected: Sequence[str] = (), **ids: object
) -> AclError:
    """Build the exception for a failed call; the caller raises it.

    `text` is what the library says; entries in it that begin with one of `expected` are no causes.
    """
    text, cause = _of_the_call(code, api, text, tuple(expected))
    error = family(code)(code, api, text, **ids)
    error.cause = cause
    return error


def _of_the_call(code: int, api: str, text: str, expected: tuple[str, ...]) -> tuple[str, str]:
    """Return what belongs to the call that failed, and the first of the failures before it.

    The emulator answers with all failures that nobody has asked for yet, newest first; each begins
    with "[code NAME] function: ". Asking without a context adds a failure of its own, and so does
    asking whether there is one.
    """
    entries = re.split(r"\n(?=\[\d+ \w+\] \w+: )", text.strip())
    entries = [e for e in entries if not (asked := _QUESTION.match(e)) or asked[1] == api]
    for index, entry in enumerate(entries):
        if re.match(rf"\[{code} \w+\] {re.escape(api)}: ", entry):
            earlier = [each for each in entries[index + 1 :] if not each.startswith(expected)]
            return entry, earlier[-1] if earlier else ""
    return "\n".join(entries), ""


def _plain(value: object) -> object:
    """Return an id in a form that another process can take: a handle is its text there."""
    plain = value is None or isinstance(value, (int, float, str, bytes, os.PathLike))
    return value if plain else str(value)


def _rebuild(
    kind: type[AclError], code: int, api: str, text: str, ids: dict[str, object], cause: str
) -> AclError:
    error = kind(code, api, text, **ids)
    error.cause = cause
    return error
