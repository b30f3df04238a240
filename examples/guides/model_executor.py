"""A model run at once and in a stream:  python examples/guides/model_executor.py digits.om

What the usual guide gets wrong:
* `acl.mdl.load_from_mem(data)` takes an address and a size, and answers (model id, code); the check
  `model_ptr != 0` of a tuple cannot fail. `create_desc` answers the bare handle, not a pair.
* `get_output_shape`, `add_input_buffer`, `add_output_buffer` do not exist: `get_output_dims` and
  `add_dataset_buffer` do.
* Its execute_async makes datasets that nobody frees. One set may serve again when its run is over:
  what must not be shared is a set of two runs that are under way at the same time.
* Destroying a dataset frees neither data buffers nor memory, so its `unload` leaks the buffers.
* It runs one model id by `execute` and by `execute_async`: the second is refused (500002). An
  executor that is to do both loads the file twice.
* `if self.model_id:` before unload: 0 is a possible id.
* It computes sizes from shapes and takes every output for float32. The model tells both.
"""

from __future__ import annotations

from pathlib import Path

import acl
import numpy as np
from acltools import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    check,
    device_memory,
    free_bytes,
    host_memory,
    label,
    model_path,
    picture,
    valued,
    view,
)

# aclDataType to numpy, of the types that this executor takes
TYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 4: np.uint8, 9: np.int64}


class Tensor:
    """One input or output of a run: device memory, pinned memory, and a view of the latter."""

    def __init__(self, size: int, dtype: type, shape: tuple[int, ...]) -> None:
        self.size = size
        self.device = device_memory(size)
        self.host = host_memory(size)
        self.array = view(self.host, shape, dtype)
        self.buffer = acl.create_data_buffer(self.device, size)

    def copy(self, direction: int, stream: int) -> None:
        """Queue the copy in or out."""
        ends = (self.device, self.host) if direction == HOST_TO_DEVICE else (self.host, self.device)
        code = acl.rt.memcpy_async(ends[0], self.size, ends[1], self.size, direction, stream)
        check(code, "acl.rt.memcpy_async")

    def close(self) -> None:
        """Free all of it; the view ends with its memory."""
        del self.array
        check(acl.destroy_data_buffer(self.buffer), "acl.destroy_data_buffer")
        check(acl.rt.free_host(self.host), "acl.rt.free_host")
        check(acl.rt.free(self.device), "acl.rt.free")


class Slot:
    """What one run needs for itself while it is under way."""

    def __init__(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.feed, self.fetch = self._dataset(inputs), self._dataset(outputs)

    @staticmethod
    def _dataset(tensors: list[Tensor]) -> int:
        dataset = acl.mdl.create_dataset()
        for tensor in tensors:
            _, code = acl.mdl.add_dataset_buffer(dataset, tensor.buffer)
            check(code, "acl.mdl.add_dataset_buffer")
        return dataset

    def close(self) -> None:
        """Free the datasets, then what they pointed to. The run must be over."""
        for dataset in (self.feed, self.fetch):
            check(acl.mdl.destroy_dataset(dataset), "acl.mdl.destroy_dataset")
        for tensor in (*self.inputs, *self.outputs):
            tensor.close()


class ModelExecutor:
    """A loaded model, for one of the two ways to run. It belongs to the context it is loaded in."""

    def __init__(self, source: str | bytes) -> None:
        if isinstance(source, bytes):
            # The address is good while a name holds the bytes: here the argument does.
            answer = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(source), len(source))
            self.model_id = valued(answer, "acl.mdl.load_from_mem")
        else:
            self.model_id = valued(acl.mdl.load_from_file(source), "acl.mdl.load_from_file")
        self._desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(self._desc, self.model_id), "acl.mdl.get_desc")
        self._own = self.slot()

    def slot(self) -> Slot:
        """Allocate for one more run under way; the caller closes it."""
        mdl, desc = acl.mdl, self._desc
        inputs = [
            self._tensor(
                index, mdl.get_input_size_by_index, mdl.get_input_data_type, mdl.get_input_dims
            )
            for index in range(mdl.get_num_inputs(desc))
        ]
        outputs = [
            self._tensor(
                index, mdl.get_output_size_by_index, mdl.get_output_data_type, mdl.get_output_dims
            )
            for index in range(mdl.get_num_outputs(desc))
        ]
        return Slot(inputs, outputs)

    def _tensor(self, index: int, size_of, type_of, dims_of) -> Tensor:
        dims = valued(dims_of(self._desc, index), "the tensor's dims")["dims"]
        return Tensor(size_of(self._desc, index), TYPES[type_of(self._desc, index)], tuple(dims))

    def execute(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run and wait."""
        slot = self._own
        self.fill(slot, arrays)
        for tensor in slot.inputs:
            code = acl.rt.memcpy(
                tensor.device, tensor.size, tensor.host, tensor.size, HOST_TO_DEVICE
            )
            check(code, "acl.rt.memcpy")
        check(acl.mdl.execute(self.model_id, slot.feed, slot.fetch), "acl.mdl.execute")
        for tensor in slot.outputs:
            code = acl.rt.memcpy(
                tensor.host, tensor.size, tensor.device, tensor.size, DEVICE_TO_HOST
            )
            check(code, "acl.rt.memcpy")
        return self.results(slot)

    def execute_async(self, slot: Slot, stream: int, *arrays: np.ndarray) -> None:
        """Queue copies and run; `results(slot)` is for after the stream was waited for."""
        self.fill(slot, arrays)
        for tensor in slot.inputs:
            tensor.copy(HOST_TO_DEVICE, stream)
        self.compute(slot, stream)
        for tensor in slot.outputs:
            tensor.copy(DEVICE_TO_HOST, stream)

    def compute(self, slot: Slot, stream: int) -> None:
        """Queue the run alone."""
        code = acl.mdl.execute_async(self.model_id, slot.feed, slot.fetch, stream)
        check(code, "acl.mdl.execute_async")

    @staticmethod
    def fill(slot: Slot, arrays: tuple[np.ndarray, ...]) -> None:
        """Put the inputs into pinned memory. Raises: ValueError for a shape that does not fit."""
        for tensor, array in zip(slot.inputs, arrays, strict=True):
            if array.shape != tensor.array.shape or array.dtype != tensor.array.dtype:
                raise ValueError(
                    f"the model takes {tensor.array.dtype}{tensor.array.shape}, "
                    f"not {array.dtype}{array.shape}"
                )
            tensor.array[...] = array

    @staticmethod
    def results(slot: Slot) -> list[np.ndarray]:
        """Copy the results out, so that the slot can serve again."""
        return [tensor.array.copy() for tensor in slot.outputs]

    def close(self) -> None:
        """Unload and free; nothing may be under way."""
        self._own.close()
        check(acl.mdl.destroy_desc(self._desc), "acl.mdl.destroy_desc")
        check(acl.mdl.unload(self.model_id), "acl.mdl.unload")


def main() -> None:
    """Ask the model for ten pictures, one after the other and three at a time."""
    path = model_path()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    before = free_bytes()
    executor = ModelExecutor(path)
    right = sum(int(executor.execute(picture(n))[0].argmax()) == label(n) for n in range(10))
    print(f"{Path(path).name}, one after the other: {right} of 10 right")
    executor.close()

    executor = ModelExecutor(path)
    stream = valued(acl.rt.create_stream(), "acl.rt.create_stream")
    slots = [executor.slot() for _ in range(3)]
    for number, slot in enumerate(slots):
        executor.execute_async(slot, stream, picture(number))
    check(acl.rt.synchronize_stream(stream), "acl.rt.synchronize_stream")  # before any result
    digits = [int(executor.results(slot)[0].argmax()) for slot in slots]
    print(f"in a stream: {digits}, the labels are {[label(n) for n in range(3)]}")

    for slot in slots:
        slot.close()
    executor.close()
    check(acl.rt.destroy_stream(stream), "acl.rt.destroy_stream")
    print("all device memory is back:", free_bytes() == before)
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
