"""Numbers of devices, core limits, overflow mode, operator time limits (section 2)."""

from __future__ import annotations

from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    acl,
    ffi,
    fresh_devices,
    fresh_on,
    in_thread,
    new_stream,
    ok,
    run_fresh,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
CUBE, VECTOR = 0, 1
FROM_USER = ["aclrtGetPhyDevIdByLogicDevId", "aclrtGetPhyDevIdByUserDevId"]
TO_USER = [
    "aclrtGetUserDevIdByLogicDevId",
    "aclrtGetLogicDevIdByPhyDevId",
    "aclrtGetUserDevIdByPhyDevId",
]


@pytest.mark.parametrize("function", FROM_USER + TO_USER)
@rule("S2.50")
def test_id_to_null(function: str) -> None:
    assert getattr(acl, function)(0, NULL) == 100000


@pytest.mark.parametrize("function", FROM_USER + TO_USER)
@rule("S2.51")
def test_id_of_no_device(function: str) -> None:
    out = ffi.new("int32_t *", 77)
    for wrong in (-1, 99):
        assert getattr(acl, function)(wrong, out) == 107001
    assert out[0] == 77


@rule("S2.52")
def test_ids() -> None:
    def body(from_user: list[str], to_user: list[str]) -> Any:
        out = ffi.new("int32_t *")
        answers = []
        for function in from_user:
            for user in (0, 1):
                ok(getattr(acl, function)(user, out))
                answers.append(out[0])
        for function in to_user:
            for machine in (1, 3):
                ok(getattr(acl, function)(machine, out))
                answers.append(out[0])
            answers.append(getattr(acl, function)(0, out))
        return answers

    seen = fresh_devices(
        4, body, {"ASCEND_RT_VISIBLE_DEVICES": "1,3"}, from_user=FROM_USER, to_user=TO_USER
    )
    assert seen == [1, 3] * 2 + [0, 1, 107001] * 3


def uuid_of(device: int = 0) -> bytes:
    out = ffi.new("aclrtUuid *")
    ok(acl.aclrtDeviceGetUuid(device, out))
    return bytes(ffi.buffer(out))


@rule("S2.53")
def test_uuid_of_null() -> None:
    assert acl.aclrtDeviceGetUuid(0, NULL) == 100000


@rule("S2.54")
def test_uuid_of_no_device() -> None:
    for wrong in (-1, 99):
        assert acl.aclrtDeviceGetUuid(wrong, ffi.new("aclrtUuid *")) == 107001


@rule("S2.55")
def test_uuid() -> None:
    def body() -> Any:
        out = ffi.new("aclrtUuid[2]")
        for device in range(2):
            ok(acl.aclrtDeviceGetUuid(device, out + device))
        return [bytes(ffi.buffer(out + device)).hex() for device in range(2)]

    first, second = fresh_devices(2, body)
    assert first != second and first == uuid_of().hex() != bytes(16).hex()


def bus_of(device: int = 0) -> str:
    out = ffi.new("char[13]")
    ok(acl.aclrtDeviceGetPCIBusId(device, out, 13))
    return str(ffi.string(out).decode())


@rule("S2.56")
def test_bus_of_null() -> None:
    assert acl.aclrtDeviceGetPCIBusId(0, NULL, 13) == 100000
    assert acl.aclrtDeviceGetByPCIBusId(NULL, ffi.new("int32_t *")) == 100000
    assert acl.aclrtDeviceGetByPCIBusId(b"0000:01:00.0", NULL) == 100000


@rule("S2.57")
def test_bus_in_a_short_buffer() -> None:
    out = ffi.new("char[13]")
    assert acl.aclrtDeviceGetPCIBusId(0, out, 12) == 107000
    assert ffi.string(out) == b""


@rule("S2.58")
def test_bus_and_back() -> None:
    text = bus_of()
    assert len(text) == 12 and [text[4], text[7], text[10]] == [":", ":", "."]
    out = ffi.new("int32_t *", 77)
    for spelling in (text, text.upper()):
        ok(acl.aclrtDeviceGetByPCIBusId(spelling.encode(), out))
        assert out[0] == 0


@guess
@rule("S2.59")
def test_bus_of_nobody() -> None:
    out = ffi.new("int32_t *", 77)
    for wrong in (b"", b"ffff:ff:ff.7", bus_of().encode()[:-1], b"x" * 100):
        assert acl.aclrtDeviceGetByPCIBusId(wrong, out) == 107000
    assert out[0] == 77


@rule("S2.60")
def test_capability_of_null() -> None:
    assert acl.aclrtGetDeviceCapability(0, 1, NULL) == 100000


@rule("S2.61")
@pytest.mark.emulator
def test_capabilities() -> None:
    for feature in (1, 21):
        out = ffi.new("int32_t *", 77)
        ok(acl.aclrtGetDeviceCapability(0, feature, out))
        assert out[0] == 0


@rule("S2.62")
def test_memory_errors_of_null() -> None:
    out, count = ffi.new("aclrtMemUceInfo[1]"), ffi.new("size_t *")
    assert acl.aclrtGetMemUceInfo(0, NULL, 1, count) == 100000
    assert acl.aclrtGetMemUceInfo(0, out, 1, NULL) == 100000
    assert acl.aclrtGetMemUceInfo(0, out, 0, count) == 100000


@rule("S2.63")
def test_no_memory_errors(device: int) -> None:
    count = ffi.new("size_t *", 77)
    ok(acl.aclrtGetMemUceInfo(0, ffi.new("aclrtMemUceInfo[20]"), 20, count))
    assert count[0] == 0


@rule("S2.64")
def test_architecture_of_null() -> None:
    assert acl.aclrtCheckArchCompatibility(NULL, ffi.new("int32_t *")) == 100000
    assert acl.aclrtCheckArchCompatibility(b"Ascend910B1", NULL) == 100000


@rule("S2.65")
def test_architecture_of_no_chip() -> None:
    assert acl.aclrtCheckArchCompatibility(b"Ascend1", ffi.new("int32_t *")) == 107000


@rule("S2.66")
def test_architectures() -> None:
    def body() -> Any:
        out = ffi.new("int32_t *")
        answers = []
        for name in (b"Ascend910B1", b"Ascend910B4", b"Ascend310P3", b"Ascend950PR_9579"):
            ok(acl.aclrtCheckArchCompatibility(name, out))
            answers.append(out[0])
        return answers

    assert fresh_on("A2", body) == [1, 1, 0, 0]


# --- core limits -------------------------------------------------------------------------------


def cores(kind: int) -> int:
    out = ffi.new("int64_t *")
    ok(acl.aclrtGetDeviceInfo(0, 102 if kind == CUBE else 201, out))
    return int(out[0])


def device_limit(kind: int = CUBE) -> int:
    out = ffi.new("uint32_t *", 777)
    ok(acl.aclrtGetDeviceResLimit(0, kind, out))
    return int(out[0])


def stream_limit(stream: Any, kind: int = CUBE) -> int:
    out = ffi.new("uint32_t *", 777)
    ok(acl.aclrtGetStreamResLimit(stream, kind, out))
    return int(out[0])


def thread_limit(kind: int = CUBE) -> int:
    out = ffi.new("uint32_t *", 777)
    ok(acl.aclrtGetResInCurrentThread(kind, out))
    return int(out[0])


@pytest.fixture
def limits(device: int) -> Any:
    """The device with all its cores, before and after."""
    ok(rawabi.real.aclrtResetDeviceResLimit(0))
    yield device
    rawabi.real.aclrtResetDeviceResLimit(0)


@rule("S2.67")
def test_limit_arguments(limits: int, stream: Any) -> None:
    out = ffi.new("uint32_t *")
    for kind in (2, 2**31):
        assert acl.aclrtSetDeviceResLimit(0, kind, 1) == 107000
        assert acl.aclrtGetDeviceResLimit(0, kind, out) == 107000
        assert acl.aclrtSetStreamResLimit(stream, kind, 1) == 107000
        assert acl.aclrtGetStreamResLimit(stream, kind, out) == 107000
        assert acl.aclrtGetResInCurrentThread(kind, out) == 107000
    assert acl.aclrtGetDeviceResLimit(0, CUBE, NULL) == 107000
    assert acl.aclrtGetStreamResLimit(stream, CUBE, NULL) == 107000
    assert acl.aclrtGetResInCurrentThread(CUBE, NULL) == 107000


@rule("S2.68")
def test_limit_of_no_device() -> None:
    out = ffi.new("uint32_t *")
    assert acl.aclrtSetDeviceResLimit(99, CUBE, 1) == 107001
    assert acl.aclrtGetDeviceResLimit(99, CUBE, out) == 107001
    assert acl.aclrtResetDeviceResLimit(99) == 107001
    assert acl.aclrtSetDeviceResLimit(99, 2, 1) == 107000


@rule("S2.69")
def test_limit_of_a_device_that_is_not_set() -> None:
    out = ffi.new("uint32_t *")
    assert acl.aclrtSetDeviceResLimit(0, CUBE, 1) == 507033
    assert acl.aclrtGetDeviceResLimit(0, CUBE, out) == 507033
    assert acl.aclrtResetDeviceResLimit(0) == 507033


@rule("S2.70")
def test_more_cores_than_there_are(limits: int, stream: Any) -> None:
    for kind in (CUBE, VECTOR):
        assert acl.aclrtSetDeviceResLimit(0, kind, cores(kind) + 1) == 107000
        assert acl.aclrtSetStreamResLimit(stream, kind, cores(kind) + 1) == 107000
        assert device_limit(kind) == stream_limit(stream, kind) == cores(kind)


@rule("S2.71")
def test_device_limits(limits: int) -> None:
    assert [device_limit(kind) for kind in (CUBE, VECTOR)] == [cores(CUBE), cores(VECTOR)]
    ok(acl.aclrtSetDeviceResLimit(0, CUBE, 3))
    ok(acl.aclrtSetDeviceResLimit(0, CUBE, 5))
    assert (device_limit(CUBE), device_limit(VECTOR)) == (5, cores(VECTOR))
    ok(acl.aclrtResetDeviceResLimit(0))
    assert device_limit(CUBE) == cores(CUBE)


@rule("S2.72")
def test_stream_limits(limits: int, stream: Any) -> None:
    ok(acl.aclrtSetDeviceResLimit(0, CUBE, 7))
    assert stream_limit(stream) == 7
    ok(acl.aclrtSetStreamResLimit(stream, CUBE, 9))  # may be above the device's
    assert (stream_limit(stream), stream_limit(NULL), device_limit()) == (9, 7, 7)
    ok(acl.aclrtSetStreamResLimit(NULL, CUBE, 4))
    assert (stream_limit(NULL), stream_limit(rawabi.default_stream())) == (4, 4)
    ok(acl.aclrtResetStreamResLimit(stream))
    ok(acl.aclrtResetStreamResLimit(NULL))
    assert (stream_limit(stream), stream_limit(NULL)) == (7, 7)


@rule("S2.73")
def test_limits_of_a_thread(limits: int, stream: Any) -> None:
    other = new_stream()
    ok(acl.aclrtSetDeviceResLimit(0, CUBE, 8))
    ok(acl.aclrtSetStreamResLimit(stream, CUBE, 2))
    assert thread_limit() == 8
    ok(acl.aclrtUseStreamResInCurrentThread(stream))
    assert (thread_limit(CUBE), thread_limit(VECTOR)) == (2, cores(VECTOR))

    def elsewhere() -> int:
        ok(acl.aclrtSetDevice(0))
        return thread_limit()

    assert in_thread(elsewhere) == 8
    ok(acl.aclrtUnuseStreamResInCurrentThread(other))
    assert thread_limit() == 2
    ok(acl.aclrtUnuseStreamResInCurrentThread(stream))
    assert thread_limit() == 8


@rule("S2.74")
def test_limit_of_a_dead_stream(limits: int) -> None:
    stream = new_stream()
    ok(acl.aclrtSetStreamResLimit(stream, CUBE, 2))
    ok(acl.aclrtUseStreamResInCurrentThread(stream))
    ok(acl.aclrtDestroyStream(stream))
    assert acl.aclrtSetStreamResLimit(stream, CUBE, 2) == 107017
    assert acl.aclrtUseStreamResInCurrentThread(stream) == 107017
    assert thread_limit() == cores(CUBE)  # a dead stream limits nobody


@rule("S2.75")
def test_limits_of_a_thread_without_context() -> None:
    out = ffi.new("uint32_t *")
    assert in_thread(lambda: acl.aclrtGetResInCurrentThread(CUBE, out)) == 107002


# --- overflow mode and time limits -------------------------------------------------------------


@rule("S2.76")
def test_overflow_modes_that_do_not_exist() -> None:
    for mode in (2, 2**31):
        assert acl.aclrtSetDeviceSatMode(mode) == 107000


@rule("S2.77")
def test_overflow_mode_to_null() -> None:
    assert acl.aclrtGetDeviceSatMode(NULL) == 100000


@pytest.mark.parametrize(("chip", "first"), [("A2", 1), ("310P", 0)])
@rule("S2.78")
def test_overflow_modes(chip: str, first: int) -> None:
    def body() -> Any:
        out = ffi.new("aclrtFloatOverflowMode *", 77)
        seen = []
        ok(acl.aclrtGetDeviceSatMode(out))
        seen.append(out[0])
        for mode in (0, 1):
            ok(acl.aclrtSetDeviceSatMode(mode))
            ok(acl.aclrtGetDeviceSatMode(out))
            seen.append(out[0])
        return seen

    assert fresh_on(chip, body) == [first, 0, 1]


@rule("S2.79")
def test_time_limit_to_null(device: int) -> None:
    assert acl.aclrtSetOpExecuteTimeOutV2(1, NULL) == 107000
    assert acl.aclrtGetOpTimeOutInterval(NULL) == 107000


@rule("S2.80")
def test_time_limit_in_force_to_null() -> None:
    assert acl.aclrtGetOpExecuteTimeout(NULL) == 100000


@rule("S2.81")
def test_time_limit_without_device() -> None:
    out = ffi.new("uint64_t *")
    assert in_thread(lambda: acl.aclrtSetOpExecuteTimeOutV2(1, out)) == 107002
    assert in_thread(lambda: acl.aclrtGetOpTimeOutInterval(out)) == 107002


@rule("S2.82")
def test_time_limits_in_intervals() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out = ffi.new("uint64_t *")
        ok(acl.aclrtGetOpTimeOutInterval(out))
        interval = out[0]
        actual = []
        for asked in (1, interval, interval + 1, interval * 300, 0):
            ok(acl.aclrtSetOpExecuteTimeOutV2(asked, out))
            actual.append(out[0] / interval)
        return interval > 0, actual

    assert run_fresh(body) == [True, [1, 1, 2, 254, 254]]


@rule("S2.83")
def test_time_limits() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        out, interval = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        ok(acl.aclrtGetOpTimeOutInterval(interval))
        seen = []
        for function, value in (
            (None, 0),
            ("aclrtSetOpExecuteTimeOut", 20),
            ("aclrtSetOpExecuteTimeOutWithMs", 20),
            ("aclrtSetOpExecuteTimeOut", 0),
        ):
            if function:
                ok(getattr(acl, function)(value))
            ok(acl.aclrtGetOpExecuteTimeout(out))
            seen.append(out[0])
        return seen, interval[0]

    seen, interval_us = rawabi.fresh_on("A2", body)
    step = interval_us / 1000
    assert seen[0] == 1091000
    assert 20000 <= seen[1] <= 20000 + step
    assert seen[2] == int(step) and seen[3] == int(254 * interval_us / 1000)


SIMD_STACK, SIMT_STACK, DIVERGENCE, SIMD_PRINT, SIMT_PRINT = 2, 0, 1, 3, 4


@rule("S2.84")
def test_size_arguments() -> None:
    out = ffi.new("size_t *")
    for wrong in (5, 2**31):
        assert acl.aclrtDeviceSetLimit(wrong, 40000) == 100000
        assert acl.aclrtDeviceGetLimit(wrong, out) == 100000
    assert acl.aclrtDeviceSetLimit(SIMD_STACK, 1 << 32) == 100000
    assert acl.aclrtDeviceGetLimit(SIMD_STACK, NULL) == 100000


@rule("S2.85")
def test_sizes_out_of_range() -> None:
    def body() -> Any:
        wrong = [(2, 32768), (2, 196609), (3, 1023), (3, (64 << 20) + 1)]
        return [acl.aclrtDeviceSetLimit(limit, size) for limit, size in wrong]

    assert fresh_on("A2", body) == [107000] * 4


@pytest.mark.parametrize("chip", ["A2", "A3"])
@rule("S2.86")
def test_simt_sizes_without_simt(chip: str) -> None:
    def body() -> Any:
        out = ffi.new("size_t *")
        sets = [acl.aclrtDeviceSetLimit(limit, 1 << 20) for limit in (0, 1, 4)]
        return sets + [acl.aclrtDeviceGetLimit(limit, out) for limit in (0, 1, 4)]

    assert fresh_on(chip, body) == [207000] * 6


@rule("S2.87")
def test_sizes() -> None:
    def body() -> Any:
        out = ffi.new("size_t *")
        seen = []
        for limit, size in ((0, 0), (1, 513), (2, 65536), (3, 1025), (4, 1048577), (0, 200)):
            ok(acl.aclrtDeviceGetLimit(limit, out))
            seen.append(out[0])
            ok(acl.aclrtDeviceSetLimit(limit, size))
            ok(acl.aclrtDeviceGetLimit(limit, out))
            seen.append(out[0])
        return seen

    assert fresh_on("950", body) == [
        1152 * 32, 0, 1024, 640, 32768, 65536, 32768, 1032, 2097152, 1048584, 0, 256 * 32,
    ]  # fmt: skip
