"""Notifies, count notifies and events that processes share; EXTERNAL events of captures."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
import rawabi
from capturing import RELAXED, capture, closing, end_code, fill, first_byte, run
from peer import Peer, hear, say
from rawabi import (
    IPC,
    NULL,
    acl,
    event_status,
    ex_event,
    ffi,
    foreign,
    made,
    new_stream,
    ok,
    query,
)

EXTERNAL = 1
SYNC_TIMEOUT = 507046


@pytest.fixture
def notify(device: int) -> Any:
    handle = made("aclrtCreateNotify", 0)
    yield handle
    rawabi.real.aclrtDestroyNotify(handle)


def waits(stream: Any) -> bool:
    time.sleep(0.03)
    return query(stream) == 1


def test_record_and_wait(notify: Any, stream: Any, block: Any) -> None:
    other = new_stream()
    ok(acl.aclrtWaitAndResetNotify(notify, other, 0))
    fill(block, 3, other)
    assert waits(other) and first_byte(block) == 0
    ok(acl.aclrtRecordNotify(notify, stream))
    ok(acl.aclrtSynchronizeStreamWithTimeout(other, 5000))
    assert first_byte(block) == 3
    ok(acl.aclrtWaitAndResetNotify(notify, other, 0))  # the wait has reset it
    assert waits(other)
    ok(acl.aclrtRecordNotify(notify, NULL))
    ok(acl.aclrtSynchronizeStreamWithTimeout(other, 5000))


def test_records_do_not_count(notify: Any, stream: Any) -> None:
    for _ in range(3):
        ok(acl.aclrtRecordNotify(notify, stream))
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 1))
    assert acl.aclrtSynchronizeStreamWithTimeout(stream, 100) == SYNC_TIMEOUT
    assert acl.aclrtSynchronizeStream(stream) == 107019


def test_one_record_ends_one_wait(notify: Any, stream: Any) -> None:
    streams = [new_stream(), new_stream()]
    for each in streams:
        ok(acl.aclrtWaitAndResetNotify(notify, each, 0))
    ok(acl.aclrtRecordNotify(notify, stream))
    assert rawabi.eventually(lambda: 0 in [query(each) for each in streams])
    assert sorted(query(each) for each in streams) == [0, 1]
    ok(acl.aclrtRecordNotify(notify, stream))
    for each in streams:
        ok(acl.aclrtSynchronizeStreamWithTimeout(each, 5000))


def test_batch_reset(notify: Any, stream: Any) -> None:
    ok(acl.aclrtRecordNotify(notify, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    array = ffi.new("void *[]", [notify])
    ok(acl.aclrtNotifyBatchReset(array, 1))
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    assert waits(stream)
    ok(acl.aclrtRecordNotify(notify, NULL))
    ok(acl.aclrtSynchronizeStream(stream))
    assert acl.aclrtNotifyBatchReset(array, 0) == 107000
    assert acl.aclrtNotifyBatchReset(NULL, 1) == 100000
    array[0] = foreign()
    assert acl.aclrtNotifyBatchReset(array, 1) == 107017


def test_notify_arguments(notify: Any, stream: Any, other_stream: Any) -> None:
    out, number = ffi.new("void **"), ffi.new("uint32_t *", 77777)
    assert acl.aclrtCreateNotify(NULL, 0) == 100000
    assert acl.aclrtCreateNotify(out, 2) == 107000
    for call in (acl.aclrtRecordNotify, lambda n, s: acl.aclrtWaitAndResetNotify(n, s, 0)):
        assert call(NULL, stream) == 100000
        assert call(stream, stream) == 107017  # a stream is no notify
        assert call(notify, other_stream) == 107003
    assert acl.aclrtGetNotifyId(notify, NULL) == 100000
    ok(acl.aclrtGetNotifyId(notify, number))
    assert number[0] < 65535
    gone = made("aclrtCreateNotify", 1)
    ok(acl.aclrtDestroyNotify(gone))
    assert acl.aclrtDestroyNotify(gone) == 107017
    assert rawabi.in_thread(lambda: acl.aclrtCreateNotify(out, 0)) == 107002


def test_notify_limit() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        codes = [acl.aclrtCreateNotify(out, 0) for _ in range(1025)]
        ok(acl.aclrtDestroyNotify(out[0]))
        return [codes.count(0), codes[-1], acl.aclrtCreateNotify(out, 0)]

    assert rawabi.fresh_on("310P", body) == [1024, 207009, 0]


@pytest.mark.emulator
def test_notifies_of_all_processes_count(device: int) -> None:
    def body() -> None:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("void **")
        say([acl.aclrtCreateNotify(out, 0) for _ in range(100)].count(0))
        hear()

    def create_all() -> int:
        out = ffi.new("void **")
        while (code := acl.aclrtCreateNotify(out, 0)) == 0:
            mine.append(out[0])
        assert code == 207009
        return len(mine)

    mine: list[Any] = []
    with Peer(body) as other:
        assert other.hear() == 100
        before = create_all()
        other.kill()
    assert create_all() == before + 100  # what a process had ends with it
    for notify in mine:
        ok(acl.aclrtDestroyNotify(notify))


def test_waiting_streams_are_aborted_and_dropped(notify: Any, stream: Any, block: Any) -> None:
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    fill(block, 1, stream)
    ok(acl.aclrtStreamAbort(stream))
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    ok(acl.aclrtDestroyStreamForce(stream))
    ok(acl.aclrtRecordNotify(notify, NULL))
    ok(acl.aclrtSynchronizeStream(NULL))
    assert first_byte(block) == 0


def test_notifies_in_a_capture(notify: Any, stream: Any, block: Any) -> None:
    with capture(stream) as instance:
        ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
        fill(block, 9, stream)
    for _ in range(2):
        rawabi.write(block, bytes(8))
        ok(acl.aclmdlRIExecuteAsync(instance[0], stream))
        assert waits(stream) and first_byte(block) == 0
        ok(acl.aclrtRecordNotify(notify, NULL))
        ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
        assert first_byte(block) == 9


# ---- across processes


def exported(notify: Any, flags: int) -> str:
    key = ffi.new("char[65]")
    ok(acl.aclrtNotifyGetExportKey(notify, key, 65, flags))
    return ffi.string(key).decode()


RECORD = """
ok(acl.aclrtSetDevice(0))
out = ffi.new("void **")
code = acl.aclrtNotifyImportByKey(out, key.encode(), 2)
if code == 0:
    ok(acl.aclrtRecordNotify(out[0], NULL))
    ok(acl.aclrtSynchronizeStream(NULL))
    ok(acl.aclrtDestroyNotify(out[0]))
result = [code, recent()]
"""


def other_process(key: str) -> Any:
    return rawabi.run_fresh(f"key = {key!r}\n" + RECORD)


def test_a_notify_of_another_process(notify: Any, stream: Any) -> None:
    key = exported(notify, 2)
    assert exported(notify, 2) == key
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    assert waits(stream)
    assert other_process(key)[0] == 0
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))


def test_processes_must_be_listed(notify: Any, stream: Any) -> None:
    pids = ffi.new("int32_t[]", [os.getpid()])
    assert acl.aclrtNotifySetImportPid(notify, pids, 1) == 107000  # not exported yet
    key = exported(notify, 0)
    code, text = other_process(key)
    assert code == 107000 and "not on the list" in text
    ok(acl.aclrtNotifySetImportPid(notify, pids, 1))
    out = ffi.new("void **")
    ok(acl.aclrtNotifyImportByKey(out, key.encode(), 0))
    ok(acl.aclrtWaitAndResetNotify(notify, stream, 0))
    ok(acl.aclrtRecordNotify(out[0], NULL))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    ok(acl.aclrtDestroyNotify(out[0]))
    assert acl.aclrtNotifySetImportPid(notify, pids, 0) == 107000
    assert acl.aclrtNotifySetImportPidInterServer(notify, ffi.new("aclrtServerPid[1]"), 1) == 207000


def test_export_arguments(notify: Any) -> None:
    key, out = ffi.new("char[65]"), ffi.new("void **")
    assert acl.aclrtNotifyGetExportKey(notify, key, 64, 0) == 107000
    assert acl.aclrtNotifyGetExportKey(notify, key, 65, 1) == 107000
    assert acl.aclrtNotifyGetExportKey(notify, NULL, 65, 0) == 100000
    for bad in (b"", b"ascendrt-notify-0000000000000000", b"ascendrt-notify-zz", b"x" * 64):
        assert acl.aclrtNotifyImportByKey(out, bad, 0) == 107000
    text = exported(notify, 2)
    assert acl.aclrtNotifyImportByKey(out, text.encode(), 1) == 107000
    ok(acl.aclrtDestroyNotify(notify))
    assert acl.aclrtNotifyImportByKey(out, text.encode(), 0) == 107000


def test_keys_of_memory_are_no_notifies(block: Any) -> None:
    key, out = ffi.new("char[65]"), ffi.new("void **")
    ok(acl.aclrtIpcMemGetExportKey(block, 4096, key, 65, 1))
    text = ffi.string(key).decode().replace("memory", "notify")
    assert acl.aclrtNotifyImportByKey(out, text.encode(), 0) == 107000
    ok(acl.aclrtIpcMemClose(key))


WAIT = """
import time
ok(acl.aclrtSetDevice(0))
handle, event = ffi.new("aclrtIpcEventHandle *"), ffi.new("void **")
ffi.buffer(handle)[:] = bytes.fromhex(text)
ok(acl.aclrtIpcOpenEventHandle(handle[0], event))
stream = new_stream()
ok(acl.aclrtStreamWaitEvent(stream, event[0]))
before = query(stream)
open(ready, "w").close()
ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 20000))
status = event_status(event[0])
again = acl.aclrtRecordEvent(event[0], stream)
ok(acl.aclrtSynchronizeEventWithTimeout(event[0], 20000))
ok(acl.aclrtDestroyEvent(event[0]))
result = [before, status, again]
"""


def test_an_event_of_another_process(stream: Any, tmp_path: Any) -> None:
    event = ex_event(IPC)
    handle = ffi.new("aclrtIpcEventHandle *")
    ok(acl.aclrtIpcGetEventHandle(event, handle))
    text, ready = bytes(ffi.buffer(handle)).hex(), tmp_path / "ready"
    with rawabi.gated(stream) as gate:
        ok(acl.aclrtRecordEvent(event, stream))
        assert event_status(event) == 0

        def open_later() -> None:
            assert rawabi.eventually(ready.exists, 30)
            gate.open()

        context = rawabi.current_context()

        def opener() -> None:
            ok(acl.aclrtSetCurrentContext(context))
            open_later()

        thread = threading.Thread(target=opener)
        thread.start()
        result = rawabi.run_fresh(f"text, ready = {text!r}, {str(ready)!r}\n" + WAIT)
        thread.join()
    assert result == [1, 1, 0]
    ok(acl.aclrtSynchronizeEventWithTimeout(event, 5000))
    assert event_status(event) == 1


def test_ipc_event_arguments(device: int) -> None:
    handle, out = ffi.new("aclrtIpcEventHandle *"), ffi.new("void **")
    assert acl.aclrtIpcGetEventHandle(ex_event(), handle) == 207000
    assert acl.aclrtIpcGetEventHandle(NULL, handle) == 100000
    assert acl.aclrtIpcGetEventHandle(ex_event(IPC), NULL) == 100000
    assert acl.aclrtIpcOpenEventHandle(handle[0], NULL) == 100000
    assert acl.aclrtIpcOpenEventHandle(handle[0], out) == 107000
    ok(acl.aclrtIpcGetEventHandle(ex_event(IPC), handle))
    damaged = bytearray(ffi.buffer(handle))
    for position in range(16):
        damaged[position] ^= 0x55
        ffi.buffer(handle)[:] = bytes(damaged)
        assert acl.aclrtIpcOpenEventHandle(handle[0], out) == 107000
        damaged[position] ^= 0x55


def test_ipc_events_within_a_process(stream: Any, block: Any) -> None:
    event, other = ex_event(IPC), new_stream()
    assert event_status(event) == 1  # never recorded
    with rawabi.gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtStreamWaitEvent(other, event))
        fill(block, 4, other)
        assert waits(other) and first_byte(block) == 0
        assert acl.aclrtSynchronizeEventWithTimeout(event, 30) == 507047
    ok(acl.aclrtSynchronizeStreamWithTimeout(other, 5000))
    assert first_byte(block) == 4
    with rawabi.gated(stream):
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtStreamWaitEvent(other, event))
        ok(acl.aclrtStreamAbort(stream))  # a dropped record counts as done
        ok(acl.aclrtSynchronizeStreamWithTimeout(other, 5000))


# ---- count notifies


def test_count_notifies() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        notify, stream = made("aclrtCntNotifyCreate", 0), new_stream()

        def record(mode: int, value: int) -> None:
            info = ffi.new("aclrtCntNotifyRecordInfo *", {"mode": mode, "value": value})
            ok(acl.aclrtCntNotifyRecord(notify, NULL, info))
            ok(acl.aclrtSynchronizeStream(NULL))

        def passes(mode: int, value: int, clear: int = 0) -> bool:
            info = ffi.new(
                "aclrtCntNotifyWaitInfo *", {"mode": mode, "value": value, "isClear": clear}
            )
            ok(acl.aclrtCntNotifyWaitWithTimeout(notify, stream, info))
            done = acl.aclrtSynchronizeStreamWithTimeout(stream, 50) == 0
            ok(acl.aclrtStreamAbort(stream))
            return done

        record(0, 5)
        seen = [passes(0, 6), passes(0, 5), passes(1, 5), passes(2, 4), passes(2, 5), passes(3, 5)]
        record(1, 2)  # 7
        seen += [passes(1, 7), passes(4, 6), passes(4, 8)]
        record(2, 8)  # 15
        record(4, 12)  # 12
        seen += [passes(1, 12, 1), passes(1, 0)]
        record(0, 3)
        ok(acl.aclrtCntNotifyReset(notify, NULL))
        ok(acl.aclrtSynchronizeStream(NULL))
        seen.append(passes(1, 0))
        number = ffi.new("uint32_t *")
        codes = [acl.aclrtCntNotifyGetId(notify, number), acl.aclrtCntNotifyDestroy(notify)]
        codes.append(acl.aclrtCntNotifyDestroy(notify))
        return seen, codes

    yes, no = True, False
    expected = [yes, no, yes, yes, no, yes, yes, yes, no, yes, yes, yes]
    assert rawabi.fresh_on("950", body) == [expected, [0, 0, 107017]]


def test_count_notifies_need_a_950(device: int) -> None:
    if rawabi.chip() != "950":
        assert acl.aclrtCntNotifyCreate(ffi.new("void **"), 0) == 207000
    assert acl.aclrtCntNotifyCreate(NULL, 0) == 107000


# ---- EXTERNAL events of captures


def test_external_record_and_wait(stream: Any, block: Any) -> None:
    ready, done, outside = ex_event(), ex_event(), new_stream()
    with capture(stream) as instance:
        ok(acl.aclrtStreamWaitEventWithFlag(stream, ready, 0, EXTERNAL))
        fill(block, 6, stream)
        ok(acl.aclrtRecordEventWithFlag(done, stream, EXTERNAL))
    for _ in range(2):
        rawabi.write(block, bytes(8))
        with rawabi.gated(outside):
            ok(acl.aclrtRecordEvent(ready, outside))
            ok(acl.aclmdlRIExecuteAsync(instance[0], stream))
            later = new_stream()
            ok(acl.aclrtStreamWaitEvent(later, done))
            assert waits(stream) and query(later) == 1 and first_byte(block) == 0
        ok(acl.aclrtSynchronizeStreamWithTimeout(later, 5000))
        assert first_byte(block) == 6
        ok(acl.aclrtSynchronizeStream(stream))


def test_external_arguments(stream: Any) -> None:
    event = ex_event()
    assert acl.aclrtRecordEventWithFlag(event, stream, 2) == 100000
    assert acl.aclrtStreamWaitEventWithFlag(stream, event, 0, 2) == 100000
    assert acl.aclrtRecordEventWithFlag(rawabi.flag_event(), stream, EXTERNAL) == 207000
    assert acl.aclrtRecordEventWithFlag(event, stream, EXTERNAL) == 107029  # not capturing
    assert acl.aclrtRecordEventWithFlag(event, stream, 0) == 107000  # EXTERNAL before
    usual = ex_event()
    ok(acl.aclrtRecordEventWithFlag(usual, stream, 0))
    ok(acl.aclrtStreamWaitEventWithFlag(stream, usual, 1, 0))
    with closing(stream):
        assert acl.aclrtRecordEventWithFlag(usual, stream, EXTERNAL) == 107000
        assert acl.aclrtStreamWaitEventWithFlag(stream, ex_event(), 1, EXTERNAL) == 107000
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    assert end_code(stream)[0] == 0
    with capture(stream) as instance:
        pass
    run(instance[0], stream)
