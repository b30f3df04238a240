"""What the tests of serving share: small models, and simulations in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WIDTH = 16
SIMULATIONS = Path(__file__).with_name("simulations.py")


def affine(
    folder: Path, name: str, batch: int | str, factor: float, options: tuple[str, ...] = ()
) -> Path:
    """Make a model y = x * factor + 1 on rows of WIDTH numbers."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, WIDTH]) for n in "xy"]
    nodes = [
        helper.make_node("Mul", ["x", "f"], ["m"], name=f"{name}_mul"),
        helper.make_node("Add", ["m", "one"], ["y"], name=f"{name}_add"),
    ]
    numbers = {"f": factor, "one": 1.0}
    constants = [numpy_helper.from_array(np.float32(v).reshape(1), k) for k, v in numbers.items()]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], constants)
    source, target = folder / f"{name}.onnx", folder / f"{name}.om"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), source)
    command = [sys.executable, "-m", "ascendrt", "om", "convert", str(source), "-o", str(target)]
    subprocess.run([*command, *options], check=True, timeout=60, stdout=subprocess.DEVNULL)
    return target


def simulate(name: str, *words: object, timing: dict[str, float], **variables: str) -> Any:
    """Run a simulation of simulations.py in virtual time; returns what it reports."""
    from benchmarks import modelled

    # Not a private one: that would be this process's, with what it holds.
    machine = f"simulation{os.getpid()}"
    environ = {
        "ASCENDRT_BACKEND": "emu",
        "ASCENDRT_CLOCK": "virtual",
        "ASCENDRT_MACHINE": machine,
        # Nothing here waits but by the clock; a busy machine shall not count as a thread that left.
        "ASCENDRT_HOST_GRACE_MS": "5000",
        "ASCENDRT_TIMING": modelled.settings(modelled.NOTHING | timing),
    }
    done = subprocess.run(
        [sys.executable, str(SIMULATIONS), name, *map(str, words)], env=os.environ | environ
        | variables, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    for ledger in Path("/dev/shm").glob(f"ascendrt*-{os.getuid()}-{machine}"):
        ledger.unlink()
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
