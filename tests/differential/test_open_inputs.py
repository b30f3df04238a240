"""Inputs without a rank, and images (AIPP) whose size only a run tells: against onnxruntime and the
evaluation of AIPP in numpy. Equal to the bit where only float32 additions follow, else 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import Array, convert, distance, network, reference
from onnx import TensorProto, helper
from test_aipp import DYNAMIC, JPEG_TO_RGB, Config, expected, images

from ascendrt import Device, Model, _ctl
from ascendrt.errors import AclError

F = np.float32


def _without_rank(*nodes: onnx.NodeProto, **weights: Array) -> onnx.ModelProto:
    """A network of one input x that says nothing of its shape."""
    model = network(*nodes, inputs={"x": ["n"]}, **weights)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    return model


def values(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(len(shape)).standard_normal(shape).astype(F))


NETWORKS = {
    "any rank": (
        _without_rank(
            helper.make_node("Relu", ["x"], ["h"]),
            helper.make_node("ReduceMean", ["h"], ["m"], axes=[-1], keepdims=1),
            helper.make_node("Sub", ["h", "m"], ["y"]),
        ),
        [(5,), (2, 3), (4, 1, 6), (1, 2, 3, 4), (2, 1, 2, 1, 3)],
    ),
    "pictures": (
        _without_rank(
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]), w=values(4, 3, 3, 3)
        ),
        [(1, 3, 8, 9), (2, 3, 5, 16)],
    ),
    "rows": (
        _without_rank(
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Softmax", ["p"], ["y"], axis=-1),
            w=values(6, 5),
        ),
        [(3, 6), (2, 4, 6)],
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_run_tells_the_rank(tmp_path: Path, name: str) -> None:
    model, shapes = NETWORKS[name]
    om = tmp_path / "net.om"
    convert(model, om)
    with Device(), Model(om) as loaded:
        assert loaded.inputs[0].shape == (-2,)
        for shape in shapes:
            x = values(*shape)
            (want,) = reference(model, {"x": x})
            for (got,) in (loaded(x), loaded.run_async([x]).result()):
                assert distance(got, want) <= 1e-6


def test_an_output_follows_its_input_whatever_the_file_declares(tmp_path: Path) -> None:
    """Exporters leave the sizes of the example they traced."""
    model = network(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": [2, "t"]})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5]))
    om = tmp_path / "net.om"
    convert(model, om)
    with Device(), Model(om) as loaded:
        assert loaded.outputs[0].shape == (2, -1)
        for length in (5, 9, 1):
            (got,) = loaded(values(2, length))
            assert np.array_equal(got, np.maximum(values(2, length), 0))


def test_shapes_that_the_network_cannot_take_are_refused(tmp_path: Path) -> None:
    model, _ = NETWORKS["pictures"]
    convert(model, tmp_path / "net.om")
    with Device(), Model(tmp_path / "net.om") as loaded:
        for shape in ((3, 8, 9), (1, 4, 8, 9), (1, 3, 0, 9)):
            with pytest.raises(AclError, match="aclmdlExecute"):
                loaded(np.zeros(shape, F))
        assert loaded(values(1, 3, 4, 4))[0].shape == (1, 4, 4, 4)


def test_a_given_shape_still_fixes_such_an_input(tmp_path: Path) -> None:
    convert(NETWORKS["rows"][0], tmp_path / "net.om", "input_shape=x:2,6")
    with Device(), Model(tmp_path / "net.om") as loaded:
        assert loaded.inputs[0].shape == (2, 6)


# --- images ---


def _images(
    folder: Path, config: str, shape: list[int | str], options: str = "", om: str = "net.om"
) -> Path:
    one = helper.make_node("Add", ["x", "one"], ["y"], "add")
    model = network(one, inputs={"x": shape}, one=np.ones(1, F))
    (folder / "aipp.cfg").write_text(config)
    convert(model, folder / om, f"insert_op_conf={folder}/aipp.cfg\n{options}")
    return folder / om


OPEN_SIZES = {
    "rgb": Config(rbuv=True, mean=[4, 5, 6, 0], scale=[0.5, 0.25, 2, 1]),
    "xrgb": Config("XRGB8888_U8", ax=True),
    "yuv to rgb": Config("YUV420SP_U8", matrix=JPEG_TO_RGB, input_bias=(0, 128, 128)),
    "grey": Config("YUV400_U8", scale=[0.5, 1, 1, 1]),
}


@pytest.mark.parametrize("name", OPEN_SIZES)
def test_images_of_any_size(tmp_path: Path, name: str) -> None:
    config = replace(OPEN_SIZES[name])
    channels = 1 if name == "grey" else 3
    om = _images(tmp_path, config.text(), ["n", channels, "h", "w"])
    depth = {"rgb": 3, "xrgb": 4}.get(name, 1)
    with Device(), Model(om) as model:
        assert model.inputs[0].dtype == "ACL_UINT8"
        assert model.inputs[0].shape == (-1, -1, -1, depth)
        for count, width, height in ((1, 8, 6), (2, 4, 10), (3, 20, 2)):
            config.size = (width, height)
            given = images(config, count)
            rows = height * 3 // 2 if name == "yuv to rgb" else height
            (got,) = model(given.reshape(count, rows, width, depth))
            want = np.stack([expected(config, image, channels) for image in given]) + 1
            assert np.array_equal(got, want)


def test_only_the_batch_is_open_where_images_are_cut(tmp_path: Path) -> None:
    config = Config("YUV420SP_U8", (20, 12), crop=(4, 2, 8, 6), matrix=JPEG_TO_RGB)
    om = _images(tmp_path, config.text(), ["n", 3, 6, 8], "input_shape=x:1~4,3,6,8")
    with Device(), Model(om) as model:
        assert model.inputs[0].shape == (-1, 18, 20, 1)
        for count in (1, 3):
            given = images(config, count)
            (got,) = model(given.reshape(count, 18, 20, 1))
            want = np.stack([expected(config, image, 3) for image in given]) + 1
            assert np.array_equal(got, want)
        with pytest.raises(AclError, match="from 1 to 4"):
            model(np.zeros((5, 18, 20, 1), np.uint8))


def test_rows_of_yuv_are_counted_in_bytes(tmp_path: Path) -> None:
    om = _images(tmp_path, OPEN_SIZES["yuv to rgb"].text(), [1, 3, "h", "w"])
    with Device(), Model(om) as model:
        with pytest.raises(AclError, match="no multiple of 3"):
            model(np.zeros((1, 10, 4, 1), np.uint8))
        with pytest.raises(AclError, match="even sizes"):
            model(np.zeros((1, 6, 5, 1), np.uint8))


@pytest.mark.parametrize(
    ("config", "shape", "part"),
    [
        (DYNAMIC, ["n", 3, 6, 8], "fixed ones or gears"),
        (Config(crop=(0, 0, 8, 6), size=(20, 12)).text(), [1, 3, "h", "w"], "need fixed ones"),
        (Config(size=(8, 6)).text(), [1, 3, "h", 8], "src_image_size"),
        (Config().text(), [1, "c", 6, 8], "fixed number of channels"),
    ],
)
def test_what_has_no_open_form(tmp_path: Path, config: str, shape: list[Any], part: str) -> None:
    with pytest.raises(_ctl.ConvertError, match=part):
        _images(tmp_path, config, shape)
    assert not list(tmp_path.glob("*.om"))
