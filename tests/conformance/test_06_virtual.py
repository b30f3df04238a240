"""Virtual memory management and memory shared between processes (section 6)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from peer import Peer, hear, say
from rawabi import (
    NULL,
    acl,
    ffi,
    foreign,
    in_thread,
    made,
    malloc,
    malloc_host,
    offset,
    ok,
    read,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
MIB = 1 << 20
GRANULE = 2 * MIB
KEY_BYTES = 65


def properties(device: int = 0, **fields: Any) -> Any:
    """Huge pages of a device, changed as told."""
    made = ffi.new("aclrtPhysicalMemProp *")
    made.memAttr = fields.pop("attribute", 13)  # ACL_MEM_HUGE
    made.location.type = fields.pop("place", 1)  # on a device
    made.location.id = device
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Space:
    """Reserved addresses, physical memory and mappings of one test, ended with it."""

    def __init__(self) -> None:
        self.ranges: list[Any] = []
        self.handles: list[Any] = []
        self.mapped: list[Any] = []

    def reserve(self, size: int, wish: Any = NULL) -> Any:
        self.ranges.append(made("aclrtReserveMemAddress", size, 0, wish, 0))
        return self.ranges[-1]

    def physical(self, size: int = GRANULE, prop: Any = None) -> Any:
        self.handles.append(made("aclrtMallocPhysical", size, prop or properties(), 0))
        return self.handles[-1]

    def map(self, at: Any, handle: Any, size: int = GRANULE) -> Any:
        ok(acl.aclrtMapMem(at, size, 0, handle, 0))
        self.mapped.append(at)
        return at

    def memory(self, size: int = GRANULE) -> tuple[Any, Any]:
        """Reserve, make and map; the address and the handle."""
        handle = self.physical(size)
        return self.map(self.reserve(size), handle, size), handle

    def end(self) -> None:
        for kind, function in (
            (self.mapped, "aclrtUnmapMem"),
            (self.handles, "aclrtFreePhysical"),
            (self.ranges, "aclrtReleaseMemAddress"),
        ):
            for each in kind:
                getattr(rawabi.real, function)(each)


@pytest.fixture
def space(device: int) -> Iterator[Space]:
    kept = Space()
    yield kept
    kept.end()


def free_bytes() -> int:
    out = ffi.new("size_t[2]")
    ok(acl.aclrtGetMemInfo(1, out, out + 1))
    return int(out[0])


@rule("S6.82")
def test_reserve_arguments(space: Space) -> None:
    out = ffi.new("void **")
    assert acl.aclrtReserveMemAddress(NULL, GRANULE, 0, NULL, 0) == 100000
    assert acl.aclrtReserveMemAddress(out, 0, 0, NULL, 0) == 100000
    assert acl.aclrtReserveMemAddress(out, GRANULE, 0, NULL, 2) == 100000
    assert out[0] == NULL


@rule("S6.83")
def test_physical_arguments(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    good = properties()
    assert acl.aclrtMallocPhysical(NULL, GRANULE, good, 0) == 100000
    assert acl.aclrtMallocPhysical(out, GRANULE, NULL, 0) == 100000
    assert acl.aclrtMallocPhysical(out, 0, good, 0) == 100000
    assert acl.aclrtMallocPhysical(out, GRANULE, good, 1) == 100000
    for wrong in (
        properties(handleType=2),
        properties(allocationType=1),
        properties(place=2),
        properties(place=3),
        properties(attribute=2),  # a DDR kind on a device
        properties(attribute=7),
        properties(attribute=1),  # no kind of physical memory
        properties(attribute=99),
    ):
        assert acl.aclrtMallocPhysical(out, GRANULE, wrong, 0) == 100000
    assert out[0] == NULL


@rule("S6.84")
def test_physical_on_no_device(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    assert acl.aclrtMallocPhysical(out, GRANULE, properties(99), 0) == 107001
    assert out[0] == NULL


@rule("S6.85")
def test_map_arguments(space: Space) -> None:
    at, handle = space.reserve(GRANULE), space.physical()
    assert acl.aclrtMapMem(NULL, GRANULE, 0, handle, 0) == 100000
    assert acl.aclrtMapMem(at, GRANULE, 0, NULL, 0) == 100000
    assert acl.aclrtMapMem(at, 0, 0, handle, 0) == 100000
    assert acl.aclrtMapMem(at, GRANULE, 0, handle, 1) == 100000


@rule("S6.86")
def test_end_of_null(space: Space) -> None:
    assert acl.aclrtUnmapMem(NULL) == 100000
    assert acl.aclrtReleaseMemAddress(NULL) == 100000
    assert acl.aclrtFreePhysical(NULL) == 100000


@rule("S6.97")
def test_mappings_in_a_row(space: Space) -> None:
    at = space.reserve(3 * GRANULE)
    for index in range(3):
        space.map(offset(at, index * GRANULE), space.physical())
    data = bytes(range(256)) * 16384  # 4 MiB over three mappings
    place = offset(at, GRANULE // 2)
    write(place, data)
    assert read(place, len(data)) == data
    ok(acl.aclrtMemset(at, 3 * GRANULE, 7, 3 * GRANULE))
    assert read(offset(at, 2 * GRANULE - 8), 16) == b"\x07" * 16
    attributes = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(place, attributes))
    assert (attributes.location.type, attributes.location.id) == (1, 0)


@guess
@rule("S6.98")
def test_map_where_it_does_not_fit(space: Space) -> None:
    at, handle = space.reserve(2 * GRANULE), space.physical()
    big = space.physical(2 * GRANULE)
    assert acl.aclrtMapMem(at, GRANULE // 2, 0, handle, 0) == 107000
    assert acl.aclrtMapMem(at, GRANULE, GRANULE, handle, 0) == 107000
    assert acl.aclrtMapMem(malloc(64), GRANULE, 0, handle, 0) == 107000
    assert acl.aclrtMapMem(offset(at, 4096), GRANULE, 0, handle, 0) == 107000
    assert acl.aclrtMapMem(offset(at, GRANULE), 2 * GRANULE, 0, big, 0) == 107000
    space.map(at, handle)
    assert acl.aclrtMapMem(at, GRANULE, 0, space.physical(), 0) == 107000
    assert acl.aclrtMapMem(offset(at, 2 * GRANULE), GRANULE, 0, handle, 0) == 107000


@guess
@rule("S6.99")
def test_map_of_two_places(space: Space) -> None:
    at = space.reserve(2 * GRANULE)
    space.map(at, space.physical())
    host = space.physical(GRANULE, properties(place=0))
    assert acl.aclrtMapMem(offset(at, GRANULE), GRANULE, 0, host, 0) == 107000
    apart = space.map(space.reserve(GRANULE), host)
    rawabi.ffi.buffer(apart, 4)[:] = b"host"  # the host may touch its own memory
    assert read(apart, 4) == b"host"


@guess
@rule("S6.100")
def test_release_of_what_is_in_use(space: Space) -> None:
    at, _ = space.memory(GRANULE)
    assert acl.aclrtReleaseMemAddress(at) == 107000
    assert acl.aclrtReleaseMemAddress(offset(at, 64)) == 107000
    assert acl.aclrtReleaseMemAddress(foreign()) == 107000
    ok(acl.aclrtUnmapMem(at))
    ok(acl.aclrtReleaseMemAddress(at))
    assert acl.aclrtReleaseMemAddress(at) == 107000


@guess
@rule("S6.101")
def test_unmap_and_free_twice(space: Space) -> None:
    at, handle = space.memory()
    assert acl.aclrtUnmapMem(offset(at, 4096)) == 107000
    ok(acl.aclrtUnmapMem(at))
    assert acl.aclrtUnmapMem(at) == 107000
    ok(acl.aclrtFreePhysical(handle))
    assert acl.aclrtFreePhysical(handle) == 107000
    assert acl.aclrtFreePhysical(foreign()) == 107000
    assert acl.aclrtMapMem(at, GRANULE, 0, handle, 0) == 107000
    out = ffi.new("char[8]")
    assert acl.aclrtMemcpy(out, 8, at, 8, 2) == 107000  # nothing is mapped any more


@rule("S6.102")
def test_free_while_mapped(space: Space) -> None:
    before = free_bytes()
    at, handle = space.memory()
    write(at, b"kept")
    ok(acl.aclrtFreePhysical(handle))
    assert read(at, 4) == b"kept"
    assert free_bytes() == before - GRANULE
    ok(acl.aclrtUnmapMem(at))
    assert free_bytes() == before


@guess
@rule("S6.103")
def test_physical_memory_counts(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    before = free_bytes()
    assert acl.aclrtMallocPhysical(out, before + GRANULE, properties(), 0) == 207001
    assert out[0] == NULL and free_bytes() == before
    handle = space.physical(16 * MIB)
    assert free_bytes() == before - 16 * MIB
    ok(acl.aclrtFreePhysical(handle))
    assert free_bytes() == before


def retained(at: Any) -> Any:
    out = ffi.new("aclrtDrvMemHandle *")
    ok(acl.aclrtMemRetainAllocationHandle(at, out))
    return out[0]


@rule("S6.104")
def test_retained_handles(space: Space) -> None:
    at, handle = space.memory()
    assert retained(at) == handle
    ok(acl.aclrtFreePhysical(handle))
    ok(acl.aclrtFreePhysical(handle))
    assert acl.aclrtFreePhysical(handle) == 107000
    again = retained(at)  # the mapping still holds the memory
    ok(acl.aclrtFreePhysical(again))


@rule("S6.105")
def test_retain_of_null(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    assert acl.aclrtMemRetainAllocationHandle(NULL, out) == 100000
    assert acl.aclrtMemRetainAllocationHandle(space.memory()[0], NULL) == 100000


def access_to(flags: int, place: int = 1) -> Any:
    made = ffi.new("aclrtMemAccessDesc *")
    made.flags, made.location.type, made.location.id = flags, place, 0
    return made


def access_of(at: Any, place: int = 1) -> int:
    location = ffi.new("aclrtMemLocation *", {"type": place, "id": 0})
    out = ffi.new("uint64_t *", 77)
    ok(acl.aclrtMemGetAccess(at, location, out))
    return int(out[0])


@rule("S6.106")
def test_mapping_without_access(space: Space) -> None:
    at, handle = space.reserve(GRANULE), space.physical()
    ok(acl.aclrtMemMapNoAccess(at, GRANULE, 0, handle, 0))
    space.mapped.append(at)
    data = ffi.new("char[8]", b"1234567")
    assert acl.aclrtMemcpy(at, 8, data, 8, 1) == 107000
    ok(acl.aclrtMemSetAccess(at, GRANULE, access_to(3), 1))
    write(at, b"1234567")
    assert read(at, 7) == b"1234567"
    ok(acl.aclrtMemSetAccess(at, GRANULE, access_to(0), 1))
    assert acl.aclrtMemcpy(data, 8, at, 8, 2) == 107000


@rule("S6.107")
def test_access_for_null(space: Space) -> None:
    at, _ = space.memory()
    assert acl.aclrtMemSetAccess(NULL, GRANULE, access_to(3), 1) == 107000
    assert acl.aclrtMemSetAccess(at, GRANULE, NULL, 1) == 107000


@rule("S6.108")
def test_access_of_null(space: Space) -> None:
    at, _ = space.memory()
    location, out = ffi.new("aclrtMemLocation *", {"type": 1}), ffi.new("uint64_t *")
    assert acl.aclrtMemGetAccess(NULL, location, out) == 100000
    assert acl.aclrtMemGetAccess(at, NULL, out) == 100000
    assert acl.aclrtMemGetAccess(at, location, NULL) == 100000


@rule("S6.109")
def test_access_flags(space: Space) -> None:
    at, _ = space.memory()
    assert (access_of(at), access_of(at, 0)) == (3, 0)
    ok(acl.aclrtMemSetAccess(at, GRANULE, access_to(1, 0), 1))
    assert (access_of(at), access_of(at, 0)) == (3, 1)


def granularity(prop: Any, option: int = 0) -> int:
    out = ffi.new("size_t *")
    ok(acl.aclrtMemGetAllocationGranularity(prop, option, out))
    return int(out[0])


@rule("S6.110")
def test_granularity_arguments(space: Space) -> None:
    out = ffi.new("size_t *")
    assert acl.aclrtMemGetAllocationGranularity(NULL, 0, out) == 100000
    assert acl.aclrtMemGetAllocationGranularity(properties(), 0, NULL) == 100000
    for attribute in (2, 3, 6, 7, 0, 1, 99):
        wrong = properties(attribute=attribute)
        assert acl.aclrtMemGetAllocationGranularity(wrong, 0, out) == 100000


@rule("S6.111")
def test_granularity_of_no_device(space: Space) -> None:
    out = ffi.new("size_t *")
    assert acl.aclrtMemGetAllocationGranularity(properties(99), 0, out) == 107001


@rule("S6.112")
def test_granularity(space: Space) -> None:
    assert [granularity(properties(), option) for option in (0, 1)] == [GRANULE, GRANULE]
    assert granularity(properties(attribute=14)) == 1 << 30


@rule("S6.113")
def test_properties_of_null(space: Space) -> None:
    out = ffi.new("aclrtPhysicalMemProp *")
    assert acl.aclrtMemGetAllocationPropertiesFromHandle(NULL, out) == 100000
    assert acl.aclrtMemGetAllocationPropertiesFromHandle(space.physical(), NULL) == 100000


@rule("S6.114")
def test_properties(space: Space) -> None:
    out = ffi.new("aclrtPhysicalMemProp *")
    out.location.id = 77
    handle = space.physical(GRANULE, properties(attribute=4))
    ok(acl.aclrtMemGetAllocationPropertiesFromHandle(handle, out))
    assert (out.memAttr, out.location.type, out.location.id) == (4, 1, 0)


@rule("S6.115")
def test_range_of_null(space: Space) -> None:
    assert acl.aclrtMemGetAddressRange(NULL, ffi.new("void **"), ffi.new("size_t *")) == 100000


@rule("S6.116")
def test_range_without_result(space: Space) -> None:
    assert acl.aclrtMemGetAddressRange(malloc(64), NULL, NULL) == 107000


@rule("S6.117")
def test_ranges(space: Space) -> None:
    start, size = ffi.new("void **"), ffi.new("size_t *")
    for block, least in (
        (malloc(100), 100),
        (malloc_host(1000), 1000),
        (space.memory(2 * GRANULE)[0], 2 * GRANULE),
    ):
        ok(acl.aclrtMemGetAddressRange(offset(block, 33), start, size))
        assert start[0] == block and least <= size[0] <= least + 64
        ok(acl.aclrtMemGetAddressRange(block, start, NULL))


@rule("S6.118")
def test_export_arguments(space: Space) -> None:
    handle, out = space.physical(), ffi.new("uint64_t *")
    assert acl.aclrtMemExportToShareableHandle(NULL, 0, 0, out) == 100000
    assert acl.aclrtMemExportToShareableHandle(handle, 2, 0, out) == 100000
    assert acl.aclrtMemExportToShareableHandle(handle, 0, 0, NULL) == 100000
    assert acl.aclrtMemExportToShareableHandleV2(NULL, 0, 1, out) == 100000
    assert acl.aclrtMemExportToShareableHandleV2(handle, 0, 1, NULL) == 100000


@rule("S6.119")
def test_export_flags(space: Space) -> None:
    handle, out = space.physical(), ffi.new("uint64_t *")
    assert acl.aclrtMemExportToShareableHandle(handle, 0, 2, out) == 107000
    assert acl.aclrtMemExportToShareableHandleV2(handle, 2, 1, out) == 107000
    for kind in (0, 3):
        assert acl.aclrtMemExportToShareableHandleV2(handle, 0, kind, out) == 107000


def exported(handle: Any, flags: int = 0) -> int:
    out = ffi.new("uint64_t *")
    ok(acl.aclrtMemExportToShareableHandle(handle, 0, flags, out))
    return int(out[0])


@rule("S6.120")
def test_export_twice(space: Space) -> None:
    handle, out = space.physical(), ffi.new("uint64_t *")
    exported(handle)
    assert acl.aclrtMemExportToShareableHandle(handle, 0, 0, out) == 107000


@rule("S6.121")
def test_import_arguments(space: Space) -> None:
    token, out = ffi.new("uint64_t *"), ffi.new("aclrtDrvMemHandle *")
    assert acl.aclrtMemImportFromShareableHandle(1, 0, NULL) == 100000
    assert acl.aclrtMemImportFromShareableHandleV2(NULL, 1, 0, out) == 100000
    assert acl.aclrtMemImportFromShareableHandleV2(token, 1, 0, NULL) == 100000
    assert acl.aclrtMemImportFromShareableHandleV2(token, 1, 1, out) == 100000


@rule("S6.122")
def test_import_to_no_device(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    assert acl.aclrtMemImportFromShareableHandle(exported(space.physical()), 99, out) == 107001


@rule("S6.123")
def test_import_without_device(device: int) -> None:
    token, out = ffi.new("uint64_t *"), ffi.new("aclrtDrvMemHandle *")
    assert in_thread(
        lambda: acl.aclrtMemImportFromShareableHandleV2(token, 1, 0, out)
    ) == 107002  # fmt: skip


def use_handle(second: bool = False, fabric: bool = False) -> None:
    """In a peer: import what is told, until it works; change the bytes."""
    ok(acl.aclrtSetDevice(0))
    say("ready")
    handle = ffi.new("aclrtDrvMemHandle *")
    while (token := hear()) is not None:
        if second:
            holder = ffi.new("char[128]", token.to_bytes(8, "little"))
            code = acl.aclrtMemImportFromShareableHandleV2(holder, 2 if fabric else 1, 0, handle)
        else:
            code = acl.aclrtMemImportFromShareableHandle(token, 0, handle)
        say(code)
        if code != 0:
            continue
        at = made("aclrtReserveMemAddress", 2 << 20, 0, NULL, 0)
        ok(acl.aclrtMapMem(at, 2 << 20, 0, handle[0], 0))
        hear()
        seen = read(at, 5)
        write(at, seen.upper())
        say(seen.decode())


def check_both_see(peer: Peer, at: Any, token: int) -> None:
    """The peer imports the token, sees what was written, and this process what it wrote."""
    peer.say(token)
    assert peer.hear() == 0
    peer.say("go on")
    assert peer.hear() == "bytes"
    assert read(at, 5) == b"BYTES"


@rule("S6.124")
def test_listed_process_imports(space: Space) -> None:
    at, handle = space.memory()
    write(at, b"bytes")
    token = exported(handle)
    with Peer(use_handle) as peer:
        assert peer.hear() == "ready"
        ok(acl.aclrtMemSetPidToShareableHandle(token, ffi.new("int32_t[1]", [peer.pid]), 1))
        peer.say(token)
        assert peer.hear() == 0
        ok(acl.aclrtFreePhysical(handle))
        peer.say("go on")
        assert peer.hear() == "bytes"
        assert read(at, 5) == b"BYTES"


@rule("S6.125")
@pytest.mark.parametrize("fabric", [False, True])
def test_second_forms(space: Space, fabric: bool) -> None:
    kind = 2 if fabric else 1
    at, handle = space.memory()
    write(at, b"bytes")
    holder = ffi.new("aclrtMemFabricHandle *")
    ok(acl.aclrtMemExportToShareableHandleV2(handle, 0, kind, holder))
    with Peer(use_handle, second=True, fabric=fabric) as peer:
        assert peer.hear() == "ready"
        pids = ffi.new("int32_t[1]", [peer.pid])
        ok(acl.aclrtMemSetPidToShareableHandleV2(holder, kind, pids, 1))
        check_both_see(peer, at, int.from_bytes(bytes(holder.data[0:8]), "little"))


@guess
@rule("S6.126")
def test_import_that_is_not_allowed(space: Space) -> None:
    token = exported(space.memory()[1])
    with Peer(use_handle) as peer:
        assert peer.hear() == "ready"
        for wrong in (token, 1, token ^ 1, token ^ (1 << 26), 2**64 - 1, os.getpid() << 42):
            peer.say(wrong)
            assert peer.hear() == 107000


@rule("S6.127")
def test_import_without_list(space: Space) -> None:
    at, handle = space.memory()
    write(at, b"bytes")
    with Peer(use_handle) as peer:
        assert peer.hear() == "ready"
        check_both_see(peer, at, exported(handle, 1))


@guess
@rule("S6.128")
def test_import_at_home(space: Space) -> None:
    out = ffi.new("aclrtDrvMemHandle *")
    token = exported(space.physical(), 1)
    assert acl.aclrtMemImportFromShareableHandle(token, 0, out) == 107000


@rule("S6.129")
def test_pids_of_null(space: Space) -> None:
    token, pids = exported(space.physical()), ffi.new("int32_t[1]", [1])
    holder = ffi.new("uint64_t *", token)
    assert acl.aclrtMemSetPidToShareableHandle(token, NULL, 1) == 100000
    assert acl.aclrtMemSetPidToShareableHandle(token, pids, 0) == 100000
    assert acl.aclrtMemSetPidToShareableHandleV2(NULL, 1, pids, 1) == 100000
    assert acl.aclrtMemSetPidToShareableHandleV2(holder, 1, NULL, 1) == 100000
    assert acl.aclrtMemSetPidToShareableHandleV2(holder, 1, pids, 0) == 100000


# --- keys --------------------------------------------------------------------------------------


@rule("S6.130")
def test_key_of_null(block: Any) -> None:
    assert acl.aclrtIpcMemGetExportKey(NULL, 64, ffi.new("char[65]"), KEY_BYTES, 0) == 100000
    assert acl.aclrtIpcMemGetExportKey(block, 64, NULL, KEY_BYTES, 0) == 100000


@rule("S6.131")
def test_key_arguments(block: Any) -> None:
    key = ffi.new("char[65]")
    assert acl.aclrtIpcMemGetExportKey(block, 0, key, KEY_BYTES, 0) == 107000
    assert acl.aclrtIpcMemGetExportKey(block, 64, key, 0, 0) == 107000
    assert acl.aclrtIpcMemGetExportKey(block, 64, key, KEY_BYTES, 2) == 107000


@guess
@rule("S6.132")
def test_key_of_no_allocation(block: Any) -> None:
    key = ffi.new("char[65]")
    assert acl.aclrtIpcMemGetExportKey(block, 1 << 20, key, KEY_BYTES, 0) == 107000
    assert acl.aclrtIpcMemGetExportKey(foreign(), 64, key, KEY_BYTES, 0) == 107000
    assert acl.aclrtIpcMemGetExportKey(block, 64, key, 8, 0) == 107000


@pytest.fixture
def keys(device: int) -> Iterator[list[Any]]:
    """Keys that the test exported; closed with it."""
    made: list[Any] = []
    yield made
    for key in made:
        rawabi.real.aclrtIpcMemClose(key)


def key_of(keys: list[Any], pointer: Any, size: int, flags: int = 0) -> str:
    key = ffi.new("char[65]")
    ok(acl.aclrtIpcMemGetExportKey(pointer, size, key, KEY_BYTES, flags))
    keys.append(key)
    return str(ffi.string(key).decode())


def use_key() -> None:
    """In a peer: import each key that is told, change the bytes, close it."""
    ok(acl.aclrtSetDevice(0))
    say("ready")
    out = ffi.new("void **")
    while (key := hear()) is not None:
        code = acl.aclrtIpcMemImportByKey(out, key.encode(), 0)
        say(code)
        if code != 0:
            continue
        seen = read(out[0], 5)
        write(out[0], seen.upper())
        beyond = acl.aclrtMemset(out[0], 1 << 20, 0, 1 << 20)
        ok(acl.aclrtIpcMemClose(key.encode()))
        say([seen.decode(), beyond, acl.aclrtMemset(out[0], 1, 0, 1)])


@rule("S6.133")
@pytest.mark.parametrize("size", [100, 4096, 3 << 20])
def test_listed_process_attaches(keys: list[Any], size: int) -> None:
    pointer = malloc(size)
    write(pointer, b"bytes")
    key = key_of(keys, pointer, size)
    with Peer(use_key) as peer:
        assert peer.hear() == "ready"
        ok(acl.aclrtIpcMemSetImportPid(keys[0], ffi.new("int32_t[2]", [1, peer.pid]), 2))
        peer.say(key)
        assert peer.hear() == 0
        # It reaches the shared bytes only: not past their end, and not after it closed the key.
        seen, beyond, after = peer.hear()
        assert (seen, after) == ("bytes", 107000)
        assert beyond == (107000 if size < 1 << 20 else 0)
    if size < 1 << 20:
        assert read(pointer, 5) == b"BYTES"


@rule("S6.134")
def test_key_without_list(keys: list[Any], block: Any) -> None:
    write(block, b"bytes")
    key = key_of(keys, offset(block, 0), 4096, 1)
    with Peer(use_key) as peer:
        assert peer.hear() == "ready"
        peer.say(key)
        assert peer.hear() == 0
        assert peer.hear()[0] == "bytes"
    assert read(block, 5) == b"BYTES"


@rule("S6.135")
def test_import_of_null_key(device: int) -> None:
    assert acl.aclrtIpcMemImportByKey(NULL, b"key", 0) == 100000
    assert acl.aclrtIpcMemImportByKey(ffi.new("void **"), NULL, 0) == 100000


@rule("S6.136")
def test_import_flags(keys: list[Any], block: Any) -> None:
    key = key_of(keys, block, 64, 1)
    assert acl.aclrtIpcMemImportByKey(ffi.new("void **"), key.encode(), 2) == 107000


def share_and_say() -> None:
    """In a peer: export a block for everybody and tell the key."""
    ok(acl.aclrtSetDevice(0))
    key = ffi.new("char[65]")
    ok(acl.aclrtIpcMemGetExportKey(malloc(4096), 4096, key, 65, 1))
    say(ffi.string(key).decode())


@guess
@rule("S6.137")
def test_key_that_is_not_allowed(keys: list[Any], block: Any) -> None:
    key = key_of(keys, block, 64)
    with Peer(use_key) as peer:
        assert peer.hear() == "ready"
        for wrong in (key, "", "key", key[:-1], key + "0", key[:-1] + "x", "x" * 300):
            peer.say(wrong)
            assert peer.hear() == 107000
    with Peer(share_and_say) as peer:
        theirs = peer.hear().encode()
    out = ffi.new("void **")
    assert acl.aclrtIpcMemImportByKey(out, theirs, 0) == 107000  # its process was killed
    assert out[0] == NULL


def share_and_damage() -> None:
    """In a peer: export, then flip the bytes of the own records as told."""
    ok(acl.aclrtSetDevice(0))
    key = ffi.new("char[65]")
    ok(acl.aclrtIpcMemGetExportKey(malloc(4096), 4096, key, 65, 1))
    files = [int(name) for name in os.listdir("/proc/self/fd")]
    links = {file: os.readlink(f"/proc/self/fd/{file}") for file in files[:-1]}
    record = next(file for file, link in links.items() if "ascendrt-share" in link)
    say([ffi.string(key).decode(), os.fstat(record).st_size])
    while (place := hear()) is not None:
        kept = os.pread(record, 1, place[0])
        os.pwrite(record, bytes([place[1]]), place[0])
        say("damaged")
        hear()
        os.pwrite(record, kept, place[0])


@guess
@rule("S6.137")
@pytest.mark.emulator
def test_damaged_record(device: int) -> None:
    """A hostile process changes what it shares: an answer, never a crash."""
    out = ffi.new("void **")
    with Peer(share_and_damage) as peer:
        key, size = peer.hear()
        codes = set()
        for place in (*range(160), size - 1):
            for value in (0x00, 0x7F, 0xFF):
                peer.say([place, value])
                assert peer.hear() == "damaged"
                codes.add(acl.aclrtIpcMemImportByKey(out, key.encode(), 0))
                if rawabi.real.aclrtIpcMemClose(key.encode()) == 0:
                    codes.add(0)
                peer.say("next")
        assert codes == {0, 107000}


@rule("S6.138")
def test_import_pids_of_null(device: int) -> None:
    assert acl.aclrtIpcMemSetImportPid(NULL, ffi.new("int32_t[1]"), 1) == 100000
    assert acl.aclrtIpcMemSetImportPid(b"key", NULL, 1) == 100000


@rule("S6.139")
def test_no_import_pids(keys: list[Any], block: Any) -> None:
    key_of(keys, block, 64)
    assert acl.aclrtIpcMemSetImportPid(keys[0], ffi.new("int32_t[1]"), 0) == 107000


@rule("S6.140")
def test_close_of_null_key(device: int) -> None:
    assert acl.aclrtIpcMemClose(NULL) == 100000


@rule("S6.141")
def test_close_of_shared_memory(keys: list[Any], block: Any) -> None:
    key = key_of(keys, block, 64, 1)
    ok(acl.aclrtIpcMemClose(key.encode()))
    with Peer(use_key) as peer:
        assert peer.hear() == "ready"
        peer.say(key)
        assert peer.hear() == 107000
    write(block, b"still mine")
    assert read(block, 10) == b"still mine"


@guess
@rule("S6.142")
def test_close_twice(keys: list[Any], block: Any) -> None:
    key = key_of(keys, block, 64)
    ok(acl.aclrtIpcMemClose(key.encode()))
    assert acl.aclrtIpcMemClose(key.encode()) == 107000


@rule("S6.143")
def test_link_arguments(device: int) -> None:
    assert acl.aclrtIpcMemSetAttr(NULL, 0, 0) == 107000
    assert acl.aclrtIpcMemSetAttr(b"key", 1, 0) == 107000
    assert acl.aclrtIpcMemSetAttr(b"key", 0, 4) == 107000


@rule("S6.144")
def test_link_of_a_chip_with_one() -> None:
    def answers() -> int:
        ok(acl.aclrtSetDevice(0))
        return int(acl.aclrtIpcMemSetAttr(b"key", 0, 0))

    assert rawabi.fresh_on("A2", answers) == 207000


@rule("S6.145")
def test_process_id_of_null() -> None:
    assert acl.aclrtDeviceGetBareTgid(NULL) == 100000


@rule("S6.146")
def test_process_id() -> None:
    out = ffi.new("int32_t *")
    ok(acl.aclrtDeviceGetBareTgid(out))
    assert out[0] == os.getpid()
