"""Datasets, execution and gears of models (section 9)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import models
import pytest
import rawabi
from modelrun import NO_MODEL, A, B, Run, sizes_of
from models import COUNT, SIZE_BYTES, OmFiles, expected, floats
from rawabi import (
    NULL,
    acl,
    ffi,
    gated,
    in_thread,
    malloc,
    new_stream,
    ok,
    query,
    read,
    run_fresh,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
pytestmark = pytest.mark.usefixtures("initialised")


@rule("S9.19")
def test_load_with_memory_of_the_caller(device: int, om: OmFiles, run: Run) -> None:
    path, memory = om.path(om.good), ffi.from_buffer(om.good)
    work_size, weight_size = sizes_of(path)
    assert weight_size >= SIZE_BYTES
    work, weight = malloc(work_size + 64), malloc(weight_size)
    write(weight, bytes(weight_size))
    model_id = ffi.new("uint32_t *")
    for given in ((work, work_size, weight, weight_size), (NULL, 0, NULL, 0)):
        ok(acl.aclmdlLoadFromFileWithMem(path, model_id, *given))
        ok(run.execute(model_id[0]))
        assert run.right()
        ok(acl.aclmdlUnload(model_id[0]))
        ok(acl.aclmdlLoadFromMemWithMem(memory, len(om.good), model_id, *given))
        ok(run.execute(model_id[0]))
        assert run.right()
        ok(acl.aclmdlUnload(model_id[0]))
    assert floats(models.WEIGHT) in read(weight, weight_size)


@rule("S9.20")
def test_load_with_too_little_memory(device: int, om: OmFiles) -> None:
    path, memory = om.path(om.good), ffi.from_buffer(om.good)
    work_size, weight_size = sizes_of(path)
    work, weight = malloc(work_size + 64), malloc(weight_size)
    model_id = ffi.new("uint32_t *", NO_MODEL)
    given = (work, work_size, weight, weight_size - 1)
    assert acl.aclmdlLoadFromFileWithMem(path, model_id, *given) == 145000
    assert acl.aclmdlLoadFromMemWithMem(memory, len(om.good), model_id, *given) == 145000
    if work_size:
        given = (work, work_size - 1, weight, weight_size)
        assert acl.aclmdlLoadFromFileWithMem(path, model_id, *given) == 145000
    assert model_id[0] == NO_MODEL


@guess
@rule("S9.21")
def test_model_id_in_other_threads(model: int, om: OmFiles, run: Run) -> None:
    second = ffi.new("uint32_t *", NO_MODEL)
    ok(acl.aclmdlLoadFromFile(om.path(om.good), second))
    assert second[0] != model

    def elsewhere() -> int:
        ok(acl.aclrtSetDevice(0))
        return run.execute(model)

    ok(in_thread(elsewhere))
    assert run.right()
    ok(in_thread(lambda: acl.aclmdlUnload(second[0])))
    assert acl.aclmdlUnload(second[0]) == 145003


@rule("S9.44")
def test_add_null_buffer() -> None:
    dataset, buffer = acl.aclmdlCreateDataset(), acl.aclCreateDataBuffer(NULL, 0)
    assert acl.aclmdlAddDatasetBuffer(NULL, buffer) == 100000
    assert acl.aclmdlAddDatasetBuffer(dataset, NULL) == 100000
    assert acl.aclmdlGetDatasetNumBuffers(dataset) == 0
    ok(acl.aclmdlAddDatasetBuffer(dataset, buffer))
    assert acl.aclmdlGetDatasetNumBuffers(dataset) == 1
    ok(acl.aclmdlDestroyDataset(dataset))
    ok(acl.aclDestroyDataBuffer(buffer))


@rule("S9.45")
def test_dataset_keeps_pointers_in_order(run: Run) -> None:
    dataset = acl.aclmdlCreateDataset()
    for buffer in reversed(run.buffers):
        ok(acl.aclmdlAddDatasetBuffer(dataset, buffer))
    kept = [acl.aclmdlGetDatasetBuffer(dataset, index) for index in range(4)]
    assert kept == run.buffers[::-1]
    ok(acl.aclUpdateDataBuffer(run.buffers[0], run.memory[1], 64))
    assert acl.aclGetDataBufferAddr(kept[3]) == run.memory[1]
    ok(acl.aclmdlDestroyDataset(dataset))
    assert acl.aclGetDataBufferSizeV2(run.buffers[0]) == 64


@rule("S9.46")
def test_destroy_dataset_keeps_buffers_and_memory(run: Run) -> None:
    dataset = acl.aclmdlCreateDataset()
    ok(acl.aclmdlAddDatasetBuffer(dataset, run.buffers[0]))
    ok(acl.aclmdlDestroyDataset(dataset))
    if rawabi.emulated():
        assert acl.aclmdlGetDatasetNumBuffers(dataset) == 0
    assert acl.aclGetDataBufferAddr(run.buffers[0]) == run.memory[0]
    assert read(run.memory[0], SIZE_BYTES) == floats(A)


@rule("S9.47")
def test_get_buffer(run: Run) -> None:
    get = acl.aclmdlGetDatasetBuffer
    assert get(run.inputs, 1) == run.buffers[1]
    assert [get(run.inputs, 2), get(NULL, 0)] == [NULL, NULL]


@rule("S9.48")
def test_number_of_buffers(run: Run) -> None:
    assert acl.aclmdlGetDatasetNumBuffers(NULL) == 0
    assert acl.aclmdlGetDatasetNumBuffers(run.inputs) == 2


def a_tensor_desc(*dims: int) -> Any:
    made = acl.aclCreateTensorDesc(acl.ACL_FLOAT, len(dims), ffi.new("int64_t[]", dims), 2)
    assert made != NULL
    return made


@rule("S9.49")
def test_dataset_copies_the_tensor_desc(run: Run) -> None:
    made = a_tensor_desc(1, 32)
    ok(acl.aclmdlSetDatasetTensorDesc(run.inputs, made, 1))
    acl.aclDestroyTensorDesc(made)
    kept = acl.aclmdlGetDatasetTensorDesc(run.inputs, 1)
    assert kept not in (NULL, made)
    assert acl.aclGetTensorDescElementCount(kept) == 32


@rule("S9.50")
def test_dataset_without_tensor_desc(run: Run) -> None:
    made = a_tensor_desc(1, 32)
    ok(acl.aclmdlSetDatasetTensorDesc(run.inputs, made, 0))
    assert acl.aclmdlGetDatasetTensorDesc(run.inputs, 0) != NULL
    ok(acl.aclmdlSetDatasetTensorDesc(run.inputs, NULL, 0))
    assert acl.aclmdlGetDatasetTensorDesc(run.inputs, 0) == NULL
    acl.aclDestroyTensorDesc(made)


@rule("S9.51")
def test_tensor_desc_at_a_bad_index(run: Run) -> None:
    made = a_tensor_desc(1, 32)
    assert acl.aclmdlSetDatasetTensorDesc(run.inputs, made, 2) == 100000
    assert acl.aclmdlGetDatasetTensorDesc(run.inputs, 1) == NULL
    acl.aclDestroyTensorDesc(made)


@rule("S9.52")
def test_tensor_desc_of_the_dataset(run: Run) -> None:
    made, get = a_tensor_desc(1, 32), acl.aclmdlGetDatasetTensorDesc
    ok(acl.aclmdlSetDatasetTensorDesc(run.inputs, made, 0))
    assert get(run.inputs, 0) == get(run.inputs, 0) != NULL
    assert get(run.inputs, 2) == NULL
    acl.aclDestroyTensorDesc(made)


@rule("S9.53")
def test_execute_null(model: int, run: Run) -> None:
    assert acl.aclmdlExecute(model, NULL, run.outputs) == 100000
    assert acl.aclmdlExecute(model, run.inputs, NULL) == 100000
    assert run.untouched()
    ok(run.execute(model))
    assert run.right()


@rule("S9.54")
def test_execute_without_init() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        empty = acl.aclmdlCreateDataset()
        before = acl.aclmdlExecute(1, empty, empty)
        ok(acl.aclInit(NULL))
        return before, acl.aclmdlExecute(1, empty, empty)

    assert run_fresh(body) == [145001, 145003]


@rule("S9.55")
def test_execute_an_unknown_id(run: Run) -> None:
    assert run.execute(NO_MODEL) == 145003
    assert run.untouched()


@rule("S9.56")
def test_execute_an_unknown_id_without_output_data(run: Run) -> None:
    ok(acl.aclUpdateDataBuffer(run.buffers[2], NULL, 0))
    assert run.execute(NO_MODEL) == 100000


@guess
@rule("S9.57")
def test_execute_with_a_wrong_number_of_buffers(model: int, run: Run) -> None:
    extra = acl.aclCreateDataBuffer(run.memory[0], SIZE_BYTES)
    few, many = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
    ok(acl.aclmdlAddDatasetBuffer(few, run.buffers[0]))
    for buffer in (*run.buffers[:2], extra):
        ok(acl.aclmdlAddDatasetBuffer(many, buffer))
    for wrong in (few, many):
        assert acl.aclmdlExecute(model, wrong, run.outputs) == 500002
    assert acl.aclmdlExecute(model, run.inputs, few) == 500002
    assert run.untouched()
    assert acl.aclmdlDestroyDataset(few) == acl.aclmdlDestroyDataset(many) == 0


@guess
@rule("S9.58")
@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_execute_with_a_short_buffer(model: int, run: Run, index: int) -> None:
    ok(acl.aclUpdateDataBuffer(run.buffers[index], run.memory[index], SIZE_BYTES - 65))
    assert run.execute(model) == 500002
    assert run.untouched()


@rule("S9.59")
@pytest.mark.parametrize("size", [SIZE_BYTES - 64, SIZE_BYTES - 1, SIZE_BYTES + 128])
def test_execute_with_a_slightly_other_size(model: int, run: Run, size: int) -> None:
    for buffer, memory in zip(run.buffers, run.memory, strict=True):
        ok(acl.aclUpdateDataBuffer(buffer, memory, size))
    ok(run.execute(model))
    assert run.right()


@rule("S9.61")
def test_execute(model: int, run: Run) -> None:
    ok(run.execute(model))
    assert run.right()
    ok(acl.aclUpdateDataBuffer(run.buffers[2], NULL, 0))
    write(run.memory[3], bytes(SIZE_BYTES))
    ok(run.execute(model))
    made = acl.aclGetDataBufferAddr(run.buffers[2])
    assert made not in (NULL, run.memory[2])
    assert acl.aclGetDataBufferSizeV2(run.buffers[2]) == SIZE_BYTES
    assert (read(made, SIZE_BYTES), run.results()[1]) == expected(A, B)
    ok(acl.aclrtFree(made))


@rule("S9.62")
@pytest.mark.emulator
def test_execute_that_fails(device: int, om: OmFiles, run: Run) -> None:
    path = om.path(om.good)
    work_size, weight_size = sizes_of(path)
    weight, model_id = malloc(weight_size), ffi.new("uint32_t *")
    ok(acl.aclmdlLoadFromFileWithMem(path, model_id, NULL, 0, weight, weight_size))
    ok(acl.aclrtFree(weight))
    code = run.execute(model_id[0])
    assert code == 500002 or 107000 <= code < 508000
    assert work_size >= 0 and not run.right()
    acl.aclmdlUnload(model_id[0])


@rule("S9.63")
def test_both_forms_of_execution(device: int, om: OmFiles, run: Run) -> None:
    stream, model_id = new_stream(), ffi.new("uint32_t *")
    for blocking_first in (True, False):
        ok(acl.aclmdlLoadFromFile(om.path(om.good), model_id))
        forms = [lambda: run.execute(model_id[0]), lambda: run.execute_async(model_id[0], stream)]
        first, second = forms if blocking_first else forms[::-1]
        ok(first())
        ok(acl.aclrtSynchronizeStream(stream))
        assert run.right()
        assert second() == 500002
        ok(first())
        ok(acl.aclmdlUnload(model_id[0]))


@rule("S9.65")
def test_execute_async(model: int, run: Run) -> None:
    stream = new_stream()
    assert acl.aclmdlExecuteAsync(model, NULL, run.outputs, stream) == 100000
    assert run.execute_async(NO_MODEL, stream) == 145003
    for queue in (stream, NULL):
        with gated(queue):
            ok(run.execute_async(model, queue))
            assert query(queue) == 1
            assert run.untouched()
        ok(acl.aclrtSynchronizeStream(queue))
        assert run.right()
        for each in run.memory[2:]:
            write(each, bytes(SIZE_BYTES))


@rule("S9.66")
def test_execute_async_does_not_allocate(model: int, run: Run) -> None:
    stream = new_stream()
    ok(acl.aclUpdateDataBuffer(run.buffers[2], NULL, 0))
    run.execute_async(model, stream)
    acl.aclrtSynchronizeStream(stream)
    assert acl.aclGetDataBufferAddr(run.buffers[2]) == NULL
    assert acl.aclGetDataBufferSizeV2(run.buffers[2]) == 0
    ok(acl.aclUpdateDataBuffer(run.buffers[2], run.memory[2], SIZE_BYTES))
    fresh = new_stream()
    ok(run.execute_async(model, fresh))
    ok(acl.aclrtSynchronizeStream(fresh))
    assert run.right()


@pytest.fixture
def geared(device: int, om: OmFiles) -> Iterator[Callable[[bytes], int]]:
    """Loads the tiny network with a description that lists gears; returns its id."""
    ids: list[int] = []
    tensors = [models.tensor(name, [1, COUNT]) for name in "ab"]

    def load(gears: bytes) -> int:
        model_id = ffi.new("uint32_t *", NO_MODEL)
        data = om.with_description(models.description(tensors, tensors, gears))
        ok(acl.aclmdlLoadFromMem(ffi.from_buffer(data), len(data), model_id))
        ids.append(model_id[0])
        return int(model_id[0])

    yield load
    for each in ids:
        acl.aclmdlUnload(each)


def gear_of(run: Run, size: int) -> bytes:
    """Give the gear tensor (input 1) this size and fill it; return a look at it."""
    ok(acl.aclUpdateDataBuffer(run.buffers[1], run.memory[1], size))
    write(run.memory[1], b"\xff" * 32)
    return read(run.memory[1], 32)


def set_batch(model: int, run: Run, batch: int) -> int:
    return int(acl.aclmdlSetDynamicBatchSize(model, run.inputs, 1, batch))


def set_image(model: int, run: Run, height: int, width: int) -> int:
    return int(acl.aclmdlSetDynamicHWSize(model, run.inputs, 1, height, width))


def set_dims(model: int, run: Run, *values: int) -> int:
    dims = ffi.new("aclmdlIODims *")
    dims.dimCount = len(values)
    for index, value in enumerate(values):
        dims.dims[index] = value
    return int(acl.aclmdlSetInputDynamicDims(model, run.inputs, 1, dims))


@rule("S9.67")
def test_set_batch_arguments(model: int, run: Run) -> None:
    function = acl.aclmdlSetDynamicBatchSize
    untouched = gear_of(run, 8)
    assert function(model, run.inputs, 1, 0) == 100000
    assert function(model, NULL, 1, 1) == 100000
    assert function(model, run.inputs, 2, 1) == 100000
    ok(acl.aclUpdateDataBuffer(run.buffers[1], NULL, 8))
    assert function(model, run.inputs, 1, 1) == 100000
    assert read(run.memory[1], 32) == untouched


@rule("S9.68")
def test_set_batch_in_a_small_tensor(model: int, run: Run) -> None:
    untouched = gear_of(run, 3)
    assert [set_batch(each, run, 1) for each in (model, NO_MODEL)] == [145012, 145012]
    assert read(run.memory[1], 32) == untouched


@rule("S9.69")
def test_set_batch_of_an_unknown_id(device: int, run: Run) -> None:
    untouched = gear_of(run, 8)
    assert set_batch(NO_MODEL, run, 1) == 145003
    assert read(run.memory[1], 32) == untouched


@rule("S9.70")
@pytest.mark.emulator
def test_set_a_batch_that_is_no_gear(model: int, run: Run, geared: Callable[[bytes], int]) -> None:
    untouched = gear_of(run, 8)
    assert set_batch(model, run, 1) == 145013
    with_gears = geared(models.batch_gears(3))
    assert set_batch(with_gears, run, 4) == 145013
    assert read(run.memory[1], 32) == untouched
    ok(set_batch(with_gears, run, 3))


@rule("S9.71")
def test_set_image_and_dims_arguments(model: int, run: Run) -> None:
    untouched = gear_of(run, 32)
    assert [set_image(model, run, 0, 2), set_image(model, run, 2, 0)] == [100000, 100000]
    assert acl.aclmdlSetDynamicHWSize(model, NULL, 1, 2, 2) == 100000
    assert set_dims(model, run) == 100000
    assert acl.aclmdlSetInputDynamicDims(model, run.inputs, 1, NULL) == 100000
    assert acl.aclmdlSetInputDynamicDims(model, NULL, 1, ffi.new("aclmdlIODims *")) == 100000
    assert read(run.memory[1], 32) == untouched


@rule("S9.72")
@pytest.mark.emulator
def test_set_an_image_or_dims_that_are_no_gear(
    model: int, run: Run, geared: Callable[[bytes], int]
) -> None:
    untouched = gear_of(run, 32)
    assert set_image(model, run, 1, 2) == 145013
    assert set_dims(model, run, 1, COUNT, 1, COUNT) == 145013
    with_gears = geared(models.image_gears(2))
    assert set_image(with_gears, run, 2, 1) == 145013
    assert read(run.memory[1], 32) == untouched
    ok(set_image(with_gears, run, 3, 4))


@rule("S9.73")
def test_set_image_in_a_small_tensor(model: int, run: Run) -> None:
    untouched = gear_of(run, 7)
    assert [set_image(each, run, 1, 2) for each in (model, NO_MODEL)] == [145012, 145012]
    assert read(run.memory[1], 32) == untouched


@rule("S9.74")
@pytest.mark.emulator
def test_gears_in_the_gear_tensor(run: Run, geared: Callable[[bytes], int]) -> None:
    batch, image = geared(models.batch_gears(3)), geared(models.image_gears(2))
    for size, values in ((8, struct.pack("<q", 2)), (7, struct.pack("<i", 2))):
        gear_of(run, size)
        ok(set_batch(batch, run, 2))
        assert read(run.memory[1], 32) == values + b"\xff" * (32 - len(values))
    for size, values in ((16, struct.pack("<2q", 3, 4)), (15, struct.pack("<2i", 3, 4))):
        gear_of(run, size)
        ok(set_image(image, run, 3, 4))
        assert read(run.memory[1], 32) == values + b"\xff" * (32 - len(values))


def test_model_memory_outlives_the_loading_thread(om: OmFiles, run: Run) -> None:
    """A model loaded by a thread that ended is still there (supports S9.21)."""
    model_id, ready = ffi.new("uint32_t *"), threading.Event()

    def elsewhere() -> None:
        ok(acl.aclrtSetDevice(0))
        ok(acl.aclmdlLoadFromFile(om.path(om.good), model_id))
        ready.set()

    in_thread(elsewhere)
    assert ready.is_set()
    ok(run.execute(model_id[0]))
    assert run.right()

    ok(acl.aclmdlUnload(model_id[0]))
