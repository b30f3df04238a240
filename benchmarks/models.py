"""How far models differ from onnxruntime: twenty random CNNs and the text-angle classifier.

Takes the same path as the tests in tests/differential: ONNX file, OM file, execution in a process
without onnx and onnxruntime.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

DIFFERENTIAL = Path(__file__).resolve().parents[1] / "tests" / "differential"
HEIGHT, WIDTH = 48, 192


def measure() -> dict[str, float]:
    """Largest max|a-b| / max|b| of each group."""
    sys.path.insert(0, str(DIFFERENTIAL))
    paths, networks = import_module("differential"), import_module("networks")
    made = {f"cnn_{seed}": networks.random_cnn(seed) for seed in range(20)}
    noise = np.random.default_rng(5).standard_normal((1, 3, HEIGHT, WIDTH)).astype(np.float32)
    made["angle"] = (networks.rapidocr("angle", (1, 3, HEIGHT, WIDTH)), {"x": noise})
    worst = {"cnn_difference": 0.0, "angle_difference": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, feeds) in made.items():
            paths.convert(model, Path(folder) / f"{name}.om")
            paths.put_inputs(Path(folder) / f"{name}.om", feeds)
        paths.execute(Path(folder))
        for name, network in made.items():
            got = paths.outputs(Path(folder) / f"{name}.om")
            pairs = zip(got, paths.reference(*network), strict=True)
            field = "angle_difference" if name == "angle" else "cnn_difference"
            worst[field] = max([worst[field], *(paths.distance(a, b) for a, b in pairs)])
    return worst
