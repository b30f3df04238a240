"""What copies and fills of all kinds share. Must never import numpy."""

from __future__ import annotations

from ascendrt._gen.enums import aclrtMemcpyKind

TO_DEVICE = int(aclrtMemcpyKind.ACL_MEMCPY_HOST_TO_DEVICE)
TO_HOST = int(aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_HOST)
ON_DEVICE = int(aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_DEVICE)


def check_byte(byte: int) -> None:
    """Raise ValueError for what is no byte."""
    if not 0 <= byte <= 255:
        raise ValueError(f"byte is {byte}; it must be 0 to 255")


def room_for(size_bytes: int, offset_bytes: int, all_bytes: int) -> int:
    """Return the bytes from an offset to the end. Raises: ValueError when they lack."""
    room = all_bytes - offset_bytes
    if offset_bytes < 0 or size_bytes > room:
        raise ValueError(
            f"{size_bytes} bytes at offset {offset_bytes} do not fit in {all_bytes} bytes"
        )
    return room
