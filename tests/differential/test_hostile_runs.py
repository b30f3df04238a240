"""Values that only a run tells and that ask for too much: an error that says so, or a way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from differential import convert
from onnx import TensorProto, helper

from ascendrt import AclError, _lib
from ascendrt.device import Device
from ascendrt.model import Model

TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
X = np.ones((1, 3, 8, 8), np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def described(name: str, value: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TYPES[value.dtype.name], value.shape)


def model_of(node: onnx.NodeProto, feeds: dict[str, Any]) -> onnx.ModelProto:
    """One node whose operands are all inputs of the model, so that only a run tells values."""
    given = [described(name, value) for name, value in feeds.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]
    graph = helper.make_graph([node], "g", given, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


BIG = 2**40
HOSTILE: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("Gather", {"x": X, "i": ints(BIG)}, {"axis": 2}, [str(BIG), "8 elements"]),
    ("GatherElements", {"x": X[0, 0], "i": ints(9).reshape(1, 1)}, {}, ["index 9", "8"]),
    ("GatherND", {"x": X, "i": ints(-9, 0).reshape(1, 2)}, {}, ["index -9"]),
    ("ScatterND", {"x": X[0, 0, 0], "i": ints(BIG).reshape(1, 1), "u": floats(1)}, {}, [str(BIG)]),
    ("OneHot", {"i": ints(1), "d": ints(BIG), "v": floats(0, 1)}, {}, ["depth", "1000000000"]),
    ("OneHot", {"i": ints(1), "d": ints(-1), "v": floats(0, 1)}, {}, ["depth is -1"]),
    ("Range", {"a": floats(0)[0], "b": floats(np.nan)[0], "c": floats(1)[0]}, {}, ["nan"]),
    ("Range", {"a": floats(0)[0], "b": floats(1)[0], "c": floats(1e-12)[0]}, {}, ["GiB"]),
    ("Range", {"a": floats(0)[0], "b": floats(10)[0], "c": floats(0)[0]}, {}, ["steps of 0"]),
    ("Slice", {"x": X, "s": ints(0), "e": ints(5), "a": ints(0), "t": ints(0)}, {}, ["step of 0"]),
    ("Slice", {"x": X, "s": ints(0), "e": ints(5), "a": ints(BIG)}, {}, [str(BIG), "rank 4"]),
    ("Pad", {"x": X[0, 0, 0], "p": ints(0, -9)}, {}, ["0 and -9", "axis 0", "8 elements"]),
    ("Pad", {"x": X[0, 0, 0], "p": ints(0, 2**62)}, {}, [str(2**62)]),
    ("Pad", {"x": X[0, 0, 0], "p": ints(0, BIG)}, {"mode": "wrap"}, ["TiB", "host"]),
    ("Tile", {"x": X[0, 0, 0], "t": ints(-1)}, {}, ["-1 times"]),
    ("Tile", {"x": X[0, 0, 0], "t": ints(2**62)}, {}, ["axis 0", str(2**62)]),
    ("Tile", {"x": X[0, 0, 0], "t": ints(BIG)}, {}, ["TiB", "host"]),
    ("Expand", {"x": floats(1), "s": ints(-2, 1)}, {}, ["-2x1", "below 0"]),
    ("Expand", {"x": floats(1), "s": ints(2**32, 2**32)}, {}, ["4294967296x4294967296"]),
    ("Expand", {"x": floats(1), "s": ints(BIG)}, {}, [str(BIG), "TiB", "host"]),
    ("Reshape", {"x": X, "s": ints(-2, 2)}, {}, ["-2", "only -1"]),
    ("Reshape", {"x": X, "s": ints(2**32, 2**32)}, {}, ["4294967296x4294967296"]),
    ("Reshape", {"x": X, "s": ints(7)}, {}, ["1x3x8x8", "7"]),
    ("ConstantOfShape", {"s": ints(2**20, 2**20)}, {}, ["1048576x1048576", "TiB", "host"]),
    ("ConstantOfShape", {"s": ints(-1)}, {}, ["below 0"]),
    ("Resize", {"x": X, "": None, "s": floats(1, 1, np.nan, 1)}, {}, ["nan", "axis 2"]),
    ("Resize", {"x": X, "": None, "s": floats(1, 1, 1e30, 1)}, {}, ["axis 2", "1000000"]),
    ("Trilu", {"x": X, "k": ints(1, 2)}, {}, ["one number"]),
    ("ReverseSequence", {"x": X[0, 0], "n": ints(*[BIG] * 8)}, {}, [str(BIG), "8 elements"]),
    ("DFT", {"x": X[..., :1], "n": ints(BIG)[0]}, {}, [str(BIG), "16777216"]),
    ("HannWindow", {"n": ints(-9)[0]}, {}, ["-9"]),
]


@pytest.mark.parametrize(
    ("op", "feeds", "attributes", "said"),
    HOSTILE,
    ids=[f"{k}-{v[0]}" for k, v in enumerate(HOSTILE)],
)
def test_values_of_a_run_are_refused_by_node_and_value(
    tmp_path: Path, op: str, feeds: dict[str, Any], attributes: dict[str, Any], said: list[str]
) -> None:
    node = helper.make_node(op, list(feeds), ["y"], name="here", **attributes)
    given = {name: value for name, value in feeds.items() if name}
    convert(model_of(node, given), tmp_path / "m.om")
    with Device(), Model(tmp_path / "m.om") as model:
        with pytest.raises(AclError) as caught:
            model(*given.values())
        text = str(caught.value)
        assert caught.value.code == 507011
        assert "'here'" in text
        for part in said:
            assert part in text


def endless(nested: bool = False) -> onnx.ModelProto:
    """A loop of 2^62 turns, alone or in one that has as many."""
    turn = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, [1]),
    ]
    go = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    state = helper.make_tensor_value_info("next", TensorProto.FLOAT, [1])
    nodes = [
        helper.make_node("Identity", ["c"], ["go"]),
        helper.make_node("Add", ["s", "x"], ["next"]),
    ]
    body = helper.make_graph(nodes, "body", turn, [go, state])
    loop = helper.make_node("Loop", ["most", "", "x"], ["y"], name="endless", body=body)
    if nested:
        outer = [
            helper.make_tensor_value_info(
                f"o_{v.name}", v.type.tensor_type.elem_type, [1][: k // 2]
            )
            for k, v in enumerate(turn)
        ]
        loop.output[0] = "inner"
        around = helper.make_graph(
            [loop, helper.make_node("Identity", ["o_c"], ["o_go"])], "around", outer,
            [helper.make_tensor_value_info("o_go", TensorProto.BOOL, []),
             helper.make_tensor_value_info("inner", TensorProto.FLOAT, [1])],
        )  # fmt: skip
        loop = helper.make_node("Loop", ["most", "", "x"], ["y"], name="around", body=around)
    x, most = floats(1), ints(2**62)[0]
    model = model_of(loop, {"x": x})
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(most), "most"))
    return model


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Model]:
    convert(endless(nested=True), tmp_path / "m.om")
    with Device(), Model(tmp_path / "m.om") as model:
        yield model


def abort_device() -> None:
    _lib.call("aclrtDeviceTaskAbort", 0, 5000)


def test_an_endless_run_ends_with_an_abort(loaded: Model) -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            loaded(floats(1))
        except AclError as error:
            caught.append(error)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    time.sleep(0.3)
    assert runner.is_alive()
    abort_device()
    runner.join(5)
    assert not runner.is_alive()
    text = str(caught[0])
    assert "'around'" in text
    assert "aborted" in text


ENDS = {
    "reset": "lib.aclrtResetDeviceForce(0)",
    "exit": "sys.exit(0)",
    "terminate": "threading.Timer(0.3, os.kill, (os.getpid(), 15)).start(); run.result()",
}


@pytest.mark.parametrize("end", ENDS)
def test_an_endless_run_ends_with_its_process(tmp_path: Path, end: str) -> None:
    convert(endless(), tmp_path / "m.om")
    code = f"""
        import os, sys, threading, time
        import numpy as np
        from ascendrt._lib import lib
        from ascendrt.device import Device
        from ascendrt.model import Model
        device = Device()
        model = Model({str(tmp_path / "m.om")!r})
        run = model.run_async([np.ones(1, np.float32)])
        time.sleep(0.3)
        print("runs", not run.done, flush=True)
        {ENDS[end]}
    """
    environment = os.environ | {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env=environment, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout == "runs True\n", done.stderr
    assert done.returncode == (-signal.SIGTERM if end == "terminate" else 0), done.stderr
