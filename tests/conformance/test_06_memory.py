"""Memory, copies and sets (section 6)."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    Gate,
    acl,
    address,
    ffi,
    foreign,
    gated,
    in_thread,
    made,
    malloc,
    malloc_host,
    new_stream,
    offset,
    ok,
    open_in_context,
    query,
    read,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
H2H, H2D, D2H, D2D, DEFAULT = 0, 1, 2, 3, 4
SIZE_MAX = 2**64 - 1
HBM = 1


def mem_info(attribute: int = HBM) -> tuple[int, int]:
    """Return the free and total bytes of a kind of memory."""
    out = ffi.new("size_t[2]", [77, 77])
    ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
    return int(out[0]), int(out[1])


def pageable(data: bytes, size: int = 0) -> Any:
    """Host memory that the runtime knows nothing of."""
    return ffi.new("char[]", max(size, len(data))) if not data else ffi.new("char[]", data)


def host_bytes(pointer: Any, size: int) -> bytes:
    return bytes(ffi.buffer(ffi.cast("char *", pointer), size))


def free_in_thread(pointer: Any, function: str = "aclrtFree") -> int:
    return int(in_thread(lambda: getattr(acl, function)(pointer)))


@rule("S6.1")
def test_malloc_null_or_zero(device: int) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMalloc(NULL, 64, 0) == 100000
    assert acl.aclrtMalloc(out, 0, 0) == 100000
    assert out[0] == NULL


@rule("S6.2")
def test_malloc_overflow(device: int) -> None:
    out = ffi.new("void **")
    assert [acl.aclrtMalloc(out, SIZE_MAX - less, 0) for less in (0, 16, 31)] == [100000] * 3
    assert out[0] == NULL


@rule("S6.3")
def test_malloc_without_context() -> None:
    out = ffi.new("void **")
    assert acl.aclrtMalloc(out, 64, 0) == 107002
    assert out[0] == NULL


@rule("S6.4")
def test_out_of_memory(device: int) -> None:
    out = ffi.new("void **")
    free, total = mem_info()
    assert 0 < free <= total
    assert acl.aclrtMalloc(out, total + (1 << 30), 0) == 207001
    assert out[0] == NULL
    assert mem_info()[0] == free
    pointer = malloc(64)
    write(pointer, b"still there")
    assert read(pointer, 11) == b"still there"


def check_usable(pointer: Any, size: int) -> None:
    """The block starts aligned and its bytes can be set and read."""
    assert address(pointer) % 64 == 0
    ok(acl.aclrtMemset(pointer, size, 0x3C, size))
    assert read(pointer, size) == b"\x3c" * size


@rule("S6.5")
@pytest.mark.parametrize("size", [1, 31, 32, 33, 100, 4096, (1 << 20) + 5])
def test_alignment_and_spare_bytes(device: int, size: int) -> None:
    spare = 0 if rawabi.chip() == "950" else 32
    first, second = malloc(size), malloc(size)
    rounded = (size + 31) // 32 * 32
    check_usable(first, rounded + spare)
    check_usable(second, rounded + spare)
    assert abs(address(first) - address(second)) >= rounded + spare


@rule("S6.6")
@pytest.mark.parametrize("size", [1, 32, 100])
def test_malloc_align32(device: int, size: int) -> None:
    pointer = made("aclrtMallocAlign32", size, 0)
    check_usable(pointer, (size + 31) // 32 * 32)
    ok(acl.aclrtFree(pointer))


@rule("S6.7")
def test_malloc_cached(device: int) -> None:
    for policy in (acl.ACL_MEM_MALLOC_HUGE_FIRST, acl.ACL_MEM_MALLOC_NORMAL_ONLY_P2P):
        pointer = made("aclrtMallocCached", 100, policy)
        check_usable(pointer, 128 + 32)
        ok(acl.aclrtFree(pointer))


@rule("S6.8")
def test_malloc_with_cfg(device: int) -> None:
    pointer = made("aclrtMallocWithCfg", 100, 0, NULL)
    check_usable(pointer, 128)
    ok(acl.aclrtFree(pointer))


@rule("S6.9")
def test_malloc_with_cfg_without_attributes(device: int) -> None:
    out, config = ffi.new("void **"), ffi.new("aclrtMallocConfig *")
    config.numAttrs = 1
    assert acl.aclrtMallocWithCfg(out, 64, 0, config) == 100000
    assert out[0] == NULL


@rule("S6.10")
def test_malloc_with_an_empty_cfg(device: int) -> None:
    out, config = ffi.new("void **"), ffi.new("aclrtMallocConfig *")
    assert acl.aclrtMallocWithCfg(out, 64, 0, config) == 107000
    assert out[0] == NULL


@rule("S6.11")
@pytest.mark.parametrize("policy", [0, 1, 2, 3, 4, 5, 0x100, 0x1000, 0x100000])
def test_known_policies(device: int, policy: int) -> None:
    pointer = malloc(4096, policy)
    check_usable(pointer, 4096)
    ok(acl.aclrtFree(pointer))


@rule("S6.12")
@pytest.mark.parametrize("policy", [0x7FFFFFF0, 8, 0x101, 0x1100, 9999])
def test_unknown_policies(device: int, policy: int) -> None:
    pointer = malloc(4096, policy)
    check_usable(pointer, 4096)
    ok(acl.aclrtFree(pointer))


@rule("S6.13")
def test_page_kind_by_size(device: int) -> None:
    huge, normal = acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL
    free_huge, free_normal = mem_info(huge)[0], mem_info(normal)[0]
    large = malloc((1 << 20) + 64)
    assert free_huge - mem_info(huge)[0] == 1 << 21
    assert mem_info(normal)[0] == free_normal
    ok(acl.aclrtFree(large))
    small = malloc((1 << 20) - 64)
    assert mem_info(huge)[0] == free_huge
    assert 0 < free_normal - mem_info(normal)[0] <= 1 << 21
    ok(acl.aclrtFree(small))


@rule("S6.14")
def test_malloc_does_not_wait(stream: Any) -> None:
    with gated(stream):
        pointer = malloc(4096)
        assert query(stream) == 1
        write(pointer, b"no wait")
        assert read(pointer, 7) == b"no wait"


@rule("S6.15")
def test_free_null(device: int) -> None:
    assert acl.aclrtFree(NULL) == 100000


@rule("S6.16")
def test_free(stream: Any) -> None:
    before = mem_info()[0]
    pointer = malloc(64 << 20)
    held = mem_info()[0]
    assert before - held >= 64 << 20
    with gated(stream):
        assert free_in_thread(pointer) == 0
        assert query(stream) == 1
        assert mem_info()[0] >= held + (64 << 20)


@guess
@rule("S6.17")
@pytest.mark.emulator
def test_free_of_no_allocation(device: int) -> None:
    pointer = malloc(4096)
    assert acl.aclrtFree(offset(pointer, 64)) == 107000
    assert acl.aclrtFree(rawabi.foreign()) == 107000
    ok(acl.aclrtFree(pointer))
    assert acl.aclrtFree(pointer) == 107000
    assert acl.aclrtFree(ffi.new("char[64]")) == 107000


@rule("S6.18")
def test_malloc_host_null_or_zero(device: int) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMallocHost(NULL, 64) == 100000
    assert acl.aclrtMallocHost(out, 0) == 100000
    assert out[0] == NULL


@rule("S6.19")
def test_malloc_host_without_context() -> None:
    out = ffi.new("void **")
    assert acl.aclrtMallocHost(out, 64) == 107002
    assert out[0] == NULL


@rule("S6.20")
def test_malloc_host(device: int) -> None:
    for size in (1, 100, 4096, 1 << 20):
        pointer = malloc_host(size)
        assert address(pointer) % 64 == 0
        rounded = (size + 31) // 32 * 32
        ffi.buffer(ffi.cast("char *", pointer), rounded)[:] = b"\x11" * rounded
        assert host_bytes(pointer, rounded) == b"\x11" * rounded
        attributes = ffi.new("aclrtPtrAttributes *")
        ok(acl.aclrtPointerGetAttributes(pointer, attributes))
        assert attributes.location.type == acl.ACL_MEM_LOCATION_TYPE_HOST
        ok(acl.aclrtFreeHost(pointer))


@guess
@rule("S6.21")
def test_malloc_host_alignment(device: int) -> None:
    assert {address(malloc_host(size)) % 512 for size in (1, 33, 1000)} == {0}


@rule("S6.22")
def test_free_host_null(device: int) -> None:
    assert acl.aclrtFreeHost(NULL) == 100000


@rule("S6.23")
def test_free_host_of_device_memory(block: Any) -> None:
    write(block, b"device")
    assert acl.aclrtFreeHost(block) == 107000
    assert read(block, 6) == b"device"
    ok(acl.aclrtFree(block))


@rule("S6.24")
@pytest.mark.emulator
def test_free_host_without_context(device: int) -> None:
    pointer = malloc_host(4096)
    assert free_in_thread(pointer, "aclrtFreeHost") == 0
    attributes = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(pointer, attributes))
    assert attributes.location.type == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.25")
def test_mem_info_null(device: int) -> None:
    out = ffi.new("size_t *", 77)
    assert acl.aclrtGetMemInfo(HBM, NULL, out) == 100000
    assert acl.aclrtGetMemInfo(HBM, out, NULL) == 100000
    assert out[0] == 77


@rule("S6.26")
def test_mem_info_without_context() -> None:
    out = ffi.new("size_t[2]", [77, 77])
    assert acl.aclrtGetMemInfo(HBM, out, out + 1) == 107002
    assert list(out) == [77, 77]


@rule("S6.27")
def test_mem_info_attribute(device: int) -> None:
    out = ffi.new("size_t[2]", [77, 77])
    assert [acl.aclrtGetMemInfo(each, out, out + 1) for each in (18, 77)] == [107016] * 2
    assert in_thread(lambda: acl.aclrtGetMemInfo(18, out, out + 1)) == 107016
    assert list(out) == [77, 77]
    assert mem_info(17)[0] <= mem_info(17)[1]


@rule("S6.28")
def test_mem_info_of_absent_memory() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        answers = []
        for attribute in (acl.ACL_DDR_MEM, acl.ACL_HBM_MEM):
            out = ffi.new("size_t[2]", [77, 77])
            ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
            answers.append([out[0], out[1]])
        return answers

    ddr, hbm = rawabi.fresh_on("A2", body)
    assert ddr == [0, 0]
    assert 0 < hbm[0] <= hbm[1]


@rule("S6.29")
@pytest.mark.parametrize("chip", ["310P", "310B"])
def test_hbm_question_on_a_ddr_chip(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        totals = []
        for attribute in (acl.ACL_HBM_MEM, acl.ACL_DDR_MEM):
            out = ffi.new("size_t[2]", [77, 77])
            ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
            totals.append(out[1])
        return totals

    hbm, ddr = rawabi.fresh_on(chip, body)
    assert hbm == ddr > 1 << 30


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


@rule("S6.71")
def test_pointer_attributes(block: Any, pinned: Any) -> None:
    host = pageable(b"", 64)

    def look(pointer: Any) -> tuple[int, int]:
        attributes = ffi.new("aclrtPtrAttributes *")
        attributes.location.type, attributes.location.id = 77, 77
        ok(acl.aclrtPointerGetAttributes(pointer, attributes))
        return int(attributes.location.type), int(attributes.location.id)

    assert look(block) == (acl.ACL_MEM_LOCATION_TYPE_DEVICE, 0)
    assert look(offset(block, 100)) == (acl.ACL_MEM_LOCATION_TYPE_DEVICE, 0)
    assert look(pinned) == (acl.ACL_MEM_LOCATION_TYPE_HOST, 0)
    assert look(host)[0] == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    assert in_thread(lambda: look(block)) == (1, 0)


@rule("S6.72")
def test_pointer_attributes_null(block: Any) -> None:
    attributes = ffi.new("aclrtPtrAttributes *")
    assert acl.aclrtPointerGetAttributes(NULL, attributes) == 100000
    assert acl.aclrtPointerGetAttributes(block, NULL) == 100000


@pytest.fixture
def pages(device: int) -> Iterator[Any]:
    """Host memory of two pages that starts at a page, registered by nobody."""
    area = mmap.mmap(-1, 8192)
    pointer = ffi.from_buffer(area)
    yield pointer
    acl.aclrtHostUnregister(pointer)
    ffi.release(pointer)
    area.close()


def place(pointer: Any) -> int:
    attributes = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(pointer, attributes))
    return int(attributes.location.type)


@rule("S6.73")
def test_attributes_of_registered_memory(pages: Any) -> None:
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostRegister(pages, 4096, acl.ACL_HOST_REGISTER_MAPPED, ffi.new("void **")))
    assert place(pages) == place(offset(pages, 4095)) == acl.ACL_MEM_LOCATION_TYPE_HOST
    assert place(offset(pages, 4096)) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostUnregister(pages))
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.74")
def test_register_null_or_zero(pages: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtHostRegister(NULL, 4096, 0, out) == 100000
    assert acl.aclrtHostRegister(pages, 4096, 0, NULL) == 100000
    assert acl.aclrtHostRegister(pages, 0, 0, out) == 100000
    assert acl.aclrtHostRegisterV2(NULL, 4096, 2) == 100000
    assert acl.aclrtHostRegisterV2(pages, 0, 2) == 100000
    assert out[0] == NULL
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.75")
def test_register_type(pages: Any) -> None:
    out = ffi.new("void **")
    assert [acl.aclrtHostRegister(pages, 4096, kind, out) for kind in (1, 2, 16, 5)] == [207000] * 4
    assert out[0] == NULL
    ok(acl.aclrtHostRegister(pages, 4096, 4 | 8, out))
    assert out[0] != NULL


@rule("S6.76")
def test_register_flag(pages: Any) -> None:
    for flag in (0, 1, 0x12, 0x20000000):
        assert acl.aclrtHostRegisterV2(pages, 4096, flag) == 107000
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostRegisterV2(pages, 4096, 0x1000000E))
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_HOST


@rule("S6.77")
def test_register_without_context(pages: Any) -> None:
    out = ffi.new("void **")
    assert in_thread(lambda: acl.aclrtHostRegister(pages, 4096, 0, out)) == 107002
    assert in_thread(lambda: acl.aclrtHostRegisterV2(pages, 4096, 2)) == 107002
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.78")
def test_register_needs_a_page_start(pages: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtHostRegister(offset(pages, 64), 4096, 0, out) not in (0, 207000)
    assert out[0] == NULL
    ok(acl.aclrtHostRegister(pages, 4096, 0, out))


@rule("S6.79")
def test_register_twice(pages: Any) -> None:
    out = ffi.new("void **")
    ok(acl.aclrtHostRegisterV2(pages, 8192, 2))
    assert acl.aclrtHostRegisterV2(pages, 8192, 2) == 507910
    assert acl.aclrtHostRegister(pages, 4096, 0, out) == 507910
    assert acl.aclrtHostRegisterV2(offset(pages, 4096), 4096, 2) == 507910
    ok(acl.aclrtHostUnregister(pages))
    ok(acl.aclrtHostRegister(pages, 8192, 0, out))


@rule("S6.80")
def test_unregister_what_is_not_registered(pages: Any) -> None:
    assert acl.aclrtHostUnregister(pages) == 507911
    ok(acl.aclrtHostRegisterV2(pages, 8192, 2))
    assert acl.aclrtHostUnregister(offset(pages, 4096)) == 507911
    ok(acl.aclrtHostUnregister(pages))
    assert acl.aclrtHostUnregister(pages) == 507911


def register_anything() -> Any:
    import mmap

    ok(acl.aclrtSetDevice(0))
    pointer = ffi.from_buffer(mmap.mmap(-1, 4096))
    return [
        acl.aclrtHostRegister(pointer, 4096, 0, ffi.new("void **")),
        acl.aclrtHostRegisterV2(pointer, 4096, 2),
        acl.aclrtHostUnregister(pointer),
    ]


@rule("S6.81")
@pytest.mark.parametrize("chip", ["310B", "310P"])
def test_register_on_a_chip_without_it(chip: str) -> None:
    assert rawabi.fresh_on(chip, register_anything) == [207000] * 3


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
