"""An Inception-like block of four branches on 1, 2 and 4 streams, against what is possible.

bound(n) is the larger of the longest branch and of all core time over the cores; with one stream it
is the sum of all kernels. Kernels take the times and cores written here; everything else costs
nothing. The outputs are compared with onnxruntime. `efficiency` is the worst bound(n) / time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import modelled

SOC, CORES = "Ascend910B1", 24
CHANNELS, SIZE = 8, 12
# Operators of a branch: (kind, microseconds, cores). The pool runs on vector cores. In the order in
# which streams get them: the longest first.
BRANCHES: dict[str, list[tuple[str, float, int]]] = {
    "c": [("conv1", 50, 12), ("conv3", 125, 12), ("conv3", 125, 12)],
    "b": [("conv1", 50, 12), ("conv3", 200, 12)],
    "a": [("conv1", 150, 12)],
    "d": [("pool", 10, 12), ("conv1", 100, 12)],
}
STREAMS = (1, 2, 4)


def bound_us(streams: int) -> float:
    """The least time that n streams allow."""
    kernels = [kernel for branch in BRANCHES.values() for kernel in branch]
    if streams == 1:
        return sum(us for _, us, _ in kernels)
    core_time = sum(us * cores for kind, us, cores in kernels if kind != "pool")
    longest = max(sum(us for _, us, _ in branch) for branch in BRANCHES.values())
    return max(longest, core_time / CORES)


def measure() -> dict[str, object]:
    """Microseconds, bounds and efficiencies for each number of streams."""
    figures: dict[str, object] = {}
    draw = np.random.default_rng(7)
    feed = draw.standard_normal((1, CHANNELS, SIZE, SIZE)).astype(np.float32)
    efficiencies, differences = [], []
    timing = dict(modelled.NOTHING)
    for name, branch in BRANCHES.items():
        for i, (_, us, cores) in enumerate(branch):
            timing |= {f"op.{name}{i}.us": us, f"op.{name}{i}.cores": cores}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        program = modelled.build("branches", folder)
        made = [_branch(name, draw) for name in BRANCHES]
        files = [
            modelled.convert(model, folder, name)
            for name, model in zip(BRANCHES, made, strict=True)
        ]
        (folder / "input").write_bytes(feed.tobytes())
        expected = np.concatenate([_reference(model, feed).ravel() for model in made])
        for streams in STREAMS:
            printed = modelled.run(
                program, streams, folder / "input", folder / "output", *files,
                ASCENDRT_SOC=SOC, ASCENDRT_TIMING=modelled.settings(timing),
            )  # fmt: skip
            time_us = float(printed) * 1e3
            got = np.frombuffer((folder / "output").read_bytes(), np.float32)
            differences.append(float(np.abs(got - expected).max() / np.abs(expected).max()))
            efficiencies.append(bound_us(streams) / time_us)
            figures |= {f"time_{streams}_us": time_us, f"bound_{streams}_us": bound_us(streams)}
            figures[f"efficiency_{streams}"] = efficiencies[-1]
    return figures | {"efficiency": min(efficiencies), "difference": max(differences)}


def _branch(name: str, draw: np.random.Generator) -> Any:
    """The branch as an ONNX model; its operators are called <name>0, <name>1, ..."""
    from onnx import TensorProto, helper, numpy_helper

    shape = [1, CHANNELS, SIZE, SIZE]
    nodes, weights, at = [], [], "x"
    for i, (kind, _, _) in enumerate(BRANCHES[name]):
        into = "y" if i + 1 == len(BRANCHES[name]) else f"t{i}"
        width = 1 if kind == "conv1" else 3
        options: dict[str, Any] = {"kernel_shape": [width] * 2, "pads": [width // 2] * 4}
        inputs = [at]
        if kind != "pool":
            weight = draw.standard_normal((CHANNELS, CHANNELS, width, width)).astype(np.float32)
            weights.append(numpy_helper.from_array(weight, f"w{i}"))
            inputs.append(f"w{i}")
        operator = "MaxPool" if kind == "pool" else "Conv"
        nodes.append(helper.make_node(operator, inputs, [into], name=f"{name}{i}", **options))
        at = into
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, shape) for each in "xy"]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def _reference(model: Any, feed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    result: np.ndarray[Any, Any] = session.run(None, {"x": feed})[0]
    return result
