"""Stopping the work of a device, and emptying persistent streams."""

from __future__ import annotations

from typing import Any

import rawabi
from capturing import Built, fill, first_byte, persistent
from rawabi import NULL, acl, ffi, new_context, new_stream, ok, query

PRE, POST = 0, 1
seen: list[tuple[int, int, int]] = []


@ffi.callback("int32_t(int32_t, aclrtDeviceTaskAbortStage, uint32_t, void *)")
def listen(device: int, stage: int, timeout: int, argument: Any) -> int:
    """Note the call; answer what the argument points at."""
    seen.append((device, int(stage), timeout))
    return int(ffi.cast("int32_t *", argument)[0])


def test_device_task_abort(block: Any) -> None:
    streams = [new_stream()]
    new_context()
    streams.append(new_stream())
    event = rawabi.flag_event()
    ok(acl.aclrtStreamWaitEvent(streams[1], event))
    fill(block, 2, streams[1])
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtStreamWaitEvent(streams[0], event))
    fill(block, 1, streams[0])
    ok(acl.aclrtDeviceTaskAbort(0, 2000))
    assert [query(each) for each in streams] == [0, 0] and first_byte(block) == 0
    fill(block, 3, streams[0])  # the streams can be used again
    ok(acl.aclrtSynchronizeStream(streams[0]))
    assert first_byte(block) == 3


def test_device_task_abort_arguments(device: int) -> None:
    assert acl.aclrtDeviceTaskAbort(99, 0) == 107001
    assert acl.aclrtDeviceTaskAbort(0, 36 * 60 * 1000 + 1) == 107000
    assert acl.aclrtSetDeviceTaskAbortCallback(NULL, listen, NULL) == 100000
    assert acl.aclrtSetDeviceTaskAbortCallback(b"", listen, NULL) == 107000
    assert acl.aclrtSetDeviceTaskAbortCallback(b"nobody", NULL, NULL) == 107000


def test_abort_callbacks(device: int) -> None:
    answer = ffi.new("int32_t *", 0)
    ok(acl.aclrtSetDeviceTaskAbortCallback(b"test", listen, answer))
    try:
        assert acl.aclrtSetDeviceTaskAbortCallback(b"test", listen, answer) == 107000
        seen.clear()
        ok(acl.aclrtDeviceTaskAbort(0, 700))
        assert seen == [(0, PRE, 700), (0, POST, 700)]
        answer[0] = 5
        assert acl.aclrtDeviceTaskAbort(0, 700) == 107035
        assert len(seen) == 3
    finally:
        ok(acl.aclrtSetDeviceTaskAbortCallback(b"test", NULL, NULL))
    ok(acl.aclrtDeviceTaskAbort(0, 700))
    assert len(seen) == 3


def test_persistent_task_clean(stream: Any, block: Any) -> None:
    assert acl.aclrtPersistentTaskClean(stream) == 107000
    assert acl.aclrtPersistentTaskClean(NULL) == 107000
    ok(acl.aclrtPersistentTaskClean(persistent()))
    with Built(0) as built:
        fill(block, 1, built.streams[0])
        built.finish()
        ok(acl.aclmdlRIExecute(built.handle, 5000))
        assert first_byte(block) == 1
        ok(acl.aclrtPersistentTaskClean(built.streams[0]))
        fill(rawabi.offset(block, 8), 2, built.streams[0])
        built.finish()
        rawabi.write(block, bytes(16))
        ok(acl.aclmdlRIExecute(built.handle, 5000))
        assert rawabi.read(block, 9)[::8] == bytes([0, 2])
