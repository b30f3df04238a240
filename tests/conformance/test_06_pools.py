"""Stream-ordered memory pools (section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, ffi, fresh_on, gated, made, malloc, new_stream, ok, read, write

rule = pytest.mark.rule
guess = pytest.mark.guess
MIB = 1 << 20
BLOCK = 2 * MIB
THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8


def properties(size: int = 64 * MIB, **fields: Any) -> Any:
    made = ffi.new("aclrtMemPoolProps *")
    made.location.type, made.maxSize = fields.pop("place", 1), size
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.fixture
def pool(device: int) -> Iterator[Any]:
    """A pool of 64 MiB."""
    handle = made("aclrtMemPoolCreate", properties())
    yield handle
    rawabi.real.aclrtMemPoolDestroy(handle)


def take(pool: Any, stream: Any, size: int = BLOCK) -> Any:
    out = ffi.new("void **")
    ok(acl.aclrtMemPoolMallocAsync(out, size, pool, stream))
    return out[0]


def give(pointer: Any, stream: Any) -> None:
    ok(acl.aclrtMemPoolFreeAsync(pointer, stream))


def figure(pool: Any, attr: int) -> int:
    out = ffi.new("uint64_t *", 77)
    ok(acl.aclrtMemPoolGetAttr(pool, attr, out))
    return int(out[0])


def set_figure(pool: Any, attr: int, value: int) -> int:
    return int(acl.aclrtMemPoolSetAttr(pool, attr, ffi.new("uint64_t *", value)))


def free_bytes() -> int:
    out = ffi.new("size_t[2]")
    ok(acl.aclrtGetMemInfo(1, out, out + 1))
    return int(out[0])


@rule("S6.171")
def test_pool_arguments(device: int) -> None:
    out = ffi.new("aclrtMemPool *")
    wrong = properties()
    wrong.reserved[31] = 1
    assert acl.aclrtMemPoolCreate(NULL, properties()) == 100000
    assert acl.aclrtMemPoolCreate(out, NULL) == 100000
    for each in (properties(allocType=1), properties(place=0), wrong):
        assert acl.aclrtMemPoolCreate(out, each) == 100000
    assert out[0] == NULL


@rule("S6.172")
def test_pool_larger_than_the_device(device: int) -> None:
    assert acl.aclrtMemPoolCreate(ffi.new("aclrtMemPool *"), properties(1 << 50)) == 107000


@pytest.mark.parametrize("chip", ["A3", "950", "310B", "310P", "910"])
@rule("S6.173")
def test_pool_on_a_chip_without(chip: str) -> None:
    def body() -> int:
        props = ffi.new("aclrtMemPoolProps *")
        props.location.type = 1
        ok(acl.aclrtSetDevice(0))
        return int(acl.aclrtMemPoolCreate(ffi.new("aclrtMemPool *"), props))

    assert fresh_on(chip, body) == 207000


@rule("S6.174")
def test_nulls(pool: Any, stream: Any) -> None:
    out, number = ffi.new("void **"), ffi.new("uint64_t *")
    assert acl.aclrtMemPoolDestroy(NULL) == 100000
    assert acl.aclrtMemPoolSetAttr(NULL, THRESHOLD, number) == 100000
    assert acl.aclrtMemPoolGetAttr(NULL, THRESHOLD, number) == 100000
    assert acl.aclrtMemPoolTrimTo(NULL, 0) == 100000
    assert acl.aclrtMemPoolMallocAsync(NULL, 8, pool, stream) == 100000
    assert acl.aclrtMemPoolMallocAsync(out, 8, NULL, stream) == 100000
    assert acl.aclrtMemPoolMallocAsync(out, 8, pool, NULL) == 100000
    assert acl.aclrtMemPoolFreeAsync(NULL, stream) == 100000


@guess
@rule("S6.175")
def test_destroyed_pool(device: int, stream: Any) -> None:
    pool = made("aclrtMemPoolCreate", properties())
    ok(acl.aclrtMemPoolDestroy(pool))
    assert acl.aclrtMemPoolDestroy(pool) == 107000
    assert set_figure(pool, THRESHOLD, 0) == 107000
    assert acl.aclrtMemPoolGetAttr(pool, THRESHOLD, ffi.new("uint64_t *")) == 107000
    assert acl.aclrtMemPoolMallocAsync(ffi.new("void **"), 8, pool, stream) == 107000
    assert acl.aclrtMemPoolTrimTo(pool, 0) == 107000


@rule("S6.176")
def test_attributes_that_cannot_be_set(pool: Any) -> None:
    assert acl.aclrtMemPoolSetAttr(pool, THRESHOLD, NULL) == 107000
    assert acl.aclrtMemPoolGetAttr(pool, THRESHOLD, NULL) == 107000
    assert set_figure(pool, RESERVED, 0) == 107000
    assert set_figure(pool, USED, 0) == 107000
    assert set_figure(pool, THRESHOLD, 65 * MIB) == 107000
    assert set_figure(pool, USED_HIGH, 1) == 107000


@rule("S6.177")
def test_attributes(pool: Any, stream: Any) -> None:
    for switch in (1, 2, 3):
        for value in (0, 1):
            ok(acl.aclrtMemPoolSetAttr(pool, switch, ffi.new("uint32_t *", value)))
            out = ffi.new("uint32_t[2]", [77, 77])
            ok(acl.aclrtMemPoolGetAttr(pool, switch, out))
            assert list(out) == [value, 77]
    assert figure(pool, THRESHOLD) == 0
    ok(set_figure(pool, THRESHOLD, MIB))
    assert figure(pool, THRESHOLD) == MIB
    give(take(pool, stream), stream)
    assert figure(pool, USED_HIGH) == figure(pool, RESERVED_HIGH) == BLOCK
    ok(set_figure(pool, USED_HIGH, 0))
    assert (figure(pool, USED_HIGH), figure(pool, USED)) == (0, 0)


@rule("S6.178")
def test_nothing_from_a_pool(pool: Any, stream: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMemPoolMallocAsync(out, 0, pool, stream) == 0
    assert out[0] == NULL and figure(pool, USED) == 0
    ok(acl.aclrtMemPoolMallocAsync(out, 1, pool, stream))
    assert figure(pool, USED) == BLOCK


@rule("S6.179")
def test_stream_of_another_context(pool: Any, other_stream: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMemPoolMallocAsync(out, 8, pool, other_stream) == 107003
    assert acl.aclrtMemPoolFreeAsync(malloc(64), other_stream) == 107003


@rule("S6.180")
def test_reuse_in_order(pool: Any, stream: Any) -> None:
    other = new_stream()
    first = take(pool, stream)
    ok(acl.aclrtMemsetAsync(first, BLOCK, 7, BLOCK, stream))
    with gated(stream):
        give(first, stream)
        assert (figure(pool, USED), figure(pool, RESERVED)) == (0, BLOCK)
        elsewhere = take(pool, other)  # the freeing had not its turn yet
        assert elsewhere != first
        again = take(pool, stream)  # its own stream may have it at once
        assert again == first and figure(pool, RESERVED) == 2 * BLOCK
        ok(acl.aclrtMemsetAsync(again, BLOCK, 9, BLOCK, stream))
        give(again, stream)
    ok(set_figure(pool, THRESHOLD, 64 * MIB))
    ok(acl.aclrtSynchronizeStream(stream))
    assert take(pool, other) == first
    assert read(first, 2) == b"\x09\x09"


@guess
@rule("S6.181")
def test_full_pool(pool: Any, stream: Any) -> None:
    out = ffi.new("void **")
    block = take(pool, stream, 48 * MIB)
    assert acl.aclrtMemPoolMallocAsync(out, 20 * MIB, pool, stream) == 207001
    assert out[0] == NULL
    write(block, b"fine")
    assert read(block, 4) == b"fine"


@rule("S6.182")
def test_trimming(pool: Any, stream: Any) -> None:
    before = free_bytes()
    ok(set_figure(pool, THRESHOLD, 8 * MIB))
    for block in [take(pool, stream, 4 * MIB) for _ in range(4)]:
        give(block, stream)
    ok(acl.aclrtSynchronizeStream(stream))
    assert figure(pool, RESERVED) == 8 * MIB
    ok(acl.aclrtMemPoolTrimTo(pool, 4 * MIB))
    assert figure(pool, RESERVED) == 4 * MIB
    ok(set_figure(pool, THRESHOLD, 0))
    ok(acl.aclrtSynchronizeStream(stream))
    assert figure(pool, RESERVED) == 0 and free_bytes() == before


@rule("S6.183")
def test_freeing_of_other_memory(device: int, stream: Any) -> None:
    pointer = malloc(64)
    write(pointer, b"still here")
    with gated(stream):
        give(pointer, stream)
        assert read(pointer, 10) == b"still here"
    ok(acl.aclrtSynchronizeStream(stream))
    assert rawabi.real.aclrtFree(pointer) == 107000
