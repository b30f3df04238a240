"""`ascendrt om` on files whose names and places are meant to do harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

import onnx
import pytest
from onnx import TensorProto, helper

ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\n\u202e"
MARKUP = "<script>alert(1)</script>&\"'"


def write(path: Path, decoration: str) -> Path:
    """Write a network of which every name is decorated."""
    x, middle, y = (name + decoration for name in ("x", "middle", "y"))
    given = helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 4])
    made = helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 4])
    nodes = [
        helper.make_node("Relu", [x], [middle], name="first" + decoration),
        helper.make_node("Softmax", [middle], [y], name="second" + decoration),
    ]
    graph = helper.make_graph(nodes, "graph" + decoration, [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def om(*words: object, code: int = 0, timeout: int = 60) -> str:
    """Run `ascendrt om`; return what it writes."""
    environment = os.environ | {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
    done = subprocess.run(
        [sys.executable, "-m", "ascendrt", "om", *map(str, words)],
        capture_output=True, text=True, env=environment, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def convert(source: Path) -> Path:
    target = source.with_suffix(".om")
    om("convert", source, "-o", target)
    return target


def test_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    model = convert(write(tmp_path / "m.onnx", ESCAPES))
    (tmp_path / "x.npy").write_bytes(b"")
    text = om("info", model)
    assert r"x\x1b[2J" in text
    assert r"\x9b31m\n\u202e" in text
    assert all(c.isprintable() or c == "\n" for c in text)
    facts = json.loads(om("info", model, "--json"))
    assert facts["inputs"][0]["name"] == "x" + ESCAPES
    bundle = tmp_path / "b.om"
    om("bundle", "-o", bundle, model, model)
    assert all(c.isprintable() or c == "\n" for c in om("info", bundle))


@pytest.mark.parametrize("decoration", [ESCAPES, MARKUP])
def test_names_do_not_break_the_picture(tmp_path: Path, decoration: str) -> None:
    model = convert(write(tmp_path / "m.onnx", decoration))
    om("info", model, "--graph", tmp_path / "m.svg")
    picture = minidom.parse(str(tmp_path / "m.svg"))
    assert not picture.getElementsByTagName("script")
    titles = [node.firstChild.data for node in picture.getElementsByTagName("title")]
    assert any("first" in title for title in titles)


def test_the_network_itself_is_no_target(tmp_path: Path) -> None:
    network = write(tmp_path / "net.om", "")
    before = network.read_bytes()
    (tmp_path / "link.om").symlink_to(network)
    for target in (network, tmp_path / "link.om"):
        text = om("convert", network, "-o", target, code=1)
        assert "is the ONNX file itself" in text
    assert network.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.om", "net.om"]


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    network = write(tmp_path / "net.onnx", "")
    for words in (
        ("convert", pipe, "-o", tmp_path / "m.om"),
        ("info", pipe),
        ("run", pipe, "--out", tmp_path / "out"),
        ("bundle", "-o", tmp_path / "b.om", pipe),
    ):
        text = om(*words, code=1, timeout=30)
        assert "pipe.onnx" in text
        assert "no regular file" in text or "not a regular file" in text
    text = om("convert", network, "-o", tmp_path / "m.om", f"--insert_op_conf={pipe}", code=2)
    assert "not a regular file" in text
    assert not (tmp_path / "m.om").exists()
    assert not (tmp_path / "b.om").exists()


def test_a_sparse_file_is_not_read_into_memory(tmp_path: Path) -> None:
    """Terabytes that are on no disk: what the file starts with, or the room for it, decides."""
    model = convert(write(tmp_path / "m.onnx", ""))
    path = tmp_path / "sparse.om"
    for start, said in ((b"\0" * 16, ['"IMOD"']), (model.read_bytes(), ["4 TiB", "host"])):
        path.write_bytes(start)
        os.truncate(path, 2**42)
        text = om("info", path, code=1, timeout=30)
        for part in said:
            assert part in text
