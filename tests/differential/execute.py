"""Runs offline models in a process of its own:  python execute.py DIRECTORY|-

With - it takes the paths from its input, one a line, and answers each when it is done.

For each NAME.om in the directory, feeds NAME.in.npz (arrays in input order) and writes
NAME.out.npz; a run that fails writes its text to NAME.error. With NAME.loop.json the model runs
once for every element of input 0, and outputs are fed back: {"1": 2} gives output 2 of a run to
input 1 of the next; what the runs gave is stacked. Must never import onnx or onnxruntime: the last
line of the output tells which of them are loaded (none).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import ascendrt


def execute(om: Path) -> None:
    """Run one model and write what it gave."""
    with np.load(om.with_suffix(".in.npz")) as stored:
        inputs = [stored[name] for name in stored.files]
    try:
        with ascendrt.Model(om) as model:
            loop = om.with_suffix(".loop.json")
            if loop.exists():
                outputs = run_fed_back(model, inputs, json.loads(loop.read_text()))
            else:
                outputs = model(*inputs)
    except ascendrt.AclError as error:
        om.with_suffix(".error").write_text(str(error))
        return
    np.savez(om.with_suffix(".out.npz"), *outputs)


def run_fed_back(
    model: ascendrt.Model, inputs: list[np.ndarray], feedback: dict[str, int]
) -> list[np.ndarray]:
    """Run the model over the elements of input 0; its state goes from run to run."""
    steps = []
    for element in inputs[0]:
        outputs = model(element, *inputs[1:])
        for target, source in feedback.items():
            inputs[int(target)] = outputs[source]
        steps.append(outputs)
    return [np.stack(values) for values in zip(*steps, strict=True)]


def main() -> None:
    """Run every model of the directory."""
    with ascendrt.Device(0):
        if sys.argv[1] == "-":
            for line in sys.stdin:
                execute(Path(line.rstrip("\n")))
                print(line, end="", flush=True)
            return
        for om in sorted(Path(sys.argv[1]).glob("*.om")):
            execute(om)
    maps = Path("/proc/self/maps").read_text()
    names = ("onnx", "onnxruntime")
    foreign = [name for name in names if name in sys.modules or f"/{name}/" in maps]
    print("foreign:", *foreign)


if __name__ == "__main__":
    main()
