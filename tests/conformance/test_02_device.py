"""Devices and their references (section 2)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    Gate,
    acl,
    current_context,
    ffi,
    flag_event,
    fresh_devices,
    in_thread,
    limit_address_space,
    malloc,
    new_context,
    new_stream,
    offset,
    ok,
    plain_event,
    query,
    read,
    run_fresh,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess


def count_devices() -> int:
    count = ffi.new("uint32_t *", 777)
    ok(acl.aclrtGetDeviceCount(count))
    return int(count[0])


def get_device() -> int:
    device = ffi.new("int32_t *", -7)
    ok(acl.aclrtGetDevice(device))
    return int(device[0])


@rule("S2.1")
def test_id_out_of_range() -> None:
    assert count_devices() >= 1
    assert [acl.aclrtSetDevice(each) for each in (-1, count_devices(), 2**31 - 1)] == [107001] * 3
    assert current_context() is None
    ok(acl.aclrtSetDevice(count_devices() - 1))


@rule("S2.2")
def test_visible_devices_are_numbered_anew() -> None:
    def body() -> Any:
        codes = [acl.aclrtSetDevice(each) for each in range(4)]
        count = ffi.new("uint32_t *", 777)
        ok(acl.aclrtGetDeviceCount(count))
        return codes, count[0]

    answer = fresh_devices(4, body, {"ASCEND_RT_VISIBLE_DEVICES": "1,3"})
    assert answer == [[0, 0, 107001, 107001], 2]


@rule("S2.4")
def test_every_set_adds_a_reference() -> None:
    contexts = []
    for _ in range(3):
        ok(acl.aclrtSetDevice(0))
        contexts.append(current_context())
    assert contexts[0] is not None and contexts.count(contexts[0]) == 3
    ok(acl.aclrtSynchronizeStream(NULL))
    assert [acl.aclrtResetDevice(0) for _ in range(4)] == [0, 0, 0, 507007]


@rule("S2.5")
def test_set_makes_the_primary_context_current(device: int) -> None:
    primary = current_context()
    explicit = new_context()
    assert current_context() == explicit != primary
    ok(acl.aclrtSetDevice(0))
    assert current_context() == primary


@rule("S2.6")
def test_threads_share_the_default_context(device: int, block: Any) -> None:
    rawabi.write(block, b"shared")

    def elsewhere() -> Any:
        ok(acl.aclrtSetDevice(0))
        return current_context(), read(block, 6)

    assert in_thread(elsewhere) == (current_context(), b"shared")


@rule("S2.7")
def test_only_the_last_reset_tears_down(device: int) -> None:
    ok(acl.aclrtSetDevice(0))
    stream = new_stream()
    ok(acl.aclrtResetDevice(0))
    assert query(stream) == 0
    ok(acl.aclrtResetDevice(0))
    assert current_context() is None
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtSynchronizeStream(stream) == 107017


@rule("S2.8")
def test_reset_without_reference() -> None:
    assert acl.aclrtResetDevice(0) == 507007
    ok(acl.aclrtSetDevice(0))
    assert [acl.aclrtResetDevice(0), acl.aclrtResetDevice(0)] == [0, 507007]


@rule("S2.9")
def test_reset_of_an_invalid_id(device: int) -> None:
    assert [acl.aclrtResetDevice(each) for each in (-1, 4711)] == [107001, 107001]
    assert get_device() == 0


@rule("S2.10")
def test_last_reset_ends_streams(device: int) -> None:
    streams = [new_stream(), new_stream()]
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    assert [acl.aclrtSynchronizeStream(each) for each in streams] == [107017] * 2
    assert [acl.aclrtDestroyStream(each) for each in streams] == [107017] * 2


@guess
@rule("S2.11")
def test_last_reset_leaves_no_work_running(stream: Any) -> None:
    size = 64 << 20
    block, started = malloc(size), plain_event()
    ok(acl.aclrtMemset(block, size, 0, size))
    ok(acl.aclrtRecordEvent(started, stream))
    ok(acl.aclrtMemsetAsync(block, size, 0x5A, size, stream))
    ok(acl.aclrtSynchronizeEvent(started))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtSynchronizeStream(stream) == 107017
    # Done or dropped as a whole, and nothing writes any more.
    samples = [read(offset(block, at), 1) for at in range(0, size, size // 64)]
    assert set(samples) in ({b"\x5a"}, {b"\0"})
    time.sleep(0.05)
    assert samples == [read(offset(block, at), 1) for at in range(0, size, size // 64)]


@rule("S2.12")
def test_primary_handle_after_the_last_reset(device: int) -> None:
    primary = current_context()
    worker = rawabi.Worker()
    worker.run(lambda: ok(acl.aclrtSetCurrentContext(primary)))
    ok(acl.aclrtResetDevice(0))
    assert acl.aclrtDestroyContext(primary) == 107002
    assert worker.run(acl.aclrtSynchronizeDevice) == 107002
    worker.stop()


@rule("S2.13")
def test_primary_handle_cannot_be_set_after_the_last_reset(device: int) -> None:
    primary = current_context()
    ok(acl.aclrtSetCurrentContext(primary))
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtResetDevice(0))
    assert acl.aclrtSetCurrentContext(primary) == 107000


@rule("S2.14")
def test_set_revives_the_same_primary_context(device: int) -> None:
    primary = current_context()
    ok(acl.aclrtResetDevice(0))
    assert current_context() is None
    ok(acl.aclrtSetDevice(0))
    assert current_context() == primary
    stream = new_stream()
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtSynchronizeStream(NULL))


@guess
@rule("S2.15")
def test_explicit_context_survives_the_last_reset(device: int) -> None:
    gone = new_stream()
    explicit = new_context()
    stream = new_stream()
    ok(acl.aclrtResetDevice(0))
    assert acl.aclrtSynchronizeStream(gone) == 107017
    assert current_context() == explicit
    pointer = malloc(64)
    write(pointer, b"still usable")
    assert read(pointer, 12) == b"still usable"
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtDestroyContext(explicit))


@rule("S2.16")
def test_last_reset_keeps_memory_and_events(device: int) -> None:
    pointer, event, gone = malloc(64), flag_event(), new_stream()
    write(pointer, b"kept")
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtSynchronizeStream(gone) == 107017
    assert read(pointer, 4) == b"kept"
    ok(acl.aclrtFree(pointer))
    ok(acl.aclrtDestroyEvent(event))


@rule("S2.17")
def test_last_reset_empties_the_device_slot(device: int) -> None:
    ok(acl.aclrtResetDevice(0))
    assert acl.aclrtGetDevice(ffi.new("int32_t *")) == 107002
    assert acl.aclrtSynchronizeDevice() == 107002
    in_thread(lambda: ok(acl.aclrtSetDevice(0)))
    assert acl.aclrtSynchronizeDevice() == 107002


@rule("S2.18")
def test_other_resets_keep_the_slot(device: int) -> None:
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtResetDevice(0))
    assert get_device() == 0
    explicit = new_context()
    ok(acl.aclrtResetDevice(0))
    assert acl.aclrtResetDevice(0) == 507007
    assert current_context() == explicit


@rule("S2.19")
def test_other_threads_keep_a_stale_slot(device: int, worker: rawabi.Worker) -> None:
    worker.run(lambda: ok(acl.aclrtSetDevice(0)))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtResetDevice(0))
    assert worker.run(acl.aclrtSynchronizeDevice) == 107002
    ok(acl.aclrtSetDevice(0))
    assert worker.run(acl.aclrtSynchronizeDevice) == 107002
    worker.run(lambda: ok(acl.aclrtSetDevice(0)))
    worker.run(lambda: ok(acl.aclrtSynchronizeDevice()))


@rule("S2.20")
def test_untouched_threads_work_again(device: int, worker: rawabi.Worker) -> None:
    worker.run(lambda: ok(acl.aclrtSetDevice(0)))
    stream = new_stream()
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtResetDevice(0))
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtSynchronizeStream(stream) == 107017
    assert worker.run(get_device) == 0
    assert worker.run(current_context) == current_context()


@rule("S2.21")
def test_force_reset_drops_all_references(device: int) -> None:
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtSetDevice(0))
    stream = new_stream()
    ok(acl.aclrtResetDeviceForce(0))
    assert current_context() is None
    ok(acl.aclrtSetDevice(0))
    assert acl.aclrtDestroyStream(stream) == 107017
    assert [acl.aclrtResetDevice(0), acl.aclrtResetDevice(0)] == [0, 507007]


@rule("S2.22")
def test_reset_after_force_reset(device: int) -> None:
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtResetDeviceForce(0))
    assert [acl.aclrtResetDeviceForce(0), acl.aclrtResetDevice(0)] == [507007, 507007]


@rule("S2.23")
def test_get_device_null(device: int) -> None:
    assert acl.aclrtGetDevice(NULL) == 100000
    assert get_device() == 0


@rule("S2.24")
def test_get_device_without_context() -> None:
    device = ffi.new("int32_t *", 77)
    assert (acl.aclrtGetDevice(device), device[0]) == (107002, 77)


@rule("S2.25")
def test_get_device_answers_the_visible_id() -> None:
    def body() -> Any:
        device = ffi.new("int32_t *", 77)
        answers = []
        for each in (1, 0):
            ok(acl.aclrtSetDevice(each))
            ok(acl.aclrtGetDevice(device))
            answers.append(device[0])
        return answers

    assert fresh_devices(4, body, {"ASCEND_RT_VISIBLE_DEVICES": "2,3"}) == [1, 0]


def count_in_fresh_process() -> Any:
    count = ffi.new("uint32_t *", 777)
    return acl.aclrtGetDeviceCount(count), count[0]


@rule("S2.26")
def test_count_without_init_and_context() -> None:
    code, count = fresh_devices(2, count_in_fresh_process)
    assert code == 0 and count >= 2 and count != 777


@rule("S2.27")
@pytest.mark.parametrize("visible, count", [("0", 1), ("1,2", 2), ("0,1,2,3", 4)])
def test_count_of_visible_devices(visible: str, count: int) -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": visible}
    assert fresh_devices(4, count_in_fresh_process, env) == [0, count]


@rule("S2.28")
@pytest.mark.parametrize("visible", ["", "no", "-1", "99", "a,0"])
def test_visible_devices_with_a_bad_first_entry(visible: str) -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": visible}
    assert fresh_devices(4, count_in_fresh_process, env)[0] == 207004


@rule("S2.29")
@pytest.mark.parametrize("visible", ["0,0", "1,0", "0,2,1"])
def test_visible_devices_repeated_or_descending(visible: str) -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": visible}
    assert fresh_devices(4, count_in_fresh_process, env)[0] == 207004


@rule("S2.30")
@pytest.mark.parametrize("visible", ["", "99", "1,0"])
def test_no_device_with_a_bad_list(visible: str) -> None:
    def body() -> Any:
        return [acl.aclrtSetDevice(each) for each in (0, 1)], current_context() is None

    assert fresh_devices(4, body, {"ASCEND_RT_VISIBLE_DEVICES": visible}) == [[107001] * 2, True]


@rule("S2.31")
@pytest.mark.parametrize("chip", ["A2", "A3", "950", "310B", "310P", "910"])
def test_bad_entry_ends_the_list(chip: str) -> None:
    def body() -> Any:
        count = ffi.new("uint32_t *", 777)
        ok(acl.aclrtGetDeviceCount(count))
        return count[0], [acl.aclrtSetDevice(each) for each in (0, 1, 2)]

    env: dict[str, str | None] = {"ASCEND_RT_VISIBLE_DEVICES": "0,1,what,3"}
    assert rawabi.fresh_on(chip, body, env, devices=4) == [2, [0, 0, 107001]]


@rule("S2.32")
def test_run_mode() -> None:
    mode = ffi.new("aclrtRunMode *", 77)
    ok(acl.aclrtGetRunMode(mode))
    assert mode[0] == acl.ACL_HOST == 1


@rule("S2.33")
def test_run_mode_null() -> None:
    assert acl.aclrtGetRunMode(NULL) == 100000


@rule("S2.34")
def test_synchronize_device_waits_for_all_streams(stream: Any) -> None:
    for busy in (stream, NULL):
        gate = Gate(busy)
        opener = threading.Timer(0.1, rawabi.open_in_context(gate))
        opener.start()
        ok(acl.aclrtSynchronizeDevice())
        assert gate.is_open
        assert [query(stream), query(NULL)] == [0, 0]
        opener.join()


@rule("S2.35")
def test_synchronize_device_leaves_other_contexts_alone(device: int) -> None:
    new_context()
    busy = new_stream()
    other = Gate(busy)
    ok(acl.aclrtSetDevice(0))
    mine = Gate(NULL)
    opener = threading.Timer(0.1, rawabi.open_in_context(mine))
    opener.start()
    ok(acl.aclrtSynchronizeDevice())
    assert mine.is_open and query(busy) == 1
    opener.join()
    ok(acl.aclrtSetCurrentContext(other.context))
    other.open()
    ok(acl.aclrtSynchronizeDevice())
    assert query(busy) == 0


@rule("S2.36")
def test_synchronize_device_leaves_device_use_only_streams_out(device: int) -> None:
    only = rawabi.made("aclrtCreateStreamWithConfig", 0, acl.ACL_STREAM_DEVICE_USE_ONLY)
    with rawabi.gated(only) as gate:
        plain = Gate(new_stream())
        opener = threading.Timer(0.1, rawabi.open_in_context(plain))
        opener.start()
        ok(acl.aclrtSynchronizeDevice())
        assert plain.is_open and not gate.is_open
        opener.join()


@rule("S2.38")
def test_synchronize_device_without_context() -> None:
    assert acl.aclrtSynchronizeDevice() == 107002


@rule("S2.39")
def test_synchronize_device_timeout_out_of_range(stream: Any) -> None:
    codes = [acl.aclrtSynchronizeDeviceWithTimeout(each) for each in (0, -2, -(2**31))]
    assert codes == [107000] * 3
    ok(acl.aclrtSynchronizeDeviceWithTimeout(-1))


@rule("S2.40")
def test_synchronize_device_times_out(stream: Any) -> None:
    with rawabi.gated(stream):
        start = time.monotonic()
        assert acl.aclrtSynchronizeDeviceWithTimeout(100) == 507046
        assert 0.09 <= time.monotonic() - start < 5
        assert query(stream) == 1
    ok(acl.aclrtSynchronizeDeviceWithTimeout(5000))


@rule("S2.41")
def test_peer_of_itself() -> None:
    answer = ffi.new("int32_t *", 77)
    assert acl.aclrtDeviceCanAccessPeer(answer, 0, 0) == 100000
    assert answer[0] == 77


@rule("S2.42")
def test_peer_access_flags(device: int) -> None:
    assert acl.aclrtDeviceEnablePeerAccess(1, 1) == 200006


@rule("S2.43")
def test_peer_access_without_context() -> None:
    assert acl.aclrtDeviceEnablePeerAccess(1, 1) == 200006
    assert acl.aclrtDeviceEnablePeerAccess(1, 0) == 107002


@rule("S2.44")
def test_peer_access_to_itself(device: int) -> None:
    assert acl.aclrtDeviceEnablePeerAccess(0, 0) == 100000


@rule("S2.45")
def test_utilization_extension_is_reserved(device: int) -> None:
    info = ffi.new("aclrtUtilizationInfo *")
    info.memoryUtilization = 77
    info.utilizationExtend = ffi.cast("aclrtUtilizationExtendInfo *", rawabi.foreign())
    assert acl.aclrtGetDeviceUtilizationRate(0, info) == 100000
    assert info.memoryUtilization == 77


@rule("S2.46")
def test_utilization_figures(device: int) -> None:
    info = ffi.new("aclrtUtilizationInfo *")
    info.memoryUtilization = 77
    ok(acl.aclrtGetDeviceUtilizationRate(0, info))
    assert info.memoryUtilization == -1
    for figure in (info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization):
        assert figure == -1 or 0 <= figure <= 100


def primary_state(device: int) -> int:
    active = ffi.new("int32_t *", 77)
    ok(acl.aclrtGetPrimaryCtxState(device, NULL, active))
    return int(active[0])


@rule("S2.47")
def test_primary_state_arguments() -> None:
    active, flags = ffi.new("int32_t *", 77), ffi.new("uint32_t *")
    assert acl.aclrtGetPrimaryCtxState(0, NULL, NULL) == 100000
    assert acl.aclrtGetPrimaryCtxState(0, flags, active) == 100000
    assert active[0] == 77


@rule("S2.48")
def test_primary_state_of_an_invalid_id() -> None:
    active = ffi.new("int32_t *", 77)
    assert acl.aclrtGetPrimaryCtxState(4711, NULL, active) == 107001
    assert active[0] == 77


@rule("S2.49")
def test_primary_state() -> None:
    states = [primary_state(0)]
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtSetDevice(0))
    states.append(primary_state(0))
    ok(acl.aclrtResetDevice(0))
    states.append(primary_state(0))
    ok(acl.aclrtResetDevice(0))
    states.append(primary_state(0))
    assert states == [0, 1, 1, 0]


@rule("S2.3")
@pytest.mark.emulator
def test_device_that_cannot_be_opened() -> None:
    def body() -> Any:
        assert acl.aclCreateDataBuffer(NULL, 0) != NULL
        limit_address_space(1 << 30)
        return acl.aclrtSetDevice(0), current_context() is None

    assert run_fresh(body) == [507033, True]
