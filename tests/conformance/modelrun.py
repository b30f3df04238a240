"""Running the tiny network of models.py through the ABI.

Owns: memory and datasets for one execution, and short calls around models. Must never load a model.
"""

from __future__ import annotations

from typing import Any

from models import COUNT, SIZE_BYTES, OmFiles, expected, floats
from rawabi import acl, ffi, malloc, ok, read, write

NO_MODEL = 987654
A = [float(index) for index in range(COUNT)]
B = [float(3 - index) for index in range(COUNT)]


class Run:
    """Inputs and outputs of the tiny network in device memory, and their datasets."""

    def __init__(self) -> None:
        self.memory = [malloc(SIZE_BYTES + 128) for _ in range(4)]
        self.buffers = [acl.aclCreateDataBuffer(each, SIZE_BYTES) for each in self.memory]
        self.inputs, self.outputs = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
        for index, buffer in enumerate(self.buffers):
            ok(acl.aclmdlAddDatasetBuffer(self.outputs if index > 1 else self.inputs, buffer))
        write(self.memory[0], floats(A))
        write(self.memory[1], floats(B))
        for each in self.memory[2:]:
            write(each, bytes(SIZE_BYTES))

    def execute(self, model: int) -> int:
        return int(acl.aclmdlExecute(model, self.inputs, self.outputs))

    def execute_async(self, model: int, stream: Any) -> int:
        return int(acl.aclmdlExecuteAsync(model, self.inputs, self.outputs, stream))

    def results(self) -> tuple[bytes, bytes]:
        return read(self.memory[2], SIZE_BYTES), read(self.memory[3], SIZE_BYTES)

    def untouched(self) -> bool:
        return self.results() == (bytes(SIZE_BYTES), bytes(SIZE_BYTES))

    def right(self) -> bool:
        return self.results() == expected(A, B)

    def close(self) -> None:
        acl.aclmdlDestroyDataset(self.inputs)
        acl.aclmdlDestroyDataset(self.outputs)
        for buffer in self.buffers:
            acl.aclDestroyDataBuffer(buffer)


def sizes_of(path: bytes) -> tuple[int, int]:
    """Return the work and weight bytes that a model file asks for."""
    out = ffi.new("size_t[2]", [77, 77])
    ok(acl.aclmdlQuerySize(path, out, out + 1))
    return int(out[0]), int(out[1])


def described(om: OmFiles, text: bytes, unknown_shape: bool = False) -> Any:
    """Return the description of a file, read without loading it."""
    data, made = om.with_description(text, unknown_shape), acl.aclmdlCreateDesc()
    ok(acl.aclmdlGetDescFromMem(made, ffi.from_buffer(data), len(data)))
    return made
