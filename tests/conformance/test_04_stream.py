"""Streams (section 4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import rawabi
from peer import Peer, hear, say
from rawabi import (
    NULL,
    Gate,
    acl,
    current_context,
    ffi,
    gated,
    in_thread,
    made,
    malloc,
    new_context,
    new_stream,
    ok,
    open_in_context,
    query,
    read,
    run_fresh,
    write,
)

rule = pytest.mark.rule
STREAM_LIMITS = [
    ("A2", 1984), ("A3", 1984), ("950", 1984), ("310B", 512), ("310P", 1024), ("910", 2048),
]  # fmt: skip
SPECIAL_FLAGS = ["ACL_STREAM_PERSISTENT", "ACL_STREAM_CPU_SCHEDULE", "ACL_STREAM_DEVICE_USE_ONLY"]


def configured_stream(priority: int, flag: int) -> Any:
    return made("aclrtCreateStreamWithConfig", priority, flag)


def priority_of(stream: Any) -> int:
    out = ffi.new("uint32_t *", 77)
    ok(acl.aclrtStreamGetPriority(stream, out))
    return int(out[0])


def id_of(stream: Any) -> int:
    out = ffi.new("int32_t *", -77)
    ok(acl.aclrtStreamGetId(stream, out))
    return int(out[0])


@rule("S4.1")
def test_create_null(device: int) -> None:
    assert acl.aclrtCreateStream(NULL) == 100000


@rule("S4.2")
def test_create_without_context() -> None:
    out = ffi.new("void **")
    assert acl.aclrtCreateStream(out) == 107002
    assert out[0] == NULL


@rule("S4.3")
def test_create(device: int) -> None:
    stream = new_stream()
    if rawabi.has("aclrtStreamGetPriority"):
        assert priority_of(stream) == 0
    assert query(stream) == 0
    explicit = new_context()
    assert acl.aclrtDestroyStream(stream) == 107003
    mine = new_stream()
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtDestroyStream(mine) == 107003
    ok(acl.aclrtDestroyStream(stream))
    ok(acl.aclrtDestroyContext(explicit))


@rule("S4.4")
@pytest.mark.parametrize("chip, limit", STREAM_LIMITS)
def test_streams_used_up(chip: str, limit: int) -> None:
    def body(limit: int) -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        streams = []
        for _ in range(limit + 8):
            code = acl.aclrtCreateStream(out)
            if code != 0:
                break
            streams.append(out[0])
        freed = acl.aclrtDestroyStream(streams.pop())
        again = acl.aclrtCreateStream(out)
        return code, len(streams) + 1, freed, again, query(streams[0])

    code, count, *rest = rawabi.fresh_on(chip, body, limit=limit)
    assert (code, rest) == (207008, [0, 0, 0])
    default_streams = 2 if chip == "310P" else 1
    assert count == limit - default_streams


@rule("S4.4")
@pytest.mark.emulator
def test_streams_of_all_processes_count(device: int) -> None:
    def body(count: int) -> None:
        ok(acl.aclrtSetDevice(0))
        streams = [new_stream() for _ in range(count)]
        say(len(streams))
        destroyed = hear()
        for stream in streams[:destroyed]:
            ok(acl.aclrtDestroyStream(stream))
        say(destroyed)
        hear()

    def create_all() -> int:
        out = ffi.new("void **")
        while (code := acl.aclrtCreateStream(out)) == 0:
            mine.append(out[0])
        assert code == 207008
        return len(mine)

    mine: list[Any] = []
    limit, defaults = dict(STREAM_LIMITS)[rawabi.chip()], 2  # of the two processes
    with Peer(body, count=300) as other:
        assert other.hear() == 300
        assert create_all() == limit - 300 - defaults
        assert "301 of them by other processes" in rawabi.recent()
        other.say(200)
        assert other.hear() == 200  # what it uses no more comes back when it is asked for
        assert rawabi.eventually(lambda: create_all() == limit - 100 - defaults)
        other.kill()
    assert create_all() == limit - 1
    for stream in mine:
        ok(acl.aclrtDestroyStream(stream))


@rule("S4.6")
def test_unknown_flags_are_dropped(device: int) -> None:
    for flag in (0, 0x80000000, 0x40000000):
        stream = configured_stream(0, flag)
        with gated(stream):
            assert query(stream) == 1
        ok(acl.aclrtSynchronizeStream(stream))
        ok(acl.aclrtDestroyStream(stream))


@rule("S4.7")
@pytest.mark.parametrize("asked, given", [(3, 3), (7, 7), (8, 7), (99, 7), (2**31, 0)])
def test_priority_is_brought_into_range(device: int, asked: int, given: int) -> None:
    stream = configured_stream(asked, 0)
    ok(acl.aclrtSynchronizeStream(stream))
    if rawabi.has("aclrtStreamGetPriority"):
        assert priority_of(stream) == given


@rule("S4.8")
def test_huge_streams_on_310p() -> None:
    def body() -> Any:
        out = ffi.new("void **")
        before = acl.aclrtCreateStreamWithConfig(out, 0, acl.ACL_STREAM_HUGE)
        ok(acl.aclrtSetDevice(0))
        after = acl.aclrtCreateStreamWithConfig(out, 0, acl.ACL_STREAM_HUGE)
        return before, after, out[0] == NULL, acl.aclrtCreateStreamWithConfig(out, 0, 0)

    assert rawabi.fresh_on("310P", body) == [207000, 207000, True, 0]


@rule("S4.9")
def test_device_use_only_with_another_flag() -> None:
    out = ffi.new("void **")
    flags = acl.ACL_STREAM_DEVICE_USE_ONLY | acl.ACL_STREAM_FAST_LAUNCH
    assert acl.aclrtCreateStreamWithConfig(out, 0, flags) == 107000
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtCreateStreamWithConfig(out, 0, flags) == 107000
    assert out[0] == NULL


@rule("S4.10")
def test_destroy_null(device: int) -> None:
    assert acl.aclrtDestroyStream(NULL) == 100000
    ok(acl.aclrtSynchronizeStream(NULL))


@rule("S4.11")
def test_destroy_twice(device: int) -> None:
    stream = new_stream()
    ok(acl.aclrtDestroyStream(stream))
    assert acl.aclrtDestroyStream(stream) == 107017


@rule("S4.12")
def test_destroy_a_stream_of_another_context(other_stream: Any) -> None:
    assert acl.aclrtDestroyStream(other_stream) == 107003
    assert query(other_stream) == 0
    ok(acl.aclrtSynchronizeStream(other_stream))


@rule("S4.15")
def test_destroy_waits_for_queued_work(stream: Any, block: Any) -> None:
    gate = Gate(stream)
    ok(acl.aclrtMemsetAsync(block, 64, 0x5A, 64, stream))
    opener = threading.Timer(0.15, open_in_context(gate))
    opener.start()
    ok(acl.aclrtDestroyStream(stream))
    assert gate.is_open
    opener.join()
    assert read(block, 64) == b"\x5a" * 64
    assert acl.aclrtDestroyStream(stream) == 107017


@rule("S4.16")
def test_force_destroy_drops_queued_work(stream: Any, block: Any) -> None:
    gate = Gate(stream)
    ok(acl.aclrtMemsetAsync(block, 64, 0x5A, 64, stream))
    start = time.monotonic()
    ok(acl.aclrtDestroyStreamForce(stream))
    assert time.monotonic() - start < 5
    assert acl.aclrtSynchronizeStream(stream) == 107017
    gate.open()
    ok(acl.aclrtSynchronizeDevice())
    assert read(block, 64) == bytes(64)


@rule("S4.17")
def test_force_destroy_null(device: int) -> None:
    assert acl.aclrtDestroyStreamForce(NULL) == 100000
    ok(acl.aclrtSynchronizeStream(NULL))


@rule("S4.18")
def test_force_destroy_twice(device: int) -> None:
    stream = new_stream()
    ok(acl.aclrtDestroyStreamForce(stream))
    assert acl.aclrtDestroyStreamForce(stream) == 107017


@rule("S4.19")
def test_force_destroy_a_stream_of_another_context(other_stream: Any) -> None:
    assert acl.aclrtDestroyStreamForce(other_stream) == 107003
    assert query(other_stream) == 0


@rule("S4.20")
def test_synchronize_null(block: Any) -> None:
    gate = Gate(NULL)
    ok(acl.aclrtMemsetAsync(block, 64, 0x5A, 64, NULL))
    opener = threading.Timer(0.1, open_in_context(gate))
    opener.start()
    ok(acl.aclrtSynchronizeStream(NULL))
    assert gate.is_open
    opener.join()
    assert read(block, 64) == b"\x5a" * 64


@rule("S4.21")
@pytest.mark.parametrize("flag", SPECIAL_FLAGS)
def test_synchronize_special_streams(device: int, flag: str) -> None:
    stream = configured_stream(0, getattr(acl, flag))
    with gated(stream):
        ok(acl.aclrtSynchronizeStream(stream))
        ok(in_thread(lambda: acl.aclrtSynchronizeStream(stream)))
    plain = new_stream()
    assert in_thread(lambda: acl.aclrtSynchronizeStream(plain)) == 107002


@rule("S4.22")
@pytest.mark.parametrize("flag", SPECIAL_FLAGS)
def test_query_special_streams(device: int, flag: str) -> None:
    stream, plain = configured_stream(0, getattr(acl, flag)), new_stream()
    with gated(stream, plain):
        assert query(plain) == 1
        assert query(stream) == 0
        assert in_thread(lambda: query(stream)) == 0


@rule("S4.28")
@pytest.mark.emulator
def test_failure_of_asynchronous_work_surfaces_at_synchronize(stream: Any, block: Any) -> None:
    gone = malloc(4096)
    with gated(stream):
        ok(acl.aclrtMemcpyAsync(block, 64, gone, 64, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
        ok(acl.aclrtFree(gone))
    code = acl.aclrtSynchronizeStream(stream)
    assert code not in (0, 100000)
    assert rawabi.last_error() == code
    assert read(block, 64) == bytes(64)


@rule("S4.29")
@pytest.mark.wall_clock("another thread sleeps")
def test_synchronize_with_timeout(stream: Any) -> None:
    for timeout_ms in (-1, 5000):
        gate = Gate(stream)
        opener = threading.Timer(0.1, open_in_context(gate))
        opener.start()
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, timeout_ms))
        assert gate.is_open and query(stream) == 0
        opener.join()


@rule("S4.30")
def test_synchronize_timeout_out_of_range(stream: Any) -> None:
    gone = new_stream()
    ok(acl.aclrtDestroyStream(gone))
    wait = acl.aclrtSynchronizeStreamWithTimeout
    assert [wait(stream, 0), wait(stream, -2), wait(gone, 0), wait(gone, -2)] == [
        107000, 107000, 107017, 107000,
    ]  # fmt: skip
    ok(wait(stream, 1))


@rule("S4.31")
@pytest.mark.wall_clock("the length of the wait is measured")
def test_synchronize_times_out(stream: Any, block: Any) -> None:
    with gated(stream):
        ok(acl.aclrtMemsetAsync(block, 64, 0x5A, 64, stream))
        start = time.monotonic()
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 100) == 507046
        assert 0.09 <= time.monotonic() - start < 5
        assert query(stream) == 1
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 64) == b"\x5a" * 64


@rule("S4.32")
def test_query(stream: Any) -> None:
    assert query(stream) == acl.ACL_STREAM_STATUS_COMPLETE == 0
    with gated(stream):
        assert query(stream) == acl.ACL_STREAM_STATUS_NOT_READY == 1
    ok(acl.aclrtSynchronizeStream(stream))
    assert query(stream) == 0


@rule("S4.33")
def test_query_null(stream: Any) -> None:
    assert acl.aclrtStreamQuery(stream, NULL) == 100000


@rule("S4.35")
def test_wait_for_null(stream: Any) -> None:
    assert acl.aclrtStreamWaitEvent(stream, NULL) == 100000
    assert query(stream) == 0


@rule("S4.36")
def test_wait_for_null_with_timeout(stream: Any) -> None:
    assert acl.aclrtStreamWaitEventWithTimeout(stream, NULL, 1) == 107000
    assert query(stream) == 0


@rule("S4.37")
def test_get_id_null(stream: Any) -> None:
    assert acl.aclrtStreamGetId(stream, NULL) == 100000


@rule("S4.38")
def test_get_id_of_null_needs_a_context(device: int) -> None:
    out = ffi.new("int32_t *", -77)
    assert in_thread(lambda: acl.aclrtStreamGetId(NULL, out)) == 107002
    assert out[0] == -77
    assert id_of(NULL) >= 0


@rule("S4.39")
def test_get_id(device: int) -> None:
    streams = [new_stream() for _ in range(4)]
    ids = [id_of(each) for each in [NULL, *streams]]
    assert len(set(ids)) == 5 and min(ids) >= 0
    assert in_thread(lambda: [id_of(each) for each in streams]) == ids[1:]


@rule("S4.40")
def test_overflow_switch(stream: Any) -> None:
    assert acl.aclrtSetStreamOverflowSwitch(stream, 2) == 100000


def test_gate_helper(stream: Any, block: Any) -> None:
    """The helper that keeps streams busy does so, and lets them go on in order."""
    write(block, b"before")
    calls: list[Callable[[], int]] = [
        lambda: acl.aclrtMemsetAsync(block, 2, ord("x"), 2, stream),
        lambda: acl.aclrtMemsetAsync(block, 1, ord("y"), 1, stream),
    ]
    with gated(stream):
        for call in calls:
            ok(call())
        assert (query(stream), read(block, 6)) == (1, b"before")
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(block, 6) == b"yxfore"
    assert current_context() is not None and run_fresh("result = 1") == 1
