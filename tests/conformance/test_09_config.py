"""Models loaded and run as config handles say; gears that run (section 9)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from modelrun import NO_MODEL, Run, sizes_of
from models import OmFiles
from rawabi import NULL, acl, ffi, gated, malloc, new_stream, ok, read, write

rule = pytest.mark.rule
guess = pytest.mark.guess
pytestmark = pytest.mark.usefixtures("initialised")

INT32, SIZE, POINTER = "int32_t *", "size_t *", "void **"


@pytest.fixture
def config() -> Iterator[Any]:
    made = acl.aclmdlCreateConfigHandle()
    assert made != NULL
    yield made
    acl.aclmdlDestroyConfigHandle(made)


@pytest.fixture
def exec_config() -> Iterator[Any]:
    made = acl.aclmdlCreateExecConfigHandle()
    assert made != NULL
    yield made
    acl.aclmdlDestroyExecConfigHandle(made)


@pytest.fixture
def run(device: int) -> Iterator[Run]:
    made = Run()
    yield made
    made.close()


@pytest.fixture
def model(device: int, om: OmFiles) -> Iterator[int]:
    made = ffi.new("uint32_t *")
    ok(acl.aclmdlLoadFromFile(om.path(om.good), made))
    yield int(made[0])
    acl.aclmdlUnload(made[0])


def set_option(config: Any, attr: int, kind: str, value: Any) -> int:
    """Set one attribute; `kind` is the type of a pointer to its value."""
    box = ffi.new(kind, value)
    return int(acl.aclmdlSetConfigOpt(config, attr, box, ffi.sizeof(ffi.typeof(kind).item)))


def load(config: Any) -> tuple[int, int]:
    made = ffi.new("uint32_t *", NO_MODEL)
    return int(acl.aclmdlLoadWithConfig(config, made)), int(made[0])


@rule("S9.79")
def test_config_options_are_checked(config: Any) -> None:
    value = ffi.new(INT32, 3)
    assert acl.aclmdlSetConfigOpt(NULL, acl.ACL_MDL_PRIORITY_INT32, value, 4) == 100000
    assert acl.aclmdlSetConfigOpt(config, acl.ACL_MDL_PRIORITY_INT32, NULL, 4) == 100000
    assert acl.aclmdlSetConfigOpt(config, acl.ACL_MDL_PRIORITY_INT32, value, 8) == 100000
    for attr in (acl.ACL_MDL_KERNEL_PTR, 4711):
        assert set_option(config, attr, POINTER, ffi.cast("void *", 8)) == 100000
    for priority in (-1, 8):
        assert set_option(config, acl.ACL_MDL_PRIORITY_INT32, INT32, priority) == 100000
    for kind in (0, 7):
        assert set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, SIZE, kind) == 100000
    for attr in (acl.ACL_MDL_PATH_PTR, acl.ACL_MDL_MEM_ADDR_PTR):
        assert set_option(config, attr, POINTER, NULL) == 100000


@rule("S9.80")
def test_load_as_the_handle_says(config: Any, om: OmFiles, run: Run) -> None:
    text = ffi.new("char[]", om.path(om.good))
    ok(set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, SIZE, acl.ACL_MDL_LOAD_FROM_FILE))
    ok(set_option(config, acl.ACL_MDL_PATH_PTR, POINTER, text))
    ffi.memmove(text, b"/x", 2)  # the path was copied
    content = ffi.from_buffer(om.good)
    ok(set_option(config, acl.ACL_MDL_MEM_ADDR_PTR, POINTER, ffi.cast("void *", content)))
    ok(set_option(config, acl.ACL_MDL_MEM_SIZET, SIZE, len(om.good)))
    work_size, weight_size = sizes_of(om.path(om.good))
    weight = malloc(weight_size)
    write(weight, bytes(weight_size))
    ok(set_option(config, acl.ACL_MDL_WEIGHT_ADDR_PTR, POINTER, weight))
    ok(set_option(config, acl.ACL_MDL_WEIGHT_SIZET, SIZE, weight_size))
    ok(set_option(config, acl.ACL_MDL_WORKSPACE_ADDR_PTR, POINTER, malloc(work_size + 64)))
    ok(set_option(config, acl.ACL_MDL_WORKSPACE_SIZET, SIZE, work_size))
    for kind in range(acl.ACL_MDL_LOAD_FROM_FILE, acl.ACL_MDL_LOAD_FROM_FILE_WITH_Q):
        ok(set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, SIZE, kind))
        code, model_id = load(config)
        ok(code)
        ok(run.execute(model_id))
        assert run.right()
        ok(acl.aclmdlUnload(model_id))
        own = kind in (acl.ACL_MDL_LOAD_FROM_FILE_WITH_MEM, acl.ACL_MDL_LOAD_FROM_MEM_WITH_MEM)
        assert (read(weight, weight_size) != bytes(weight_size)) == own
        write(weight, bytes(weight_size))


@rule("S9.81")
def test_load_with_an_incomplete_handle(device: int, config: Any, om: OmFiles) -> None:
    made = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadWithConfig(NULL, made) == 100000
    assert load(config) == (100000, NO_MODEL)
    for kind in (acl.ACL_MDL_LOAD_FROM_FILE, acl.ACL_MDL_LOAD_FROM_MEM):
        ok(set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, SIZE, kind))
        assert load(config) == (100000, NO_MODEL)
    content = ffi.from_buffer(om.good)
    ok(set_option(config, acl.ACL_MDL_MEM_ADDR_PTR, POINTER, ffi.cast("void *", content)))
    assert load(config) == (100000, NO_MODEL)
    ok(set_option(config, acl.ACL_MDL_MEM_SIZET, SIZE, len(om.good)))
    assert acl.aclmdlLoadWithConfig(config, NULL) == 100000


@rule("S9.82")
def test_destroy_no_config() -> None:
    assert acl.aclmdlDestroyConfigHandle(NULL) == 100000
    assert acl.aclmdlDestroyExecConfigHandle(NULL) == 100000


@rule("S9.83")
def test_execution_options_are_checked(exec_config: Any) -> None:
    value, attr = ffi.new(INT32, 10), acl.ACL_MDL_STREAM_SYNC_TIMEOUT
    assert acl.aclmdlSetExecConfigOpt(NULL, attr, value, 4) == 100000
    assert acl.aclmdlSetExecConfigOpt(exec_config, attr, NULL, 4) == 100000
    assert acl.aclmdlSetExecConfigOpt(exec_config, attr, value, 8) == 100000
    assert acl.aclmdlSetExecConfigOpt(exec_config, acl.ACL_MDL_WORK_SIZET, value, 4) == 100000
    assert acl.aclmdlSetExecConfigOpt(exec_config, attr, ffi.new(INT32, -2), 4) == 100000


def limit(exec_config: Any, milliseconds: int) -> None:
    for attr in (acl.ACL_MDL_STREAM_SYNC_TIMEOUT, acl.ACL_MDL_EVENT_SYNC_TIMEOUT):
        box = ffi.new(INT32, milliseconds)
        ok(acl.aclmdlSetExecConfigOpt(exec_config, attr, box, 4))


@rule("S9.84")
def test_execution_with_a_handle(model: int, run: Run, exec_config: Any) -> None:
    for stream in (NULL, new_stream()):
        limit(exec_config, 5000)
        ok(acl.aclmdlExecuteV2(model, run.inputs, run.outputs, stream, exec_config))
        assert run.right()
        for memory in run.memory[2:]:
            write(memory, bytes(256))


@rule("S9.85")
def test_execution_without_a_handle(model: int, run: Run) -> None:
    assert acl.aclmdlExecuteV2(model, run.inputs, run.outputs, NULL, NULL) == 100000
    assert run.untouched()


@rule("S9.86")
def test_execution_that_takes_too_long(model: int, run: Run, exec_config: Any) -> None:
    stream = new_stream()
    limit(exec_config, 30)
    with gated(stream):
        late = acl.aclmdlExecuteV2(model, run.inputs, run.outputs, stream, exec_config)
        assert late == 507046
        assert run.untouched()
    ok(acl.aclrtSynchronizeStream(stream))
    assert run.right()


def priority_of(model: int) -> int:
    value = ffi.new("aclmdlAttrValue_t *")
    value.mdlPriority = 77
    ok(acl.aclmdlGetAttribute(model, acl.ACL_MDL_ATTR_PRIORITY_INT32, value))
    return int(value.mdlPriority)


@rule("S9.87")
def test_priority(model: int, config: Any, om: OmFiles) -> None:
    assert priority_of(model) == 0
    value = ffi.new("aclmdlAttrValue_t *")
    value.mdlPriority = 5
    ok(acl.aclmdlSetAttribute(model, acl.ACL_MDL_ATTR_PRIORITY_INT32, value))
    assert priority_of(model) == 5
    ok(set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, SIZE, acl.ACL_MDL_LOAD_FROM_FILE))
    text = ffi.new("char[]", om.path(om.good))
    ok(set_option(config, acl.ACL_MDL_PATH_PTR, POINTER, text))
    ok(set_option(config, acl.ACL_MDL_PRIORITY_INT32, INT32, 3))
    code, other = load(config)
    ok(code)
    assert priority_of(other) == 3
    ok(acl.aclmdlUnload(other))


@rule("S9.88")
def test_attributes_are_checked(model: int) -> None:
    value = ffi.new("aclmdlAttrValue_t *")
    kind = acl.ACL_MDL_ATTR_PRIORITY_INT32
    for function in (acl.aclmdlSetAttribute, acl.aclmdlGetAttribute):
        assert function(model, kind, NULL) == 100000
        assert function(model, 4711, value) == 100000
    value.mdlPriority = 8
    assert acl.aclmdlSetAttribute(model, kind, value) == 100000
    assert priority_of(model) == 0


@guess
@rule("S9.89")
def test_attributes_of_no_model(device: int) -> None:
    value = ffi.new("aclmdlAttrValue_t *")
    kind = acl.ACL_MDL_ATTR_PRIORITY_INT32
    for function in (acl.aclmdlSetAttribute, acl.aclmdlGetAttribute):
        assert function(NO_MODEL, kind, value) == 145003


# ---- gears


ROW_BYTES = 16


class Rows:
    """The network of OmFiles.rows, with buffers for its largest gear."""

    def __init__(self, om: OmFiles) -> None:
        made = ffi.new("uint32_t *")
        ok(acl.aclmdlLoadFromMem(ffi.from_buffer(om.rows), len(om.rows), made))
        self.model = int(made[0])
        self.memory = [malloc(5 * ROW_BYTES), malloc(64), malloc(5 * ROW_BYTES)]
        self.inputs, self.outputs = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
        for index, (memory, size) in enumerate(zip(self.memory, (80, 4, 80), strict=True)):
            buffer = acl.aclCreateDataBuffer(memory, size)
            ok(acl.aclmdlAddDatasetBuffer(self.outputs if index == 2 else self.inputs, buffer))
        write(self.memory[0], struct.pack("<20f", *range(20)))
        self.clear()

    def clear(self) -> None:
        write(self.memory[2], b"\xff" * 80)

    def rows_written(self) -> int:
        """How many rows of the output hold the answer; the others are as clear() left them."""
        got = read(self.memory[2], 80)
        count = 5 - got.count(b"\xff" * ROW_BYTES)
        answer = struct.pack(f"<{4 * count}f", *(-float(i) for i in range(4 * count)))
        assert got == answer + b"\xff" * (80 - len(answer))
        return count

    def current_dims(self, desc: Any) -> list[int]:
        dims = ffi.new("aclmdlIODims *")
        ok(acl.aclmdlGetCurOutputDims(desc, 0, dims))
        return [dims.dims[i] for i in range(dims.dimCount)]


@pytest.fixture
def rows(device: int, om: OmFiles) -> Iterator[Rows]:
    made = Rows(om)
    yield made
    acl.aclmdlDestroyDataset(made.inputs)
    acl.aclmdlDestroyDataset(made.outputs)
    acl.aclmdlUnload(made.model)


@rule("S9.90")
def test_the_gear_of_the_dataset_runs(rows: Rows) -> None:
    ok(acl.aclmdlExecute(rows.model, rows.inputs, rows.outputs))
    assert rows.rows_written() == 5
    for batch in (2, 5, 2):
        rows.clear()
        ok(acl.aclmdlSetDynamicBatchSize(rows.model, rows.inputs, 1, batch))
        ok(acl.aclmdlExecute(rows.model, rows.inputs, rows.outputs))
        assert rows.rows_written() == batch


@rule("S9.91")
def test_current_dims_follow_the_gear(rows: Rows) -> None:
    desc = acl.aclmdlCreateDesc()
    ok(acl.aclmdlGetDesc(desc, rows.model))
    assert rows.current_dims(desc) == [5, 4]
    for batch in (2, 5):
        ok(acl.aclmdlSetDynamicBatchSize(rows.model, rows.inputs, 1, batch))
        assert rows.current_dims(desc) == [batch, 4]
    assert acl.aclmdlSetDynamicBatchSize(rows.model, rows.inputs, 1, 3) == 145013
    assert rows.current_dims(desc) == [5, 4]
    ok(acl.aclmdlDestroyDesc(desc))
