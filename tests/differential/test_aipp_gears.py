"""Image preprocessing together with gears."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from differential import convert
from test_aipp import CASES, DYNAMIC, Config, expected, images, network, parameters_of

from ascendrt import AclError, _ctl, _lib
from ascendrt._lib import call
from ascendrt.device import Device
from ascendrt.model import Model


def om_of(folder: Path, text: str, shape: list[str | int], options: str) -> Path:
    (folder / "aipp.cfg").write_text(text)
    model = network(shape)  # type: ignore[arg-type]
    convert(model, folder / "net.om", f"insert_op_conf={folder}/aipp.cfg\n{options}")
    return folder / "net.om"


@pytest.mark.parametrize("name", ["bgr with mean and scale", "crop of yuv", "padding"])
def test_static_with_batches(tmp_path: Path, name: str) -> None:
    config = CASES[name]
    options = "input_shape=x:-1,3,6,8\ndynamic_batch_size=2,5,1"
    om = om_of(tmp_path, config.text(), ["n", 3, 6, 8], options)
    with Device(), Model(om) as model:
        assert model.inputs[0].shape[0] == -1 and model.inputs[0].shape[-1] in (1, 3)
        for batch in (1, 5, 2, 4):
            given = images(config, batch)
            shape = (batch, *model.inputs[0].shape[1:])
            if "yuv" in name:  # the visible dims are those of the pixels, not of the bytes
                continue
            want = np.stack([expected(config, each, 3) for each in given]) + 1
            assert np.array_equal(model(given.reshape(shape))[0], want)


def test_static_with_image_sizes(tmp_path: Path) -> None:
    config = Config(scale=[0.5, 0.25, 2, 1], rbuv=True)
    options = "input_shape=x:1,3,-1,-1\ndynamic_image_size=6,8;4,10"
    om = om_of(tmp_path, config.text(), [1, 3, "h", "w"], options)
    with Device(), Model(om) as model:
        assert model.inputs[0].shape == (1, -1, -1, 3)
        for height, width in ((6, 8), (4, 10), (6, 8)):
            config.size = (width, height)
            (given,) = images(config, 1)
            (got,) = model(given.reshape(1, height, width, 3))
            assert np.array_equal(got[0], expected(config, given, 3) + 1)


def test_dynamic_with_image_sizes(tmp_path: Path) -> None:
    """Parameters are checked against the gear of the dataset."""
    options = "input_shape=x:1,3,-1,-1\ndynamic_image_size=6,8;4,10"
    om = om_of(tmp_path, DYNAMIC, [1, 3, "h", "w"], options)
    with Device(), Model(om) as model:
        slot = model._take()
        feed, fetch, gear = slot.feed, slot.fetch, model.gears.index
        for width, height in ((8, 6), (10, 4)):
            config = Config(size=(width, height), mean=[1, 2, 3, 0])
            (given,) = images(config, 1)
            feed.memory(0).write(given)
            call("aclmdlSetDynamicHWSize", model.model_id, feed.handle, gear, height, width)
            wrong = parameters_of(Config(size=(height, width)), 1)
            with pytest.raises(AclError, match=f"{width}x{height}"):
                call("aclmdlSetAIPPByInputIndex", model.model_id, feed.handle, 0, wrong)
            parameters = parameters_of(config, 1)
            call("aclmdlSetAIPPByInputIndex", model.model_id, feed.handle, 0, parameters)
            call("aclmdlExecute", model.model_id, feed.handle, fetch.handle)
            got = fetch.memory(0).read((3, height, width), np.float32)
            assert np.array_equal(got, expected(config, given, 3) + 1)


def test_what_a_model_says_of_all_gears(tmp_path: Path) -> None:
    config = CASES["crop"]
    options = "input_shape=x:-1,3,6,8\ndynamic_batch_size=2,5"
    om = om_of(tmp_path, config.text(), ["n", 3, 6, 8], options)
    info = _lib.new("aclAippInfo *")
    with Device(), Model(om) as model:
        call("aclmdlGetFirstAippInfo", model.model_id, 0, info)
    assert (info.shapeCount, info.srcDimNum) == (2, 4)
    for place, batch in enumerate((2, 5)):
        dims = info.outDims[place]
        assert [dims.srcDims.dims[i] for i in range(4)] == [batch, 11, 20, 3]
        assert [dims.aippOutdims.dims[i] for i in range(4)] == [batch, 3, 6, 8]
        assert (dims.srcSize, dims.aippOutSize) == (batch * 660, batch * 576)


@pytest.mark.parametrize(
    ("text", "options", "part"),
    [
        (CASES["crop"].text(), "input_shape=x:1,3,-1,-1\ndynamic_image_size=6,8;4,10", "crop"),
        (CASES["rgb"].text(), "input_shape=x:1,3,-1,-1\ndynamic_image_size=6,8;4,10", "must be 0"),
        (CASES["rgb"].text(), "input_shape=x:1,3,-1,-1\ndynamic_dims=6,8;4,10", "dynamic_dims"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, text: str, options: str, part: str) -> None:
    with pytest.raises(_ctl.ConvertError, match=part):
        om_of(tmp_path, text, [1, 3, "h", "w"], options)
