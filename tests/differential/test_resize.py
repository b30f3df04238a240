"""Sizes and places of resampled pictures where float32 and wider numbers part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import differential
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ascendrt import Device, Model

Array = np.ndarray[Any, Any]
DIMS = (3, 7, 10, 13, 40, 55)
SCALES = (0.1, 0.3, 0.6, 0.7, 0.9, 1.1, 1.2, 1.4, 1.7, 2.8, 3.3)


def resized(sizes: bool, **attributes: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Rows of every length, each resized by every scale, or to the size that the scale gives."""
    nodes: list[onnx.NodeProto] = []
    kept, outputs = [], []
    draw = np.random.default_rng(5)
    feeds = {f"x{n}": draw.standard_normal((1, 1, 2, n)).astype(np.float32) for n in DIMS}
    for dim in DIMS:
        for scale in SCALES:
            if dim * scale < 1 or dim in (int(dim * scale), round(dim * scale)):
                continue  # onnxruntime copies what keeps its size
            name = f"y{len(nodes)}"
            amount = [1, 1, 2, round(dim * scale)] if sizes else [1.0, 1.0, 1.0, scale]
            kind = np.int64 if sizes else np.float32
            kept.append(numpy_helper.from_array(np.array(amount, kind), f"{name}_by"))
            by = ["", "", f"{name}_by"] if sizes else ["", f"{name}_by"]
            nodes.append(helper.make_node("Resize", [f"x{dim}", *by], [name], **attributes))
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in feeds.items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept)
    opsets = [helper.make_opsetid("", 19)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


@pytest.mark.parametrize("sizes", [False, True])
@pytest.mark.parametrize(
    ("mode", "coordinates"),
    [("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel"),
     ("linear", "asymmetric"), ("cubic", "pytorch_half_pixel")],
)  # fmt: skip
def test_resized_as_onnxruntime_does(
    tmp_path: Path, sizes: bool, mode: str, coordinates: str
) -> None:
    """40 elements by a scale of 1.4 are 56, although the float32 next to 1.4 is less."""
    model, feeds = resized(
        sizes, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode="floor"
    )
    om = tmp_path / "net.om"
    differential.convert(model, om)
    with Device(), Model(om) as loaded:
        results = [np.array(y) for y in loaded(*feeds.values())]
    for got, expected in zip(results, differential.reference(model, feeds), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_cubic_samples_beside_the_picture(tmp_path: Path, padding: str, align: int) -> None:
    """With a border every neighbour is kept inside, not the place that is asked for."""
    draw = np.random.default_rng(6)
    x = draw.standard_normal((1, 2, 6, 7)).astype(np.float32)
    grid = draw.uniform(-1.6, 1.6, (1, 9, 8, 2)).astype(np.float32)
    node = helper.make_node(
        "GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode=padding, align_corners=align
    )
    model = differential.network(node, inputs={"x": [*x.shape], "g": [*grid.shape]})
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 20))
    om = tmp_path / "net.om"
    differential.convert(model, om)
    with Device(), Model(om) as loaded:
        (got,) = loaded(x, grid)
    (expected,) = differential.reference(model, {"x": x, "g": grid})
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
