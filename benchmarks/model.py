"""Whole networks against onnxruntime and eager torch: medians in milliseconds, and ratios of speed.

For each number of threads one process of its own; in it all runtimes run each network in turn, and
times are compared within that process only. Fields are called NETWORK_bBATCH_tTHREADS_WHO; ratios
end in _vs_WHO (above 1: faster than that one), the least of all cases is `NETWORK_vs_WHO`. Without
torch (PYTHONPATH=... where it lies) the field `torch` says so and its ratios are missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Run, Times, environment, onnxruntime_session

ROOT = Path(__file__).resolve().parents[1]
THREADS = (1, 2)
BATCHES = (1, 8)
TURNS = {1: 15, 8: 5}
# (network, variant) against the runtime or the other variant whose speed is the yardstick.
FP32 = ("resnet50", "mobilenet_v2")
NO_VNNI = "this CPU has no AVX-512 VNNI: 8-bit networks take the general path"


def measure() -> dict[str, Any]:
    """All cases of all thread counts."""
    figures: dict[str, Any] = {}
    for threads in THREADS:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.model", str(threads)],
            env=environment(threads), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        figures |= json.loads(done.stdout.splitlines()[-1])
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


def _has_vnni() -> bool:
    return "avx512_vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def _ours(model: Any, feeds: dict[str, Any], om: Path, until: ExitStack) -> Run:
    """Converts the model into the file `om` and keeps it loaded."""
    import onnx

    import ascendrt
    from ascendrt import _ctl

    onnx.save(model, om.with_suffix(".onnx"))
    _ctl.convert(om.with_suffix(".onnx"), om, "")
    loaded = until.enter_context(ascendrt.Model(om))
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


def _case(network: str, batch: int, threads: int, folder: Path, until: ExitStack) -> dict[str, Any]:
    """One network at one batch size in all its variants."""
    from benchmarks import networks

    model, feeds = getattr(networks, network)(batch), {"x": networks.image(batch)}
    session = onnxruntime_session(model.SerializeToString(), threads)
    halves = {"x": feeds["x"].astype(np.float16)}
    runs = {
        "": _ours(model, feeds, folder / "fp32.om", until),
        "_onnxruntime": lambda: session.run(None, feeds),
        "_fp16": _ours(networks.half(model), halves, folder / "fp16.om", until),
    }
    torch = _torch(model, feeds, threads)
    if torch is not None:
        runs["_torch"] = torch
    if network == "resnet50" and _has_vnni():
        quantized = networks.quantized(model, feeds)
        runs["_int8"] = _ours(quantized, feeds, folder / "int8.om", until)
    times = Times(runs, TURNS[batch])
    suffix = f"b{batch}_t{threads}"
    figures: dict[str, Any] = {
        f"{network}_{suffix}{who or '_ours'}_ms": value for who, value in times.medians().items()
    }
    figures[f"{network}_{suffix}_vs_onnxruntime"] = times.speed("", "_onnxruntime")
    figures[f"{network}_fp16_{suffix}_vs_fp32"] = times.speed("_fp16", "")
    figures |= {} if torch else {"torch": "torch is missing: no comparison with it"}
    figures |= {} if _has_vnni() else {"int8": NO_VNNI}
    if torch is not None:
        figures[f"{network}_{suffix}_vs_torch"] = times.speed("", "_torch")
    if "_int8" in times:
        figures[f"{network}_int8_{suffix}_vs_onnxruntime"] = times.speed("_int8", "_onnxruntime")
    return figures


def _child(threads: int) -> None:
    import ascendrt

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ascendrt.Device(0):
        for network in FP32:
            for batch in BATCHES:
                with ExitStack() as until:
                    figures |= _case(network, batch, threads, Path(folder), until)
    print(json.dumps(figures))


if __name__ == "__main__":
    _child(int(sys.argv[1]))
