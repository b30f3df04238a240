"""Bytes into and out of device memory by nothing but `acl`."""

from __future__ import annotations

from typing import Any

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = range(4)


def write(acl: Any, pointer: int, data: bytes) -> None:
    """Copy bytes to the device."""
    source = acl.util.bytes_to_ptr(data)
    assert acl.rt.memcpy(pointer, len(data), source, len(data), HOST_TO_DEVICE) == 0


def read(acl: Any, pointer: int, size: int) -> bytes:
    """Copy bytes from the device."""
    host, code = acl.rt.malloc_host(size)
    assert code == 0
    assert acl.rt.memcpy(host, size, pointer, size, DEVICE_TO_HOST) == 0
    data = acl.util.ptr_to_bytes(host, size)
    assert acl.rt.free_host(host) == 0
    assert isinstance(data, bytes)
    return data
