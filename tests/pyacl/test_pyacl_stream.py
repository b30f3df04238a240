"""Effects of `acl.rt`: streams, events, callbacks, exceptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aclchild import Child, ok
from acleffects import Recorder, shows
from devicebytes import read

NOT_BLOCKING, BLOCKING = 0, 1
NOT_SUBSCRIBED = 107015
SYNC, TIME_LINE = 1, 8


@shows("rt.create_stream", "rt.destroy_stream", "rt.destroy_stream_force", "rt.stream_get_id",
       "rt.get_stream_available_num", "rt.stream_query")  # fmt: skip
def test_streams(acl: Recorder, device: int) -> None:
    before = ok(acl.rt.get_stream_available_num())
    first, second = ok(acl.rt.create_stream()), ok(acl.rt.create_stream(1, "ignored"))
    assert ok(acl.rt.stream_get_id(first)) != ok(acl.rt.stream_get_id(second))
    assert ok(acl.rt.get_stream_available_num()) == before - 2
    assert acl.rt.stream_query(first) == (0, 0)
    assert [acl.rt.destroy_stream(first), acl.rt.destroy_stream_force(second)] == [0, 0]
    assert acl.rt.stream_query(first)[1] != 0
    assert ok(acl.rt.get_stream_available_num()) == before


@shows("rt.set_stream_overflow_switch", "rt.get_stream_overflow_switch", "rt.set_stream_attribute",
       "rt.get_stream_attribute")  # fmt: skip
def test_settings_of_a_stream(acl: Recorder, stream: int) -> None:
    for value in (1, 0):
        assert acl.rt.set_stream_overflow_switch(stream, value) == 0
        assert acl.rt.get_stream_overflow_switch(stream) == (value, 0)
    user_tag = 3
    assert acl.rt.set_stream_attribute(stream, user_tag, {"userCustomTag": 77}) == 0
    found = ok(acl.rt.get_stream_attribute(stream, user_tag))
    assert found["userCustomTag"] == 77
    assert set(found) == {"failureMode", "overflowSwitch", "userCustomTag", "reserved"}
    assert acl.rt.set_stream_attribute(stream, 4711, {}) != 0


@shows("rt.set_stream_failure_mode")
def test_failure_mode(acl: Recorder, stream: int) -> None:
    gone = ok(acl.rt.create_stream())
    assert acl.rt.destroy_stream(gone) == 0
    assert acl.rt.set_stream_failure_mode(stream, 1) == 0
    assert acl.rt.set_stream_failure_mode(gone, 1) != 0


@shows("rt.create_event", "rt.destroy_event", "rt.record_event", "rt.reset_event",
       "rt.query_event", "rt.query_event_status", "rt.query_event_wait_status",
       "rt.synchronize_event", "rt.synchronize_event_with_timeout")  # fmt: skip
def test_events(acl: Recorder, stream: int) -> None:
    event = ok(acl.rt.create_event())
    with held(acl, stream):
        assert acl.rt.record_event(event, stream) == 0
        # The two queries use opposite values: 0 is complete for one, 1 for the other.
        assert (acl.rt.query_event(event), acl.rt.query_event_status(event)) == ((1, 0), (0, 0))
        assert acl.rt.synchronize_event_with_timeout(event, 10) != 0
    assert acl.rt.synchronize_event(event) == 0
    assert acl.rt.synchronize_event_with_timeout(event, 10) == 0
    assert (acl.rt.query_event(event), acl.rt.query_event_status(event)) == ((0, 0), (1, 0))
    assert acl.rt.query_event_wait_status(event)[1] == 0
    assert acl.rt.reset_event(event, stream) == 0
    assert acl.rt.destroy_event(event) == 0
    assert acl.rt.destroy_event(event) != 0


@shows("rt.stream_wait_event", "rt.create_event_with_flag", "rt.get_event_id",
       "rt.get_event_avail_num")  # fmt: skip
def test_a_stream_waits_for_an_event(acl: Recorder, stream: int, block: int) -> None:
    available = ok(acl.rt.get_event_avail_num())
    event, other = ok(acl.rt.create_event_with_flag(SYNC)), ok(acl.rt.create_stream())
    assert available >= ok(acl.rt.get_event_avail_num())
    assert acl.rt.get_event_id(event)[1] == 0
    with held(acl, stream):
        assert acl.rt.record_event(event, stream) == 0
        assert acl.rt.stream_wait_event(other, event) == 0
        assert acl.rt.memset_async(block, 64, 0x43, 4, other) == 0
        assert acl.rt.synchronize_stream_with_timeout(other, 20) != 0
        assert read(acl, block, 4) == bytes(4)
    assert acl.rt.synchronize_stream(other) == 0
    assert read(acl, block, 4) == b"CCCC"


@shows("rt.value_write", "rt.value_wait")
def test_streams_wait_for_values(acl: Recorder, stream: int, block: int) -> None:
    other, equal = ok(acl.rt.create_stream()), 1
    assert acl.rt.value_wait(block, 2**63 + 5, equal, stream) == 0
    assert acl.rt.memset_async(block + 64, 64, 0x45, 4, stream) == 0
    assert acl.rt.synchronize_stream_with_timeout(stream, 20) != 0
    assert acl.rt.value_write(block, 2**63 + 5, 0, other) == 0
    assert acl.rt.synchronize_stream_with_timeout(stream, 20000) == 0
    assert read(acl, block, 8) == (2**63 + 5).to_bytes(8, "little")
    assert read(acl, block + 64, 4) == b"EEEE"
    assert acl.rt.value_write(block, 1, 7, stream) != 0


@shows("rt.event_elapsed_time", "rt.event_get_timestamp", "rt.create_event_with_flag",
       "rt.create_event_ex_with_flag")  # fmt: skip
def test_time_between_events(acl: Recorder, stream: int) -> None:
    first, second = (ok(acl.rt.create_event_with_flag(TIME_LINE)) for _ in range(2))
    assert ok(acl.rt.create_event_ex_with_flag(SYNC)) not in (0, first, second)
    assert acl.rt.create_event_with_flag(0)[1] != 0
    assert acl.rt.record_event(first, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    time.sleep(0.05)
    assert acl.rt.record_event(second, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    elapsed_ms = ok(acl.rt.event_elapsed_time(first, second))
    begin, end = (ok(acl.rt.event_get_timestamp(each)) for each in (first, second))
    assert 45 < elapsed_ms < 5000
    assert abs((end - begin) / 1000 - elapsed_ms) < 5


class Reporter:
    """A thread of util.start_thread that serves callbacks until it is told to stop."""

    def __init__(self, acl: Recorder) -> None:
        self.acl, self.end, self.codes = acl, False, set[int]()
        self.context = acl.rt.get_context()[0]
        self.thread, code = acl.util.start_thread(self.serve, "an argument")
        assert code == 0

    def serve(self, argument: str) -> None:
        assert argument == "an argument"
        self.acl.rt.set_context(self.context)
        while not self.end:
            self.codes.add(self.acl.rt.process_report(50))

    def stop(self) -> int:
        self.end = True
        code: int = self.acl.util.stop_thread(self.thread)
        return code


@pytest.fixture
def reporter(acl: Recorder, device: int) -> Iterator[Reporter]:
    made = Reporter(acl)
    yield made
    made.end = True


@contextmanager
def held(acl: Recorder, stream: int) -> Iterator[None]:
    """Inside, the stream stands still: a callback that blocks it waits."""
    reporter, gate = Reporter(acl), threading.Event()
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    assert acl.rt.launch_callback(lambda _: gate.wait(20), None, BLOCKING, stream) == 0
    try:
        yield
    finally:
        gate.set()
        acl.rt.synchronize_stream(stream)
        acl.rt.unsubscribe_report(reporter.thread, stream)
        reporter.stop()


@shows("rt.launch_callback", "rt.subscribe_report", "rt.unsubscribe_report", "rt.process_report",
       "util.start_thread", "util.stop_thread")  # fmt: skip
def test_callbacks_in_the_usual_pattern(acl: Recorder, stream: int, reporter: Reporter) -> None:
    seen: list[tuple[Any, int]] = []

    def note(data: Any) -> None:
        seen.append((data, threading.get_ident()))

    assert acl.rt.launch_callback(note, 0, NOT_BLOCKING, stream) == NOT_SUBSCRIBED
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    for number in range(5):
        assert acl.rt.launch_callback(note, ["data", number], BLOCKING, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert seen == [(["data", number], reporter.thread) for number in range(5)]
    assert acl.rt.unsubscribe_report(reporter.thread, stream) == 0
    assert acl.rt.launch_callback(note, 0, NOT_BLOCKING, stream) == NOT_SUBSCRIBED
    assert reporter.stop() == 0
    assert 0 in reporter.codes
    assert len(seen) == 5


@shows("rt.launch_callback", "rt.process_report")
def test_a_thread_of_python_serves_as_well(acl: Recorder, stream: int) -> None:
    seen: list[Any] = []
    context, ready, end = acl.rt.get_context()[0], threading.Event(), threading.Event()

    def serve() -> None:
        acl.rt.set_context(context)
        ready.set()
        while not end.is_set():
            acl.rt.process_report(20)

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    assert acl.rt.subscribe_report(thread.ident, stream) == 0
    assert acl.rt.launch_callback(seen.append, "x", BLOCKING, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.unsubscribe_report(thread.ident, stream) == 0
    end.set()
    thread.join()
    assert seen == ["x"]


@shows("rt.launch_callback")
def test_an_exception_in_a_callback_is_reported_and_lost(
    acl: Recorder, stream: int, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: lost.append(report.exc_value))
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    assert acl.rt.launch_callback(lambda _: 1 / 0, None, BLOCKING, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    acl.rt.unsubscribe_report(reporter.thread, stream)
    assert [type(error) for error in lost] == [ZeroDivisionError]


@shows("rt.launch_callback", "rt.memset_async")
def test_a_full_stream_waits_without_the_gil(
    acl: Recorder, stream: int, block: int, reporter: Reporter
) -> None:
    """The submitting thread waits for room, which only a callback of Python can make."""
    import sys

    gate, ran, submitted = threading.Event(), [], 0
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    assert acl.rt.launch_callback(lambda _: ran.append(gate.wait(20)), 0, BLOCKING, stream) == 0
    threading.Timer(0.3, gate.set).start()
    sys.setswitchinterval(0.0005)
    end = time.monotonic() + 20
    while not ran and time.monotonic() < end:
        assert acl.rt.memset_async(block, 64, 1, 1, stream) == 0
        submitted += 1
    sys.setswitchinterval(0.005)
    assert ran == [True] and submitted > 1000
    assert acl.rt.synchronize_stream(stream) == 0
    acl.rt.unsubscribe_report(reporter.thread, stream)


WAITS: dict[str, Callable[[Any, int, int], Any]] = {
    "rt.synchronize_stream": lambda acl, stream, event: acl.rt.synchronize_stream(stream),
    "rt.synchronize_stream_with_timeout": lambda acl, stream, event: (
        acl.rt.synchronize_stream_with_timeout(stream, 20000)
    ),
    "rt.synchronize_device": lambda acl, stream, event: acl.rt.synchronize_device(),
    "rt.synchronize_device_with_timeout": lambda acl, stream, event: (
        acl.rt.synchronize_device_with_timeout(20000)
    ),
    "rt.synchronize_event": lambda acl, stream, event: acl.rt.synchronize_event(event),
    "rt.synchronize_event_with_timeout": lambda acl, stream, event: (
        acl.rt.synchronize_event_with_timeout(event, 20000)
    ),
}


@shows("rt.synchronize_stream", "rt.synchronize_stream_with_timeout", "rt.synchronize_device",
       "rt.synchronize_device_with_timeout", "rt.synchronize_event",
       "rt.synchronize_event_with_timeout")  # fmt: skip
def test_waits_end_with_a_callback_of_python(
    acl: Recorder, stream: int, reporter: Reporter
) -> None:
    event = ok(acl.rt.create_event())
    assert acl.rt.subscribe_report(reporter.thread, stream) == 0
    for name, wait in WAITS.items():
        ran: list[float] = []
        acl.rt.launch_callback(
            lambda _, ran=ran: (time.sleep(0.05), ran.append(1)), 0, BLOCKING, stream
        )
        assert acl.rt.record_event(event, stream) == 0
        assert wait(acl, stream, event) == 0, name
        assert ran == [1], name
    acl.rt.unsubscribe_report(reporter.thread, stream)


@shows("rt.stream_abort")
def test_abort_drops_what_is_queued(acl: Recorder, stream: int, block: int) -> None:
    with held(acl, stream):
        assert acl.rt.memset_async(block, 64, 0x44, 4, stream) == 0
        assert acl.rt.stream_abort(stream) == 0
    assert read(acl, block, 4) == bytes(4)


@shows("rt.set_op_wait_timeout")
def test_limit_of_a_wait(child: Child) -> None:
    answer = child("""
        acl.init(); acl.rt.set_device(0)
        answer = [acl.rt.set_op_wait_timeout(1)]
        first, second = acl.rt.create_stream()[0], acl.rt.create_stream()[0]
        event = acl.rt.create_event()[0]
        import threading
        gate, ready, end = threading.Event(), threading.Event(), threading.Event()
        context = acl.rt.get_context()[0]
        def serve():
            acl.rt.set_context(context); ready.set()
            while not end.is_set(): acl.rt.process_report(20)
        thread = threading.Thread(target=serve); thread.start(); ready.wait()
        acl.rt.subscribe_report(thread.ident, first)
        acl.rt.launch_callback(lambda _: gate.wait(20), 0, 1, first)
        acl.rt.record_event(event, first)
        acl.rt.stream_wait_event(second, event)
        answer.append(acl.rt.synchronize_stream_with_timeout(second, 15000))
        gate.set(); acl.rt.synchronize_stream(first)
        acl.rt.unsubscribe_report(thread.ident, first)
        end.set(); thread.join()
    """)
    assert answer[0] == 0 and answer[1] not in (0, 507046)


@shows("util.start_thread", "util.stop_thread")
def test_threads(acl: Recorder) -> None:
    seen: list[Any] = []
    first, _ = acl.util.start_thread(lambda: seen.append("none"), None)
    assert acl.util.stop_thread(first) == 0
    second, _ = acl.util.start_thread(seen.append, (1, 2))
    assert acl.util.stop_thread(second) == 0
    assert seen == ["none", (1, 2)]
    third, _ = acl.util.start_thread(lambda: 1 / 0, None)
    with pytest.raises(RuntimeError, match="division by zero"):
        acl.util.stop_thread(third)
    assert acl.util.stop_thread(third) != 0


@shows("rt.set_exception_info_callback", "rt.get_error_code_from_exception_info",
       "rt.get_task_id_from_exception_info", "rt.get_stream_id_from_exception_info",
       "rt.get_thread_id_from_exception_info", "rt.get_device_id_from_exception_info",
       "rt.get_thread_last_task_id")  # fmt: skip
def test_exceptions_of_tasks(acl: Recorder, stream: int, block: int) -> None:
    seen: list[tuple[int, ...]] = []

    def note(info: int) -> None:
        seen.append((
            acl.rt.get_error_code_from_exception_info(info),
            acl.rt.get_task_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_thread_id_from_exception_info(info),
            acl.rt.get_device_id_from_exception_info(info),
        ))  # fmt: skip

    assert acl.rt.set_exception_info_callback(note) == 0
    acl.rt.memset_async(block, 64, 1, 64, stream)
    target = ok(acl.rt.malloc(64, 0))
    with held(acl, stream):
        acl.rt.memcpy_async(target, 64, block, 64, 3, stream)
        last = ok(acl.rt.get_thread_last_task_id())
        acl.rt.free(target)
    assert acl.rt.set_exception_info_callback() == 0
    assert acl.rt.set_exception_info_callback(None) == 0
    assert len(seen) == 1 and seen[0][0] > 500000 and seen[0][1] == last > 0
    assert seen[0][3] == threading.get_native_id()
    assert seen[0][2] == ok(acl.rt.stream_get_id(stream)) and seen[0][4] == 0
