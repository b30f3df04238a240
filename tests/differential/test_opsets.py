"""One network in the form of every ONNX opset from 7 to 28.

It is made of operators whose form changed: attributes became inputs (axes, slices, pads, bounds,
splits, scales), softmax lost its flattening, Upsample became Resize. Results agree with onnxruntime
where that reads the opset, and with the network of opset 17 for all: max|a-b| / max|b| <= 1e-5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import Array, convert, distance, execute, outputs, put_inputs, reference
from networks import Network
from onnx import TensorProto, helper

OLDEST, NEWEST = 7, 28
OPSETS = range(OLDEST, NEWEST + 1)
READ_BY_ONNXRUNTIME = 26  # newer ones are not released for it
F = np.float32
BAR = 1e-5


class _Forms:
    """Operators in the form of an opset."""

    def __init__(self, opset: int) -> None:
        self.n = Network(11, opset)  # one seed: the same numbers in every form
        self.opset = opset

    def _axes(self, op: str, x: str, axes: list[int], since: int, **attributes: Any) -> str:
        if self.opset >= since:
            return self.n.add(op, x, self.n.ints(*axes), **attributes)
        return self.n.add(op, x, axes=axes, **attributes)

    def squeeze(self, x: str, axis: int) -> str:
        return self._axes("Squeeze", x, [axis], 13)

    def unsqueeze(self, x: str, axis: int) -> str:
        return self._axes("Unsqueeze", x, [axis], 13)

    def mean(self, x: str, axis: int) -> str:
        return self._axes("ReduceMean", x, [axis], 18, keepdims=1)

    def total(self, x: str, axis: int) -> str:
        return self._axes("ReduceSum", x, [axis], 13, keepdims=0)

    def clip(self, x: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self.n.add("Clip", x, min=low, max=high)
        return self.n.add("Clip", x, self.n.const(F(low)), self.n.const(F(high)))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        if self.opset < 10:
            return self.n.add("Slice", x, axes=[axis], starts=[start], ends=[end])
        return self.n.add("Slice", x, *(self.n.ints(v) for v in (start, end, axis)))

    def pad(self, x: str, pads: list[int], value: float) -> str:
        if self.opset < 11:
            return self.n.add("Pad", x, pads=pads, value=value)
        return self.n.add("Pad", x, self.n.ints(*pads), self.n.const(F(value)))

    def split(self, x: str, parts: list[int]) -> list[str]:
        if self.opset < 13:
            y = self.n.add("Split", x, outputs=len(parts), axis=1, split=parts)
        else:
            y = self.n.add("Split", x, self.n.ints(*parts), outputs=len(parts), axis=1)
        return [y, *(f"{y}_{i}" for i in range(1, len(parts)))]

    def enlarge(self, x: str) -> str:
        """Twice as high and wide, nearest."""
        scales = [1.0, 1.0, 2.0, 2.0]
        if self.opset < 9:
            return self.n.add("Upsample", x, mode="nearest", scales=scales)
        stored = self.n.const(np.array(scales, F))
        if self.opset < 11:
            return self.n.add(
                "Upsample" if self.opset == 9 else "Resize", x, stored, mode="nearest"
            )
        region = self.n.const(np.zeros(0, F)) if self.opset < 13 else ""
        return self.n.add("Resize", x, region, stored, mode="nearest", nearest_mode="floor",
                          coordinate_transformation_mode="asymmetric")  # fmt: skip

    def softmax(self, x: str) -> str:
        """Of a matrix, over its rows: every opset says the same then."""
        return self.n.add("Softmax", x, axis=1)

    def dropout(self, x: str) -> str:
        return self.n.add("Dropout", x, **({"ratio": 0.5} if self.opset < 12 else {}))

    def top(self, x: str, count: int) -> tuple[str, str]:
        if self.opset < 10:
            y = self.n.add("TopK", x, outputs=2, axis=1, k=count)
        else:
            y = self.n.add("TopK", x, self.n.ints(count), outputs=2, axis=1)
        return y, f"{y}_1"

    def normalised(self, x: str, channels: int) -> str:
        rng = self.n.rng
        lists = [rng.uniform(0.5, 1.5, channels), rng.normal(0, 0.2, channels),
                 rng.normal(0, 0.2, channels), rng.uniform(0.5, 2, channels)]  # fmt: skip
        return self.n.add("BatchNormalization", x, *(self.n.const(v.astype(F)) for v in lists))


def _network(opset: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    f = _Forms(opset)
    n = f.n
    x = f.pad(n.image(2, 3, 9, 12), [0, 0, 1, 0, 0, 0, 0, 2], 0.5)
    x = n.add("Conv", x, n.weight(8, 3, 3, 3), n.weight(8), kernel_shape=[3, 3], pads=[1] * 4)
    x = n.add("Relu", f.normalised(x, 8))
    x = n.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    left, right = f.split(f.enlarge(x), [3, 5])
    right = n.add("AveragePool", f.clip(right, -0.5, 1.5), kernel_shape=[3, 3], pads=[1] * 4)
    x = n.add("Concat", left, right, axis=1)
    x = n.add("PRelu", n.add("Sub", x, f.mean(x, 2)), n.const(np.full((8, 1, 1), 0.25, F)))
    x = f.total(f.slice(x, 3, 1, -1), 2)
    x = n.add("Add", f.squeeze(f.unsqueeze(x, 1), 1), n.const(F(0.125)))
    flat = n.add("Flatten", f.dropout(x), axis=1)
    x = n.add("Gemm", flat, n.weight(96, 20), n.weight(20), alpha=0.5)
    x = f.softmax(n.add("Sum", x, n.add("Tanh", x), n.add("Max", x, n.const(np.zeros((2, 20), F)))))
    scores, places = f.top(x, 4)
    turned = n.add("Transpose", n.add("Reshape", x, n.ints(2, 4, 5)), perm=[0, 2, 1])
    return _finished(n, n.add("MatMul", turned, n.weight(4, 3)), scores, places), n.feeds


def _finished(n: Network, *names: str) -> onnx.ModelProto:
    """Without shape inference: not every installed onnx knows the newest opset."""
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64]
    infos = [helper.make_tensor_value_info(name, kind, None)
             for name, kind in zip(names, kinds, strict=True)]  # fmt: skip
    graph = helper.make_graph(n.nodes, "net", n.inputs, infos, initializer=n.weights)
    opsets = [helper.make_opsetid("", n.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("opsets")
    for opset in OPSETS:
        model, feeds = _network(opset)
        convert(model, directory / f"{opset}.om")
        put_inputs(directory / f"{opset}.om", feeds)
    execute(directory)
    return directory


def _agree(got: list[Array], expected: list[Array]) -> None:
    for a, b in zip(got, expected, strict=True):
        assert distance(a, b) <= BAR


@pytest.mark.parametrize("opset", OPSETS)
def test_all_opsets_say_the_same(folder: Path, opset: int) -> None:
    _agree(outputs(folder / f"{opset}.om"), outputs(folder / "17.om"))


@pytest.mark.parametrize("opset", range(OLDEST, READ_BY_ONNXRUNTIME + 1))
def test_each_opset_agrees_with_onnxruntime(folder: Path, opset: int) -> None:
    _agree(outputs(folder / f"{opset}.om"), reference(*_network(opset)))


@pytest.mark.parametrize("opset", [1, OLDEST - 1, NEWEST + 1])
def test_other_opsets_are_refused_by_number(tmp_path: Path, opset: int) -> None:
    model, _ = _network(17)
    model.opset_import[0].version = opset
    with pytest.raises(Exception, match=rf"opset {opset}, opsets {OLDEST} to {NEWEST}"):
        convert(model, tmp_path / "a.om")
