"""What the Python module `acl` adds to a call: against raw METH_FASTCALL functions and np.empty.
And what the objects of ascendrt add to `acl` (benchmarks/objects.py).

All rivals run in one process, their rounds alternate, the best round of each counts (the machine
that measures is shared: a slower round tells of the neighbours). Must never compare two runs.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from timeit import Timer
from types import ModuleType
from typing import Any

ROUNDS = 15
CALLS = 20_000
REQUESTS = 1_000
RECORDS = 1_000_000
SIZES = {"4k": 4096, "64k": 64 << 10, "1m": 1 << 20}


def measure() -> dict[str, object]:
    """Return nanoseconds per call and their ratios."""
    os.environ.setdefault("ASCENDRT_MACHINE", "private")
    with tempfile.TemporaryDirectory() as name:
        rivals = _build(Path(name))
    import acl

    from ascendrt import _backend

    acl.init()
    acl.rt.set_device(0)
    stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]
    best = _alternate(_timers(acl, rivals, stream, event))
    added = _objects(acl, stream, event)
    library = next(p for p in _backend.load().libraries if p.endswith("libascendcl.so"))
    handoff_ns = min(rivals.handoff(library, event, stream, CALLS) for _ in range(ROUNDS))
    ratios = {
        f"{call}_ratio": best[f"{call}_ns"] / best[f"{raw}_ns"]
        for call, raw in (
            ("get_run_mode", "raw_none_to_pair"),
            ("peek_at_last_error", "raw_int_to_code"),
            ("get_device", "raw_none_to_pair"),
            ("query_event_status", "raw_handle_to_pair"),
        )
    }
    # The two calls that ask the library for next to nothing show the module's own part.
    call_ratio = max(ratios["get_run_mode_ratio"], ratios["peek_at_last_error_ratio"])
    alloc = {f"alloc_{s}_ratio": best[f"alloc_{s}_ns"] / best[f"empty_{s}_ns"] for s in SIZES}
    noop_ns = best["raw_handle_to_pair_ns"]
    return {
        **best, **ratios, **added, "call_ratio": call_ratio,
        **alloc, "alloc_ratio": max(alloc.values()),
        "handoff_ns": handoff_ns,
        "record_synchronize_bar_ns": 8 * noop_ns + handoff_ns,
        "record_synchronize_ratio": best["record_synchronize_ns"] / (8 * noop_ns + handoff_ns),
        "million_records_s": _records(acl, stream, event),
    }  # fmt: skip


def _timers(acl: Any, rivals: ModuleType, stream: int, event: int) -> dict[str, Timer]:
    import numpy as np

    rt = acl.rt
    names = {"event": event, "stream": stream, "empty": np.empty, "byte": np.uint8}
    names |= {"record": rt.record_event, "sync": rt.synchronize_stream}

    def timer(statement: str, **more: object) -> Timer:
        return Timer(statement, globals={**names, **more})

    timers = {
        "raw_none_to_pair_ns": timer("f()", f=rivals.none_to_pair),
        "get_run_mode_ns": timer("f()", f=rt.get_run_mode),
        "get_device_ns": timer("f()", f=rt.get_device),
        "raw_handle_to_pair_ns": timer("f(event)", f=rivals.handle_to_pair),
        "query_event_status_ns": timer("f(event)", f=rt.query_event_status),
        "raw_int_to_code_ns": timer("f(0)", f=rivals.int_to_code),
        "peek_at_last_error_ns": timer("f(0)", f=rt.peek_at_last_error),
        "record_synchronize_ns": timer("record(event, stream); sync(stream)"),
    }
    for label, size in SIZES.items():
        timers[f"empty_{label}_ns"] = timer(f"empty({size}, byte)")
        pair = f"free(malloc({size}, 0)[0])"
        timers[f"alloc_{label}_ns"] = timer(pair, free=rt.free, malloc=rt.malloc)
    return timers


def _objects(acl: Any, stream: int, event: int) -> dict[str, object]:
    """Figures of the object layer, beside those of the calls it is made of."""
    from benchmarks import objects

    timers, rival = objects.memory_timers()
    best = _alternate(timers | objects.submit_timers(acl, stream, event))
    best |= _alternate(objects.pipeline_timers(acl), REQUESTS)
    return {
        **best,
        "object_memory_rival": rival,
        "object_memory_share": objects.memory_share(best),
        "object_record_ratio": best["object_record_ns"] / best["object_record_acl_ns"],
        "pipeline_added_us": (best["pipeline_ns"] - best["pipeline_by_hand_ns"]) / 1000,
    }


def _alternate(timers: dict[str, Timer], calls: int = 0) -> dict[str, float]:
    """Time each in turn, round after round; the best round counts."""
    best: dict[str, float] = {}
    calls = calls or CALLS
    for _ in range(ROUNDS):
        for key, timer in timers.items():
            elapsed_ns = timer.timeit(calls) / calls * 1e9
            best[key] = min(elapsed_ns, best.get(key, elapsed_ns))
    return best


def _records(acl: Any, stream: int, event: int) -> float:
    """Seconds for a million record_event calls; the best of three."""
    best = float("inf")
    for _ in range(3):
        record, numbers = acl.rt.record_event, range(RECORDS)
        start = time.perf_counter()
        for _ in numbers:
            record(event, stream)
        best = min(best, time.perf_counter() - start)
        acl.rt.synchronize_stream(stream)
    return best


def _build(folder: Path) -> ModuleType:
    """Compile the rivals and import them."""
    source = Path(__file__).with_suffix(".c")
    path = folder / f"pyacl_rivals{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [os.environ.get("CC", "cc"), "-O2", "-DNDEBUG", "-shared", "-fPIC"]
    command += [f"-I{sysconfig.get_path('include')}", "-o", str(path), str(source), "-ldl"]
    done = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the rivals do not compile (apt-get install -y gcc python3-dev):\n{done.stderr}")
    spec = importlib.util.spec_from_file_location("pyacl_rivals", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
