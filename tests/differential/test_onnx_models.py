"""ONNX file -> OM file -> the ABI, against onnxruntime: random CNNs and every operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import convert, distance, execute, outputs, put_inputs, reference
from networks import Network, random_cnn
from onnx import helper, numpy_helper
from operators import CASES

from ascendrt import _ctl

SEEDS = range(20)
BAR = 1e-5
Made = tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]


def _run_all(directory: Path, networks: dict[str, Made]) -> dict[str, Made]:
    for name, (model, feeds) in networks.items():
        om = directory / f"{name}.om"
        convert(model, om)
        put_inputs(om, feeds)
    execute(directory)
    return networks


def _check(directory: Path, name: str, made: Made) -> None:
    got = outputs(directory / f"{name}.om")
    expected = reference(*made)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert distance(a, b) <= BAR


@pytest.fixture(scope="module")
def cnns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Made]]:
    """Twenty random CNNs, converted and run."""
    directory = tmp_path_factory.mktemp("cnns")
    return directory, _run_all(directory, {str(seed): random_cnn(seed) for seed in SEEDS})


@pytest.mark.parametrize("seed", SEEDS)
def test_random_cnn(cnns: tuple[Path, dict[str, Made]], seed: int) -> None:
    directory, made = cnns
    _check(directory, str(seed), made[str(seed)])


def test_random_cnns_differ_and_cover_the_operators() -> None:
    made = [random_cnn(seed) for seed in SEEDS]
    assert len({model.SerializeToString() for model, _ in made}) == len(SEEDS)
    kinds = {node.op_type for model, _ in made for node in model.graph.node}
    assert {"Conv", "MaxPool", "AveragePool", "BatchNormalization", "Gemm", "Softmax"} <= kinds
    assert len(kinds) >= 20
    assert random_cnn(3)[0] == random_cnn(3)[0]


def _operator(name: str) -> Made:
    opset, builder = CASES[name]
    net = Network(7, opset)
    names = builder(net)
    return net.model(*((names,) if isinstance(names, str) else names)), net.feeds


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Made]]:
    """One small network per operator and form, converted and run."""
    directory = tmp_path_factory.mktemp("operators")
    return directory, _run_all(directory, {name: _operator(name) for name in CASES})


@pytest.mark.parametrize("name", CASES)
def test_operator(operators: tuple[Path, dict[str, Made]], name: str) -> None:
    directory, made = operators
    _check(directory, name, made[name])


def test_a_changed_weight_byte_changes_the_outputs(tmp_path: Path) -> None:
    model, feeds = random_cnn(1)
    for name in ("same", "changed"):
        convert(model, tmp_path / f"{name}.om")
        put_inputs(tmp_path / f"{name}.om", feeds)
    weight = max(model.graph.initializer, key=lambda t: int(np.prod(t.dims)))
    values = numpy_helper.to_array(weight).ravel()
    om = tmp_path / "changed.om"
    raw = bytearray(om.read_bytes())
    start = raw.find(values.tobytes())
    assert start > 0, "the weights are not stored in the order of the ONNX file"
    raw[start + 3] ^= 0x80  # the sign of the first value
    om.write_bytes(raw)
    execute(tmp_path)
    pairs = zip(outputs(tmp_path / "same.om"), outputs(om), strict=True)
    assert max(distance(a, b) for a, b in pairs) > 1e-4


def test_a_used_input_changes_the_outputs(tmp_path: Path) -> None:
    model, feeds = random_cnn(2)
    for name, factor in (("a", 1.0), ("b", 1.5)):
        convert(model, tmp_path / f"{name}.om")
        put_inputs(tmp_path / f"{name}.om", {k: v * np.float32(factor) for k, v in feeds.items()})
    execute(tmp_path)
    pairs = zip(outputs(tmp_path / "a.om"), outputs(tmp_path / "b.om"), strict=True)
    assert max(distance(a, b) for a, b in pairs) > 1e-4


def test_all_unsupported_nodes_are_named_at_once(tmp_path: Path) -> None:
    net = Network(0, 18)
    x = net.image(1, 3, 8, 8)
    drawn = net.add("Bernoulli", x)
    y = net.add("Relu", net.add("RandomNormalLike", drawn))
    model = net.model(y)
    custom = helper.make_node("Magic", [y], ["magic"], name="wand", domain="com.example")
    model.graph.node.append(custom)
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    om = tmp_path / "net.om"
    with pytest.raises(_ctl.ConvertError) as caught:
        convert(model, om)
    text = str(caught.value)
    for part in ("3 nodes", "Bernoulli", "n_bernoulli_0", "opset 18", "RandomNormalLike"):
        assert part in text
    for part in ("Magic", "com.example", "'wand'", "opset 3"):
        assert part in text
    assert "Relu" not in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx"]


def test_a_form_that_is_not_computed_names_its_node(tmp_path: Path) -> None:
    net = Network(0)
    y = net.add("Conv", net.image(1, 2, 5, 5, 5, 5), net.weight(3, 2, 2, 2, 2, 2))
    with pytest.raises(_ctl.ConvertError) as caught:
        convert(net.model(y), tmp_path / "net.om")
    assert "Conv" in str(caught.value)
    assert "n_conv_0" in str(caught.value)
    assert not (tmp_path / "net.om").exists()


def test_a_result_has_the_shape_of_its_run(tmp_path: Path) -> None:
    net = Network(0)
    y = net.add("NonZero", net.add("Relu", net.image(2, 3)))
    model = net.model(y)
    kind = helper.make_tensor_type_proto(onnx.TensorProto.INT64, ("rank", "count"))
    model.graph.output[0].CopyFrom(helper.make_value_info(y, kind))
    for name, factor in (("some", 1.0), ("none", 0.0)):
        om = tmp_path / f"{name}.om"
        convert(model, om)
        feeds = {k: v * np.float32(factor) for k, v in net.feeds.items()}
        put_inputs(om, feeds)
        expected = reference(model, feeds)[0]
        execute(tmp_path)
        got = outputs(om)[0]
        assert got.dtype == np.int64
        assert got.shape == expected.shape
        assert np.array_equal(got, expected)


def _open_dims() -> onnx.ModelProto:
    net = Network(0)
    y = net.add("Relu", net.image(1, 3, 4, 4))
    model = net.model(y)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


def test_open_dims_can_be_fixed(tmp_path: Path) -> None:
    om = tmp_path / "net.om"
    convert(_open_dims(), om, "input_shape=x:5,3,4,4")
    feeds = {"x": np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)}
    put_inputs(om, feeds)
    execute(tmp_path)
    assert distance(outputs(om)[0], np.maximum(feeds["x"], 0)) == 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("input_shape=x:5,3,4", "dims"),
        ("input_shape=x:5,3,4,9", "fixes it to 4"),
        ("input_shape=y:5,3,4,4", "'x'"),
        ("input_shape=x:a", "form"),
        ("input_shape=x:5,-3,4,4", "form"),
        ("soc_version=Ascend1", "Ascend1"),
        ("colour=red", "colour"),
    ],
)
def test_bad_options(tmp_path: Path, options: str, part: str) -> None:
    with pytest.raises(_ctl.ConvertError, match=part):
        convert(_open_dims(), tmp_path / "net.om", options)
    assert not (tmp_path / "net.om").exists()


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(_ctl.ConvertError, match=r"absent\.onnx"):
        _ctl.convert(tmp_path / "absent.onnx", tmp_path / "net.om", "")
    text = tmp_path / "text.onnx"
    text.write_text("this is no model at all")
    with pytest.raises(_ctl.ConvertError, match="ONNX"):
        _ctl.convert(text, tmp_path / "net.om", "")
    assert not (tmp_path / "net.om").exists()


def test_unwritable_output_leaves_nothing(tmp_path: Path) -> None:
    net = Network(0)
    model = net.model(net.add("Relu", net.image(1, 3)))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(_ctl.ConvertError, match="nowhere"):
        _ctl.convert(tmp_path / "net.onnx", tmp_path / "nowhere" / "net.om", "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx"]


def test_damaged_files_never_crash_the_converter(tmp_path: Path) -> None:
    """Every cut, and bytes flipped all over: an error or a model, in this very process."""
    model, _ = random_cnn(0)
    raw = model.SerializeToString()
    source, target = tmp_path / "net.onnx", tmp_path / "net.om"
    rng = np.random.default_rng(0)
    cuts = [raw[: int(n)] for n in rng.integers(0, len(raw), 60)]
    for at in rng.integers(0, len(raw), 300):
        damaged = bytearray(raw)
        damaged[at] ^= int(rng.integers(1, 256))
        cuts.append(bytes(damaged))
    refused = 0
    for damaged in cuts:
        source.write_bytes(damaged)
        try:
            _ctl.convert(source, target, "")
        except _ctl.ConvertError as error:
            refused += 1
            assert str(error)
    assert refused >= 60
