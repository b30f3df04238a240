"""One small network per operator and form, by name. Each entry: a function of an empty Network
that returns the names of its outputs.

Owns: the list. Must never import the package under test or run a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from networks import Network
from onnx import TensorProto, helper

Builder = Callable[[Network], str | tuple[str, ...]]
CASES: dict[str, tuple[int, Builder]] = {}


def _case(name: str, opset: int = 17) -> Callable[[Builder], Builder]:
    def keep(builder: Builder) -> Builder:
        CASES[name] = (opset, builder)
        return builder

    return keep


def _unary(op: str, opset: int = 17, **attributes: Any) -> None:
    label = "-".join([op, *(f"{k}{v}" for k, v in attributes.items())])
    CASES[f"{label}-{opset}"] = (opset, lambda n: n.add(op, n.image(2, 3, 5, 7), **attributes))


for _op in [
    "Relu",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Softsign",
    "Abs",
    "Neg",
    "Exp",
    "Floor",
    "Ceil",
]:
    _unary(_op)
for _op in ["Ceil", "Erf", "Sign", "Sin", "Cos", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid"]:
    _unary(_op)
_unary("Mish", 18)
_unary("Gelu", 20)
_unary("Round")
_unary("Reciprocal")
_unary("HardSwish", 14)
_unary("LeakyRelu", alpha=0.3)
_unary("HardSigmoid", alpha=0.3, beta=0.1)
_unary("Celu", alpha=2.0)
for _opset in (11, 13):
    for _axis in (0, 1, 2, -1):
        _unary("Softmax", _opset, axis=_axis)
        _unary("LogSoftmax", _opset, axis=_axis)
    _unary("Softmax", _opset)
for _axis in (0, 1, 3, -1, 4):
    _unary("Flatten", axis=_axis)
for _op in ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"]:
    _unary(_op)
    _unary(_op, axes=[1], keepdims=0)
    _unary(_op, axes=[-1, 0], keepdims=1)
_unary("ReduceSum", 11, axes=[1, 3])
for _op in ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum", "ReduceMax"]:
    _unary(_op, 18, noop_with_empty_axes=1)
for _op in ["ArgMax", "ArgMin"]:
    _unary(_op, axis=1)
    _unary(_op, axis=-2, keepdims=0)
_unary("Transpose")
_unary("Transpose", perm=[2, 0, 3, 1])
_unary("Unsqueeze", 11, axes=[0, 5])
_unary("GlobalAveragePool")
_unary("GlobalMaxPool")
_unary("Identity")
_unary("Dropout")
_unary("Clip")
_unary("Clip", 10, min=-0.5, max=0.5)
_unary("Clip", 10, min=-0.5)
_unary("Clip", 10, max=0.5)
_unary("Pad", 10, pads=[0, 1, 2, 0, 1, 0, 0, 3], value=1.5)
_unary("Slice", 9, starts=[0, 1], ends=[2, -1], axes=[1, 3])
_unary("Split", 11, axis=1)

for _op in ["Add", "Sub", "Mul", "Div", "Pow"]:
    CASES[f"{_op}-broadcast"] = (
        17,
        lambda n, op=_op: n.add(op, n.add("Abs", n.image(2, 3, 4, 5)), n.image(3, 1, 5, name="y")),
    )
    CASES[f"{_op}-scalar"] = (
        17,
        lambda n, op=_op: n.add(op, n.add("Abs", n.image(2, 3, 4)), n.const(np.float32(1.7))),
    )
for _op in ["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]:
    CASES[_op] = (17, lambda n, op=_op: n.add(op, n.image(3, 4), n.image(4, name="y")))
for _op in ["Max", "Min", "Sum", "Mean"]:
    CASES[f"{_op}-three"] = (
        17,
        lambda n, op=_op: n.add(op, n.image(3, 4), n.image(4, name="y"), n.image(3, 1, name="z")),
    )
    CASES[f"{_op}-one"] = (17, lambda n, op=_op: n.add(op, n.image(3, 4)))


def _ints(n: Network, name: str, *shape: int) -> str:
    return n.feed(n.rng.integers(-9, 10, shape).astype(np.int64), name)


for _op in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
    CASES[f"{_op}-int64"] = (
        17,
        lambda n, op=_op: n.add(
            op, _ints(n, "x", 3, 5), n.const(np.array([1, 2, 3, -4, 5], np.int64))
        ),
    )
CASES["Mod-int64"] = (
    17,
    lambda n: n.add("Mod", _ints(n, "x", 3, 5), n.const(np.array([1, 2, 3, -4, 5], np.int64))),
)


@_case("logic")
def _logic(n: Network) -> str:
    a = n.add("Less", n.image(3, 4), n.image(4, name="y"))
    b = n.add("Not", n.add("Greater", "x", n.const(np.float32(0.5))))
    both = n.add("And", a, b)
    return n.add("Xor", n.add("Or", both, a), b)


@_case("Where")
def _where(n: Network) -> str:
    condition = n.add("Less", n.image(3, 4), n.image(4, name="y"))
    return n.add("Where", condition, "x", "y")


@_case("Cast")
def _cast(n: Network) -> tuple[str, ...]:
    x = n.image(3, 4)
    scaled = n.add("Mul", x, n.const(np.float32(50)))
    kinds = [TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.FLOAT16]
    return tuple(n.add("Cast", scaled, to=kind) for kind in kinds)


@_case("Gemm-all")
def _gemm(n: Network) -> str:
    a, b, c = n.image(5, 4), n.image(6, 5, name="b"), n.image(4, 1, name="c")
    return n.add("Gemm", a, b, c, transA=1, transB=1, alpha=0.5, beta=2.0)


@_case("Gemm-weights")
def _gemm_weights(n: Network) -> str:
    return n.add("Gemm", n.image(7, 50), n.weight(50, 37), n.weight(37))


for _name, _left, _right in [
    ("vector", (4,), (4,)),
    ("row", (4,), (4, 3)),
    ("column", (2, 5, 4), (4,)),
    ("batch", (2, 3, 5, 4), (3, 4, 6)),
    ("one", (1, 1), (1, 1)),
]:
    CASES[f"MatMul-{_name}"] = (
        17,
        lambda n, a=_left, b=_right: n.add("MatMul", n.image(*a), n.image(*b, name="b")),
    )
CASES["MatMul-batch-weights"] = (
    17,
    lambda n: n.add("MatMul", n.image(2, 3, 33, 20), n.weight(3, 20, 18)),
)


def _conv(name: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> None:
    CASES[f"Conv-{name}"] = (17, lambda n: n.add("Conv", n.image(*x), n.weight(*w), **attributes))


_conv("1d", (2, 3, 30), (5, 3, 4), strides=[2], pads=[1, 2])
_conv("1d-same", (2, 3, 31), (5, 3, 4), strides=[2], auto_pad="SAME_UPPER")
_conv("pointwise", (2, 33, 9, 8), (40, 33, 1, 1))
_conv("pointwise-strided", (1, 8, 9, 8), (20, 8, 1, 1), strides=[2, 3])
_conv("dilated", (1, 5, 20, 21), (6, 5, 3, 3), dilations=[2, 3], pads=[2, 3, 1, 4])
_conv("grouped", (1, 12, 10, 10), (9, 4, 3, 3), group=3, pads=[1, 1, 1, 1])
_conv("depthwise", (2, 37, 15, 14), (37, 1, 3, 3), group=37, pads=[1, 1, 1, 1])
_conv("depthwise-5x5", (1, 20, 15, 14), (20, 1, 5, 5), group=20, strides=[2, 1])
_conv("depthwise-twice", (1, 6, 9, 9), (12, 1, 3, 3), group=6)
_conv("same-lower", (1, 3, 14, 15), (4, 3, 4, 4), strides=[3, 2], auto_pad="SAME_LOWER")
_conv("valid", (1, 3, 14, 15), (4, 3, 4, 4), auto_pad="VALID")
_conv("stem", (1, 3, 64, 64), (64, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3])
_conv("wide", (1, 256, 7, 7), (70, 256, 3, 3), pads=[1, 1, 1, 1])
CASES["Conv-run-time-weights"] = (
    17,
    lambda n: n.add("Conv", n.image(1, 3, 9, 9), n.image(4, 3, 3, 3, name="w")),
)


def _pool(name: str, op: str, x: tuple[int, ...], opset: int = 17, **attributes: Any) -> None:
    CASES[f"{op}-{name}"] = (opset, lambda n: n.add(op, n.image(*x), **attributes))


for _op in ["MaxPool", "AveragePool"]:
    _pool("plain", _op, (2, 3, 10, 11), kernel_shape=[2, 3], strides=[2, 2])
    _pool("1d", _op, (2, 3, 11), kernel_shape=[3], strides=[2], pads=[1, 1])
    _pool("same", _op, (1, 2, 10, 11), kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    _pool("lower", _op, (1, 2, 10, 11), kernel_shape=[2, 2], strides=[1, 2], auto_pad="SAME_LOWER")
    for _pads in ([1, 1, 1, 1], [0, 1, 1, 0]):
        for _in in (9, 10):
            _pool(
                f"ceil-{_in}-{_pads[0]}",
                _op,
                (1, 2, _in, _in + 1),
                19,
                kernel_shape=[3, 2],
                strides=[2, 3],
                pads=_pads,
                ceil_mode=1,
            )
for _op, _in in [
    ("MaxPool", (9, 3)),
    ("AveragePool", (9, 3)),
    ("MaxPool", (3, 5, 5)),
    ("LpPool", (9, 3)),
]:
    _size, _rank = (1, 2, *_in), len(_in)
    _pool(
        f"over-{_rank}", _op, _size, 19, kernel_shape=[4] * _rank, strides=[3] * _rank, ceil_mode=1
    )
for _p in (1, 2, 3):
    _pool(f"{_p}", "GlobalLpPool", (2, 3, 4, 5), p=_p)
_pool("dilated", "MaxPool", (1, 2, 12, 12), kernel_shape=[3, 2], dilations=[2, 3])
_pool("count", "AveragePool", (1, 2, 9, 9), kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
_pool(
    "count-ceil",
    "AveragePool",
    (1, 2, 10, 9),
    19,
    kernel_shape=[3, 3],
    strides=[2, 2],
    pads=[1] * 4,
    count_include_pad=1,
    ceil_mode=1,
)


@_case("BatchNormalization")
def _batch_norm(n: Network) -> str:
    lists = [n.const(n.rng.uniform(0.5, 1.5, 3).astype(np.float32)) for _ in range(4)]
    return n.add("BatchNormalization", n.image(2, 3, 4, 5), *lists, epsilon=0.01)


@_case("InstanceNormalization")
def _instance_norm(n: Network) -> str:
    return n.add("InstanceNormalization", n.image(2, 3, 9, 5), n.weight(3), n.weight(3))


@_case("LayerNormalization")
def _layer_norm(n: Network) -> str:
    return n.add("LayerNormalization", n.image(2, 3, 9), n.weight(9), n.weight(9), axis=-1)


@_case("ReduceSum-axes-input", 13)
def _reduce_sum(n: Network) -> str:
    return n.add("ReduceSum", n.image(2, 3, 4), n.ints(1, -1), keepdims=0)


@_case("ReduceMean-axes-input", 18)
def _reduce_mean(n: Network) -> str:
    return n.add("ReduceMean", n.image(2, 3, 4), n.ints(0), keepdims=1)


@_case("Squeeze-input", 13)
def _squeeze(n: Network) -> str:
    return n.add("Squeeze", n.image(1, 3, 1, 4), n.ints(0, 2))


@_case("Squeeze-all", 11)
def _squeeze_all(n: Network) -> str:
    return n.add("Squeeze", n.image(1, 3, 1, 4))


@_case("Unsqueeze-input", 13)
def _unsqueeze(n: Network) -> str:
    return n.add("Unsqueeze", n.image(3, 4), n.ints(0, -1))


@_case("Reshape")
def _reshape(n: Network) -> str:
    return n.add("Reshape", n.image(2, 3, 4), n.ints(0, -1, 2))


@_case("shape-arithmetic")
def _shape_arithmetic(n: Network) -> str:
    shape = n.add("Shape", n.image(2, 3, 4, 5))
    batch = n.add("Slice", shape, n.ints(0), n.ints(1), n.ints(0), n.ints(1))
    rest = n.add("Cast", n.const(np.array([60], np.int32)), to=TensorProto.INT64)
    return n.add("Reshape", "x", n.add("Concat", batch, rest, axis=0))


@_case("Slice-backward")
def _slice_backward(n: Network) -> str:
    """A start far before the first element is the first one."""
    return n.add("Slice", n.image(2, 3, 4, 5), n.ints(-99), n.ints(-(2**62)), n.ints(2), n.ints(-2))


@_case("Slice")
def _slice(n: Network) -> str:
    x = n.image(6, 7, 8)
    return n.add("Slice", x, n.ints(-1, 1), n.ints(-99, 99), n.ints(0, 2), n.ints(-2, 3))


@_case("Pad-constant")
def _pad(n: Network) -> str:
    return n.add("Pad", n.image(2, 3, 4), n.ints(0, 1, 2, 1, 0, -1), n.const(np.float32(7)))


@_case("Pad-reflect")
def _pad_reflect(n: Network) -> str:
    return n.add("Pad", n.image(2, 3, 5), n.ints(0, 1, 2, 0, 2, 3), mode="reflect")


@_case("Pad-edge")
def _pad_edge(n: Network) -> str:
    return n.add("Pad", n.image(2, 3, 5), n.ints(0, 1, 2, 0, 2, 3), mode="edge")


@_case("Pad-axes", 18)
def _pad_axes(n: Network) -> str:
    value, axes = n.const(np.float32(1)), n.ints(-1, 0)
    return n.add("Pad", n.image(2, 3, 5), n.ints(1, 2, 3, 4), value, axes)


@_case("Split-input", 13)
def _split(n: Network) -> tuple[str, ...]:
    y = n.add("Split", n.image(2, 9, 3), n.ints(2, 3, 4), outputs=3, axis=1)
    return y, f"{y}_1", f"{y}_2"


@_case("Split-even", 18)
def _split_even(n: Network) -> tuple[str, ...]:
    y = n.add("Split", n.image(2, 7, 3), outputs=3, axis=1, num_outputs=3)
    return y, f"{y}_1", f"{y}_2"


@_case("Gather")
def _gather(n: Network) -> str:
    return n.add("Gather", n.image(4, 5, 6), n.const(np.array([[0, -1], [3, 2]])), axis=1)


@_case("Gather-run-time")
def _gather_run_time(n: Network) -> str:
    return n.add("Gather", n.image(9, 5), n.feed(np.array([3, -1, 8], np.int64), "i"))


@_case("Expand")
def _expand(n: Network) -> str:
    return n.add("Expand", n.image(3, 1), n.ints(2, 1, 4))


@_case("Tile")
def _tile(n: Network) -> str:
    return n.add("Tile", n.image(2, 3), n.ints(2, 3))


@_case("ConstantOfShape")
def _constant_of_shape(n: Network) -> str:
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5])
    return n.add("Add", n.image(2, 3), n.add("ConstantOfShape", n.ints(2, 3), value=value))


@_case("Constant-forms")
def _constant_forms(n: Network) -> str:
    scale = n.add("Constant", value_float=1.5)
    shift = n.add("Constant", value_floats=[1.0, 2.0, 3.0])
    shape = n.add("Constant", value_ints=[3, 2])
    y = n.add("Add", n.add("Mul", n.image(2, 3), scale), shift)
    return n.add("Reshape", y, shape)


@_case("outputs-of-every-kind")
def _outputs(n: Network) -> tuple[str, ...]:
    """An output that is an input, a constant, a view, used inside, and the same one twice."""
    y = n.add("Relu", n.image(2, 6))
    view = n.add("Reshape", y, n.ints(3, 4))
    same = n.add("Identity", "x")
    const = n.add("Identity", n.const(np.arange(4, dtype=np.float32)))
    return y, view, same, const, n.add("Sigmoid", view), n.add("Identity", y)


@_case("double-and-int-views")
def _other_types(n: Network) -> tuple[str, ...]:
    x = n.feed(n.rng.integers(0, 99, (2, 3, 4)).astype(np.int32))
    d = n.feed(n.rng.standard_normal((2, 3)), "d")
    y = n.add("Transpose", x, perm=[2, 0, 1])
    return n.add("Concat", y, y, axis=0), n.add("Mul", d, d)
