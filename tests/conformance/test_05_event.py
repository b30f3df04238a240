"""Events of the three kinds (section 5): plain, flag and ex."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import rawabi
from rawabi import (
    DEVICE_ONLY,
    EXTERNAL,
    IPC,
    NULL,
    PROGRESS,
    SYNC,
    TIME_LINE,
    Gate,
    acl,
    address,
    event_status,
    eventually,
    ex_event,
    ffi,
    flag_event,
    gated,
    in_thread,
    new_context,
    new_stream,
    ok,
    open_in_context,
    plain_event,
    query,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
CREATORS = [
    ("aclrtCreateEvent", ()),
    ("aclrtCreateEventWithFlag", (SYNC,)),
    ("aclrtCreateEventExWithFlag", (SYNC,)),
]
COMPLETE, NOT_READY = 0, 1


def query_event(event: Any) -> int:
    status = ffi.new("aclrtEventStatus *", 77)
    ok(acl.aclrtQueryEvent(event, status))
    return int(status[0])


def wait_status(event: Any) -> int:
    status = ffi.new("aclrtEventWaitStatus *", 77)
    ok(acl.aclrtQueryEventWaitStatus(event, status))
    return int(status[0])


def elapsed_ms(start: Any, end: Any) -> float:
    out = ffi.new("float *", -7777.0)
    ok(acl.aclrtEventElapsedTime(out, start, end))
    return float(out[0])


def time_stamp_us(event: Any) -> int:
    out = ffi.new("uint64_t *")
    ok(acl.aclrtEventGetTimestamp(event, out))
    return int(out[0])


def recorded(event: Any, stream: Any) -> Any:
    """Record an event and wait until it has happened."""
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    return event


def refused(create: str, *flags: int) -> list[int]:
    """Return the codes of creating an event with each flag; no event may come out."""
    out = ffi.new("void **")
    codes = [getattr(acl, create)(out, flag) for flag in flags]
    assert out[0] == NULL
    return codes


@rule("S5.1")
@pytest.mark.parametrize("name, flags", CREATORS)
def test_create_null(device: int, name: str, flags: tuple[int, ...]) -> None:
    assert getattr(acl, name)(NULL, *flags) == 100000


@rule("S5.2")
@pytest.mark.parametrize("name, flags", CREATORS)
def test_create_without_context(name: str, flags: tuple[int, ...]) -> None:
    out = ffi.new("void **")
    assert getattr(acl, name)(out, *flags) == 107002
    assert out[0] == NULL
    if flags:
        assert getattr(acl, name)(out, 0) == 107000


@rule("S5.3")
def test_bad_flags_of_flag_events(device: int) -> None:
    assert refused("aclrtCreateEventWithFlag", 0, 0x40, 0x80, SYNC | 0x100) == [107000] * 4
    assert flag_event(SYNC | TIME_LINE) != NULL


@rule("S5.4")
def test_bad_flags_of_ex_events(device: int) -> None:
    codes = refused("aclrtCreateEventExWithFlag", 0, DEVICE_ONLY, EXTERNAL, 0x80)
    assert codes == [107000] * 4
    assert ex_event(SYNC | TIME_LINE) != NULL


@rule("S5.5")
def test_exclusive_flags_of_flag_events(device: int) -> None:
    flags = (DEVICE_ONLY | SYNC, DEVICE_ONLY | TIME_LINE, EXTERNAL | SYNC, EXTERNAL | DEVICE_ONLY)
    assert refused("aclrtCreateEventWithFlag", *flags) == [107000] * 4
    assert flag_event(EXTERNAL) != NULL


@rule("S5.6")
def test_exclusive_flags_of_ex_events(device: int) -> None:
    codes = refused("aclrtCreateEventExWithFlag", IPC | SYNC, IPC | TIME_LINE, IPC | PROGRESS)
    assert codes == [107000] * 3
    assert ex_event(PROGRESS) != NULL


@rule("S5.7")
@pytest.mark.parametrize("chip", ["310P", "910", "310B"])
def test_ipc_event_on_a_chip_without(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        return acl.aclrtCreateEventExWithFlag(out, 0x40), out[0] == NULL, ex_event() != NULL

    assert rawabi.fresh_on(chip, body) == [207000, True, True]


@rule("S5.8")
@pytest.mark.parametrize("chip", ["310B", "910"])
def test_device_use_only_event_on_a_chip_without(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        return acl.aclrtCreateEventWithFlag(out, 0x10), out[0] == NULL, flag_event() != NULL

    assert rawabi.fresh_on(chip, body) == [207000, True, True]


@rule("S5.9")
def test_flag_0xe_makes_a_plain_event(stream: Any) -> None:
    event, flag = flag_event(0xE), flag_event(TIME_LINE | PROGRESS)
    assert acl.aclrtStreamWaitEvent(stream, event) == 107000
    assert acl.aclrtStreamWaitEvent(stream, flag) == 207000
    recorded(event, stream)
    ok(acl.aclrtStreamWaitEvent(stream, event))
    assert elapsed_ms(event, event) == 0.0


@rule("S5.10")
@pytest.mark.parametrize(
    "chip, limit",
    [("A2", 65536), ("A3", 65536), ("950", 65536), ("310B", 65536), ("310P", 1023), ("910", 65535)],
)
def test_event_ids_used_up(chip: str, limit: int) -> None:
    def body(limit: int) -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        create = acl.aclrtCreateEventWithFlag
        codes = {create(out, SYNC) for _ in range(limit)}
        last = out[0]
        full = create(out, SYNC)
        without_id = create(out, TIME_LINE)
        freed = acl.aclrtDestroyEvent(last)
        return sorted(codes), full, without_id, freed, create(out, SYNC), create(out, SYNC)

    answer = rawabi.fresh_on(chip, body, limit=limit)
    # 310P and 910: even flags without a sync bit are only said to take no id on the other chips.
    if chip in ("310P", "910"):
        assert [*answer[:2], *answer[3:]] == [[0], 207007, 0, 0, 207007]
    else:
        assert answer == [[0], 207007, 0, 0, 0, 207007]


@rule("S5.11")
def test_plain_and_ex_events_take_no_id() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        events = [plain_event() for _ in range(1100)] + [ex_event() for _ in range(1100)]
        return len({address(each) for each in events}), event_status(events[-1])

    assert rawabi.fresh_on("310P", body) == [2200, 1]


@rule("S5.12")
def test_destroy_null(device: int) -> None:
    assert acl.aclrtDestroyEvent(NULL) == 100000


@rule("S5.13")
def test_destroy_twice(device: int) -> None:
    for event in (plain_event(), flag_event(), ex_event()):
        ok(acl.aclrtDestroyEvent(event))
        assert acl.aclrtDestroyEvent(event) == 107017


@rule("S5.14")
def test_destroy_a_pending_event(stream: Any) -> None:
    waiter = new_stream()
    for event in (plain_event(), flag_event(), ex_event()):
        with gated(stream):
            ok(acl.aclrtRecordEvent(event, stream))
            ok(acl.aclrtStreamWaitEvent(waiter, event))
            ok(acl.aclrtDestroyEvent(event))
            assert acl.aclrtSynchronizeEvent(event) == 107017
            assert [query(stream), query(waiter)] == [1, 1]
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        ok(acl.aclrtSynchronizeStreamWithTimeout(waiter, 5000))


@rule("S5.15")
def test_record_null(stream: Any) -> None:
    assert acl.aclrtRecordEvent(NULL, stream) == 100000


@rule("S5.16")
def test_record_on_the_default_stream(device: int) -> None:
    event = plain_event()
    with gated(NULL):
        ok(acl.aclrtRecordEvent(event, NULL))
        assert event_status(event) == 0
    ok(acl.aclrtSynchronizeEvent(event))
    assert event_status(event) == 1


@rule("S5.17")
def test_record_on_a_stream_of_another_context(other_stream: Any) -> None:
    event = plain_event()
    assert acl.aclrtRecordEvent(event, other_stream) == 107003
    assert event_status(event) == 0


@rule("S5.18")
def test_record_again(stream: Any) -> None:
    event, waiter, free = ex_event(), new_stream(), new_stream()
    with gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtStreamWaitEvent(waiter, event))
        assert event_status(event) == 0
        recorded(event, free)
        assert event_status(event) == 1
        assert query(waiter) == 1
    ok(acl.aclrtSynchronizeStreamWithTimeout(waiter, 5000))


@rule("S5.21")
def test_device_use_only_events(stream: Any) -> None:
    event = flag_event(DEVICE_ONLY)
    answers = [
        acl.aclrtRecordEvent(event, stream),
        acl.aclrtStreamWaitEvent(stream, event),
        acl.aclrtResetEvent(event, stream),
    ]
    assert answers == [107000] * 3
    assert query(stream) == 0


@rule("S5.23")
def test_wait_for_an_event_without_sync_bit(stream: Any) -> None:
    for flag in (TIME_LINE, PROGRESS, TIME_LINE | PROGRESS):
        event = recorded(flag_event(flag), stream)
        assert acl.aclrtStreamWaitEvent(stream, event) == 207000
    assert query(stream) == 0


@rule("S5.25")
def test_wait_for_a_plain_event_never_recorded(stream: Any) -> None:
    event = plain_event()
    assert acl.aclrtStreamWaitEvent(stream, event) == 107000
    assert query(stream) == 0


@rule("S5.26")
def test_wait_for_a_finished_plain_event(stream: Any) -> None:
    event, waiter = recorded(plain_event(), stream), new_stream()
    ok(acl.aclrtStreamWaitEvent(waiter, event))
    assert query(waiter) == 0
    with gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtStreamWaitEvent(waiter, event))
        assert query(waiter) == 1
    ok(acl.aclrtSynchronizeStreamWithTimeout(waiter, 5000))


@rule("S5.27")
def test_wait_for_a_flag_event_never_recorded(stream: Any) -> None:
    event, other = flag_event(), new_stream()
    ok(acl.aclrtStreamWaitEvent(stream, event))
    assert acl.aclrtSynchronizeStreamWithTimeout(stream, 50) == 507046
    ok(acl.aclrtRecordEvent(event, other))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))


@rule("S5.28")
def test_flag_event_stays_set_until_reset(stream: Any) -> None:
    event, first, second = recorded(flag_event(), stream), new_stream(), new_stream()
    for waiter in (first, second, first):
        ok(acl.aclrtStreamWaitEvent(waiter, event))
        ok(acl.aclrtSynchronizeStreamWithTimeout(waiter, 5000))
    ok(acl.aclrtResetEvent(event, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtStreamWaitEvent(first, event))
    assert acl.aclrtSynchronizeStreamWithTimeout(first, 50) == 507046
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStreamWithTimeout(first, 5000))


@rule("S5.29")
def test_waits_for_ex_events_that_are_not_queued(stream: Any) -> None:
    waiter = new_stream()
    ok(acl.aclrtStreamWaitEvent(waiter, ex_event()))
    assert query(waiter) == 0
    ok(acl.aclrtStreamWaitEvent(waiter, recorded(ex_event(), stream)))
    assert query(waiter) == 0
    own = ex_event()
    with gated(stream):
        ok(acl.aclrtRecordEvent(own, stream))
        ok(acl.aclrtStreamWaitEvent(stream, own))
        ok(acl.aclrtStreamWaitEvent(waiter, own))
        assert query(waiter) == 1
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    ok(acl.aclrtSynchronizeStreamWithTimeout(waiter, 5000))


@rule("S5.30")
def test_negative_wait_timeout(stream: Any) -> None:
    event = flag_event()
    gone = new_stream()
    ok(acl.aclrtDestroyStream(gone))
    wait = acl.aclrtStreamWaitEventWithTimeout
    assert [wait(stream, event, -1), wait(gone, event, -1), wait(stream, NULL, -5)] == [107000] * 3
    assert query(stream) == 0


@rule("S5.31")
def test_wait_timeout_zero_never_ends(stream: Any) -> None:
    event, other = flag_event(), new_stream()
    ok(acl.aclrtStreamWaitEventWithTimeout(stream, event, 0))
    assert acl.aclrtSynchronizeStreamWithTimeout(stream, 300) == 507046
    ok(acl.aclrtRecordEvent(event, other))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))


@rule("S5.32")
@pytest.mark.parametrize("chip", ["310P", "910"])
def test_wait_timeout_is_dropped(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, other, event = new_stream(), new_stream(), flag_event()
        ok(acl.aclrtStreamWaitEventWithTimeout(stream, event, 1))
        codes = [acl.aclrtSynchronizeStreamWithTimeout(stream, 1500)]
        ok(acl.aclrtRecordEvent(event, other))
        return [*codes, acl.aclrtSynchronizeStreamWithTimeout(stream, 5000)]

    assert rawabi.fresh_on(chip, body) == [507046, 0]


@rule("S5.33")
def test_reset_an_ex_event(stream: Any) -> None:
    event = recorded(ex_event(), stream)
    assert acl.aclrtResetEvent(event, stream) == 207000
    assert in_thread(lambda: acl.aclrtResetEvent(event, stream)) == 107002
    assert event_status(event) == 1


@rule("S5.34")
def test_reset_an_event_without_sync_bit(stream: Any) -> None:
    event = recorded(flag_event(TIME_LINE), stream)
    assert acl.aclrtResetEvent(event, stream) == 207000
    assert event_status(event) == 1


@rule("S5.35")
def test_reset_an_ipc_event(stream: Any) -> None:
    assert acl.aclrtResetEvent(ex_event(IPC), stream) == 207000
    assert query(stream) == 0


@rule("S5.36")
def test_reset_a_plain_event_on_950() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, event = new_stream(), plain_event()
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        new_context()
        other = new_stream()
        ok(acl.aclrtSetDevice(0))
        codes = [acl.aclrtResetEvent(event, other), acl.aclrtResetEvent(flag_event(), other)]
        codes.append(acl.aclrtStreamWaitEvent(stream, event))
        return codes, query(other), event_status(event)

    assert rawabi.fresh_on("950", body) == [[0, 107003, 0], 0, 1]


@rule("S5.37")
def test_query_event(stream: Any) -> None:
    for event in (plain_event(), flag_event(SYNC | PROGRESS)):
        with gated(stream):
            ok(acl.aclrtRecordEvent(event, stream))
            assert query_event(event) == acl.ACL_EVENT_STATUS_NOT_READY == NOT_READY
        ok(acl.aclrtSynchronizeEvent(event))
        assert query_event(event) == acl.ACL_EVENT_STATUS_COMPLETE == COMPLETE


@rule("S5.38")
def test_query_event_never_recorded(device: int) -> None:
    assert [query_event(plain_event()), query_event(flag_event())] == [COMPLETE, COMPLETE]


@rule("S5.39")
def test_query_event_of_other_kinds(device: int) -> None:
    status = ffi.new("aclrtEventStatus *", 77)
    for event in (ex_event(), flag_event(EXTERNAL), ex_event(IPC)):
        assert acl.aclrtQueryEvent(event, status) == 207000
    assert status[0] == 77


@rule("S5.40")
def test_recorded_status(stream: Any) -> None:
    for event in (plain_event(), flag_event(), ex_event()):
        with gated(stream):
            ok(acl.aclrtRecordEvent(event, stream))
            assert event_status(event) == acl.ACL_EVENT_RECORDED_STATUS_NOT_READY == 0
        ok(acl.aclrtSynchronizeEvent(event))
        assert event_status(event) == acl.ACL_EVENT_RECORDED_STATUS_COMPLETE == 1


@rule("S5.41")
def test_recorded_status_never_recorded(device: int) -> None:
    assert [event_status(each) for each in (ex_event(), plain_event(), flag_event())] == [1, 0, 0]


@rule("S5.42")
def test_status_of_an_external_event(device: int) -> None:
    event = flag_event(EXTERNAL)
    status, waits = ffi.new("aclrtEventRecordedStatus *"), ffi.new("aclrtEventWaitStatus *")
    assert acl.aclrtQueryEventStatus(event, status) == 207000
    assert acl.aclrtQueryEventWaitStatus(event, waits) == 207000


@rule("S5.43")
def test_wait_status_of_an_ipc_event(device: int) -> None:
    status = ffi.new("aclrtEventWaitStatus *", 77)
    assert acl.aclrtQueryEventWaitStatus(ex_event(IPC), status) == 207000
    assert status[0] == 77


@rule("S5.44")
def test_wait_status(stream: Any) -> None:
    event, other = flag_event(), new_stream()
    assert wait_status(event) == acl.ACL_EVENT_WAIT_STATUS_COMPLETE == 0
    ok(acl.aclrtStreamWaitEvent(stream, event))
    assert wait_status(event) == acl.ACL_EVENT_WAIT_STATUS_NOT_READY == 1
    ok(acl.aclrtRecordEvent(event, other))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    assert eventually(lambda: wait_status(event) == 0)


@rule("S5.45")
def test_wait_status_without_sync_bit(stream: Any) -> None:
    event = flag_event(TIME_LINE)
    with gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        assert wait_status(event) == 0


@rule("S5.46")
def test_wait_status_of_an_ex_event(stream: Any) -> None:
    event, status = recorded(ex_event(), stream), ffi.new("aclrtEventWaitStatus *", 77)
    assert acl.aclrtQueryEventWaitStatus(event, status) == 207000
    assert status[0] == 77


@rule("S5.47")
def test_synchronize_never_recorded(stream: Any) -> None:
    for event in (plain_event(), flag_event(), ex_event()):
        ok(acl.aclrtSynchronizeEvent(event))
    event, gate = plain_event(), Gate(stream)
    ok(acl.aclrtRecordEvent(event, stream))
    opener = threading.Timer(0.1, open_in_context(gate))
    opener.start()
    ok(acl.aclrtSynchronizeEvent(event))
    assert gate.is_open
    opener.join()


@rule("S5.48")
def test_synchronize_an_external_event(device: int) -> None:
    assert acl.aclrtSynchronizeEvent(flag_event(EXTERNAL)) == 207000


@rule("S5.50")
def test_event_calls_without_context(stream: Any) -> None:
    start, end = recorded(plain_event(), stream), recorded(plain_event(), stream)

    def elsewhere() -> list[Any]:
        assert rawabi.current_context() is None
        ok(acl.aclrtSynchronizeEvent(end))
        seen: list[Any] = [query_event(end), event_status(end), wait_status(end)]
        seen += [elapsed_ms(start, end) >= 0, time_stamp_us(end) >= time_stamp_us(start)]
        ok(acl.aclrtDestroyEvent(end))
        return seen

    assert in_thread(elsewhere) == [0, 1, 0, True, True]
    assert acl.aclrtDestroyEvent(end) == 107017


@rule("S5.52")
def test_synchronize_event_timeout_out_of_range(stream: Any) -> None:
    event, gone = recorded(plain_event(), stream), plain_event()
    ok(acl.aclrtDestroyEvent(gone))
    wait = acl.aclrtSynchronizeEventWithTimeout
    codes = [wait(event, 0), wait(event, -2), wait(NULL, -2), wait(gone, -2), wait(gone, 0)]
    assert codes == [107000, 107000, 107000, 107000, 107017]
    assert wait(NULL, 5) == 100000
    ok(wait(event, -1))
    ok(wait(event, 1))


@rule("S5.53")
@pytest.mark.wall_clock("the length of the wait is measured")
def test_synchronize_event_times_out(stream: Any) -> None:
    event = plain_event()
    with gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        start = time.monotonic()
        assert acl.aclrtSynchronizeEventWithTimeout(event, 100) == 507047
        assert 0.09 <= time.monotonic() - start < 5
    ok(acl.aclrtSynchronizeEventWithTimeout(event, 5000))


def _pause(seconds: float) -> Callable[..., None]:
    @ffi.callback("void(void *)")
    def pause(_: Any) -> None:
        time.sleep(seconds)

    return pause


@rule("S5.54")
@pytest.mark.wall_clock("a host function sleeps")
def test_elapsed_time(stream: Any) -> None:
    start, end, pause = plain_event(), plain_event(), _pause(0.05)
    ok(acl.aclrtRecordEvent(start, stream))
    ok(acl.aclrtLaunchHostFunc(stream, pause, NULL))
    recorded(end, stream)
    assert 40 < elapsed_ms(start, end) < 5000
    assert elapsed_ms(end, start) == -elapsed_ms(start, end)


@rule("S5.55")
@pytest.mark.wall_clock("the host sleeps between the records")
def test_reversed_elapsed_time_on_950() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, start, end = new_stream(), plain_event(), plain_event()
        ok(acl.aclrtRecordEvent(start, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        time.sleep(0.01)
        ok(acl.aclrtRecordEvent(end, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        out = ffi.new("float *")
        forward = acl.aclrtEventElapsedTime(out, start, end), out[0]
        return forward, (acl.aclrtEventElapsedTime(out, end, start), out[0])

    forward, backward = rawabi.fresh_on("950", body)
    assert forward[0] == 0 and 5 < forward[1] < 20000
    assert backward[0] == 0 and backward[1] > 1e9


@rule("S5.56")
def test_elapsed_time_never_recorded(stream: Any) -> None:
    event, never, out = recorded(plain_event(), stream), plain_event(), ffi.new("float *", 77)
    assert acl.aclrtEventElapsedTime(out, event, never) == 507000
    assert acl.aclrtEventElapsedTime(out, never, event) == 507000
    assert out[0] == 77


@rule("S5.57")
def test_elapsed_time_not_finished(stream: Any) -> None:
    start, end, out = plain_event(), plain_event(), ffi.new("float *", 77)
    recorded(start, stream)
    with gated(stream):
        ok(acl.aclrtRecordEvent(end, stream))
        assert acl.aclrtEventElapsedTime(out, start, end) == 107006
        assert out[0] == 77
    ok(acl.aclrtSynchronizeStream(stream))
    assert elapsed_ms(start, end) >= 0


@rule("S5.58")
def test_elapsed_time_not_finished_on_950() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, start, end = new_stream(), plain_event(), plain_event()
        ok(acl.aclrtRecordEvent(start, stream))
        ok(acl.aclrtSynchronizeStream(stream))
        gate = Gate(stream)
        ok(acl.aclrtRecordEvent(end, stream))
        out = ffi.new("float *")
        codes = [acl.aclrtEventElapsedTime(out, start, end)]
        never = plain_event()
        codes.append(acl.aclrtEventElapsedTime(out, start, never))
        gate.open()
        return codes, event_status(start)

    assert rawabi.fresh_on("950", body) == [[0, 507000], 1]


def elapsed_without_time_line() -> Any:
    ok(acl.aclrtSetDevice(0))
    stream, start, end = new_stream(), flag_event(), flag_event()
    ok(acl.aclrtRecordEvent(start, stream))
    ok(acl.aclrtRecordEvent(end, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    out = ffi.new("float *", 7777.0)
    return acl.aclrtEventElapsedTime(out, start, end), out[0]


@rule("S5.59")
@pytest.mark.parametrize("chip", ["310P", "910"])
def test_elapsed_time_without_time_line_on_older_chips(chip: str) -> None:
    assert rawabi.fresh_on(chip, elapsed_without_time_line) == [107006, 7777.0]


@guess
@rule("S5.60")
@pytest.mark.parametrize("chip", ["A2", "A3", "310B", "950"])
def test_elapsed_time_without_time_line(chip: str) -> None:
    code, figure = rawabi.fresh_on(chip, elapsed_without_time_line)
    assert code == 0 and figure != 7777.0


@rule("S5.61")
def test_elapsed_time_of_other_kinds(stream: Any) -> None:
    event, out = recorded(plain_event(), stream), ffi.new("float *", 77)
    for other in (flag_event(EXTERNAL), ex_event(IPC)):
        assert acl.aclrtEventElapsedTime(out, event, other) == 207000
        assert acl.aclrtEventElapsedTime(out, other, event) == 207000
    assert out[0] == 77


@rule("S5.62")
def test_elapsed_time_null(stream: Any) -> None:
    event, out = recorded(plain_event(), stream), ffi.new("float *", 77)
    assert acl.aclrtEventElapsedTime(NULL, event, event) == 100000
    assert acl.aclrtEventElapsedTime(out, NULL, event) == 100000
    assert acl.aclrtEventElapsedTime(out, event, NULL) == 100000
    assert out[0] == 77


@rule("S5.63")
def test_time_stamp_never_recorded(device: int) -> None:
    out = ffi.new("uint64_t *", 77)
    assert (acl.aclrtEventGetTimestamp(plain_event(), out), out[0]) == (507000, 77)


@rule("S5.64")
def test_time_stamp_not_finished() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream, event = new_stream(), plain_event()
        gate = Gate(stream)
        ok(acl.aclrtRecordEvent(event, stream))
        out = ffi.new("uint64_t *", 77)
        answer = acl.aclrtEventGetTimestamp(event, out), out[0]
        gate.open()
        return answer

    if rawabi.emulated():
        assert rawabi.fresh_on("950", body) == [107006, 77]
    assert rawabi.run_fresh(body) == [107006, 77]


@rule("S5.65")
@pytest.mark.wall_clock("the host sleeps between the records")
def test_time_stamp(stream: Any) -> None:
    start, end, pause = plain_event(), plain_event(), _pause(0.02)
    ok(acl.aclrtRecordEvent(start, stream))
    ok(acl.aclrtLaunchHostFunc(stream, pause, NULL))
    recorded(end, stream)
    difference_us = time_stamp_us(end) - time_stamp_us(start)
    assert difference_us > 15000
    assert abs(difference_us - elapsed_ms(start, end) * 1000) < 100
    assert new_context() != NULL
