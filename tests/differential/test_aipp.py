"""Image preprocessing of models (AIPP) against an evaluation in numpy, written from the manual."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from differential import Array, convert
from onnx import TensorProto, helper

from ascendrt import _ctl, _lib, constants
from ascendrt._lib import call, lib
from ascendrt.aipp import Aipp
from ascendrt.dataset import Dataset
from ascendrt.device import Device
from ascendrt.errors import AclError
from ascendrt.model import Model

JPEG_TO_RGB = [256, 0, 359, 256, -88, -183, 256, 454, 0]
RGB_TO_YUV = [66, 129, 25, -38, -74, 112, 112, -94, -18]


@dataclass
class Config:
    """The fields of an aipp_op that the tests use."""

    input_format: str = "RGB888_U8"
    size: tuple[int, int] = (0, 0)  # width, height
    crop: tuple[int, int, int, int] | None = None  # left, top, width, height
    resize: tuple[int, int] | None = None  # width, height
    padding: tuple[int, int, int, int] | None = None  # left, right, top, bottom
    padding_value: float = 0
    rbuv: bool = False
    ax: bool = False
    matrix: list[int] | None = None
    input_bias: tuple[int, int, int] = (0, 0, 0)
    output_bias: tuple[int, int, int] = (0, 0, 0)
    mean: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    least: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    scale: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0, 1.0])

    def text(self) -> str:
        """The configuration file."""
        lines = [
            "aipp_mode: static",
            f"input_format: {self.input_format}",
            f"src_image_size_w: {self.size[0]}  # width",
            f"src_image_size_h: {self.size[1]}",
            f"rbuv_swap_switch: {str(self.rbuv).lower()}",
            f"ax_swap_switch: {str(self.ax).lower()}",
            f"csc_switch: {str(self.matrix is not None).lower()}",
        ]
        for i, value in enumerate(self.matrix or []):
            lines.append(f"matrix_r{i // 3}c{i % 3}: {value}")
        for i in range(3):
            lines.append(f"input_bias_{i}: {self.input_bias[i]}")
            lines.append(f"output_bias_{i}: {self.output_bias[i]}")
        if self.crop:
            keys = ("load_start_pos_w", "load_start_pos_h", "crop_size_w", "crop_size_h")
            lines += ["crop: true", *(f"{k}: {v}" for k, v in zip(keys, self.crop, strict=True))]
        if self.resize:
            keys = ("resize_output_w", "resize_output_h")
            lines += [
                "resize: true",
                *(f"{k}: {v}" for k, v in zip(keys, self.resize, strict=True)),
            ]
        if self.padding:
            keys = ("left", "right", "top", "bottom")
            lines += ["padding: true", f"padding_value: {self.padding_value}"]
            lines += [f"{k}_padding_size: {v}" for k, v in zip(keys, self.padding, strict=True)]
        for i in range(4):
            lines.append(f"mean_chn_{i}: {self.mean[i]}")
            lines.append(f"min_chn_{i}: {self.least[i]}")
            lines.append(f"var_reci_chn_{i}: {self.scale[i]}")
        return "# a comment\naipp_op {\n  " + "\n  ".join(lines) + "\n}\n"


def _resized(pixels: Array, width: int, height: int) -> Array:
    """Bilinear between centres of pixels; halves are rounded up."""

    def places(count: int, source: int) -> tuple[Array, Array, Array]:
        scale = np.float32(source) / np.float32(count)
        at = (np.arange(count, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
        at = np.maximum(at, np.float32(0))
        low = np.minimum(at.astype(np.int64), source - 1)
        return low, np.minimum(low + 1, source - 1), (at - low).astype(np.float32)

    top, bottom, down = places(height, pixels.shape[0])
    left, right, along = places(width, pixels.shape[1])
    values = pixels.astype(np.float32)
    rows = values[:, left] + (values[:, right] - values[:, left]) * along[None, :, None]
    mixed = rows[top] + (rows[bottom] - rows[top]) * down[:, None, None]
    return np.asarray(np.floor(mixed + np.float32(0.5)).astype(np.int64))


def expected(config: Config, image: Array, channels: int) -> Array:
    """One image, as flat bytes, to [C, H, W]."""
    width, height = config.size
    if config.input_format == "YUV420SP_U8":
        luma = image[: width * height].reshape(height, width)
        pairs = image[width * height :].reshape(height // 2, width // 2, 2)
        chroma = pairs.repeat(2, 0).repeat(2, 1)
        if config.rbuv:
            chroma = chroma[:, :, ::-1]
        pixels = np.concatenate([luma[:, :, None], chroma], 2).astype(np.int64)
    else:
        count = {"RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1}[config.input_format]
        pixels = image.reshape(height, width, count).astype(np.int64)
        if config.ax:
            pixels = np.roll(pixels, -1, 2)
        if config.rbuv:
            pixels = np.concatenate([pixels[:, :, 2::-1], pixels[:, :, 3:]], 2)
    if config.crop:
        left, top, w, h = config.crop
        pixels = pixels[top : top + h, left : left + w]
    if config.resize:
        pixels = _resized(pixels, *config.resize)
    if config.matrix is not None and config.input_format != "YUV400_U8":
        matrix = np.array(config.matrix).reshape(3, 3)
        yuv = config.input_format == "YUV420SP_U8"
        source = pixels[:, :, :3] - (config.input_bias if yuv else (0, 0, 0))
        result = (source @ matrix.T >> 8) + ((0, 0, 0) if yuv else config.output_bias)
        pixels = np.clip(result, 0, 255)
    pixels = pixels[:, :, :channels].astype(np.float32)
    mean = np.array(config.mean[:channels], np.float32)
    mean += np.array(config.least[:channels], np.float16).astype(np.float32)
    scale = np.array(config.scale[:channels], np.float16).astype(np.float32)
    result = ((pixels - mean) * scale).transpose(2, 0, 1)
    if config.padding:
        left, right, top, bottom = config.padding
        room = ((0, 0), (top, bottom), (left, right))
        result = np.pad(result, room, constant_values=config.padding_value)
    return np.asarray(result)


def network(shape: list[int]) -> onnx.ModelProto:
    """x -> x + 1, which tells a result from its input."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    one = onnx.numpy_helper.from_array(np.ones(1, np.float32), "one")
    node = helper.make_node("Add", ["x", "one"], ["y"], "add")
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], [one])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES = {
    "rgb": Config(size=(8, 6)),
    "bgr with mean and scale": Config(
        size=(8, 6), rbuv=True, mean=[104, 117, 123, 0], least=[0.5, 1, 2, 0],
        scale=[0.0171, 0.0175, -0.0174, 1],
    ),
    "yuv to rgb": Config("YUV420SP_U8", (8, 6), matrix=JPEG_TO_RGB, input_bias=(0, 128, 128)),
    "yvu": Config("YUV420SP_U8", (8, 6), rbuv=True),
    "rgb to yuv": Config(size=(8, 6), matrix=RGB_TO_YUV, output_bias=(16, 128, 128)),
    "xrgb": Config("XRGB8888_U8", (8, 6), ax=True),
    "bgrx": Config("XRGB8888_U8", (8, 6), rbuv=True),
    "crop": Config(size=(20, 11), crop=(5, 3, 8, 6)),
    "crop of yuv": Config("YUV420SP_U8", (20, 12), crop=(4, 2, 8, 6), matrix=JPEG_TO_RGB),
    "padding": Config(size=(4, 3), padding=(3, 1, 2, 1), padding_value=-7.5, mean=[9, 8, 7, 0]),
    "crop and padding": Config(size=(30, 9), crop=(21, 4, 5, 4), padding=(0, 3, 0, 2)),
}  # fmt: skip


def images(config: Config, count: int) -> Array:
    width, height = config.size
    per_pixel = {"RGB888_U8": 3.0, "XRGB8888_U8": 4.0, "YUV400_U8": 1.0, "YUV420SP_U8": 1.5}
    size = int(width * height * per_pixel[config.input_format])
    return np.random.default_rng(width).integers(0, 256, (count, size)).astype(np.uint8)


@pytest.mark.parametrize("name", CASES)
def test_static(tmp_path: Path, name: str) -> None:
    config, om = CASES[name], tmp_path / "net.om"
    (tmp_path / "aipp.cfg").write_text(config.text())
    convert(network([2, 3, 6, 8]), om, f"insert_op_conf={tmp_path}/aipp.cfg")
    given = images(config, 2)
    with Device(), Model(om) as model:
        (spec,) = model.inputs
        assert spec.size_bytes == given.nbytes and spec.format == "NHWC"
        assert spec.shape[:3] == (2, config.size[1], config.size[0])
        got = run(model, [given])
    want = np.stack([expected(config, image, 3) for image in given]) + 1
    assert np.array_equal(got, want)


def test_grey_pictures(tmp_path: Path) -> None:
    config, om = Config("YUV400_U8", (8, 6), scale=[0.25, 1, 1, 1]), tmp_path / "net.om"
    (tmp_path / "aipp.cfg").write_text(config.text())
    convert(network([1, 1, 6, 8]), om, f"insert_op_conf={tmp_path}/aipp.cfg")
    given = images(config, 1)
    with Device(), Model(om) as model:
        got = run(model, [given])
    assert np.array_equal(got[0], expected(config, given[0], 1) + 1)


def run(model: Model, inputs: list[Array], parameters: Any = None) -> Array:
    """One blocking run on the bytes of the inputs; parameters go to the image input."""
    with Dataset(model.inputs) as feed, Dataset(model.outputs) as fetch:
        for index, array in enumerate(inputs):
            feed.memory(index).write(array)
        if parameters is not None:
            call("aclmdlSetAIPPByInputIndex", model.model_id, feed.handle, 0, parameters)
        call("aclmdlExecute", model.model_id, feed.handle, fetch.handle)
        return np.asarray(fetch.memory(0).read(model.outputs[0].shape, np.float32))


def test_static_before_a_network_in_half_precision(tmp_path: Path) -> None:
    config, om = CASES["bgr with mean and scale"], tmp_path / "net.om"
    (tmp_path / "aipp.cfg").write_text(config.text())
    options = f"insert_op_conf={tmp_path}/aipp.cfg\nprecision_mode=force_fp16\noutput_type=FP32"
    convert(network([1, 3, 6, 8]), om, options)
    given = images(config, 1)
    with Device(), Model(om) as model:
        got = run(model, [given])
    want = expected(config, given[0], 3).astype(np.float16) + np.float16(1)
    assert np.array_equal(got[0], want.astype(np.float32))


DYNAMIC = """aipp_op {
  aipp_mode: dynamic
  related_input_rank: 0
  max_src_image_size: 4000
}
"""


def parameters_of(config: Config, count: int) -> Any:
    made = lib.aclmdlCreateAIPP(count)
    kind = getattr(constants, f"ACL_{config.input_format}")
    call("aclmdlSetAIPPInputFormat", made, kind)
    call("aclmdlSetAIPPSrcImageSize", made, *config.size)
    call("aclmdlSetAIPPRbuvSwapSwitch", made, int(config.rbuv))
    call("aclmdlSetAIPPAxSwapSwitch", made, int(config.ax))
    matrix = config.matrix or [0] * 9
    biases = (*config.output_bias, *config.input_bias)
    call("aclmdlSetAIPPCscParams", made, int(config.matrix is not None), *matrix, *biases)
    for index in range(count):
        call("aclmdlSetAIPPDtcPixelMean", made, *config.mean, index)
        call("aclmdlSetAIPPDtcPixelMin", made, *config.least, index)
        call("aclmdlSetAIPPPixelVarReci", made, *config.scale, index)
        if config.crop:
            call("aclmdlSetAIPPCropParams", made, 1, *config.crop, index)
        if config.padding:
            left, right, top, bottom = config.padding
            call("aclmdlSetAIPPPaddingParams", made, 1, top, bottom, left, right, index)
    return made


def test_dynamic(tmp_path: Path) -> None:
    """One model takes one kind of image after another."""
    (tmp_path / "aipp.cfg").write_text(DYNAMIC)
    om = tmp_path / "net.om"
    convert(network([2, 3, 6, 8]), om, f"insert_op_conf={tmp_path}/aipp.cfg")
    with Device(), Model(om) as model, Model(om) as called:
        image, block = model.inputs
        assert (image.shape, block.name) == ((4000,), "ascend_dynamic_aipp_data")
        size = _lib.new("size_t *")
        call("aclmdlGetAippDataSize", 2, size)
        assert block.size_bytes == size[0]
        for config in CASES.values():
            if config.padding_value:
                continue  # dynamic parameters have no such value
            given = images(config, 2)
            room = np.zeros(4000, np.uint8)
            room[: given.size] = given.reshape(-1)
            parameters = parameters_of(config, 2)
            got = run(model, [room], parameters)
            call("aclmdlDestroyAIPP", parameters)
            want = np.stack([expected(config, each, 3) for each in given]) + 1
            assert np.array_equal(got, want), config
            made = called.aipp_block(aipp_of(config))
            under_way = called.run_async([room, made])
            assert np.array_equal(called(room, made)[0], want), config
            assert np.array_equal(under_way.result()[0], want), config


def aipp_of(config: Config) -> Aipp:
    padding = config.padding and tuple(config.padding[i] for i in (2, 3, 0, 1))
    return Aipp(
        input_format=config.input_format,
        size=config.size,
        crop=config.crop,
        padding=cast("tuple[int, int, int, int] | None", padding),
        rbuv_swap=config.rbuv,
        ax_swap=config.ax,
        matrix=config.matrix and tuple(config.matrix),
        output_bias=config.output_bias,
        input_bias=config.input_bias,
        mean=(config.mean[0], config.mean[1], config.mean[2], config.mean[3]),
        minimum=(config.least[0], config.least[1], config.least[2], config.least[3]),
        var_reci=(config.scale[0], config.scale[1], config.scale[2], config.scale[3]),
    )


def test_wrong_parameters_of_a_dynamic_aipp(tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text(DYNAMIC)
    convert(network([1, 3, 6, 8]), tmp_path / "net.om", f"insert_op_conf={tmp_path}/aipp.cfg")
    convert(network([1, 3, 6, 8]), tmp_path / "plain.om")
    right = Aipp(input_format="RGB888_U8", size=(8, 6))
    with Device(), Model(tmp_path / "net.om") as model, Model(tmp_path / "plain.om") as plain:
        with pytest.raises(AclError, match="9x6"):
            model.aipp_block(replace(right, size=(9, 6)))
        with pytest.raises(ValueError, match="input 0 of the model has no dynamic AIPP"):
            plain.aipp_block(right)
        with pytest.raises(AclError) as caught:
            model.aipp_block(right, 5)
        assert caught.value.code == constants.ACL_ERROR_INVALID_PARAM
        with pytest.raises(TypeError, match="aipp_block"):
            model(np.zeros(4000, np.uint8))
        assert model.aipp_block(right).shape == model.inputs[1].shape
    with pytest.raises(ValueError, match=r"'RGB' is none of .*'RGB888_U8'"):
        replace(right, input_format="RGB")
    with pytest.raises(ValueError, match=r"crop is .* it has 4 numbers"):
        replace(right, crop=cast("tuple[int, int, int, int]", (1, 2)))


def test_what_a_model_says_of_its_preprocessing(tmp_path: Path) -> None:
    config = CASES["crop"]
    (tmp_path / "static.cfg").write_text(config.text())
    (tmp_path / "dynamic.cfg").write_text(DYNAMIC)
    kind, attached = _lib.new("aclmdlInputAippType *"), _lib.new("size_t *")
    info = _lib.new("aclAippInfo *")
    answers = []
    with Device():
        for mode in ("static", "dynamic"):
            om = tmp_path / f"{mode}.om"
            convert(network([1, 3, 6, 8]), om, f"insert_op_conf={tmp_path}/{mode}.cfg")
            with Model(om) as model:
                for index in range(len(model.inputs)):
                    call("aclmdlGetAippType", model.model_id, index, kind, attached)
                    answers.append((int(kind[0]), int(attached[0])))
                if mode == "static":
                    call("aclmdlGetFirstAippInfo", model.model_id, 0, info)
    assert answers == [(1, 0xFFFFFFFF), (2, 1), (3, 0xFFFFFFFF)]
    assert (info.inputFormat, info.srcImageSizeW, info.cropSwitch, info.cropSizeW) == (3, 20, 1, 8)
    assert [info.outDims[0].aippOutdims.dims[i] for i in range(4)] == [1, 3, 6, 8]
    assert info.outDims[0].srcSize == 20 * 11 * 3 and info.varReciChn2 == 1


def test_parameters_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text(DYNAMIC)
    convert(network([1, 3, 6, 8]), tmp_path / "net.om", f"insert_op_conf={tmp_path}/aipp.cfg")
    with Device(), Model(tmp_path / "net.om") as model:
        room = np.zeros(4000, np.uint8)
        for config, part in (
            (Config(size=(9, 6)), "9x6"),
            (Config(size=(80, 60), crop=(0, 0, 8, 6)), "max_src_image_size"),
            (Config(size=(10, 6), crop=(4, 0, 8, 6)), "not inside"),
        ):
            parameters = parameters_of(config, 1)
            with pytest.raises(AclError, match=part):
                run(model, [room], parameters)
        with pytest.raises(AclError, match="were not set"):
            run(model, [room])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no aipp_op"),
        ("aipp_op { aipp_mode: static }", "input_format"),
        ("aipp_op { input_format: RGB888_U8 }", "aipp_mode"),
        ("aipp_op { aipp_mode: dynamic }", "max_src_image_size"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 colour: red }", "'colour'"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 crop: 2 }", "no switch"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 300 }", "0 to 255"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8", "'}'"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 9 "
         "src_image_size_h: 9 }", "9x9"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 related_input_rank: 3 }", "3"),
    ],
)  # fmt: skip
def test_wrong_configurations(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "aipp.cfg").write_text(text)
    with pytest.raises(_ctl.ConvertError, match=part):
        convert(network([1, 3, 6, 8]), tmp_path / "net.om", f"insert_op_conf={tmp_path}/aipp.cfg")
    assert not (tmp_path / "net.om").exists()
