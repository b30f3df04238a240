"""Serving in virtual time: latency under load, balance of devices, event loops. Seeds are printed.

A batch of b takes t(b) = 4 ms + 0.5 ms b on the emulated device.
"""

from __future__ import annotations

import pytest
from servingkit import simulate

REQUESTS = 100_000
UNIT = 1000  # bytes, as in simulations.py
FIXED_MS, EACH_MS = 4.0, 0.5
BATCH_TIME = {"d2d.latency_us": FIXED_MS * 1000, "d2d.gbps": UNIT / (EACH_MS * 1e6)}
JOB_TIME = {"d2d.latency_us": 0.0, "d2d.gbps": UNIT / 1e6}  # a unit takes 1 ms


def t_ms(batch: int) -> float:
    return FIXED_MS + EACH_MS * batch


def load(share: float, batch: int) -> float:
    """Requests per second: a share of what batches of this size can do."""
    return share * batch / t_ms(batch) * 1000


def test_batching_cuts_the_tail(seed: int) -> None:
    """0.8 of the capacity of single requests: P99 at least three times better than without."""
    rate = load(0.8, 1)
    single = simulate("batching", seed, rate, REQUESTS, 1, 0, timing=BATCH_TIME)
    batched = simulate("batching", seed, rate, REQUESTS, 8, 4, timing=BATCH_TIME)
    for figures in (single, batched):
        assert (figures["wrong"], figures["answered"]) == (0, REQUESTS)
        assert figures["seconds"] == pytest.approx(REQUESTS / rate, rel=0.05)
    assert single["mean_batch"] == 1
    print(f"P99 {single['p99_ms']:.2f} ms alone, {batched['p99_ms']:.2f} ms batched")
    assert single["p99_ms"] >= 3 * batched["p99_ms"]


def test_batching_carries_what_single_requests_cannot(seed: int) -> None:
    """0.8 of the capacity of batches of 8 is 3.6 times that of single ones: stable."""
    figures = simulate("batching", seed, load(0.8, 8), REQUESTS, 8, 4, timing=BATCH_TIME)
    assert (figures["wrong"], figures["answered"]) == (0, REQUESTS)
    print(f"P99 {figures['p99_ms']:.2f} ms, batches of {figures['mean_batch']:.2f}")
    assert figures["p99_ms"] <= 5 * t_ms(8)
    first, _, last = figures["thirds_p50_ms"]
    assert last <= 1.2 * first, "latency grows over the run"


def test_the_same_seed_gives_the_same_figures(seed: int) -> None:
    once, again = (
        simulate("batching", seed, load(0.8, 8), 3000, 8, 4, timing=BATCH_TIME) for _ in range(2)
    )
    assert once == again


@pytest.mark.parametrize("depth", [1, 2])
def test_devices_are_busy_for_the_same_time(seed: int, depth: int) -> None:
    figures = simulate("devices", seed, 1000, depth, timing=JOB_TIME, ASCENDRT_DEVICES="4")
    busy = figures["busy_ms"]
    assert sum(figures["jobs"]) == 1000
    assert sum(busy) == pytest.approx(figures["wanted_ms"], rel=0.01)
    print(f"busy {[round(each) for each in busy]} ms, max/min {max(busy) / min(busy):.4f}")
    assert max(busy) / min(busy) <= 1.05
    assert figures["seconds"] * 1000 <= max(busy) * 1.05  # the devices worked at the same time


def test_event_loops_threads_and_the_device_share_one_time() -> None:
    figures = simulate("loop", timing=JOB_TIME)
    assert figures["order"] == ["early", "thread", "middle", "device", "late"]
    assert figures["seconds"] == pytest.approx(3600, abs=0.001)


def test_clients_that_give_up_disturb_nobody(seed: int) -> None:
    figures = simulate("clients", seed, 600, timing=BATCH_TIME)
    assert figures["wrong"] == figures["failed"] == 0
    assert figures["queued"] == figures["running"] == 0
    assert figures["right"] + figures["late"] + figures["cancelled"] == 600
    assert figures["right"] > 0
    assert figures["late"] > 0
    assert figures["cancelled"] > 0
    assert figures["answered"] + figures["withdrawn"] <= 600
