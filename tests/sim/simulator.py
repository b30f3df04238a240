"""A simulator of the modelled machine, for comparison: processes that wait for time and signals.

Owns: its own reading of docs/virtual-time.md; it shares no code and no method with the emulator.
Must never call the emulator. Times are microseconds.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

ABI = Path(__file__).resolve().parents[2] / "csrc" / "abi"
SDMA_CHANNELS = 4


def figures_of(soc: str) -> dict[str, float]:
    """The figures of a chip: those of its set, its family and itself, with dotted keys."""

    def flat(table: dict[str, object], prefix: str = "") -> dict[str, float]:
        found: dict[str, float] = {}
        for key, value in table.items():
            if isinstance(value, dict):
                found |= flat(value, f"{prefix}{key}.")
            elif isinstance(value, (int, float)):
                found[prefix + key] = float(value)
        return found

    timing = tomllib.loads((ABI / "timing.toml").read_text("utf-8"))
    family = tomllib.loads((ABI / "soc.toml").read_text("utf-8"))["soc"][soc]["family"]
    shared = next(s for s in timing["set"].values() if family in s["families"])
    return flat(shared) | flat(timing.get("family", {}).get(family, {}))


def cube_cores_of(soc: str) -> int:
    return int(tomllib.loads((ABI / "soc.toml").read_text("utf-8"))["soc"][soc]["cube_core"])


@dataclass
class Signal:
    """Something that happens once."""

    time: float | None = None
    waiting: list[Process] = field(default_factory=list)


# What a process waits for: a moment, or a signal.
Process = Generator["float | Signal", None, None]


class Simulation:
    """The clock and its agenda."""

    def __init__(self) -> None:
        self.now = 0.0
        self._agenda: list[tuple[float, int, Process]] = []
        self._order = itertools.count()

    def start(self, process: Process) -> None:
        heapq.heappush(self._agenda, (self.now, next(self._order), process))

    def fire(self, signal: Signal) -> None:
        signal.time = self.now
        for process in signal.waiting:
            self.start(process)
        signal.waiting.clear()

    def run(self) -> None:
        while self._agenda:
            self.now, _, process = heapq.heappop(self._agenda)
            self._resume(process)

    def _resume(self, process: Process) -> None:
        for wanted in process:
            if isinstance(wanted, Signal):
                if wanted.time is None:
                    wanted.waiting.append(process)
                    return
            elif wanted > self.now:
                heapq.heappush(self._agenda, (wanted, next(self._order), process))
                return


class Engine:
    """Places that are given out in the order of requests; none overtakes another."""

    def __init__(self, simulation: Simulation, places: int) -> None:
        self.simulation, self.places, self.free = simulation, places, places
        self.queue: deque[tuple[int, Signal]] = deque()

    def use(self, places: int, duration: float) -> Process:
        places = min(places, self.places)
        granted = Signal()
        self.queue.append((places, granted))
        self._grant()
        yield granted
        assert granted.time is not None
        yield granted.time + duration
        self.free += places
        self._grant()

    def _grant(self) -> None:
        while self.queue and self.queue[0][0] <= self.free:
            places, granted = self.queue.popleft()
            self.free -= places
            self.simulation.fire(granted)


@dataclass
class Task:
    kind: str  # work, record, wait
    release: float
    engine: Engine | None = None
    places: int = 1
    duration: float = 0.0
    signal: Signal | None = None
    done: Signal = field(default_factory=Signal)


class Stream:
    """Runs its tasks one after the other."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tasks: deque[Task] = deque()
        self.last: Task | None = None
        self.idle = True
        self.earliest = 0.0

    def submit(self, task: Task) -> None:
        self.tasks.append(task)
        self.last = task
        if self.idle:
            self.idle = False
            self.machine.simulation.start(self._work())

    def _work(self) -> Process:
        while self.tasks:
            task = self.tasks.popleft()
            yield max(task.release, self.earliest)
            if task.kind == "work":
                assert task.engine is not None
                yield from task.engine.use(task.places, task.duration)
            elif task.kind == "record":
                assert task.signal is not None
                self.machine.simulation.fire(task.signal)
            else:
                assert task.signal is not None
                yield task.signal
                assert task.signal.time is not None
                late = task.signal.time + self.machine.figures["event.latency_us"]
                self.earliest = max(self.earliest, late)
            self.machine.simulation.fire(task.done)
        self.idle = True


class Machine:
    """One device and one host thread that plays a plan (see benchmarks/programs/player.c)."""

    def __init__(self, figures: dict[str, float], cube_cores: int) -> None:
        self.figures = figures
        self.simulation = Simulation()
        self.engines = {
            "in": Engine(self.simulation, 1),
            "out": Engine(self.simulation, 1),
            "inside": Engine(self.simulation, SDMA_CHANNELS),
            "run": Engine(self.simulation, cube_cores),
        }
        self.streams: list[Stream] = []
        self.events: list[Signal] = []
        self.models: list[str] = []
        # Executions of a model take turns: the last one's end, and its stream.
        self.turns: dict[int, tuple[Signal, Stream]] = {}
        self.thread = 0.0

    def play(self, plan: list[str]) -> list[float]:
        """The times of all events since the first, in milliseconds."""
        self.simulation.start(self._host(plan))
        self.simulation.run()
        times = [event.time for event in self.events]
        assert all(time is not None for time in times)
        return [((time or 0) - (times[0] or 0)) / 1e3 for time in times]

    def _host(self, plan: list[str]) -> Process:
        for line in plan:
            word, *rest = line.split()
            if word == "model":
                self.models.append(rest[0])
            elif word == "stream":
                self.streams.append(Stream(self))
            elif word == "event":
                self.events.append(Signal())
                self.thread += self.figures["host.event_create_us"]
            else:
                yield from self._call(word, *map(int, rest))

    def _call(self, word: str, first: int, second: int = 0) -> Process:
        cost = {"run": "model", "record": "event", "wait": "event", "query": "query"}
        if word not in ("sync", "sync_event"):
            self.thread += self.figures[f"host.{cost.get(word, 'launch')}_us"]
        # The thread acts at its own moment; what comes before on the device has happened then.
        yield self.thread
        if word == "query":
            last = self.streams[first].last
            while last is not None and last.done.time is None:
                self.thread += self.figures["host.query_us"]
                yield self.thread
        elif word in ("sync", "sync_event"):
            last = self.streams[first].last if word == "sync" else None
            signal = self.events[first] if word == "sync_event" else last.done if last else None
            if signal is not None:
                yield signal
            self.thread = max(self.thread, self.simulation.now) + self.figures["host.sync_us"]
        else:
            self._submit(word, self.streams[first], second)

    def _submit(self, word: str, stream: Stream, second: int) -> None:
        now = self.thread
        if word == "record":
            stream.submit(Task("record", now, signal=self.events[second]))
        elif word == "wait":
            stream.submit(Task("wait", now, signal=self.events[second]))
        elif word == "run":
            self._execute(stream, second)
        else:
            engine = "inside" if word == "set" else word
            path = {"in": "h2d", "out": "d2h", "inside": "d2d"}[engine]
            us = self.figures[f"{path}.latency_us"] + second / self.figures[f"{path}.gbps"] / 1e3
            stream.submit(Task("work", now, self.engines[engine], 1, round(us, 3)))

    def _execute(self, stream: Stream, model: int) -> None:
        before, at = self.turns.get(model, (None, stream))
        if before is not None and at is not stream:
            stream.submit(Task("wait", self.thread, signal=before))
        name = self.models[model].rsplit("/", 1)[-1].removesuffix(".om")
        us = self.figures[f"op.{name}.us"]
        cores = int(self.figures[f"op.{name}.cores"])
        work = Task("work", self.thread, self.engines["run"], cores, us)
        stream.submit(work)
        self.turns[model] = (work.done, stream)
