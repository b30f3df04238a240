"""Text out of rendered pictures, through three offline models with gears on the device.

Owns: conversion, loading and the comparison. The reference (reference.py) reads the same pictures
with onnxruntime in a process of its own. Needs rapidocr-onnxruntime, which carries the networks.

    python examples/ocr/demo.py        # exits 1 when a line differs from onnxruntime's
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import onnx
from pictures import PAGES, render
from reading import (
    ANGLE_HEIGHT,
    ANGLE_WIDTH,
    BATCHES,
    LINE_HEIGHT,
    LINE_WIDTHS,
    Network,
    Networks,
)
from reading import read as read_picture

import ascendrt

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 300
FILES = {
    "detect": "ch_PP-OCRv4_det_infer.onnx",
    "angle": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognize": "ch_PP-OCRv4_rec_infer.onnx",
}
# The shapes a network takes: which dims are open, and what they may be.
GEARS = {
    "detect": (
        "x:1,3,-1,-1",
        f"--dynamic_image_size={';'.join(f'{page.height},{page.width}' for page in PAGES)}",
    ),
    "angle": (
        f"x:-1,3,{ANGLE_HEIGHT},{ANGLE_WIDTH}",
        f"--dynamic_batch_size={','.join(map(str, BATCHES))}",
    ),
    "recognize": (
        f"x:1,3,{LINE_HEIGHT},-1",
        f"--dynamic_dims={';'.join(map(str, LINE_WIDTHS))}",
    ),
}


def network_file(name: str) -> Path:
    """Return one of the three networks, inside the installed package.

    Raises: SystemExit that says what to install.
    """
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise SystemExit("the networks are missing: pip install rapidocr-onnxruntime==1.4.4")
    return Path(spec.origin).parent / "models" / FILES[name]


def characters() -> list[str]:
    """Return what the classes of the recognition mean: nothing, those in the file, a space."""
    facts = onnx.load(network_file("recognize"), load_external_data=False).metadata_props
    (text,) = (fact.value for fact in facts if fact.key == "character")
    return ["", *text.splitlines(), " "]


def convert(name: str, folder: Path) -> Path:
    """Make an offline model with gears of a network; the options are those of ATC."""
    shape, gears = GEARS[name]
    words = [f"--model={network_file(name)}", "--framework=5", f"--output={folder / name}"]
    command = [sys.executable, "-m", "ascendrt", "om", "convert", *words, gears]
    command += ["--input_format=NCHW", f"--input_shape={shape}"]
    subprocess.run(command, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    return folder / f"{name}.om"


def read_on_device() -> list[list[str]]:
    """Read every page."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(ascendrt.Device(0))

        def network(name: str) -> Network:
            model = stack.enter_context(ascendrt.Model(convert(name, folder)))
            return lambda x: model(x)[0]

        networks = Networks(network("detect"), network("angle"), network("recognize"), characters())
        return [read_picture(render(page), networks) for page in PAGES]


def main() -> int:
    """Print what was read and how it compares."""
    ours = read_on_device()
    done = subprocess.run(
        [sys.executable, str(HERE / "reference.py")],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    theirs = json.loads(done.stdout)
    for page, lines in enumerate(ours):
        print(f"page {page}:", *lines, sep="\n  ")
    print("the same as onnxruntime reads" if ours == theirs else f"onnxruntime reads {theirs}")
    return int(ours != theirs)


if __name__ == "__main__":
    sys.exit(main())
