"""Processes that programs start: by spawn and forkserver, by fork before the runtime is used.

A child that was forked later is told, whatever it asks for, and never waits for threads that its
parent has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command import run

PROGRAM = '''
import json, multiprocessing, os, sys, time
METHOD, PARENT, OM = sys.argv[1:]

def told(function):
    """What a call gives, or what it raises."""
    try:
        return function()
    except Exception as error:
        return [type(error).__name__, getattr(error, "code", 0), str(error)]

def objects():
    import ascendrt, numpy
    with ascendrt.Device(0), ascendrt.Stream() as stream, ascendrt.Memory(64) as memory:
        stream.write(memory, numpy.arange(16, dtype=numpy.float32))
        stream.synchronize()
        total = float(memory.read((16,), numpy.float32).sum())
        with ascendrt.Model(OM) as model:
            shape = model(numpy.zeros((1, 1, 8, 8), numpy.float32))[0].shape
    return [total, list(shape)]

def calls():
    import acl
    acl.init()
    code, block = acl.rt.set_device(0), acl.rt.malloc(64, 0)[0]
    stream = acl.rt.create_stream()[0]
    codes = [code, acl.rt.memset_async(block, 64, 7, 64, stream), acl.rt.synchronize_stream(stream)]
    return codes + [acl.rt.free(block) if block else code, acl.get_recent_err_msg()]

def threads():
    import ascendrt
    async def both():
        import asyncio
        await asyncio.sleep(0.001)
        return await ascendrt.clock().start(lambda: 2)
    return [ascendrt.clock().start(lambda: 1).result(20_000), ascendrt.run(both())]

def work(answers, left):
    began = time.monotonic()
    found = {f.__name__: told(f) for f in (objects, calls, threads)}
    for name, function in left.items():
        found[name] = told(function)
    answers.put(found)

def leave():
    """Objects that the child has from its parent."""
    import ascendrt, numpy
    from ascendrt.serving import DevicePool, DynamicBatcher
    device, stream, event = ascendrt.Device(0), ascendrt.Stream(), ascendrt.Event()
    memory, model, clock = ascendrt.Memory(64), ascendrt.Model(OM), ascendrt.clock()
    batcher, pool = DynamicBatcher(list), DevicePool([0])
    assert batcher(1) == 1 and pool.submit(lambda worker: 2).result() == 2
    pending = clock.start(lambda: time.sleep(1))
    stream.call(lambda: time.sleep(0.5))
    return {
        "synchronize": stream.synchronize, "record": lambda: stream.record(event),
        "call": lambda: stream.call(int), "read": lambda: memory.read((4,), numpy.uint8),
        "run": lambda: model(numpy.zeros((1, 1, 8, 8), numpy.float32)),
        "batcher": lambda: batcher(1), "infer": lambda: ascendrt.run(batcher.infer(1)),
        "pool": lambda: pool.submit(lambda worker: 2).result(), "future": pending.result,
        "close": lambda: [each.close() for each in (
            batcher, pool, model, memory, event, stream, device)],
    }

if __name__ == "__main__":
    context, left = multiprocessing.get_context(METHOD), {}
    if PARENT == "imported":
        import acl, ascendrt
        from ascendrt import Memory, Stream
        ascendrt.backend()  # loads the libraries
    elif PARENT != "nothing":
        assert objects()[0] == 120 and calls()[0] == 0
        left = leave() if PARENT == "left" else {}
    answers = context.Queue()
    children = [context.Process(target=work, args=(answers, left)) for _ in range(2)]
    for child in children:
        child.start()
    print(json.dumps([answers.get(timeout=60) for _ in children]))
    for child in children:
        child.join(20)
    print(json.dumps([child.exitcode for child in children]))
    for child in children:
        child.kill()
    assert PARENT == "nothing" or objects()[0] == 120
    os._exit(0) if PARENT == "left" else None
'''
AFTER_FORK = 507000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes") / "program.py"
    path.write_text(PROGRAM)
    return path


def children(program: Path, om: Path, method: str, parent: str, clock: str) -> list[dict[str, Any]]:
    """What two children found that were started so by a parent that had done so much."""
    warnings = "ignore::DeprecationWarning"  # since 3.12 of every fork of a process with threads
    done = run(sys.executable, "-W", warnings, program, method, parent, om, ASCENDRT_CLOCK=clock)
    assert done.returncode == 0, done.stderr
    found, ends = map(json.loads, done.stdout.splitlines())
    assert ends == [0, 0], done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr, done.stderr
    return list(found)


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize(
    ("method", "parent"),
    [
        *[(m, p) for m in ("spawn", "forkserver") for p in ("nothing", "used")],
        *[("fork", p) for p in ("nothing", "imported")],
    ],
)
def test_processes_of_their_own(
    program: Path, digits_om: Path, method: str, parent: str, clock: str
) -> None:
    for found in children(program, digits_om, method, parent, clock):
        assert found["objects"] == [120, [1, 10]]
        assert found["calls"][:4] == [0, 0, 0, 0]
        assert found["threads"] == [1, 2]


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("parent", ["used", "left"])
def test_a_fork_after_use_is_told(program: Path, digits_om: Path, parent: str, clock: str) -> None:
    for found in children(program, digits_om, "fork", parent, clock):
        told = {name: found.pop(name) for name in ("objects", "synchronize", "record", "call",
                                                   "read", "run") if name in found}  # fmt: skip
        for kind, code, text in told.values():
            assert (kind, code) == ("DeviceError", AFTER_FORK)
            assert "was forked from one that already used the runtime" in text
        *codes, text = found.pop("calls")
        assert codes == [AFTER_FORK] * 4
        assert "'spawn'" in text
        assert found.pop("threads") == [1, 2]  # threads are Python's
        if parent == "left":
            assert found.pop("close") == [None] * 7
            for name in ("batcher", "infer", "pool", "future"):
                kind, _, text = found.pop(name)
                assert (kind, "before this process was forked" in text) == ("RuntimeError", True)
        assert found == {}
