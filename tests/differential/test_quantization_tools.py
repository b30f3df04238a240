"""Networks as onnxruntime.quantization writes them, and the operators of com.microsoft in them.

The reference is onnxruntime without graph optimisations, which computes what the file says (its
optimiser moves roundings: on the transformer below it is 4 % away from itself), on one thread
(several quantise the state of an LSTM by parts of the batch). Integers may be one quantum off;
float32 results 1e-4 of the largest, or one quantum of what they were quantised to last. An LSTM
quantises its state anew in each step: one quantum of the state as well.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from differential import convert, distance, execute, outputs, put_inputs
from networks import Network
from onnx import helper, numpy_helper
from onnxruntime import quantization as q

from ascendrt import _ctl

Array = np.ndarray[Any, Any]
Pair = tuple[onnx.ModelProto, dict[str, Array]]
F = np.float32
MICROSOFT = "com.microsoft"


def _reference(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


# --- single operators ---


class _Node:
    """One node of com.microsoft; shapes, types and scales follow from the seed."""

    def __init__(self, name: str, seed: int) -> None:
        self.net = Network(zlib.crc32(name.encode()) + seed, opset=17)
        self.rng = self.net.rng
        self.dtype = self.rng.choice([np.uint8, np.int8])
        self.inputs: list[str] = []

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def bytes(self, *shape: int, dtype: Any = None) -> Array:
        info = np.iinfo(dtype or self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(info.dtype)

    def feed(self, array: Array) -> None:
        self.inputs.append(self.net.feed(array, f"x{len(self.net.feeds)}"))

    def const(self, array: Any) -> None:
        self.inputs.append(self.net.const(np.asarray(array)))

    def scale(self, low: float = 0.01, high: float = 0.1) -> None:
        """A scale and a zero point."""
        self.const(F(self.rng.uniform(low, high)))
        self.const(self.bytes(1)[0])

    def finish(self, op: str, standard: bool = False, **attributes: Any) -> Pair:
        node = helper.make_node(
            op, self.inputs, ["y"], name="node", domain="" if standard else MICROSOFT, **attributes
        )
        infos = [helper.make_empty_tensor_value_info("y")]
        net = self.net
        graph = helper.make_graph([node], op, net.inputs, infos, initializer=net.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), net.feeds


def _binary(op: str) -> Callable[[_Node], Pair]:
    def make(n: _Node) -> Pair:
        a, b = n.one_of(
            ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4), (3, 1)), ((7,), (5, 1)), ((), (4,))
        )
        n.feed(n.bytes(*a))
        n.scale()
        (n.feed if n.rng.random() < 0.6 else n.const)(n.bytes(*b))
        n.scale()
        n.scale(0.05, 0.3)
        return n.finish(op)

    return make


def _unary(op: str, low: float, high: float, **attributes: Any) -> Callable[[_Node], Pair]:
    def make(n: _Node) -> Pair:
        n.feed(n.bytes(2, 16, 5, 7))
        n.scale()
        n.scale(low, high)
        return n.finish(op, **attributes)

    return make


def _softmax(n: _Node) -> Pair:
    n.feed(n.bytes(2, 3, 8, 9))
    n.scale()
    n.const(F(1 / 256))
    n.const(n.dtype(np.iinfo(n.dtype).min))
    opset = n.one_of(12, 13)
    # For onnxruntime the axis of a coerced softmax must not be the last but one or before.
    return n.finish("QLinearSoftmax", axis=n.one_of(1, -1) if opset == 13 else 3, opset=opset)


def _average_pool(n: _Node) -> Pair:
    n.feed(n.bytes(1, n.one_of(3, 16), 11, 10))
    n.scale()
    n.scale(0.01, 0.05)
    pads = n.one_of([0, 0, 0, 0], [1, 0, 1, 1])
    counts, ceil = n.one_of(0, 1), n.one_of(0, 1)
    return n.finish("QLinearAveragePool", kernel_shape=[3, 2], strides=[n.one_of(1, 2), 2],
                    pads=pads, count_include_pad=counts, ceil_mode=ceil)  # fmt: skip


def _concat(n: _Node) -> Pair:
    n.scale()
    for _ in range(n.one_of(1, 2, 3)):
        n.feed(n.bytes(2, int(n.rng.integers(1, 20)), 5))
        n.scale()
    return n.finish("QLinearConcat", axis=n.one_of(1, -2))


def _where(n: _Node) -> Pair:
    n.feed(n.rng.random((3, 5)) < 0.5)
    for shape in ((2, 3, 5), (5,)):
        n.feed(n.bytes(*shape))
        n.scale()
    n.scale()
    return n.finish("QLinearWhere")


def _weights(n: _Node, dims: tuple[int, ...], axis: int) -> Array:
    """Constant weights with one scale and zero point, or one per column. Gives the scales."""
    dtype = n.one_of(np.uint8, np.int8)
    n.const(n.bytes(*dims, dtype=dtype))
    count = () if n.rng.random() < 0.4 else (dims[axis],)
    scales = n.rng.uniform(0.001, 0.01, count).astype(F)
    n.const(scales)
    zeros = n.bytes(*count, dtype=dtype) if n.rng.random() < 0.5 else np.zeros(count, dtype)
    n.const(zeros)
    return scales


def _gemm(n: _Node) -> Pair:
    rows, depth, columns = (int(v) for v in n.rng.integers(1, 40, 3))
    trans_b, trans_a = n.one_of(0, 1), n.one_of(0, 0, 1)
    n.dtype = np.uint8
    n.feed(n.bytes(*((depth, rows) if trans_a else (rows, depth))))
    n.scale()
    dims = (columns, depth) if trans_b else (depth, columns)
    _weights(n, dims, 0 if trans_b else 1)
    if n.rng.random() < 0.5:
        n.const(n.rng.integers(-3000, 3000, columns).astype(np.int32))
    elif n.rng.random() < 0.5:
        n.inputs.append("")
    if n.rng.random() < 0.7 and len(n.inputs) == 7:
        n.scale(0.05, 0.2)
    return n.finish("QGemm", transA=trans_a, transB=trans_b, alpha=n.one_of(1.0, 0.5))


def _matmul(n: _Node) -> Pair:
    depth, columns = (int(v) for v in n.rng.integers(1, 40, 2))
    n.dtype = np.uint8
    n.feed(n.bytes(*n.one_of((7, depth), (2, 3, depth), (2, 1, 5, depth))))
    n.scale()
    if n.rng.random() < 0.5:
        _weights(n, (depth, columns), 1)
    else:
        n.feed(n.bytes(depth, columns))
        n.scale(0.001, 0.01)
    n.scale(0.05, 0.2)
    return n.finish("QLinearMatMul", standard=True)


def _dynamic_matmul(n: _Node) -> Pair:
    depth, columns = (int(v) for v in n.rng.integers(1, 70, 2))
    n.feed(n.rng.standard_normal(n.one_of((9, depth), (2, 3, depth))).astype(F))
    _weights(n, (depth, columns), 1)
    if n.rng.random() < 0.5:
        n.const(n.rng.standard_normal(columns).astype(F))
    return n.finish("DynamicQuantizeMatMul")


def _matmul_to_float(n: _Node) -> Pair:
    depth, columns = (int(v) for v in n.rng.integers(1, 70, 2))
    n.dtype = np.uint8
    n.feed(n.bytes(5, depth))
    held = len(n.inputs)
    scales = _weights(n, (depth, columns), 1)
    weights, b_scale, b_zero = n.inputs[held:]
    n.inputs = [n.inputs[0], weights, n.net.const(F(0.03)), b_scale]
    n.const(n.bytes(1)[0])
    n.inputs.append(b_zero)
    assert scales.ndim in (0, 1)
    if n.rng.random() < 0.5:
        n.const(n.rng.standard_normal(columns).astype(F))
    return n.finish("MatMulIntegerToFloat")


def _matmul_integer(n: _Node) -> Pair:
    rows, depth, columns = (int(v) for v in n.rng.integers(1, 70, 3))
    n.dtype = np.uint8
    a, b = n.one_of(((rows, depth), (depth, columns)), ((2, 3, rows, depth), (3, depth, columns)))
    n.feed(n.bytes(*a))
    other = n.one_of(np.uint8, np.int8)
    (n.feed if n.rng.random() < 0.4 else n.const)(n.bytes(*b, dtype=other))
    n.feed(n.bytes())
    if n.rng.random() < 0.7:
        many = (columns,) if len(b) == 2 and n.rng.random() < 0.5 else ()
        n.const(n.bytes(*many, dtype=other) if many else n.bytes(1, dtype=other)[0])
    return n.finish("MatMulInteger", standard=True)


def _conv_integer(n: _Node) -> Pair:
    groups = n.one_of(1, 1, 2, 3)
    into, out = (int(v) for v in n.rng.integers(1, 20, 2))
    n.dtype = np.uint8
    n.feed(n.bytes(2, groups * into, 11, 13))
    other = n.one_of(np.uint8, np.int8)
    kernel = n.one_of((1, 1), (3, 3), (2, 3))
    n.const(n.bytes(groups * out, into, *kernel, dtype=other))
    n.feed(n.bytes())
    n.const(n.bytes(1, dtype=other)[0])
    strides, dilations = [n.one_of(1, 2), 1], [1, n.one_of(1, 2)]
    return n.finish("ConvInteger", standard=True, group=groups, strides=strides,
                    pads=n.one_of([0, 0, 0, 0], [1, 2, 0, 1]), dilations=dilations)  # fmt: skip


NODES: dict[str, Callable[[_Node], Pair]] = {
    "add": _binary("QLinearAdd"),
    "mul": _binary("QLinearMul"),
    "leaky-relu": _unary("QLinearLeakyRelu", 0.01, 0.1, alpha=0.2),
    "sigmoid": _unary("QLinearSigmoid", 0.003, 0.005),
    "global-average": _unary("QLinearGlobalAveragePool", 0.005, 0.02),
    "softmax": _softmax,
    "average-pool": _average_pool,
    "concat": _concat,
    "where": _where,
    "gemm": _gemm,
    "matmul": _matmul,
    "dynamic-matmul": _dynamic_matmul,
    "matmul-to-float": _matmul_to_float,
    "matmul-integer": _matmul_integer,
    "conv-integer": _conv_integer,
}
SEEDS = 8


# --- whole networks ---


def _convnet(seed: int) -> Pair:
    n = Network(seed, opset=17)
    x = n.image(2, 3, 24, 24)
    x = n.add("Conv", x, n.weight(16, 3, 3, 3), n.weight(16), kernel_shape=[3, 3], strides=[2, 2],
              pads=[1] * 4)  # fmt: skip
    x = n.add("MaxPool", n.add("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    y = n.add("Conv", x, n.weight(16, 1, 3, 3), kernel_shape=[3, 3], pads=[1] * 4, group=16)
    x = n.add("Add", x, n.add("LeakyRelu", y, alpha=0.1))
    z = n.add("Sigmoid", n.add("Conv", x, n.weight(20, 16, 1, 1), kernel_shape=[1, 1]))
    x = n.add("Concat", x, z, axis=1)
    # Groups of 12 channels: no whole blocks of 16.
    x = n.add("Conv", x, n.weight(36, 12, 3, 3), kernel_shape=[3, 3], pads=[1] * 4, group=3)
    x = n.add("Relu", x)
    g = n.add("Conv", n.add("GlobalAveragePool", x), n.weight(36, 36, 1, 1), kernel_shape=[1, 1])
    x = n.add("Mul", x, n.add("Sigmoid", g))
    x = n.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n.add("Resize", x, "", n.const(np.array([1, 1, 2, 2], F)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    x = n.add("Clip", x, n.const(F(0)), n.const(F(6)))
    flat = n.add("Flatten", n.add("GlobalAveragePool", x), axis=1)
    bias = n.const(n.rng.standard_normal(10).astype(F))
    return n.model(n.add("Gemm", flat, n.weight(10, 36), bias, transB=1)), n.feeds


def _transformer(seed: int) -> Pair:
    n = Network(seed, opset=17)
    batch, rows, width, heads = 2, 7, 32, 4
    x = n.image(batch, rows, width)
    ones, zeros = n.const(np.ones(width, F)), n.const(np.zeros(width, F))

    def linear(x: str, into: int, out: int) -> str:
        weight = n.const((n.rng.standard_normal((into, out)) / np.sqrt(into)).astype(F))
        bias = n.const(n.rng.standard_normal(out).astype(F) * F(0.1))
        return n.add("Add", n.add("MatMul", x, weight), bias)

    def split(x: str, perm: list[int]) -> str:
        x = n.add("Reshape", linear(x, width, width), n.ints(batch, rows, heads, width // heads))
        return n.add("Transpose", x, perm=perm)

    for _ in range(2):
        h = n.add("LayerNormalization", x, ones, zeros, axis=-1)
        query, key, value = (split(h, p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = n.add("Div", n.add("MatMul", query, key), n.const(F(np.sqrt(width // heads))))
        mixed = n.add("MatMul", n.add("Softmax", scores, axis=-1), value)
        mixed = n.add("Transpose", mixed, perm=[0, 2, 1, 3])
        x = n.add(
            "Add", x, linear(n.add("Reshape", mixed, n.ints(batch, rows, width)), width, width)
        )
        h = linear(n.add("LayerNormalization", x, ones, zeros, axis=-1), width, 4 * width)
        erf = n.add("Erf", n.add("Div", h, n.const(F(np.sqrt(2)))))
        gelu = n.add("Mul", n.add("Mul", h, n.const(F(0.5))), n.add("Add", erf, n.const(F(1))))
        x = n.add("Add", x, linear(gelu, 4 * width, width))
    return n.model(x), n.feeds


def _lstm(seed: int) -> Pair:
    n = Network(seed, opset=17)
    steps, batch, into, hidden = 7, (1, 3)[seed % 2], 9, 16
    directions = 1 + seed % 3 // 2

    def weight(*shape: int) -> str:
        return n.const((n.rng.standard_normal(shape) * 0.3).astype(F))

    x = n.image(steps, batch, into)
    w, r = weight(directions, 4 * hidden, into), weight(directions, 4 * hidden, hidden)
    direction = ("forward", "bidirectional")[directions - 1]
    y = n.add("LSTM", x, w, r, weight(directions, 8 * hidden), hidden_size=hidden, outputs=3,
              direction=direction)  # fmt: skip
    return n.model(y, f"{y}_1", f"{y}_2"), n.feeds


def quantized(pair: Pair, form: str, folder: Path, **options: Any) -> onnx.ModelProto:
    """The network as onnxruntime.quantization writes it: `qoperator`, `qdq` or `dynamic`."""
    model, feeds = pair

    class Feeds(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [feeds]

        def get_next(self) -> dict[str, Array] | None:
            return self.left.pop() if self.left else None

    source, target = folder / "source.onnx", folder / "target.onnx"
    onnx.save(model, source)
    formats = {"qoperator": q.QuantFormat.QOperator, "qdq": q.QuantFormat.QDQ}
    with contextlib.redirect_stdout(io.StringIO()):
        if form == "dynamic":
            q.quantize_dynamic(source, target, **options)
        else:
            q.quantize_static(source, target, Feeds(), quant_format=formats[form], **options)
    return onnx.load(target)


U8, S8 = q.QuantType.QUInt8, q.QuantType.QInt8
STATIC = {
    "us": (U8, S8), "uu": (U8, U8), "ss": (S8, S8),
}  # fmt: skip
WIDE = {
    "u16s8": (q.QuantType.QUInt16, S8), "s16s16": (q.QuantType.QInt16, q.QuantType.QInt16),
    "u8s4": (U8, q.QuantType.QInt4), "u16u4": (q.QuantType.QUInt16, q.QuantType.QUInt4),
}  # fmt: skip


def _networks() -> dict[str, tuple[Callable[[int], Pair], int, str, dict[str, Any]]]:
    made: dict[str, tuple[Callable[[int], Pair], int, str, dict[str, Any]]] = {}
    for name, build in (("convnet", _convnet), ("transformer", _transformer)):
        for channels in (False, True):
            label = f"{name}-{'channels' if channels else 'tensors'}"
            forms = [(f, t) for f in ("qoperator", "qdq") for t in STATIC.items()]
            for form, (types, (a, w)) in [*forms, *(("qdq", t) for t in WIDE.items())]:
                options = {"per_channel": channels, "activation_type": a, "weight_type": w}
                made[f"{label}-{form}-{types}"] = (build, 0, form, options)
            for types, w in (("s", S8), ("u", U8)):
                options = {"per_channel": channels, "weight_type": w}
                made[f"{label}-dynamic-{types}"] = (build, 1, "dynamic", options)
    for seed in range(3):
        for types, w in (("s", S8), ("u", U8)):
            options = {"per_channel": seed == 1, "weight_type": w}
            made[f"lstm-{seed}-dynamic-{types}"] = (_lstm, seed, "dynamic", options)
    return made


NETWORKS = _networks()
SINGLE = [f"{name}-{seed}" for name in NODES for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """All models by name."""
    folder = tmp_path_factory.mktemp("quantization")
    made = {}
    for name in SINGLE:
        kind, seed = name.rsplit("-", 1)
        made[name] = NODES[kind](_Node(kind, int(seed)))
    for name, (build, seed, form, options) in NETWORKS.items():
        pair = build(seed)
        made[name] = (quantized(pair, form, folder, **options), pair[1])
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Pair]) -> Path:
    """All models, converted and run."""
    directory = tmp_path_factory.mktemp("quantized")
    for name, (model, feeds) in models.items():
        convert(model, directory / f"{name}.om")
        put_inputs(directory / f"{name}.om", feeds)
    execute(directory)
    return directory


@pytest.mark.parametrize("name", SINGLE)
def test_operators_are_within_a_quantum(folder: Path, models: dict[str, Pair], name: str) -> None:
    (got,), (expected,) = outputs(folder / f"{name}.om"), _reference(*models[name])
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype == F:
        assert distance(got, expected) <= 1e-6
    else:
        assert np.abs(got.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= 1


def _bar(name: str, model: onnx.ModelProto, expected: Array) -> float:
    largest = float(np.abs(expected).max())
    if name.startswith("lstm"):
        return 2 * largest / 255
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    (last,) = (n for n in model.graph.node if model.graph.output[0].name in n.output)
    quantum = float(values[last.input[1]]) if last.op_type == "DequantizeLinear" else 0.0
    return max(1.001 * quantum, 1e-4 * largest)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_within_a_quantum(folder: Path, models: dict[str, Pair], name: str) -> None:
    model, feeds = models[name]
    for got, expected in zip(outputs(folder / f"{name}.om"), _reference(model, feeds), strict=True):
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= _bar(name, model, expected)


@pytest.mark.parametrize("name", ["convnet-channels-qoperator-us", "convnet-channels-qdq-us"])
def test_both_forms_become_operators_on_integers(folder: Path, name: str) -> None:
    types = [op["type"] for op in _ctl.describe_om(folder / f"{name}.om")["graphs"][0]["ops"]]
    for kind in ("Conv2D", "MatMul", "Add", "GlobalAveragePool"):
        assert f"Quantized{kind}" in types


def test_an_operator_keeps_the_name_of_its_node(folder: Path) -> None:
    graph = _ctl.describe_om(folder / "convnet-tensors-qoperator-us.om")["graphs"][0]
    names = {op["name"]: op["type"] for op in graph["ops"]}
    assert names["n_add_5_quant"] == "QuantizedAdd"


def test_what_other_domains_have_is_refused_by_name(tmp_path: Path) -> None:
    n = _Node("channels", 0)
    n.feed(n.bytes(1, 4, 5, 16))
    n.scale()
    n.scale()
    model, _ = n.finish("QLinearGlobalAveragePool", channels_last=1)
    with pytest.raises(Exception, match=r"node 'node'.*attribute channels_last"):
        convert(model, tmp_path / "a.om")
    model.graph.node[0].op_type = "QAttention"
    with pytest.raises(Exception, match="QAttention of domain"):
        convert(model, tmp_path / "a.om")
