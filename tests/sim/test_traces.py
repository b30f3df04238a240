"""Traces: two runs give equal bytes where that is promised, and the header says where it is not."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import plans
import pytest
import scripts

from benchmarks import modelled

TWO_THREADS = """
streams, block, host = [new_stream(), new_stream()], malloc(4096), malloc_host(4096)
turns = [threading.Semaphore(1), threading.Semaphore(0)]
def work(me):
    for _ in range(4):
        turns[me].acquire()
        ok(acl.aclrtSetDevice(0))
        ok(acl.aclrtMemcpyAsync(block, 4096, host, 4096, 1, streams[me]))
        mark(streams[me])
        ok(acl.aclrtSynchronizeStream(streams[me]))
        turns[1 - me].release()
    turns[me].acquire()
    turns[1 - me].release()
for me in (0, 1):
    thread = threading.Thread(target=work, args=(me,))
    thread.start()
    thread.join() if me else None
answer = 0
"""


def trace_of(path: Path) -> tuple[bytes, dict[str, Any]]:
    data = path.read_bytes()
    return data, json.loads(data)


@pytest.mark.parametrize("seed", range(5))
def test_two_runs_of_one_thread_are_equal(
    player: Path, kernels: list[Path], tmp_path: Path, seed: int
) -> None:
    text = "\n".join(plans.random_plan(random.Random(seed), kernels)) + "\n"
    runs = []
    for i in range(2):
        path = tmp_path / f"{i}.json"
        modelled.run(player, text=text, ASCENDRT_TRACE=str(path), ASCENDRT_SCHED_SEED=str(seed))
        runs.append(trace_of(path))
    assert runs[0][0] == runs[1][0]
    assert runs[0][1]["metadata"]["equal_bits"] == "yes"
    assert runs[0][1]["metadata"]["seed"] == seed


def test_threads_that_take_turns(tmp_path: Path) -> None:
    runs = []
    for i in range(2):
        path = tmp_path / f"{i}.json"
        scripts.run(TWO_THREADS, ASCENDRT_TRACE=str(path), ASCENDRT_HOST_GRACE_MS="250")
        runs.append(trace_of(path))
    assert runs[0][0] == runs[1][0]
    assert runs[0][1]["metadata"]["equal_bits"].startswith("yes, if the program's own")
    assert runs[0][1]["metadata"]["host_threads"] == 3
    assert runs[0][1]["metadata"]["seed"] is None, "none was set, so none can be repeated"


def test_no_promise_when_the_clock_went_on_without_the_thread(tmp_path: Path) -> None:
    scripts.run(
        """
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        ok(acl.aclrtMemcpyAsync(block, 64, host, 64, 1, stream))
        time.sleep(1)
        ok(acl.aclrtSynchronizeStream(stream))
        answer = 0
        """,
        ASCENDRT_TRACE=str(tmp_path / "trace.json"),
        ASCENDRT_HOST_GRACE_MS="5",
    )
    promise = trace_of(tmp_path / "trace.json")[1]["metadata"]["equal_bits"]
    assert promise.startswith("no: ") and "ASCENDRT_HOST_GRACE_MS" in promise


def test_what_a_trace_shows(player: Path, kernels: list[Path], tmp_path: Path) -> None:
    plan = ["stream 0", "event", "record 0 0", "in 0 1000", f"model {kernels[0]}", "run 0 0"]
    modelled.run(
        player, text="\n".join(plan) + "\n", ASCENDRT_TRACE=str(tmp_path / "t.json"),
        ASCENDRT_SOC="Ascend310P3", ASCENDRT_TIMING="h2d.latency_us=40,op.k0.us=90",
    )  # fmt: skip
    data, trace = trace_of(tmp_path / "t.json")
    assert trace["metadata"]["soc"] == "Ascend310P3"
    assert trace["metadata"]["clock"] == "virtual"
    assert trace["metadata"]["timing"] == "h2d.latency_us=40,op.k0.us=90"
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    copy = next(s for s in spans if s["name"] == "memcpy" and s["args"]["engine"] == "h2d")
    assert copy["dur"] == pytest.approx(40 + 1000 / 12 / 1e3, abs=2e-3)
    kernel = next(s for s in spans if s.get("args", {}).get("operator") == "k0")
    assert kernel["dur"] == 90 and kernel["args"]["engine"] == "cube"
    assert any(s["name"] == "aclrtMemcpyAsync" and s["pid"] == 0 for s in spans)
    assert not re.search(rb"0x[0-9a-f]{6}|7f[0-9a-f]{10}", data)  # no address
    assert not list(tmp_path.glob("*.part*"))


def test_a_trace_needs_the_clock(tmp_path: Path, player: Path) -> None:
    path = tmp_path / "t.json"
    modelled.run(
        player, text="stream 0\n", ASCENDRT_TRACE=str(path), ASCENDRT_CLOCK="real"
    )  # which says why on stderr
    assert not path.exists()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_only_files_are_replaced(tmp_path: Path, player: Path, kind: str) -> None:
    taken = tmp_path / "taken"
    if kind == "folder":
        taken.mkdir()
    else:
        os.mkfifo(taken)
    path = taken
    if kind.startswith("link"):
        path = tmp_path / "link"
        path.symlink_to(taken)
    before = (path.lstat().st_mode, path.lstat().st_ino)
    modelled.run(player, text="stream 0\n", ASCENDRT_TRACE=str(path))
    assert (path.lstat().st_mode, path.lstat().st_ino) == before
    assert {file.name for file in tmp_path.iterdir()} <= {"taken", "link"}
