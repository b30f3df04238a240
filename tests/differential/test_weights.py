"""Weights that kernels hold packed reach the device only where something else reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import differential
import numpy as np
import pytest
from onnx import TensorProto

from benchmarks import networks

Array = np.ndarray[Any, Any]
WIDTH = 1024  # a weight of 4 MiB
# Peak of resident memory over that before, MiB, of loading a file and running it once.
PEAK = """
import json, sys
import numpy as np
import ascendrt
def status(field):
    text = open("/proc/self/status").read()
    return int(text.partition(field + ":")[2].split()[0]) / 1024
with ascendrt.Device(0):
    before = status("VmRSS")
    with ascendrt.Model(sys.argv[1]) as model:
        model(np.zeros((1, 1024), np.float32))
print(json.dumps(status("VmHWM") - before))
"""


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp16"])
def test_a_weight_that_is_multiplied_and_read(tmp_path: Path, mode: str) -> None:
    """The same constant as a packed matrix, as a table, under another name, and as an output."""
    b = networks.Builder(0)
    w = b.normal("w", WIDTH, WIDTH, scale=WIDTH**-0.5)
    only = b.normal("only", WIDTH, WIDTH, scale=WIDTH**-0.5)
    one = b.add("MatMul", "one", "x", w)
    row = b.add("Gather", "row", w, "i", axis=0)
    flat = b.add("Reshape", "flat", w, b.constant("shape", np.array([WIDTH * WIDTH], np.int64)))
    part = b.add("Gather", "part", flat, "i", axis=0)
    total = b.add("Add", "total", b.add("MatMul", "two", one, only), row)
    b.add("Add", networks.OUTPUT, total, b.add("Unsqueeze", "up", part, b.constant("axis",
          np.array([1], np.int64))))  # fmt: skip
    floats = TensorProto.FLOAT
    model = b.model(
        {"x": (floats, (1, WIDTH)), "i": (TensorProto.INT64, (1,))}, {networks.OUTPUT: (1, WIDTH)}
    )
    feeds = {"x": b.draw.standard_normal((1, WIDTH)).astype(np.float32),
             "i": np.array([WIDTH - 2], np.int64)}  # fmt: skip
    om = tmp_path / "w.om"
    differential.convert(model, om, f"precision_mode={mode}")
    differential.put_inputs(om, feeds)
    differential.execute(tmp_path)
    expected = differential.reference(model, feeds)[0]
    bar = 1e-5 if mode != "force_fp16" else 2e-3
    assert differential.distance(differential.outputs(om)[0], expected) < bar


def test_loading_keeps_one_copy_of_packed_weights(tmp_path: Path) -> None:
    """Sixteen layers of 4 MiB: the file's bytes go while the packed form grows."""
    b = networks.Builder(1)
    at = "x"
    for i in range(16):
        weight = b.normal(f"w{i}", WIDTH, WIDTH, scale=WIDTH**-0.5)
        at = b.add("MatMul", networks.OUTPUT if i == 15 else f"y{i}", at, weight)
    floats = TensorProto.FLOAT
    model = b.model({"x": (floats, (1, WIDTH))}, {networks.OUTPUT: (1, WIDTH)})
    om = tmp_path / "deep.om"
    differential.convert(model, om)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(om)], stdout=subprocess.PIPE, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) < 64 * 1.5  # three copies would be 192
