"""Capture of streams into model instances (section 10), and what other calls say meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rawabi
from capturing import (
    ACTIVE,
    GLOBAL,
    INVALIDATED,
    NONE,
    RELAXED,
    THREAD_LOCAL,
    Built,
    capture,
    closing,
    end,
    end_code,
    fill,
    first_byte,
    info,
    persistent,
    run,
)
from modelrun import Run
from rawabi import (
    EXTERNAL,
    IPC,
    NULL,
    SYNC,
    TIME_LINE,
    acl,
    default_stream,
    ex_event,
    ffi,
    flag_event,
    foreign,
    last_error,
    made,
    new_context,
    new_stream,
    ok,
    plain_event,
    query,
)

rule = pytest.mark.rule


def begin_code(stream: Any, mode: int = RELAXED) -> int:
    return int(acl.aclmdlRICaptureBegin(stream, mode))


def drawn_in(stream: Any, mode: int = RELAXED) -> tuple[Any, Any]:
    """Begin a capture and draw a second stream into it; returns that stream and its event."""
    side, event = new_stream(), ex_event()
    ok(acl.aclmdlRICaptureBegin(stream, mode))
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtStreamWaitEvent(side, event))
    return side, event


def join(stream: Any, side: Any) -> None:
    event = ex_event()
    ok(acl.aclrtRecordEvent(event, side))
    ok(acl.aclrtStreamWaitEvent(stream, event))


# ---- chips and begin


@rule("S10.1")
@pytest.mark.parametrize("chip", ["910", "310B"])
def test_chips_without_capture(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, out = new_stream(), ffi.new("void **")
        mode = ffi.new("aclmdlRICaptureMode *", 2)
        return [
            acl.aclmdlRICaptureBegin(stream, 2), acl.aclmdlRICaptureEnd(stream, out),
            acl.aclmdlRICaptureThreadExchangeMode(mode), acl.aclmdlRICaptureBegin(NULL, 9),
            acl.aclmdlRICaptureEnd(NULL, out), acl.aclmdlRICaptureThreadExchangeMode(NULL),
        ]  # fmt: skip

    assert rawabi.fresh_on(chip, body) == [207000] * 3 + [100000] * 3


@rule("S10.2")
def test_begin_order(stream: Any) -> None:
    gone = new_stream()
    ok(acl.aclrtDestroyStream(gone))
    assert begin_code(NULL, 9) == 100000
    assert begin_code(gone, 9) == 107017
    device_only = made("aclrtCreateStreamWithConfig", 0, 0x20)
    assert begin_code(device_only, 9) == 107000
    new_context()
    assert begin_code(device_only) == 507000
    assert begin_code(stream) == 107003
    ok(acl.aclrtSetDevice(0))
    assert rawabi.in_thread(lambda: begin_code(stream)) == 107002
    with closing(stream):
        assert begin_code(stream, 9) == 107000
        assert begin_code(stream) == 107027


@rule("S10.3")
def test_begin_null(device: int) -> None:
    assert begin_code(NULL) == 100000
    assert last_error() == 0


@rule("S10.4")
def test_begin_default_stream(device: int) -> None:
    assert begin_code(default_stream()) == 207000


@rule("S10.5")
def test_begin_and_end_on_driven_streams() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        codes = []
        for flag in (4, 0x10, 0x20):  # persistent, CPU scheduled, device use only
            stream = made("aclrtCreateStreamWithConfig", 0, flag)
            out = ffi.new("void **")
            codes.append(acl.aclmdlRICaptureBegin(stream, 2))
            codes.append(acl.aclmdlRICaptureEnd(stream, out))
        return codes

    assert rawabi.fresh_on("950", body) == [507000] * 6
    assert rawabi.fresh_on("A2", body) == [0, 0] + [507000] * 4


@rule("S10.6")
def test_begin_unknown_mode(stream: Any) -> None:
    assert begin_code(stream, 3) == 107000
    assert info(stream) == (NONE, NULL)


@rule("S10.7")
def test_begin_twice(stream: Any) -> None:
    with closing(stream):
        assert begin_code(stream) == 107027
        assert info(stream)[0] == ACTIVE


@rule("S10.8")
def test_begin_on_a_bound_stream(device: int) -> None:
    with Built(0) as built:
        assert begin_code(built.streams[0]) == 107005


@rule("S10.9")
def test_begin_on_a_stream_of_another_context(other_stream: Any) -> None:
    assert begin_code(other_stream) == 107003


# ---- while capturing


@rule("S10.10")
def test_work_is_recorded_not_run(stream: Any, block: Any) -> None:
    with capture(stream) as instance:
        fill(block, 7, stream)
        assert acl.aclrtSynchronizeStream(stream) == 107027
        assert acl.aclrtStreamQuery(stream, ffi.new("aclrtStreamStatus *")) == 107027
        assert acl.aclrtDestroyStream(stream) == 107027
    assert first_byte(block) == 0 and query(stream) == 0
    run(instance[0], stream)
    assert first_byte(block) == 7


@rule("S2.37")
def test_synchronize_device_while_capturing(stream: Any) -> None:
    with closing(stream):
        assert acl.aclrtSynchronizeDevice() == 107027
        assert acl.aclrtSynchronizeDeviceWithTimeout(50) == 107027
    ok(acl.aclrtSynchronizeDevice())


@rule("S4.13")
def test_destroy_while_capturing(stream: Any) -> None:
    with closing(stream):
        assert acl.aclrtDestroyStream(stream) == 107027
        assert acl.aclrtDestroyStreamForce(stream) == 107027
        new_context()
        assert acl.aclrtDestroyStream(stream) == 107027  # before the owner is looked at
        ok(acl.aclrtSetDevice(0))


@rule("S4.23")
def test_synchronize_while_capturing(stream: Any) -> None:
    with closing(stream):
        assert acl.aclrtSynchronizeStream(stream) == 107027
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 50) == 107027
    ok(acl.aclrtSynchronizeStream(stream))


@rule("S4.34")
def test_query_while_capturing(stream: Any) -> None:
    with closing(stream):
        assert acl.aclrtStreamQuery(stream, ffi.new("aclrtStreamStatus *")) == 107027
    assert query(stream) == 0


def blocking_calls(block: Any) -> list[int]:
    host = rawabi.pageable(b"x" * 64)
    return [
        acl.aclrtMemcpy(block, 64, host, 8, acl.ACL_MEMCPY_HOST_TO_DEVICE),
        acl.aclrtMemset(block, 64, 3, 8),
        acl.aclrtMemcpy2d(block, 8, host, 8, 8, 2, acl.ACL_MEMCPY_HOST_TO_DEVICE),
    ]


def exchange(mode: int) -> int:
    out = ffi.new("aclmdlRICaptureMode *", mode)
    ok(acl.aclmdlRICaptureThreadExchangeMode(out))
    return int(out[0])


@pytest.fixture
def mode_kept(device: int) -> Any:
    yield
    exchange(GLOBAL)


@rule("S6.38")
def test_blocking_calls_in_a_global_capture(stream: Any, block: Any) -> None:
    with closing(stream, GLOBAL):
        assert blocking_calls(block) == [107030] * 3
    assert blocking_calls(block) == [0] * 3


@rule("S10.11")
@pytest.mark.parametrize(
    ("begun", "exchanged", "code", "elsewhere"),
    [
        (GLOBAL, GLOBAL, 107030, 107030), (GLOBAL, THREAD_LOCAL, 107030, 0),
        (GLOBAL, RELAXED, 0, 0), (THREAD_LOCAL, GLOBAL, 107030, 0),
        (THREAD_LOCAL, THREAD_LOCAL, 107030, 0), (THREAD_LOCAL, RELAXED, 0, 0),
        (RELAXED, GLOBAL, 0, 0), (RELAXED, THREAD_LOCAL, 0, 0),
    ],
)  # fmt: skip
def test_blocking_calls_while_capturing(
    stream: Any, block: Any, mode_kept: None, begun: int, exchanged: int, code: int, elsewhere: int
) -> None:
    def other_thread() -> list[int]:
        ok(acl.aclrtSetDevice(0))
        exchange(exchanged)
        return blocking_calls(block)

    with closing(stream, begun):
        exchange(exchanged)
        assert blocking_calls(block) == [code] * 3
        assert acl.aclrtMemcpy(block, 0, NULL, 0, 9) == 0  # the shortcuts come first
        assert acl.aclrtMemcpy(block, 8, block, 8, acl.ACL_MEMCPY_DEVICE_TO_DEVICE) == 0
        assert rawabi.in_thread(other_thread) == [elsewhere] * 3
        new_context()
        assert acl.aclrtMemset(block, 64, 3, 8) == (code if begun == GLOBAL and code == 0 else 0)
        ok(acl.aclrtSetDevice(0))
    assert blocking_calls(block) == [0] * 3


@rule("S6.51")
def test_pageable_copy_on_a_capturing_stream(stream: Any, block: Any) -> None:
    host = rawabi.pageable(b"x" * 64)
    with closing(stream):
        code = acl.aclrtMemcpyAsync(block, 64, host, 64, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream)
        assert code == 107000
    assert first_byte(block) == 0


@rule("S6.52")
def test_pageable_copy_on_another_stream(stream: Any, block: Any) -> None:
    other, host = new_stream(), rawabi.pageable(b"x" * 64)

    def copy() -> int:
        kind = acl.ACL_MEMCPY_HOST_TO_DEVICE
        return int(acl.aclrtMemcpyAsync(block, 64, host, 64, kind, other))

    with closing(stream, GLOBAL):
        assert copy() == 107041
    with closing(stream, RELAXED):
        assert copy() == 0
    assert first_byte(block) == ord("x")


# ---- events


@rule("S5.19")
@pytest.mark.parametrize("make", [plain_event, flag_event, lambda: ex_event(IPC)])
def test_record_other_events_on_a_capturing_stream(stream: Any, make: Callable[[], Any]) -> None:
    event = make()
    with closing(stream):
        assert acl.aclrtRecordEvent(event, stream) == 207000
    ok(acl.aclrtRecordEvent(event, stream))


@rule("S5.19")
def test_record_on_a_bound_stream(device: int) -> None:
    with Built(0) as built:
        for event in (plain_event(), ex_event()):
            assert acl.aclrtRecordEvent(event, built.streams[0]) == 207000
        ok(acl.aclrtRecordEvent(flag_event(), built.streams[0]))


@rule("S5.19")
def test_record_an_external_event_on_a_capturing_stream(stream: Any, block: Any) -> None:
    event, outside = flag_event(EXTERNAL), new_stream()
    with capture(stream) as instance:
        fill(block, 5, stream)
        ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtStreamWaitEvent(outside, event))
    assert query(outside) == 1
    run(instance[0], stream)
    ok(acl.aclrtSynchronizeStream(outside))
    assert first_byte(block) == 5


@rule("S5.20")
def test_record_an_ex_event_without_sync_while_capturing(stream: Any) -> None:
    event = ex_event(TIME_LINE)
    with capture(stream) as instance:
        ok(acl.aclrtRecordEvent(event, stream))
        assert rawabi.event_status(event) == 1  # never recorded
    run(instance[0], stream)
    assert acl.aclrtEventElapsedTime(ffi.new("float *"), event, event) == 507000
    ok(acl.aclrtRecordEvent(event, stream))  # it counts on a stream that is not captured
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtEventElapsedTime(ffi.new("float *"), event, event))


@rule("S5.22")
@pytest.mark.parametrize("null", [True, False])
def test_default_stream_and_a_captured_event(stream: Any, null: bool) -> None:
    default = NULL if null else default_stream()
    event, external = ex_event(), flag_event(EXTERNAL)
    with closing(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtRecordEvent(external, stream))
        assert acl.aclrtStreamWaitEvent(default, event) == 107031
        assert acl.aclrtResetEvent(external, default) == 107031


@rule("S5.24")
@pytest.mark.parametrize("make", [plain_event, flag_event])
def test_wait_for_other_events_on_a_capturing_stream(stream: Any, make: Callable[[], Any]) -> None:
    event = make()
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    with closing(stream):
        assert acl.aclrtStreamWaitEvent(stream, event) == 207000
        assert acl.aclrtStreamWaitEventWithTimeout(stream, event, 0) == 207000
    ok(acl.aclrtStreamWaitEvent(stream, event))


@rule("S5.24")
def test_wait_on_a_bound_stream(device: int) -> None:
    with Built(0) as built:
        for event in (plain_event(), ex_event()):
            assert acl.aclrtStreamWaitEvent(built.streams[0], event) == 207000


@rule("S5.49")
def test_host_calls_on_a_capturing_event(stream: Any) -> None:
    event = ex_event(SYNC | TIME_LINE)
    word = ffi.new("uint64_t *")
    with closing(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        assert acl.aclrtSynchronizeEvent(event) == 107028
        assert acl.aclrtSynchronizeEventWithTimeout(event, 10) == 107028
        status = ffi.new("aclrtEventRecordedStatus *")
        assert acl.aclrtQueryEventStatus(event, status) == 107028
        assert acl.aclrtEventElapsedTime(ffi.new("float *"), event, event) == 107028
        assert acl.aclrtEventGetTimestamp(event, word) == 107028
    ok(acl.aclrtSynchronizeEvent(event))


# ---- side streams


@rule("S10.12")
def test_waiting_draws_a_stream_in(stream: Any, block: Any) -> None:
    second = rawabi.offset(block, 1024)
    side, _ = drawn_in(stream)
    assert info(side) == info(stream) and info(side)[0] == ACTIVE
    fill(block, 1, side)
    fill(second, 2, side)
    join(stream, side)
    ok(acl.aclrtMemcpyAsync(block, 8, second, 1, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
    instance = end(stream)
    assert info(side) == (NONE, NULL)
    for _ in range(3):
        rawabi.write(block, bytes(1200))
        run(instance, stream)
        assert first_byte(block) == 2


@rule("S10.13")
def test_the_default_stream_is_not_drawn_in(stream: Any) -> None:
    event = ex_event()
    with closing(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        assert acl.aclrtStreamWaitEvent(NULL, event) == 107031
        assert info(stream)[0] == INVALIDATED


@rule("S10.23")
def test_end_of_a_spoiled_capture(stream: Any, block: Any) -> None:
    event = ex_event()
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    fill(block, 1, stream)
    ok(acl.aclrtRecordEvent(event, stream))
    assert acl.aclrtStreamWaitEvent(default_stream(), event) == 107031
    assert end_code(stream) == (507903, True)
    assert info(stream) == (NONE, NULL) and first_byte(block) == 0


@rule("S10.14")
def test_a_failed_wait_spoils_the_capture(stream: Any) -> None:
    event = ex_event()
    ok(acl.aclrtRecordEvent(event, new_stream()))
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    assert acl.aclrtStreamWaitEvent(stream, event) == 107024
    assert end_code(stream) == (507903, True)


@rule("S10.15")
def test_wait_for_an_event_of_outside(stream: Any) -> None:
    outside, never = ex_event(), ex_event()
    ok(acl.aclrtRecordEvent(outside, new_stream()))
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    ok(acl.aclrtStreamWaitEvent(stream, never))
    assert acl.aclrtStreamWaitEvent(stream, outside) == 107024
    end_code(stream)


@rule("S10.16")
def test_wait_for_a_plain_or_flag_event(stream: Any) -> None:
    with closing(stream):
        assert acl.aclrtStreamWaitEvent(stream, plain_event()) == 207000
        assert acl.aclrtStreamWaitEvent(stream, flag_event()) == 207000


@rule("S10.12")
def test_events_of_two_captures_conflict(stream: Any) -> None:
    other, event = new_stream(), ex_event()
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    ok(acl.aclmdlRICaptureBegin(other, RELAXED))
    ok(acl.aclrtRecordEvent(event, stream))
    assert acl.aclrtStreamWaitEvent(other, event) == 107032
    assert [end_code(stream), end_code(other)] == [(507903, True)] * 2


# ---- end


@rule("S10.17")
def test_end_null_stream(device: int) -> None:
    assert acl.aclmdlRICaptureEnd(NULL, ffi.new("void **")) == 100000


@rule("S10.18")
def test_end_null_instance(stream: Any) -> None:
    assert acl.aclmdlRICaptureEnd(stream, NULL) == 107029  # not capturing
    with closing(stream):
        assert acl.aclmdlRICaptureEnd(stream, NULL) == 107000
        assert info(stream)[0] == ACTIVE


@rule("S10.20")
def test_end_without_begin(stream: Any) -> None:
    assert end_code(stream) == (107029, True)


@rule("S10.21")
def test_end_on_a_side_stream(stream: Any) -> None:
    side, _ = drawn_in(stream)
    assert end_code(side) == (107036, True)
    join(stream, side)
    ok(acl.aclmdlRIDestroy(end(stream)))


@rule("S10.22")
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_end_on_another_thread(stream: Any, block: Any, mode: int) -> None:
    def other() -> tuple[int, bool]:
        ok(acl.aclrtSetDevice(0))
        return end_code(stream)

    ok(acl.aclmdlRICaptureBegin(stream, mode))
    assert rawabi.in_thread(other) == ((0, False) if mode == RELAXED else (107038, True))
    assert info(stream) == (NONE, NULL)
    ok(acl.aclrtMemset(block, 8, 1, 8))  # the mode is over as well


@rule("S10.24")
def test_end_with_a_side_stream_apart(stream: Any) -> None:
    side, _ = drawn_in(stream)
    assert end_code(stream) == (107025, True)
    assert info(side) == (NONE, NULL)
    side, _ = drawn_in(stream)
    ok(acl.aclrtRecordEvent(ex_event(), side))  # nobody waits for it
    assert end_code(stream) == (107025, True)


@rule("S10.25")
def test_end_with_an_open_task_group(stream: Any) -> None:
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    ok(acl.aclmdlRICaptureTaskGrpBegin(stream))
    assert end_code(stream) == (107033, True)
    assert info(stream) == (NONE, NULL)


@rule("S10.26")
def test_info_both_null(stream: Any) -> None:
    assert acl.aclmdlRICaptureGetInfo(stream, NULL, NULL) == 100000


@rule("S10.27")
def test_info_not_capturing(stream: Any) -> None:
    assert info(stream) == (NONE, NULL)


@rule("S10.28")
def test_exchange_mode_swaps(device: int, mode_kept: None) -> None:
    assert rawabi.in_thread(lambda: (ok(acl.aclrtSetDevice(0)), exchange(RELAXED))[1]) == GLOBAL
    assert [exchange(THREAD_LOCAL), exchange(RELAXED), exchange(RELAXED)] == [0, 1, 2]


@rule("S10.29")
def test_exchange_unknown_mode(device: int, mode_kept: None) -> None:
    mode = ffi.new("aclmdlRICaptureMode *", 3)
    assert acl.aclmdlRICaptureThreadExchangeMode(mode) == 107000
    assert exchange(GLOBAL) == GLOBAL


@rule("S10.30")
def test_exchange_without_context() -> None:
    mode = ffi.new("aclmdlRICaptureMode *", RELAXED)
    assert acl.aclmdlRICaptureThreadExchangeMode(mode) == 107002


# ---- groups and updates


@rule("S10.31")
def test_task_group_without_capture(stream: Any) -> None:
    assert acl.aclmdlRICaptureTaskGrpBegin(stream) == 107029
    assert acl.aclmdlRICaptureTaskGrpEnd(stream, ffi.new("void **")) == 107029


def grouped(stream: Any, block: Any) -> tuple[Any, Any]:
    """Capture two fills of which the second one can be updated."""
    group = ffi.new("void **")
    with capture(stream) as instance:
        fill(rawabi.offset(block, 8), 1, stream)
        ok(acl.aclmdlRICaptureTaskGrpBegin(stream))
        fill(block, 2, stream)
        ok(acl.aclmdlRICaptureTaskGrpEnd(stream, group))
        fill(rawabi.offset(block, 16), 3, stream)
    return instance[0], group[0]


@rule("S10.31")
def test_task_group_and_update(stream: Any, block: Any) -> None:
    instance, group = grouped(stream, block)
    run(instance, stream)
    assert first_byte(block) == 2
    updater = new_stream()
    ok(acl.aclmdlRICaptureTaskUpdateBegin(updater, group))
    fill(block, 9, updater)
    ok(acl.aclmdlRICaptureTaskUpdateEnd(updater))
    ok(acl.aclrtSynchronizeStream(updater))
    assert first_byte(block) == 2  # the update itself runs nothing
    run(instance, stream)
    assert rawabi.read(block, 17)[::8] == bytes([9, 1, 3])


@rule("S10.32")
def test_update_on_a_capturing_stream(stream: Any, block: Any) -> None:
    _, group = grouped(stream, block)
    with closing(stream):
        assert acl.aclmdlRICaptureTaskUpdateBegin(stream, group) == 107027
        assert acl.aclmdlRICaptureTaskUpdateEnd(stream) == 107027


@rule("S10.33")
def test_update_on_a_bound_stream(stream: Any, block: Any) -> None:
    _, group = grouped(stream, block)
    with Built(0) as built:
        assert acl.aclmdlRICaptureTaskUpdateBegin(built.streams[0], group) == 107005


@rule("S10.32")
def test_update_that_does_not_match(stream: Any, block: Any) -> None:
    instance, group = grouped(stream, block)
    updater = new_stream()
    ok(acl.aclmdlRICaptureTaskUpdateBegin(updater, group))
    assert acl.aclrtRecordEvent(ex_event(), updater) == 107040
    assert acl.aclmdlRICaptureTaskUpdateEnd(updater) == 107040
    run(instance, stream)
    assert first_byte(block) == 2


# ---- running


@rule("S10.34")
def test_execute_null(stream: Any) -> None:
    assert acl.aclmdlRIExecuteAsync(NULL, stream) == 100000


def captured_fill(stream: Any, block: Any, value: int = 7) -> Any:
    with capture(stream) as instance:
        fill(block, value, stream)
    return instance[0]


@rule("S10.35")
def test_execute_a_destroyed_instance(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    ok(acl.aclmdlRIDestroy(instance))
    assert acl.aclmdlRIExecuteAsync(instance, stream) == 107017


@rule("S10.44")
def test_destroy_twice(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    ok(acl.aclmdlRIDestroy(instance))
    assert acl.aclmdlRIDestroy(instance) == 107017


@rule("S10.36")
def test_execute_an_instance_of_another_context(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    new_context()
    assert acl.aclmdlRIExecuteAsync(instance, new_stream()) == 107004
    assert first_byte(block) == 0


@rule("S10.45")
def test_destroy_an_instance_of_another_context(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    new_context()
    assert acl.aclmdlRIDestroy(instance) == 107004
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclmdlRIDestroy(instance))


@rule("S10.37")
def test_execute_while_captured(stream: Any) -> None:
    other = new_stream()
    with closing(stream):
        assert acl.aclmdlRIExecuteAsync(info(stream)[1], other) == 107026


@rule("S10.46")
def test_destroy_while_captured(stream: Any) -> None:
    with closing(stream):
        assert acl.aclmdlRIDestroy(info(stream)[1]) == 107026
        assert info(stream)[0] == ACTIVE


@rule("S10.38")
def test_execute_on_a_bound_stream(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    with Built(0) as built:
        assert acl.aclmdlRIExecuteAsync(instance, built.streams[0]) == 107000


@rule("S10.39")
def test_execute_on_a_capturing_stream(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    with closing(stream):
        assert acl.aclmdlRIExecuteAsync(instance, stream) == 107027


@rule("S10.40")
def test_execute_on_a_stream_of_another_context(other_stream: Any, block: Any) -> None:
    instance = captured_fill(new_stream(), block)
    assert acl.aclmdlRIExecuteAsync(instance, other_stream) == 107003


@rule("S10.43")
def test_destroy_null(device: int) -> None:
    assert acl.aclmdlRIDestroy(NULL) == 100000


@rule("S10.47")
@pytest.mark.timeout(60)
def test_destroy_while_it_runs(stream: Any, block: Any) -> None:
    instance = captured_fill(stream, block)
    with rawabi.gated(stream):
        ok(acl.aclmdlRIExecuteAsync(instance, stream))
        assert acl.aclmdlRIDestroy(instance) == 107037
    ok(acl.aclrtSynchronizeStream(stream))
    assert first_byte(block) == 7
    ok(acl.aclmdlRIDestroy(instance))


@rule("S10.10")
def test_data_is_read_when_it_runs(stream: Any, block: Any) -> None:
    source = rawabi.offset(block, 64)
    with capture(stream) as instance:
        ok(acl.aclrtMemcpyAsync(block, 8, source, 1, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
    for value in (1, 2, 3):
        rawabi.write(source, bytes([value]))
        run(instance[0], NULL)
        assert first_byte(block) == value


@rule("S10.10")
def test_a_model_execution_is_recorded(
    initialised: None, model: int, run: Run, stream: Any
) -> None:
    with capture(stream) as instance:
        ok(run.execute_async(model, stream))
    assert run.untouched()
    for _ in range(2):
        ok(acl.aclmdlRIExecuteAsync(instance[0], stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert run.right()
    ok(acl.aclmdlRIDestroy(instance[0]))


@rule("S10.10")
def test_host_functions_are_recorded(stream: Any) -> None:
    counter = ffi.new("char[8]")
    with capture(stream) as instance:
        ok(acl.aclrtLaunchHostFunc(stream, rawabi.mark_host_memory, counter))
    assert counter[0] == b"\0"
    run(instance[0], stream)
    assert counter[0] != b"\0"


@rule("S10.10")
def test_a_failed_task_is_delivered_by_the_replay(stream: Any, block: Any) -> None:
    bad = rawabi.malloc(64)
    with capture(stream) as instance:
        fill(bad, 1, stream)
        fill(block, 8, stream)
    ok(acl.aclrtFree(bad))
    ok(acl.aclmdlRIExecuteAsync(instance[0], stream))
    assert acl.aclrtSynchronizeStream(stream) == 507013
    assert first_byte(block) == 8  # the tasks behind it ran
    ok(acl.aclrtSynchronizeStream(stream))


@rule("S10.12")
def test_replays_of_two_streams_take_turns(stream: Any, block: Any) -> None:
    other = new_stream()
    instance = captured_fill(stream, block)
    with rawabi.gated(stream):
        ok(acl.aclmdlRIExecuteAsync(instance, stream))
        ok(acl.aclmdlRIExecuteAsync(instance, other))
        ok(acl.aclrtSynchronizeStream(other))
        assert first_byte(block) == 7
    ok(acl.aclrtSynchronizeStream(stream))


@rule("S10.10")
def test_a_stream_that_is_gone(block: Any) -> None:
    stream = new_stream()
    instance = captured_fill(stream, block)
    ok(acl.aclrtDestroyStream(stream))
    run(instance, NULL)
    assert first_byte(block) == 7


def test_persistent_streams_are_captured_on_a2(device: int) -> None:
    stream = persistent()
    with closing(stream):
        assert info(stream)[0] == ACTIVE
    assert acl.aclmdlRICaptureBegin(foreign(), RELAXED) == 107017
