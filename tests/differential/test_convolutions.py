"""Chains around convolutions against onnxruntime: generated shapes, whole networks, threads.

The bar is max |a - b| / max |b| per output: 2e-5 for float32; 1.5e-2 for float16, whose results are
rounded to a step of 1e-3 after every chain, in the reference after every operator.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import (
    HERE,
    check_bits_on_threads,
    convert,
    distance,
    execute,
    outputs,
    put_inputs,
    reference,
)
from networks import Network

sys.path.insert(0, str(HERE.parents[1]))
from benchmarks import networks as known

BAR = {"float32": 2e-5, "float16": 1.5e-2}
NET_BAR = {"float32": 1e-5, "float16": 1e-2}
COSINE = 0.9999
Array = np.ndarray[Any, Any]
Pair = tuple[onnx.ModelProto, dict[str, Array]]


@dataclass
class _Maps:
    """Feature maps under construction: the value and its shape."""

    net: Network
    x: str
    shape: list[int]

    def conv(self) -> None:
        """A convolution of any geometry; sometimes with a normalization behind it."""
        net, rng, channels = self.net, self.net.rng, self.shape[1]
        kind = rng.choice(["dense", "depthwise", "grouped", "wide", "point"])
        out, groups = int(rng.choice([1, 3, 16, 20, 33, 48])), 1
        if kind == "depthwise":
            out = groups = channels
        elif kind == "grouped" and channels % 2 == 0:
            groups, out = 2, 2 * int(rng.choice([4, 16, 32]))
        kernel = [1, 1] if kind == "point" else [int(k) for k in rng.integers(1, 5, 2)]
        dilations = [int(d) for d in rng.choice([1, 1, 2], 2)]
        pads = [int(p) for p in rng.integers(0, 7 if kind == "wide" else 3, 4)]
        for i in range(2):  # never an empty result
            pads[i] += max(0, dilations[i] * (kernel[i] - 1) + 2 - self.shape[2 + i])
        strides = [int(s) for s in rng.choice([1, 1, 2, 3], 2)]
        inputs = [self.x, net.weight(out, channels // groups, *kernel)]
        if rng.random() < 0.5:
            inputs.append(net.const(rng.standard_normal(out).astype(np.float32)))
        self.x = net.add(
            "Conv", *inputs, kernel_shape=kernel, strides=strides, dilations=dilations,
            pads=pads, group=groups,
        )  # fmt: skip
        for i in range(2):
            reach = dilations[i] * (kernel[i] - 1) + 1
            room = self.shape[2 + i] + pads[i] + pads[i + 2] - reach
            self.shape[2 + i] = room // strides[i] + 1
        self.shape[1] = out
        if rng.random() < 0.4:
            values = [rng.uniform(0.5, 1.5, out), rng.normal(0, 1, out), rng.normal(0, 1, out)]
            values.append(rng.uniform(0.5, 2, out))
            names = [net.const(v.astype(np.float32)) for v in values]
            self.x = net.add("BatchNormalization", self.x, *names, epsilon=1e-3)
        if rng.random() < 0.3:
            self.x = self.shifted(self.x, out)

    def shifted(self, x: str, channels: int) -> str:
        """A bias as an operator of its own; sometimes one for all channels."""
        shape = [channels, 1, 1] if self.net.rng.random() < 0.5 else [1, channels, 1, 1]
        shape[-3] = 1 if self.net.rng.random() < 0.2 else channels
        values = self.net.const(self.net.rng.standard_normal(shape).astype(np.float32))
        return self.net.add("Add", *([x, values] if self.net.rng.random() < 0.7 else [values, x]))

    def residual(self) -> None:
        """Adds a branch of the same shape, whose other reader may be a convolution or nobody."""
        net, channels = self.net, self.shape[1]
        before = self.x
        weight = net.weight(channels, channels, 3, 3)
        branch = net.add("Conv", self.x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        order = [branch, before] if net.rng.random() < 0.5 else [before, branch]
        self.x = net.add("Add", *order)

    def activation(self) -> None:
        """Some join the step before, others stand alone."""
        kinds = ["Relu", "Clip", "Sigmoid", "HardSwish", "gate", "squeeze", "spatial", "none"]
        kind = str(self.net.rng.choice(kinds))
        if kind == "Clip":
            low, high = self.net.const(np.float32(-0.3)), self.net.const(np.float32(1.2))
            self.x = self.net.add("Clip", self.x, low, high)
        elif kind == "gate":
            mean = self.net.add("GlobalAveragePool", self.x)
            self.x = self.net.add("Mul", self.x, self.net.add("Sigmoid", mean))
        elif kind == "squeeze":
            self.x = self.net.add("Mul", self.x, self.squeezed())
        elif kind == "spatial":  # one gate for all channels of a pixel
            one = self.net.add("Conv", self.x, self.net.weight(1, self.shape[1], 1, 1))
            self.x = self.net.add("Mul", self.net.add("Sigmoid", one), self.x)
        elif kind != "none":
            self.x = self.net.add(kind, self.x)

    def squeezed(self) -> str:
        """Gates of the channels, from their means through two layers."""
        net, channels, inner = self.net, self.shape[1], int(self.net.rng.integers(1, 20))
        mean = net.add("GlobalAveragePool", self.x)
        first = net.add("Conv", mean, net.weight(inner, channels, 1, 1))
        first = net.add("Relu", self.shifted(first, inner))
        second = net.add("Conv", first, net.weight(channels, inner, 1, 1))
        return net.add("HardSigmoid", self.shifted(second, channels))

    def pool(self) -> None:
        """A pool whose windows reach over the edge."""
        if min(self.shape[2:]) < 3:
            return
        kind = str(self.net.rng.choice(["MaxPool", "AveragePool"]))
        self.x = self.net.add(kind, self.x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        self.shape[2:] = [(s - 1) // 2 + 1 for s in self.shape[2:]]


def _chain(seed: int, dtype: str) -> Pair:
    net = Network(seed, opset=17)
    rng = net.rng
    shape = [int(rng.integers(1, 4)), int(rng.choice([1, 3, 7, 9, 16, 24, 40]))]
    shape += [int(s) for s in rng.integers(5, 30, 2)]
    maps = _Maps(net, net.image(*shape), shape)
    seen = []
    for _ in range(int(rng.integers(2, 6))):
        maps.conv()
        if rng.random() < 0.4:
            maps.residual()
        maps.activation()
        if rng.random() < 0.3:
            maps.pool()
        if rng.random() < 0.2:
            seen.append(maps.x)  # an output in the middle
    model = net.model(*dict.fromkeys([*seen, maps.x]))
    if dtype == "float32":
        return model, net.feeds
    return known.half(model), {n: a.astype(np.float16) for n, a in net.feeds.items()}


def _network(name: str, dtype: str) -> Pair:
    feeds = {"x": known.image(2, 96)}
    model = getattr(known, name)(2, 96)
    if dtype == "float32":
        return model, feeds
    return known.half(model), {"x": feeds["x"].astype(np.float16)}


CHAINS = {f"chain-{d}-{seed}": (seed, d) for d in BAR for seed in range(40)}
NETWORKS = {f"{n}-{d}": (n, d) for n in ("resnet50", "mobilenet_v2") for d in BAR}


@pytest.fixture(scope="module")
def models() -> dict[str, Pair]:
    """All models by name."""
    made = {name: _chain(*what) for name, what in CHAINS.items()}
    return made | {name: _network(*what) for name, what in NETWORKS.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Pair]) -> Path:
    """All models, converted and run."""
    directory = tmp_path_factory.mktemp("convolutions")
    for name, (model, feeds) in models.items():
        convert(model, directory / f"{name}.om")
        put_inputs(directory / f"{name}.om", feeds)
    execute(directory)
    return directory


@pytest.mark.parametrize("name", CHAINS)
def test_chains(folder: Path, models: dict[str, Pair], name: str) -> None:
    for a, b in zip(outputs(folder / f"{name}.om"), reference(*models[name]), strict=True):
        assert distance(a, b) <= BAR[CHAINS[name][1]]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(folder: Path, models: dict[str, Pair], name: str) -> None:
    (a,), (b,) = outputs(folder / f"{name}.om"), reference(*models[name])
    assert distance(a, b) <= NET_BAR[NETWORKS[name][1]]
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) >= COSINE


def test_any_number_of_threads_gives_the_same_bits(folder: Path, tmp_path: Path) -> None:
    names = [*NETWORKS, "chain-float32-1", "chain-float16-2"]
    check_bits_on_threads(folder, names, tmp_path)
