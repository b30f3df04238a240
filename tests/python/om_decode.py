"""A second reader of OM files: container, graph and weights, decoded in a few lines of Python.

Shares nothing with the emulator, so that a test can compare the two.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = 256
# By the numbers of TensorDescriptor.dtype in the file.
DTYPES = {1: np.float32, 2: np.float16, 3: np.int8, 4: np.uint8, 7: np.int32, 8: np.int64}
Value = int | bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield (field number, value) of one protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = varint(data, at)
            yield key >> 3, number
            continue
        size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        yield key >> 3, data[at : at + size]
        at += size


def many(data: bytes, number: int) -> list[Any]:
    return [value for key, value in fields(data) if key == number]


def one(data: bytes, number: int, fallback: Any = None) -> Any:
    return (many(data, number) or [fallback])[-1]


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def ints(values: list[Value]) -> list[int]:
    """Repeated integers, packed or not."""
    out: list[int] = []
    for value in values:
        if isinstance(value, int):
            out.append(signed(value))
            continue
        at = 0
        while at < len(value):
            item, at = varint(value, at)
            out.append(signed(item))
    return out


def attributes(entries: list[bytes]) -> dict[str, Any]:
    """What a graph of plain ops has: strings, integers, lists of integers, raw tensors."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, value = one(entry, 1, b"").decode(), one(entry, 2, b"")
        for key, item in fields(value):
            if key == 1:
                found[name] = ints(many(item, 3))  # type: ignore[arg-type]
            elif key in (3, 5, 15):
                found[name] = signed(item)  # type: ignore[arg-type]
            elif key in (2, 12):
                found[name] = item
    return found


@dataclass
class Tensor:
    dtype: int
    dims: list[int]
    layout: str
    origin: list[int]
    origin_layout: str
    offset: int

    @staticmethod
    def of(data: bytes) -> Tensor:
        attrs = attributes(many(data, 5))
        dims = ints(many(one(data, 3, b""), 1))
        layout = one(data, 4, b"").decode()
        origin = attrs.get("origin_shape", dims)
        return Tensor(
            int(one(data, 2, 0)),
            dims,
            layout,
            origin,
            attrs.get("origin_format", layout.encode()).decode(),
            int(one(data, 18, 0)),
        )


@dataclass
class Op:
    name: str
    type: str
    inputs: list[tuple[str, int]]
    attrs: dict[str, Any]
    input_descs: list[Tensor]
    output_descs: list[Tensor]
    order: int = 0


@dataclass
class Om:
    ops: list[Op] = field(default_factory=list)
    weights: bytes = b""

    def constant(self, op: Op) -> NDArray[Any]:
        """The values of a Const op in the layout of its descriptor."""
        desc = Tensor.of(one(op.attrs["value"], 1))
        count = int(np.prod(desc.dims))
        return np.frombuffer(self.weights, DTYPES[desc.dtype], count, desc.offset).reshape(
            desc.dims
        )


def reference(text: str) -> tuple[str, int]:
    name, _, index = text.rpartition(":")
    return name, int(index or 0)


def read_op(data: bytes) -> Op:
    return Op(
        one(data, 1, b"").decode(),
        one(data, 2, b"").decode(),
        [reference(text.decode()) for text in many(data, 5) if text],
        attributes(many(data, 10)),
        [Tensor.of(desc) for desc in many(data, 33)],
        [Tensor.of(desc) for desc in many(data, 34)],
        int(one(data, 21, 0)),
    )


def read(path: Path) -> Om:
    """Read an old file with a 32 bit table and plain names of attributes."""
    data = path.read_bytes()
    assert data[:4] == b"IMOD"
    (count,) = struct.unpack_from("<I", data, HEADER)
    at = HEADER + 4 + 12 * count
    om = Om()
    for i in range(count):
        kind, _, size = struct.unpack_from("<III", data, HEADER + 4 + 12 * i)
        part = data[at : at + size]
        at += size
        if kind == 0:
            om.ops = sorted(map(read_op, many(one(part, 7), 6)), key=lambda op: op.order)
        elif kind == 1:
            om.weights = part
    assert at == len(data)
    return om
