"""Conversion, execution in a separate process, and the reference runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from ascendrt import _ctl

HERE = Path(__file__).resolve().parent
Array = np.ndarray[Any, Any]


def convert(model: onnx.ModelProto, om: Path, options: str = "") -> None:
    """Write the ONNX file beside the target and convert it."""
    source = om.with_suffix(".onnx")
    onnx.save(model, source)
    _ctl.convert(source, om, options)


def put_inputs(om: Path, feeds: Mapping[str, Array]) -> None:
    """Store the inputs of a model where execute.py looks for them."""
    np.savez(om.with_suffix(".in.npz"), *feeds.values())


def execute(directory: Path, **variables: str) -> None:
    """Run every model of the directory in one fresh process without onnx and onnxruntime."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")}
    environment |= {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"} | variables
    done = subprocess.run(
        [sys.executable, HERE / "execute.py", directory],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "foreign:", (
        "the executing process loads a foreign runtime"
    )


def outputs(om: Path) -> list[Array]:
    """What execute.py got from a model."""
    error = om.with_suffix(".error")
    assert not error.exists(), error.read_text()
    with np.load(om.with_suffix(".out.npz")) as stored:
        return [stored[name] for name in stored.files]


def check_bits_on_threads(folder: Path, names: Collection[str], scratch: Path) -> None:
    """One thread and three give the bits that a run of the models of the folder gave."""
    for name in names:
        for suffix in (".om", ".in.npz"):
            (scratch / f"{name}{suffix}").symlink_to(folder / f"{name}{suffix}")
    for threads in ("1", "3"):
        execute(scratch, ASCENDRT_COMPUTE_THREADS=threads)
        for name in names:
            got, expected = outputs(scratch / f"{name}.om"), outputs(folder / f"{name}.om")
            assert all(a.tobytes() == b.tobytes() for a, b in zip(got, expected, strict=True)), name


def network(
    *nodes: onnx.NodeProto, inputs: dict[str, list[str | int]], **weights: Array
) -> onnx.ModelProto:
    """A network whose output is called y; names in shapes are open dims."""
    given = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in inputs.items()
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(list(nodes), "net", given, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """What onnxruntime gets."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))


def distance(got: Array, expected: Array) -> float:
    """max |a - b| / max |b|, after a check that both describe the same kind of array."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    a, b = got.astype(np.float64), expected.astype(np.float64)
    assert np.isfinite(a).all() == np.isfinite(b).all()
    top = float(np.abs(b).max(initial=0.0))
    return float(np.abs(a - b).max(initial=0.0)) / (top if top > 0 else 1.0)
