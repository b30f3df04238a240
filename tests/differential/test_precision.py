"""What --precision_mode makes of a model: element types, rounding and closeness to float32."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import differential
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ascendrt import Device, Model, _ctl
from benchmarks import networks

Array = np.ndarray[Any, Any]
HALF_MODES = ("force_fp16", "fp16", "allow_fp32_to_fp16", "allow_mix_precision", "mixed_float16")
BRAIN_MODES = ("allow_fp32_to_bf16", "allow_mix_precision_bf16", "mixed_bfloat16")
WIDE_MODES = ("must_keep_origin_dtype", "origin", "force_fp32", "cube_fp16in_fp32out")


def half(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float32)


def brain(values: Array) -> Array:
    """Rounded to the nearest bfloat16, ties to even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    kept = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (kept << 16).astype(np.uint32).view(np.float32)


def dense() -> tuple[onnx.ModelProto, Array, Array]:
    """y = exp(x @ w), with the largest value of x to tell the modes apart."""
    draw = np.random.default_rng(3)
    x, w = (draw.standard_normal(size).astype(np.float32) for size in ((5, 40), (40, 19)))
    w /= 6
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Exp", ["p"], ["y"])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
        for name, size in (("x", x.shape), ("y", (5, 19)))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), x, w


def products(x: Array, w: Array) -> Array:
    """Products of float32 values, near enough to exact to be rounded once."""
    return x.astype(np.float64) @ w.astype(np.float64)


EXPECTED = {
    "must_keep_origin_dtype": lambda x, w: np.exp(products(x, w)),
    "force_fp32": lambda x, w: np.exp(products(half(x), half(w))),
    "force_fp16": lambda x, w: half(np.exp(half(products(half(x), half(w))))),
    "allow_fp32_to_fp16": lambda x, w: np.exp(half(products(half(x), half(w)))),
    "allow_fp32_to_bf16": lambda x, w: np.exp(brain(products(brain(x), brain(w)))),
    "mixed_float16": lambda x, w: np.exp(half(products(half(x), half(w)))),
    "mixed_bfloat16": lambda x, w: np.exp(brain(products(brain(x), brain(w)))),
}


def inverted_residual(seen: bool) -> tuple[onnx.ModelProto, Array]:
    """Convolutions 1x1, depthwise, 1x1 and 3x3 with a shortcut; `seen`: each is an output too."""
    draw = np.random.default_rng(8)
    kept, nodes, values = [], [], ["x"]

    def conv(name: str, outputs: int, inputs: int, kernel: int, tail: str, **given: int) -> None:
        weights = draw.standard_normal((outputs, inputs, kernel, kernel)).astype(np.float32) / 4
        kept.append(numpy_helper.from_array(weights, f"{name}_w"))
        pads = [kernel // 2] * 4
        nodes.append(
            helper.make_node("Conv", [values[-1], f"{name}_w"], [f"{name}_c"], pads=pads, **given)
        )
        more = ["x"] if tail == "Add" else []
        nodes.append(helper.make_node(tail, [f"{name}_c", *more], [name]))
        values.append(name)

    conv("up", 48, 20, 1, "Relu")
    conv("deep", 48, 1, 3, "Relu", group=48)
    conv("down", 20, 48, 1, "Add")
    conv("y", 33, 20, 3, "Relu")
    x = draw.standard_normal((2, 20, 13, 17)).astype(np.float32)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in ["y", *(values[1:-1] if seen else [])]
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x


def test_results_that_are_seen_change_no_bit_behind_them(tmp_path: Path) -> None:
    """What one convolution alone reads lies as floats in memory; the others read halves."""
    for seen in (False, True):
        model, x = inverted_residual(seen)
        om = tmp_path / f"seen_{seen}.om"
        differential.convert(model, om, "precision_mode=force_fp16")
        differential.put_inputs(om, {"x": x})
    differential.execute(tmp_path)
    alone = differential.outputs(tmp_path / "seen_False.om")
    y, up, deep, down = differential.outputs(tmp_path / "seen_True.om")
    assert np.array_equal(alone[0], y)
    assert np.ptp(y) > 1
    assert all(np.array_equal(half(part), part) for part in (y, up, deep, down))


TIMED = """
import ascendrt as a, numpy as np, sys
device, stream, start, end = a.Device(0), a.Stream(), a.Event(), a.Event()
model = a.Model(sys.argv[1])
x = np.zeros(model.inputs[0].shape, sys.argv[2])
stream.record(start)
done = model.run_async([x], stream)
stream.record(end)
done.result()
stream.synchronize()
print(end.elapsed_ms(start))
"""


def modelled_ms(om: Path, timing: str, dtype: str = "float32") -> float:
    """How long a run takes on a chip of such figures."""
    known = {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", "ASCENDRT_CLOCK": "virtual"}
    variables = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")} | known
    done = subprocess.run(
        [sys.executable, "-c", TIMED, om, dtype], env=variables | {"ASCENDRT_TIMING": timing},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_the_modelled_clock_takes_halves_for_halves(tmp_path: Path) -> None:
    """However they lie in the emulator's memory."""
    model, _ = inverted_residual(seen=False)
    for mode in ("force_fp16", "origin"):
        differential.convert(model, tmp_path / f"{mode}.om", f"precision_mode={mode}")
    shares = ("cube.fp32_share=1", "cube.fp32_share=1e-7")
    half_ms = [modelled_ms(tmp_path / "force_fp16.om", share) for share in shares]
    wide_ms = [modelled_ms(tmp_path / "origin.om", share) for share in shares]
    assert half_ms[0] == half_ms[1]
    assert wide_ms[1] > 10 * wide_ms[0]


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "QLinearConv"])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_modelled_clock_computes_convolutions_on_the_matrix_unit(
    tmp_path: Path, kind: str, dims: int
) -> None:
    """As many multiplications as the filter has, at the speed of the type."""
    quantized = kind == "QLinearConv"
    dtype = np.uint8 if quantized else np.float16
    x = np.zeros((1, 16, *[12] * dims), dtype)
    weights = np.zeros((16, 16, *[3] * dims), np.int8 if quantized else dtype)
    kept = {"w": weights, "s": np.float32(1), "z": np.uint8(0), "zw": np.int8(0)}
    names = ["x", "s", "z", "w", "s", "zw", "s", "z"] if quantized else ["x", "w"]
    node = helper.make_node(kind, names, ["y"], pads=[1] * (2 * dims))
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name in "xy"
    ]
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in kept.items() if n in names]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], stored)
    opsets = [helper.make_opsetid("", 17)]
    om = tmp_path / "net.om"
    differential.convert(helper.make_model(graph, opset_imports=opsets, ir_version=8), om)
    unit = "cube.int8_tops" if quantized else "cube.fp16_tflops"
    products = x.size * weights[0].size * 2
    took_ms = modelled_ms(om, f"{unit}=1e-6,cube.efficiency=1,cube.fp32_share=1", x.dtype.name)
    assert took_ms == pytest.approx(products / 1e3, rel=0.02)


def test_each_mode_rounds_where_it_says(tmp_path: Path) -> None:
    """One rounding step of slack: a product may lie next to a tie."""
    model, x, w = dense()
    for mode in EXPECTED:
        om = tmp_path / f"{mode}.om"
        differential.convert(model, om, f"precision_mode={mode}")
        differential.put_inputs(om, {"x": x})
    differential.execute(tmp_path)
    got = {mode: differential.outputs(tmp_path / f"{mode}.om")[0] for mode in EXPECTED}
    for mode, expected in EXPECTED.items():
        wanted = expected(x, w)
        assert got[mode].dtype == np.float32, mode
        close = np.isclose(got[mode], wanted, rtol=2e-6, atol=0)
        assert close.mean() > 0.97, mode
        np.testing.assert_allclose(got[mode], wanted, rtol=2e-2 if "bf" in mode else 2e-3)
    assert not np.array_equal(got["force_fp16"], got["must_keep_origin_dtype"])
    assert np.array_equal(got["force_fp16"], half(got["force_fp16"]))


def test_a_transformer_in_every_mode(tmp_path: Path) -> None:
    """Closeness to float32; inputs and outputs keep their types; halves make a smaller file."""
    model, feeds = networks.bert(blocks=1, length=24), networks.sentences(length=24)
    modes = (*HALF_MODES, *BRAIN_MODES, *WIDE_MODES)
    for mode in modes:
        differential.convert(model, tmp_path / f"{mode}.om", f"precision_mode={mode}")
        differential.put_inputs(tmp_path / f"{mode}.om", feeds)
    differential.execute(tmp_path)
    expected = differential.reference(model, feeds)[0].astype(np.float64)
    for mode in modes:
        got = differential.outputs(tmp_path / f"{mode}.om")[0]
        assert got.dtype == np.float32
        cosine = (got * expected).sum() / np.sqrt((got * got).sum() * (expected**2).sum())
        assert cosine >= (0.9999 if mode in BRAIN_MODES else 0.99999), mode
        least = 0.0 if mode in ("must_keep_origin_dtype", "origin") else 1e-5
        assert least <= differential.distance(got, expected.astype(np.float32)) < 2e-2, mode
    size = {mode: (tmp_path / f"{mode}.om").stat().st_size for mode in modes}
    assert size["force_fp16"] < 0.6 * size["origin"]


def test_half_models_compute_wide_when_told(tmp_path: Path) -> None:
    """force_fp32 widens what the file has in half precision, but not its inputs and outputs."""
    model, feeds = networks.bert(blocks=1, length=8), networks.sentences(length=8)
    om = tmp_path / "wide.om"
    differential.convert(networks.half(model), om, "precision_mode=force_fp32")
    differential.put_inputs(om, feeds)
    differential.execute(tmp_path)
    assert differential.outputs(om)[0].dtype == np.float16


def test_constants_beyond_a_half_become_its_largest(tmp_path: Path) -> None:
    """The mask of a transformer: 0 times the lowest float32 is 0, and not what 0 times -inf is."""
    nodes = [helper.make_node("Mul", ["m", "low"], ["p"]), helper.make_node("Add", ["x", "p"], "y")]
    low = [numpy_helper.from_array(np.float32(np.finfo(np.float32).min), "low")]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "mx"]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, low)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    mask, x = np.array([0, 1, 0, 1], np.float32), np.array([0.5, 0.25, -7, 0], np.float32)
    for mode in HALF_MODES:
        differential.convert(model, tmp_path / f"{mode}.om", f"precision_mode={mode}")
        differential.put_inputs(tmp_path / f"{mode}.om", {"m": mask, "x": x})
    differential.execute(tmp_path)
    for mode in HALF_MODES:
        (y,) = differential.outputs(tmp_path / f"{mode}.om")
        assert np.array_equal(y[::2], x[::2]), mode
        assert (y[1::2] <= -65504).all(), mode
    (narrow,) = differential.outputs(tmp_path / "force_fp16.om")
    assert np.array_equal(narrow[1::2], [-65504, -65504])


def test_an_unknown_mode_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    model, _, _ = dense()
    with pytest.raises(_ctl.ConvertError, match=r"'fp17' is not known.*allow_fp32_to_fp16"):
        differential.convert(model, tmp_path / "x.om", "precision_mode=fp17")
    assert not (tmp_path / "x.om").exists()


def product_twice(dtype: int, a: Any, b: Any, constant: Array | None, turned: int) -> Any:
    """On the narrow type, and on float32 between casts."""
    wide = TensorProto.FLOAT
    more: dict[str, Any] = {"transA": turned} if len(a) == 2 else {}
    kind = "Gemm" if more else "MatMul"
    nodes = [
        *(helper.make_node("Cast", [name], [f"{name}w"], to=wide) for name in "ab"),
        helper.make_node(kind, ["a", "b"], ["y"], **more),
        helper.make_node(kind, ["aw", "bw"], ["zw"], **more),
        helper.make_node("Cast", ["zw"], ["z"], to=dtype),
    ]
    inputs = [helper.make_tensor_value_info("a", dtype, a)]
    inputs += [] if constant is not None else [helper.make_tensor_value_info("b", dtype, b)]
    stored = [] if constant is None else [numpy_helper.from_array(constant, "b")]
    outputs = [helper.make_tensor_value_info(name, dtype, None) for name in "yz"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    batch=st.sampled_from([(), (1,), (3,), (2, 2)]), shared=st.booleans(), known=st.booleans(),
    turned=st.integers(0, 1), rows=st.sampled_from([1, 2, 9, 63, 150, 300]),
    depth=st.sampled_from([1, 7, 64, 400]), columns=st.sampled_from([1, 15, 32, 77]),
)  # fmt: skip
def test_products_of_halves_are_rounded_once(
    tmp_path_factory: pytest.TempPathFactory, batch: tuple[int, ...], shared: bool, known: bool,
    turned: int, rows: int, depth: int, columns: int,
) -> None:  # fmt: skip
    """Sums are float32 whatever order pieces are widened in: the same bits as between casts."""
    turned = 0 if batch else turned
    a = (*batch, depth, rows) if turned else (*batch, rows, depth)
    b = (depth, columns) if shared else (*batch, depth, columns)
    draw = np.random.default_rng(rows * depth + columns)
    x, w = (draw.standard_normal(size).astype(np.float16) for size in (a, b))
    model = product_twice(TensorProto.FLOAT16, a, b, w if known else None, turned)
    om = tmp_path_factory.mktemp("product") / "net.om"
    differential.convert(model, om)
    with Device(), Model(om) as loaded:
        near, far = loaded(x) if known else loaded(x, w)
    assert near.dtype == np.float16 and near.tobytes() == far.tobytes()
