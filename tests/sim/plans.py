"""Random plans for benchmarks/programs/player.c, and the figures they are played with."""

from __future__ import annotations

import random
from pathlib import Path

KERNELS = 4


def kernel_names() -> list[str]:
    return [f"k{i}" for i in range(KERNELS)]


def random_figures(draw: random.Random) -> dict[str, float]:
    """Durations that differ from plan to plan; what is not here stays the chip's own."""
    figures = {
        "h2d.gbps": draw.uniform(0.5, 40),
        "d2h.gbps": draw.uniform(0.5, 40),
        "d2d.gbps": draw.uniform(20, 900),
        "h2d.latency_us": draw.uniform(1, 50),
        "event.latency_us": draw.uniform(0, 10),
        "host.launch_us": draw.uniform(0, 20),
    }
    for name in kernel_names():
        figures[f"op.{name}.us"] = draw.uniform(5, 800)
        figures[f"op.{name}.cores"] = draw.randint(1, 24)
    return {key: round(value, 3) for key, value in figures.items()}


def random_plan(draw: random.Random, models: list[Path]) -> list[str]:
    """A program of one host thread over 1 to 4 streams; waits name events recorded before."""
    streams = draw.randint(1, 4)
    plan = [f"model {path}" for path in models] + ["stream 0"] * streams
    plan += ["event", "record 0 0"]
    events = 1
    for _ in range(draw.randint(15, 60)):
        stream = draw.randrange(streams)
        size = draw.randint(1, 1 << 20)
        plan.append(
            draw.choice(
                [
                    f"in {stream} {size}", f"out {stream} {size}", f"inside {stream} {size}",
                    f"set {stream} {size}", f"run {stream} {draw.randrange(len(models))}",
                    f"run {stream} {draw.randrange(len(models))}", "mark", "mark", "wait", "wait",
                    draw.choice(["sync", "sync_event", "query", "mark"]),
                ]
            )
        )  # fmt: skip
        if plan[-1] == "mark":
            plan[-1:] = ["event", f"record {stream} {events}"]
            events += 1
        elif plan[-1] == "wait":
            plan[-1] = f"wait {stream} {draw.randrange(events)}"
        elif plan[-1] in ("sync", "query"):
            plan[-1] += f" {stream}"
        elif plan[-1] == "sync_event":
            plan[-1] += f" {draw.randrange(events)}"
    for stream in range(streams):
        plan += ["event", f"record {stream} {events + stream}"]
    return plan
