"""Quantised layers and networks: against integers in numpy, against onnxruntime, against the same
network whose operators were not merged.

A layer on integers gives the bits of the numpy reference. onnxruntime and the operators one by one
round intermediate float32 results otherwise, so a layer may be one quantum off; a network adds
those up, its bar is said at the test.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import (
    HERE,
    check_bits_on_threads,
    convert,
    execute,
    outputs,
    put_inputs,
    reference,
)
from networks import Network

from ascendrt import _ctl

sys.path.insert(0, str(HERE.parents[1]))
from benchmarks import networks as known

Array = np.ndarray[Any, Any]
Pair = tuple[onnx.ModelProto, dict[str, Array]]
F = np.float32


class _Layer:
    """One convolution between DequantizeLinear and QuantizeLinear, or as QLinearConv."""

    def __init__(self, seed: int) -> None:
        self.net = Network(seed, opset=17)
        rng = self.rng = self.net.rng
        kind = rng.choice(["dense", "depthwise", "grouped", "point", "picture"])
        self.groups, into = 1, int(rng.choice([5, 16, 20, 40]))
        out = int(rng.choice([1, 8, 16, 33, 48]))
        if kind == "depthwise":
            self.groups = out = into
        elif kind == "grouped":
            self.groups, into, out = 2, 32, 64
        elif kind == "picture":
            into = int(rng.integers(1, 5))
        kernel = [1, 1] if kind == "point" else [int(k) for k in rng.integers(1, 5, 2)]
        self.strides = [int(s) for s in rng.integers(1, 3, 2)]
        self.dilations = [int(d) for d in rng.choice([1, 1, 2], 2)]
        self.pads = [int(p) for p in rng.integers(0, 4, 4)]
        self.sx, self.sy = F(rng.uniform(0.02, 0.1)), F(rng.uniform(0.05, 0.3))
        xtype, ytype = rng.choice([np.uint8, np.int8], 2)
        self.x = self._bytes(xtype, int(rng.integers(1, 3)), into, *rng.integers(8, 20, 2))
        self.w = self._bytes(np.int8, out, into // self.groups, *kernel)
        self.zx, self.zy = self._bytes(xtype, 1)[0], self._bytes(ytype, 1)[0]
        channels = out if rng.random() < 0.7 else 1
        self.sw = rng.uniform(0.001, 0.02, channels).astype(F)
        self.bias = rng.integers(-3000, 3000, out).astype(np.int32)
        self.relu = rng.random() < 0.4

    def _bytes(self, dtype: Any, *shape: int) -> Array:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def _attributes(self) -> dict[str, Any]:
        return {
            "strides": self.strides, "dilations": self.dilations, "pads": self.pads,
            "group": self.groups, "kernel_shape": list(self.w.shape[2:]),
        }  # fmt: skip

    def model(self, form: str) -> Pair:
        """The layer as `qdq`, as `qlinear`, or qdq with weights whose zero point is not `plain`."""
        net, x = self.net, self.net.feed(self.x)
        sx, zx = net.const(self.sx), net.const(self.zx)
        sy, zy = net.const(self.sy), net.const(self.zy)
        flat = self.sw if len(self.sw) > 1 else self.sw[0]
        sw, w = net.const(flat), net.const(self.w)
        zw = net.const(np.zeros(np.shape(flat), np.int8))
        if form == "qlinear":
            y = net.add(
                "QLinearConv", x, sx, zx, w, sw, zw, sy, zy, net.const(self.bias),
                **self._attributes(),
            )  # fmt: skip
            return net.model(y), net.feeds
        if form == "unsigned":  # the same weights, on another zero point
            shifted = (self.w.astype(np.int16) + 128).astype(np.uint8)
            w, zw = net.const(shifted), net.const(np.full(np.shape(flat), 128, np.uint8))
        real = net.add("DequantizeLinear", x, sx, zx)
        filter_ = net.add("DequantizeLinear", w, sw, zw, axis=0)
        unit = (self.sx * self.sw).astype(F)
        unit_flat = unit if len(unit) > 1 else unit[0]
        zb = net.const(np.zeros(np.shape(unit_flat), np.int32))
        bias = net.add("DequantizeLinear", net.const(self.bias), net.const(unit_flat), zb, axis=0)
        y = net.add("Conv", real, filter_, bias, **self._attributes())
        if self.relu:
            y = net.add("Relu", y)
        return net.model(net.add("QuantizeLinear", y, sy, zy)), net.feeds

    def sums(self) -> Array:
        """Exact integer sums and the bias."""
        x = self.x.astype(np.int64) - int(self.zx)
        top, left, bottom, right = self.pads
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        out, into, kh, kw = self.w.shape
        (sh, sw), (dh, dw) = self.strides, self.dilations
        rows = (x.shape[2] - dh * (kh - 1) - 1) // sh + 1
        columns = (x.shape[3] - dw * (kw - 1) - 1) // sw + 1
        y = np.zeros((x.shape[0], out, rows, columns), np.int64)
        weights = self.w.astype(np.int64).reshape(self.groups, -1, into, kh, kw)
        for g in range(self.groups):
            part = x[:, g * into : (g + 1) * into]
            to = y[:, g * weights.shape[1] : (g + 1) * weights.shape[1]]
            for i in range(kh):
                for j in range(kw):
                    seen = part[:, :, i * dh :: sh, j * dw :: sw][:, :, :rows, :columns]
                    to += np.einsum("nchw,oc->nohw", seen, weights[g, :, :, i, j])
        return y + self.bias[None, :, None, None]

    def expected(self, relu: bool) -> Array:
        """The integers of the result, every float32 operation rounded."""
        scale = ((self.sx * self.sw).astype(F) / self.sy).astype(F)
        v = np.rint(self.sums().astype(F) * scale[None, :, None, None].astype(F))
        info = np.iinfo(self.zy.dtype)
        low = int(self.zy) if relu else info.min
        return np.clip(v + int(self.zy), max(low, info.min), info.max).astype(self.zy.dtype)


def _network(seed: int) -> Pair:
    """Float networks with branches, quantised by onnxruntime's own tool."""
    net = Network(seed, opset=17)
    rng, channels = net.rng, 16 * int(net.rng.integers(1, 4))
    x = net.image(int(rng.integers(1, 3)), 3, 20, 24)
    x = net.add("Relu", net.add("Conv", x, net.weight(channels, 3, 3, 3), strides=[2, 2],
                                kernel_shape=[3, 3], pads=[1, 1, 1, 1]))  # fmt: skip
    for _ in range(int(rng.integers(1, 4))):
        before = x
        kind = str(rng.choice(["residual", "depthwise", "pool", "branch", "concat"]))
        x = net.add("Conv", x, net.weight(channels, channels, 1, 1), kernel_shape=[1, 1])
        if kind == "depthwise":
            x = net.add("Conv", net.add("Relu", x), net.weight(channels, 1, 3, 3), group=channels,
                        kernel_shape=[3, 3], pads=[1, 1, 1, 1])  # fmt: skip
        if kind == "branch":
            weight = net.weight(channels, channels, 3, 3)
            before = net.add("Conv", before, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        if kind == "pool":
            x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
        if kind == "concat":
            joined = net.add("Concat", x, before, axis=1)
            x = net.add("Conv", joined, net.weight(channels, 2 * channels, 1, 1),
                        kernel_shape=[1, 1])  # fmt: skip
        x = net.add("Add", x, before)
        if rng.random() < 0.5:
            x = net.add("Relu", x)
    flat = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    bias = net.const(rng.standard_normal(10).astype(F))
    x = net.add("Gemm", flat, net.weight(10, channels), bias, transB=1)
    return known.quantized(net.model(x), net.feeds), net.feeds


LAYERS = {f"{form}-{seed}": (form, seed) for form in ("qdq", "qlinear", "unsigned")
          for seed in range(24)}  # fmt: skip
NETWORKS = {f"net-{seed}": seed for seed in range(12)}
KNOWN = ("resnet50", "mobilenet_v2")


@pytest.fixture(scope="module")
def models() -> dict[str, Pair]:
    """All models by name."""
    made = {name: _Layer(seed).model(form) for name, (form, seed) in LAYERS.items()}
    made |= {name: _network(seed) for name, seed in NETWORKS.items()}
    feeds = {"x": known.image(2, 96)}
    return made | {n: (known.quantized(getattr(known, n)(2, 96), feeds), feeds) for n in KNOWN}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Pair]) -> Path:
    """All models, converted and run; as `-apart` without merging."""
    directory = tmp_path_factory.mktemp("quantized")
    for name, (model, feeds) in models.items():
        convert(model, directory / f"{name}.om")
        put_inputs(directory / f"{name}.om", feeds)
        if name not in KNOWN:
            convert(model, directory / f"{name}-apart.om", "fusion=off")
            put_inputs(directory / f"{name}-apart.om", feeds)
    execute(directory)
    return directory


def _types(om: Path) -> list[str]:
    return [op["type"] for op in _ctl.describe_om(om)["graphs"][0]["ops"]]


def _quanta(a: Array, b: Array) -> int:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_bits_of_the_integer_reference(folder: Path, name: str) -> None:
    form, seed = LAYERS[name]
    layer = _Layer(seed)
    (got,) = outputs(folder / f"{name}.om")
    assert "QuantizedConv2D" in _types(folder / f"{name}.om")
    assert np.array_equal(got, layer.expected(layer.relu and form != "qlinear"))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_within_a_quantum_of_others(
    folder: Path, models: dict[str, Pair], name: str
) -> None:
    form, seed = LAYERS[name]
    (got,) = outputs(folder / f"{name}.om")
    layer = _Layer(seed)
    # onnxruntime has no QLinearConv from one signedness to the other.
    if form != "qlinear" or layer.zx.dtype == layer.zy.dtype:
        assert _quanta(got, reference(*models[name])[0]) <= 1
    assert _quanta(got, outputs(folder / f"{name}-apart.om")[0]) <= 1


def _distance_in_quanta(got: Array, expected: Array, model: onnx.ModelProto) -> float:
    (last,) = (n for n in model.graph.node if n.output[0] == model.graph.output[0].name)
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return float(np.abs(got - expected).max() / values[last.input[1]])


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_within_quanta(folder: Path, models: dict[str, Pair], name: str) -> None:
    """Single quanta of a few layers reach the end as at most 2."""
    model, feeds = models[name]
    (got,) = outputs(folder / f"{name}.om")
    for other in (reference(model, feeds)[0], outputs(folder / f"{name}-apart.om")[0]):
        assert _distance_in_quanta(got, other, model) <= 2.001


@pytest.mark.parametrize("name", KNOWN)
def test_known_networks(folder: Path, models: dict[str, Pair], name: str) -> None:
    """Fifty layers: at most 6 quanta of 255, and the same direction.

    Quantisation itself turns MobileNetV2 with random weights by a cosine of 0.998.
    """
    model, feeds = models[name]
    (a,), (b,) = outputs(folder / f"{name}.om"), reference(model, feeds)
    assert _distance_in_quanta(a, b, model) <= 6.001
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) >= 0.997
    assert "Conv2D" not in _types(folder / f"{name}.om")
    assert (folder / f"{name}.om").stat().st_size < 30e6  # filters are bytes


def test_any_number_of_threads_gives_the_same_bits(folder: Path, tmp_path: Path) -> None:
    names = [*KNOWN, *list(NETWORKS)[:4], "qdq-1", "qdq-5"]
    check_bits_on_threads(folder, names, tmp_path)
