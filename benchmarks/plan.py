"""Memory plans of well-known networks, and what loading and a first run take beside onnxruntime.

planned / bound: the block of the plan over the most bytes that are alive at one step. Load time,
time of the first run and peak memory are taken in a process of their own per model and runtime;
the peak counts what the process holds beyond what it held before it loaded the model.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import networks

ROUNDS = 5

OURS = """
import ascendrt
device = ascendrt.Device(0)
def load(): return ascendrt.Model({om!r})
def run(model): return model(*feeds.values())
"""
RIVAL = """
import onnxruntime
def load(): return onnxruntime.InferenceSession({onnx!r}, providers=["CPUExecutionProvider"])
def run(model): return model.run(None, feeds)
"""
TASK = """
import json, re, time
import numpy as np
feeds = dict(np.load({feeds!r}))
{runtime}
def held(field):
    return int(re.search(field + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, start = held("VmRSS"), time.perf_counter()
model = load()
loaded = time.perf_counter()
run(model)
first = time.perf_counter()
figures = dict(load_s=loaded - start, first_run_s=first - loaded, peak_mb=held("VmHWM") - before)
print(json.dumps(figures))
"""


def measure() -> dict[str, float]:
    """Plans of four networks; load time and peak memory of the same at batch 1."""
    from ascendrt import _ctl

    made: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
        "resnet50": (networks.resnet50(), {networks.INPUT: networks.image(1)}),
        "resnet50_b8": (networks.resnet50(8), {networks.INPUT: networks.image(8)}),
        "mobilenet": (networks.mobilenet_v2(), {networks.INPUT: networks.image(1)}),
        "bert": (networks.bert(), networks.sentences()),
    }
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for net, (model, feeds) in made.items():
            onnx.save(model, folder / f"{net}.onnx")
            _ctl.convert(folder / f"{net}.onnx", folder / f"{net}.om", "")
            plan = _ctl.describe_om(folder / f"{net}.om")["plan"]
            figures[f"{net}_planned_mb"] = plan["planned_bytes"] / 1e6
            figures[f"{net}_planned_over_bound"] = plan["planned_bytes"] / plan["bound_bytes"]
            figures[f"{net}_activations_over_planned"] = (
                plan["activation_bytes"] / plan["planned_bytes"]
            )
            if net != "resnet50_b8":
                np.savez(folder / f"{net}.npz", **feeds)
                figures |= _costs(folder, net)
    figures["worst_planned_over_bound"] = max(figures[f"{net}_planned_over_bound"] for net in made)
    return figures


def _costs(folder: Path, net: str) -> dict[str, float]:
    """Medians for both runtimes, by `net_figure` and `net_figure_onnxruntime`."""
    results: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for suffix, runtime in (("", OURS), ("_onnxruntime", RIVAL)):
            chosen = runtime.format(om=str(folder / f"{net}.om"), onnx=str(folder / f"{net}.onnx"))
            task = TASK.format(feeds=str(folder / f"{net}.npz"), runtime=chosen)
            done = subprocess.run(
                [sys.executable, "-c", task],
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            )
            for figure, value in json.loads(done.stdout.splitlines()[-1]).items():
                results.setdefault(f"{net}_{figure}{suffix}", []).append(value)
    medians = {name: statistics.median(values) for name, values in results.items()}
    for figure in ("load_s", "first_run_s", "peak_mb"):
        ours, rival = medians[f"{net}_{figure}"], medians[f"{net}_{figure}_onnxruntime"]
        medians[f"{net}_{figure}_ratio"] = ours / rival
    return medians
