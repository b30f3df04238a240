"""Real networks against onnxruntime, as the file says and in half precision.

Text detection, recognition and angle, and voice activity with its state, come from wheels:
rapidocr-onnxruntime is installed with the tests, of silero-vad only the files are taken (installing
it would bring torch). ResNet-50, MobileNetV2 and a BERT are those of the benchmarks.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from differential import HERE, convert, distance, execute, outputs, put_inputs, reference
from networks import rapidocr
from PIL import Image, ImageDraw, ImageFont
from sound import speech

sys.path += [str(Path(__file__).resolve().parents[1] / "clients"), str(HERE.parents[1])]
from environments import wheel_files

from benchmarks import networks as known

BAR = 1e-4
HALF_BAR = 0.9999  # cosine of what half precision gives
SILERO = "silero-vad==6.2.3"
SECONDS = 10
Array = np.ndarray[Any, Any]

# name: (kind, height, width, lines of text)
PICTURES = {
    "detection-320x320": ("detection", 320, 320, ["Hello World", "Ascend 910", "reads text"]),
    "detection-96x640": ("detection", 96, 640, ["one long line of text"]),
    "recognition-48x320": ("recognition", 48, 320, ["Hello World"]),
    "angle-48x192": ("angle", 48, 192, ["Hello World"]),
}
# name: (file, sampling rate, samples of a step, samples of the step before that go with it)
VOICES = {
    "silero-16k": ("silero_vad.onnx", 16000, 512, 64),
    "silero-8k": ("silero_vad.onnx", 8000, 256, 32),
    "silero-op15-16k": ("silero_vad_16k_op15.onnx", 16000, 512, 64),
}


def _picture(height: int, width: int, lines: list[str]) -> Array:
    """Dark text on white as the networks want it: channels first, from -1 to 1."""
    picture = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(size=28)
    for i, text in enumerate(lines):
        ImageDraw.Draw(picture).text((12, 6 + 60 * i), text, fill="black", font=font)
    scaled = np.asarray(picture).astype(np.float32).transpose(2, 0, 1)[None] / np.float32(255)
    return np.ascontiguousarray((scaled - np.float32(0.5)) / np.float32(0.5))


Pairs = tuple[list[Array], list[Array]]
Feeds = dict[str, Array]
KNOWN: dict[str, Callable[[], tuple[onnx.ModelProto, Feeds]]] = {
    "resnet50": lambda: (known.resnet50(), {known.INPUT: known.image(1)}),
    "mobilenet-v2": lambda: (known.mobilenet_v2(), {known.INPUT: known.image(1)}),
    "bert-4": lambda: (known.bert(), known.sentences()),
}
MODES = {"": "", "-half": "precision_mode=force_fp16"}


def _text_network(name: str) -> tuple[onnx.ModelProto, Feeds]:
    kind, height, width, lines = PICTURES[name]
    model = rapidocr(kind, (1, 3, height, width))
    if model is None:
        pytest.skip("the package rapidocr-onnxruntime, which carries the networks, is missing")
    return model, {"x": _picture(height, width, lines)}


def _run_in_both_modes(
    directory: Path, made: dict[str, tuple[onnx.ModelProto, Feeds]]
) -> dict[str, Pairs]:
    """Outputs here and from onnxruntime, which always computes what the file says."""
    for name, (model, feeds) in made.items():
        for mode, options in MODES.items():
            convert(model, directory / f"{name}{mode}.om", options)
            put_inputs(directory / f"{name}{mode}.om", feeds)
    execute(directory)
    expected = {name: reference(model, feeds) for name, (model, feeds) in made.items()}
    return {
        name + mode: (outputs(directory / f"{name}{mode}.om"), expected[name])
        for name in made
        for mode in MODES
    }


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pairs]:
    """The text networks."""
    made = {name: _text_network(name) for name in PICTURES}
    return _run_in_both_modes(tmp_path_factory.mktemp("pictures"), made)


@pytest.fixture(scope="module")
def well_known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pairs]:
    """The networks of the benchmarks."""
    made = {name: make() for name, make in KNOWN.items()}
    return _run_in_both_modes(tmp_path_factory.mktemp("known"), made)


def _check(pairs: Pairs, mode: str) -> None:
    got, expected = pairs
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if not mode:
            assert distance(a, b) <= BAR
            continue
        assert a.shape == b.shape
        x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        assert x @ y / np.sqrt((x @ x) * (y @ y)) >= HALF_BAR
        assert distance(a.astype(np.float32), b) > 0  # halves were computed, not floats


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PICTURES)
def test_text_networks(pictures: dict[str, Pairs], name: str, mode: str) -> None:
    assert float(np.abs(pictures[name][1][0]).max()) > 0.5  # the network sees text
    _check(pictures[name + mode], mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KNOWN)
def test_well_known_networks(well_known: dict[str, Pairs], name: str, mode: str) -> None:
    _check(well_known[name + mode], mode)


def _silero(file: str) -> onnx.ModelProto:
    """A file of silero-vad, from the installed package or from its wheel; torch is not needed."""
    spec = importlib.util.find_spec("silero_vad")
    if spec is not None and spec.origin is not None:
        return onnx.load(Path(spec.origin).parent / "data" / file)
    return onnx.load(wheel_files("silero_vad_wheel", SILERO) / "silero_vad" / "data" / file)


def _steps(rate: int, step: int, before: int) -> Array:
    """The sound cut into overlapping pieces, one per run."""
    sound = speech(rate, SECONDS, seed=0)
    padded = np.concatenate([np.zeros(before, np.float32), sound])
    starts = range(0, len(sound) - step + 1, step)
    return np.stack([padded[None, i : i + before + step] for i in starts])


def _follow(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """What onnxruntime gives when the state goes from run to run."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    state, results = feeds["state"], []
    for piece in feeds["input"]:
        got = session.run(None, {"input": piece, "state": state, "sr": feeds["sr"]})
        state = got[1]
        results.append(got)
    return [np.stack(values) for values in zip(*results, strict=True)]


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pairs]:
    """Outputs of every step of 10 s of sound, here and from onnxruntime."""
    directory = tmp_path_factory.mktemp("voices")
    expected = {}
    for name, (file, rate, step, before) in VOICES.items():
        model = _silero(file)
        feeds = {
            "input": _steps(rate, step, before),
            "state": np.zeros((2, 1, 128), np.float32),
            "sr": np.array(rate, np.int64),
        }
        expected[name] = _follow(model, feeds)
        for mode, options in MODES.items():
            om = directory / f"{name}{mode}.om"
            shapes = f"input_shape=input:1,{before + step};state:2,1,128"
            convert(model, om, f"{shapes}\n{options}")
            put_inputs(om, feeds)
            om.with_suffix(".loop.json").write_text(json.dumps({"1": 1}))
    execute(directory)
    return {
        name + mode: (outputs(directory / f"{name}{mode}.om"), expected[name])
        for name in VOICES
        for mode in MODES
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VOICES)
def test_voice_activity_follows_ten_seconds(voices: dict[str, Pairs], name: str, mode: str) -> None:
    probability = voices[name][1][0]
    assert len(probability) >= 312
    assert probability.min() < 0.1 and probability.max() > 0.9  # speech and pauses are told apart
    # Over the whole run: a single probability of 3e-4 differs by 2.6e-4 of itself between two
    # optimization levels of onnxruntime.
    _check(voices[name + mode], mode)
