"""The text-angle classifier of rapidocr-onnxruntime 1.4.4, a network with real weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differential import convert, distance, execute, outputs, put_inputs, reference
from networks import rapidocr
from PIL import Image, ImageDraw, ImageFont

HEIGHT, WIDTH = 48, 192
BAR = 1e-4
Array = np.ndarray[Any, Any]


def _text_picture(text: str) -> Array:
    """Dark text on white, as large as the input allows."""
    font = ImageFont.load_default(size=28)
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    ImageDraw.Draw(picture).text((8, 6), text, fill="black", font=font)
    return np.asarray(picture)


def _prepare(picture: Array) -> Array:
    """The network's own preprocessing: to [-1, 1], channels first."""
    scaled = picture.astype(np.float32).transpose(2, 0, 1)[None] / np.float32(255)
    return np.ascontiguousarray((scaled - np.float32(0.5)) / np.float32(0.5))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Array, Array]]:
    """Outputs here and from onnxruntime for noise, text, and the same text upside down."""
    model = rapidocr("angle", (1, 3, HEIGHT, WIDTH))
    if model is None:
        pytest.skip("the package rapidocr-onnxruntime, which carries the network, is missing")
    directory = tmp_path_factory.mktemp("angle")
    text = _text_picture("Hello World")
    noise = np.random.default_rng(5).standard_normal((1, 3, HEIGHT, WIDTH)).astype(np.float32)
    inputs = {
        "noise": noise,
        "upright": _prepare(text),
        "turned": _prepare(np.rot90(text, 2)),
    }
    for name, array in inputs.items():
        convert(model, directory / f"{name}.om")
        put_inputs(directory / f"{name}.om", {"x": array})
    execute(directory)
    return {
        name: (outputs(directory / f"{name}.om")[0], reference(model, {"x": array})[0])
        for name, array in inputs.items()
    }


@pytest.mark.parametrize("name", ["noise", "upright", "turned"])
def test_outputs_agree(results: dict[str, tuple[Array, Array]], name: str) -> None:
    got, expected = results[name]
    assert got.shape == (1, 2)
    assert distance(got, expected) <= BAR


def test_the_label_follows_the_picture(results: dict[str, tuple[Array, Array]]) -> None:
    labels = {name: int(got.argmax()) for name, (got, _) in results.items()}
    assert labels["upright"] == 0
    assert labels["turned"] == 1
