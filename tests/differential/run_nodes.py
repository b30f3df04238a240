"""Converts and runs node cases in a process of its own:  python run_nodes.py DIRECTORY NAME...

For each NAME: converts NAME.onnx to NAME.om, loads it, feeds NAME.in.npz (arrays in input order,
as bytes) and writes NAME.out.npz (bytes) with shapes and acl types beside it in NAME.out.json. One
line of standard output tells how each case ended, so that a crash is seen where it happened. Must
never import onnx or onnxruntime: the last line tells which of them are loaded (none).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import ascendrt
from ascendrt import _ctl, _lib
from ascendrt.dataset import Dataset


def convert(directory: Path, name: str) -> str:
    """Return why a case cannot be converted, or nothing."""
    try:
        _ctl.convert(directory / f"{name}.onnx", directory / f"{name}.om", "")
    except _ctl.ConvertError as error:
        return str(error)
    return ""


def execute(directory: Path, name: str) -> None:
    """Run one model on bytes and store bytes: numpy has no bfloat16 of its own."""
    with np.load(directory / f"{name}.in.npz") as stored:
        inputs = [stored[key] for key in stored.files]
    with ascendrt.Model(directory / f"{name}.om") as model:
        assert len(inputs) == len(model.inputs), (len(inputs), model.inputs)
        with Dataset(model.inputs) as feed, Dataset(model.outputs) as fetch:
            for index, (spec, array) in enumerate(zip(model.inputs, inputs, strict=True)):
                assert array.size == spec.size_bytes, (spec, array.size)
                feed.write(index, array)
            _lib.call("aclmdlExecute", model.model_id, feed.handle, fetch.handle)
            places = range(len(model.outputs))
            described = [(model.outputs[i].acl_dtype, fetch.shape(i)) for i in places]
            outputs = [fetch.read(i, np.uint8) for i in places]
    np.savez(directory / f"{name}.out.npz", *outputs)
    (directory / f"{name}.out.json").write_text(json.dumps(described))


def one(directory: Path, name: str) -> str:
    """Run a case and tell how it ended: "ran", "convert: why" or "run: why"."""
    if refused := convert(directory, name):
        return f"convert: {refused}"
    try:
        execute(directory, name)
    except (ascendrt.AclError, AssertionError) as error:
        return f"run: {error}"
    return "ran"


def main() -> None:
    """Run every case that is named."""
    directory = Path(sys.argv[1])
    with ascendrt.Device(0):
        for name in sys.argv[2:]:
            print(json.dumps({"start": name}), flush=True)
            print(json.dumps({"end": one(directory, name)}), flush=True)
    maps = Path("/proc/self/maps").read_text()
    names = ("onnx", "onnxruntime")
    foreign = [name for name in names if name in sys.modules or f"/{name}/" in maps]
    print(json.dumps({"foreign": foreign}))


if __name__ == "__main__":
    main()
