"""What the objects of ascendrt add to the calls of the module `acl`, for benchmarks/pyacl.py.

Owns: the rivals of the object layer and their timers. Must never time one without the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np

WIDTH = 16
SIZE = 4096
_NPY_FLOAT = 11
TORCH_BAR, NUMPY_BAR = 1.0, 6.0


def memory_timers() -> tuple[dict[str, Timer], str]:
    """Return timers of Memory(n).close() and its rivals, and which rival counts."""
    import ascendrt

    timers = {
        "object_memory_ns": Timer("M(n).close()", globals={"M": ascendrt.Memory, "n": SIZE}),
        "object_empty_ns": Timer("e(n, b)", globals={"e": np.empty, "n": SIZE, "b": np.uint8}),
    }
    try:
        import torch
    except ImportError:
        return timers, f"np.empty, {NUMPY_BAR:g} times (torch is not installed)"
    timers["object_torch_ns"] = Timer("e(n)", globals={"e": torch.empty, "n": SIZE})
    return timers, "torch.empty"


def memory_share(best: dict[str, float]) -> float:
    """Return how much of its bar Memory(n).close() takes; at most 1 keeps it."""
    if "object_torch_ns" in best:
        return best["object_memory_ns"] / (TORCH_BAR * best["object_torch_ns"])
    return best["object_memory_ns"] / (NUMPY_BAR * best["object_empty_ns"])


def submit_timers(acl: Any, stream: int, event: int) -> dict[str, Timer]:
    """Return timers of a submission by an object and by the module."""
    import ascendrt

    objects = {"s": ascendrt.Stream(), "e": ascendrt.Event()}
    raw = {"f": acl.rt.record_event, "s": stream, "e": event}
    return {
        "object_record_ns": Timer("s.record(e)", globals=objects),
        "object_record_acl_ns": Timer("f(e, s)", globals=raw),
    }


def pipeline_timers(acl: Any) -> dict[str, Timer]:
    """Return timers of one request, through Pipeline and by hand with the same calls."""
    import ascendrt

    with tempfile.TemporaryDirectory() as name:
        om = _model(Path(name))
        model, again = ascendrt.Model(om), ascendrt.Model(om)
    row = np.full((1, WIDTH), 2, np.float32)
    pipeline = ascendrt.Pipeline(model, depth=1)
    by_hand = _by_hand(acl, again.model_id)
    for run in (lambda: pipeline.submit([row]).result()[0], lambda: by_hand(row)):
        if not np.array_equal(run(), row * 3):
            raise AssertionError("the pipeline and its rival must give the right answer")
    return {
        "pipeline_ns": Timer("p.submit([row]).result()", globals={"p": pipeline, "row": row}),
        "pipeline_by_hand_ns": Timer(
            "run(row)", globals={"run": by_hand, "row": row, "keep": again}
        ),
    }


def _model(folder: Path) -> Path:
    from onnx import TensorProto, helper, numpy_helper

    from benchmarks import modelled

    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, WIDTH]) for n in "xy"]
    factor = numpy_helper.from_array(np.array([3], np.float32), "f")
    node = helper.make_node("Mul", ["x", "f"], ["y"])
    graph = helper.make_graph([node], "triple", ends[:1], ends[1:], [factor])
    opset = [helper.make_opsetid("", 17)]
    return modelled.convert(helper.make_model(graph, opset_imports=opset), folder, "triple")


def _by_hand(acl: Any, model_id: int) -> Callable[[Any], Any]:
    """Make a function of the calls that a request needs: copies, events, execution, wait."""
    rt, mdl, size = acl.rt, acl.mdl, WIDTH * 4
    streams = [rt.create_stream()[0] for _ in range(3)]
    events = [rt.create_event()[0] for _ in range(3)]
    device = [rt.malloc(size, 0)[0] for _ in range(2)]
    host = [rt.malloc_host(size)[0] for _ in range(2)]
    views = [acl.util.ptr_to_numpy(pointer, (1, WIDTH), _NPY_FLOAT) for pointer in host]
    sets = []
    for pointer in device:
        dataset = mdl.create_dataset()
        mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
        sets.append(dataset)

    def run(row: Any) -> Any:
        np.copyto(views[0], row)
        rt.memcpy_async(device[0], size, host[0], size, 1, streams[0])
        rt.record_event(events[0], streams[0])
        rt.stream_wait_event(streams[1], events[0])
        mdl.execute_async(model_id, sets[0], sets[1], streams[1])
        rt.record_event(events[1], streams[1])
        rt.stream_wait_event(streams[2], events[1])
        rt.memcpy_async(host[1], size, device[1], size, 2, streams[2])
        rt.record_event(events[2], streams[2])
        rt.synchronize_event(events[2])
        return views[1].copy()

    return run
