"""The virtual clock as a program sees it: limits, polling, host functions, threads, settings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import scripts

WAIT_TIMEOUT = 107019
SLOW = "h2d.latency_us=8000,d2d.latency_us=3000"


def test_a_limit_passes_on_the_virtual_clock_alone() -> None:
    answer = scripts.run(
        """
        gate, stream, other = made("aclrtCreateEventWithFlag", 1), new_stream(), new_stream()
        before, began = mark(other), time.monotonic()
        ok(acl.aclrtStreamWaitEvent(stream, gate))
        code = acl.aclrtSynchronizeStreamWithTimeout(stream, 3_600_000)
        after = mark(other)
        ok(acl.aclrtSynchronizeStream(other))
        answer = code, elapsed_ms(before, after), time.monotonic() - began
        ok(acl.aclrtRecordEvent(gate, other))
        """
    )
    code, modelled_ms, wall_s = answer
    assert code == 507046
    assert modelled_ms == pytest.approx(3_600_000, rel=1e-3)
    assert wall_s < 5


def test_a_wait_of_a_stream_runs_out() -> None:
    answer = scripts.run(
        """
        gate, stream, other = made("aclrtCreateEventWithFlag", 1), new_stream(), new_stream()
        before = mark(other)
        ok(acl.aclrtSetOpWaitTimeout(1800))
        ok(acl.aclrtStreamWaitEvent(stream, gate))
        codes = [acl.aclrtSynchronizeStream(stream)]
        after = mark(other)
        ok(acl.aclrtSynchronizeStream(other))
        answer = codes, elapsed_ms(before, after)
        """
    )
    assert answer[0] == [WAIT_TIMEOUT]
    assert answer[1] == pytest.approx(1_800_000, rel=1e-3)


@pytest.mark.parametrize("how", ["aclrtStreamQuery", "aclrtQueryEventStatus"])
def test_polling_brings_the_clock_forward(how: str) -> None:
    polls = scripts.run(
        f"""
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        ok(acl.aclrtMemcpyAsync(block, 64, host, 64, 1, stream))
        event, polls = mark(stream), 0
        out = ffi.new("int[2]")
        done = {{"aclrtStreamQuery": 0, "aclrtQueryEventStatus": 1}}[{how!r}]
        out[0] = 1 - done
        while out[0] != done:
            polls += 1
            what = stream if {how!r} == "aclrtStreamQuery" else event
            kind = "aclrtStreamStatus *" if what is stream else "aclrtEventRecordedStatus *"
            ok(getattr(acl, {how!r})(what, ffi.cast(kind, out)))
        answer = polls
        """,
        ASCENDRT_TIMING=f"{SLOW},host.query_us=10",
    )
    assert 790 <= polls <= 810  # 8 ms in steps of 10 us


def test_a_host_function_holds_the_clock() -> None:
    gap_ms, order = scripts.run(
        """
        stream, other, block, order = new_stream(), new_stream(), malloc(64), []
        @ffi.callback("void(void *)")
        def note(_):
            time.sleep(0.02)  # real time that the modelled clock does not see
            order.append("function")
        start = mark(stream)
        ok(acl.aclrtLaunchHostFunc(stream, note, NULL))
        end = mark(stream)
        ok(acl.aclrtMemsetAsync(block, 64, 1, 64, other))
        ok(acl.aclrtSynchronizeStream(stream))
        order.append("synchronized")
        answer = elapsed_ms(start, end), order
        """,
        ASCENDRT_TIMING="host.callback_us=700,host.launch_us=0,host.event_us=0,host.other_us=0,host.event_create_us=0",
    )
    assert gap_ms == pytest.approx(0.7, rel=1e-3)
    assert order == ["function", "synchronized"]


def test_memory_is_seen_without_a_call_after_the_grace_time() -> None:
    seen, wall_s = scripts.run(
        """
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        ok(acl.aclrtMemsetAsync(block, 64, 7, 64, stream))
        ok(acl.aclrtMemcpyAsync(host, 64, block, 64, 2, stream))
        view, began = ffi.buffer(host, 64), time.monotonic()
        while view[0] != b"\\x07" and time.monotonic() - began < 20:
            pass
        answer = view[0] == b"\\x07", time.monotonic() - began
        """,
        ASCENDRT_HOST_GRACE_MS="5",
    )
    assert seen
    assert wall_s < 5


def test_blocking_copies_take_their_turn() -> None:
    copy_ms = scripts.run(
        """
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        start = mark(stream)
        ok(acl.aclrtMemcpyAsync(block, 64, host, 64, 1, stream))
        ok(acl.aclrtMemcpy(block, 64, host, 64, 1))  # behind it in the queue of the engine
        end = mark(stream)
        ok(acl.aclrtSynchronizeStream(stream))
        answer = elapsed_ms(start, end)
        """,
        ASCENDRT_TIMING=f"{SLOW},host.launch_us=0",
    )
    assert copy_ms == pytest.approx(16.0, rel=1e-2)


def test_a_thread_that_is_blocked_does_not_hold_the_clock() -> None:
    """Two threads wait for two streams whose work ends 10 minutes apart; nothing is waited for."""
    times, wall_s = scripts.run(
        """
        streams, block, host = [new_stream(), new_stream()], malloc(64), malloc_host(64)
        marks = [mark(streams[0])]
        for stream in streams:
            ok(acl.aclrtMemcpyAsync(block, 64, host, 64, 1, stream))
            marks.append(mark(stream))
        began = time.monotonic()
        def wait(stream):
            ok(acl.aclrtSetDevice(0))
            ok(acl.aclrtSynchronizeStream(stream))
        threads = [threading.Thread(target=wait, args=(stream,)) for stream in streams]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        answer = [elapsed_ms(marks[0], each) for each in marks], time.monotonic() - began
        """,
        ASCENDRT_TIMING="h2d.latency_us=600000000",
    )
    assert times == pytest.approx([0, 600_000, 1_200_000], rel=1e-3)
    assert wall_s < 10


def test_memory_costs_by_size() -> None:
    times = scripts.run(
        """
        stream = new_stream()
        marks = [mark(stream)]
        for _ in range(3):  # also when the block comes from a cache
            block = malloc(10_000_000)
            marks.append(mark(stream))
            ok(acl.aclrtFree(block))
            marks.append(mark(stream))
        host = malloc_host(2_000_000)
        marks.append(mark(stream))
        ok(acl.aclrtSynchronizeStream(stream))
        answer = [elapsed_ms(a, b) for a, b in zip(marks, marks[1:])]
        """,
        ASCENDRT_TIMING="host.event_create_us=0,host.event_us=0,host.other_us=0",
    )
    # 910B: 60 us + 3 us/MB, 40 us + 1.7 us/MB, pinned 100 us + 150 us/MB
    assert times == pytest.approx([0.09, 0.057] * 3 + [0.4], rel=2e-2)


def test_times_are_ticks_of_the_device() -> None:
    times = scripts.run(
        """
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        marks = [mark(stream)]
        for size in range(1, 40):
            ok(acl.aclrtMemcpyAsync(block, 64, host, size, 1, stream))
            marks.append(mark(stream))
        ok(acl.aclrtSynchronizeStream(stream))
        answer = [elapsed_ms(marks[0], each) * 1e6 for each in marks]
        """,
        ASCENDRT_SOC="Ascend910B1",
        ASCENDRT_TIMING="h2d.gbps=0.333,host.launch_us=0.001",
    )
    assert all(abs(ns / 20 - round(ns / 20)) < 0.01 for ns in times)  # 50 MHz


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ASCENDRT_CLOCK": "sundial"}, ["ASCENDRT_CLOCK", "sundial", "real, virtual or paced"]),
        ({"ASCENDRT_TIMING": "h2d.speed=3"}, ["ASCENDRT_TIMING", "h2d.speed", "h2d.gbps"]),
        ({"ASCENDRT_TIMING": "h2d.gbps=fast"}, ["ASCENDRT_TIMING", "fast", "h2d.gbps"]),
        ({"ASCENDRT_TIMING": "h2d.gbps=0"}, ["ASCENDRT_TIMING", "h2d.gbps"]),
        ({"ASCENDRT_TIMING": "host.sync_us=inf"}, ["ASCENDRT_TIMING", "host.sync_us"]),
        ({"ASCENDRT_TIMING": "/nowhere/timing"}, ["ASCENDRT_TIMING", "/nowhere/timing"]),
        ({"ASCENDRT_TIMING": "op.x.seconds=3"}, ["ASCENDRT_TIMING", "op.x.seconds"]),
        ({"ASCENDRT_SCHED_SEED": "-1"}, ["ASCENDRT_SCHED_SEED", "-1"]),
        ({"ASCENDRT_HOST_GRACE_MS": "0"}, ["ASCENDRT_HOST_GRACE_MS", "0"]),
    ],
)
def test_a_wrong_setting_is_refused(variables: dict[str, str], words: list[str]) -> None:
    body = (
        "from ascendrt._cffi import ffi, lib\nfrom ascendrt import _backend\n"
        "_backend.load()\nprint(lib.aclInit(ffi.NULL))\n"
        "print(ffi.string(lib.aclGetRecentErrMsg()).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", body],
        env=os.environ | {"ASCENDRT_MACHINE": "private", "ASCENDRT_BACKEND": "emu"} | variables,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("100000\n"), done.stdout + done.stderr
    for word in words:
        assert word in done.stdout


def test_settings_from_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/timing"
    with open(path, "w", encoding="utf-8") as file:
        file.write("# of our board\nh2d.latency_us = 4000\n\nhost.launch_us = 0  # none\n")
    copy_ms = scripts.run(
        """
        stream, block, host = new_stream(), malloc(64), malloc_host(64)
        start = mark(stream)
        ok(acl.aclrtMemcpyAsync(block, 64, host, 64, 1, stream))
        end = mark(stream)
        ok(acl.aclrtSynchronizeStream(stream))
        answer = elapsed_ms(start, end)
        """,
        ASCENDRT_TIMING=path,
    )
    assert copy_ms == pytest.approx(4.0, rel=1e-2)


RUN_MODEL = """
from pathlib import Path
import tempfile
from modelrun import Run
from models import OmFiles
om, model = OmFiles(Path(tempfile.mkdtemp())), ffi.new("uint32_t *")
ok(acl.aclmdlLoadFromFile(om.path(om.good), model))
run, stream = Run(), new_stream()
def code_of_a_run():
    ok(acl.aclmdlExecuteAsync(model[0], run.inputs, run.outputs, stream))
    return acl.aclrtSynchronizeStream(stream)
def time_of_a_run():
    before = mark(stream)
    ok(code_of_a_run())
    after = mark(stream)
    ok(acl.aclrtSynchronizeStream(stream))
    return elapsed_ms(before, after)
"""
# Kernels that are all computation, on as many cores as they may have.
SLOW_KERNELS = "kernel.floor_us=0,kernel.block_us=0.001,host.launch_us=0,host.other_us=0"


def test_core_limits_lengthen_kernels() -> None:
    answer = scripts.run(
        RUN_MODEL
        + """
free = time_of_a_run()
for kind in (0, 1):
    ok(acl.aclrtSetDeviceResLimit(0, kind, 6 if kind == 0 else 12))
device = time_of_a_run()
for kind in (0, 1):
    ok(acl.aclrtSetStreamResLimit(stream, kind, 12 if kind == 0 else 24))
unused = time_of_a_run()
ok(acl.aclrtUseStreamResInCurrentThread(stream))
used = time_of_a_run()
ok(acl.aclrtUnuseStreamResInCurrentThread(stream))
ok(acl.aclrtResetDeviceResLimit(0))
answer = [free, device, unused, used, time_of_a_run()]
assert run.right()
""",
        ASCENDRT_TIMING=f"{SLOW_KERNELS},vector.tops=1e-9,cube.fp16_tflops=1e-9",
    )
    free, device, unused, used, again = answer
    assert free > 0
    assert [device / free, unused / free, used / free, again / free] == pytest.approx(
        [4, 4, 2, 1], rel=0.02
    )


def test_a_kernel_that_takes_too_long_is_ended() -> None:
    answer = scripts.run(
        RUN_MODEL
        + """
ok(acl.aclrtSetOpExecuteTimeOut(5))
limit = ffi.new("uint32_t *")
ok(acl.aclrtGetOpExecuteTimeout(limit))
before, code = mark(stream), code_of_a_run()
text = rawabi.recent()
after = mark(stream)
ok(acl.aclrtSynchronizeStream(stream))
answer = [code, text, elapsed_ms(before, after), limit[0]]
""",
        ASCENDRT_TIMING=f"{SLOW_KERNELS},vector.tops=1e-14,cube.fp16_tflops=1e-14",
    )
    code, text, took_ms, limit_ms = answer
    assert code in (507014, 507034)
    assert "time limit of operators" in text
    kernels = round(took_ms / limit_ms)
    assert kernels >= 1 and took_ms == pytest.approx(kernels * limit_ms, rel=1e-3)


def test_a_kernel_within_its_time_limit() -> None:
    answer = scripts.run(
        RUN_MODEL
        + """
ok(acl.aclrtSetOpExecuteTimeOut(100))
answer = code_of_a_run(), run.right()
""",
        ASCENDRT_TIMING=f"{SLOW_KERNELS},vector.tops=1e-9,cube.fp16_tflops=1e-9",
    )
    assert answer == [0, True]
