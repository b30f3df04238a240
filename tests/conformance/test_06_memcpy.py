"""Copies and sets, blocking and asynchronous (section 6)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    Gate,
    acl,
    ffi,
    foreign,
    gated,
    host_bytes,
    in_thread,
    malloc,
    malloc_host,
    new_stream,
    offset,
    ok,
    open_in_context,
    pageable,
    query,
    read,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
H2H, H2D, D2H, D2D, DEFAULT = 0, 1, 2, 3, 4
SIZE_MAX = 2**64 - 1
HBM = 1


@rule("S6.30")
def test_memcpy_count_zero(block: Any) -> None:
    write(block, b"untouched")
    ok(acl.aclrtMemcpy(NULL, 0, NULL, 0, 99))
    ok(acl.aclrtMemcpy(block, 0, pageable(b"x"), 0, H2D))
    ok(in_thread(lambda: acl.aclrtMemcpy(NULL, 0, NULL, 0, H2D)))
    assert acl.aclrtMemcpy(NULL, 0, NULL, 1, 99) == 100000
    assert read(block, 9) == b"untouched"


@rule("S6.31")
def test_memcpy_arguments(block: Any) -> None:
    host = pageable(b"data")
    copy = acl.aclrtMemcpy
    assert copy(NULL, 4, host, 4, H2D) == 100000
    assert copy(block, 4, NULL, 4, H2D) == 100000
    assert copy(block, 4, host, 4, 6) == 100000
    assert copy(block, 4, host, 4, 99) == 100000
    assert read(block, 4) == bytes(4)
    ok(copy(block, 4, host, 4, 5))
    assert read(block, 4) == b"data"


@rule("S6.32")
def test_memcpy_past_dest_max(block: Any) -> None:
    host = pageable(b"too long")
    assert acl.aclrtMemcpy(block, 7, host, 8, H2D) == 107000
    assert acl.aclrtMemcpy(block, 0, host, 8, H2D) == 107000
    assert read(block, 8) == bytes(8)


@rule("S6.33")
def test_memcpy_onto_itself(block: Any) -> None:
    write(block, b"same")
    ok(in_thread(lambda: acl.aclrtMemcpy(block, 4, block, 4, D2D)))
    assert in_thread(lambda: acl.aclrtMemcpy(block, 3, block, 4, D2D)) == 107000
    assert in_thread(lambda: acl.aclrtMemcpy(block, 4, offset(block, 4), 4, D2D)) == 107002
    assert read(block, 4) == b"same"


@rule("S6.34")
def test_memcpy_without_context(block: Any) -> None:
    host = pageable(b"data")
    assert in_thread(lambda: acl.aclrtMemcpy(block, 4, host, 4, H2D)) == 107002
    assert read(block, 4) == bytes(4)


@rule("S6.35")
@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D, DEFAULT, 5])
def test_memcpy_goes_by_address(block: Any, pinned: Any, kind: int) -> None:
    ffi.buffer(pinned, 4)[:] = b"data"
    ok(acl.aclrtMemcpy(block, 4, pinned, 4, kind))
    ok(acl.aclrtMemcpy(offset(block, 8), 4, block, 4, kind))
    target = pageable(b"", 4)
    ok(acl.aclrtMemcpy(target, 4, offset(block, 8), 4, kind))
    assert host_bytes(target, 4) == b"data"


@guess
@rule("S6.36")
def test_memcpy_host_to_host(device: int, pinned: Any) -> None:
    first, second = pageable(b"pageable"), pageable(b"", 8)
    ok(acl.aclrtMemcpy(second, 8, first, 8, H2H))
    assert host_bytes(second, 8) == b"pageable"
    ok(acl.aclrtMemcpy(pinned, 8, first, 8, DEFAULT))
    assert host_bytes(pinned, 8) == b"pageable"


@rule("S6.37")
def test_memcpy_does_not_wait(stream: Any, block: Any) -> None:
    with gated(stream):
        ok(acl.aclrtMemsetAsync(block, 64, 1, 64, stream))
        write(block, b"at once")
        assert (read(block, 7), query(stream)) == (b"at once", 1)
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 7) == b"\x01" * 7


def copy_async(*arguments: Any) -> int:
    return int(acl.aclrtMemcpyAsync(*arguments))


def dead_stream() -> Any:
    gone = new_stream()
    ok(acl.aclrtDestroyStream(gone))
    return gone


@rule("S6.39")
def test_async_copy_count_zero(block: Any) -> None:
    gone = dead_stream()
    ok(copy_async(NULL, 0, NULL, 0, 99, gone))
    ok(in_thread(lambda: copy_async(NULL, 0, NULL, 0, H2D, NULL)))
    assert copy_async(NULL, 0, NULL, 1, 99, gone) == 100000


@rule("S6.40")
def test_async_copy_arguments(block: Any, pinned: Any) -> None:
    gone = dead_stream()
    assert copy_async(NULL, 8, pinned, 8, H2D, gone) == 100000
    assert copy_async(block, 8, NULL, 8, H2D, gone) == 100000
    assert copy_async(block, 8, pinned, 8, 99, gone) == 100000


@rule("S6.41")
def test_async_copy_past_dest_max(block: Any, pinned: Any, stream: Any) -> None:
    ffi.buffer(pinned, 8)[:] = b"too long"
    assert copy_async(block, 7, pinned, 8, H2D, stream) == 107000
    assert copy_async(block, 7, pinned, 8, H2D, dead_stream()) == 107017
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 8) == bytes(8)


@rule("S6.42")
def test_async_copy_on_a_destroyed_stream(block: Any, pinned: Any) -> None:
    ffi.buffer(pinned, 8)[:] = b"not here"
    assert copy_async(block, 8, pinned, 8, H2D, dead_stream()) == 107017
    assert read(block, 8) == bytes(8)


@rule("S6.43")
def test_async_copy_on_a_stream_of_another_context(
    block: Any, pinned: Any, other_stream: Any
) -> None:
    ffi.buffer(pinned, 8)[:] = b"not here"
    assert copy_async(block, 8, pinned, 8, H2D, other_stream) == 107003
    ok(acl.aclrtSynchronizeStream(other_stream))
    assert read(block, 8) == bytes(8)


@rule("S6.44")
def test_pageable_copy_on_a_stream_of_another_context(device: int, block: Any) -> None:
    rawabi.new_context()
    busy = new_stream()
    gate = Gate(busy)
    opener = threading.Timer(0.1, open_in_context(gate))
    ok(acl.aclrtSetDevice(0))
    opener.start()
    ok(copy_async(block, 8, pageable(b"pageable"), 8, H2D, busy))
    assert gate.is_open and query(busy) == 0
    opener.join()
    assert read(block, 8) == b"pageable"


@rule("S6.45")
@pytest.mark.parametrize("kind", [H2H, D2H, D2D, DEFAULT])
def test_wrong_kind_is_corrected(block: Any, pinned: Any, stream: Any, kind: int) -> None:
    ffi.buffer(pinned, 8)[:] = b"to there"
    ok(copy_async(block, 8, pinned, 8, kind, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 8) == b"to there"


@rule("S6.46")
def test_pageable_kind_that_does_not_fit(block: Any, stream: Any) -> None:
    host = pageable(b"pageable")
    for kind in (H2H, D2H):
        assert copy_async(block, 8, host, 8, kind, stream) == 107000
    for kind in (H2H, H2D):
        assert copy_async(host, 8, block, 8, kind, stream) == 107000
    assert read(block, 8) == bytes(8)
    assert host_bytes(host, 8) == b"pageable"


@rule("S6.47")
def test_pageable_default_kind(block: Any, stream: Any) -> None:
    target = pageable(b"", 8)
    ok(copy_async(block, 8, pageable(b"pageable"), 8, DEFAULT, stream))
    ok(copy_async(target, 8, block, 8, DEFAULT, stream))
    assert host_bytes(target, 8) == b"pageable"


@rule("S6.48")
def test_async_host_to_host(device: int, pinned: Any, stream: Any) -> None:
    ffi.buffer(pinned, 8)[:] = b"original"
    for kind in (H2H, H2D, D2H, D2D, DEFAULT):
        assert copy_async(offset(pinned, 64), 8, pinned, 8, kind, stream) == 207000
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(offset(pinned, 64), 8) == bytes(8)


@rule("S6.49")
def test_pageable_copy_waits_for_the_stream(block: Any, stream: Any) -> None:
    gate = Gate(stream)
    ok(acl.aclrtMemsetAsync(block, 16, 0x41, 16, stream))
    opener = threading.Timer(0.1, open_in_context(gate))
    opener.start()
    ok(copy_async(block, 8, pageable(b"pageable"), 8, H2D, stream))
    assert gate.is_open
    opener.join()
    target = pageable(b"", 16)
    ok(copy_async(target, 16, block, 16, D2H, stream))
    assert host_bytes(target, 16) == b"pageableAAAAAAAA"


@rule("S6.50")
def test_pageable_copy_given_as_device_to_device(block: Any, stream: Any) -> None:
    host = pageable(b"pageable")
    with gated(stream):
        ok(copy_async(block, 8, host, 8, D2D, stream))
        assert (query(stream), read(block, 8)) == (1, bytes(8))
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 8) == b"pageable"


@rule("S6.53")
def test_async_copy_onto_itself(block: Any, pinned: Any, stream: Any) -> None:
    write(block, b"same")
    with gated(stream):
        ok(copy_async(block, 4, block, 4, D2D, stream))
    assert copy_async(block, 4, block, 4, D2D, dead_stream()) == 107017
    assert copy_async(block, 3, block, 4, D2D, stream) == 107000
    assert copy_async(pinned, 4, pinned, 4, H2D, stream) == 207000
    assert in_thread(lambda: copy_async(block, 4, block, 4, D2D, stream)) == 107002
    assert read(block, 4) == b"same"


@rule("S6.54")
def test_memset_count_zero(block: Any) -> None:
    write(block, b"kept")
    ok(acl.aclrtMemset(NULL, 0, 1, 0))
    ok(acl.aclrtMemset(block, 4, 1, 0))
    ok(in_thread(lambda: acl.aclrtMemset(NULL, 0, 1, 0)))
    assert acl.aclrtMemset(NULL, 4, 1, 4) == 100000
    assert read(block, 4) == b"kept"


@rule("S6.55")
def test_memset_null(device: int) -> None:
    assert acl.aclrtMemset(NULL, 64, 1, 64) == 100000


@guess
@rule("S6.56")
def test_memset_past_the_maximum(block: Any) -> None:
    assert acl.aclrtMemset(block, 8, 1, 9) == 107000
    assert read(block, 9) == bytes(9)


@rule("S6.57")
def test_memset(block: Any, pinned: Any) -> None:
    for pointer, look in ((block, read), (pinned, host_bytes)):
        ok(acl.aclrtMemset(pointer, 4096, 0x1234, 8))
        assert look(pointer, 10) == b"\x34" * 8 + bytes(2)
        ok(acl.aclrtMemset(offset(pointer, 2), 100, -1, 2))
        assert look(pointer, 5) == b"\x34\x34\xff\xff\x34"


@rule("S6.58")
def test_async_memset_count_zero(block: Any, stream: Any) -> None:
    write(block, b"kept")
    ok(acl.aclrtMemsetAsync(NULL, 0, 1, 0, stream))
    ok(acl.aclrtMemsetAsync(block, 4, 1, 0, stream))
    assert acl.aclrtMemsetAsync(NULL, 4, 1, 4, stream) == 100000
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 4) == b"kept"


@rule("S6.59")
def test_async_memset_null(stream: Any) -> None:
    assert acl.aclrtMemsetAsync(NULL, 64, 1, 64, stream) == 100000


@rule("S6.60")
def test_async_memset_past_the_maximum(block: Any, stream: Any) -> None:
    assert acl.aclrtMemsetAsync(block, 8, 1, 9, stream) == 107000
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 9) == bytes(9)


@rule("S6.61")
def test_async_memset_on_a_stream_of_another_context(block: Any, other_stream: Any) -> None:
    assert acl.aclrtMemsetAsync(block, 8, 1, 8, other_stream) == 107003
    ok(acl.aclrtSynchronizeStream(other_stream))
    assert read(block, 8) == bytes(8)


def copy_2d(stream: Any, *arguments: Any) -> int:
    """The blocking form without a stream, else the asynchronous form."""
    if stream is None:
        return int(acl.aclrtMemcpy2d(*arguments))
    return int(acl.aclrtMemcpy2dAsync(*arguments, stream))


@rule("S6.209")
def test_copy_2d_on_a_board() -> None:
    """The arguments are looked at first; a copy in one piece works."""

    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        device, host, stream = malloc(8), malloc_host(8), new_stream()
        rows = (device, 4, host, 4, 4, 2, 1)
        return [
            acl.aclrtMemcpy2d(*rows), acl.aclrtMemcpy2dAsync(*rows, stream),
            acl.aclrtMemcpy2d(*rows[:6], 99), acl.aclrtMemcpy(device, 8, host, 8, 1),
        ]  # fmt: skip

    for open_memory, code in (("open", 207000), ("strict", 0)):
        memory = {"ASCENDRT_DEVICE_MEMORY": open_memory}
        assert rawabi.fresh_on("310B", body, memory) == [code, code, 100000, 0]


@rule("S6.62")
def test_copy_2d_of_nothing(block: Any, stream: Any) -> None:
    write(block, b"kept")
    for queue in (None, stream):
        ok(copy_2d(queue, NULL, 0, NULL, 0, 0, 5, 99))
        ok(copy_2d(queue, NULL, 0, NULL, 0, 5, 0, 99))
        assert copy_2d(queue, NULL, 0, NULL, 0, 5, 5, 99) == 100000
    assert read(block, 4) == b"kept"


@rule("S6.63")
def test_copy_2d_arguments(block: Any, stream: Any) -> None:
    host = pageable(b"0123456789abcdef")
    for queue in (None, stream):
        assert copy_2d(queue, NULL, 8, host, 8, 4, 2, H2D) == 100000
        assert copy_2d(queue, block, 8, NULL, 8, 4, 2, H2D) == 100000
        assert copy_2d(queue, block, 3, host, 8, 4, 2, H2D) == 100000
        assert copy_2d(queue, block, 8, host, 3, 4, 2, H2D) == 100000
        assert copy_2d(queue, block, 8, host, 8, 4, 2, H2H) == 100000
        assert copy_2d(queue, block, 8, host, 8, 4, 2, 5) == 100000
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 16) == bytes(16)
    ok(copy_2d(None, block, 4, host, 8, 3, 2, H2D))
    assert read(block, 8) == b"012\x0089a\x00"


@rule("S6.64")
def test_copy_2d_device_to_device(block: Any) -> None:
    write(block, b"source")
    assert copy_2d(None, offset(block, 64), 8, block, 8, 4, 1, D2D) == 207000
    assert read(offset(block, 64), 4) == bytes(4)


@rule("S6.65")
def test_copy_2d_direction(block: Any, pinned: Any) -> None:
    for kind in (H2D, D2H, DEFAULT):
        assert copy_2d(None, offset(block, 64), 8, block, 8, 4, 1, kind) == 107000
        assert copy_2d(None, offset(pinned, 64), 8, pinned, 8, 4, 1, kind) == 107000
    ok(copy_2d(None, block, 8, pinned, 8, 4, 1, DEFAULT))


@rule("S6.66")
def test_async_copy_2d_device_to_device(block: Any, stream: Any) -> None:
    write(block, b"ab..cd..")
    ok(copy_2d(stream, offset(block, 64), 2, block, 4, 2, 2, D2D))
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(offset(block, 64), 4) == b"abcd"


@rule("S6.67")
def test_async_copy_2d_host_to_host(device: int, pinned: Any, stream: Any) -> None:
    ffi.buffer(pinned, 4)[:] = b"data"
    for kind in (H2D, DEFAULT):
        assert copy_2d(stream, offset(pinned, 64), 8, pinned, 8, 4, 1, kind) == 107000
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(offset(pinned, 64), 4) == bytes(4)


def copy_2d_on_null_stream() -> Any:
    host = ffi.new("char[]", b"abcd")
    first = acl.aclrtMemcpy2dAsync(foreign(), 2, host, 2, 2, 2, 1, NULL)
    ok(acl.aclrtSetDevice(0))
    pointer = malloc(64)
    write(pointer, bytes(4))
    source = malloc_host(64)
    ffi.buffer(source, 4)[:] = b"abcd"
    code = acl.aclrtMemcpy2dAsync(pointer, 2, source, 2, 2, 2, 1, NULL)
    ok(acl.aclrtSynchronizeStream(NULL))
    return first, code, read(pointer, 4).hex()


@rule("S6.68")
@pytest.mark.parametrize("chip", ["A2", "A3", "950"])
def test_async_copy_2d_on_the_default_stream(chip: str) -> None:
    answer = rawabi.fresh_on(chip, copy_2d_on_null_stream)
    assert answer == [107002, 0, b"abcd".hex()]


@rule("S6.69")
@pytest.mark.parametrize("chip", ["310B", "310P", "910"])
def test_async_copy_2d_without_stream_is_refused(chip: str) -> None:
    answer = rawabi.fresh_on(chip, copy_2d_on_null_stream)
    assert answer == [107000, 107000, bytes(4).hex()]


@rule("S6.70")
def test_copy_2d_limits(block: Any, pinned: Any, stream: Any) -> None:
    wide, high = 5000001, 5242881
    for queue in (None, stream):
        assert copy_2d(queue, block, wide, pinned, wide, wide, 1, H2D) == 107000
        assert copy_2d(queue, block, 1, pinned, 1, 1, high, H2D) == 107000
    assert read(block, 8) == bytes(8)
    ok(copy_2d(None, block, wide, pinned, wide, 8, 1, H2D))


@rule("S6.91")
def test_true_direction_of_known_places(block: Any, pinned: Any, stream: Any) -> None:
    write(block, b"from device")
    for kind in (H2H, H2D, D2H, D2D, DEFAULT):
        target = offset(block, 64 + 16 * kind)
        ok(copy_async(target, 11, block, 11, kind, stream))
        ok(copy_async(offset(pinned, 16 * kind), 11, target, 11, kind, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        assert host_bytes(offset(pinned, 16 * kind), 11) == b"from device"


@rule("S6.92")
@pytest.mark.parametrize("kind", [H2D, D2D, DEFAULT])
def test_pageable_to_device(block: Any, stream: Any, kind: int) -> None:
    host = pageable(b"pageable")
    ok(copy_async(block, 8, host, 8, kind, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 8) == b"pageable"


@rule("S6.93")
@pytest.mark.parametrize("kind", [D2H, D2D, DEFAULT])
def test_device_to_pageable(block: Any, stream: Any, kind: int) -> None:
    host = pageable(b"", 8)
    write(block, b"pageable")
    ok(copy_async(host, 8, block, 8, kind, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(host, 8) == b"pageable"


@rule("S6.94")
def test_pinned_to_pageable(pinned: Any, stream: Any) -> None:
    host = pageable(b"", 8)
    ffi.buffer(pinned, 8)[:] = b"pageable"
    for kind, code in ((H2H, 207000), (DEFAULT, 207000), (D2H, 107000), (D2D, 107000)):
        assert copy_async(host, 8, pinned, 8, kind, stream) == code
    assert host_bytes(host, 8) == bytes(8)
    ok(copy_async(host, 8, pinned, 8, H2D, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(host, 8) == b"pageable"


@rule("S6.95")
def test_pageable_to_pinned(pinned: Any, stream: Any) -> None:
    host = pageable(b"pageable")
    for kind, code in ((H2H, 207000), (DEFAULT, 207000), (H2D, 107000), (D2D, 107000)):
        assert copy_async(pinned, 8, host, 8, kind, stream) == code
    assert host_bytes(pinned, 8) == bytes(8)
    ok(copy_async(pinned, 8, host, 8, D2H, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(pinned, 8) == b"pageable"


@rule("S6.96")
def test_pageable_to_pageable(device: int, stream: Any) -> None:
    first, second = pageable(b"pageable"), pageable(b"", 8)
    for kind in (H2H, DEFAULT):
        assert copy_async(second, 8, first, 8, kind, stream) == 207000
    ok(acl.aclrtSynchronizeStream(stream))
    assert host_bytes(second, 8) == bytes(8)
