"""Runs offline models in a process of its own:  python execute.py DIRECTORY

For each NAME.om in the directory, feeds NAME.in.npz (arrays in input order) and writes
NAME.out.npz; a run that fails writes its text to NAME.error. Must never import onnx or onnxruntime:
the last line of the output tells which of them are loaded (none).
"""

from __future__ import annotations

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
            outputs = model(*inputs)
    except ascendrt.AclError as error:
        om.with_suffix(".error").write_text(str(error))
        return
    np.savez(om.with_suffix(".out.npz"), *outputs)


def main() -> None:
    """Run every model of the directory."""
    with ascendrt.Device(0):
        for om in sorted(Path(sys.argv[1]).glob("*.om")):
            execute(om)
    maps = Path("/proc/self/maps").read_text()
    names = ("onnx", "onnxruntime")
    foreign = [name for name in names if name in sys.modules or f"/{name}/" in maps]
    print("foreign:", *foreign)


if __name__ == "__main__":
    main()
