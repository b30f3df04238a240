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


# --- BERT ---

HIDDEN, HEADS, INNER, VOCABULARY = 768, 12, 3072, 2048


def bert(blocks: int = 4, batch: int = 1, length: int = 128, seed: int = 7) -> onnx.ModelProto:
    """BERT-base blocks behind an embedding, decomposed the way PyTorch exports to opset 14.

    Inputs `ids` and `mask` are int64 of [batch, length].
    """
    b = Builder(seed)
    one = b.constant("one", np.array(1, np.float32))
    two = b.constant("two", np.array(2, np.float32))
    words = b.normal("words", VOCABULARY, HIDDEN, scale=1.0)
    places = b.normal("places", 1, length, HIDDEN, scale=0.5)
    x = b.add("Add", "embedded", b.add("Gather", "word", words, "ids", axis=0), places)
    x = _layer_norm(b, "embedded_norm", x, two)
    axes = b.constant("mask_axes", np.array([1, 2], np.int64))
    kept = b.add("Unsqueeze", "mask_4d", "mask", axes)
    gone = b.add("Sub", "mask_gone", one, b.add("Cast", "mask_float", kept, to=TensorProto.FLOAT))
    mask = b.add("Mul", "mask_sum", gone, b.constant("masked", np.array(-10000, np.float32)))
    for i in range(blocks):
        x = _layer_norm(b, f"b{i}_norm1", _attention(b, f"b{i}_a", x, mask, (batch, length)), two)
        inner = _gelu(b, f"b{i}_gelu", _dense(b, f"b{i}_up", x, HIDDEN, INNER), one, two)
        y = b.add("Add", f"b{i}_sum", _dense(b, f"b{i}_down", inner, INNER, HIDDEN), x)
        x = _layer_norm(b, OUTPUT if i + 1 == blocks else f"b{i}_norm2", y, two)
    ints = (TensorProto.INT64, (batch, length))
    return b.model({"ids": ints, "mask": ints}, {OUTPUT: (batch, length, HIDDEN)}, opset=14)


def sentences(batch: int = 1, length: int = 128, seed: int = 11) -> dict[str, Array]:
    """Feeds for bert: random words, sentences of different lengths."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(length // 2, length + 1, (batch, 1))
    return {
        "ids": draw.integers(0, VOCABULARY, (batch, length)),
        "mask": (np.arange(length) < ends).astype(np.int64),
    }


def _dense(b: Builder, name: str, x: str, into: int, out: int) -> str:
    weight = b.normal(f"{name}_w", into, out, scale=into**-0.5)
    bias = b.normal(f"{name}_b", out, scale=0.1)
    return b.add("Add", name, bias, b.add("MatMul", f"{name}_product", x, weight))


def _layer_norm(b: Builder, name: str, x: str, two: str) -> str:
    centred = b.add("Sub", f"{name}_c", x, b.add("ReduceMean", f"{name}_m", x, axes=[-1]))
    variance = b.add("ReduceMean", f"{name}_v", b.add("Pow", f"{name}_p", centred, two), axes=[-1])
    epsilon = b.constant(f"{name}_e", np.array(1e-12, np.float32))
    deviation = b.add("Sqrt", f"{name}_r", b.add("Add", f"{name}_ve", variance, epsilon))
    gain = b.constant(f"{name}_w", b.draw.uniform(0.8, 1.2, HIDDEN).astype(np.float32))
    scaled = b.add("Mul", f"{name}_s", b.add("Div", f"{name}_n", centred, deviation), gain)
    return b.add("Add", name, scaled, b.normal(f"{name}_b", HIDDEN, scale=0.1))


def _gelu(b: Builder, name: str, x: str, one: str, two: str) -> str:
    root = b.constant(f"{name}_root", np.sqrt(np.float32(2)))
    half = b.constant(f"{name}_half", np.array(0.5, np.float32))
    grown = b.add("Erf", f"{name}_erf", b.add("Div", f"{name}_div", x, root))
    product = b.add("Mul", f"{name}_x", x, b.add("Add", f"{name}_one", grown, one))
    return b.add("Mul", name, product, half)


def _attention(b: Builder, name: str, x: str, mask: str, size: tuple[int, int]) -> str:
    """Self-attention with the sum over the input behind it."""
    depth = HIDDEN // HEADS
    split = b.constant(f"{name}_split", np.array([*size, HEADS, depth], np.int64))
    joined = b.constant(f"{name}_join", np.array([*size, HIDDEN], np.int64))

    def heads(part: str, order: list[int]) -> str:
        dense = _dense(b, f"{name}_{part}", x, HIDDEN, HIDDEN)
        rows = b.add("Reshape", f"{name}_{part}_heads", dense, split)
        return b.add("Transpose", f"{name}_{part}_turned", rows, perm=order)

    products = b.add("MatMul", f"{name}_qk", heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]))
    root = b.constant(f"{name}_root", np.sqrt(np.float32(depth)))
    scores = b.add("Add", f"{name}_masked", b.add("Div", f"{name}_scaled", products, root), mask)
    shares = b.add("Softmax", f"{name}_shares", scores, axis=-1)
    mixed = b.add("MatMul", f"{name}_mixed", shares, heads("v", [0, 2, 1, 3]))
    rows = b.add("Transpose", f"{name}_rows", mixed, perm=[0, 2, 1, 3])
    y = _dense(b, f"{name}_out", b.add("Reshape", f"{name}_all", rows, joined), HIDDEN, HIDDEN)
    return b.add("Add", f"{name}_sum", y, x)


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
