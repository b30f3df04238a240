"""Tensors and buffers for the tests of single operators (section 11)."""

from __future__ import annotations

import struct
from typing import Any

from rawabi import NULL, acl, ffi, malloc, ok, read, write

FLOAT, HALF, INT64 = 0, 1, 9
NCHW, NHWC, ND, FRACTAL_Z, HWCN = 0, 1, 2, 4, 16


def desc(*dims: int, dtype: int = FLOAT, order: int = ND) -> Any:
    return acl.aclCreateTensorDesc(dtype, len(dims), ffi.new("int64_t[]", [*dims, 0]), order)


def dims_of(made: Any) -> tuple[int, ...]:
    size, found = ffi.new("int64_t *"), []
    for index in range(acl.aclGetTensorDescNumDims(made)):
        ok(acl.aclGetTensorDescDimV2(made, index, size))
        found.append(int(size[0]))
    return tuple(found)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def array(kind: str, *members: Any) -> Any:
    return ffi.new(f"{kind}[]", [*members, NULL])


def descs(*members: Any) -> Any:
    return array("aclTensorDesc *", *members)


def buffers(*members: Any) -> Any:
    return array("aclDataBuffer *", *members)


class Place:
    """Device memory with its buffer."""

    def __init__(self, data: bytes) -> None:
        self.size, self.pointer = len(data), malloc(max(len(data), 1))
        write(self.pointer, data)
        self.buffer = acl.aclCreateDataBuffer(self.pointer, len(data))

    def read(self) -> bytes:
        ok(acl.aclrtSynchronizeDevice())
        return read(self.pointer, self.size)
