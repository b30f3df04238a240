"""Ctrl-C: every wait of the objects ends, what was begun goes on, the objects work afterwards."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import ascendrt, environment
from onnx import TensorProto, helper, numpy_helper

SCRIPT = """
import ascendrt as a, numpy as np, os, signal, sys, threading, time
device, stream, event, model = a.Device(0), a.Stream(), a.Event(), a.Model(sys.argv[1])
picture = np.zeros((1, 1, 8, 8), np.float32)
stream.call(lambda: time.sleep(60))
stream.record(event)
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    {}
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""
WAITS = {
    "stream": "stream.synchronize()",
    "stream with a limit": "stream.synchronize(60_000)",
    "event": "event.synchronize()",
    "device": "device.synchronize()",
    "end of a stream": "stream.close()",
    "end of a context": "c, s = a.Context(0), a.Stream(); s.call(lambda: time.sleep(9)); c.close()",
    "run": "model.run_async([picture], stream).result()",
    "call behind another run": "kept = model.run_async([picture], stream); model(picture)",
    "end of a model": "kept = model.run_async([picture], stream); model.close()",
    "event loop": "import asyncio; asyncio.run(asyncio.wait_for(stream, 60))",
    # Far more than there is room for.
    "room for a mark": "for _ in range(9999): stream.record(event)",
    "room for a wait": "for _ in range(9999): stream.wait(event)",
    "room for a fill": "m = a.Memory(8)\n    for _ in range(9999): stream.fill(m, 0)",
    "room for a copy": "m = a.Memory(8)\n    for _ in range(9999): stream.write(m, b'12345678')",
    "room for a function": "for _ in range(9999): stream.call(int)",
    "room for a run": "r = [model.run_async([picture], stream) for _ in range(9999)]",
    "room for a graph": "s = a.Stream()\n    with a.Graph.capture(s) as g: s.fill(a.Memory(8), 0)\n"
    "    for _ in range(9999): g.replay(stream)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait: str, digits_om: Path) -> None:
    command = [sys.executable, "-c", SCRIPT.format(WAITS[wait]), str(digits_om)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


LONG = """
import ascendrt as a, numpy as np, os, signal, sys, threading, time
device, model = a.Device(0), a.Model(sys.argv[1])
square = np.zeros((SIDE, SIDE), np.float32)
def interrupt():
    time.sleep(0.3)
    interrupted.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
interrupted = []
threading.Thread(target=interrupt, daemon=True).start()
try:
    model(square)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - interrupted[0] < 0.9, flush=True)
again = model(square[:8, :8]) if model.is_open else model(square)
print("runs", not again[0].any())
model.close()
"""


@pytest.mark.parametrize("shape", [1400, "side"])
def test_ctrl_c_ends_the_wait_for_a_long_run(shape: int | str, tmp_path: Path) -> None:
    """The run goes on, and the next one gives what it should."""
    path = squares(tmp_path, shape)
    command = [sys.executable, "-c", LONG.replace("SIDE", "1400"), str(path)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted True\nruns True\n"), done.stderr


def squares(folder: Path, side: int | str) -> Path:
    """Make a model that takes seconds: it squares a matrix again and again."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [side, side]) for n in "xy"]
    names = ["x", *(f"m{i}" for i in range(119)), "y"]
    nodes = [
        helper.make_node("MatMul", [before, before], [after], name=f"square_{after}")
        for before, after in itertools.pairwise(names)
    ]
    graph = helper.make_graph(nodes, "squares", ends[:1], ends[1:])
    source, target = folder / "squares.onnx", folder / "squares.om"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), source)
    options = () if isinstance(side, int) else ("--input_shape=x:1~2048,1~2048",)
    done = ascendrt("om", "convert", source, "-o", target, *options)
    assert done.returncode == 0, done.stderr
    return target


def test_ctrl_c_ends_a_conversion(tmp_path: Path) -> None:
    """At once, as it ends other programs, and nothing is left behind."""
    names = ["w", *(f"m{i}" for i in range(119)), "y"]
    nodes = [
        helper.make_node("MatMul", [before, before], [after])
        for before, after in itertools.pairwise(names)
    ]
    square = numpy_helper.from_array(np.zeros((1400, 1400), np.float32), "w")
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1400, 1400]) for n in "xz"]
    nodes.append(helper.make_node("Add", ["x", "y"], ["z"]))
    graph = helper.make_graph(nodes, "squares", ends[:1], ends[1:], [square])
    source = tmp_path / "squares.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), source)
    words = ["-m", "ascendrt", "om", "convert", source, "-o", tmp_path / "squares.om"]
    with subprocess.Popen(
        [sys.executable, *words], env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        end = time.monotonic() + 60
        while "libascendrt_emu" not in maps.read_text():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (-signal.SIGINT, "")
    assert list(tmp_path.iterdir()) == [source]
