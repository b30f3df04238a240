"""Helpers of the tests of capture and model instances.

Must never leave a capture open: `closing` ends what a failed test began.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rawabi
from rawabi import NULL, acl, ffi, made, ok, real

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALIDATED = 0, 1, 2
HEAD, DEFAULT = 0, 0x7FFFFFFF
PERSISTENT = 4
ERROR_MODEL = 507011


@contextmanager
def capture(stream: Any, mode: int = RELAXED) -> Iterator[list[Any]]:
    """Capture what the block puts on the stream; the instance is appended to the list."""
    out: list[Any] = []
    ok(acl.aclmdlRICaptureBegin(stream, mode))
    try:
        yield out
    except BaseException:
        real.aclmdlRICaptureEnd(stream, ffi.new("void **"))
        raise
    out.append(end(stream))


@contextmanager
def closing(stream: Any, mode: int = RELAXED) -> Iterator[None]:
    """Capture for the length of the block and throw the result away."""
    ok(acl.aclmdlRICaptureBegin(stream, mode))
    try:
        yield
    finally:
        out = ffi.new("void **")
        if real.aclmdlRICaptureEnd(stream, out) == 0:
            real.aclmdlRIDestroy(out[0])


def end(stream: Any) -> Any:
    """End the capture of a stream; return the instance."""
    out = ffi.new("void **")
    ok(acl.aclmdlRICaptureEnd(stream, out))
    assert out[0] != NULL
    return out[0]


def end_code(stream: Any) -> tuple[int, bool]:
    """End a capture; return the code and whether the instance pointer is null."""
    out = ffi.new("void **", rawabi.foreign())
    return int(acl.aclmdlRICaptureEnd(stream, out)), bool(out[0] == NULL)


def info(stream: Any) -> tuple[int, Any]:
    """Return status and instance of a stream's capture."""
    status, instance = ffi.new("aclmdlRICaptureStatus *", 77), ffi.new("void **", rawabi.foreign())
    ok(acl.aclmdlRICaptureGetInfo(stream, status, instance))
    return int(status[0]), instance[0]


def fill(block: Any, value: int, stream: Any, count: int = 1) -> None:
    """Put a fill of device memory on a stream."""
    ok(acl.aclrtMemsetAsync(block, 4096, value, count, stream))


def first_byte(block: Any) -> int:
    """Return the first byte of device memory."""
    return rawabi.read(block, 1)[0]


def run(instance: Any, stream: Any) -> None:
    """Run an instance on a stream and wait."""
    ok(acl.aclmdlRIExecuteAsync(instance, stream))
    ok(acl.aclrtSynchronizeStream(stream))


def persistent() -> Any:
    """Make a stream that can be bound to an instance."""
    return made("aclrtCreateStreamWithConfig", 0, PERSISTENT)


class Built:
    """An instance built by hand on bound streams."""

    def __init__(self, *flags: int) -> None:
        self.handle = made("aclmdlRIBuildBegin", 0)
        self.streams = [persistent() for _ in flags]
        for stream, flag in zip(self.streams, flags, strict=True):
            ok(acl.aclmdlRIBindStream(self.handle, stream, flag))

    def __enter__(self) -> Built:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def finish(self) -> None:
        """Say that all tasks are there."""
        ok(acl.aclmdlRIEndTask(self.handle, self.streams[0]))
        ok(acl.aclmdlRIBuildEnd(self.handle, NULL))

    def close(self) -> None:
        """Unbind the streams and destroy the instance."""
        for stream in self.streams:
            real.aclmdlRIUnbindStream(self.handle, stream)
        real.aclmdlRIDestroy(self.handle)
