"""Weights beside the model file, of OM and of ONNX files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnx
import pytest
from differential import Array, distance, reference
from networks import Network
from onnx import external_data_helper

from ascendrt import AclError, _ctl
from ascendrt.device import Device
from ascendrt.model import Model

LIMIT = 1e-5


def conv(net: Network, x: str, channels: int, kernels: int) -> str:
    return net.add("Conv", x, net.weight(kernels, channels, 3, 3), pads=[1, 1, 1, 1])


@pytest.fixture
def network() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Two convolutions with different weights."""
    net = Network(5)
    y = conv(net, conv(net, net.image(1, 3, 9, 7), 3, 8), 8, 4)
    return net.model(y), net.feeds


def run(om: Path, feeds: dict[str, Array]) -> Array:
    with Device(), Model(om) as model:
        return model(*feeds.values())[0]


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("shape", ["", "input_shape=x:-1,3,-1,7\n"])
def test_om_files(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]], kind: int, shape: str
) -> None:
    model, feeds = network
    if shape:
        for place in (0, 2):
            model.graph.input[0].type.tensor_type.shape.dim[place].dim_param = f"d{place}"
    onnx.save(model, tmp_path / "net.onnx")
    folder = tmp_path / "made"
    folder.mkdir()
    plain, om = tmp_path / "net.om", folder / "net.om"
    _ctl.convert(tmp_path / "net.onnx", plain, shape)
    for _ in range(2):  # over the files of the first time
        _ctl.convert(tmp_path / "net.onnx", om, f"{shape}external_weight={kind}")
    files = sorted((folder / "weight").iterdir())
    if kind == 2:
        assert [each.name for each in files] == ["net_weight_combined"]
    else:
        assert len(files) >= 2
        for each in files:
            assert each.name == f"weight_{hashlib.sha256(each.read_bytes()).hexdigest()}"
    assert sorted(each.name for each in folder.iterdir()) == ["net.om", "weight"]
    assert run(om, feeds).tobytes() == run(plain, feeds).tobytes()
    assert json.dumps(_ctl.describe_om(om)["missing"]) == "[]"


def test_gears_share_weight_files(tmp_path: Path) -> None:
    net = Network(6)
    model = net.model(conv(net, net.image(4, 3, 6, 6), 3, 8))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, tmp_path / "net.onnx")
    options = "input_shape=x:-1,3,6,6\ndynamic_batch_size=2,4\nexternal_weight=2"
    _ctl.convert(tmp_path / "net.onnx", tmp_path / "net.om", options)
    x = net.feeds["x"]
    (expected,) = reference(model, {"x": x[:2]})
    with Device(), Model(tmp_path / "net.om") as loaded:
        assert distance(loaded(x[:2])[0], expected) <= LIMIT


def test_a_conversion_that_fails_leaves_nothing(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]]
) -> None:
    onnx.save(network[0], tmp_path / "net.onnx")
    (tmp_path / "net.om").mkdir()  # cannot be replaced
    with pytest.raises(_ctl.ConvertError, match=r"net\.om"):
        _ctl.convert(tmp_path / "net.onnx", tmp_path / "net.om", "external_weight=1")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.om", "net.onnx"]


def test_a_file_of_another_place_is_not_read(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]]
) -> None:
    """Only the name counts: weights lie in the folder of the weights."""
    onnx.save(network[0], tmp_path / "net.onnx")
    om = tmp_path / "net.om"
    _ctl.convert(tmp_path / "net.onnx", om, "external_weight=2")
    (tmp_path / "weight" / "net_weight_combined").rename(tmp_path / "net_weight_combined")
    with Device(), pytest.raises(AclError, match="weight/net_weight_combined"):
        Model(om)


# ---- ONNX files with external data


def save_external(model: onnx.ModelProto, path: Path, location: str = "net.data") -> None:
    onnx.save_model(model, path, save_as_external_data=True, all_tensors_to_one_file=True,
                    location=location, size_threshold=0)  # fmt: skip


def test_onnx_data_beside_the_model(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]]
) -> None:
    model, feeds = network
    (expected,) = reference(model, feeds)
    save_external(model, tmp_path / "net.onnx")
    assert (tmp_path / "net.data").stat().st_size > 100
    _ctl.convert(tmp_path / "net.onnx", tmp_path / "net.om", "")
    assert distance(run(tmp_path / "net.om", feeds), expected) <= LIMIT


@pytest.mark.parametrize(
    ("location", "part"),
    [
        ("missing.data", "no 'missing.data' in the folder"),
        ("../outside.data", "outside the folder"),
        ("link.data", "outside the folder"),
        ("/etc/hostname", "outside the folder"),
        ("", "does not say which"),
        ("short.data", "which has 3 bytes"),
    ],
)
def test_onnx_data_that_is_not_read(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]], location: str, part: str
) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    (tmp_path / "outside.data").write_bytes(bytes(10_000))
    (folder / "link.data").symlink_to(tmp_path / "outside.data")
    (folder / "short.data").write_bytes(bytes(3))
    save_external(network[0], folder / "net.onnx")
    model = onnx.load(folder / "net.onnx", load_external_data=False)
    tensor = model.graph.initializer[0]
    tensor.raw_data = b"0"  # the helper wants to see some
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(_ctl.ConvertError, match=part):
        _ctl.convert(folder / "net.onnx", folder / "net.om", "")


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "-1"), ("length", "x"), ("offset", "9" * 30)]
)
def test_onnx_data_with_a_bad_place(
    tmp_path: Path, network: tuple[onnx.ModelProto, dict[str, Array]], key: str, value: str
) -> None:
    save_external(network[0], tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(_ctl.ConvertError, match=key):
        _ctl.convert(tmp_path / "net.onnx", tmp_path / "net.om", "")
