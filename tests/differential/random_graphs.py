"""Random ONNX graphs of mixed operators, drawn step by step so that failures shrink.

Owns: which operators there are, and what each may take. Must never run a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from networks import Network

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

OPSETS = (11, 13, 17, 18, 20)
UNARY = (
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Softplus", "Erf", "Floor", "Ceil", "Sign", "Elu",
    "HardSigmoid", "Softsign", "LeakyRelu", "Sin", "Cos", "Atan", "Identity", "Round",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
COMPARE = ("Less", "Greater", "Equal")
REDUCE = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2")


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: Any = np.float32


@dataclass
class Graph:
    """A graph under construction; every step adds one operator."""

    draw: Draw
    net: Network
    values: list[Value] = field(default_factory=list)

    def pick(self, accept: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """Draw one of the tensors that are fit."""
        fit = [value for value in self.values if accept(value)]
        return self.draw(st.sampled_from(fit)) if fit else None

    def one_of(self, choices: Any) -> Any:
        """Draw one of several things."""
        return self.draw(st.sampled_from(list(choices)))

    def number(self, low: int, high: int) -> int:
        """Draw a number."""
        return int(self.draw(st.integers(low, high)))

    def axis(self, value: Value) -> int:
        """Draw an axis, sometimes counted from the end."""
        rank = len(value.shape)
        return self.number(-rank, rank - 1)

    def add(self, op: str, *inputs: str, like: Value | None = None, **attributes: Any) -> str:
        """Add a node; `like` tells what its first output is."""
        name = self.net.add(op, *inputs, **attributes)
        if like is not None:
            self.values.append(Value(name, like.shape, like.dtype))
        return name

    def put(self, name: str, shape: Any, dtype: Any = np.float32) -> None:
        """Say what a result is."""
        self.values.append(Value(name, tuple(int(d) for d in shape), dtype))


def _is_float(value: Value) -> bool:
    return value.dtype == np.float32


def _has_axes(value: Value) -> bool:
    return len(value.shape) > 0


def unary(g: Graph) -> None:
    if x := g.pick(_is_float):
        g.add(g.one_of(UNARY), x.name, like=x)


def _partner(g: Graph, x: Value) -> Value:
    """A tensor that broadcasts with x: one there is, or a constant."""
    there = g.pick(lambda v: v.dtype == x.dtype and _fits(v.shape, x.shape))
    if there is not None and g.draw(st.booleans()):
        return there
    cut = x.shape[g.number(0, len(x.shape)) :]
    shape = tuple(d if g.draw(st.booleans()) else 1 for d in cut)
    array = (g.net.rng.standard_normal(shape) * 3).astype(x.dtype)
    return Value(g.net.const(array), shape, x.dtype)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(a, b)) <= 4096)
    except ValueError:
        return False


def binary(g: Graph) -> None:
    if x := g.pick(lambda v: v.dtype != np.bool_):
        y = _partner(g, x)
        pair = (x, y) if g.draw(st.booleans()) else (y, x)
        takes_all = x.dtype == np.float32 or g.net.opset >= 12  # Max and Min took floats only
        operators = BINARY if takes_all else BINARY[:3]
        name = g.add(g.one_of(operators), pair[0].name, pair[1].name)
        g.put(name, np.broadcast_shapes(x.shape, y.shape), x.dtype)


def compare(g: Graph) -> None:
    if x := g.pick(lambda v: v.dtype != np.bool_):
        y = _partner(g, x)
        shape = np.broadcast_shapes(x.shape, y.shape)
        g.put(g.add(g.one_of(COMPARE), x.name, y.name), shape, np.bool_)


def where(g: Graph) -> None:
    condition = g.pick(lambda v: v.dtype == np.bool_)
    x = g.pick(lambda v: v.dtype != np.bool_)
    if condition and x and _fits(condition.shape, x.shape):
        y = _partner(g, x)
        if _fits(np.broadcast_shapes(x.shape, y.shape), condition.shape):
            shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
            g.put(g.add("Where", condition.name, x.name, y.name), shape, x.dtype)


def cast(g: Graph) -> None:
    if x := g.pick():
        target = g.one_of((np.float32, np.int64, np.int32, np.bool_))
        if x.dtype == np.float32 and target in (np.int64, np.int32):
            x = Value(g.add("Round", x.name), x.shape)  # a hair may not decide
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(target))
        g.put(g.add("Cast", x.name, to=kind), x.shape, target)


def reshape(g: Graph) -> None:
    if x := g.pick():
        count = int(np.prod(x.shape))
        first = g.one_of(d for d in range(1, count + 1) if count % d == 0)
        target = g.one_of([[first, -1], [-1, first], [first, 1, count // first], [-1]])
        shape = [count // first if d == -1 and len(target) > 1 else d for d in target]
        shape = [count] if target == [-1] else shape
        g.put(g.add("Reshape", x.name, g.net.ints(*target)), shape, x.dtype)


def transpose(g: Graph) -> None:
    if x := g.pick(_has_axes):
        order = g.draw(st.permutations(range(len(x.shape))))
        g.put(g.add("Transpose", x.name, perm=order), [x.shape[i] for i in order], x.dtype)


def unsqueeze(g: Graph) -> None:
    if x := g.pick(lambda v: len(v.shape) < 4):
        axis = g.number(0, len(x.shape))
        shape = [*x.shape[:axis], 1, *x.shape[axis:]]
        if g.net.opset >= 13:
            g.put(g.add("Unsqueeze", x.name, g.net.ints(axis)), shape, x.dtype)
        else:
            g.put(g.add("Unsqueeze", x.name, axes=[axis]), shape, x.dtype)


def concat(g: Graph) -> None:
    if x := g.pick(_has_axes):
        axis = g.axis(x)
        at = axis % len(x.shape)
        fit = [v for v in g.values if v.dtype == x.dtype and len(v.shape) == len(x.shape)
               and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True))
                       if i != at)]  # fmt: skip
        parts = g.draw(st.lists(st.sampled_from(fit), min_size=1, max_size=3))
        shape = list(x.shape)
        shape[at] += sum(v.shape[at] for v in parts)
        g.put(g.add("Concat", x.name, *(v.name for v in parts), axis=axis), shape, x.dtype)


def cut(g: Graph) -> None:
    if x := g.pick(_has_axes):
        axis = g.axis(x)
        size = x.shape[axis]
        start, step = g.number(-size, size - 1), g.one_of((1, 2, -1, -2))
        end = g.number(-size - 1, size + 1)
        kept = range(size)[start:end:step] if step > 0 or end >= -size else range(size)[start::step]
        if len(kept) == 0:
            return
        shape = list(x.shape)
        shape[axis] = len(kept)
        words = [g.net.ints(v) for v in (start, end, axis, step)]
        g.put(g.add("Slice", x.name, *words), shape, x.dtype)


def gather(g: Graph) -> None:
    if x := g.pick(_has_axes):
        axis = g.axis(x)
        size = x.shape[axis]
        index = np.array(g.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=3)))
        shape = [*x.shape[: axis % len(x.shape)], len(index), *x.shape[axis % len(x.shape) + 1 :]]
        g.put(g.add("Gather", x.name, g.net.const(index), axis=axis), shape, x.dtype)


def reduce(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and _has_axes(v)):
        op, axis, keep = g.one_of(REDUCE), g.axis(x), g.number(0, 1)
        at = axis % len(x.shape)
        shape = [*x.shape[:at], *([1] if keep else []), *x.shape[at + 1 :]]
        by_input = g.net.opset >= 18 or (op == "ReduceSum" and g.net.opset >= 13)
        if by_input:
            g.put(g.add(op, x.name, g.net.ints(axis), keepdims=keep), shape)
        else:
            g.put(g.add(op, x.name, axes=[axis], keepdims=keep), shape)


def argmax(g: Graph) -> None:
    if x := g.pick(lambda v: _has_axes(v) and v.dtype != np.bool_):
        axis, keep = g.axis(x), g.number(0, 1)
        at = axis % len(x.shape)
        shape = [*x.shape[:at], *([1] if keep else []), *x.shape[at + 1 :]]
        g.put(g.add("ArgMax", x.name, axis=axis, keepdims=keep), shape, np.int64)


def softmax(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and _has_axes(v)):
        g.add(g.one_of(("Softmax", "LogSoftmax")), x.name, like=x, axis=g.axis(x))


def matmul(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and len(v.shape) >= 2):
        width = g.number(1, 5)
        weight = g.net.weight(x.shape[-1], width)
        g.put(g.add("MatMul", x.name, weight), [*x.shape[:-1], width])


def gemm(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and len(v.shape) == 2):
        width, turned = g.number(1, 5), g.number(0, 1)
        depth, rows = x.shape[0 if turned else 1], x.shape[1 if turned else 0]
        y = g.add("Gemm", x.name, g.net.weight(width, depth), g.net.weight(width),
                  transA=turned, transB=1, alpha=0.5, beta=2.0)  # fmt: skip
        g.put(y, [rows, width])


def window(g: Graph) -> None:
    """A convolution or a pool over a tensor of rank 3 or 4."""
    x = g.pick(lambda v: _is_float(v) and len(v.shape) in (3, 4) and min(v.shape[2:]) > 1)
    if x is None:
        return
    spatial = x.shape[2:]
    kernel = [g.number(1, min(3, size)) for size in spatial]
    strides = [g.number(1, 2) for _ in spatial]
    pads = [g.number(0, k - 1) for k in kernel * 2]
    sizes = [
        (size + pads[i] + pads[i + len(spatial)] - kernel[i]) // strides[i] + 1
        for i, size in enumerate(spatial)
    ]
    how: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if g.draw(st.booleans()):
        channels = g.number(1, 4)
        y = g.add("Conv", x.name, g.net.weight(channels, x.shape[1], *kernel), **how)
        g.put(y, [x.shape[0], channels, *sizes])
    else:
        y = g.add(g.one_of(("MaxPool", "AveragePool")), x.name, **how)
        g.put(y, [*x.shape[:2], *sizes])


def pad(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and _has_axes(v)):
        widths = [g.number(0, 2) for _ in range(2 * len(x.shape))]
        shape = [d + widths[i] + widths[i + len(x.shape)] for i, d in enumerate(x.shape)]
        if np.prod(shape) <= 4096:
            g.put(g.add("Pad", x.name, g.net.ints(*widths), g.net.const(np.float32(1.5))), shape)


def expand(g: Graph) -> None:
    if x := g.pick(lambda v: np.prod(v.shape) <= 512):
        shape = [d if d > 1 else g.number(1, 3) for d in x.shape]
        g.put(g.add("Expand", x.name, g.net.ints(*shape)), shape, x.dtype)


def clip(g: Graph) -> None:
    if x := g.pick(_is_float):
        low, high = g.net.const(np.float32(-0.5)), g.net.const(np.float32(1.25))
        g.add("Clip", x.name, low, high, like=x)


def batch_norm(g: Graph) -> None:
    if x := g.pick(lambda v: _is_float(v) and len(v.shape) >= 2):
        lists = [g.net.rng.uniform(0.5, 1.5, x.shape[1]).astype(np.float32) for _ in range(4)]
        g.add("BatchNormalization", x.name, *(g.net.const(v) for v in lists), like=x)


def computed_shape(g: Graph) -> None:
    """A reshape whose target the graph computes from a shape."""
    if x := g.pick(_has_axes):
        shape = g.add("Shape", x.name)
        turned = g.add("Gather", shape, g.net.ints(*reversed(range(len(x.shape)))), axis=0)
        g.put(g.add("Reshape", x.name, turned), reversed(x.shape), x.dtype)


STEPS = (unary, unary, binary, binary, compare, where, cast, reshape, transpose, unsqueeze, concat,
         cut, gather, reduce, argmax, softmax, matmul, gemm, window, window, pad, expand, clip,
         batch_norm, computed_shape)  # fmt: skip


@st.composite
def graphs(draw: Draw) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of up to 12 operators, and its inputs."""
    net = Network(draw(st.integers(0, 1000)), draw(st.sampled_from(OPSETS)))
    g = Graph(draw, net)
    for i in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
        g.put(net.image(*shape, name=f"x{i}"), shape)
    inputs = len(g.values)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        step(g)
    made = g.values[inputs:]
    if not made:
        g.add("Neg", g.values[0].name, like=g.values[0])
        made = g.values[inputs:]
    last = [made[-1].name, *{draw(st.sampled_from(made)).name for _ in range(2)} - {made[-1].name}]
    return net.model(*last), net.feeds
