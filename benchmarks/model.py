"""Whole networks against onnxruntime and eager torch: medians in milliseconds and ratios of speed.

For each number of threads one process of its own; in it all runtimes run each network in turn, and
times are compared within that process only. Fields are called NETWORK_bBATCH_tTHREADS_WHO; ratios
end in _vs_WHO (above 1: faster than that one), the least of all cases is `NETWORK_vs_WHO`. Without
torch (PYTHONPATH=... where it lies) the field `torch` says so and its ratios are missing.

NETWORK_WHO_load_ms is the time from a file to a model that can run, NETWORK_WHO_peak_mb how much
memory a process needed for loading and one run beyond what it had before; one process each.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Run, environment, medians_ms, onnxruntime_session

ROOT = Path(__file__).resolve().parents[1]
THREADS = (1, 2)
BATCHES = (1, 8)
TURNS = {1: 9, 8: 4}
LOADS = 5  # processes of each runtime
FILES = {"ours": "ours.om", "onnxruntime": "source.onnx"}
# (network, variant) against the runtime or the other variant whose speed is the yardstick.
FP32 = ("resnet50", "mobilenet_v2")
NO_VNNI = "this CPU has no AVX-512 VNNI: 8-bit networks take the general path"


def measure() -> dict[str, Any]:
    """All cases of all thread counts."""
    figures: dict[str, Any] = {}
    for threads in THREADS:
        figures |= _process(threads, str(threads))
    figures |= _loads()
    for ratio in ("vs_onnxruntime", "vs_torch", "vs_fp32"):
        for network in (*FP32, *(f"{n}_{v}" for n in FP32 for v in ("fp16", "int8"))):
            cases = {
                k: v for k, v in figures.items() if k.startswith(f"{network}_b") and ratio in k
            }
            if cases:
                figures[f"{network}_{ratio}"] = min(cases.values())
    busy = figures.pop("resnet50_b8_t1_vs_torch", None)
    if busy is not None:  # its own bar: torch itself varies by a tenth there
        rest = [v for k, v in figures.items() if k.startswith("resnet50_b") and "vs_torch" in k]
        figures |= {"resnet50_vs_torch": min(rest), "resnet50_b8_t1_vs_torch": busy}
    return figures


def _process(threads: int, *arguments: str) -> Any:
    """What this module prints when it runs with these arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.model", *arguments],
        env=environment(threads), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def _has_vnni() -> bool:
    return "avx512_vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def _convert(model: Any, folder: Path, name: str) -> Path:
    import onnx

    from ascendrt import _ctl

    onnx.save(model, folder / "source.onnx")
    _ctl.convert(folder / "source.onnx", folder / f"{name}.om", "")
    return folder / f"{name}.om"


def _ours(model: Any, feeds: dict[str, Any], folder: Path, name: str) -> Run:
    import ascendrt

    loaded = ascendrt.Model(_convert(model, folder, name))
    return lambda: loaded(*feeds.values())


def _torch(model: Any, feeds: dict[str, Any], threads: int) -> Run | None:
    try:
        import torch

        from benchmarks.eager import Eager
    except ImportError:
        return None
    torch.set_num_threads(threads)
    eager = Eager(model)
    return lambda: eager(feeds)


def _case(network: str, batch: int, threads: int, folder: Path) -> dict[str, Any]:
    """One network at one batch size in all its variants."""
    from benchmarks import networks

    model, feeds = getattr(networks, network)(batch), {"x": networks.image(batch)}
    session = onnxruntime_session(model.SerializeToString(), threads)
    halves = {"x": feeds["x"].astype(np.float16)}
    runs = {
        "": _ours(model, feeds, folder, "fp32"),
        "_onnxruntime": lambda: session.run(None, feeds),
        "_fp16": _ours(networks.half(model), halves, folder, "fp16"),
    }
    torch = _torch(model, feeds, threads)
    if torch is not None:
        runs["_torch"] = torch
    if network == "resnet50" and _has_vnni():
        runs["_int8"] = _ours(networks.quantized(model, feeds), feeds, folder, "int8")
    ms = medians_ms(runs, TURNS[batch])
    suffix = f"b{batch}_t{threads}"
    figures: dict[str, Any] = {
        f"{network}_{suffix}{who or '_ours'}_ms": value for who, value in ms.items()
    }
    figures[f"{network}_{suffix}_vs_onnxruntime"] = ms["_onnxruntime"] / ms[""]
    figures[f"{network}_fp16_{suffix}_vs_fp32"] = ms[""] / ms["_fp16"]
    figures |= {} if torch else {"torch": "torch is missing: no comparison with it"}
    figures |= {} if _has_vnni() else {"int8": NO_VNNI}
    if torch is not None:
        figures[f"{network}_{suffix}_vs_torch"] = ms["_torch"] / ms[""]
    if "_int8" in ms:
        figures[f"{network}_int8_{suffix}_vs_onnxruntime"] = ms["_onnxruntime"] / ms["_int8"]
    return figures


def _status_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6


def _load(file: Path) -> dict[str, float]:
    """Loads a file and runs it once."""
    import ascendrt

    x = np.load(file.with_name("x.npy"))
    if file.suffix == ".onnx":
        import_module("onnxruntime")  # not part of the time
        before, start = _status_mb("VmRSS"), time.perf_counter()
        session = onnxruntime_session(file, 1)
        load_ms = (time.perf_counter() - start) * 1e3
        session.run(None, {"x": x})
    else:
        with ascendrt.Device(0):
            before, start = _status_mb("VmRSS"), time.perf_counter()
            with ascendrt.Model(file) as loaded:
                load_ms = (time.perf_counter() - start) * 1e3
                loaded(x)
    return {"load_ms": load_ms, "peak_mb": _status_mb("VmHWM") - before}


def _loads() -> dict[str, float]:
    """Loading each network at batch 1, by the runtimes in turn."""
    from benchmarks import networks

    figures: dict[str, float] = {}
    for network in FP32:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _convert(getattr(networks, network)(1), folder, "ours")
            np.save(folder / "x.npy", networks.image(1))
            seen = [
                {who: _process(1, str(folder / file)) for who, file in FILES.items()}
                for _ in range(LOADS)
            ]
        for who in FILES:
            for field in ("load_ms", "peak_mb"):
                middle = statistics.median(turn[who][field] for turn in seen)
                figures[f"{network}_{who}_{field}"] = middle
    return figures


def _child(threads: int) -> None:
    import ascendrt

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ascendrt.Device(0):
        for network in FP32:
            for batch in BATCHES:
                figures |= _case(network, batch, threads, Path(folder))
    print(json.dumps(figures))


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        _child(int(sys.argv[1]))
    else:
        print(json.dumps(_load(Path(sys.argv[1]))))
