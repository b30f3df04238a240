"""Models that are wrong on purpose: refused with node, value and what is allowed, or harmless."""

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
        ("ReduceMean", {"axes": "abc"}, "attribute 'axes' is a text, a list of whole numbers"),
        ("DepthToSpace", {"blocksize": 2.0}, "'block_size' is a number with a point, a whole"),
        ("DepthToSpace", {"blocksize": 2, "mode": 3}, "'mode' is a whole number, a text"),
        ("ConstantOfShape", {"value": 1.0}, "attribute 'value' is a number with a point, a tensor"),
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


def test_names_do_not_reach_the_terminal_raw(tmp_path: Path) -> None:
    node = helper.make_node("Bad\x01\nOp", ["x"], ["y"], name="n\n\x1b[2J\x7f")
    text = refusal(network([node]), tmp_path)
    assert r"op type Bad\x01\nOp, node 'n\n\x1b[2J\x7f'" in text
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    node = helper.make_node("Relu", ["q\x1b[1m"], ["y"])
    assert r"input 'q\x1b[1m'" in refusal(network([node]), tmp_path)
    node = helper.make_node("Relu", ["x"], ["z"])
    model = network([node])
    model.graph.output[0].name = "y\x1b[2J"
    assert r"output 'y\x1b[2J'" in refusal(model, tmp_path)


@pytest.mark.parametrize(
    ("op", "attributes", "second", "said"),
    [
        ("Expand", {}, [2**40, 3, 8, 8], ["1099511627776x3x8x8", "281474976710656 bytes"]),
        ("Conv", {"strides": [0, 1]}, KERNEL, ["'strides'", "0", "1 to 16777216"]),
        ("Conv", {"pads": [0, 2**62, 0, 0]}, KERNEL, [str(2**62), "0 to 16777216"]),
        ("MaxPool", {"kernel_shape": [0, 2]}, None, ["'kernel_shape'", "0", "1 to 16777216"]),
        ("TopK", {}, [10**12], ["k is 1000000000000", "8 elements"]),
        ("TopK", {}, [-3], ["k is -3", "8 elements"]),
        ("DepthToSpace", {"blocksize": 0}, None, ["block_size is 0", "1 or more"]),
        ("DepthToSpace", {"blocksize": 2}, None, ["block_size is 2", "3 channels"]),
        ("SpaceToDepth", {"blocksize": 2**40}, None, ["block_size is 1099511627776", "8"]),
    ],
)
def test_refusals_say_value_and_what_is_allowed(
    tmp_path: Path, op: str, attributes: dict[str, Any], second: Any, said: list[str]
) -> None:
    inputs = ["x"] if second is None else ["x", "s"]
    node = helper.make_node(op, inputs, ["y"], name="here", **attributes)
    tensors = {} if second is None else {"s": np.asarray(second)}
    text = refusal(network([node], **tensors), tmp_path)
    assert "'here'" in text
    for part in said:
        assert part in text


def test_uneven_parts_need_their_sizes_before_opset_18(tmp_path: Path) -> None:
    node = helper.make_node("Split", ["x"], ["y", "z"], name="here", axis=1)
    model = network([node])
    text = refusal(model, tmp_path)
    assert "'here'" in text
    assert "3 elements do not make 2 equal parts" in text
    model.opset_import[0].version = 18
    model.graph.node[0].attribute.add(name="num_outputs", type=onnx.AttributeProto.INT, i=2)
    convert(model, tmp_path / "m.om")


@pytest.mark.parametrize("scale", [0.0, float("nan"), 1e30, -1.0])
def test_resize_says_its_scale(tmp_path: Path, scale: float) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], name="here")
    text = refusal(network([node], s=np.array([1, 1, scale, 1], np.float32)), tmp_path)
    assert "axis 2" in text
    assert "'here'" in text
    assert "above 0" in text
