"""Models that are wrong on purpose are refused by the names of the node and of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import convert
from onnx import TensorProto, helper

from ascendrt import _ctl

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def network(nodes: list[onnx.NodeProto], **tensors: Any) -> onnx.ModelProto:
    """A model with one float input x of 1x3x8x8 and constants by name."""
    constants = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()]
    x = helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def refusal(model: onnx.ModelProto, tmp_path: Path) -> str:
    """The text that a conversion refuses the model with."""
    om = tmp_path / "m.om"
    with pytest.raises(_ctl.ConvertError) as caught:
        convert(model, om)
    assert not om.exists()
    return str(caught.value)


KERNEL = np.ones((1, 3, 1, 1), np.float32)


@pytest.mark.parametrize(
    ("op", "attributes", "said"),
    [
        ("Conv", {"strides": "abc"}, "attribute 'strides' is a text, a list of whole numbers"),
        ("Conv", {"strides": 2}, "attribute 'strides' is a whole number, a list of whole numbers"),
        ("Conv", {"group": 1.0}, "attribute 'group' is a number with a point, a whole number"),
        ("Conv", {"auto_pad": [1, 2]}, "attribute 'auto_pad' is a list of whole numbers, a text"),
        ("Concat", {"axis": 1.5}, "attribute 'axis' is a number with a point, a whole number"),
        ("Flatten", {"axis": "1"}, "attribute 'axis' is a text, a whole number"),
        ("Gemm", {"alpha": 2}, "attribute 'alpha' is a whole number, a number with a point"),
        ("LeakyRelu", {"alpha": "x"}, "attribute 'alpha' is a text, a number with a point"),
    ],
)
def test_attribute_of_a_wrong_type(
    tmp_path: Path, op: str, attributes: dict[str, Any], said: str
) -> None:
    inputs = {"Conv": ["x", "w"], "Concat": ["x", "x"], "Gemm": ["w", "w"]}.get(op, ["x"])
    node = helper.make_node(op, inputs, ["y"], name="here", **attributes)
    text = refusal(network([node], w=KERNEL), tmp_path)
    assert f"op type {op}, node 'here'" in text
    assert said in text


def test_attribute_that_declares_another_type(tmp_path: Path) -> None:
    node = helper.make_node("Flatten", ["x"], ["y"], name="here", axis=1)
    node.attribute[0].type = onnx.AttributeProto.FLOAT
    text = refusal(network([node]), tmp_path)
    assert "attribute 'axis'" in text
    assert "declares" in text


def test_attribute_without_type(tmp_path: Path) -> None:
    """Old exporters leave the type out: the field that is filled tells it."""
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=2)
    node.attribute[0].type = onnx.AttributeProto.UNDEFINED
    empty = helper.make_node("Transpose", ["y"], ["z"])
    empty.attribute.add(name="perm")  # an empty list
    model = network([node, empty])
    model.graph.output[0].name = "z"
    convert(model, tmp_path / "m.om")
