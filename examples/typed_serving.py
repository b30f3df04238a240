"""Objects and serving with full types:  python examples/typed_serving.py digits.om

`mypy --strict` accepts this file as it stands; the tests run both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import ascendrt

Picture = npt.NDArray[np.float32]


def double_on_the_device(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Copy to the device and back through pinned memory, in one stream."""
    with (
        ascendrt.Stream() as stream,
        ascendrt.Memory(numbers.nbytes) as memory,
        ascendrt.PinnedMemory(numbers.nbytes) as pinned,
        ascendrt.Event() as done,
    ):
        staging = pinned.numpy(numbers.shape, np.int32)
        staging[:] = numbers * 2
        stream.write(memory, pinned)
        staging_is_free: ascendrt.Event = stream.record(done)
        staging_is_free.synchronize()
        result: npt.NDArray[np.int32] = np.zeros_like(numbers)
        stream.read_into(memory, result)
        stream.synchronize()
        return result


def classify(model: ascendrt.Model, pictures: Sequence[Picture]) -> list[int]:
    """Run pictures through a pipeline; the results come in order."""
    with ascendrt.Pipeline(model, depth=2) as pipeline:
        return [int(scores.argmax()) for (scores,) in pipeline.map([p] for p in pictures)]


async def ask(batcher: ascendrt.DynamicBatcher[int, int], number: int) -> int:
    """Ask a batcher from an event loop."""
    future: ascendrt.Future[int] = batcher.submit(number)
    return await future


def squares(batch: list[int]) -> list[int]:
    """Stand in for a model."""
    return [number * number for number in batch]


def main(om: str) -> None:
    """Show all of it."""
    pictures: list[Picture] = [np.full((1, 1, 8, 8), n / 8, np.float32) for n in range(4)]
    with ascendrt.Device(0) as device, ascendrt.Model(om) as model:
        free: int = device.memory().free_bytes
        print(double_on_the_device(np.arange(4, dtype=np.int32)), free > 0)
        print(classify(model, pictures))
    with ascendrt.DynamicBatcher(squares, max_batch=4, max_delay_ms=1) as batcher:
        print(ascendrt.run(ask(batcher, 7)), batcher.metrics().mean_batch)
    with ascendrt.DevicePool([0]) as pool:
        index: int = pool.run(lambda worker: worker.device.index)
        print(index)
    try:
        with ascendrt.Device(99):
            pass
    except ascendrt.UsageError as error:
        code: int = error.code
        print(code, error.name, error.api, error.ids)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} digits.om")
    main(sys.argv[1])
