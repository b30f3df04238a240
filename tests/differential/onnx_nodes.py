"""The node cases that the onnx package generates, and how this project does on them.

Owns: the selection of cases, the worker processes, the comparison. A case ends as "pass" or as a
text that starts with "convert:", "run:", "differs:" or "crash:".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx

HERE = Path(__file__).resolve().parent
WORKERS = 2
CHUNK = 60  # cases per process
Array = np.ndarray[Any, Any]

# onnx element type -> aclDataType, for all types that aclDataType can carry as numbers.
ACL_TYPES = {
    1: 0, 2: 4, 3: 2, 4: 7, 5: 6, 6: 3, 7: 9, 9: 12, 10: 1, 11: 11, 12: 8, 13: 10, 14: 16,
    15: 17, 16: 27, 17: 36, 19: 35, 22: 29, 23: 40, 24: 37,
}  # fmt: skip


def all_cases() -> Iterator[Any]:
    """Generate every node case, in the order of the package."""
    from onnx.backend.test.loader import load_model_tests  # slow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows while the package makes its data
        yield from load_model_tests(kind="node")


def is_carried(case: Any) -> bool:
    """Tell whether all inputs and outputs are tensors of a type that aclDataType has."""
    graph = case.model.graph
    kinds = [value.type for value in (*graph.input, *graph.output)]
    return all(
        kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.elem_type in ACL_TYPES
        for kind in kinds
    )


def put(directory: Path, case: Any) -> None:
    """Write model and inputs of a case where run_nodes.py looks for them."""
    onnx.save(case.model, directory / f"{case.name}.onnx")
    arrays = [_as_array(value) for value in case.data_sets[0][0]]
    raw = [np.frombuffer(array.tobytes(), np.uint8) for array in arrays]
    np.savez(directory / f"{case.name}.in.npz", *raw)


def _as_array(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)


def run(directory: Path, names: list[str]) -> dict[str, str]:
    """Run cases in fresh processes, two at a time; a crash costs one case."""
    chunks = [names[i : i + CHUNK] for i in range(0, len(names), CHUNK)]
    results: dict[str, str] = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        for part in pool.map(lambda chunk: _run_chunk(directory, chunk), chunks):
            results |= part
    return results


def _run_chunk(directory: Path, names: list[str]) -> dict[str, str]:
    results: dict[str, str] = {}
    while rest := [name for name in names if name not in results]:
        code, lines, errors = _run_process(directory, rest)
        name = ""
        for line in lines:
            if "start" in line:
                name = line["start"]
            elif "end" in line:
                results[name] = line["end"]
        if code == 0:
            assert lines[-1] == {"foreign": []}, "the executing process loads a foreign runtime"
            return results
        assert name, f"the worker died before its first case: {errors}"
        results.setdefault(name, f"crash: exit code {code}: {errors[-300:]}")
    return results


def _run_process(directory: Path, names: list[str]) -> tuple[int, list[dict[str, Any]], str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")}
    environment |= {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
    command = [sys.executable, str(HERE / "run_nodes.py"), str(directory), *names]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as slow:
        out = slow.stdout if isinstance(slow.stdout, str) else (slow.stdout or b"").decode()
        return -1, [json.loads(line) for line in out.splitlines()], "no end within 300 s"
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def judge(directory: Path, case: Any, ended: str) -> str:
    """Compare what a case gave with what it should give, by the rules of the package."""
    if ended != "ran":
        return ended
    described = json.loads((directory / f"{case.name}.out.json").read_text())
    with np.load(directory / f"{case.name}.out.npz") as stored:
        got = [stored[key] for key in stored.files]
    expected = [_as_array(value) for value in case.data_sets[0][1]]
    if len(got) != len(expected):
        return f"differs: {len(got)} outputs, expected {len(expected)}"
    values = case.model.graph.output
    for i, (raw, (acl_type, shape), want) in enumerate(zip(got, described, expected, strict=True)):
        wanted_type = ACL_TYPES[values[i].type.tensor_type.elem_type]
        if acl_type != wanted_type:
            return f"differs: output {i} has acl type {acl_type}, expected {wanted_type}"
        if tuple(shape) != want.shape:
            return f"differs: output {i} has shape {tuple(shape)}, expected {want.shape}"
        array = np.frombuffer(raw.tobytes(), want.dtype).reshape(shape)
        if difference := _difference(array, want, case):
            return f"differs: output {i}: {difference}"
    return "pass"


def _difference(array: Array, want: Array, case: Any) -> str:
    # Types that numpy does not know by itself are compared as numbers, bfloat16 to two units.
    rtol = max(case.rtol, 2**-6) if want.dtype.name == "bfloat16" else case.rtol
    if want.dtype.isbuiltin != 1:
        array, want = array.astype(np.float32), want.astype(np.float32)
    try:
        np.testing.assert_allclose(array, want, rtol=rtol, atol=case.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""
