"""Contexts (section 3)."""

from __future__ import annotations

from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    acl,
    current_context,
    ffi,
    fresh_devices,
    in_thread,
    limit_address_space,
    malloc,
    new_context,
    new_stream,
    ok,
    query,
    run_fresh,
)

rule = pytest.mark.rule


def get_device() -> int:
    device = ffi.new("int32_t *", -7)
    ok(acl.aclrtGetDevice(device))
    return int(device[0])


@rule("S3.1")
def test_create_null() -> None:
    assert acl.aclrtCreateContext(NULL, 0) == 100000
    assert current_context() is None


@rule("S3.2")
def test_create_on_an_invalid_device() -> None:
    out = ffi.new("void **")
    assert [acl.aclrtCreateContext(out, each) for each in (-1, 4711)] == [107001] * 2
    assert out[0] == NULL and current_context() is None


@rule("S3.4")
def test_create_without_set_device() -> None:
    context = new_context()
    assert current_context() == context
    assert get_device() == 0
    assert malloc(64) != NULL


@rule("S3.5")
def test_create_empties_the_device_slot(device: int) -> None:
    explicit = new_context()
    assert current_context() == explicit
    ok(acl.aclrtDestroyContext(explicit))
    assert current_context() is None
    assert acl.aclrtSynchronizeDevice() == 107002


@rule("S3.6")
def test_context_owns_a_default_stream(device: int) -> None:
    primary = current_context()
    new_context()
    gate = rawabi.Gate(NULL)
    assert query(NULL) == 1
    explicit = current_context()
    ok(acl.aclrtSetCurrentContext(primary))
    assert query(NULL) == 0
    ok(acl.aclrtSynchronizeStreamWithTimeout(NULL, 5000))
    ok(acl.aclrtSetCurrentContext(explicit))
    gate.open()
    ok(acl.aclrtSynchronizeStream(NULL))


@rule("S3.7")
def test_destroy_null(device: int) -> None:
    assert acl.aclrtDestroyContext(NULL) == 100000
    assert current_context() is not None


@rule("S3.8")
def test_destroy_the_primary_context(device: int) -> None:
    primary = current_context()
    assert acl.aclrtDestroyContext(primary) == 107002
    assert current_context() == primary
    ok(acl.aclrtSynchronizeDevice())


@rule("S3.9")
def test_destroy_twice() -> None:
    context = new_context()
    ok(acl.aclrtDestroyContext(context))
    assert acl.aclrtDestroyContext(context) == 107002


@rule("S3.10")
def test_destroy_again_while_a_thread_has_it(worker: rawabi.Worker) -> None:
    context = new_context()
    worker.run(lambda: ok(acl.aclrtSetCurrentContext(context)))
    ok(acl.aclrtDestroyContext(context))
    assert acl.aclrtDestroyContext(context) == 507007


@rule("S3.11")
def test_destroy_ends_its_streams(device: int) -> None:
    context = new_context()
    stream = new_stream()
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtSynchronizeStream(stream))
    ok(acl.aclrtDestroyContext(context))
    assert acl.aclrtSynchronizeStream(stream) == 107017
    assert acl.aclrtDestroyStream(stream) == 107017


@rule("S3.12")
def test_no_context_after_destroying_the_current_one(device: int) -> None:
    primary = current_context()
    ok(acl.aclrtDestroyContext(new_context()))
    assert current_context() is None
    out = ffi.new("void **")
    assert acl.aclrtCreateStream(out) == 107002
    ok(acl.aclrtSetCurrentContext(primary))
    ok(acl.aclrtSynchronizeDevice())


@rule("S3.13")
def test_set_null(device: int) -> None:
    before = current_context()
    assert acl.aclrtSetCurrentContext(NULL) == 100000
    assert current_context() == before


@rule("S3.14")
def test_set_a_dead_or_foreign_context(device: int) -> None:
    primary = current_context()
    gone = new_context()
    ok(acl.aclrtDestroyContext(gone))
    ok(acl.aclrtSetCurrentContext(primary))
    assert acl.aclrtSetCurrentContext(gone) == 107000
    assert acl.aclrtSetCurrentContext(rawabi.foreign()) == 107000
    assert current_context() == primary


@rule("S3.15")
def test_last_set_wins_per_thread(device: int) -> None:
    primary = current_context()
    first, second = new_context(), new_context()
    ok(acl.aclrtSetCurrentContext(first))
    assert current_context() == first
    ok(acl.aclrtSetCurrentContext(second))
    assert current_context() == second

    def elsewhere() -> Any:
        before = current_context()
        ok(acl.aclrtSetCurrentContext(primary))
        return before, current_context()

    assert in_thread(elsewhere) == (None, primary)
    assert current_context() == second


@rule("S3.16")
def test_set_switches_the_device() -> None:
    def body() -> Any:
        device = ffi.new("int32_t *")

        def now() -> int:
            ok(acl.aclrtGetDevice(device))
            return int(device[0])

        ok(acl.aclrtSetDevice(0))
        primary = current_context()
        other = new_context(1)
        seen = [now()]
        ok(acl.aclrtSetCurrentContext(primary))
        seen.append(now())
        ok(acl.aclrtSetCurrentContext(other))
        seen.append(now())
        # The device slot is empty by now: nothing takes the place of the destroyed context.
        ok(acl.aclrtDestroyContext(other))
        return seen, acl.aclrtGetDevice(device)

    assert fresh_devices(2, body) == [[1, 0, 1], 107002]


@rule("S3.17")
def test_get_without_context() -> None:
    out = ffi.new("void **", rawabi.foreign())
    assert acl.aclrtGetCurrentContext(out) == 107002
    ok(acl.aclrtSetDevice(0))
    ok(acl.aclrtGetCurrentContext(out))


@rule("S3.18")
def test_get_after_set_device(device: int) -> None:
    primary = current_context()
    assert primary not in (None, NULL)
    assert acl.aclrtDestroyContext(primary) == 107002
    ok(acl.aclrtSetCurrentContext(primary))
    assert current_context() == primary and get_device() == 0


@rule("S3.19")
def test_new_thread_inherits_nothing(device: int) -> None:
    new_context()

    def elsewhere() -> list[int]:
        device = ffi.new("int32_t *")
        context = ffi.new("void **")
        return [acl.aclrtGetDevice(device), acl.aclrtGetCurrentContext(context)]

    assert in_thread(elsewhere) == [107002, 107002]


@rule("S3.20")
def test_lookup_order(tmp_path: Any) -> None:
    def body(path: str) -> Any:
        device = ffi.new("int32_t *", 77)

        def now() -> int:
            code = acl.aclrtGetDevice(device)
            return int(device[0]) if code == 0 else code

        seen = [now()]
        ok(acl.aclInit(path.encode()))
        seen.append(now())
        ok(acl.aclrtSetDevice(1))
        seen.append(now())
        explicit = new_context(0)
        seen.append(now())
        ok(acl.aclrtDestroyContext(explicit))
        seen.append(now())
        ok(acl.aclrtSetDevice(0))
        seen.append(now())
        return seen

    path = tmp_path / "acl.json"
    path.write_text('{"defaultDevice": {"default_device": "2"}}')
    assert fresh_devices(3, body, path=str(path)) == [107002, 2, 1, 0, 2, 0]


@rule("S3.21")
def test_context_option_never_set(device: int) -> None:
    option, value = acl.ACL_OPT_DETERMINISTIC, ffi.new("int64_t *", 77)
    assert acl.aclrtCtxGetSysParamOpt(option, value) == 107021
    assert value[0] == 77
    ok(acl.aclrtCtxSetSysParamOpt(option, 1))
    ok(acl.aclrtCtxGetSysParamOpt(option, value))
    assert value[0] == 1
    new_context()
    assert acl.aclrtCtxGetSysParamOpt(option, value) == 107021


@rule("S3.23")
@pytest.mark.parametrize("option", [4, 99])
def test_options_that_there_are_none_of(device: int, option: int) -> None:
    value = ffi.new("int64_t *", 77)
    assert acl.aclrtCtxSetSysParamOpt(option, 1) == acl.aclrtSetSysParamOpt(option, 1) == 107000
    assert acl.aclrtCtxGetSysParamOpt(option, value) == 107000
    assert acl.aclrtGetSysParamOpt(option, value) == 107000
    assert value[0] == 77


@rule("S3.22")
def test_process_option() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        option, value = acl.ACL_OPT_DETERMINISTIC, ffi.new("int64_t *", 77)
        ok(acl.aclrtGetSysParamOpt(option, value))
        seen = [value[0]]
        ok(acl.aclrtCtxSetSysParamOpt(option, 1))
        ok(acl.aclrtGetSysParamOpt(option, value))
        return [*seen, value[0]]

    assert run_fresh(body) == [0, 1]


@rule("S3.3")
@pytest.mark.emulator
def test_device_that_cannot_be_opened() -> None:
    def body() -> Any:
        assert acl.aclCreateDataBuffer(NULL, 0) != NULL
        limit_address_space(1 << 30)
        out = ffi.new("void **")
        return acl.aclrtCreateContext(out, 0), out[0] == NULL

    assert run_fresh(body) == [507033, True]
