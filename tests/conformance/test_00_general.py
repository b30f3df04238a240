"""Rules that hold for all calls (section 0)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rawabi
from models import OmFiles
from rawabi import (
    NULL,
    acl,
    ffi,
    flag_event,
    last_error,
    malloc,
    new_context,
    new_stream,
    ok,
    plain_event,
    read,
    run_fresh,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
H2D, D2H, D2D = 1, 2, 3


def skip_absent(name: str) -> None:
    if not rawabi.has(name):
        pytest.skip(f"{name} is not implemented")


def void_out() -> Any:
    return ffi.new("void **")


@rule("S0.1")
def test_first_layer_answers(block: Any, pinned: Any, stream: Any, other_stream: Any) -> None:
    gone = rawabi.new_stream()
    ok(acl.aclrtDestroyStream(gone))
    copy = acl.aclrtMemcpyAsync
    assert copy(NULL, 0, pinned, 8, H2D, gone) == 100000
    assert copy(block, 0, pinned, 8, H2D, gone) == 107017
    assert copy(block, 0, pinned, 8, H2D, other_stream) == 107000
    assert copy(block, 8, pinned, 8, H2D, other_stream) == 107003
    too_long = rawabi.in_thread(lambda: copy(block, 0, pinned, 8, H2D, stream))
    no_context = rawabi.in_thread(lambda: copy(block, 8, pinned, 8, H2D, other_stream))
    assert (too_long, no_context) == (107000, 107002)
    assert rawabi.read(block, 8) == bytes(8)


@rule("S0.2")
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("aclrtMalloc", (NULL, 64, 0)),
        ("aclrtFree", (NULL,)),
        ("aclrtGetDevice", (NULL,)),
        ("aclrtCreateStream", (NULL,)),
        ("aclrtCreateEvent", (NULL,)),
        ("aclrtCreateContext", (NULL, 0)),
        ("aclrtGetMemInfo", (1, NULL, NULL)),
    ],
)
def test_null_of_the_acl_layer(device: int, name: str, arguments: tuple[Any, ...]) -> None:
    before = rawabi.current_context()
    assert getattr(acl, name)(*arguments) == 100000
    assert rawabi.current_context() == before


def _null_wait_event(stream: Any) -> int:
    return int(acl.aclrtStreamWaitEventWithTimeout(stream, NULL, 1))


def _null_peer_answer(stream: Any) -> int:
    return int(acl.aclrtDeviceCanAccessPeer(NULL, 0, 1))


def _null_host_function(stream: Any) -> int:
    return int(acl.aclrtLaunchHostFunc(stream, NULL, NULL))


def _null_callback(stream: Any) -> int:
    return int(acl.aclrtLaunchCallback(NULL, NULL, acl.ACL_CALLBACK_NO_BLOCK, stream))


@rule("S0.3")
@pytest.mark.parametrize(
    "name, call",
    [
        ("aclrtStreamWaitEventWithTimeout", _null_wait_event),
        ("aclrtDeviceCanAccessPeer", _null_peer_answer),
        ("aclrtLaunchHostFunc", _null_host_function),
        ("aclrtLaunchCallback", _null_callback),
    ],
)
def test_null_of_the_runtime_layer(stream: Any, name: str, call: Callable[[Any], int]) -> None:
    skip_absent(name)
    assert call(stream) == 107000
    assert rawabi.query(stream) == 0


@rule("S0.4")
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("aclrtMalloc", (0, 0)),
        ("aclrtMallocAlign32", (0, 0)),
        ("aclrtMallocCached", (0, 0)),
        ("aclrtMallocWithCfg", (0, 0, NULL)),
        ("aclrtMallocHost", (0,)),
        ("aclrtMallocHostWithCfg", (0, NULL)),
        ("aclrtReserveMemAddress", (0, 0, NULL, 1)),
    ],
)
def test_size_zero(device: int, name: str, arguments: tuple[Any, ...]) -> None:
    skip_absent(name)
    out = void_out()
    assert getattr(acl, name)(out, *arguments) == 100000
    assert out[0] == NULL


@rule("S0.5")
def test_runtime_codes_pass_unchanged(stream: Any) -> None:
    size = ffi.new("size_t *")
    answers = []
    for call in (
        lambda: acl.aclrtSetDevice(4711),
        lambda: acl.aclrtGetMemInfo(99, size, size),
        lambda: acl.aclrtSynchronizeStream(rawabi.foreign()),
    ):
        answers.append((call(), last_error()))
    assert answers == [(107001, 107001), (107016, 107016), (107017, 107017)]


@rule("S0.6")
def test_graph_engine_code_outside_the_range(initialised: None, device: int, om: OmFiles) -> None:
    model_id = ffi.new("uint32_t *", 4711)
    data = om.damaged_definition()
    assert acl.aclmdlLoadFromMem(ffi.from_buffer(data), len(data), model_id) == 500002
    assert acl.aclmdlLoadFromFile(om.path(data), model_id) == 500002
    assert acl.aclmdlUnload(4711) == 145003


@rule("S0.7")
def test_graph_engine_code_inside_the_range(initialised: None, device: int, om: OmFiles) -> None:
    model_id = ffi.new("uint32_t *")
    sizes = ffi.new("size_t[2]")
    assert acl.aclmdlLoadFromFile(b"no such file.om", model_id) == 145002
    assert acl.aclmdlUnload(987654) == 145003
    assert acl.aclmdlQuerySize(b"no such file.om", sizes, sizes + 1) == 145002


@rule("S0.8")
def test_no_init_needed_by_runtime_calls() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        pointer = malloc(64)
        write(pointer, b"without init")
        stream = new_stream()
        ok(acl.aclrtSynchronizeStream(stream))
        dims = ffi.new("int64_t[2]", [2, 3])
        desc = acl.aclCreateTensorDesc(acl.ACL_FLOAT, 2, dims, acl.ACL_FORMAT_ND)
        buffer = acl.aclCreateDataBuffer(pointer, 64)
        dataset = acl.aclmdlCreateDataset()
        ok(acl.aclmdlAddDatasetBuffer(dataset, buffer))
        return [
            read(pointer, 12).decode(),
            acl.aclGetTensorDescSize(desc),
            acl.aclGetDataBufferSizeV2(buffer),
            acl.aclmdlGetDatasetNumBuffers(dataset),
        ]

    assert run_fresh(body) == ["without init", 24, 64, 1]


@rule("S0.9")
def test_model_calls_ask_for_init(om: OmFiles) -> None:
    def body(path: str) -> Any:
        ok(acl.aclrtSetDevice(0))
        model_id = ffi.new("uint32_t *")
        sizes = ffi.new("size_t[2]")
        data = Path(path).read_bytes()
        desc = acl.aclmdlCreateDesc()
        empty = acl.aclmdlCreateDataset()
        before = [
            acl.aclmdlLoadFromFile(path.encode(), model_id),
            acl.aclmdlLoadFromMem(ffi.from_buffer(data), len(data), model_id),
            acl.aclmdlQuerySize(path.encode(), sizes, sizes + 1),
            acl.aclmdlGetDesc(desc, 1),
            acl.aclmdlExecute(1, empty, empty),
        ]
        ok(acl.aclInit(NULL))
        return before, acl.aclmdlLoadFromFile(path.encode(), model_id)

    assert run_fresh(body, path=om.good_path) == [[145001] * 5, 0]


@rule("S0.10")
def test_unload_does_not_ask_for_init() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        return acl.aclmdlUnload(1)

    assert run_fresh(body) == 145003


def _calls_that_need_a_context() -> list[int]:
    out = void_out()
    sizes = ffi.new("size_t[2]")
    host = ffi.new("char[64]")
    answers = [
        acl.aclrtMalloc(out, 64, 0),
        acl.aclrtCreateStream(out),
        acl.aclrtCreateEvent(out),
        acl.aclrtMallocHost(out, 64),
        acl.aclrtSynchronizeDevice(),
        acl.aclrtGetMemInfo(1, sizes, sizes + 1),
        acl.aclrtMemcpy(host, 32, host + 32, 32, 0),
    ]
    assert out[0] == NULL
    return answers


@rule("S0.11")
def test_thread_without_context(device: int) -> None:
    assert rawabi.in_thread(_calls_that_need_a_context) == [107002] * 7


@rule("S0.12")
def test_thread_with_a_context_destroyed_elsewhere(worker: rawabi.Worker) -> None:
    context = rawabi.new_context()
    worker.run(lambda: ok(acl.aclrtSetCurrentContext(context)))
    worker.run(lambda: ok(acl.aclrtSynchronizeDevice()))
    ok(acl.aclrtDestroyContext(context))
    out = void_out()
    calls = (
        lambda: acl.aclrtMalloc(out, 64, 0),
        lambda: acl.aclrtCreateStream(out),
        acl.aclrtSynchronizeDevice,
    )
    assert [worker.run(call) for call in calls] == [107002] * 3
    assert out[0] == NULL


@rule("S0.13")
def test_destroyed_handles(stream: Any, block: Any) -> None:
    gone = rawabi.new_stream()
    ok(acl.aclrtDestroyStream(gone))
    event = rawabi.flag_event()
    ok(acl.aclrtDestroyEvent(event))
    status = ffi.new("aclrtStreamStatus *")
    recorded = ffi.new("aclrtEventRecordedStatus *")
    live = rawabi.flag_event()
    answers = [
        acl.aclrtDestroyStream(gone),
        acl.aclrtSynchronizeStream(gone),
        acl.aclrtStreamQuery(gone, status),
        acl.aclrtRecordEvent(live, gone),
        acl.aclrtStreamWaitEvent(gone, live),
        acl.aclrtMemsetAsync(block, 64, 1, 64, gone),
        acl.aclrtRecordEvent(event, stream),
        acl.aclrtStreamWaitEvent(stream, event),
        acl.aclrtDestroyEvent(event),
        acl.aclrtSynchronizeEvent(event),
        acl.aclrtQueryEventStatus(event, recorded),
    ]
    assert answers == [107017] * 11
    assert rawabi.read(block, 64) == bytes(64)


@rule("S0.14")
def test_handles_of_another_kind(stream: Any) -> None:
    event = rawabi.flag_event()
    answers = [
        acl.aclrtDestroyStream(event),
        acl.aclrtSynchronizeStream(event),
        acl.aclrtDestroyEvent(stream),
        acl.aclrtSynchronizeEvent(stream),
        acl.aclrtRecordEvent(stream, stream),
        acl.aclrtRecordEvent(event, event),
    ]
    assert answers == [107017] * 6
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeEvent(event))


@rule("S0.15")
def test_made_up_context_is_refused_untouched(device: int) -> None:
    primary = rawabi.current_context()
    gone = rawabi.new_context()
    ok(acl.aclrtDestroyContext(gone))
    answers = [
        acl.aclrtSetCurrentContext(rawabi.foreign()),
        acl.aclrtDestroyContext(rawabi.foreign()),
        acl.aclrtSetCurrentContext(gone),
        acl.aclrtDestroyContext(gone),
    ]
    assert answers == [107000, 107002, 107000, 107002]
    ok(acl.aclrtSetCurrentContext(primary))


@guess
@rule("S0.16")
def test_use_after_destroy_with_new_objects_around(device: int) -> None:
    gone = rawabi.new_stream()
    ok(acl.aclrtDestroyStream(gone))
    event = rawabi.flag_event()
    ok(acl.aclrtDestroyEvent(event))
    later = [rawabi.new_stream() for _ in range(8)]
    assert acl.aclrtSynchronizeStream(gone) == 107017
    assert acl.aclrtDestroyEvent(event) == 107017
    assert [acl.aclrtDestroyStream(each) for each in later] == [0] * 8


def _null_copy(gate: Any, block: Any, pinned: Any) -> int:
    return int(acl.aclrtMemcpyAsync(block, 8, pinned, 8, H2D, NULL))


def _null_memset(gate: Any, block: Any, pinned: Any) -> int:
    return int(acl.aclrtMemsetAsync(block, 8, 0x5A, 8, NULL))


def _null_host_func(gate: Any, block: Any, pinned: Any) -> int:
    skip_absent("aclrtLaunchHostFunc")
    return int(acl.aclrtLaunchHostFunc(NULL, rawabi.mark_host_memory, pinned))


@rule("S0.17")
@pytest.mark.parametrize("queue", [_null_copy, _null_memset, _null_host_func])
def test_null_stream_is_the_default_stream_for_work(
    block: Any, pinned: Any, queue: Callable[[Any, Any, Any], int]
) -> None:
    ffi.buffer(pinned, 8)[:] = b"original"
    with rawabi.gated(NULL) as gate:
        ok(queue(gate, block, pinned))
        assert rawabi.query(NULL) == 1
        assert rawabi.read(block, 8) == bytes(8)
        assert bytes(ffi.buffer(pinned, 8)) == b"original"
    ok(acl.aclrtSynchronizeStream(NULL))
    assert rawabi.query(NULL) == 0
    changed = (rawabi.read(block, 8), bytes(ffi.buffer(pinned, 8)))
    assert changed != (bytes(8), b"original")


@rule("S0.17")
def test_null_stream_is_the_default_stream_for_events(stream: Any) -> None:
    event = rawabi.flag_event()
    with rawabi.gated(NULL):
        ok(acl.aclrtRecordEvent(event, NULL))
        assert rawabi.event_status(event) == 0
    ok(acl.aclrtSynchronizeEvent(event))
    ok(acl.aclrtResetEvent(event, NULL))
    ok(acl.aclrtSynchronizeStream(NULL))
    ok(acl.aclrtStreamWaitEvent(NULL, event))
    assert rawabi.query(NULL) == 1
    ok(acl.aclrtRecordEvent(event, stream))
    ok(acl.aclrtSynchronizeStreamWithTimeout(NULL, 5000))


def _foreign_callback(stream: Any, block: Any, pinned: Any, event: Any) -> int:
    skip_absent("aclrtLaunchCallback")
    return int(acl.aclrtLaunchCallback(rawabi.mark_host_memory, pinned, 0, stream))


def _foreign_host_func(stream: Any, block: Any, pinned: Any, event: Any) -> int:
    skip_absent("aclrtLaunchHostFunc")
    return int(acl.aclrtLaunchHostFunc(stream, rawabi.mark_host_memory, pinned))


@rule("S0.18")
@pytest.mark.parametrize(
    "call",
    [
        lambda stream, block, pinned, event: acl.aclrtDestroyStream(stream),
        lambda stream, block, pinned, event: acl.aclrtMemcpyAsync(block, 8, pinned, 8, H2D, stream),
        lambda stream, block, pinned, event: acl.aclrtMemsetAsync(block, 8, 1, 8, stream),
        lambda stream, block, pinned, event: acl.aclrtRecordEvent(event, stream),
        lambda stream, block, pinned, event: acl.aclrtResetEvent(event, stream),
        lambda stream, block, pinned, event: acl.aclrtStreamWaitEvent(stream, event),
        _foreign_callback,
        _foreign_host_func,
    ],
    ids=["destroy", "copy", "memset", "record", "reset", "wait", "callback", "host-function"],
)
def test_stream_of_another_context(
    block: Any, pinned: Any, other_stream: Any, call: Callable[[Any, Any, Any, Any], int]
) -> None:
    event = rawabi.flag_event()
    ffi.buffer(pinned, 8)[:] = b"original"
    assert call(other_stream, block, pinned, event) == 107003
    assert rawabi.query(other_stream) == 0
    assert rawabi.read(block, 8) == bytes(8)
    assert bytes(ffi.buffer(pinned, 8)) == b"original"
    assert rawabi.event_status(event) == 0


@rule("S0.19")
def test_reset_of_a_plain_event_on_950() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        new_context()
        other = new_stream()
        ok(acl.aclrtSetDevice(0))
        event = plain_event()
        flag = flag_event()
        assert acl.aclrtRecordEvent(event, other) == 107003
        return acl.aclrtResetEvent(event, other), acl.aclrtResetEvent(flag, other)

    assert rawabi.fresh_on("950", body) == [0, 107003]


@rule("S0.20")
def test_synchronize_a_stream_of_another_context(device: int) -> None:
    other = rawabi.new_context()
    stream = rawabi.new_stream()
    gate = rawabi.Gate(stream)
    opener = threading.Timer(0.1, rawabi.open_in_context(gate))
    ok(acl.aclrtSetDevice(0))
    before = rawabi.current_context()
    opener.start()
    ok(acl.aclrtSynchronizeStream(stream))
    assert gate.is_open and rawabi.query(stream) == 0
    opener.join()
    assert rawabi.current_context() == before != other


@rule("S0.21")
def test_query_a_stream_of_another_context(device: int) -> None:
    other = rawabi.new_context()
    stream = rawabi.new_stream()
    gate = rawabi.Gate(stream)
    ok(acl.aclrtSetDevice(0))
    assert rawabi.query(stream) == 1
    ok(acl.aclrtSetCurrentContext(other))
    gate.open()
    ok(acl.aclrtSetDevice(0))
    assert rawabi.eventually(lambda: rawabi.query(stream) == 0)


@rule("S0.22")
def test_synchronize_and_query_need_some_context(stream: Any) -> None:
    status = ffi.new("aclrtStreamStatus *", 0xFFFF)
    calls = (
        lambda: acl.aclrtSynchronizeStream(stream),
        lambda: acl.aclrtStreamQuery(stream, status),
    )
    assert [rawabi.in_thread(call) for call in calls] == [107002, 107002]
    assert status[0] == 0xFFFF
    assert rawabi.query(stream) == 0


@rule("S0.23")
def test_runtime_failures_are_stored(device: int) -> None:
    assert last_error() == 0
    assert acl.aclrtSetDevice(4711) == 107001
    assert last_error() == 107001
    assert acl.aclrtGetMemInfo(99, ffi.new("size_t *"), ffi.new("size_t *")) == 107016
    assert acl.aclrtGetLastError(0) == 107016
    assert last_error() == 0


@rule("S0.24")
def test_feature_codes_are_not_stored(stream: Any, pinned: Any) -> None:
    event = rawabi.ex_event()
    status = ffi.new("aclrtEventStatus *")
    assert acl.aclrtSetDevice(4711) == 107001
    answers = [
        acl.aclrtResetEvent(event, stream),
        acl.aclrtQueryEvent(event, status),
        acl.aclrtMemcpyAsync(rawabi.offset(pinned, 64), 8, pinned, 8, 0, stream),
    ]
    assert answers == [207000] * 3
    assert last_error() == 107001


@rule("S0.25")
def test_missing_context_of_two_getters_is_not_stored() -> None:
    def body() -> Any:
        out = ffi.new("int32_t *")
        context = ffi.new("void **")
        codes = [acl.aclrtGetDevice(out), acl.aclrtGetCurrentContext(context)]
        quiet = last_error()
        codes.append(acl.aclrtSynchronizeDevice())
        return codes, quiet, last_error()

    assert run_fresh(body) == [[107002] * 3, 0, 107002]


@rule("S0.26")
def test_option_never_set_is_not_stored(device: int) -> None:
    value = ffi.new("int64_t *")
    assert acl.aclrtSetDevice(4711) == 107001
    assert acl.aclrtCtxGetSysParamOpt(acl.ACL_OPT_DETERMINISTIC, value) == 107021
    assert last_error() == 107001


@rule("S0.27")
def test_force_reset_failures_are_not_stored(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    ok(acl.aclrtResetDeviceForce(0))
    assert acl.aclrtResetDeviceForce(0) == 507007
    assert acl.aclrtResetDeviceForce(4711) == 107001
    assert acl.aclrtGetLastError(0) == 107001
    assert acl.aclrtResetDeviceForce(0) == 507007
    assert last_error() == 0


@rule("S0.29")
def test_acl_layer_failures_are_not_stored(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    assert acl.aclrtMalloc(NULL, 64, 0) == 100000
    assert acl.aclrtCreateStream(NULL) == 100000
    assert last_error() == 107001


@rule("S0.30")
def test_reserved_flags_are_not_stored(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    assert acl.aclrtDeviceEnablePeerAccess(1, 1) == 200006
    assert last_error() == 107001


@rule("S0.31")
def test_timeout_below_range_is_not_stored(stream: Any) -> None:
    assert acl.aclrtSynchronizeStreamWithTimeout(stream, -2) == 107000
    assert last_error() == 0
    assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) == 107000
    assert last_error() == 107000
