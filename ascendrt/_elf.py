"""What can be told of a library's file without loading it. The loader's own words for the same are
poor: "file too short" for a text, "cannot open shared object file" for another CPU's library, and a
library that was copied in part kills the process that loads it.
"""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path

# e_machine of the ELF header, by the names of `platform.machine()`.
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 258: "loongarch64"}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_LOADED, _SHARED = 1, 3


def defect(path: Path) -> str:
    """Return why a file cannot be a shared library for this process; nothing when it may be one."""
    if path.is_symlink() and not path.exists():
        return f"it is a link to {os.readlink(path)}, which is not there"
    if not path.is_file():
        return "it is no file"
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
            if reason := _of_header(head, size):
                return reason
            fields = _HEADER.unpack(head)
            file.seek(fields[5])
            table = file.read(fields[9] * fields[10])
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return _of_segments(table, fields[9], fields[10], size)


def _of_header(head: bytes, size: int) -> str:
    if not size:
        return "the file is empty"
    if not head.startswith(b"\x7fELF"):
        return "it is no shared library but some other file" + _beginning(head)
    if len(head) < _HEADER.size:
        return f"it was cut off after {size} bytes"
    if head[4:6] != b"\x02\x01":
        return "it is no 64-bit little-endian library"
    kind, machine = struct.unpack_from("<HH", head, 16)
    ours = platform.machine()
    if machine in _MACHINES and ours in _MACHINES.values() and _MACHINES[machine] != ours:
        return f"it was built for {_MACHINES[machine]}, this Python is for {ours}"
    return "" if kind == _SHARED else "it is an object file or a program, no shared library"


def _of_segments(table: bytes, entry_size: int, count: int, size: int) -> str:
    """Judge the parts that the loader maps: touching one behind the end of the file kills."""
    if entry_size != _PROGRAM_HEADER.size:
        return "" if not count else "its table of segments is of no known form"
    if len(table) < entry_size * count:
        return f"it was cut off after {size} bytes"
    ends = [
        offset + in_file
        for kind, _, offset, _, _, in_file, _, _ in _PROGRAM_HEADER.iter_unpack(table)
        if kind == _LOADED
    ]
    if max(ends, default=0) > size:
        return f"it was cut off after {size} of at least {max(ends)} bytes"
    return ""


def _beginning(head: bytes) -> str:
    text = head.split(b"\n")[0][:40]
    return f" (it begins {text.decode()!r})" if text.isascii() and text.strip(b"\0") else ""
