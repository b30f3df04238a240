"""The vendor's model compiler by its own name: what scripts pass to it and look for afterwards."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from command import DIGITS, ascendrt, run
from onnx import TensorProto, helper

WANTED = ("--framework=5", "--soc_version=Ascend910B1")


def atc(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `atc` as it is found inside `ascendrt run`."""
    return ascendrt("run", "--", "atc", *words, cwd=cwd)


def failed(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 255, (done.stdout, done.stderr)
    assert "ATC run failed" in done.stdout
    for part in parts:
        assert part in done.stderr, (part, done.stderr)


def network(folder: Path, *nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> Path:
    """A network on one input x[1, 4], whose nodes make float tensors."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in outputs]
    starts = [helper.make_tensor(n, TensorProto.INT64, [2], v)
              for n, v in (("starts", [0, 0]), ("ends", [1, 2]), ("twice", [1, 1]))]  # fmt: skip
    graph = helper.make_graph(list(nodes), "net", [x], made, starts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def chain(folder: Path) -> Path:
    """x -> Relu "first" -> h -> Neg "second" -> y."""
    return network(
        folder,
        helper.make_node("Relu", ["x"], ["h"], "first"),
        helper.make_node("Neg", ["h"], ["y"], "second"),
    )


def facts_of(om: Path) -> dict[str, list[dict[str, object]]]:
    done = ascendrt("om", "info", om, "--json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, list[dict[str, object]]] = json.loads(done.stdout)
    return facts


def run_om(om: Path, array: np.ndarray, folder: Path) -> list[np.ndarray]:
    np.save(folder / "x.npy", array)
    out = folder / f"{om.stem}.out"
    done = ascendrt("om", "run", om, "--input", folder / "x.npy", "--out", out)
    assert done.returncode == 0, done.stderr
    return [np.load(path) for path in sorted(out.iterdir())]


def test_a_script_of_the_vendor_runs(tmp_path: Path) -> None:
    """Options that cannot matter here are accepted and named once."""
    done = atc(
        f"--model={DIGITS}", *WANTED, "--output=digits", "--op_select_implmode=high_precision",
        "--optypelist_for_implmode=Gelu", "--enable_small_channel", "1", "-log=error",
        "--input-format=NCHW", "--deterministic=1", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "ATC run success" in done.stdout
    assert done.stderr.count("--op_select_implmode") == 1
    assert "--enable_small_channel" in done.stderr and "--deterministic" not in done.stderr
    array = np.random.default_rng(1).random((1, 1, 8, 8), dtype=np.float32)
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: array})
    (got,) = run_om(tmp_path / "digits.om", array, tmp_path)
    assert np.abs(got - expected).max() <= 1e-5
    shown = atc("--mode=6", "--om=digits.om", cwd=tmp_path)
    assert "Original Atc command line: atc --model=" in shown.stdout
    assert "soc_version[Ascend910B1]" in shown.stdout


def test_a_model_as_json(tmp_path: Path) -> None:
    """Names of the vendor's schema; floats are text, weights and offsets are left out."""
    net = network(
        tmp_path,
        helper.make_node("LeakyRelu", ["x"], ["h"], "first", alpha=0.25),
        helper.make_node("Softmax", ["h"], ["y"], "second"),
    )
    made = atc(f"--model={net}", *WANTED, f"--output={tmp_path}/net")
    assert made.returncode == 0, made.stderr
    failed(atc("--mode=1", f"--om={tmp_path}/net.om"), "E10004", "--json")
    failed(atc("--mode=1", f"--json={tmp_path}/net.json"), "E10004", "--om")
    failed(atc("--mode=1", f"--om={tmp_path}/none.om", f"--json={tmp_path}/net.json"), "none.om")
    assert not (tmp_path / "net.json").exists()
    done = atc("--mode=1", f"--om={tmp_path}/net.om", f"--json={tmp_path}/net.json")
    assert done.returncode == 0 and "ATC run success" in done.stdout, done.stderr
    definition = json.loads((tmp_path / "net.json").read_text())
    (graph,) = definition["graph"]
    ops = {op["name"]: op for op in graph["op"]}
    assert [op["type"] for op in graph["op"]][:1] == ["Data"] and definition["version"] == 2
    desc = ops["x"]["output_desc"][0]
    assert (desc["dtype"], desc["shape"], desc["layout"]) == ("DT_FLOAT", {"dim": [1, 4]}, "ND")
    assert not {"size", "data_offset", "weight_size"} & desc.keys()
    attributes = {entry["key"]: entry["value"] for entry in definition["attr"]}
    assert attributes["soc_version"] == {"s": "Ascend910B1"}
    assert attributes["attr_model_out_nodes_name"]["list"]["val_type"] == "VT_LIST_STRING"
    assert ops["second"]["input"] == ["first:0"]
    (slope,) = [e["value"] for e in ops["first"]["attr"] if e["key"] == "negative_slope"]
    assert slope == {"f": "0.25"}


def test_the_command_line_of_the_vendor_is_that_of_om_convert(tmp_path: Path) -> None:
    assert atc(f"--model={DIGITS}", *WANTED, f"--output={tmp_path}/a").returncode == 0
    words = (f"--model={DIGITS}", *WANTED, f"--output={tmp_path}/b")
    assert ascendrt("om", "convert", *words).returncode == 0
    plain = ("--soc", "Ascend910B1", "--framework=5", "-o", tmp_path / "c.om")
    assert ascendrt("om", "convert", DIGITS, *plain).returncode == 0
    assert facts_of(tmp_path / "a.om")["inputs"] == facts_of(tmp_path / "b.om")["inputs"]
    # The recorded command line is all that differs; it names the file but not where it lies.
    lines = [(tmp_path / f"{name}.om").read_bytes() for name in "bc"]
    assert lines[0] == lines[1]
    assert str(tmp_path).encode() not in lines[0]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        words = ("om", "convert", DIGITS, "-o", tmp_path / f"{name}.om", "--input_format=NCHW")
        assert ascendrt(*words).returncode == 0
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--modl=x",), ("E10003", "--modl")),
        (("--input_shap=x:1",), ("E10003", "--input_shape")),
        (("net",), ("E10003", "'net'")),
        (("--output",), ("E10003", "needs a value")),
        (("--precision_mode=fast",), ("E10001", "fast", "force_fp16")),
        (("--log=loud",), ("E10001", "loud", "debug info")),
        (("--framework=7",), ("E10001", "7")),
        (("--framework=3",), ("E10007", "ONNX")),
        (("--mode=5",), ("E10001", "--mode=5")),
        (("--input_shape=x",), ("E10001", "[x]", "NAME:1,3,48,192")),
        (("--input_shape=nosuch:1,4",), ("'nosuch'", "'x'")),
        (("--input_shape=x:1,4;x:1,4",), ("E10001", "twice")),
        (("--input_shape=x:1,5",), ("fixes it to 4",)),
        (("--input_format=NHWC",), ("E10001", "NCHW, NCDHW, ND")),
        (("--output_type=FP64",), ("E10001", "FP64", "DOUBLE")),
        (("--output_type=second:0:FP16",), ("output_type", "out_nodes")),
        (("--out_nodes=third:0",), ("third",)),
        (("--out_nodes=second:1",), ("output 1", "'second'")),
        (("--out_nodes=z",), ("'z'", "'y'")),
        (("--input_fp16_nodes=z",), ("'z'", "'x'")),
        (("--dynamic_batch_size=1,2",), ("E10001", "-1")),
        (("--dynamic_batch_size=1",), ("E10001", "from 2 to 100")),
        (("--dynamic_batch_size=1,1",), ("E10001", "twice")),
        (("--dynamic_batch_size=1,0",), ("E10001", "no positive number")),
        (("--dynamic_image_size=1,2,3;1,2,4",), ("E10001", "HEIGHT,WIDTH")),
        (("--dynamic_dims=1,2;3",), ("E10001", "as many values")),
        (("--dynamic_dims=1;2", "--dynamic_batch_size=1,2"), ("E10001", "only one of")),
    ],
)
def test_wrong_words_are_refused(
    tmp_path: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    chain(tmp_path)
    usual = [w for w in ("--model=net.onnx", "--output=net", *WANTED)
             if w.split("=")[0] not in {word.split("=")[0] for word in words}]  # fmt: skip
    failed(atc(*usual, *words, cwd=tmp_path), *parts)
    assert not list(tmp_path.glob("*.om"))


@pytest.mark.parametrize("missing", ["model", "framework", "output", "soc_version"])
def test_what_the_vendor_requires_is_required(tmp_path: Path, missing: str) -> None:
    words = [f"--model={chain(tmp_path)}", "--output=net", *WANTED]
    kept = [word for word in words if not word.startswith(f"--{missing}")]
    failed(atc(*kept, cwd=tmp_path), "E10004", f"--{missing}")


def test_outputs_are_chosen_by_node_or_name(tmp_path: Path) -> None:
    model = chain(tmp_path)
    x = np.array([[-1, 2, -3, 4]], np.float32)
    words = ("om", "convert", model, "-o", tmp_path / "mid.om", "--out_nodes=first:0;second:0")
    assert ascendrt(*words).returncode == 0
    first, second = run_om(tmp_path / "mid.om", x, tmp_path)
    assert np.array_equal(first, np.maximum(x, 0)) and np.array_equal(second, -first)
    words = ("om", "convert", model, "-o", tmp_path / "name.om", "--out_nodes=y")
    assert ascendrt(*words).returncode == 0
    (result,) = run_om(tmp_path / "name.om", x, tmp_path)
    assert np.array_equal(result, second)


def test_nodes_behind_the_chosen_outputs_do_not_count(tmp_path: Path) -> None:
    model = network(
        tmp_path,
        helper.make_node("Relu", ["x"], ["h"], "first"),
        helper.make_node("NoSuchOperator", ["h"], ["y"], "second"),
    )
    assert ascendrt("om", "convert", model, "-o", tmp_path / "no.om").returncode == 1
    words = ("om", "convert", model, "-o", tmp_path / "yes.om", "--out_nodes=first:0")
    assert ascendrt(*words).returncode == 0


def test_types_at_the_edges(tmp_path: Path) -> None:
    """float16 comes in, one output leaves as float16 and the other as int32."""
    words = ("--out_nodes=first:0;second:0", "--output_type=first:0:FP16;second:0:INT32",
             "--input_fp16_nodes=x", "--input_format=ND")  # fmt: skip
    om = tmp_path / "net.om"
    assert ascendrt("om", "convert", chain(tmp_path), "-o", om, *words).returncode == 0
    facts = facts_of(om)
    assert [given["dtype"] for given in facts["inputs"]] == ["ACL_FLOAT16"]
    assert facts["inputs"][0]["size_bytes"] == 8
    assert [made["dtype"] for made in facts["outputs"]] == ["ACL_FLOAT16", "ACL_INT32"]
    x = np.array([[-1, 2, -3, 4]], np.float16)
    first, second = run_om(om, x, tmp_path)
    assert np.array_equal(first, np.maximum(x, 0)) and first.dtype == np.float16
    assert np.array_equal(second, -np.maximum(x, 0).astype(np.int32))


def test_all_that_cannot_be_converted_is_told_at_once(tmp_path: Path) -> None:
    model = network(
        tmp_path,
        helper.make_node("NoSuchOperator", ["x"], ["a"], "one"),
        helper.make_node("Slice", ["x", "starts", "ends", "twice"], ["b"], "two"),
        helper.make_node("Add", ["a", "x"], ["y"], "three"),
        outputs=("y", "b"),
    )
    failed(atc(f"--model={model}", *WANTED, "--output=net", cwd=tmp_path),
           "2 nodes", "NoSuchOperator", "'one'", "'two'", "named twice")  # fmt: skip


def test_the_check_mode_reports_and_writes_no_model(tmp_path: Path) -> None:
    model = chain(tmp_path)
    done = atc("--mode=3", f"--model={model}", *WANTED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "check_result.json").read_text())["result"] == "success"
    network(tmp_path, helper.make_node("NoSuchOperator", ["x"], ["y"], "one"))
    report = ("--check_report=said.json",)
    failed(atc("--mode=3", f"--model={model}", *WANTED, *report, cwd=tmp_path), "NoSuchOperator")
    said = json.loads((tmp_path / "said.json").read_text())
    assert said["result"] == "failed" and "'one'" in said["text"]
    assert not list(tmp_path.glob("*.om"))


def test_env_puts_atc_on_the_path(tmp_path: Path) -> None:
    script = 'eval "$1"; atc --help'
    done = run("/bin/sh", "-c", script, "sh", ascendrt("env").stdout, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--dynamic_batch_size" in done.stdout and "op_select_implmode" in done.stdout
