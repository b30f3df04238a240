"""Callbacks, host functions and exception information (section 7)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    Worker,
    acl,
    ffi,
    fresh_devices,
    gated,
    in_thread,
    mark_host_memory,
    new_context,
    new_stream,
    ok,
    query,
    read,
)

rule = pytest.mark.rule
NO_BLOCK, BLOCK = 0, 1
NOTE_BYTES = 8


class Notes:
    """A callback that notes the number in its user data and the thread that ran it."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.threads: list[int] = []
        self.function = ffi.callback("void(void *)", self._run)

    def _run(self, user_data: Any) -> None:
        self.seen.append(rawabi.address(user_data))
        self.threads.append(threading.get_ident())

    def data(self, number: int) -> Any:
        return rawabi.foreign(number)


def subscribe(worker: Worker, stream: Any) -> int:
    return int(acl.aclrtSubscribeReport(worker.ident, stream))


def launch(notes: Notes, number: int, stream: Any, block: int = NO_BLOCK) -> int:
    return int(acl.aclrtLaunchCallback(notes.function, notes.data(number), block, stream))


def process(worker: Worker, timeout_ms: int = 3000) -> int:
    return int(worker.run(lambda: acl.aclrtProcessReport(timeout_ms)))


@contextmanager
def subscribed(worker: Worker, stream: Any) -> Iterator[None]:
    """Inside, the callbacks of the stream run on the worker."""
    ok(subscribe(worker, stream))
    try:
        yield
    finally:
        acl.aclrtUnSubscribeReport(worker.ident, stream)


@rule("S7.1")
def test_subscribe_the_default_stream(device: int, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, NULL):
        ok(launch(notes, 1, NULL))
        ok(acl.aclrtSynchronizeStreamWithTimeout(NULL, 5000))
        ok(process(worker))
        assert notes.seen == [1]


@rule("S7.2")
@pytest.mark.parametrize("chip", ["A2", "A3", "950", "310B"])
def test_subscribe_without_context(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        stream = new_stream()
        code = in_thread(lambda: acl.aclrtSubscribeReport(threading.get_ident(), stream))
        return code, acl.aclrtSubscribeReport(threading.get_ident(), stream)

    assert rawabi.fresh_on(chip, body) == [107002, 0]


@rule("S7.3")
def test_subscribe_twice(stream: Any, worker: Worker) -> None:
    with subscribed(worker, stream):
        assert subscribe(worker, stream) == 107011
        assert acl.aclrtSubscribeReport(threading.get_ident(), stream) == 107011
        notes = Notes()
        ok(launch(notes, 1, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        ok(process(worker))
        assert notes.threads == [worker.ident]


@rule("S7.4")
def test_subscribe_after_a_host_function(stream: Any, pinned: Any, worker: Worker) -> None:
    ok(acl.aclrtLaunchHostFunc(stream, mark_host_memory, pinned))
    ok(acl.aclrtSynchronizeStream(stream))
    assert subscribe(worker, stream) == 107011
    assert bytes(ffi.buffer(pinned, NOTE_BYTES)) == b"was here"


@rule("S7.5")
def test_subscribe_a_thread_of_another_device() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        first = new_stream()
        ok(acl.aclrtSetDevice(1))
        second = new_stream()
        me = threading.get_ident()
        ok(acl.aclrtSetDevice(0))
        codes = [acl.aclrtSubscribeReport(me, first)]
        ok(acl.aclrtSetDevice(1))
        codes.append(acl.aclrtSubscribeReport(me, second))
        return codes

    assert fresh_devices(2, body) == [0, 107012]


@rule("S7.6")
def test_one_thread_serves_many_streams(device: int, worker: Worker) -> None:
    notes, streams = Notes(), [new_stream() for _ in range(4)]
    for stream in streams:
        ok(subscribe(worker, stream))
    for number, stream in enumerate(streams):
        ok(launch(notes, number + 1, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    while len(notes.seen) < len(streams):
        ok(process(worker))
    assert sorted(notes.seen) == [1, 2, 3, 4]
    assert set(notes.threads) == {worker.ident}
    for stream in streams:
        ok(acl.aclrtUnSubscribeReport(worker.ident, stream))


@rule("S7.7")
def test_too_many_threads() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        streams = [new_stream() for _ in range(1026)]
        codes = [acl.aclrtSubscribeReport(1 + n, stream) for n, stream in enumerate(streams)]
        ok(acl.aclrtUnSubscribeReport(1, streams[0]))
        return set(codes[:1024]) == {0}, codes[1024:], acl.aclrtSubscribeReport(9999, streams[0])

    assert rawabi.run_fresh(body) == [True, [507000, 507000], 0]


@rule("S7.8")
def test_thread_id_is_that_of_pthread_self(stream: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        ok(launch(notes, 1, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        assert acl.aclrtProcessReport(50) == 107012
        assert notes.seen == []
        ok(process(worker))
        assert notes.threads == [worker.ident]


@rule("S7.9")
def test_launch_with_a_bad_block_type(stream: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        assert launch(notes, 1, stream, 2) == 100000
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        assert process(worker, 30) == 507012
        assert notes.seen == []


@rule("S7.10")
def test_launch_null(stream: Any, worker: Worker) -> None:
    with subscribed(worker, stream):
        assert acl.aclrtLaunchCallback(NULL, NULL, NO_BLOCK, stream) == 107000
        assert process(worker, 30) == 507012


@rule("S7.11")
def test_launch_without_subscription(stream: Any, other_stream: Any) -> None:
    notes = Notes()
    assert launch(notes, 1, stream) == 107015
    assert launch(notes, 1, other_stream) == 107003
    ok(acl.aclrtSynchronizeStream(stream))
    assert notes.seen == []


@rule("S7.12")
def test_launch_after_a_host_function(stream: Any, pinned: Any) -> None:
    notes = Notes()
    ok(acl.aclrtLaunchHostFunc(stream, mark_host_memory, pinned))
    assert launch(notes, 1, stream) == 107011
    ok(acl.aclrtSynchronizeStream(stream))
    assert notes.seen == []


@rule("S7.13")
def test_callback_that_does_not_block(stream: Any, block: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        ok(launch(notes, 1, stream, NO_BLOCK))
        ok(acl.aclrtMemsetAsync(block, 8, 0x5A, 8, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        assert read(block, 8) == b"\x5a" * 8
        assert notes.seen == []
        ok(process(worker))
        assert notes.seen == [1]


@rule("S7.14")
def test_callback_that_blocks(stream: Any, block: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        ok(launch(notes, 1, stream, BLOCK))
        ok(acl.aclrtMemsetAsync(block, 8, 0x5A, 8, stream))
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 50) == 507046
        assert (read(block, 8), notes.seen) == (bytes(8), [])
        ok(process(worker))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        assert (read(block, 8), notes.seen) == (b"\x5a" * 8, [1])


@rule("S7.15")
def test_process_timeout(stream: Any, worker: Worker) -> None:
    with subscribed(worker, stream):
        assert [process(worker, each) for each in (0, -2)] == [100000, 100000]
    assert [acl.aclrtProcessReport(each) for each in (0, -2)] == [100000, 100000]


@rule("S7.16")
def test_process_without_subscription(device: int) -> None:
    assert [acl.aclrtProcessReport(each) for each in (50, -1)] == [107012, 107012]


@rule("S7.17")
def test_nothing_to_process(stream: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        assert process(worker, 50) == 507012
        with gated(stream):
            ok(launch(notes, 1, stream))
            assert process(worker, 50) == 507012
        ok(process(worker))
    assert notes.seen == [1]


@rule("S7.18")
def test_process_runs_all_that_is_pending(stream: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        for number in (1, 2, 3):
            ok(launch(notes, number, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        ok(process(worker))
        assert notes.seen == [1, 2, 3]
        assert set(notes.threads) == {worker.ident}
        assert process(worker, 30) == 507012


@rule("S7.19")
def test_unsubscribe_without_subscription(stream: Any, worker: Worker) -> None:
    assert acl.aclrtUnSubscribeReport(worker.ident, stream) == 107011
    ok(subscribe(worker, stream))
    ok(acl.aclrtUnSubscribeReport(worker.ident, stream))
    assert acl.aclrtUnSubscribeReport(worker.ident, stream) == 107011
    assert launch(Notes(), 1, stream) == 107015


@rule("S7.20")
def test_unsubscribe_another_thread(stream: Any, worker: Worker) -> None:
    notes = Notes()
    with subscribed(worker, stream):
        assert acl.aclrtUnSubscribeReport(threading.get_ident(), stream) == 107012
        ok(launch(notes, 1, stream))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        ok(process(worker))
    assert notes.seen == [1]


@rule("S7.21")
def test_host_function_null(stream: Any) -> None:
    assert acl.aclrtLaunchHostFunc(stream, NULL, NULL) == 107000
    assert query(stream) == 0


@rule("S7.22")
def test_host_function_under_subscription(stream: Any, pinned: Any, worker: Worker) -> None:
    with subscribed(worker, stream):
        assert acl.aclrtLaunchHostFunc(stream, mark_host_memory, pinned) == 107011
        ok(acl.aclrtSynchronizeStream(stream))
        assert bytes(ffi.buffer(pinned, NOTE_BYTES)) == bytes(NOTE_BYTES)


@rule("S7.23")
def test_host_functions_run_on_one_thread_and_block(device: int, block: Any) -> None:
    notes, release = Notes(), threading.Event()
    streams = [new_stream(), new_stream()]

    @ffi.callback("void(void *)")
    def wait(_: Any) -> None:
        release.wait(rawabi.WAIT_S)

    ok(acl.aclrtLaunchHostFunc(streams[0], wait, NULL))
    ok(acl.aclrtMemsetAsync(block, 8, 0x5A, 8, streams[0]))
    blocked = acl.aclrtSynchronizeStreamWithTimeout(streams[0], 50), read(block, 8)
    release.set()
    assert blocked == (507046, bytes(8))
    for stream in streams:
        ok(acl.aclrtLaunchHostFunc(stream, notes.function, notes.data(1)))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    assert read(block, 8) == b"\x5a" * 8
    first = notes.threads[0]
    assert notes.threads == [first, first] and first != threading.get_ident()
    new_context()
    ok(acl.aclrtLaunchHostFunc(NULL, notes.function, notes.data(1)))
    ok(acl.aclrtSynchronizeStreamWithTimeout(NULL, 5000))
    assert len(notes.threads) == 3 and notes.threads[2] != first


class Exceptions:
    """A callback for failed tasks that counts its calls."""

    def __init__(self) -> None:
        self.count = 0
        self.function = ffi.callback("void(aclrtExceptionInfo *)", self._run)

    def _run(self, _: Any) -> None:
        self.count += 1

    def calls(self, block: Any) -> int:
        """Make a task fail; return how often the callback ran."""
        before, stream, gone = self.count, new_stream(), rawabi.malloc(64)
        with gated(stream):
            ok(acl.aclrtMemcpyAsync(block, 64, gone, 64, 3, stream))
            ok(acl.aclrtFree(gone))
        assert acl.aclrtSynchronizeStream(stream) != 0
        ok(acl.aclrtDestroyStream(stream))
        return self.count - before


@rule("S7.25")
@pytest.mark.emulator
def test_exception_callback_slot(block: Any) -> None:
    first, second = Exceptions(), Exceptions()
    ok(acl.aclrtSetExceptionInfoCallback(first.function))
    assert first.calls(block) == 1
    ok(acl.aclrtSetExceptionInfoCallback(second.function))
    assert (second.calls(block), first.count) == (1, 1)
    ok(acl.aclrtSetExceptionInfoCallback(NULL))
    assert (first.calls(block), second.count) == (0, 1)


@rule("S7.26")
def test_register_null_exception_callback(device: int) -> None:
    assert acl.aclrtExceptionInfoCallbackRegister(NULL) == 107000
    assert acl.aclrtExceptionInfoCallbackUnregister(NULL) == 107000


@rule("S7.27")
@pytest.mark.emulator
def test_register_exception_callbacks(block: Any) -> None:
    first = Exceptions()
    ok(acl.aclrtExceptionInfoCallbackRegister(first.function))
    ok(acl.aclrtExceptionInfoCallbackRegister(first.function))
    assert first.calls(block) == 1
    ok(acl.aclrtExceptionInfoCallbackUnregister(first.function))
    assert first.calls(block) == 0
    ok(acl.aclrtExceptionInfoCallbackUnregister(first.function))


@rule("S7.28")
@pytest.mark.parametrize("what", ["TaskId", "StreamId", "ThreadId", "DeviceId", "ErrorCode"])
def test_null_exception_info(what: str) -> None:
    name = f"aclrtGet{what}FromExceptionInfo"
    if not rawabi.has(name):
        pytest.skip(f"{name} is not implemented")
    assert getattr(acl, name)(NULL) == 0xFFFFFFFF


@rule("S7.29")
def test_last_task_of_null() -> None:
    assert acl.aclrtGetThreadLastTaskId(NULL) == 100000


@rule("S7.30")
def test_last_task_of_a_thread(stream: Any, block: Any) -> None:
    def last() -> int:
        out = ffi.new("uint32_t *", 77)
        ok(acl.aclrtGetThreadLastTaskId(out))
        return int(out[0])

    for _ in range(2):
        ok(acl.aclrtMemsetAsync(block, 64, 1, 64, stream))
    first = last()
    ok(acl.aclrtMemsetAsync(block, 64, 1, 64, stream))
    assert last() == first + 1 > 1
    assert rawabi.in_thread(last) == 0
    ok(acl.aclrtSynchronizeStream(stream))
