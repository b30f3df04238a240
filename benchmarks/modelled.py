"""What the benchmarks of modelled time share: C programs, small models, and runs of them.

Must never time anything itself: the figures are those of the device events in the programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
WIDTH = 64
TIMEOUT_S = 300

# Nothing on the host, no latency; a test adds what its tasks take.
NOTHING = dict.fromkeys(
    (
        "event.latency_us", "kernel.floor_us", "h2d.latency_us", "d2h.latency_us",
        "d2d.latency_us", "host.launch_us", "host.sync_us", "host.event_us",
        "host.event_create_us", "host.query_us", "host.callback_us", "host.model_us",
        "host.malloc_us", "host.free_us", "host.malloc_host_us", "host.init_us",
        "host.set_device_us", "host.other_us",
    ),
    0.0,
) | {"h2d.gbps": float("inf"), "d2h.gbps": float("inf"), "d2d.gbps": float("inf")}  # fmt: skip


def build(name: str, folder: Path) -> Path:
    """Compile programs/<name>.c against the headers and libraries of the emulator."""
    from ascendrt import _backend

    target = folder / name
    libraries = _backend.package_lib_dir()
    command = [os.environ.get("CC", "cc"), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{_backend.package_include_dir()}", str(PROGRAMS / f"{name}.c")]
    command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lascendcl", "-o", str(target)]
    subprocess.run(command, check=True, timeout=60)
    return target


def kernel(folder: Path, name: str) -> Path:
    """Make a model of one operator of this name: answer[i] = 3 * question[(i + 1) % WIDTH]."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = np.zeros((WIDTH, WIDTH), np.float32)
    for i in range(WIDTH):
        weight[(i + 1) % WIDTH, i] = 3
    vector = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, WIDTH]) for n in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name=name)
    graph = helper.make_graph(
        [node], name, vector[:1], vector[1:], [numpy_helper.from_array(weight, "w")]
    )
    return convert(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder, name
    )


def convert(model: Any, folder: Path, name: str) -> Path:
    """Write an ONNX model as <name>.om."""
    import onnx

    source = folder / f"{name}.onnx"
    onnx.save(model, source)
    target = source.with_suffix(".om")
    command = [sys.executable, "-m", "ascendrt", "om", "convert", str(source), "-o", str(target)]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return target


def settings(figures: dict[str, float]) -> str:
    """Write figures as ASCENDRT_TIMING."""
    return ",".join(f"{key}={value:g}" for key, value in figures.items())


def run(program: Path, *words: object, text: str = "", **variables: str) -> str:
    """Run a program on a machine of its own; its output."""
    environ = {"ASCENDRT_CLOCK": "virtual", "ASCENDRT_MACHINE": "private"}
    done = subprocess.run(
        [str(program), *map(str, words)], env=os.environ | environ | variables, input=text,
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} {words} ended with {done.returncode}: {done.stderr}")
    return done.stdout
