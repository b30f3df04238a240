"""The digits demo and the network behind it: its bars, and that a bar can be missed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import DIGITS, REPOSITORY, run
from onnx import numpy_helper

FOLDER = REPOSITORY / "examples" / "digits"


def test_demo_meets_its_bars() -> None:
    done = run(sys.executable, FOLDER / "demo.py", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["missed"] == []
    assert report["images"] == report["agreement"] == 360
    assert report["accuracy"] >= 0.97
    assert 0 <= report["max_difference"] <= 1e-5
    assert report["foreign_code"] == []
    assert 0 < report["latency_ms_median"] < 1000


def test_demo_prints_what_is_real(digits_om: Path) -> None:
    done = run(sys.executable, FOLDER / "demo.py", "--om", digits_om)
    assert done.returncode == 0, done.stderr
    for word in ("accuracy", "latency", "360/360", "real ", "emulated "):
        assert word in done.stdout


def flip_weight_byte(om: Path, name: str) -> bytes:
    """The file with one byte of one stored weight changed (the exponent of its largest value)."""
    model = onnx.load(DIGITS)
    (weight,) = (t for t in model.graph.initializer if t.name == name)
    values = numpy_helper.to_array(weight).ravel()
    raw = bytearray(om.read_bytes())
    start = raw.find(values[:4].tobytes())
    assert start >= 0, f"{name} is not stored as float32 in the order of the ONNX file"
    raw[start + 4 * int(np.abs(values).argmax()) + 3] ^= 0x80
    return bytes(raw)


@pytest.mark.parametrize("name", ["conv1.weight", "conv2.weight", "fc.weight"])
def test_one_weight_byte_changes_the_outputs(digits_om: Path, tmp_path: Path, name: str) -> None:
    changed_om = tmp_path / "changed.om"
    changed_om.write_bytes(flip_weight_byte(digits_om, name))
    done = run(sys.executable, FOLDER / "demo.py", "--om", changed_om, "--json")
    assert done.returncode == 1, "the demo must fail when a weight is wrong"
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["max_difference"] > 1e-5
    assert report["missed"]


def test_demo_without_a_model_file(tmp_path: Path) -> None:
    done = run(sys.executable, FOLDER / "demo.py", "--om", tmp_path / "absent.om")
    assert done.returncode != 0
    assert "absent.om" in done.stderr


def test_committed_network_is_small_and_plain() -> None:
    path = DIGITS
    assert path.stat().st_size < 200_000
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]


def test_held_out_digits_are_the_split_of_the_training_script(tmp_path: Path) -> None:
    """Trains for two epochs: the script works, its split is the committed one, and it learns."""
    done = run(sys.executable, FOLDER / "train.py", "--out", tmp_path, "--epochs", "2")
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load(tmp_path / "digits.onnx"), full_check=True)
    with np.load(tmp_path / "heldout.npz") as made, np.load(FOLDER / "heldout.npz") as kept:
        assert len(kept["labels"]) == 360
        for key in ("pixels", "labels"):
            np.testing.assert_array_equal(made[key], kept[key])
    reached = float(done.stdout.rsplit("held out", 1)[1].split("%")[0])
    assert reached > 80
