"""Every colour format of AIPP with random settings, against the evaluation of the manual in numpy.

Switches, crop, resize, colour matrix, means, scales and padding are drawn together; results are
equal to the bit. With gears for the batch each picture of a run has a crop of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import Array, convert
from test_aipp import DYNAMIC, Config, expected, images, network, parameters_of, run

from ascendrt import Device, Model, _ctl
from ascendrt._lib import call
from ascendrt.errors import AclError

FORMATS = ("YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8")
OTHERS = ("ARGB8888_U8", "YUYV_U8", "YUV422SP_U8", "AYUV444_U8", "RAW10", "NC1HWC0DI_S8")
SEEDS = range(12)
F = np.float32


def _even(rng: np.random.Generator, low: int, high: int) -> int:
    return 2 * int(rng.integers(low // 2, high // 2))


def _config(kind: str, seed: int) -> tuple[Config, tuple[int, int]]:
    """Settings, and width and height of what comes out."""
    rng = np.random.default_rng([seed, FORMATS.index(kind)])
    some = lambda: bool(rng.random() < 0.5)  # noqa: E731
    config = Config(kind, (_even(rng, 12, 30), _even(rng, 12, 30)))
    width, height = config.size
    config.rbuv, config.ax = some(), kind == "XRGB8888_U8" and some()
    if some():
        w, h = _even(rng, 6, width), _even(rng, 6, height)
        left, top = _even(rng, 0, width - w + 2), _even(rng, 0, height - h + 2)
        config.crop = (left, top, w, h)
        width, height = w, h
    if some():
        width, height = config.resize = (_even(rng, 4, 40), _even(rng, 4, 40))
    if some():
        config.matrix = [int(v) for v in rng.integers(-500, 500, 9)]
        config.input_bias = tuple(int(v) for v in rng.integers(0, 256, 3))  # type: ignore[assignment]
        config.output_bias = tuple(int(v) for v in rng.integers(0, 256, 3))  # type: ignore[assignment]
    config.mean = [int(v) for v in rng.integers(0, 256, 4)]
    config.least = [float(v) for v in rng.uniform(0, 5, 4).astype(np.float16)]
    config.scale = [float(v) for v in rng.uniform(-0.1, 2, 4).astype(np.float16)]
    if some():
        left, right, top, bottom = (int(v) for v in rng.integers(0, 4, 4))
        config.padding, config.padding_value = (left, right, top, bottom), 2.5
        width, height = width + left + right, height + top + bottom
    return config, (width, height)


@pytest.mark.parametrize("kind", FORMATS)
def test_all_settings_together(tmp_path: Path, kind: str) -> None:
    channels = 1 if kind == "YUV400_U8" else 3
    with Device():
        for seed in SEEDS:
            config, (width, height) = _config(kind, seed)
            (tmp_path / "aipp.cfg").write_text(config.text())
            om = tmp_path / f"{seed}.om"
            model = network([2, channels, height, width])
            convert(model, om, f"insert_op_conf={tmp_path}/aipp.cfg")
            given = images(config, 2)
            with Model(om) as loaded:
                got = run(loaded, [given])
            want = np.stack([expected(config, image, channels) for image in given]) + F(1)
            assert np.array_equal(got, want), config


@pytest.mark.parametrize("kind", FORMATS)
def test_settings_that_come_with_the_run(tmp_path: Path, kind: str) -> None:
    """As above; a dynamic AIPP has neither resize nor a padding value."""
    channels = 1 if kind == "YUV400_U8" else 3
    (tmp_path / "aipp.cfg").write_text(DYNAMIC)
    with Device():
        for seed in SEEDS:
            config, (width, height) = _config(kind, seed)
            if config.resize or config.padding:
                continue
            om = tmp_path / f"{seed}.om"
            model = network([1, channels, height, width])
            convert(model, om, f"insert_op_conf={tmp_path}/aipp.cfg")
            room = np.zeros(4000, np.uint8)
            given = images(config, 1)
            room[: given.size] = given.reshape(-1)
            parameters = parameters_of(config, 1)
            with Model(om) as loaded:
                got = run(loaded, [room], parameters)
            call("aclmdlDestroyAIPP", parameters)
            assert np.array_equal(got[0], expected(config, given[0], channels) + F(1)), config


def _with_crops(config: Config, crops: list[tuple[int, int, int, int]]) -> Any:
    parameters = parameters_of(config, len(crops))
    for index, crop in enumerate(crops):
        call("aclmdlSetAIPPCropParams", parameters, 1, *crop, index)
    return parameters


def test_each_picture_of_a_batch_has_its_crop(tmp_path: Path) -> None:
    """Parameters are made for the largest batch; a smaller gear takes the first of them."""
    (tmp_path / "aipp.cfg").write_text(DYNAMIC)
    om = tmp_path / "net.om"
    options = f"insert_op_conf={tmp_path}/aipp.cfg\ninput_shape=x:-1,3,6,8\ndynamic_batch_size=1,3"
    convert(network(["n", 3, 6, 8]), om, options)  # type: ignore[list-item]
    crops = [(0, 0, 8, 6), (5, 3, 8, 6), (2, 4, 8, 6)]
    config = Config(size=(14, 10), mean=[3, 2, 1, 0])
    given = images(config, 3)
    want: list[Array] = []
    for crop, image in zip(crops, given, strict=True):
        config.crop = crop
        want.append(expected(config, image, 3) + F(1))
    config.crop = None
    with Device(), Model(om) as model:
        slot = model._take()
        feed, fetch, gear = slot.feed, slot.fetch, model.gears.index
        for count in (1, 3):
            parameters = _with_crops(config, crops)
            feed.memory(0).write(given[:count])
            call("aclmdlSetDynamicBatchSize", model.model_id, feed.handle, gear, count)
            call("aclmdlSetAIPPByInputIndex", model.model_id, feed.handle, 0, parameters)
            call("aclmdlExecute", model.model_id, feed.handle, fetch.handle)
            call("aclmdlDestroyAIPP", parameters)
            got = fetch.memory(0).read((count, 3, 6, 8), np.float32)
            assert np.array_equal(got, np.stack(want[:count]))
        parameters = _with_crops(config, [*crops[:2], (9, 0, 8, 6)])  # reaches over the edge
        with pytest.raises(AclError):
            call("aclmdlSetAIPPByInputIndex", model.model_id, feed.handle, 0, parameters)
        call("aclmdlDestroyAIPP", parameters)
        model.give(slot)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_formats_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "aipp.cfg").write_text(Config(kind, (8, 6)).text())
    with pytest.raises(_ctl.ConvertError, match=rf"'{kind}' is none of YUV420SP_U8"):
        convert(network([1, 3, 6, 8]), tmp_path / "a.om", f"insert_op_conf={tmp_path}/aipp.cfg")
    assert not list(tmp_path.glob("*.om"))
