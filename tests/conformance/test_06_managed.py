"""Managed memory (section 6): one address for host and devices, advice about its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    acl,
    address,
    ffi,
    gated,
    made,
    malloc,
    new_stream,
    offset,
    ok,
    query,
    read,
)

rule = pytest.mark.rule
GLOBAL, MIB2 = 1, 2 << 20
SET_READ_MOSTLY, UNSET_READ_MOSTLY, SET_PREFERRED, UNSET_PREFERRED, SET_ACCESSED = range(5)
UNSET_ACCESSED = 5
READ_MOSTLY, PREFERRED, ACCESSED_BY, PREFERRED_TYPE, PREFERRED_ID = range(1, 6)
LAST, LAST_TYPE, LAST_ID = range(6, 9)
NOWHERE, ON_DEVICE, ON_HOST, ON_NODE, ON_THIS_NODE = range(5)

pytestmark = pytest.mark.skipif(
    rawabi.emulated() and rawabi.chip() not in ("A2", "A3"), reason="a chip with managed memory"
)


def place(kind: int, number: int = 0) -> Any:
    return ffi.new("aclrtMemManagedLocation *", {"type": kind, "id": number})[0]


@pytest.fixture
def managed(device: int) -> Iterator[Any]:
    """8 MiB of managed memory."""
    pointer = made("aclrtMemAllocManaged", 4 * MIB2, GLOBAL)
    yield pointer
    rawabi.real.aclrtFree(pointer)


def advise(pointer: Any, size: int, advice: int, where: Any) -> None:
    ok(acl.aclrtMemManagedAdvise(pointer, size, advice, where))


def asked(attribute: int, pointer: Any, size: int, count: int = 1) -> Any:
    out = ffi.new("int32_t[]", [77] * count)
    ok(acl.aclrtMemManagedGetAttr(attribute, pointer, size, out, 4 * count))
    return out[0] if count == 1 else list(out)


def host_view(pointer: Any, size: int) -> Any:
    return ffi.buffer(ffi.cast("char *", pointer), size)


@rule("S6.190")
def test_allocate_arguments(device: int) -> None:
    assert acl.aclrtMemAllocManaged(NULL, 1, GLOBAL) == 100000
    for flag in (0, 2, 3):
        assert acl.aclrtMemAllocManaged(ffi.new("void **"), 1, flag) == 100000


@rule("S6.191")
def test_allocate_nothing(device: int) -> None:
    assert acl.aclrtMemAllocManaged(ffi.new("void **"), 0, GLOBAL) == 107000


@rule("S6.192")
def test_allocate_without_context() -> None:
    assert acl.aclrtMemAllocManaged(ffi.new("void **"), 1, GLOBAL) == 107002


@rule("S6.193")
@pytest.mark.parametrize("chip", ["950", "310B", "310P", "910"])
def test_chips_without_it(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        where = ffi.new("aclrtMemManagedLocation *", {"type": 2})[0]
        pointer = malloc(4 << 20)
        return [
            acl.aclrtMemAllocManaged(out, 1, 1),
            acl.aclrtMemManagedAdvise(pointer, 2 << 20, 0, where),
            acl.aclrtMemManagedGetAttr(1, pointer, 1, ffi.new("int32_t *"), 4),
            acl.aclrtMemManagedPrefetchAsync(pointer, 2 << 20, where, 0, new_stream()),
        ]

    assert rawabi.fresh_on(chip, body) == [207000] * 4


@rule("S6.194")
def test_host_and_device_see_the_same(device: int, stream: Any) -> None:
    pointer = made("aclrtMemAllocManaged", 100, GLOBAL)
    assert address(pointer) % MIB2 == 0
    view = host_view(pointer, MIB2)  # rounded up
    view[:] = bytes(MIB2)
    view[0:4] = b"host"
    assert read(pointer, 4) == b"host"
    ok(acl.aclrtMemsetAsync(pointer, MIB2, 7, 64, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert view[0:65] == bytes([7]) * 64 + b"\0"
    ok(acl.aclrtFree(pointer))
    assert acl.aclrtFree(pointer) == 107000


@rule("S6.195")
def test_what_the_pointer_is(managed: Any) -> None:
    out = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(offset(managed, MIB2), out))
    assert (out.location.type, out.pageSize) == (3, MIB2)
    assert acl.aclrtFreeHost(managed) == 107000


@rule("S6.196")
def test_asynchronous_copies(managed: Any, stream: Any, pinned: Any) -> None:
    host_to_device, device_to_host, inside, default = 1, 2, 3, 4
    block = malloc(64)
    ffi.buffer(pinned, 64)[:] = b"a" * 64
    ok(acl.aclrtMemcpyAsync(managed, 64, pinned, 64, host_to_device, stream))
    ok(acl.aclrtMemcpyAsync(block, 64, managed, 64, inside, stream))
    ok(acl.aclrtMemcpyAsync(offset(managed, 64), 64, block, 64, default, stream))
    ok(
        acl.aclrtMemcpyAsync(
            offset(pinned, 64), 64, offset(managed, 64), 64, device_to_host, stream
        )
    )
    ok(acl.aclrtSynchronizeStream(stream))
    assert bytes(host_view(managed, 128)) == b"a" * 128
    assert bytes(ffi.buffer(pinned, 128)) == b"a" * 128
    assert acl.aclrtMemcpyAsync(managed, 64, pinned, 64, 0, stream) == 207000  # as given


@rule("S6.197")
def test_arguments(managed: Any, stream: Any) -> None:
    host, out, one = place(ON_HOST), ffi.new("int32_t *"), ffi.new("size_t[1]", [0])
    assert acl.aclrtMemManagedAdvise(NULL, MIB2, 0, host) == 100000
    assert acl.aclrtMemManagedAdvise(managed, 0, 0, host) == 100000
    assert acl.aclrtMemManagedGetAttr(1, NULL, 1, out, 4) == 100000
    assert acl.aclrtMemManagedGetAttr(1, managed, 1, NULL, 4) == 100000
    assert acl.aclrtMemManagedGetAttr(1, managed, 0, out, 4) == 100000
    assert acl.aclrtMemManagedGetAttrs(NULL, 1, managed, 1, NULL, NULL) == 100000
    assert acl.aclrtMemManagedPrefetchAsync(NULL, MIB2, host, 0, stream) == 100000
    assert acl.aclrtMemManagedPrefetchAsync(managed, 0, host, 0, stream) == 100000
    assert acl.aclrtMemManagedPrefetchAsync(managed, MIB2, host, 1, stream) == 100000
    batch = ffi.new("const void *[1]", [managed]), ffi.new("size_t[1]", [MIB2])
    hosts = ffi.new("aclrtMemManagedLocation[1]", [host])
    call = acl.aclrtMemManagedPrefetchBatchAsync
    assert call(NULL, batch[1], 1, hosts, one, 1, 0, stream) == 100000
    assert call(*batch, 0, hosts, one, 1, 0, stream) == 100000
    assert call(*batch, 1, hosts, one, 0, 0, stream) == 100000
    assert call(*batch, 1, hosts, one, 2, 0, stream) == 100000
    assert call(*batch, 1, hosts, one, 1, 1, stream) == 100000


@rule("S6.198")
def test_members_and_devices(managed: Any) -> None:
    host, out = place(ON_HOST), ffi.new("int32_t *")
    for advice in (6, 99):
        assert acl.aclrtMemManagedAdvise(managed, MIB2, advice, host) == 107000
    for number in (-1, 64):
        where = place(ON_DEVICE, number)
        assert acl.aclrtMemManagedAdvise(managed, MIB2, SET_PREFERRED, where) == 107000
    for attribute in (0, 9):
        assert acl.aclrtMemManagedGetAttr(attribute, managed, 1, out, 4) == 107000
        many = ffi.new("aclrtMemManagedRangeAttribute[2]", [READ_MOSTLY, attribute])
        outs, sizes = ffi.new("void *[2]", [out, out]), ffi.new("size_t[2]", [4, 4])
        assert acl.aclrtMemManagedGetAttrs(many, 2, managed, 1, outs, sizes) == 107000


@rule("S6.199")
@pytest.mark.guess
def test_ranges(managed: Any, stream: Any) -> None:
    host, out = place(ON_HOST), ffi.new("int32_t *")
    for start, size in (
        (malloc(MIB2), MIB2),
        (managed, 5 * MIB2),
        (offset(managed, 4 * MIB2), MIB2),
    ):
        assert acl.aclrtMemManagedAdvise(start, size, SET_READ_MOSTLY, host) == 107000
        assert acl.aclrtMemManagedGetAttr(READ_MOSTLY, start, size, out, 4) == 107000
        assert acl.aclrtMemManagedPrefetchAsync(start, size, host, 0, stream) == 107000
    assert acl.aclrtMemManagedAdvise(managed, 4096, SET_READ_MOSTLY, host) == 107000
    assert acl.aclrtMemManagedPrefetchAsync(managed, 4096, host, 0, stream) == 107000
    assert acl.aclrtMemManagedAdvise(managed, MIB2, SET_PREFERRED, place(NOWHERE)) == 107000
    assert acl.aclrtMemManagedAdvise(managed, MIB2, SET_ACCESSED, place(ON_NODE, 64)) == 107000
    assert asked(PREFERRED, managed, MIB2) == -2


@rule("S6.200")
def test_advice_without_context(managed: Any) -> None:
    def body() -> tuple[int, int]:
        out = ffi.new("int32_t *", 77)
        code = acl.aclrtMemManagedGetAttr(READ_MOSTLY, managed, MIB2, out, 4)
        return acl.aclrtMemManagedAdvise(managed, MIB2, 0, place(ON_HOST)), code or out[0]

    assert rawabi.in_thread(body) == (107002, 0)


@rule("S6.201")
def test_advice_is_answered(managed: Any) -> None:
    everything, first, second = (managed, 4 * MIB2), (managed, MIB2), (offset(managed, MIB2), MIB2)
    assert [asked(kind, *everything) for kind in range(1, 9)] == [0, -2, -2, 0, -2, -2, 0, -2]
    advise(*first, SET_READ_MOSTLY, place(NOWHERE))
    assert [asked(READ_MOSTLY, *part) for part in (first, second, everything)] == [1, 0, 0]
    advise(*everything, SET_READ_MOSTLY, place(NOWHERE))
    advise(*second, UNSET_READ_MOSTLY, place(ON_HOST))
    assert [asked(READ_MOSTLY, *part) for part in (first, second, everything)] == [1, 0, 0]

    advise(*everything, SET_PREFERRED, place(ON_DEVICE, 0))
    assert asked(PREFERRED, *everything) == 0
    advise(*first, SET_PREFERRED, place(ON_HOST, 5))
    assert [asked(PREFERRED, *part) for part in (first, second, everything)] == [-1, 0, -2]
    assert [asked(PREFERRED_TYPE, *part) for part in (first, second, everything)] == [2, 1, 0]
    assert [asked(PREFERRED_ID, *part) for part in (second, everything)] == [0, -2]
    advise(*everything, UNSET_PREFERRED, place(NOWHERE))
    assert asked(PREFERRED, *first) == -2

    advise(*everything, SET_ACCESSED, place(ON_DEVICE, 0))
    advise(*first, SET_ACCESSED, place(ON_HOST))
    assert asked(ACCESSED_BY, *first, 4) == [0, -1, -2, -2]
    assert asked(ACCESSED_BY, *everything, 2) == [0, -2]
    advise(*first, UNSET_ACCESSED, place(ON_DEVICE, 0))
    assert asked(ACCESSED_BY, *first) == -1
    advise(*first, SET_PREFERRED, place(ON_THIS_NODE, 99))
    assert asked(PREFERRED_TYPE, *first) == ON_NODE
    assert 0 <= asked(PREFERRED, *first) < 64


@rule("S6.202")
@pytest.mark.guess
def test_size_of_answers(managed: Any) -> None:
    out = ffi.new("int32_t[4]")
    for attribute, sizes in ((READ_MOSTLY, (0, 3, 8)), (ACCESSED_BY, (0, 6)), (LAST, (8,))):
        for size in sizes:
            assert acl.aclrtMemManagedGetAttr(attribute, managed, 1, out, size) == 107000
    many = ffi.new("aclrtMemManagedRangeAttribute[2]", [READ_MOSTLY, ACCESSED_BY])
    outs, sizes = ffi.new("void *[2]", [out, out + 1]), ffi.new("size_t[2]", [4, 12])
    ok(acl.aclrtMemManagedGetAttrs(many, 2, managed, 1, outs, sizes))
    assert list(out) == [0, -2, -2, -2]
    sizes[1] = 6
    assert acl.aclrtMemManagedGetAttrs(many, 2, managed, 1, outs, sizes) == 107000


@rule("S6.203")
def test_prefetch(managed: Any, stream: Any) -> None:
    with gated(stream):
        ok(acl.aclrtMemManagedPrefetchAsync(managed, MIB2, place(ON_DEVICE, 0), 0, stream))
        assert query(stream) == 1
        assert asked(LAST, managed, MIB2) == 0  # of the request, not of the work
    ok(acl.aclrtSynchronizeStream(stream))
    starts = ffi.new("const void *[3]", [offset(managed, i * MIB2) for i in range(3)])
    sizes, begins = ffi.new("size_t[3]", [MIB2] * 3), ffi.new("size_t[2]", [0, 2])
    places = ffi.new("aclrtMemManagedLocation[2]", [place(ON_HOST), place(ON_DEVICE, 0)])
    ok(acl.aclrtMemManagedPrefetchBatchAsync(starts, sizes, 3, places, begins, 2, 0, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert [asked(LAST, start, MIB2) for start in starts] == [-1, -1, 0]
    assert [asked(LAST_TYPE, start, MIB2) for start in starts] == [2, 2, 1]
    assert asked(LAST_ID, starts[2], MIB2) == 0


def test_prefetch_of_freed_memory(device: int, stream: Any) -> None:
    pointer = made("aclrtMemAllocManaged", MIB2, GLOBAL)
    with gated(stream):
        ok(acl.aclrtMemManagedPrefetchAsync(pointer, MIB2, place(ON_DEVICE, 0), 0, stream))
        ok(acl.aclrtFree(pointer))
    assert acl.aclrtSynchronizeStream(stream) != 0
    assert "managed prefetch" in rawabi.recent()


@rule("S6.204")
def test_batch_lists(managed: Any, stream: Any) -> None:
    def code(begins: list[int], *, kind: int = ON_HOST, number: int = 0, null: bool = False) -> int:
        starts = ffi.new("const void *[2]", [NULL if null else managed, managed])
        places = ffi.new("aclrtMemManagedLocation[2]", [place(kind, number)] * 2)
        return int(acl.aclrtMemManagedPrefetchBatchAsync(
            starts, ffi.new("size_t[2]", [MIB2] * 2), 2, places,
            ffi.new("size_t[2]", begins), 2, 0, stream,
        ))  # fmt: skip

    assert code([0, 1]) == 0
    assert [code([1, 1]), code([0, 0]), code([0, 2])] == [107000] * 3
    assert [code([0, 1], kind=ON_DEVICE, number=64), code([0, 1], null=True)] == [107000] * 2
    ok(acl.aclrtSynchronizeStream(stream))


@rule("S6.205")
def test_prefetch_without_stream_and_context(managed: Any) -> None:
    def body() -> int:
        return int(acl.aclrtMemManagedPrefetchAsync(managed, MIB2, place(ON_HOST), 0, NULL))

    assert rawabi.in_thread(body) == 107000
    assert body() == 0
    ok(acl.aclrtSynchronizeStream(NULL))


def test_managed_memory_is_not_of_a_device(managed: Any, block: Any) -> None:
    """It may exceed the device, is not charged, and is unmapped by aclrtFree only."""
    free, total = ffi.new("size_t *"), ffi.new("size_t *")
    ok(acl.aclrtGetMemInfo(1, free, total))
    large = made("aclrtMemAllocManaged", 2 * int(total[0]), GLOBAL)
    before = int(free[0])
    ok(acl.aclrtGetMemInfo(1, free, total))
    assert free[0] == before
    assert acl.aclrtUnmapMem(large) == 107000
    assert acl.aclrtMemAllocManaged(ffi.new("void **"), 3 << 40, GLOBAL) == 207001
    assert "3 TiB" in rawabi.recent()
    ok(acl.aclrtFree(large))
