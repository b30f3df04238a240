"""`ascendrt om`: a network from ONNX file to results, and every way to ask for it wrongly."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from command import DIGITS, ascendrt
from models import bundle as vendor_bundle
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo network as an OM file."""
    path = tmp_path_factory.mktemp("om") / "digits.om"
    done = ascendrt("om", "convert", DIGITS, "-o", path)
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    return path


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, npt.NDArray[np.float32]]:
    """A random input of the right kind, as a file and as an array."""
    path = tmp_path_factory.mktemp("input") / "x.npy"
    array = np.random.default_rng(7).random((1, 1, 8, 8), dtype=np.float32)
    np.save(path, array)
    return path, array


def refused(done: subprocess.CompletedProcess[str], *parts: str, code: int = 1) -> None:
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_info_describes_inputs_and_outputs(om: Path) -> None:
    done = ascendrt("om", "info", om, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["file_bytes"] == om.stat().st_size
    assert facts["weight_bytes"] > 0
    (given,) = facts["inputs"]
    assert (given["dtype"], given["shape"]) == ("ACL_FLOAT", [1, 1, 8, 8])
    assert given["size_bytes"] == 256
    (result,) = facts["outputs"]
    assert (result["dtype"], result["shape"]) == ("ACL_FLOAT", [1, 10])
    text = ascendrt("om", "info", om).stdout
    assert given["name"] in text
    assert "[1,1,8,8]" in text


def test_info_tells_every_operator_and_the_plan(om: Path) -> None:
    facts = json.loads(ascendrt("om", "info", om, "--json").stdout)
    ops = {op["name"]: op for op in facts["graphs"][0]["ops"]}
    assert {"Data", "Conv2D", "NetOutput"} <= {op["type"] for op in ops.values()}
    for op in ops.values():
        for word in op["inputs"]:
            source, _, index = word.rpartition(":")
            assert int(index) < len(ops[source]["outputs"])
    convolution = next(op for op in ops.values() if op["type"] == "Conv2D")
    assert convolution["attributes"]["strides"] == [1, 1, 1, 1]
    plan = facts["plan"]
    assert (
        0
        < plan["bound_bytes"]
        <= plan["planned_bytes"]
        <= plan["activation_bytes"] + plan["scratch_bytes"] + 256
    )
    assert facts["missing"] == []
    assert f"memory plan: {plan['planned_bytes']} bytes" in ascendrt("om", "info", om).stdout


def test_info_lists_the_gears(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph), tmp_path / "gears.onnx")
    options = ("--input_shape=x:-1,4", "--dynamic_batch_size=1,2,8")
    words = (tmp_path / "gears.onnx", "-o", tmp_path / "gears.om")
    done = ascendrt("om", "convert", *words, *options)
    assert done.returncode == 0, done.stderr
    assert "gears (batch): 1, 2, 8" in ascendrt("om", "info", tmp_path / "gears.om").stdout
    facts = json.loads(ascendrt("om", "info", tmp_path / "gears.om", "--json").stdout)
    assert facts["gears"] == {"kind": "batch", "values": [[1], [2], [8]]}


def test_info_draws_the_graph(om: Path, tmp_path: Path) -> None:
    picture = tmp_path / "net.svg"
    done = ascendrt("om", "info", om, "--graph", picture)
    assert done.returncode == 0, done.stderr
    assert f"wrote {picture}" in done.stdout.splitlines()
    tree = ElementTree.parse(picture)
    space = {"s": "http://www.w3.org/2000/svg"}
    ops = json.loads(ascendrt("om", "info", om, "--json").stdout)["graphs"][0]["ops"]
    shown = [op for op in ops if op["type"] not in ("Const", "Constant")]
    boxes = {g.findtext("s:title", "", space): g for g in tree.iterfind(".//s:g[s:rect]", space)}
    assert set(boxes) == {op["name"] for op in shown}
    for op in shown:
        assert op["type"] in [text.text for text in boxes[op["name"]].iterfind("s:text", space)]
    edges = {(word.rpartition(":")[0], op["name"]) for op in shown for word in op["inputs"]}
    drawn = [e for e in edges if e[0] in boxes]
    assert len(tree.findall(".//s:path", space)) == len(drawn) > 3
    rows = {name: float(box.find("s:rect", space).get("y")) for name, box in boxes.items()}
    assert all(rows[source] < rows[target] for source, target in drawn)


def test_info_refuses_pictures_it_cannot_write(om: Path, tmp_path: Path) -> None:
    refused(ascendrt("om", "info", om, "--graph", tmp_path / "net.png"), ".svg", code=2)
    refused(ascendrt("om", "info", om, "--graph", tmp_path / "no" / "net.svg"), "cannot be written")


def test_run_writes_what_onnxruntime_answers(
    om: Path, image: tuple[Path, npt.NDArray[np.float32]], tmp_path: Path
) -> None:
    done = ascendrt("om", "run", om, "--input", image[0], "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    (written,) = (tmp_path / "new" / "folder").iterdir()
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: image[1]})
    result = np.load(written)
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() <= 1e-5


def test_run_takes_inputs_by_name(
    om: Path, image: tuple[Path, npt.NDArray[np.float32]], tmp_path: Path
) -> None:
    name = json.loads(ascendrt("om", "info", om, "--json").stdout)["inputs"][0]["name"]
    done = ascendrt("om", "run", om, "--input", f"{name}={image[0]}", "--out", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("array", "parts"),
    [
        (np.zeros((1, 1, 8, 8)), ("float64", "float32", ".astype('float32')")),
        (np.zeros((1, 1, 8, 9), np.float32), ("(1, 1, 8, 9)", "(1, 1, 8, 8)")),
        (np.zeros(64, np.float32), ("(64,)", "(1, 1, 8, 8)")),
    ],
)
def test_run_refuses_an_input_that_does_not_fit(
    om: Path, tmp_path: Path, array: npt.NDArray[np.generic], parts: tuple[str, ...]
) -> None:
    np.save(tmp_path / "x.npy", array)
    done = ascendrt("om", "run", om, "--input", tmp_path / "x.npy", "--out", tmp_path / "out")
    refused(done, "input 0", *parts)
    assert not (tmp_path / "out").exists()


def test_run_refuses_wrong_files(om: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    refused(ascendrt("om", "run", om, *out), "has 1 input(s)", "ACL_FLOAT", code=2)
    refused(ascendrt("om", "run", om, "--input", tmp_path / "no.npy", *out), "does not exist")
    (tmp_path / "text.npy").write_text("hello")
    refused(ascendrt("om", "run", om, "--input", tmp_path / "text.npy", *out), "is no .npy file")
    refused(ascendrt("om", "run", om, "--input", "z=x.npy", *out), "the inputs are", code=2)
    given = ("--input", "x.npy", "--out", tmp_path / "text.npy")
    refused(ascendrt("om", "run", om, *given), "is a file; give a folder")
    refused(ascendrt("om", "run", tmp_path / "no.om", *out), "no.om does not exist")
    refused(ascendrt("om", "run", DIGITS, "--input", "x.npy", *out), "an ONNX network")
    refused(ascendrt("om", "info", DIGITS), "looks like an ONNX network; convert it first")


def test_run_refuses_a_device_that_is_not_there(
    om: Path, image: tuple[Path, npt.NDArray[np.float32]], tmp_path: Path
) -> None:
    words = ("om", "run", om, "--input", image[0], "--out", tmp_path)
    refused(ascendrt(*words, "--device", "5"), "107001", "device=5", "devices=1")
    refused(ascendrt(*words, ASCENDRT_DEVICES="0"), "aclrtSetDevice", "device=0")


def test_run_refuses_a_model_for_another_chip(
    image: tuple[Path, npt.NDArray[np.float32]], tmp_path: Path
) -> None:
    other = tmp_path / "other.om"
    assert ascendrt("om", "convert", DIGITS, "-o", other, "--soc", "Ascend310P3").returncode == 0
    done = ascendrt("om", "run", other, "--input", image[0], "--out", tmp_path / "out")
    refused(done, "Ascend310P3", "Ascend910B1")
    words = ("om", "run", other, "--input", image[0], "--out", tmp_path / "out")
    assert ascendrt(*words, ASCENDRT_SOC="Ascend310P3").returncode == 0


def test_convert_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    target = tmp_path / "net.om"
    refused(ascendrt("om", "convert", tmp_path / "no.onnx", "-o", target), "does not exist")
    refused(ascendrt("om", "convert", tmp_path, "-o", target), "is a folder")
    (tmp_path / "text.onnx").write_text("this is no network")
    refused(ascendrt("om", "convert", tmp_path / "text.onnx", "-o", target), "text.onnx")
    (tmp_path / "old.om").write_bytes(b"IMOD" + bytes(300))
    refused(ascendrt("om", "convert", tmp_path / "old.om", "-o", target), "an offline model (.om)")
    refused(ascendrt("om", "convert", DIGITS, "-o", target, "--soc", "Ascend1"), "Ascend1", code=2)
    words = ("om", "convert", DIGITS, "-o", target, "--input-shape")
    refused(ascendrt(*words, "x=1,2"), "NAME:1,3,48,192", code=2)
    refused(ascendrt(*words, "nosuch:1,1,8,8"), "nosuch")
    assert not target.exists()


def test_convert_leaves_no_half_written_file(tmp_path: Path) -> None:
    refused(ascendrt("om", "convert", DIGITS, "-o", tmp_path / "no" / "net.om"), "no folder")
    if os.geteuid() == 0:
        locked = Path("/proc/net.om")
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        locked = tmp_path / "locked" / "net.om"
    refused(ascendrt("om", "convert", DIGITS, "-o", locked), str(locked))
    assert list(tmp_path.glob("**/*.om*")) == []


def test_convert_replaces_an_older_file(om: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.om"
    target.write_text("older")
    assert ascendrt("om", "convert", DIGITS, "-o", target).returncode == 0
    assert target.read_bytes() == om.read_bytes()


def test_convert_writes_to_regular_files_alone(om: Path, tmp_path: Path) -> None:
    """Renaming over a device or a pipe would end it; a link keeps pointing where it did."""
    pipe, real, link = tmp_path / "pipe", tmp_path / "real.om", tmp_path / "link.om"
    os.mkfifo(pipe)
    done = ascendrt("om", "convert", DIGITS, "-o", pipe)
    assert done.returncode == 1 and "no regular file" in done.stderr
    assert pipe.is_fifo()
    real.write_bytes(b"older")
    link.symlink_to(real)
    assert ascendrt("om", "convert", DIGITS, "-o", link).returncode == 0
    assert link.is_symlink() and real.read_bytes()[:4] == b"IMOD"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.om", "pipe", "real.om"]


def test_files_that_are_none_are_named_so(om: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for words in (["info", pipe], ["convert", pipe, "-o", tmp_path / "x.om"]):
        done = ascendrt("om", *words)
        assert done.returncode == 1 and "is no regular file" in done.stderr


def test_numbers_and_arrays_too_large_are_no_traceback(
    om: Path, image: tuple[Path, npt.NDArray[np.float32]], tmp_path: Path
) -> None:
    huge = tmp_path / "huge.npy"
    huge.write_bytes(image[0].read_bytes().replace(b"(1, 1, 8, 8)", b"(999999999,)"))
    far = tmp_path / "far.npy"
    far.write_bytes(image[0].read_bytes().replace(b"(1, 1, 8, 8), }  ", b"(9999999999999,)}"))
    for words in (["--input", image[0], "--device", 2**40], ["--input", huge], ["--input", far]):
        refused(ascendrt("om", "run", om, *words, "--out", tmp_path / "out"), "ascendrt: error: ")


def test_a_bundle_of_files(om: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.om"
    done = ascendrt("om", "bundle", om, om, "--output", both)
    assert done.returncode == 0, done.stderr
    assert both.read_bytes() == vendor_bundle([om.read_bytes()] * 2)
    facts = json.loads(ascendrt("om", "info", both, "--json").stdout)
    alone = json.loads(ascendrt("om", "info", om, "--json").stdout)
    assert (facts["variable_bytes"], len(facts["models"])) == (0, 2)
    for model in facts["models"]:
        start = model.pop("offset")
        assert both.read_bytes()[start:].startswith(om.read_bytes())
        assert model == {key: value for key, value in alone.items() if key != "file"}
    text = ascendrt("om", "info", both).stdout
    assert "bundle of 2 models, variables 0 bytes" in text
    assert text.count("input 0: ") == 2
    refused(ascendrt("om", "info", both, "--graph", tmp_path / "x.svg"), "bundle of several")
    refused(ascendrt("om", "run", both, "--out", tmp_path / "out"), "aclmdlBundleLoad")


def test_what_no_bundle_is_made_of(om: Path, tmp_path: Path) -> None:
    broken, both = tmp_path / "broken.om", tmp_path / "both.om"
    broken.write_bytes(om.read_bytes()[:-1])
    refused(ascendrt("om", "bundle", om, broken, "-o", both), "truncated", "broken.om")
    assert ascendrt("om", "bundle", om, "-o", both).returncode == 0
    before = both.read_bytes()
    refused(ascendrt("om", "bundle", om, both, "-o", both), "itself a bundle")
    refused(ascendrt("om", "bundle", om, tmp_path / "none.om", "-o", both), "does not exist")
    refused(ascendrt("om", "bundle", om, "-o", tmp_path / "none" / "x.om"), "cannot be created")
    assert both.read_bytes() == before
