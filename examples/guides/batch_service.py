"""Single requests in, batches to the device, single answers out:

    ascendrt om convert examples/digits/digits_batch.onnx -o batched.om \\
        --input-shape "image:-1,1,8,8" --dynamic-batch-size 1,2,4,8
    python examples/guides/batch_service.py batched.om

What the usual guide gets wrong:
* It waits until a batch is full: at low load the first request waits for ever. A batch leaves when
  it is full or when its oldest request has waited for the agreed time.
* It pads every batch to the largest size. A model compiled for several sizes runs the next larger
  one, and rows that nobody asked for are never handed out.
* One wrong request fails the whole batch, and a client that has gone away still gets computed.
  Requests are looked at when they come, and may be cancelled until their batch has left.
* It makes the sizes 1 to 32 "to be flexible". Each size costs memory and compile time; powers of
  two are enough.
"""

from __future__ import annotations

import asyncio
import random

import numpy as np
from acltools import label, model_path, picture

import ascendrt

CLIENTS, REQUESTS_EACH = 20, 10


async def client(batcher: ascendrt.DynamicBatcher, number: int) -> int:
    """Ask for pictures at random moments; return how many answers were right."""
    chance = random.Random(number)
    right = 0
    for request in range(REQUESTS_EACH):
        await asyncio.sleep(chance.expovariate(200))
        index = number * REQUESTS_EACH + request
        (scores,) = await batcher.infer(picture(index)[0])  # without the batch dimension
        right += int(scores.argmax()) == label(index)
    return right


async def serve(batcher: ascendrt.DynamicBatcher) -> None:
    """Run all clients; a request that does not fit and one that is withdrawn disturb nobody."""
    withdrawn = batcher.submit(picture(0)[0])
    withdrawn.cancel()
    try:
        await batcher.infer(np.zeros((3, 3), np.float32))
    except ValueError as error:
        print("refused:", str(error).splitlines()[0])
    right = sum(await asyncio.gather(*(client(batcher, number) for number in range(CLIENTS))))
    print(f"{right} of {CLIENTS * REQUESTS_EACH} answers are right")


def main() -> None:
    """Serve, then say how the batches were."""
    with (
        ascendrt.Device(0),
        ascendrt.Model(model_path()) as model,
        ascendrt.DynamicBatcher.of_model(model, max_delay_ms=3) as batcher,
    ):
        ascendrt.run(serve(batcher))
        metrics = batcher.metrics()
    print(f"{metrics.answered} answered in {metrics.batches} batches")


if __name__ == "__main__":
    main()
