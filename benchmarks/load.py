"""Loading a model beside onnxruntime: time and peak memory, BERT and ResNet-50.

One process per runtime and round, in turn. load_ms: from a file to a model that can run; peak_mb:
the most resident memory of loading and one run beyond what the process had before. Ratios are of
medians, onnxruntime's by ours for times, ours by onnxruntime's for memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
NETWORKS = ("bert", "resnet50")
ROUNDS = 5
THREADS = 2


def measure() -> dict[str, Any]:
    """Both networks; `time` and `memory` are the worse ratio."""
    from ascendrt import _ctl

    figures: dict[str, Any] = {}
    for network in NETWORKS:
        with tempfile.TemporaryDirectory() as name:
            onnx_file, om = Path(name) / "n.onnx", Path(name) / "n.om"
            _write(network, onnx_file)
            _ctl.convert(onnx_file, om, "")
            seen: dict[str, list[dict[str, float]]] = {"ours": [], "onnxruntime": []}
            for _ in range(ROUNDS):
                seen["ours"].append(_process(om))
                seen["onnxruntime"].append(_process(onnx_file))
        for who, rounds in seen.items():
            for field in ("load_ms", "peak_mb"):
                middle = statistics.median(turn[field] for turn in rounds)
                figures[f"{network}_{who}_{field}"] = round(middle, 1)
        ours, rival = (f"{network}_{who}_" for who in ("ours", "onnxruntime"))
        figures[f"{network}_time"] = figures[f"{rival}load_ms"] / figures[f"{ours}load_ms"]
        figures[f"{network}_memory"] = figures[f"{ours}peak_mb"] / figures[f"{rival}peak_mb"]
    figures["time"] = min(figures[f"{network}_time"] for network in NETWORKS)
    figures["memory"] = max(figures[f"{network}_memory"] for network in NETWORKS)
    return figures


def _write(network: str, file: Path) -> None:
    import onnx

    from benchmarks import networks

    if network == "bert":
        model, feeds = networks.bert(), networks.sentences()
    else:
        model, feeds = networks.resnet50(), {networks.INPUT: networks.image(1)}
    onnx.save(model, file)
    np.savez(file.with_name("feeds.npz"), **feeds)  # type: ignore[arg-type]


def _process(file: Path) -> dict[str, float]:
    environment = os.environ | {
        "ASCENDRT_BACKEND": "emu",
        "ASCENDRT_MACHINE": "private",
        "ASCENDRT_COMPUTE_THREADS": str(THREADS),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", str(file)],
        env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _status_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6


def _load(file: Path) -> dict[str, float]:
    with np.load(file.with_name("feeds.npz")) as stored:
        feeds = {name: stored[name] for name in stored.files}
    if file.suffix == ".onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        before, start = _status_mb("VmRSS"), time.perf_counter()
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        load_ms = (time.perf_counter() - start) * 1e3
        session.run(None, feeds)
    else:
        import ascendrt

        with ascendrt.Device(0):
            before, start = _status_mb("VmRSS"), time.perf_counter()
            with ascendrt.Model(file) as loaded:
                load_ms = (time.perf_counter() - start) * 1e3
                loaded(*feeds.values())
    return {"load_ms": load_ms, "peak_mb": _status_mb("VmHWM") - before}


if __name__ == "__main__":
    print(json.dumps(_load(Path(sys.argv[1]))))
