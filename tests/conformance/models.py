"""Small offline models for the conformance tests, and damaged forms of them.

Owns: one tiny network, its conversion by the product, and edits of the file's bytes. Must never
know more of the container than the places that the tests damage.

The network: inputs a and b, float [1, 64]; outputs scaled = a * b + w and difference = a - b, where
w is a constant with w[i] = i / 4.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from functools import cached_property
from pathlib import Path

COUNT = 64
SIZE_BYTES = 4 * COUNT
HEADER_BYTES = 256
WEIGHT = [index / 4 for index in range(COUNT)]

# Places in the header.
TYPE_AT, MODEL_NUM_AT, UNKNOWN_SHAPE_AT, LENGTH_AT = 82, 156, 193, 184
# Parts of a file.
MODEL_DEF, WEIGHTS, TASK_INFO, DESCRIPTION = 0, 1, 2, 8
TABLE_ENTRY = struct.Struct("<IIQQ")


def floats(values: list[float]) -> bytes:
    """Pack numbers the way the model's tensors hold them."""
    return struct.pack(f"<{len(values)}f", *values)


def expected(a: list[float], b: list[float]) -> tuple[bytes, bytes]:
    """Return the two outputs for two inputs whose figures are exact in float."""
    scaled = [x * y + w for x, y, w in zip(a, b, WEIGHT, strict=True)]
    return floats(scaled), floats([x - y for x, y in zip(a, b, strict=True)])


def block(kind: int, value: bytes) -> bytes:
    """Return one block of the description: kind, length, value."""
    return struct.pack("<II", kind, len(value)) + value


def tensor(name: str, dims: list[int], ranges: list[tuple[int, int]] | None = None) -> bytes:
    """Return the record of a float tensor in ND format, size not told."""
    shape = struct.pack(f"<{len(dims)}q", *dims)
    bounds = b"".join(struct.pack("<qq", *each) for each in ranges or [])
    text = name.encode()
    sizes = (len(text), len(shape), len(shape), len(bounds))
    return struct.pack("<Qii4I", 0, 2, 0, *sizes) + text + shape + shape + bounds


def description(inputs: list[bytes], outputs: list[bytes], *more: bytes) -> bytes:
    """Return a description of inputs and outputs with further blocks behind it."""
    lists = (struct.pack("<I", len(each)) + b"".join(each) for each in (inputs, outputs))
    return b"".join(block(kind, each) for kind, each in enumerate(lists)) + b"".join(more)


def batch_gears(count: int) -> bytes:
    """Return the block that lists this many batch sizes."""
    return block(2, struct.pack(f"<I{count}Q", count, *range(1, 1 + count)))


def image_gears(count: int) -> bytes:
    """Return the block that lists this many image sizes."""
    lengths = struct.pack(f"<I{count}I", count, *[2] * count)
    return block(3, lengths + struct.pack(f"<{2 * count}Q", *range(1, 1 + 2 * count)))


class OmFiles:
    """The network in OM format; damaged forms are made from its bytes on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def good(self) -> bytes:
        """A sound file."""
        return self._converted("good")

    @property
    def good_path(self) -> str:
        """Where the sound file lies."""
        return os.fsdecode(self.path(self.good))

    @cached_property
    def other_chip(self) -> bytes:
        """A sound file for another chip than the one in use."""
        import rawabi

        soc = rawabi.SOC_OF_CHIP["A2" if rawabi.chip() == "310P" else "310P"]
        return self._converted("other", "--soc", soc)

    def negation(self, name: str, shape: list[str | int], *options: str) -> bytes:
        """Return the network x -> -x for inputs of this shape, converted so."""
        source = self.folder / f"{name}.onnx"
        source.write_bytes(_negation(shape))
        return convert(source, self.folder / f"{name}.om", *options)

    @cached_property
    def choice(self) -> bytes:
        """A network number[2] -> the rows of a table of four that have these numbers."""
        source = self.folder / "choice.onnx"
        source.write_bytes(_choice())
        return convert(source, self.folder / "choice.om")

    @cached_property
    def rows(self) -> bytes:
        """A network x[n, 4] -> -x, compiled for batches of 2 and 5."""
        options = ("--input_shape=x:-1,4", "--dynamic_batch_size=2,5")
        return self.negation("rows", ["n", 4], *options)

    def open_rows(self, rows: str) -> bytes:
        """Return the network x[n, 4] -> -x with an open n: -1, or a range such as 1~5."""
        return self.negation(f"open_{len(rows)}", ["n", 4], f"--input_shape=x:{rows},4")

    @cached_property
    def pictures(self) -> bytes:
        """A network x[1, 3, 2, 4] -> -x, with preprocessing whose parameters come with a run."""
        return self._pictures("pictures", 1, 100)

    @cached_property
    def picture_rows(self) -> bytes:
        """The same for batches of 2 and 5."""
        shape = "--input_shape=x:-1,3,2,4"
        return self._pictures("picture_rows", "n", 200, shape, "--dynamic_batch_size=2,5")

    def _pictures(self, name: str, batch: str | int, room: int, *options: str) -> bytes:
        config = self.folder / f"{name}.cfg"
        config.write_text(f"aipp_op {{ aipp_mode: dynamic max_src_image_size: {room} }}")
        return self.negation(name, [batch, 3, 2, 4], f"--insert_op_conf={config}", *options)

    def path(self, data: bytes) -> bytes:
        """Return the path of a file with these bytes."""
        path = self.folder / f"{hashlib.sha1(data).hexdigest()}.om"
        if not path.exists():
            path.write_bytes(data)
        return os.fsencode(path)

    def with_bytes(self, at: int, data: bytes) -> bytes:
        """Return the file with other bytes at one place."""
        return self.good[:at] + data + self.good[at + len(data) :]

    def with_part(self, kind: int, data: bytes) -> bytes:
        """Return the file with other bytes at the start of one part."""
        at, size = self._parts[kind]
        assert len(data) <= size
        return self.with_bytes(at, data)

    def damaged_definition(self) -> bytes:
        """Return the file with a model definition that is no message."""
        return self.with_part(MODEL_DEF, b"\xff" * self._parts[MODEL_DEF][1])

    def damaged_tasks(self) -> bytes:
        """Return the file with a task list that is no message."""
        return self.with_part(TASK_INFO, b"\xff" * self._parts[TASK_INFO][1])

    def long_part(self) -> bytes:
        """Return the file with a table whose first part runs past the end."""
        kind, pad, offset, size = TABLE_ENTRY.unpack_from(self.good, HEADER_BYTES + 8)
        entry = TABLE_ENTRY.pack(kind, pad, offset, size + len(self.good))
        return self.with_bytes(HEADER_BYTES + 8, entry)

    @property
    def _parts(self) -> dict[int, tuple[int, int]]:
        """Place and size of every part. Parts follow each other after the table."""
        (number,) = struct.unpack_from("<I", self.good, HEADER_BYTES)
        table = HEADER_BYTES + 8
        at, parts = table + number * TABLE_ENTRY.size, {}
        for index in range(number):
            kind, _, _, size = TABLE_ENTRY.unpack_from(self.good, table + index * TABLE_ENTRY.size)
            parts[kind] = (at, size)
            at += size
        return parts

    def with_description(self, description: bytes, unknown_shape: bool = False) -> bytes:
        """Return the file with another description of inputs and outputs."""
        parts = {kind: self.good[at : at + size] for kind, (at, size) in self._parts.items()}
        parts[DESCRIPTION] = description
        table, data, at = b"", b"", 0
        for kind, part in parts.items():
            table += TABLE_ENTRY.pack(kind, 0, at, len(part))
            data += part
            at += len(part)
        body = struct.pack("<II", len(parts), 0) + table + data
        header = bytearray(self.good[:HEADER_BYTES])
        struct.pack_into("<Q", header, LENGTH_AT, len(body))
        header[UNKNOWN_SHAPE_AT] = int(unknown_shape)
        return bytes(header) + body

    def _converted(self, name: str, *options: str) -> bytes:
        source, target = self.folder / "tiny.onnx", self.folder / f"{name}.om"
        if not source.exists():
            source.write_bytes(_onnx())
        return convert(source, target, *options)


def bundle(models: list[bytes], variable_bytes: int = 0) -> bytes:
    """Return a bundle of these files, laid out as the vendor's compiler does."""
    parts = [(25, struct.pack("<Q", variable_bytes)), *((24, each) for each in models)]
    table, data = b"", b""
    at = 8 + TABLE_ENTRY.size * len(parts)
    for kind, part in parts:
        table += TABLE_ENTRY.pack(kind, 0, at, len(part))
        data += part
        at += len(part)
    header = bytearray(HEADER_BYTES)
    struct.pack_into("<4sII", header, 0, b"IMOD", HEADER_BYTES, 0x20000000)
    header[TYPE_AT] = 5
    struct.pack_into("<I", header, MODEL_NUM_AT, len(models))
    struct.pack_into("<Q", header, LENGTH_AT, HEADER_BYTES + at)
    return bytes(header) + struct.pack("<II", len(parts), 0) + table + data


def convert(source: Path, target: Path, *options: str) -> bytes:
    """Convert an ONNX file with the product's converter, whatever library set is under test."""
    env = dict(os.environ, ASCENDRT_BACKEND="emu")
    env.pop("ASCENDRT_LIBRARY_DIR", None)
    command = [sys.executable, "-m", "ascendrt", "om", "convert", str(source), "-o", str(target)]
    done = subprocess.run(
        [*command, *options], env=env, cwd=source.parent, capture_output=True, text=True,
        timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target.read_bytes()


def _onnx() -> bytes:
    from onnx import TensorProto, checker, helper

    shape = [1, COUNT]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("scaled", "difference")
    ]
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["product"], "multiply"),
        helper.make_node("Add", ["product", "w"], ["scaled"], "add"),
        helper.make_node("Sub", ["a", "b"], ["difference"], "subtract"),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, shape, WEIGHT)
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _choice() -> bytes:
    from onnx import TensorProto, helper

    number = helper.make_tensor_value_info("number", TensorProto.INT32, [2])
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, [2, 3])
    table = helper.make_tensor("table", TensorProto.FLOAT, [4, 3], list(range(12)))
    node = helper.make_node("Gather", ["table", "number"], ["row"], "choose")
    graph = helper.make_graph([node], "choice", [number], [row], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def _negation(shape: list[str | int]) -> bytes:
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    node = helper.make_node("Neg", ["x"], ["y"])
    graph = helper.make_graph([node], "negation", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())
