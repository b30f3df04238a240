"""Well-known networks with seeded random weights, as ONNX models.

Owns: the builders and the variants of a model (half precision, quantized). The seed decides every
weight, so a test and a benchmark see the same network. Must never run a network, except to find
the ranges that quantization needs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

INPUT = "x"
OUTPUT = "y"


@dataclass
class Builder:
    """A graph under construction; tensors and nodes are named by what they are."""

    seed: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng(self.seed)

    def constant(self, name: str, array: Array) -> str:
        """Add an initializer."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, name: str, *shape: int, scale: float) -> str:
        """Add normally distributed weights."""
        values = self.draw.standard_normal(shape, np.float32)
        return self.constant(name, values * np.float32(scale))

    def add(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, which has the node's name."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def model(
        self,
        inputs: Mapping[str, tuple[int, tuple[int, ...]]],
        outputs: Mapping[str, tuple[int, ...]],
        opset: int = 17,
    ) -> onnx.ModelProto:
        """Finish: inputs as element type and shape, outputs float of these shapes."""
        graph = helper.make_graph(
            self.nodes,
            f"net_{self.seed}",
            [helper.make_tensor_value_info(name, *how) for name, how in inputs.items()],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in outputs.items()
            ],
            initializer=self.weights,
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    # --- layers of convolutional networks ---

    def convolution(
        self,
        name: str,
        x: str,
        channels: tuple[int, int],
        kernel: int,
        stride: int,
        groups: int = 1,
    ) -> str:
        """Convolution without bias that keeps the size but for the stride."""
        into, out = channels
        fan_in = into // groups * kernel * kernel
        weight = self.normal(
            f"{name}_w", out, into // groups, kernel, kernel, scale=np.sqrt(2 / fan_in)
        )
        return self.add(
            "Conv", name, x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[kernel // 2] * 4, group=groups,
        )  # fmt: skip

    def batch_norm(self, name: str, x: str, channels: int, gain: float = 1.0) -> str:
        """Normalization with running statistics near those of the data."""
        draw = self.draw
        values = {
            "scale": draw.uniform(0.8, 1.2, channels) * gain,
            "bias": draw.normal(0, 0.1, channels),
            "mean": draw.normal(0, 0.1, channels),
            "var": draw.uniform(0.8, 1.2, channels),
        }
        names = [
            self.constant(f"{name}_{part}", value.astype(np.float32))
            for part, value in values.items()
        ]
        return self.add("BatchNormalization", name, x, *names, epsilon=1e-5)

    def classifier(self, x: str, channels: int, classes: int) -> str:
        """Global average, then one dense layer."""
        flat = self.add("Flatten", "flat", self.add("GlobalAveragePool", "average", x), axis=1)
        weight = self.normal("fc_w", classes, channels, scale=np.sqrt(1 / channels))
        bias = self.normal("fc_b", classes, scale=0.1)
        return self.add("Gemm", OUTPUT, flat, weight, bias, transB=1)


def image(batch: int, size: int = 224, seed: int = 5) -> Array:
    """Random pictures for the convolutional networks."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal((batch, 3, size, size), np.float32)


def resnet50(batch: int = 1, size: int = 224, seed: int = 50) -> onnx.ModelProto:
    """ResNet-50 (stride on the 3x3 of a block) with its normalizations as nodes of their own."""
    b = Builder(seed)

    def layer(
        name: str, x: str, channels: tuple[int, int], kernel: int, stride: int, gain: float
    ) -> str:
        y = b.convolution(name, x, channels, kernel, stride)
        return b.batch_norm(f"{name}_bn", y, channels[1], gain)

    x = b.add("Relu", "stem_relu", layer("stem", INPUT, (3, 64), 7, 2, 1.0))
    x = b.add("MaxPool", "stem_pool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into = 64
    for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if block == 0 and stage > 0 else 1
            y = b.add("Relu", f"{name}_r1", layer(f"{name}_c1", x, (into, width), 1, 1, 1.0))
            y = b.add("Relu", f"{name}_r2", layer(f"{name}_c2", y, (width, width), 3, stride, 1.0))
            y = layer(f"{name}_c3", y, (width, 4 * width), 1, 1, 0.4)
            if block == 0:
                x = layer(f"{name}_down", x, (into, 4 * width), 1, stride, 0.7)
            x = b.add("Relu", f"{name}_out", b.add("Add", f"{name}_sum", y, x))
            into = 4 * width
    b.classifier(x, into, 1000)
    return b.model({INPUT: (TensorProto.FLOAT, (batch, 3, size, size))}, {OUTPUT: (batch, 1000)})


# Expansion, channels, blocks, stride of the first block.
_MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
              (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip


def mobilenet_v2(batch: int = 1, size: int = 224, seed: int = 2) -> onnx.ModelProto:
    """MobileNetV2 of width 1 with its normalizations as nodes of their own."""
    b = Builder(seed)
    low, high = (b.constant(f"clip_{v}", np.array(v, np.float32)) for v in (0, 6))

    def layer(
        name: str, x: str, channels: tuple[int, int], kernel: int, stride: int, groups: int = 1
    ) -> str:
        y = b.convolution(name, x, channels, kernel, stride, groups)
        return b.batch_norm(f"{name}_bn", y, channels[1])

    def clipped(name: str, *layer_of: Any) -> str:
        return b.add("Clip", f"{name}_clip", layer(name, *layer_of), low, high)

    x, into = clipped("stem", INPUT, (3, 32), 3, 2), 32
    for stage, (expand, out, blocks, first) in enumerate(_MOBILENET):
        for block in range(blocks):
            name, stride, wide = f"s{stage}b{block}", first if block == 0 else 1, into * expand
            y = x if expand == 1 else clipped(f"{name}_up", x, (into, wide), 1, 1)
            y = clipped(f"{name}_dw", y, (wide, wide), 3, stride, wide)
            y = layer(f"{name}_down", y, (wide, out), 1, 1)
            x = b.add("Add", f"{name}_sum", x, y) if stride == 1 and into == out else y
            into = out
    b.classifier(clipped("last", x, (into, 1280), 1, 1), 1280, 1000)
    return b.model({INPUT: (TensorProto.FLOAT, (batch, 3, size, size))}, {OUTPUT: (batch, 1000)})


# --- variants ---


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every float tensor, inputs and outputs too, in half precision."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in [*made.graph.input, *made.graph.output, *made.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return made


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each normalization behind a convolution folded into its weights."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    values = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    makers = {node.output[0]: node for node in made.graph.node}
    nodes = []
    for node in made.graph.node:
        conv = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type != "Conv" or len(conv.input) != 2:
            nodes.append(node)
            continue
        scale, bias, mean, var = (values.pop(name).astype(np.float64) for name in node.input[1:])
        factor = scale / np.sqrt(var + node.attribute[0].f)
        weight = conv.input[1]
        values[weight] = (values[weight] * factor[:, None, None, None]).astype(np.float32)
        values[f"{conv.name}_b"] = (bias - mean * factor).astype(np.float32)
        conv.input.append(f"{conv.name}_b")
        conv.output[0] = node.output[0]
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
    return made


def quantized(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with QuantizeLinear/DequantizeLinear pairs: unsigned 8-bit activations, signed
    8-bit weights per channel. The ranges are those that the feeds give."""
    from onnxruntime import quantization as q

    class Feeds(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [dict(feeds)]

        def get_next(self) -> dict[str, Array] | None:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
        onnx.save(folded(model), source)
        q.quantize_static(
            source, target, Feeds(), quant_format=q.QuantFormat.QDQ, per_channel=True,
            activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(target)
