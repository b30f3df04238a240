"""Model instances built by hand (section 10), conditions, and looking at recorded tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rawabi
from capturing import (
    DEFAULT,
    HEAD,
    RELAXED,
    Built,
    capture,
    closing,
    end,
    end_code,
    fill,
    first_byte,
    info,
    persistent,
    run,
)
from rawabi import (
    NULL,
    acl,
    ex_event,
    ffi,
    flag_event,
    foreign,
    last_error,
    made,
    new_stream,
    ok,
    query,
)

rule = pytest.mark.rule


@rule("S10.41")
def test_execute_arguments(stream: Any, block: Any) -> None:
    with Built(HEAD) as built:
        built.finish()
        assert acl.aclmdlRIExecute(built.handle, 0) == 107000
        assert acl.aclmdlRIExecute(built.handle, -2) == 107000
        ok(acl.aclmdlRIExecute(built.handle, 5000))
    with capture(stream) as instance:
        fill(block, 1, stream)
    assert acl.aclmdlRIExecute(instance[0], -1) == 107000
    assert first_byte(block) == 0


@rule("S10.42")
def test_missing_end_task() -> None:
    def body() -> Any:
        from capturing import Built

        ok(acl.aclrtSetDevice(0))
        built = Built(0)
        return [acl.aclmdlRIBuildEnd(built.handle, NULL), acl.aclmdlRIExecute(built.handle, -1)]

    for chip in ("A2", "A3", "950", "310B"):
        assert rawabi.fresh_on(chip, body) == [507011] * 2
    for chip in ("310P", "910"):
        assert rawabi.fresh_on(chip, body) == [0, 0]


@rule("S10.42")
def test_missing_build_end() -> None:
    def body() -> Any:
        from capturing import Built

        ok(acl.aclrtSetDevice(0))
        built, stream = Built(0), new_stream()
        ok(acl.aclmdlRIEndTask(built.handle, built.streams[0]))
        codes = [acl.aclmdlRIExecuteAsync(built.handle, stream)]
        ok(acl.aclrtSynchronizeStream(stream))
        return [*codes, acl.aclmdlRIExecute(built.handle, -1)]

    for chip in ("A2", "A3", "950"):
        assert rawabi.fresh_on(chip, body) == [507011, 0]
    assert rawabi.fresh_on("310B", body) == [0, 0]


@rule("S4.14")
def test_destroy_a_bound_stream(device: int) -> None:
    with Built(HEAD) as built:
        assert acl.aclrtDestroyStream(built.streams[0]) == 107005
        ok(acl.aclmdlRIUnbindStream(built.handle, built.streams[0]))
        ok(acl.aclrtDestroyStream(built.streams.pop()))


def aborted(block: Any) -> tuple[Any, Any]:
    """Run an instance that waits for ever, and abort it; returns the stream and the gate."""
    stream, event = new_stream(), flag_event()
    built = Built(HEAD)
    fill(block, 1, built.streams[0])
    ok(acl.aclrtStreamWaitEvent(built.streams[0], event))
    fill(block, 2, built.streams[0])
    built.finish()
    ok(acl.aclmdlRIExecuteAsync(built.handle, stream))
    assert rawabi.eventually(lambda: first_byte(block) == 1)
    ok(acl.aclmdlRIAbort(built.handle))
    return stream, built


@rule("S4.25")
def test_normal_abort_is_returned(block: Any) -> None:
    stream, built = aborted(block)
    assert acl.aclrtSynchronizeStream(stream) == 507023
    assert first_byte(block) == 1
    ok(acl.aclrtSynchronizeStream(stream))
    built.close()


@rule("S0.28")
def test_normal_abort_is_not_stored(block: Any) -> None:
    stream, built = aborted(block)
    rawabi.clear_last_error()
    assert acl.aclrtSynchronizeStream(stream) == 507023
    assert last_error() == 0
    built.close()


@rule("S5.51")
def test_synchronize_an_event_of_an_instance(device: int) -> None:
    event = flag_event()
    with Built(HEAD) as built:
        ok(acl.aclrtRecordEvent(event, built.streams[0]))
        built.finish()
        assert acl.aclrtSynchronizeEvent(event) == 107000


def test_built_instance_runs_again_and_again(block: Any) -> None:
    source = rawabi.offset(block, 512)
    with Built(HEAD, HEAD) as built:
        first, second = built.streams
        event = flag_event()
        ok(acl.aclrtMemcpyAsync(block, 8, source, 1, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, first))
        ok(acl.aclrtRecordEvent(event, first))
        ok(acl.aclrtStreamWaitEvent(second, event))
        ok(acl.aclrtResetEvent(event, second))
        target = rawabi.offset(block, 8)
        ok(acl.aclrtMemcpyAsync(target, 8, block, 1, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, second))
        built.finish()
        assert first_byte(block) == 0
        for value in (3, 4, 5):
            rawabi.write(source, bytes([value]))
            ok(acl.aclmdlRIExecute(built.handle, 5000))
            assert rawabi.read(block, 9)[::8] == bytes([value, value])


def test_execute_with_a_timeout(device: int) -> None:
    event, opener = flag_event(), new_stream()
    with Built(HEAD) as built:
        ok(acl.aclrtStreamWaitEvent(built.streams[0], event))
        built.finish()
        assert acl.aclmdlRIExecute(built.handle, 30) == 507046
        ok(acl.aclrtRecordEvent(event, opener))
        ok(acl.aclmdlRIExecute(built.handle, 5000))


def test_bind_arguments(stream: Any, other_stream: Any) -> None:
    bound = persistent()
    handle = made("aclmdlRIBuildBegin", 0)
    assert acl.aclmdlRIBuildBegin(ffi.new("void **"), 1) == 107000
    assert acl.aclmdlRIBuildBegin(NULL, 0) == 100000
    assert acl.aclmdlRIBindStream(NULL, bound, HEAD) == 100000
    assert acl.aclmdlRIBindStream(foreign(), bound, HEAD) == 107017
    assert acl.aclmdlRIBindStream(handle, foreign(), HEAD) == 107017
    assert acl.aclmdlRIBindStream(handle, NULL, HEAD) == 107000
    assert acl.aclmdlRIBindStream(handle, bound, 5) == 107000
    assert acl.aclmdlRIBindStream(handle, other_stream, HEAD) == 107003
    with closing(stream):
        assert acl.aclmdlRIBindStream(handle, stream, HEAD) == 107027
        assert acl.aclmdlRIBindStream(info(stream)[1], bound, HEAD) == 107000
    ok(acl.aclmdlRIBindStream(handle, bound, HEAD))
    assert acl.aclmdlRIBindStream(handle, bound, HEAD) == 107005
    assert acl.aclmdlRIEndTask(handle, stream) == 107005
    assert acl.aclmdlRIBuildEnd(handle, foreign()) == 100000
    assert acl.aclmdlRIUnbindStream(handle, stream) == 107005
    ok(acl.aclmdlRIUnbindStream(handle, bound))
    ok(acl.aclmdlRIDestroy(handle))


def test_names_and_ids(device: int) -> None:
    with Built(HEAD) as built, Built(HEAD) as other:
        name, number = ffi.new("char[600]", b"?"), ffi.new("uint32_t[2]")
        ok(acl.aclmdlRIGetName(built.handle, 600, name))
        assert ffi.string(name) == b""
        ok(acl.aclmdlRISetName(built.handle, b"first"))
        ok(acl.aclmdlRISetName(built.handle, b"n" * 700))
        ok(acl.aclmdlRIGetName(built.handle, 600, name))
        assert ffi.string(name) == b"n" * 511
        ok(acl.aclmdlRIGetName(built.handle, 4, name))
        assert ffi.string(name) == b"nnn"
        assert acl.aclmdlRIGetName(built.handle, 0, name) == 107000
        ok(acl.aclmdlRIGetId(built.handle, number))
        ok(acl.aclmdlRIGetId(other.handle, number + 1))
        assert number[0] != number[1]


def test_destroy_callbacks(device: int) -> None:
    built, marks = Built(HEAD), ffi.new("char[8]")
    ok(acl.aclmdlRIDestroyRegisterCallback(built.handle, rawabi.mark_host_memory, marks))
    assert acl.aclmdlRIDestroyRegisterCallback(built.handle, NULL, marks) == 100000
    ok(acl.aclmdlRIDestroyUnregisterCallback(built.handle, rawabi.mark_host_memory))
    assert acl.aclmdlRIDestroyUnregisterCallback(built.handle, rawabi.mark_host_memory) == 107000
    ok(acl.aclmdlRIDestroyRegisterCallback(built.handle, rawabi.mark_host_memory, marks))
    built.close()
    assert marks[0] != b"\0"


# ---- jumps


def label() -> Any:
    return made("aclrtCreateLabel")


def test_switch_label_by_index(block: Any) -> None:
    index = rawabi.offset(block, 2048)
    with Built(HEAD, DEFAULT, DEFAULT) as built:
        head, one, two = built.streams
        labels = [label(), label(), label()]
        array = ffi.new("void *[]", labels)
        label_list = ffi.new("void **")
        ok(acl.aclrtCreateLabelList(array, 3, label_list))
        fill(block, 1, head)
        ok(acl.aclrtSwitchLabelByIndex(index, 3, label_list[0], head))
        fill(block, 99, head)  # jumped over
        ok(acl.aclrtSetLabel(labels[2], head))
        fill(rawabi.offset(block, 16), 7, head)
        for number, stream in enumerate((one, two)):
            fill(block, 50, stream)
            ok(acl.aclrtSetLabel(labels[number], stream))
            fill(rawabi.offset(block, 8), 10 + number, stream)
        built.finish()
        for wanted, expected in ((0, (1, 10, 0)), (1, (1, 11, 0)), (2, (1, 0, 7)), (9, (1, 0, 7))):
            rawabi.write(block, bytes(64))
            rawabi.write(index, wanted.to_bytes(4, "little"))
            ok(acl.aclmdlRIExecute(built.handle, 5000))
            assert tuple(rawabi.read(block, 17)[::8]) == expected
        assert acl.aclrtSetLabel(labels[0], one) == 107000  # set already
        ok(acl.aclrtDestroyLabelList(label_list[0]))
        assert acl.aclrtDestroyLabelList(label_list[0]) == 107017
        for each in labels:
            ok(acl.aclrtDestroyLabel(each))
        assert acl.aclrtDestroyLabel(labels[0]) == 107017


def test_a_loop_of_labels(block: Any) -> None:
    index, counter = rawabi.offset(block, 2048), rawabi.offset(block, 64)
    with Built(HEAD) as built:
        stream = built.streams[0]
        top, out = label(), label()
        label_list = ffi.new("void **")
        ok(acl.aclrtCreateLabelList(ffi.new("void *[]", [top, out]), 2, label_list))
        ok(acl.aclrtSetLabel(top, stream))
        # Each round moves the list of next indices one place on.
        ok(acl.aclrtMemcpyAsync(index, 64, counter, 4, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
        shifted = rawabi.offset(counter, 4)
        ok(acl.aclrtMemcpyAsync(counter, 64, shifted, 60, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
        ok(acl.aclrtSwitchLabelByIndex(index, 2, label_list[0], stream))
        ok(acl.aclrtSetLabel(out, stream))
        built.finish()
        rawabi.write(counter, b"".join(n.to_bytes(4, "little") for n in (0, 0, 0, 1, 5, 6)))
        ok(acl.aclmdlRIExecute(built.handle, 5000))
        assert rawabi.read(counter, 4) == (5).to_bytes(4, "little")


def test_label_arguments(stream: Any) -> None:
    made_label, out = label(), ffi.new("void **")
    array = ffi.new("void *[]", [made_label])
    assert acl.aclrtCreateLabel(NULL) == 100000
    assert acl.aclrtSetLabel(NULL, stream) == 100000
    assert acl.aclrtSetLabel(made_label, NULL) == 100000
    assert acl.aclrtSetLabel(foreign(), stream) == 107017
    assert acl.aclrtSetLabel(made_label, stream) == 107005
    assert acl.aclrtCreateLabelList(array, 0, out) == 107000
    assert acl.aclrtCreateLabelList(array, 65536, out) == 107000
    assert acl.aclrtCreateLabelList(NULL, 1, out) == 100000
    assert acl.aclrtCreateLabelList(ffi.new("void *[]", [foreign()]), 1, out) == 107017


@pytest.mark.parametrize(
    ("condition", "left", "right", "jumps"),
    [(0, 5, 5, True), (0, 5, 6, False), (1, 5, 6, True), (2, 6, 5, True), (2, 5, 5, False),
     (3, 5, 5, True), (4, -1, 0, True), (4, 0, 0, False), (5, 0, 0, True), (5, 1, 0, False)],
)  # fmt: skip
@pytest.mark.parametrize("wide", [False, True])
def test_switch_stream(
    block: Any, condition: int, left: int, right: int, jumps: bool, wide: bool
) -> None:
    size = 8 if wide else 4
    values = rawabi.offset(block, 64)
    for place, value in ((0, left), (8, right)):
        rawabi.write(rawabi.offset(values, place), value.to_bytes(size, "little", signed=True))
    with Built(HEAD, DEFAULT) as built:
        head, other = built.streams
        second = rawabi.offset(values, 8)
        ok(acl.aclrtSwitchStream(values, condition, second, int(wide), other, NULL, head))
        fill(block, 1, head)
        fill(block, 2, other)
        built.finish()
        ok(acl.aclmdlRIExecute(built.handle, 5000))
        assert first_byte(block) == (2 if jumps else 1)
        assert acl.aclrtSwitchStream(values, 6, second, 0, other, NULL, head) == 107000
        assert acl.aclrtSwitchStream(values, 0, second, 2, other, NULL, head) == 107000
        assert acl.aclrtSwitchStream(values, 0, second, 0, other, other, head) == 100000


def test_active_stream(stream: Any, block: Any) -> None:
    with Built(HEAD, DEFAULT) as built:
        head, other = built.streams
        fill(block, 1, head)
        ok(acl.aclrtActiveStream(other, head))
        fill(rawabi.offset(block, 8), 2, other)
        fill(rawabi.offset(block, 16), 3, head)
        assert acl.aclrtActiveStream(stream, head) == 107005
        built.finish()
        ok(acl.aclmdlRIExecute(built.handle, 5000))
        assert rawabi.read(block, 17)[::8] == bytes([1, 2, 3])


# ---- conditions of captures


def conditional(stream: Any, block: Any, kind: int, count: int, start: int, flag: int = 1) -> Any:
    """Capture a condition whose branch n writes 10 + n; a WHILE branch also ends the loop."""
    handle, pointer = ffi.new("void **"), ffi.new("uint64_t **")
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    ok(acl.aclmdlRICondHandleCreate(info(stream)[1], start, flag, handle))
    ok(acl.aclmdlRICondHandleGetCondPtr(handle[0], pointer))
    branches = ffi.new("void *[]", count)
    parameters = ffi.new(
        "aclmdlRICondTaskParams *",
        {"handle": handle[0], "type": kind, "size": count, "modelRIArray": branches},
    )
    ok(acl.aclmdlRIAddCondTask(parameters[0], stream, 0))
    side = new_stream()
    for number in range(count):
        ok(acl.aclmdlRICaptureToModelRIBegin(side, branches[number], RELAXED))
        fill(rawabi.offset(block, 8 * number), 10 + number, side)
        if kind == 1:
            ok(acl.aclrtValueWrite(pointer[0], 0, 0, side))
        ok(acl.aclmdlRICaptureEnd(side, NULL))
    fill(rawabi.offset(block, 128), 5, stream)
    return end(stream), pointer[0], branches


@pytest.mark.parametrize(
    ("kind", "count", "start", "expected"),
    [(0, 2, 1, b"\x0a\x00"), (0, 2, 0, b"\x00\x0b"), (0, 1, 0, b"\x00\x00"), (1, 1, 1, b"\x0a\x00"),
     (1, 1, 0, b"\x00\x00"), (2, 2, 1, b"\x00\x0b"), (2, 2, 2, b"\x00\x00")],
)  # fmt: skip
def test_conditions(
    stream: Any, block: Any, kind: int, count: int, start: int, expected: bytes
) -> None:
    instance, pointer, branches = conditional(stream, block, kind, count, start)
    assert acl.aclmdlRIDestroy(branches[0]) == 207000
    assert acl.aclmdlRIExecuteAsync(branches[0], stream) == 207000
    for _ in range(2):
        rawabi.write(block, bytes(256))
        rawabi.write(pointer, (77).to_bytes(8, "little"))  # the start value is set by each run
        run(instance, stream)
        assert rawabi.read(block, 16)[::8] == expected
        assert rawabi.read(rawabi.offset(block, 128), 1) == b"\x05"
    ok(acl.aclmdlRIDestroy(instance))
    assert acl.aclmdlRIExecuteAsync(branches[0], stream) == 107017


def test_condition_decided_by_the_device(stream: Any, block: Any) -> None:
    instance, pointer, _ = conditional(stream, block, 0, 2, 1, flag=0)
    for value, expected in ((1, b"\x0a\x00"), (0, b"\x00\x0b")):
        rawabi.write(block, bytes(256))
        rawabi.write(pointer, value.to_bytes(8, "little"))
        run(instance, stream)
        assert rawabi.read(block, 16)[::8] == expected


@rule("S10.19")
def test_end_with_an_open_branch(stream: Any) -> None:
    handle, side = ffi.new("void **"), new_stream()
    ok(acl.aclmdlRICaptureBegin(stream, RELAXED))
    ok(acl.aclmdlRICondHandleCreate(info(stream)[1], 1, 1, handle))
    branches = ffi.new("void *[1]")
    parameters = ffi.new(
        "aclmdlRICondTaskParams *",
        {"handle": handle[0], "type": 0, "size": 1, "modelRIArray": branches},
    )
    ok(acl.aclmdlRIAddCondTask(parameters[0], stream, 0))
    ok(acl.aclmdlRICaptureToModelRIBegin(side, branches[0], RELAXED))
    assert end_code(stream) == (107045, True)
    assert info(side) == (0, NULL)


# ---- looking at tasks


def listed(function: str, owner: Any) -> list[Any]:
    count = ffi.new("uint32_t *")
    ok(getattr(acl, function)(owner, NULL, count))
    array = ffi.new("void *[]", count[0])
    if count[0] > 0:
        count[0] -= 1
        assert getattr(acl, function)(owner, array, count) == 107039
        count[0] += 1
    ok(getattr(acl, function)(owner, array, count))
    return list(array)


def values_captured(stream: Any, block: Any) -> Any:
    event = ex_event()
    with capture(stream) as instance:
        fill(block, 1, stream)
        ok(acl.aclrtValueWrite(rawabi.offset(block, 8), 4, 0, stream))
        ok(acl.aclrtValueWait(rawabi.offset(block, 8), 4, 1, stream))
        ok(acl.aclrtRecordEvent(event, stream))
    return instance[0], event


def test_tasks_and_their_parameters(stream: Any, block: Any) -> None:
    instance, event = values_captured(stream, block)
    (inner,) = listed("aclmdlRIGetStreams", instance)
    tasks = listed("aclmdlRIGetTasksByStream", inner)
    kinds, numbers = [], []
    for task in tasks:
        kind, number = ffi.new("aclmdlRITaskType *"), ffi.new("uint32_t *")
        ok(acl.aclmdlRITaskGetType(task, kind))
        ok(acl.aclmdlRITaskGetSeqId(task, number))
        kinds.append(kind[0])
        numbers.append(number[0])
    assert kinds == [0, 5, 6, 2] and numbers == [0, 1, 2, 3]
    parameters = ffi.new("aclmdlRITaskParams *")
    ok(acl.aclmdlRITaskGetParams(tasks[3], parameters))
    assert parameters.eventRecordTaskParams.event == event
    ok(acl.aclmdlRITaskGetParams(tasks[1], parameters))
    assert parameters.valueWriteTaskParams.value == 4
    parameters.valueWriteTaskParams.value = 6
    assert acl.aclmdlRITaskSetParams(tasks[2], parameters) == 107000  # of another type
    ok(acl.aclmdlRITaskSetParams(tasks[1], parameters))
    ok(acl.aclmdlRITaskDisable(tasks[0]))
    ok(acl.aclmdlRITaskDisable(tasks[2]))
    run(instance, stream)
    assert rawabi.read(block, 9)[::8] == bytes([1, 4])  # not before the update
    rawabi.write(block, bytes(64))
    ok(acl.aclmdlRIUpdate(instance))
    run(instance, stream)
    assert rawabi.read(block, 9)[::8] == bytes([0, 6])
    ok(acl.aclmdlRIDestroy(instance))
    assert acl.aclmdlRITaskGetSeqId(tasks[0], ffi.new("uint32_t *")) == 107017


def test_debug_json(stream: Any, block: Any, tmp_path: Path) -> None:
    instance, _ = values_captured(stream, block)
    side, event, back = new_stream(), ex_event(), ex_event()
    with capture(stream) as second:
        ok(acl.aclrtRecordEvent(event, stream))
        ok(acl.aclrtStreamWaitEvent(side, event))
        fill(block, 1, side)
        ok(acl.aclrtRecordEvent(back, side))
        ok(acl.aclrtStreamWaitEvent(stream, back))
    ok(acl.aclmdlRISetName(second[0], b'two "streams"'))
    path = tmp_path / "instance.json"
    ok(acl.aclmdlRIDebugJsonPrint(second[0], str(path).encode(), 1))
    entries = json.loads(path.read_text(encoding="utf-8"))
    slices = [each for each in entries if each["ph"] == "X"]
    kinds = ["EVENT_RECORD", "EVENT_WAIT", "EVENT_WAIT", "MEMORY", "EVENT_RECORD"]
    assert [each["args"]["task_type"] for each in slices] == kinds
    assert {each["args"]["model_name"] for each in slices} == {'two "streams"'}
    assert len({each["tid"] for each in slices}) == 2
    assert [each["ph"] for each in entries if "id" in each] == ["s", "f"] * 2
    assert acl.aclmdlRIDebugJsonPrint(instance, b"/no/such/folder/x.json", 0) == 107009
    assert acl.aclmdlRIDebugJsonPrint(instance, str(path).encode(), 2) == 107000


def test_debug_print(stream: Any, block: Any, capfd: pytest.CaptureFixture[str]) -> None:
    instance, _ = values_captured(stream, block)
    ok(acl.aclmdlRIDebugPrint(instance))
    assert [each["args"]["task_id"] for each in json.loads(capfd.readouterr().out)] == [0, 1, 2, 3]


def test_reset_ends_the_instances(block: Any) -> None:
    stream = new_stream()
    with capture(stream) as instance:
        fill(block, 1, stream)
    ok(acl.aclrtResetDeviceForce(0))
    ok(acl.aclrtSetDevice(0))
    assert acl.aclmdlRIExecuteAsync(instance[0], NULL) == 107017
    assert query(new_stream()) == 0
