"""Operators that the converter merges: the bits of one by one, names kept, shared values left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import differential
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from ascendrt import _ctl
from benchmarks import networks

Array = np.ndarray[Any, Any]


def run_both(model: onnx.ModelProto, feeds: dict[str, Array], folder: Path) -> list[list[Array]]:
    """Outputs with merged operators and without."""
    for how in ("on", "off"):
        differential.convert(model, folder / f"{how}.om", f"fusion={how}")
        differential.put_inputs(folder / f"{how}.om", feeds)
    differential.execute(folder)
    return [differential.outputs(folder / f"{how}.om") for how in ("on", "off")]


def operators(om: Path) -> dict[str, dict[str, Any]]:
    """The operators of the first graph by name, but constants."""
    listed = _ctl.describe_om(om)["graphs"][0]["ops"]
    return {op["name"]: op for op in listed if op["type"] != "Const"}


def types(om: Path) -> list[str]:
    return sorted(op["type"] for op in operators(om).values())


def test_a_transformer_gives_the_same_bits_in_fewer_operators(tmp_path: Path) -> None:
    model, feeds = networks.bert(blocks=2, batch=2, length=40), networks.sentences(2, 40)
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0], off[0])
    assert differential.distance(on[0], differential.reference(model, feeds)[0]) < 1e-5
    merged = types(tmp_path / "on.om")
    assert merged.count("PromptFlashAttention") == 2
    assert merged.count("LayerNorm") == 5
    assert merged.count("FusedMatMul") == 6  # gelu, and the sums behind attention and the block
    assert merged.count("BatchMatMulV2") == 6  # queries, keys and values with their biases
    gone = {"Softmax", "Erf", "ReduceMean", "Transpose", "Sqrt", "RealDiv"}
    assert not gone & set(merged)


def dense_chain(draw: np.random.Generator, rows: int, depth: int, columns: int, batch: list[int],
                links: list[str]) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """A product with links behind it; a link is an operator and the kind of its other operand."""
    b = networks.Builder(0)
    shape = [*batch, rows, columns]
    beside = {
        "one": b.constant("one", np.array(draw.normal(), np.float32)),
        "row": b.constant("row", draw.standard_normal(columns).astype(np.float32)),
        "full": "r",
    }
    at = start = b.add("MatMul", "product", "x", b.normal("w", depth, columns, scale=depth**-0.5))
    for i, link in enumerate(links):
        kind, _, other = link.partition(" ")
        operands = [at] if not other else [at, start if other == "product" else beside[other]]
        at = b.add(kind, f"l{i}", *(operands[::-1] if i % 2 else operands))
    b.nodes[-1].output[0] = networks.OUTPUT
    floats = TensorProto.FLOAT
    model = b.model(
        {"x": (floats, (*batch, rows, depth)), "r": (floats, tuple(shape))},
        {networks.OUTPUT: tuple(shape)},
    )
    feeds = {
        "x": draw.standard_normal((*batch, rows, depth)).astype(np.float32),
        "r": draw.standard_normal(shape).astype(np.float32),
    }
    return model, feeds


LINKS = ["Relu", "Erf", "Tanh", "Sigmoid", "Abs", "Neg", "Add one", "Add row", "Add full",
         "Mul one", "Mul row", "Mul product", "Sub full", "Max one", "Min row", "Add product",
         ]  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**16),
    sizes=st.tuples(st.integers(1, 150), st.integers(1, 90), st.integers(1, 110)),
    batch=st.sampled_from([[], [1], [3], [2, 2]]),
    links=st.lists(st.sampled_from(LINKS), min_size=1, max_size=9),
)
def test_what_follows_a_product_gives_the_same_bits(
    tmp_path: Path, seed: int, sizes: tuple[int, int, int], batch: list[int], links: list[str]
) -> None:
    model, feeds = dense_chain(np.random.default_rng(seed), *sizes, batch, links)
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0], off[0])
    expected = differential.reference(model, feeds)[0]
    assert differential.distance(on[0], expected) < 2e-5
    first = "BatchMatMulV2" if links == ["Add row"] else "FusedMatMul"
    assert first in types(tmp_path / "on.om")


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("mask", [None, (1, 1, 1, 21), (2, 1, 33, 21), (3, 33, 21)])
def test_attention_gives_the_same_bits(
    tmp_path: Path, heads_first: bool, mask: tuple[int, ...] | None
) -> None:
    """Numbers of queries and keys differ, sizes fill no vector, the scale is no power of 2."""
    batch, heads, queries, keys, size, width = 2, 3, 33, 21, 20, 13
    b = networks.Builder(4)
    shapes = {"q": (queries, size), "k": (keys, size), "v": (keys, width)}
    inputs, feeds = {}, {}
    for name, (rows, columns) in shapes.items():
        shape = (batch, heads, rows, columns) if heads_first else (batch, rows, heads, columns)
        inputs[name] = (TensorProto.FLOAT, shape)
        feeds[name] = b.draw.standard_normal(shape).astype(np.float32)
    if heads_first:
        q, k, v = "q", b.add("Transpose", "turned", "k", perm=[0, 1, 3, 2]), "v"
    else:
        orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
        q, k, v = (b.add("Transpose", f"{n}t", n, perm=p) for n, p in orders.items())
    scores = b.add("MatMul", "products", q, k)
    scores = b.add("Mul", "scaled", scores, b.constant("c", np.array(0.2236, np.float32)))
    if mask is not None:
        inputs["mask"] = (TensorProto.FLOAT, mask)
        feeds["mask"] = np.where(b.draw.random(mask) < 0.3, np.float32(-1e4), np.float32(0))
        scores = b.add("Add", "masked", scores, "mask")
    shares = b.add("Softmax", "shares", scores, axis=-1)
    y = b.add("MatMul", "sums" if not heads_first else networks.OUTPUT, shares, v)
    shape = (batch, heads, queries, width)
    if not heads_first:
        b.add("Transpose", networks.OUTPUT, y, perm=[0, 2, 1, 3])
        shape = (batch, queries, heads, width)
    model = b.model(inputs, {networks.OUTPUT: shape})
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0], off[0])
    assert differential.distance(on[0], differential.reference(model, feeds)[0]) < 1e-5
    assert types(tmp_path / "on.om").count("PromptFlashAttention") == 1
    assert "SoftmaxV2" not in types(tmp_path / "on.om")


def test_values_that_are_outputs_are_still_made(tmp_path: Path) -> None:
    """A product, a normalised row and shares of attention that the model also gives out."""
    b = networks.Builder(5)
    two = b.constant("two", np.array(2, np.float32))
    product = b.add("MatMul", "product", "x", b.normal("w", 8, networks.HIDDEN, scale=0.3))
    norm = networks._layer_norm(b, "norm", product, two)
    grown = b.add("Relu", "relu", norm)
    shape = (4, networks.HIDDEN)
    outputs = dict.fromkeys((product, "norm_c", grown), shape)
    model = b.model({"x": (TensorProto.FLOAT, (4, 8))}, outputs)
    feeds = {"x": b.draw.standard_normal((4, 8)).astype(np.float32)}
    on, off = run_both(model, feeds, tmp_path)
    for got, wanted, reference in zip(on, off, differential.reference(model, feeds), strict=True):
        assert np.array_equal(got, wanted)
        assert differential.distance(got, reference) < 1e-5
    assert "ReduceMean" in types(tmp_path / "on.om")


def test_transpositions_become_flags(tmp_path: Path) -> None:
    b = networks.Builder(6)
    left = b.add("Transpose", "left", "x", perm=[0, 2, 1])
    right = b.add("Transpose", "right", "w", perm=[0, 2, 1])
    b.add("MatMul", networks.OUTPUT, left, right)
    floats = TensorProto.FLOAT
    model = b.model(
        {"x": (floats, (3, 7, 5)), "w": (floats, (3, 6, 7))}, {networks.OUTPUT: (3, 5, 6)}
    )
    feeds = {"x": b.draw.standard_normal((3, 7, 5)).astype(np.float32),
             "w": b.draw.standard_normal((3, 6, 7)).astype(np.float32)}  # fmt: skip
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0], off[0])
    assert types(tmp_path / "on.om") == ["BatchMatMulV2", "Data", "Data", "NetOutput"]


def test_names_of_merged_operators_are_kept(tmp_path: Path) -> None:
    """Whoever profiles by the names of the ONNX file finds each once."""
    model = networks.bert(blocks=1, length=8)
    om = tmp_path / "names.om"
    differential.convert(model, om)
    kept: list[str] = []
    for name, op in operators(om).items():
        kept += op["attributes"].get("_datadump_original_op_names") or [name]
    nodes = {node.name for node in model.graph.node}
    assert len(kept) == len(set(kept))
    assert nodes <= set(kept)


def test_a_chain_that_reads_something_later_is_left(tmp_path: Path) -> None:
    """A chain that reads a tensor made behind the product is not merged into it."""
    b = networks.Builder(8)
    product = b.add("MatMul", "product", "x", b.normal("w", 6, 6, scale=0.4))
    other = b.add("Softmax", "other", product, axis=-1)
    b.add("Add", networks.OUTPUT, product, other)
    model = b.model({"x": (TensorProto.FLOAT, (5, 6))}, {networks.OUTPUT: (5, 6)})
    feeds = {"x": b.draw.standard_normal((5, 6)).astype(np.float32)}
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0], off[0])
    assert "FusedMatMul" not in types(tmp_path / "on.om")


def element_chain(draw: np.random.Generator, shape: tuple[int, ...], links: list[str],
                  convolved: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """Element-wise operators behind an input or a convolution, beside a tensor r and numbers."""
    b = networks.Builder(1)
    channels = shape[1]
    at = start = (
        b.add("Conv", "conv", "x", b.normal("w", channels, channels, 1, 1, scale=channels**-0.5))
        if convolved
        else "x"
    )
    beside = {
        "one": b.constant("one", np.array(draw.normal(), np.float32)),
        "full": "r",
        "start": start,
    }
    bounds = [b.constant(f"c{i}", np.array(v, np.float32)) for i, v in enumerate((-0.5, 0.75))]
    for i, link in enumerate(links):
        kind, _, other = link.partition(" ")
        operands = [at, *bounds] if kind == "Clip" else [at]
        if other:
            operands = [at, beside[other]][:: -1 if i % 2 else 1]
        at = b.add(kind, f"l{i}", *operands)
    b.nodes[-1].output[0] = networks.OUTPUT
    floats = TensorProto.FLOAT
    model = b.model({"x": (floats, shape), "r": (floats, shape)}, {networks.OUTPUT: shape})
    feeds = {name: draw.standard_normal(shape).astype(np.float32) for name in ("x", "r")}
    return model, feeds


ELEMENT_LINKS = ["Clip", "Relu", "Tanh", "HardSigmoid", "HardSwish", "Neg", "Add one", "Mul one",
                 "Mul start", "Add start", "Add full", "Mul full", "Sub one", "Div one",
                 "Max full"]  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**16),
    shape=st.tuples(*(st.integers(1, top) for top in (3, 40, 30, 30))),
    links=st.lists(st.sampled_from(ELEMENT_LINKS), min_size=3, max_size=12),
    convolved=st.booleans(),
)
def test_element_wise_operators_give_the_same_bits(
    tmp_path: Path, seed: int, shape: tuple[int, ...], links: list[str], convolved: bool
) -> None:
    model, feeds = element_chain(np.random.default_rng(seed), shape, links, convolved)
    feeds["r"].flat[0] = np.nan
    feeds["x"].flat[-1] = -0.0
    on, off = run_both(model, feeds, tmp_path)
    assert np.array_equal(on[0].view(np.uint32), off[0].view(np.uint32))
    if not convolved:
        assert "FusedElementwise" in types(tmp_path / "on.om")


@pytest.mark.parametrize("convolved", [False, True])
def test_halves_of_a_chain_are_rounded_once(tmp_path: Path, convolved: bool) -> None:
    """x * clip(x + 3, 0, 6) / 6 as exporters write it: one rounding instead of four."""
    b = networks.Builder(9)
    shape = (1, 20, 17, 9)
    x = b.add("Conv", "conv", "x", b.normal("w", 20, 20, 1, 1, scale=0.2)) if convolved else "x"
    three, zero, six = (b.constant(f"n{v}", np.array(v, np.float32)) for v in (3, 0, 6))
    gate = b.add("Clip", "gate", b.add("Add", "more", x, three), zero, six)
    b.add("Div", networks.OUTPUT, b.add("Mul", "product", x, gate), six)
    model = b.model({"x": (TensorProto.FLOAT, shape)}, {networks.OUTPUT: shape})
    feeds = {"x": b.draw.standard_normal(shape).astype(np.float32)}
    if convolved:
        model.graph.output.extend([onnx.ValueInfoProto(name="conv")])
    om = tmp_path / "half.om"
    differential.convert(model, om, "precision_mode=force_fp16")
    differential.put_inputs(om, feeds)
    differential.execute(tmp_path)
    got = differential.outputs(om)
    half = (got[1] if convolved else feeds["x"].astype(np.float16)).astype(np.float32)
    exact = half * np.clip(half + np.float32(3), 0, 6) / np.float32(6)
    assert np.array_equal(got[0], exact.astype(np.float16).astype(np.float32))
    assert "FusedElementwise" in types(om)
