"""ONNX networks of the tests: seeded random CNNs, small networks, and one with real weights.

Owns: the generators. Must never import the package under test or run a network.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass
class Network:
    """A network under construction; tensors are named by what makes them."""

    seed: int
    opset: int = 17
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def feed(self, array: Array, name: str = "x") -> str:
        """Add a graph input with the value it gets in the test."""
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def image(self, *shape: int, name: str = "x") -> str:
        """Add a float input with random values."""
        return self.feed(self.rng.standard_normal(shape).astype(np.float32), name)

    def const(self, array: Array) -> str:
        """Add an initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values: int) -> str:
        """Add an int64 list."""
        return self.const(np.array(values, np.int64))

    def weight(self, *shape: int) -> str:
        """Add float weights scaled so that values keep their size from layer to layer."""
        fan_in = max(1, int(np.prod(shape[1:])))
        scale = np.sqrt(2.0 / fan_in)
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; returns its first output (others have the suffix _1, _2 ...)."""
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n_{name}", **attributes))
        return name

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Finish the model; types and shapes of the outputs are inferred."""
        infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(
            self.nodes, f"net_{self.seed}", self.inputs, infos, initializer=self.weights
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def _activation(net: Network, x: str, channels: int) -> str:
    kinds = ["Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "HardSigmoid", "PRelu", "Clip"]
    if net.opset >= 14:
        kinds.append("HardSwish")
    kind = net.rng.choice(kinds)
    if kind == "PRelu":
        return net.add("PRelu", x, net.weight(channels, 1, 1))
    if kind == "Clip":
        low, high = np.float32(-0.5), np.float32(1.5)
        return net.add("Clip", x, net.const(low), net.const(high))
    if kind in ("LeakyRelu", "Elu", "HardSigmoid"):
        return net.add(kind, x, alpha=float(net.rng.uniform(0.05, 0.4)))
    return net.add(str(kind), x)


def _padding(net: Network, kernel: list[int]) -> dict[str, Any]:
    if net.rng.random() < 0.4:
        return {"auto_pad": str(net.rng.choice(["SAME_UPPER", "SAME_LOWER"]))}
    return {"pads": [int(net.rng.integers(0, k)) for k in kernel * 2]}


def _conv(net: Network, x: str, channels: int) -> tuple[str, int]:
    rng = net.rng
    kernel = [int(rng.integers(1, 6)), int(rng.integers(1, 6))]
    kind = rng.choice(["dense", "grouped", "depthwise"], p=[0.5, 0.2, 0.3])
    out = int(rng.integers(4, 40))
    groups = 1
    if kind == "depthwise":
        out = groups = channels
    elif kind == "grouped" and channels % 2 == 0:
        groups, out = 2, out + out % 2
    weight = net.weight(out, channels // groups, *kernel)
    inputs = [x, weight]
    if rng.random() < 0.7:
        inputs.append(net.const(rng.standard_normal(out).astype(np.float32) * 0.1))
    attributes = _padding(net, kernel)
    if "pads" in attributes and rng.random() < 0.3:
        attributes["dilations"] = [2, 1]
        attributes["pads"] = [p + 2 for p in attributes["pads"]]
    strides = [int(s) for s in rng.choice([1, 1, 2], 2)]
    y = net.add("Conv", *inputs, kernel_shape=kernel, strides=strides, group=groups, **attributes)
    return y, out


def _batch_norm(net: Network, x: str, channels: int) -> str:
    rng = net.rng
    values = [rng.uniform(0.5, 1.5, channels), rng.normal(0, 0.2, channels)]
    values += [rng.normal(0, 0.2, channels), rng.uniform(0.5, 2, channels)]
    names = [net.const(v.astype(np.float32)) for v in values]
    return net.add("BatchNormalization", x, *names, epsilon=1e-4)


def _pool(net: Network, x: str) -> str:
    rng = net.rng
    kernel = [int(k) for k in rng.integers(2, 4, 2)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [int(rng.integers(1, 3)), 2]}
    attributes["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    attributes["ceil_mode"] = int(rng.integers(0, 2))
    if rng.random() < 0.5:
        return net.add("MaxPool", x, **attributes)
    return net.add("AveragePool", x, count_include_pad=int(rng.integers(0, 2)), **attributes)


def _residual(net: Network, x: str, channels: int) -> str:
    """A branch that keeps the shape, joined by addition, or a gate of one value per channel."""
    if net.rng.random() < 0.5:
        weight = net.weight(channels, channels, 3, 3)
        branch = net.add("Conv", x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return net.add("Add", _activation(net, branch, channels), x)
    squeezed = net.add("GlobalAveragePool", x)
    gate = net.add("Conv", squeezed, net.weight(channels, channels, 1, 1), kernel_shape=[1, 1])
    return net.add("Mul", x, net.add("Sigmoid", gate))


def _split_and_join(net: Network, x: str, channels: int) -> tuple[str, int]:
    """Two branches over the same input, concatenated; sometimes channels change their order."""
    left = net.add("Conv", x, net.weight(6, channels, 1, 1), kernel_shape=[1, 1])
    right = net.add("Conv", x, net.weight(5, channels, 3, 3), kernel_shape=[3, 3], pads=[1] * 4)
    y = net.add("Concat", left, right, axis=1)
    if net.rng.random() < 0.5:
        turned = net.add("Transpose", y, perm=[0, 2, 3, 1])
        y = net.add("Transpose", net.add("Relu", turned), perm=[0, 3, 1, 2])
    return y, 11


def _head(net: Network, x: str, channels: int) -> str:
    classes = int(net.rng.integers(2, 12))
    kind = net.rng.integers(0, 3)
    if kind == 0:
        flat = net.add("Flatten", net.add("GlobalAveragePool", x))
        y = net.add("Gemm", flat, net.weight(classes, channels), net.weight(classes), transB=1)
    elif kind == 1:
        flat = net.add("ReduceMean", x, axes=[2, 3], keepdims=0)
        y = net.add("MatMul", flat, net.weight(channels, classes))
        y = net.add("Add", y, net.weight(classes))
    else:
        pooled = net.add("GlobalMaxPool", x)
        shape = net.add("Shape", pooled)
        batch = net.add("Gather", shape, net.ints(0), axis=0)
        target = net.add("Concat", batch, net.ints(channels), axis=0)
        flat = net.add("Reshape", pooled, target)
        y = net.add("Gemm", flat, net.weight(channels, classes), alpha=0.5)
    return net.add("Softmax", y, axis=1)


def random_cnn(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A CNN of 3 to 8 blocks; the seed decides everything. Returns the model and its input."""
    opset = [11, 12, 13, 17][seed % 4]
    net = Network(seed, opset)
    channels = int(net.rng.integers(1, 5))
    size = [int(v) for v in net.rng.integers(20, 49, 2)]
    x = net.image(int(net.rng.integers(1, 3)), channels, *size)
    for _ in range(int(net.rng.integers(3, 9))):
        kind = net.rng.choice(["conv", "conv", "residual", "pool", "join"])
        if kind == "residual":
            x = _residual(net, x, channels)
        elif kind == "join":
            x, channels = _split_and_join(net, x, channels)
        elif kind == "pool":
            x = _pool(net, x)
        else:
            x, channels = _conv(net, x, channels)
            if net.rng.random() < 0.5:
                x = _batch_norm(net, x, channels)
            if opset < 14 and net.rng.random() < 0.3:  # HardSwish as exporters write it out
                three, six = net.const(np.float32(3)), net.const(np.float32(6))
                gate = net.add("Clip", net.add("Add", x, three), net.const(np.float32(0)), six)
                x = net.add("Div", net.add("Mul", x, gate), six)
            else:
                x = _activation(net, x, channels)
    features = x
    return net.model(_head(net, x, channels), features), net.feeds


RAPIDOCR = {
    "detection": "ch_PP-OCRv4_det_infer.onnx",
    "recognition": "ch_PP-OCRv4_rec_infer.onnx",
    "angle": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
}


def rapidocr(kind: str, shape: tuple[int, ...]) -> onnx.ModelProto | None:
    """A network inside rapidocr-onnxruntime, dims of its input fixed; None without the package."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        return None
    model = onnx.load(Path(spec.origin).parent / "models" / RAPIDOCR[kind])
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, shape, strict=True):
        dim.dim_value = size
    return model
