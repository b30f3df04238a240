"""A BERT of four blocks against onnxruntime and torch, in single and half precision.

One process per number of threads; in it the runtimes run in turn, so that all see the same machine.
Times are medians in milliseconds; ratios are above 1 where ours is faster. The torch
model consists of torch's own functions (linear, layer_norm, gelu, attention) with the weights of
the ONNX model. Without torch the field `torch` says so.
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
CASES = [(threads, batch) for threads in (1, 2) for batch in (1, 8)]
TURNS = {1: 15, 8: 5}
BLOCKS, HEADS = 4, 12

Array = np.ndarray[Any, Any]


def measure() -> dict[str, Any]:
    """All cases; the least ratio of each kind is the claim's."""
    figures: dict[str, Any] = {}
    for threads, batch in CASES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bert", str(threads), str(batch)],
            env=environment(threads), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        figures |= json.loads(done.stdout.splitlines()[-1])
    for ratio in ("vs_onnxruntime", "vs_torch", "fp16_vs_fp32", "fp16_cosine"):
        cases = [v for k, v in figures.items() if k.endswith(ratio)]
        if cases:
            figures[ratio] = min(cases)
    return figures


def cosine(a: Array, b: Array) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _ours(source: Path, feeds: dict[str, Array], mode: str, until: ExitStack) -> Run:
    import ascendrt
    from ascendrt import _ctl

    om = source.with_name(f"{mode}.om")
    _ctl.convert(source, om, f"precision_mode={mode}")
    loaded = until.enter_context(ascendrt.Model(om))
    return lambda: loaded(*feeds.values())


def _torch(source: Path, feeds: dict[str, Array], threads: int) -> Run | None:
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
        from torch.nn import functional as f  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    import onnx
    from onnx import numpy_helper

    torch.set_num_threads(threads)
    w = {
        t.name: torch.from_numpy(numpy_helper.to_array(t).copy())
        for t in onnx.load(source).graph.initializer
    }

    def dense(name: str, x: Any) -> Any:
        return f.linear(x, w[f"{name}_t"], w[f"{name}_b"])

    def norm(name: str, x: Any) -> Any:
        return f.layer_norm(x, x.shape[-1:], w[f"{name}_w"], w[f"{name}_b"], 1e-12)

    for name in [name for name in w if f"{name[:-2]}_b" in w and w[name].dim() == 2]:
        w[f"{name[:-2]}_t"] = w[name].T.contiguous()

    def run() -> list[Array]:
        with torch.inference_mode():
            ids, mask = (torch.from_numpy(array) for array in feeds.values())
            x = norm("embedded_norm", w["words"][ids] + w["places"])
            gone = (1 - mask[:, None, None].float()) * -10000
            for i in range(BLOCKS):
                parts = (dense(f"b{i}_a_{p}", x).unflatten(-1, (HEADS, -1)) for p in "qkv")
                q, k, v = (part.transpose(1, 2) for part in parts)
                mixed = f.scaled_dot_product_attention(q, k, v, gone)
                y = dense(f"b{i}_a_out", mixed.transpose(1, 2).flatten(2))
                x = norm(f"b{i}_norm1", x + y)
                y = dense(f"b{i}_down", f.gelu(dense(f"b{i}_up", x)))
                x = norm("y" if i + 1 == BLOCKS else f"b{i}_norm2", x + y)
            return [x.numpy()]

    return run


def _case(threads: int, batch: int) -> dict[str, Any]:
    import onnx

    import ascendrt
    from benchmarks import networks

    feeds = networks.sentences(batch)
    with tempfile.TemporaryDirectory() as folder, ascendrt.Device(0), ExitStack() as until:
        source = Path(folder) / "bert.onnx"
        onnx.save(networks.bert(BLOCKS, batch), source)
        session = onnxruntime_session(source, threads)
        runs: dict[str, Run] = {
            "ours": _ours(source, feeds, "must_keep_origin_dtype", until),
            "fp16": _ours(source, feeds, "force_fp16", until),
            "onnxruntime": lambda: session.run(None, feeds),
        }
        torch = _torch(source, feeds, threads)
        runs |= {"torch": torch} if torch else {}
        made = {who: run()[0] for who, run in runs.items()}
        times = Times(runs, TURNS[batch])
    case = f"b{batch}_t{threads}"
    figures: dict[str, Any] = {f"{case}_{who}_ms": value for who, value in times.medians().items()}
    figures[f"{case}_vs_onnxruntime"] = times.speed("ours", "onnxruntime")
    figures[f"{case}_fp16_vs_fp32"] = times.speed("fp16", "ours")
    figures[f"{case}_fp16_cosine"] = cosine(made["fp16"], made["onnxruntime"])
    if "torch" not in times:
        return figures | {"torch": "torch is missing: no comparison with it"}
    if cosine(made["torch"], made["onnxruntime"]) < 1 - 1e-6:
        raise RuntimeError("the torch model computes something else")
    return figures | {f"{case}_vs_torch": times.speed("ours", "torch")}


if __name__ == "__main__":
    print(json.dumps(_case(int(sys.argv[1]), int(sys.argv[2]))))
