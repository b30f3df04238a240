"""`ascendrt bench`: how fast this machine, or this card, does what programs do all the time.

Every figure stands beside what it is measured against in the same run, so that it means something
on a busy machine too. Must never need more than numpy, nor ask which backend it runs on.

Note [Turns]: what is measured and its rival take turns, in rounds; a figure is the median over the
rounds, a ratio the median of the rounds' ratios. A disturbance then hits both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendrt.cli.parsing import Parser, WrongUsage, require_file, suggestion
from ascendrt.cli.progress import steps

if TYPE_CHECKING:
    import numpy as np

    from ascendrt._owned import Owned

_MODEL = "model"
_ROUNDS = 15
_ROUND_NS = 4_000_000  # a turn of one side lasts about so long
_MOST_CALLS = 20_000


@dataclass(frozen=True)
class Case:
    """One measurement: `run` does it once, `rival` is what it is compared with."""

    name: str
    what: str
    run: Callable[[], object]
    rival_name: str
    rival: Callable[[], object]
    bytes_per_run: int = 0


@dataclass(frozen=True)
class Figure:
    """What a case took; `ratio` is time over the rival's time."""

    name: str
    what: str
    microseconds: float
    rival: str
    rival_microseconds: float
    ratio: float
    gigabytes_per_second: float | None


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (see --list)")
    parser.add_argument("--list", action="store_true", help="name the measurements and stop")
    parser.add_argument("--model", type=Path, metavar="NET.om", help="measure this model as well")
    parser.add_argument("--device", type=int, default=0, metavar="N")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, metavar="N", help="turns of each side (default 15)"
    )
    parser.add_json()
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Measure and print."""
    from ascendrt.device import Device, soc_name

    if options.rounds < 1:
        raise WrongUsage(f"--rounds {options.rounds}: at least 1 is needed")
    if options.model is not None:
        require_file(options.model, "--model")
        if options.names and _MODEL not in options.names:
            options.names.append(_MODEL)  # who gives a model wants it measured as well
    elif _MODEL in options.names:
        raise WrongUsage(f"the measurement {_MODEL!r} needs --model NET.om")
    with Device(options.device), ExitStack() as held:
        cases = list(_cases(held, options.model))
        chosen = _choose(cases, options.names)
        if options.list:
            _print_list(chosen, options.json)
            return 0
        figures = [_measure(case, options.rounds) for case in steps(chosen, "measuring")]
        soc = soc_name()
    if options.json:
        rows = [asdict(figure) for figure in figures]
        print(json.dumps({"soc": soc, "rounds": options.rounds, "figures": rows}, indent=1))
    else:
        print("\n".join(_lines(figures, soc, options.rounds)))
    return 0


def _choose(cases: list[Case], names: list[str]) -> list[Case]:
    known = list(dict.fromkeys([*(case.name for case in cases), _MODEL]))
    for name in names:
        if name not in known:
            text = f"no measurement is called {name!r}{suggestion(name, known)}"
            raise WrongUsage(f"{text} (there are {', '.join(known)})")
    return [case for case in cases if not names or case.name in names]


def _print_list(cases: list[Case], as_json: bool) -> None:
    rows = {case.name: case.what for case in cases}
    rows.setdefault(_MODEL, "four runs of a model under way together (needs --model NET.om)")
    if as_json:
        print(json.dumps([{"name": name, "what": what} for name, what in rows.items()], indent=1))
    else:
        print("\n".join(f"{name:20} {what}" for name, what in rows.items()))


def _cases(held: ExitStack, model: Path | None) -> Iterator[Case]:
    """Make all cases; what they need lives as long as `held`."""
    import numpy as np

    yield from _memory_cases(np.empty)
    for size, label in ((4 << 10, "4k"), (1 << 20, "1m"), (64 << 20, "64m")):
        yield from _copy_cases(held, size, label)
    yield from _stream_cases(held)
    if model is not None:
        yield from _model_cases(held, model)


def _memory_cases(empty: Callable[..., object]) -> Iterator[Case]:
    import numpy as np

    from ascendrt.memory import Memory, PinnedMemory

    for size, label in ((4 << 10, "4k"), (16 << 20, "16m")):
        yield Case(
            f"memory-{label}", f"allocate {_told(size)} of device memory and free it",
            partial(_once, Memory, size), "numpy.empty", partial(empty, size, np.uint8),
        )  # fmt: skip
    yield Case(
        "pinned-1m", "allocate 1 MiB of pinned host memory and free it",
        partial(_once, PinnedMemory, 1 << 20), "numpy.empty", partial(empty, 1 << 20, np.uint8),
    )  # fmt: skip


def _once(kind: Callable[[int], Owned], size: int) -> None:
    kind(size).close()


def _told(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _copy_cases(held: ExitStack, size: int, label: str) -> Iterator[Case]:
    """Copies of ordinary memory that block, and of pinned memory in a stream, both ways."""
    import numpy as np

    from ascendrt.memory import Memory, PinnedMemory
    from ascendrt.stream import Stream

    host, other = np.ones(size, np.uint8), np.ones(size, np.uint8)
    device = held.enter_context(Memory(size))
    stream, pinned = held.enter_context(Stream()), held.enter_context(PinnedMemory(size))
    pinned.numpy()[:] = 1
    device.write(host)

    def rival() -> None:
        np.copyto(other, host)

    def send() -> None:
        stream.write(device, pinned)
        stream.synchronize()

    def receive() -> None:
        stream.read_into(device, pinned)
        stream.synchronize()

    name = "copy on the host"
    for direction, verb, blocking, queued in (
        ("h2d", "to the device", lambda: device.write(host), send),
        ("d2h", "to the host", lambda: device.read_into(host), receive),
    ):
        yield Case(f"{direction}-{label}", f"copy {_told(size)} {verb}", blocking, name, rival,
                   size)  # fmt: skip
        what = f"copy {_told(size)} of pinned memory {verb} in a stream, and wait"
        yield Case(f"{direction}-pinned-{label}", what, queued, name, rival, size)


def _stream_cases(held: ExitStack) -> Iterator[Case]:
    from ascendrt.stream import Event, Stream

    stream, event = held.enter_context(Stream()), held.enter_context(Event())

    def handoff() -> None:
        stream.record(event)
        stream.synchronize()

    def create() -> None:
        Stream().close()

    def empty() -> None:
        pass

    call, record = "an empty call of Python", partial(stream.record, event)
    yield Case("record", "record an event in a stream", record, call, empty)
    yield Case("handoff", "record an event and wait for the stream", handoff, call, empty)
    yield Case("stream", "make a stream and close it", create, call, empty)


def _model_cases(held: ExitStack, path: Path) -> Iterator[Case]:
    import numpy as np

    from ascendrt import dtypes
    from ascendrt.model import Model

    model = held.enter_context(Model(path))
    arrays: list[np.ndarray[Any, Any]] = []
    for spec in model.inputs:
        gear = model.gears.values[-1] if model.has_gears else ()
        shape = tuple(size if size >= 0 else (gear[0] if gear else 1) for size in spec.shape)
        arrays.append(np.zeros(shape, dtypes.to_numpy(spec.acl_dtype)))

    def together() -> None:
        for run in [model.run_async(arrays) for _ in range(4)]:
            run.result()

    def alone() -> None:
        for _ in range(4):
            model(*arrays)

    what = f"four runs of {path.name} under way together, inputs of zeros"
    yield Case(_MODEL, what, together, "one after the other", alone)


def _measure(case: Case, rounds: int) -> Figure:
    """Let both sides take turns; see Note [Turns]."""
    calls, rival_calls = _calls_per_turn(case.run), _calls_per_turn(case.rival)
    times = [(_turn(case.run, calls), _turn(case.rival, rival_calls)) for _ in range(rounds)]
    took = statistics.median(mine for mine, _ in times)
    rival = statistics.median(theirs for _, theirs in times)
    speed = case.bytes_per_run / took if case.bytes_per_run else None
    ratio = statistics.median(mine / theirs for mine, theirs in times)
    return Figure(case.name, case.what, took / 1e3, case.rival_name, rival / 1e3, ratio, speed)


def _calls_per_turn(run: Callable[[], object]) -> int:
    run()  # the first one makes caches and pages
    once = _turn(run, 1)
    return max(1, min(_MOST_CALLS, round(_ROUND_NS / once)))


def _turn(run: Callable[[], object], calls: int) -> float:
    """Return nanoseconds per call."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    return max(time.perf_counter_ns() - start, 1) / calls


def _lines(figures: list[Figure], soc: str, rounds: int) -> Iterator[str]:
    yield f"{soc}, medians of {rounds} rounds; ratio: time over that of what it is compared with"
    yield f"{'':18} {'us':>10} {'GB/s':>7} {'ratio':>8}"
    for figure in figures:
        speed = figure.gigabytes_per_second
        yield (
            f"{figure.name:18} {figure.microseconds:10.2f} "
            f"{'' if speed is None else f'{speed:.1f}':>7} {figure.ratio:8.2f}  "
            f"{figure.what}; against: {figure.rival} ({figure.rival_microseconds:.2f} us)"
        )
