"""Every option of the vendor's compiler that changes a model, through `atc` as `ascendrt run` gives
it: each is seen in what the model says or computes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_atc import WANTED, atc, facts_of, failed, run_om

import ascendrt

F = np.float32
WEIGHTS = (np.random.default_rng(5).standard_normal((6, 4)) / 3).astype(F)


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(F)


def _save(folder: Path, nodes: list[onnx.NodeProto], shape: list[int | str], *outputs: str,
          **weights: np.ndarray) -> None:  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], made, stored)
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")


def dense(folder: Path, rows: int | str = 3) -> None:
    """y = exp(x @ w)."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
             helper.make_node("Exp", ["p"], ["y"], "exp")]  # fmt: skip
    _save(folder, nodes, [rows, 6], "y", w=WEIGHTS)


def plane(folder: Path, *dims: int | str) -> None:
    """y = relu(x), of a picture."""
    _save(folder, [helper.make_node("Relu", ["x"], ["y"], "relu")], [1, 3, *dims], "y")


def halves(folder: Path) -> None:
    """A node with two outputs, and one behind the second."""
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], "split", axis=1),
             helper.make_node("Neg", ["b"], ["y"], "neg")]  # fmt: skip
    _save(folder, nodes, [2, 6], "y")


def made(folder: Path, *words: str) -> Path:
    done = atc("--model=net.onnx", *WANTED, "--output=net", *words, cwd=folder)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "ATC run success" in done.stdout
    assert "without effect" not in done.stderr
    return folder / "net.om"


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(F)


# --- shapes ---


def test_input_shape_fixes_what_the_network_leaves_open(tmp_path: Path) -> None:
    dense(tmp_path, "rows")
    om = made(tmp_path, "--input_shape=x:5,6")
    assert facts_of(om)["inputs"][0]["shape"] == [5, 6]
    (got,) = run_om(om, values(5, 6), tmp_path)
    np.testing.assert_allclose(got, np.exp(values(5, 6) @ WEIGHTS), rtol=1e-5)


@pytest.mark.parametrize("words", ["--input_shape=x:2~5,6", "--input_shape_range=x:[2~5,6]"])
def test_ranges_stay_open_within_their_bounds(tmp_path: Path, words: str) -> None:
    dense(tmp_path, "rows")
    om = made(tmp_path, words)
    with ascendrt.Device(0), ascendrt.Model(om) as model:
        for rows in (2, 5):
            assert model(values(rows, 6))[0].shape == (rows, 4)
        with pytest.raises(ascendrt.AclError, match="from 2 to 5"):
            model(values(6, 6))


@pytest.mark.parametrize("named", ["NCHW", "ND"])
def test_input_format_is_told_by_the_model(tmp_path: Path, named: str) -> None:
    plane(tmp_path, 4, 5)
    om = made(tmp_path, f"--input_format={named}")
    assert facts_of(om)["inputs"][0]["format"] == named


def test_batches(tmp_path: Path) -> None:
    dense(tmp_path, "rows")
    om = made(tmp_path, "--input_shape=x:-1,6", "--dynamic_batch_size=1,4,8")
    with ascendrt.Device(0), ascendrt.Model(om) as model:
        assert model.gears.batches == (1, 4, 8)
        for rows in (1, 3, 8):
            (got,) = model(values(rows, 6))
            np.testing.assert_allclose(got, np.exp(values(rows, 6) @ WEIGHTS), rtol=1e-5)


def test_image_sizes(tmp_path: Path) -> None:
    plane(tmp_path, "h", "w")
    om = made(tmp_path, "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,2")
    with ascendrt.Device(0), ascendrt.Model(om) as model:
        assert model.gears.kind == "image"
        for size in ((4, 6), (8, 2)):
            x = values(1, 3, *size)
            assert np.array_equal(model(x)[0], np.maximum(x, 0))
        with pytest.raises(ValueError, match="no gear"):
            model(values(1, 3, 4, 2))


def test_dims(tmp_path: Path) -> None:
    plane(tmp_path, "h", "w")
    om = made(tmp_path, "--input_shape=x:1,3,-1,-1", "--input_format=ND",
              "--dynamic_dims=4,6;8,2;3,3")  # fmt: skip
    with ascendrt.Device(0), ascendrt.Model(om) as model:
        assert model.gears.kind == "dims"
        for size in ((4, 6), (8, 2), (3, 3)):
            x = values(1, 3, *size)
            assert np.array_equal(model(x)[0], np.maximum(x, 0))


# --- the edges ---


def test_insert_op_conf(tmp_path: Path) -> None:
    plane(tmp_path, 4, 5)
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op {\n aipp_mode: static\n input_format: RGB888_U8\n mean_chn_0: 100\n}\n"
    )
    om = made(tmp_path, "--insert_op_conf=aipp.cfg")
    assert facts_of(om)["inputs"][0]["dtype"] == "ACL_UINT8"
    picture = np.random.default_rng(0).integers(0, 256, (1, 4, 5, 3)).astype(np.uint8)
    (got,) = run_om(om, picture, tmp_path)
    expected = picture.transpose(0, 3, 1, 2).astype(F) - np.array([100, 0, 0], F)[:, None, None]
    assert np.array_equal(got, np.maximum(expected, 0))


def test_a_dynamic_aipp_wants_its_parameters(tmp_path: Path) -> None:
    plane(tmp_path, 4, 4)
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op {\n aipp_mode: dynamic\n max_src_image_size: 48\n}\n"
    )
    om = made(tmp_path, "--insert_op_conf=aipp.cfg")
    picture = np.arange(48, dtype=np.uint8)
    with ascendrt.Device(0), ascendrt.Model(om) as model:
        with pytest.raises(TypeError, match=r"takes 2 inputs.*aipp_block\(\)"):
            model(picture)
        block = model.aipp_block(ascendrt.Aipp(input_format="RGB888_U8", size=(4, 4)))
        plain = model(picture, block)[0]
        block = model.aipp_block(
            ascendrt.Aipp(input_format="RGB888_U8", size=(4, 4), mean=(9, 9, 9, 0))
        )
        assert not np.array_equal(plain, model(picture, block)[0])


def test_output_type_of_all_outputs(tmp_path: Path) -> None:
    dense(tmp_path)
    om = made(tmp_path, "--output_type=FP16")
    (got,) = run_om(om, values(3, 6), tmp_path)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, np.exp(values(3, 6) @ WEIGHTS), rtol=2e-3)


def test_output_type_of_each_output(tmp_path: Path) -> None:
    halves(tmp_path)
    om = made(tmp_path, "--out_nodes=split:1;neg:0", "--output_type=split:1:FP16;neg:0:FP32")
    kinds = [output["dtype"] for output in facts_of(om)["outputs"]]
    assert kinds == ["ACL_FLOAT16", "ACL_FLOAT"]
    second, negated = run_om(om, values(2, 6), tmp_path)
    assert np.array_equal(second, values(2, 6)[:, 3:].astype(np.float16))
    assert np.array_equal(negated, -values(2, 6)[:, 3:])


def test_out_nodes_take_ports(tmp_path: Path) -> None:
    halves(tmp_path)
    om = made(tmp_path, "--out_nodes=split:1;split:0")
    second, first = run_om(om, values(2, 6), tmp_path)
    assert np.array_equal(np.hstack([first, second]), values(2, 6))


def test_input_fp16_nodes(tmp_path: Path) -> None:
    dense(tmp_path)
    om = made(tmp_path, "--input_fp16_nodes=x")
    (given,) = facts_of(om)["inputs"]
    assert (given["dtype"], given["size_bytes"]) == ("ACL_FLOAT16", 36)
    (got,) = run_om(om, values(3, 6).astype(np.float16), tmp_path)
    np.testing.assert_allclose(got, np.exp(half(values(3, 6)) @ WEIGHTS), rtol=1e-5)


# --- numbers ---

WIDE = np.exp(values(3, 6) @ WEIGHTS)
CUBE = np.exp(half(half(values(3, 6)) @ half(WEIGHTS)))
NARROW = half(CUBE)
ROUNDED = np.exp(half(values(3, 6)) @ half(WEIGHTS))
MODES = {
    "must_keep_origin_dtype": WIDE, "force_fp32": ROUNDED, "cube_fp16in_fp32out": ROUNDED,
    "force_fp16": NARROW, "allow_fp32_to_fp16": CUBE, "allow_mix_precision": CUBE,
    "allow_mix_precision_fp16": CUBE,
}  # fmt: skip
MODES_V2 = {"origin": WIDE, "fp16": NARROW, "mixed_float16": CUBE, "cube_fp16in_fp32out": ROUNDED}


@pytest.mark.parametrize(
    ("option", "mode"),
    [*(("precision_mode", m) for m in MODES), *(("precision_mode_v2", m) for m in MODES_V2)],
)
def test_precision(tmp_path: Path, option: str, mode: str) -> None:
    """Equal but for products next to a tie; other modes are further away than that."""
    dense(tmp_path)
    (got,) = run_om(made(tmp_path, f"--{option}={mode}"), values(3, 6), tmp_path)
    expected = (MODES if option == "precision_mode" else MODES_V2)[mode]
    assert got.dtype == F
    near = np.isclose(got, expected, rtol=1e-6, atol=0)
    assert near.mean() >= 0.9
    np.testing.assert_allclose(got, expected, rtol=2e-3)
    for other in (WIDE, CUBE, NARROW, ROUNDED):
        if not np.array_equal(other, expected):
            assert np.isclose(got, other, rtol=1e-6, atol=0).mean() < 0.9


@pytest.mark.parametrize("mode", ["allow_fp32_to_bf16", "allow_mix_precision_bf16"])
def test_precision_in_bfloat16(tmp_path: Path, mode: str) -> None:
    dense(tmp_path)
    (got,) = run_om(made(tmp_path, f"--precision_mode={mode}"), values(3, 6), tmp_path)
    error = np.abs(np.log(got) - np.log(WIDE)).max()
    assert 1e-4 < error < 2e-2


# --- the rest ---


@pytest.mark.parametrize("rows", [3, "rows"])
def test_fusion_can_be_switched_off(tmp_path: Path, rows: int | str) -> None:
    """What follows a product is merged into it, or not; results are the same bits."""
    dense(tmp_path, rows)
    results = {}
    for state, name in (("on", "ALL"), ("off", "ALL"), ("one", "SomeFusionPass")):
        switches = {name: "off" if state == "one" else state}
        (tmp_path / "f.cfg").write_text(json.dumps({"Switch": {"GraphFusion": switches}}))
        done = atc("--model=net.onnx", *WANTED, f"--output={state}", "--fusion_switch_file=f.cfg",
                   cwd=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert ("only ALL of GraphFusion" in done.stderr) == (state == "one")
        with ascendrt.Device(0), ascendrt.Model(tmp_path / f"{state}.om") as model:
            results[state] = model(values(3, 6))[0].tobytes()
        if rows == 3:
            (graph,) = facts_of(tmp_path / f"{state}.om")["graphs"]
            types = [op["type"] for op in graph["ops"]]  # type: ignore[attr-defined]
            assert ("Exp" in types) == (state == "off")
    assert len(set(results.values())) == 1


def test_log_levels_tell_more_and_less(tmp_path: Path) -> None:
    dense(tmp_path)
    words = ("--model=net.onnx", *WANTED, "--output=net")
    said = {level: atc(*words, f"--log={level}", cwd=tmp_path).stdout
            for level in ("debug", "info", "warning", "error", "null")}  # fmt: skip
    assert "[info] converting net.onnx to net.om" in said["info"]
    assert "weights" in said["debug"]
    for level in ("warning", "error", "null"):
        assert "[info]" not in said[level]
        assert "ATC run success" in said[level]


def test_external_weights_lie_beside_the_model(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    large = np.random.default_rng(1).standard_normal((6, 700)).astype(F)
    _save(tmp_path, nodes, [2, 6], "y", w=large)
    om = made(tmp_path, "--external_weight=1")
    files = list((tmp_path / "weight").iterdir())
    assert sum(file.stat().st_size for file in files) >= large.nbytes
    assert om.stat().st_size < large.nbytes
    (got,) = run_om(om, values(2, 6), tmp_path)
    np.testing.assert_allclose(got, values(2, 6) @ large, rtol=1e-4, atol=1e-5)


def test_display_model_info(tmp_path: Path) -> None:
    dense(tmp_path)
    done = atc("--model=net.onnx", *WANTED, "--output=net", "--display_model_info=1", cwd=tmp_path)
    assert "soc_version[Ascend910B1]" in done.stdout


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--op_select_implmode=fastest", ("E10001", "fastest", "high_precision")),
        ("--buffer_optimize=l3", ("E10001", "l3", "l2_optimize")),
        ("--external_weight=3", ("E10001", "0 1 2")),
        ("--deterministic=yes", ("E10001", "yes")),
        ("--dynamic_batch_size=1,2", ("E10001", "input_shape", "data:-1,3,224,224")),
        ("--dynamic_image_size=8,8;9,9", ("E10001", "input_shape", "data:1,3,-1,-1")),
        ("--fusion_switch_file=none.cfg", ("E10001", "fusion_switch_file", "none.cfg")),
        ("--fusion_switch_file=net.onnx", ("E10001", "net.onnx", '{"ALL": "off"}')),
        ("--insert_op_conf=none.cfg", ("none.cfg",)),
        ("--precision_mode_v2=force_fp16x", ("E10001", "force_fp16x")),
    ],
)
def test_values_that_do_not_exist_are_refused(
    tmp_path: Path, words: str, parts: tuple[str, ...]
) -> None:
    dense(tmp_path)
    failed(atc("--model=net.onnx", *WANTED, "--output=net", words, cwd=tmp_path), *parts)
    assert not list(tmp_path.glob("*.om"))


def test_what_the_code_generator_alone_understands_is_named(tmp_path: Path) -> None:
    dense(tmp_path)
    done = atc("--model=net.onnx", *WANTED, "--output=net", "--op_select_implmode=high_precision",
               "--op_bank_path=bank", "--log=error", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0
    (said,) = (line for line in done.stderr.splitlines() if "without effect" in line)
    assert {"--op_select_implmode", "--op_bank_path"} <= set(said.replace(",", "").split())
    assert "--log" not in said


@pytest.mark.parametrize("output", ["nets/", "nets/.", ".."])
def test_an_output_without_a_name_is_refused(tmp_path: Path, output: str) -> None:
    dense(tmp_path)
    (tmp_path / "nets").mkdir()
    done = atc("--model=net.onnx", *WANTED, f"--output={output}", cwd=tmp_path)
    failed(done, "E10005", f"{output} names a folder")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["net.onnx", "nets"]


def test_a_wrong_aipp_file_is_not_told_whole(tmp_path: Path) -> None:
    plane(tmp_path, 4, 4)
    (tmp_path / "aipp.cfg").write_text("[" * 1_000_000)
    done = atc("--model=net.onnx", *WANTED, "--output=net", "--insert_op_conf=aipp.cfg",
               cwd=tmp_path)  # fmt: skip
    failed(done, "insert_op_conf: '[[[")
    assert len(done.stderr) < 1000


def test_precision_is_chosen_once(tmp_path: Path) -> None:
    dense(tmp_path)
    words = ("--precision_mode=force_fp16", "--precision_mode_v2=origin")
    done = atc("--model=net.onnx", *WANTED, "--output=net", *words, cwd=tmp_path)
    failed(done, "E10001", "precision_mode and precision_mode_v2")
    assert not list(tmp_path.glob("*.om"))
