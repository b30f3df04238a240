"""Effects of `acl.rt` and `acl.media`: memory and copies."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import pytest
from aclchild import Child, ok
from acleffects import Recorder, shows
from devicebytes import DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, read, write

from ascendrt import _ctl

HUGE_FIRST = 0
INNER = 6  # within one device


@shows("rt.malloc", "rt.free", "rt.malloc_align32", "rt.malloc_cached", "rt.get_mem_info")
def test_device_memory(acl: Recorder, device: int) -> None:
    size = 8 << 20
    for allocate in (acl.rt.malloc, acl.rt.malloc_align32, acl.rt.malloc_cached):
        free, total = ok(acl.rt.get_mem_info(1))
        pointer = ok(allocate(size, HUGE_FIRST))
        assert pointer != 0
        write(acl, pointer, b"written")
        assert read(acl, pointer, 7) == b"written"
        assert ok(acl.rt.get_mem_info(1)) == (ok(acl.rt.get_mem_info(1))[0], total)
        assert ok(acl.rt.get_mem_info(1))[0] <= free - size
        assert acl.rt.free(pointer) == 0
        assert acl.rt.free(pointer) != 0
    assert acl.rt.malloc(1 << 60, HUGE_FIRST) == (0, 207001)


@shows("rt.malloc_with_cfg", "rt.malloc_host_with_cfg", "rt.pointer_get_attributes")
def test_memory_with_a_configuration(acl: Recorder, device: int) -> None:
    one = {"numAttrs": 1, "attrs": [{"attr": 1, "value": {"moduleId": 7}}]}
    for config in ({}, one):
        pointer = ok(acl.rt.malloc_with_cfg(4096, HUGE_FIRST, config))
        where = ok(acl.rt.pointer_get_attributes(pointer))
        assert where["location"] == {"id": 0, "type": 1} and where["page_size"] > 0
        assert acl.rt.free(pointer) == 0
        host = ok(acl.rt.malloc_host_with_cfg(4096, {}))
        assert ok(acl.rt.pointer_get_attributes(host))["location"]["type"] == 0
        assert acl.rt.free_host(host) == 0


@shows("rt.malloc_host", "rt.free_host")
def test_pinned_memory(acl: Recorder, device: int) -> None:
    pointer = ok(acl.rt.malloc_host(64))
    ctypes.memmove(pointer, b"host", 4)
    assert acl.util.ptr_to_bytes(pointer, 4) == b"host"
    assert [acl.rt.free_host(pointer), acl.rt.free_host(pointer) != 0] == [0, True]


@shows("media.dvpp_malloc", "media.dvpp_free")
def test_picture_memory(acl: Recorder, device: int) -> None:
    pointer = ok(acl.media.dvpp_malloc(4096))
    write(acl, pointer, b"picture")
    assert read(acl, pointer, 7) == b"picture"
    assert acl.media.dvpp_free(pointer) == 0
    assert acl.media.dvpp_free(pointer) != 0


@shows("rt.memcpy", "rt.memset")
def test_copies_and_fills(acl: Recorder, block: int) -> None:
    assert acl.rt.memset(block, 4096, 0x41, 3) == 0
    assert read(acl, block, 5) == b"AAA\0\0"
    data = b"bytes"
    assert acl.rt.memcpy(block, 2, acl.util.bytes_to_ptr(data), 5, HOST_TO_DEVICE) != 0
    assert read(acl, block, 5) == b"AAA\0\0"
    write(acl, block + 1, data)
    assert read(acl, block, 6) == b"Abytes"
    target = bytearray(5)
    place = ctypes.addressof(ctypes.c_char.from_buffer(target))
    assert acl.rt.memcpy(place, 5, acl.util.bytes_to_ptr(data), 5, HOST_TO_HOST) == 0
    assert bytes(target) == data


@shows("rt.memcpy_async", "rt.memset_async", "rt.synchronize_stream")
def test_copies_on_a_stream(acl: Recorder, block: int, stream: int) -> None:
    host = ok(acl.rt.malloc_host(16))
    assert acl.rt.memset_async(block, 4096, 0x42, 8, stream) == 0
    assert acl.rt.memcpy_async(host, 16, block, 16, DEVICE_TO_HOST, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(host, 16) == b"B" * 8 + bytes(8)
    acl.rt.free_host(host)


@shows("rt.get_memcpy_desc_size", "rt.set_memcpy_desc", "rt.memcpy_async_with_desc",
       "rt.memcpy_async_with_condition")  # fmt: skip
def test_copies_by_descriptor_and_condition(acl: Recorder, block: int, stream: int) -> None:
    host, target = ok(acl.rt.malloc_host(64)), ok(acl.rt.malloc(64, HUGE_FIRST))
    ctypes.memmove(host, b"a descriptor", 12)
    assert acl.rt.memcpy_async_with_condition(target, 64, host, 12, HOST_TO_DEVICE, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert read(acl, target, 12) == b"a descriptor"
    size = ok(acl.rt.get_memcpy_desc_size(INNER))
    assert size > 0
    desc = ok(acl.rt.malloc(size, HUGE_FIRST))
    assert acl.rt.set_memcpy_desc(desc, INNER, target, block, 12, 0) == (desc, 0)
    assert acl.rt.memcpy_async_with_desc(desc, INNER, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert read(acl, block, 12) == b"a descriptor"
    assert acl.rt.get_memcpy_desc_size(4711)[1] != 0


@shows("rt.memcpy2d", "rt.memcpy2d_async")
def test_copies_of_rectangles(acl: Recorder, block: int, stream: int) -> None:
    rows = bytes(range(32))
    source = ok(acl.rt.malloc_host(32))
    ctypes.memmove(source, rows, 32)
    assert acl.rt.memcpy2d(block, 16, source, 8, 4, 4, HOST_TO_DEVICE) == 0
    assert (
        read(acl, block, 36)
        == bytes(byte for row in range(4) for byte in (*rows[8 * row : 8 * row + 4], *bytes(12)))[
            :36
        ]
    )
    assert acl.rt.memcpy2d_async(source, 8, block, 16, 2, 4, DEVICE_TO_HOST, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.memcpy2d(block, 1, source, 8, 4, 4, HOST_TO_DEVICE) != 0
    acl.rt.free_host(source)


@shows("rt.mem_flush", "rt.mem_invalidate")
def test_caches_belong_to_memory(acl: Recorder, block: int) -> None:
    for call in (acl.rt.mem_flush, acl.rt.mem_invalidate):
        assert (call(block, 64), call(0, 64)) == (0, 100000)


@pytest.fixture
def page() -> Iterator[int]:
    """The address of a page of ordinary memory."""
    room = ctypes.create_string_buffer(2 * 4096)
    yield (ctypes.addressof(room) + 4095) // 4096 * 4096
    del room


@shows("rt.host_register", "rt.host_register_v2", "rt.host_get_device_pointer",
       "rt.host_unregister")  # fmt: skip
def test_registered_memory(acl: Recorder, device: int, page: int) -> None:
    mapped = 2
    assert ok(acl.rt.host_register(page, 4096, 0)) != 0
    assert acl.rt.host_register(page, 4096, 0)[1] == 507910
    assert [acl.rt.host_unregister(page), acl.rt.host_unregister(page)] == [0, 507911]
    assert acl.rt.host_get_device_pointer(page, 0)[1] != 0
    assert acl.rt.host_register_v2(page, 4096, mapped) == 0
    assert ok(acl.rt.host_get_device_pointer(page, 0)) != 0
    assert acl.rt.host_unregister(page) == 0
    assert acl.rt.host_register_v2(page, 4096, 0) != 0


@shows("rt.reserve_mem_address", "rt.release_mem_address", "rt.malloc_physical", "rt.free_physical",
       "rt.map_mem", "rt.unmap_mem", "rt.mem_get_allocation_granularity")  # fmt: skip
def test_virtual_memory(acl: Recorder, device: int) -> None:
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}}
    size = ok(acl.rt.mem_get_allocation_granularity(prop, 0))
    assert size > 0 and size & (size - 1) == 0
    assert acl.rt.mem_get_allocation_granularity({**prop, "memAttr": 99}, 0)[1] != 0
    address = ok(acl.rt.reserve_mem_address(size, 0, 0, 1))
    handle = ok(acl.rt.malloc_physical(size, prop, 0))
    assert acl.rt.map_mem(address, size, 0, handle, 0) == 0
    write(acl, address, b"mapped")
    assert read(acl, address, 6) == b"mapped"
    assert [acl.rt.unmap_mem(address), acl.rt.unmap_mem(address) != 0] == [0, True]
    assert acl.rt.free_physical(handle) == 0
    assert acl.rt.release_mem_address(address) == 0


# Two processes that share a machine: one makes memory and writes it, the other reads it.
_READER = """
import acl, sys
acl.init(); acl.rt.set_device(0)
print(acl.rt.device_get_bare_tgid()[0], flush=True)
key = input()
IMPORT
host = acl.rt.malloc_host(22)[0]
copied = acl.rt.memcpy(host, 22, pointer, 22, 2)
print(code, copied, acl.util.ptr_to_bytes(host, 22).decode(), CLOSE)
"""
_WRITER = """
import subprocess
acl.init(); acl.rt.set_device(0)
size = 4 << 20
MAKE
data = b"from the other process"
acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), 1)
EXPORT
other = subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
pid = int(other.stdout.readline())
allowed = ALLOW
text, _ = other.communicate(str(key) + chr(10), timeout=30)
answer = [code, allowed, text.strip()]
"""


def two_processes(child: Child, name: str, **parts: str) -> list[Any]:
    """Run writer and reader with their parts filled in."""
    reader, writer = _READER, _WRITER
    for word, text in parts.items():
        reader, writer = reader.replace(word, text), writer.replace(word, text)
    body = writer.replace("READER", repr(reader))
    machine = f"pyacl-{name}-{os.getpid()}"
    try:
        found: list[Any] = child(body, ASCENDRT_MACHINE=machine)
    finally:
        _ctl.ledger_file(machine).unlink(missing_ok=True)
    return found


@shows("rt.ipc_mem_get_export_key", "rt.ipc_mem_set_import_pid", "rt.ipc_mem_import_by_key",
       "rt.ipc_mem_close")  # fmt: skip
def test_memory_is_shared_by_key(child: Child) -> None:
    answer = two_processes(
        child, "key",
        MAKE="pointer = acl.rt.malloc(size, 0)[0]",
        EXPORT="key, code = acl.rt.ipc_mem_get_export_key(pointer, size, 65, 0)",
        ALLOW="acl.rt.ipc_mem_set_import_pid(key, [pid])",
        IMPORT="pointer, code = acl.rt.ipc_mem_import_by_key(key, 0)",
        CLOSE="acl.rt.ipc_mem_close(key)",
    )  # fmt: skip
    assert answer == [0, 0, "0 0 from the other process 0"]


@shows("rt.mem_export_to_shareable_handle", "rt.mem_set_pid_to_shareable_handle",
       "rt.mem_import_from_shareable_handle")  # fmt: skip
def test_physical_memory_is_shared_by_handle(child: Child) -> None:
    mapping = (
        "pointer = acl.rt.reserve_mem_address(4 << 20, 0, 0, 1)[0]; "
        "mapped = acl.rt.map_mem(pointer, 4 << 20, 0, handle, 0)"
    )
    prop = "{'memAttr': 4, 'location': {'id': 0, 'type': 1}}"
    answer = two_processes(
        child, "handle",
        MAKE=f"handle = acl.rt.malloc_physical(size, {prop}, 0)[0]; {mapping}",
        EXPORT="key, code = acl.rt.mem_export_to_shareable_handle(handle, 0, 0)",
        ALLOW="acl.rt.mem_set_pid_to_shareable_handle(key, [pid])",
        IMPORT=f"handle, code = acl.rt.mem_import_from_shareable_handle(int(key), 0); {mapping}",
        CLOSE="mapped",
    )  # fmt: skip
    assert answer == [0, 0, "0 0 from the other process 0"]
