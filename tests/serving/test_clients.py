"""Two hundred clients at once in real time: no answer is lost, doubled or given to another one.

SERVING_SECONDS says for how long, 5 by default; `make soak` runs a minute.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servingkit import WIDTH

import ascendrt
from ascendrt.serving import DynamicBatcher

Batcher = DynamicBatcher[Any, list[np.ndarray[Any, Any]]]
SECONDS = float(os.environ.get("SERVING_SECONDS", "5"))
THREADS, TASKS = 50, 150


class Tally:
    """What the clients saw."""

    def __init__(self) -> None:
        self.asked = 0
        self.right = 0
        self.wrong: list[object] = []
        self._lock = threading.Lock()

    def note(self, asked: int, right: int, wrong: list[object]) -> None:
        with self._lock:
            self.asked += asked
            self.right += right
            self.wrong += wrong


def row_of(client: int, turn: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A question that no other client and turn asks."""
    row = np.zeros(WIDTH, np.float32)
    row[:2] = client, turn
    return row


def is_own(answer: list[np.ndarray[Any, Any]], asked: object) -> bool:
    return len(answer) == 1 and np.array_equal(answer[0], np.asarray(asked) * 3 + 1)


@pytest.mark.timeout(SECONDS + 120)
def test_two_hundred_clients(models: Path, seed: int) -> None:
    tally, end = Tally(), time.monotonic() + SECONDS

    def thread(batcher: Batcher, client: int) -> None:
        draw, turn, right = random.Random(seed + client), 0, 0
        wrong: list[object] = []
        while time.monotonic() < end:
            row = row_of(client, turn)
            answer = batcher(row)
            right += is_own(answer, row)
            if not is_own(answer, row):
                wrong.append((client, turn, answer))
            turn += 1
            time.sleep(draw.random() * 0.02)
        tally.note(turn, right, wrong)

    async def task(batcher: Batcher, client: int) -> None:
        draw, turn, right = random.Random(seed + client), 0, 0
        wrong: list[object] = []
        while time.monotonic() < end:
            row = row_of(client, turn)
            answer = await batcher.infer(row)
            right += is_own(answer, row)
            if not is_own(answer, row):
                wrong.append((client, turn, answer))
            turn += 1
            await asyncio.sleep(draw.random() * 0.02)
        tally.note(turn, right, wrong)

    async def tasks(batcher: Batcher) -> None:
        await asyncio.gather(*(task(batcher, THREADS + number) for number in range(TASKS)))

    with (
        ascendrt.Device(0),
        ascendrt.Model(models / "batch8.om") as model,
        DynamicBatcher.of_model(model, max_delay_ms=2) as batcher,
    ):
        threads = [threading.Thread(target=thread, args=(batcher, n)) for n in range(THREADS)]
        for each in threads:
            each.start()
        asyncio.run(tasks(batcher))
        for each in threads:
            each.join(60)
        metrics = batcher.metrics()
    print(
        f"{tally.asked} requests in {SECONDS:g} s, batches of {metrics.mean_batch:.2f}, "
        f"waits {metrics.wait_ms_p50:.1f} ms (P99 {metrics.wait_ms_p99:.1f} ms)"
    )
    assert tally.wrong == []
    assert tally.asked == tally.right == metrics.answered > 200
    assert metrics.failed == metrics.queued == metrics.running == 0
