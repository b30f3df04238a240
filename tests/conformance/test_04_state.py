"""Functions registered for the states of streams and devices (sections 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rawabi import NULL, acl, address, default_stream, ffi, in_thread, made, ok, run_fresh

rule = pytest.mark.rule
CREATED, ENDING = 1, 2


@ffi.callback("aclrtStreamStateCallback")
def no_stream(stream: Any, state: int, data: Any) -> None:
    return None


@ffi.callback("aclrtDeviceStateCallback")
def no_device(device: int, state: int, data: Any) -> None:
    return None


@pytest.fixture(autouse=True)
def names_are_free() -> Iterator[None]:
    yield
    for name in (b"first", b"second", b""):
        ok(acl.aclrtRegStreamStateCallback(name, NULL, NULL))
        ok(acl.aclrtRegDeviceStateCallback(name, NULL, NULL))


@rule("S4.41")
def test_null_name_for_streams() -> None:
    assert acl.aclrtRegStreamStateCallback(NULL, no_stream, NULL) == 100000
    assert acl.aclrtRegStreamStateCallback(NULL, NULL, NULL) == 100000


@rule("S2.88")
def test_null_name_for_devices() -> None:
    assert acl.aclrtRegDeviceStateCallback(NULL, no_device, NULL) == 100000
    assert acl.aclrtRegDeviceStateCallback(NULL, NULL, NULL) == 100000


@rule("S4.42")
def test_stream_name_is_taken() -> None:
    ok(acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL))
    assert acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL) == 107000
    ok(acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL))


@rule("S2.89")
def test_device_name_is_taken() -> None:
    ok(acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL))
    assert acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL) == 107000
    ok(acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL))


@rule("S4.43")
def test_stream_name_is_taken_back() -> None:
    ok(acl.aclrtRegStreamStateCallback(b"first", NULL, NULL))
    ok(acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL))
    assert acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL) == 107000
    ok(acl.aclrtRegStreamStateCallback(b"first", NULL, NULL))
    ok(acl.aclrtRegStreamStateCallback(b"first", no_stream, NULL))


@rule("S2.90")
def test_device_name_is_taken_back() -> None:
    ok(acl.aclrtRegDeviceStateCallback(b"first", NULL, NULL))
    ok(acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL))
    assert acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL) == 107000
    ok(acl.aclrtRegDeviceStateCallback(b"first", NULL, NULL))
    ok(acl.aclrtRegDeviceStateCallback(b"first", no_device, NULL))


@rule("S4.44")
def test_streams_tell_their_states(device: Any) -> None:
    seen: list[tuple[int, int, int, int]] = []

    @ffi.callback("aclrtStreamStateCallback")
    def see(stream: Any, state: int, data: Any) -> None:
        out = ffi.new("int32_t *")
        seen.append((address(data), address(stream), state, acl.aclrtStreamGetId(stream, out)))

    ok(acl.aclrtRegStreamStateCallback(b"second", see, ffi.cast("void *", 2)))
    ok(acl.aclrtRegStreamStateCallback(b"first", see, ffi.cast("void *", 1)))
    stream = made("aclrtCreateStream")
    other = made("aclrtCreateStreamWithConfig", 0, 0)
    one, two = address(stream), address(other)
    assert seen == [(w, s, CREATED, 0) for s in (one, two) for w in (1, 2)]
    seen.clear()
    ok(acl.aclrtDestroyStream(stream))
    ok(acl.aclrtDestroyStreamForce(other))
    assert acl.aclrtDestroyStream(stream) == 107017
    assert seen == [(w, s, ENDING, 0) for s in (one, two) for w in (1, 2)]
    ok(acl.aclrtRegStreamStateCallback(b"second", NULL, NULL))

    seen.clear()

    def in_a_context() -> None:
        context = made("aclrtCreateContext", 0)
        main = address(default_stream())
        inner = address(made("aclrtCreateStream"))
        assert seen == [(1, main, CREATED, 0), (1, inner, CREATED, 0)]
        seen.clear()
        ok(acl.aclrtDestroyContext(context))
        assert seen == [(1, main, ENDING, 0), (1, inner, ENDING, 0)]

    in_thread(in_a_context)
    seen.clear()
    ok(acl.aclrtRegStreamStateCallback(b"first", NULL, NULL))
    ok(acl.aclrtDestroyStream(made("aclrtCreateStream")))
    assert seen == []


@rule("S2.91")
def test_devices_tell_their_states() -> None:
    def body() -> Any:
        seen: list[int] = []
        streams: list[int] = []
        usable: list[int] = []

        def see(device: int, state: int, data: Any) -> None:
            assert device == 0
            seen.append(state)
            stream = ffi.new("void **")
            usable.append(acl.aclrtCtxGetCurrentDefaultStream(stream))

        each = ffi.callback("aclrtDeviceStateCallback", see)
        other = ffi.callback(
            "aclrtStreamStateCallback", lambda stream, state, data: streams.append(state)
        )
        ok(acl.aclrtRegDeviceStateCallback(b"first", each, NULL))
        ok(acl.aclrtRegStreamStateCallback(b"first", other, NULL))
        steps = []
        for call in ("Set", "Set", "Reset", "Reset", "Set", "Set", "ResetDeviceForce"):
            name = call if call.endswith("Force") else f"{call}Device"
            ok(getattr(acl, f"aclrt{name}")(0))
            steps.append([list(seen), list(streams)])
            seen.clear()
            streams.clear()
        assert acl.aclrtResetDevice(0) == 507007
        assert seen == [] and streams == []
        ok(acl.aclrtRegDeviceStateCallback(b"first", NULL, NULL))
        ok(acl.aclrtRegStreamStateCallback(b"first", NULL, NULL))
        ok(acl.aclrtSetDevice(0))
        assert seen == [] and streams == []
        return [steps, [code == 0 for code in usable]]

    first, again = [[0, 1], [1]], [[1], []]
    last, nothing = [[2, 3], [2]], [[], []]
    steps, usable = run_fresh(body)
    assert steps == [first, again, nothing, last, first, again, last]
    assert usable[:5] == [False, True, True, True, False], "the device can be used until it goes"
