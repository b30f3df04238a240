"""Writes the seeds of the fuzzers: small networks as ONNX, and as the OM files made of them.

Owns: the choice of networks. Run it when the writer changes: python tests/fuzz/make_corpus.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "differential"))
from networks import Network
from operators import CASES

from ascendrt import _ctl

HERE = Path(__file__).resolve().parent

# Operators with attributes, constants, bodies and shape arithmetic; the others differ by a name.
CHOSEN = (
    "Conv-depthwise", "Conv-grouped", "Conv-dilated", "Conv-1d", "MaxPool-plain",
    "MaxPool-dilated", "AveragePool-count", "BatchNormalization", "InstanceNormalization",
    "LayerNormalization", "Gemm", "MatMul", "ReduceSum-axes-input", "Squeeze-input",
    "Unsqueeze-input", "Reshape", "shape-arithmetic", "Slice", "Pad-constant", "Pad-reflect",
    "Pad-axes", "Split-input", "Split-even", "Gather", "Expand", "Tile", "ConstantOfShape",
    "Constant-forms", "outputs-of-every-kind", "double-and-int-views",
)  # fmt: skip
# These also as models whose first dim only a run tells.
OPEN = ("Conv-depthwise", "LayerNormalization", "Gather")
MOST_BYTES = 6000


def main() -> None:
    """Write every chosen network that is small enough."""
    for kind in ("onnx", "om"):
        (HERE / "corpus" / kind).mkdir(parents=True, exist_ok=True)
    for name in CHOSEN:
        if name not in CASES:
            continue
        opset, builder = CASES[name]
        net = Network(7, opset)
        made = builder(net)
        model = net.model(*((made,) if isinstance(made, str) else made))
        source = HERE / "corpus" / "onnx" / f"{name}.onnx"
        onnx.save(model, source)
        target = HERE / "corpus" / "om" / f"{name}.om"
        _ctl.convert(source, target, "")
        opened = HERE / "corpus" / "om" / f"{name}-open.om"
        if name in OPEN:
            for value in model.graph.input:
                value.type.tensor_type.shape.dim[0].dim_param = "n"
            with tempfile.NamedTemporaryFile(suffix=".onnx") as free:
                onnx.save(model, free.name)
                _ctl.convert(Path(free.name), opened, "")
        for path in (source, target, *([opened] if name in OPEN else [])):
            if path.stat().st_size > MOST_BYTES:
                path.unlink()


if __name__ == "__main__":
    main()
