"""Offline models of the vendor's compiler, run: against numpy, a device's stored output, a source.

Runs when ASCENDRT_OM_CORPUS names the folder of such files (`counterparts/` holds what they were
made from). Each run is a process of its own, because the chip and the settings are read once.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import om_decode
import om_numpy
import pytest
from command import ascendrt
from numpy.typing import NDArray

FOLDER = Path(os.environ.get("ASCENDRT_OM_CORPUS", "/nonexistent"))
pytestmark = pytest.mark.skipif(
    "ASCENDRT_OM_CORPUS" not in os.environ, reason="ASCENDRT_OM_CORPUS is not set"
)
MODELBOX = FOLDER / "modelbox_2d_2048_stage1.om"
AUTOENCODER = FOLDER / "tf_autoencoder_hh.om"
LANES = FOLDER / "anenet_122.om"
LANES_ONNX = FOLDER / "counterparts" / "anenet_122.source.onnx"
RECORDED = "lanenet_epoch_122_batch_8_AUG.onnx"  # the name in the file's command line
BOARD = {"ASCENDRT_SOC": "Ascend310B4"}
# The convolutions of the source that are dilated.
DILATED = [f"/dilated2_{block}/ext_conv2/" for block in (2, 4, 6, 8)] + [
    f"/dilated_{branch}_3_{block}/ext_conv2/"
    for branch in ("binary", "embedding")
    for block in (1, 3, 5, 7)
]
Array = NDArray[Any]


def run(
    om: Path, x: Array, out: Path, *words: object, **settings: str
) -> tuple[subprocess.CompletedProcess[str], list[Array]]:
    """`ascendrt om run`, and the arrays it wrote."""
    np.save(out / "x.npy", x)
    done = ascendrt(
        "om", "run", om, "--input", out / "x.npy", "--out", out / "y", *words, **settings
    )
    return done, [np.load(path) for path in sorted((out / "y").glob("*.npy"))]


def cosine(a: Array, b: Array) -> float:
    assert a.size == b.size and np.isfinite(a).all() and np.abs(a).max() > 0
    x, y = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def picture() -> Array:
    return np.random.default_rng(7).random((1, 3, 256, 512), np.float32)


def test_a_file_with_all_attributes_runs_from_itself_alone(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, 1, 1, 2048)).astype(np.float32)
    done, outputs = run(MODELBOX, x, tmp_path, ASCENDRT_OM_STRICT="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nothing was inferred
    wanted = om_numpy.evaluate(om_decode.read(MODELBOX), {"input": x})
    assert outputs[0].dtype == np.float32 and outputs[0].shape == wanted.shape
    assert cosine(outputs[0], wanted) >= 0.9999
    assert np.abs(outputs[0] - wanted).max() <= 0.002 * np.abs(wanted).max()


def autoencoder(tmp_path: Path, **settings: str) -> tuple[str, Array]:
    stored = FOLDER / "counterparts"
    x = np.fromfile(stored / "tf_autoencoder_hh.input.bin", np.float32).reshape(100, 784)
    tmp_path.mkdir(exist_ok=True)
    done, outputs = run(AUTOENCODER, x, tmp_path, ASCENDRT_SOC="Ascend310", **settings)
    assert done.returncode == 0, done.stderr
    return done.stderr, outputs[0]


def test_a_stored_output_of_a_device_is_met(tmp_path: Path) -> None:
    told, y = autoencoder(tmp_path, ASCENDRT_OM_RANDOM="zero")
    stored = np.fromfile(FOLDER / "counterparts" / "tf_autoencoder_hh.npu_output.bin", np.float32)
    assert cosine(y, stored) >= 0.98
    for inferred in ("abs, mul, mul, add", "strides [2, 2]", "transposed matrices"):
        assert inferred in told


def test_random_operators_follow_their_seed(tmp_path: Path) -> None:
    _, first = autoencoder(tmp_path / "a", ASCENDRT_OM_RANDOM="5")
    _, again = autoencoder(tmp_path / "b", ASCENDRT_OM_RANDOM="5")
    _, other = autoencoder(tmp_path / "c", ASCENDRT_OM_RANDOM="6")
    assert (first == again).all()
    assert (first != other).any() and cosine(first, other) > 0.9


def test_a_small_network_of_merged_ops_runs_by_inference(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((1, 42, 42, 1), np.float32)
    done, outputs = run(FOLDER / "a3c_pong_v2.om", x, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("strides [2, 2] and pads [0, 0, 0, 0]") == 3
    assert outputs[0].shape == (1,) and outputs[0][0] in range(6)


# --- a file that lost attributes, with and without its source ---


def lanes_expected() -> list[Array]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(LANES_ONNX, providers=["CPUExecutionProvider"])
    (name,) = [each.name for each in session.get_inputs()]
    return list(session.run(None, {name: picture()}))


def check_lanes(done: subprocess.CompletedProcess[str], outputs: list[Array]) -> None:
    assert done.returncode == 0, done.stderr
    assert "computed as its source" in done.stderr and "inferred" not in done.stderr
    assert [y.shape for y in outputs] == [(1, 2, 256, 512), (1, 4, 256, 512)]
    for given, wanted in zip(outputs, lanes_expected(), strict=True):
        assert cosine(given, wanted) >= 0.99999


def test_a_source_that_is_named_supplies_the_arithmetic(tmp_path: Path) -> None:
    check_lanes(*run(LANES, picture(), tmp_path, "--source", LANES_ONNX, **BOARD))


@pytest.mark.parametrize("name", [RECORDED, "lanes.onnx"])
def test_a_source_beside_the_model_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "lanes.om").symlink_to(LANES)
    (tmp_path / name).symlink_to(LANES_ONNX)
    found = run(tmp_path / "lanes.om", picture(), tmp_path, ASCENDRT_OM_STRICT="1", **BOARD)
    check_lanes(*found)


def test_strict_mode_names_what_it_cannot_know(tmp_path: Path) -> None:
    done, outputs = run(LANES, picture(), tmp_path, ASCENDRT_OM_STRICT="1", **BOARD)
    assert done.returncode != 0 and outputs == []
    lines = [line for line in done.stderr.splitlines() if "a dilation of 1 assumed" in line]
    for block in DILATED:
        assert any(f"'{block}" in line for line in lines), block
    assert "ASCENDRT_OM_STRICT" in done.stderr and RECORDED in done.stderr


def test_lenient_mode_tells_every_inference(tmp_path: Path) -> None:
    done, outputs = run(LANES, picture(), tmp_path, **BOARD)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("  inferred: ")]
    assert len(lines) == 126  # every convolution that was merged
    for block in DILATED:
        assert any(f"'{block}" in line and "dilation" in line for line in lines), block
    expected = lanes_expected()
    for given, wanted in zip(outputs, expected, strict=True):
        assert 0.8 < cosine(given, wanted) < 0.999  # near, and not the network that was compiled


def test_info_tells_what_was_inferred_and_the_source() -> None:
    om, source = str(LANES), {"ASCENDRT_OM_SOURCE": str(LANES_ONNX)}
    alone = json.loads(ascendrt("om", "info", om, "--json").stdout)
    assert len(alone["inferred"]) == 126 and not alone["source"] and not alone["missing"]
    helped = json.loads(ascendrt("om", "info", om, "--json", **source).stdout)
    assert not helped["inferred"] and helped["source"] == str(LANES_ONNX)
    strict = ascendrt("om", "info", om, ASCENDRT_OM_STRICT="1").stdout
    assert "cannot run here:" in strict and DILATED[0] in strict


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.om")), ids=lambda path: str(path.name))
def test_info_describes_every_file(path: Path, tmp_path: Path) -> None:
    picture_path = tmp_path / "graph.svg"
    done = ascendrt("om", "info", path, "--graph", picture_path)
    if path.name.endswith("_en.om"):  # encrypted as a whole
        assert done.returncode != 0 and "encrypted" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "input 0: " in done.stdout and "output 0: " in done.stdout
    assert picture_path.read_text(encoding="utf-8").startswith("<")


# --- what does not fit is said ---


def refused(tmp_path: Path, om: Path, x: Array, **settings: str) -> str:
    done, outputs = run(om, x, tmp_path, **settings)
    assert done.returncode != 0 and outputs == []
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_foreign_source_is_refused(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 1, 2048), np.float32)
    text = refused(tmp_path, MODELBOX, x, ASCENDRT_OM_SOURCE=str(LANES_ONNX))
    assert "145000" in text and "input" in text and str(LANES_ONNX) in text


def test_a_foreign_source_beside_the_model_stops_the_run_only(tmp_path: Path) -> None:
    from command import DIGITS

    (tmp_path / "pong.om").symlink_to(FOLDER / "a3c_pong_v2.om")
    (tmp_path / "pong.onnx").symlink_to(DIGITS)
    x = np.zeros((1, 42, 42, 1), np.float32)
    text = refused(tmp_path, tmp_path / "pong.om", x)
    assert "aclmdlExecute" in text and "ASCENDRT_OM_SOURCE=none" in text
    done, outputs = run(tmp_path / "pong.om", x, tmp_path, ASCENDRT_OM_SOURCE="none")
    assert done.returncode == 0 and len(outputs) == 1


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("ASCENDRT_OM_STRICT", "yes", "integer from 0 to 1"),
        ("ASCENDRT_OM_RANDOM", "one", "zero"),
        ("ASCENDRT_OM_RANDOM", "-1", "seed"),
        ("ASCENDRT_OM_SOURCE", "/nowhere/net.onnx", "ONNX file"),
    ],
)
def test_settings_are_checked(tmp_path: Path, name: str, value: str, wanted: str) -> None:
    x = np.zeros((1, 1, 1, 2048), np.float32)
    text = refused(tmp_path, MODELBOX, x, **{name: value})
    assert "100000" in text and name in text and wanted in text


def test_files_of_another_product_list_what_is_missing(tmp_path: Path) -> None:
    x = np.zeros((1, 3, 32, 32), np.float32)
    text = refused(tmp_path, FOLDER / "hiai_tensorflow2_resnet20_weight_quant8_retrain.om", x)
    assert "207000" in text and text.count("Convolution '") == 21
    assert "phone-side" in text


def test_files_of_unknown_shape_list_what_is_missing(tmp_path: Path) -> None:
    """Two parts of the network lie in graphs of their own; only an op between them is unknown."""
    two = tmp_path / "two.npy"
    np.save(two, np.ones((2, 2), np.float32))
    om = FOLDER / "ge_dyn_static.om"
    done = ascendrt("om", "run", om, "--input", two, "--input", two, "--out", tmp_path / "out")
    assert done.returncode != 0
    assert "207000" in done.stderr
    assert "Rank 'rank': operator: is not implemented" in done.stderr
    assert "'add'" not in done.stderr and "PartitionedCall" not in done.stderr
    assert not list(tmp_path.glob("out/*"))
