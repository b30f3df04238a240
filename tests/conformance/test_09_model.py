"""Models: files, descriptions, datasets, execution (section 9)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
import pytest
import rawabi
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
NO_MODEL = 987654
A = [float(index) for index in range(COUNT)]
B = [float(3 - index) for index in range(COUNT)]


def load_both_ways(om: OmFiles, data: bytes) -> list[int]:
    """Return the codes of loading from a file and from memory; no model may come out."""
    model_id = ffi.new("uint32_t *", NO_MODEL)
    memory = ffi.from_buffer(data)
    codes = [
        acl.aclmdlLoadFromFile(om.path(data), model_id),
        acl.aclmdlLoadFromMem(memory, len(data), model_id),
    ]
    if any(codes):
        assert model_id[0] == NO_MODEL
    return codes


@pytest.fixture
def model(device: int, om: OmFiles) -> Iterator[int]:
    """The id of the tiny network, loaded."""
    model_id = ffi.new("uint32_t *", NO_MODEL)
    ok(acl.aclmdlLoadFromFile(om.path(om.good), model_id))
    assert model_id[0] != NO_MODEL
    yield int(model_id[0])
    acl.aclmdlUnload(model_id[0])


@pytest.fixture
def desc(model: int) -> Iterator[Any]:
    """The description of the loaded network."""
    made = acl.aclmdlCreateDesc()
    assert made != NULL
    ok(acl.aclmdlGetDesc(made, model))
    yield made
    acl.aclmdlDestroyDesc(made)


class Run:
    """Inputs and outputs of the tiny network in device memory, and their datasets."""

    def __init__(self) -> None:
        self.memory = [malloc(SIZE_BYTES + 128) for _ in range(4)]
        self.buffers = [acl.aclCreateDataBuffer(each, SIZE_BYTES) for each in self.memory]
        self.inputs, self.outputs = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
        for index, buffer in enumerate(self.buffers):
            ok(acl.aclmdlAddDatasetBuffer(self.outputs if index > 1 else self.inputs, buffer))
        write(self.memory[0], floats(A))
        write(self.memory[1], floats(B))
        for each in self.memory[2:]:
            write(each, bytes(SIZE_BYTES))

    def execute(self, model: int) -> int:
        return int(acl.aclmdlExecute(model, self.inputs, self.outputs))

    def execute_async(self, model: int, stream: Any) -> int:
        return int(acl.aclmdlExecuteAsync(model, self.inputs, self.outputs, stream))

    def results(self) -> tuple[bytes, bytes]:
        return read(self.memory[2], SIZE_BYTES), read(self.memory[3], SIZE_BYTES)

    def untouched(self) -> bool:
        return self.results() == (bytes(SIZE_BYTES), bytes(SIZE_BYTES))

    def right(self) -> bool:
        return self.results() == expected(A, B)

    def close(self) -> None:
        acl.aclmdlDestroyDataset(self.inputs)
        acl.aclmdlDestroyDataset(self.outputs)
        for buffer in self.buffers:
            acl.aclDestroyDataBuffer(buffer)


@pytest.fixture
def run(device: int) -> Iterator[Run]:
    """Memory and datasets for one execution."""
    made = Run()
    yield made
    made.close()


@rule("S9.1")
def test_order_of_tests(om: OmFiles) -> None:
    def body(good: str, short: str, broken: str) -> Any:
        model_id = ffi.new("uint32_t *")
        load = acl.aclmdlLoadFromFile
        codes = [
            load(NULL, NULL),
            load(b"no such file.om", NULL),
            load(short.encode(), NULL),
            load(good.encode(), NULL),
            load(broken.encode(), model_id),
        ]
        ok(acl.aclInit(NULL))
        codes += [load(broken.encode(), model_id), load(good.encode(), model_id)]
        ok(acl.aclrtSetDevice(0))
        return [*codes, load(good.encode(), model_id)]

    short = om.path(om.good[:3]).decode()
    broken = om.path(om.damaged_definition()).decode()
    answer = run_fresh(body, good=om.good_path, short=short, broken=broken)
    assert answer == [100000, 145002, 145006, 100000, 145001, 500002, 107002, 0]


@rule("S9.2")
def test_load_from_file_null(device: int, om: OmFiles) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadFromFile(NULL, model_id) == 100000
    assert acl.aclmdlLoadFromFile(om.path(om.good), NULL) == 100000
    assert model_id[0] == NO_MODEL


@rule("S9.3")
def test_load_a_missing_file(device: int, tmp_path: Path) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    missing = str(tmp_path / "missing.om").encode()
    assert acl.aclmdlLoadFromFile(missing, model_id) == 145002
    assert acl.aclmdlLoadFromFile(missing + b"/below", model_id) == 145002
    assert model_id[0] == NO_MODEL


@rule("S9.4")
@pytest.mark.parametrize("size", [0, 1, 3])
def test_load_a_tiny_file(device: int, om: OmFiles, size: int) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadFromFile(om.path(om.good[:size]), model_id) == 145006
    assert model_id[0] == NO_MODEL


@rule("S9.5")
@pytest.mark.parametrize("size", [4, 100, 255])
def test_load_a_part_of_the_header(device: int, om: OmFiles, size: int) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadFromFile(om.path(om.good[:size]), model_id) == 145006
    assert model_id[0] == NO_MODEL


@rule("S9.6")
def test_load_a_wrong_magic(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.with_bytes(0, b"IMOX")) == [145000, 145000]


@rule("S9.7")
def test_load_a_wrong_length(device: int, om: OmFiles) -> None:
    for data in (om.good[:-1], om.good + b"\0", om.good[:256], om.good[: len(om.good) // 2]):
        assert load_both_ways(om, data) == [145000, 145000]


@rule("S9.8")
def test_load_a_part_past_the_end(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.long_part()) == [145006, 145006]
    many = om.with_bytes(256, struct.pack("<I", 8))
    table_only = many[: 256 + 8 + 24]
    cut = table_only[: models.LENGTH_AT] + struct.pack("<Q", 8 + 24)
    cut += table_only[models.LENGTH_AT + 8 :]
    assert load_both_ways(om, cut) == [145006, 145006]


@rule("S9.9")
@pytest.mark.parametrize("number", [0, 9, 0xFFFFFFFF])
def test_load_a_bad_number_of_parts(device: int, om: OmFiles, number: int) -> None:
    assert load_both_ways(om, om.with_bytes(256, struct.pack("<I", number))) == [145000, 145000]


@guess
@rule("S9.10")
def test_load_a_damaged_definition(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.damaged_definition()) == [500002, 500002]


@guess
@rule("S9.11")
def test_load_a_model_of_another_chip(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.other_chip) == [500002, 500002]


@guess
@rule("S9.12")
def test_load_a_damaged_task_list(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.damaged_tasks()) == [500002, 500002]


@guess
@rule("S9.13")
def test_load_a_bundle(device: int, om: OmFiles) -> None:
    assert load_both_ways(om, om.with_bytes(models.TYPE_AT, b"\x05")) == [500002, 500002]


@guess
@rule("S9.14")
def test_load_several_parts_that_do_not_meet_the_end(device: int, om: OmFiles) -> None:
    block = om.good[256:]
    body = block * 2 + b"\0"
    header = bytearray(om.good[:256])
    struct.pack_into("<I", header, models.MODEL_NUM_AT, 2)
    struct.pack_into("<Q", header, models.LENGTH_AT, len(body))
    assert load_both_ways(om, bytes(header) + body) == [500002, 500002]


@rule("S9.15")
def test_load_without_context(om: OmFiles) -> None:
    assert in_thread(lambda: load_both_ways(om, om.good)) == [107002, 107002]
    assert in_thread(lambda: load_both_ways(om, om.damaged_definition())) == [500002, 500002]


@rule("S9.16")
def test_load_from_memory_null(device: int, om: OmFiles) -> None:
    model_id, memory = ffi.new("uint32_t *", NO_MODEL), ffi.from_buffer(om.good)
    assert acl.aclmdlLoadFromMem(NULL, len(om.good), model_id) == 100000
    assert acl.aclmdlLoadFromMem(memory, 0, model_id) == 100000
    assert acl.aclmdlLoadFromMem(memory, len(om.good), NULL) == 100000
    assert model_id[0] == NO_MODEL


@rule("S9.17")
@pytest.mark.parametrize("size", [1, 2, 3])
def test_load_tiny_memory(device: int, om: OmFiles, size: int) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadFromMem(ffi.from_buffer(om.good), size, model_id) == 145006
    assert model_id[0] == NO_MODEL


@rule("S9.18")
@pytest.mark.parametrize("size", [4, 255])
def test_load_short_memory(device: int, om: OmFiles, size: int) -> None:
    model_id = ffi.new("uint32_t *", NO_MODEL)
    assert acl.aclmdlLoadFromMem(ffi.from_buffer(om.good), size, model_id) == 100000
    assert model_id[0] == NO_MODEL


def sizes_of(path: bytes) -> tuple[int, int]:
    """Return the work and weight bytes that a model file asks for."""
    out = ffi.new("size_t[2]", [77, 77])
    ok(acl.aclmdlQuerySize(path, out, out + 1))
    return int(out[0]), int(out[1])


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


@rule("S9.23")
def test_unload_twice(device: int, om: OmFiles) -> None:
    model_id = ffi.new("uint32_t *")
    ok(acl.aclmdlLoadFromFile(om.path(om.good), model_id))
    codes = [acl.aclmdlUnload(each) for each in (model_id[0], model_id[0], NO_MODEL)]
    assert codes == [0, 145003, 145003]


@rule("S9.25")
def test_query_size_null(om: OmFiles) -> None:
    out = ffi.new("size_t[2]", [77, 77])
    path = om.path(om.good)
    assert acl.aclmdlQuerySize(NULL, out, out + 1) == 100000
    assert acl.aclmdlQuerySize(path, NULL, out) == 100000
    assert acl.aclmdlQuerySize(path, out, NULL) == 100000
    assert list(out) == [77, 77]


def query_size(path: bytes) -> int:
    """Return the code of a size query that must fail without an answer."""
    out = ffi.new("size_t[2]", [77, 77])
    code = acl.aclmdlQuerySize(path, out, out + 1)
    assert list(out) == [77, 77]
    return int(code)


@rule("S9.26")
def test_query_size_of_a_missing_file(tmp_path: Path) -> None:
    assert query_size(str(tmp_path / "missing.om").encode()) == 145002


@rule("S9.27")
@pytest.mark.parametrize("size", [0, 1, 3])
def test_query_size_of_a_tiny_file(om: OmFiles, size: int) -> None:
    assert query_size(om.path(om.good[:size])) == 145006


@rule("S9.28")
def test_query_size_of_a_wrong_header(om: OmFiles) -> None:
    for data in (om.good[:4], om.good[:255], om.with_bytes(0, b"IMOX"), om.good[:-1]):
        assert query_size(om.path(data)) == 145000
    assert sizes_of(om.path(om.good))[1] >= SIZE_BYTES


@rule("S9.29")
def test_query_size_of_a_part_past_the_end(om: OmFiles) -> None:
    assert query_size(om.path(om.long_part())) == 145006


@rule("S9.30")
def test_query_size_without_init(om: OmFiles) -> None:
    def body(good: str, short: str) -> Any:
        out = ffi.new("size_t[2]", [77, 77])
        before = [acl.aclmdlQuerySize(each.encode(), out, out + 1) for each in (short, good)]
        ok(acl.aclInit(NULL))
        return before, acl.aclmdlQuerySize(good.encode(), out, out + 1), out[1] != 77

    short = om.path(om.good[:3]).decode()
    assert run_fresh(body, good=om.good_path, short=short) == [[145006, 145001], 0, True]


@rule("S9.31")
def test_get_desc_null(model: int) -> None:
    assert acl.aclmdlGetDesc(NULL, model) == 100000


@rule("S9.32")
def test_get_desc_without_init() -> None:
    def body() -> Any:
        made = acl.aclmdlCreateDesc()
        before = acl.aclmdlGetDesc(made, 1)
        ok(acl.aclInit(NULL))
        return before, acl.aclmdlGetDesc(made, 1)

    assert run_fresh(body) == [145001, 145003]


@rule("S9.33")
def test_get_desc_of_an_unknown_id(desc: Any) -> None:
    made = acl.aclmdlCreateDesc()
    assert acl.aclmdlGetDesc(made, NO_MODEL) == 145003
    assert acl.aclmdlGetNumInputs(made) == 0
    ok(acl.aclmdlDestroyDesc(made))
    assert acl.aclmdlGetNumInputs(desc) == 2


@rule("S9.34")
def test_get_desc_again(model: int, om: OmFiles) -> None:
    many = [models.tensor(f"tensor{index}", [1]) for index in range(3)]
    made = described(om, models.description(many, many))
    assert (acl.aclmdlGetNumInputs(made), acl.aclmdlGetNumOutputs(made)) == (3, 3)
    ok(acl.aclmdlGetDesc(made, model))
    assert (acl.aclmdlGetNumInputs(made), acl.aclmdlGetNumOutputs(made)) == (2, 2)
    assert ffi.string(acl.aclmdlGetInputNameByIndex(made, 1)) == b"b"
    ok(acl.aclmdlDestroyDesc(made))


@rule("S9.35")
def test_destroy_null(desc: Any) -> None:
    assert acl.aclmdlDestroyDesc(NULL) == 100000
    assert acl.aclmdlDestroyDataset(NULL) == 100000
    assert acl.aclmdlGetNumInputs(desc) == 2


@rule("S9.36")
def test_number_of_inputs_and_outputs(desc: Any) -> None:
    assert (acl.aclmdlGetNumInputs(NULL), acl.aclmdlGetNumOutputs(NULL)) == (0, 0)
    assert (acl.aclmdlGetNumInputs(desc), acl.aclmdlGetNumOutputs(desc)) == (2, 2)


@rule("S9.37")
def test_sizes(desc: Any) -> None:
    for size in (acl.aclmdlGetInputSizeByIndex, acl.aclmdlGetOutputSizeByIndex):
        assert [size(desc, 0), size(desc, 1), size(desc, 2), size(NULL, 0)] == [256, 256, 0, 0]


def described(om: OmFiles, text: bytes, unknown_shape: bool = False) -> Any:
    """Return the description of a file, read without loading it."""
    data, made = om.with_description(text, unknown_shape), acl.aclmdlCreateDesc()
    ok(acl.aclmdlGetDescFromMem(made, ffi.from_buffer(data), len(data)))
    return made


@rule("S9.38")
def test_sizes_of_dims_with_ranges(om: OmFiles) -> None:
    tensors = [
        models.tensor("closed", [-1, 4], [(1, 8), (4, 4)]),
        models.tensor("open", [-1, 4], [(1, -1), (4, 4)]),
    ]
    made = described(om, models.description(tensors, tensors), unknown_shape=True)
    for size in (acl.aclmdlGetInputSizeByIndex, acl.aclmdlGetOutputSizeByIndex):
        assert [size(made, 0), size(made, 1)] == [8 * 4 * 4, 0]
    ok(acl.aclmdlDestroyDesc(made))


@rule("S9.39")
def test_names(desc: Any) -> None:
    for name, index_of in (
        (acl.aclmdlGetInputNameByIndex, acl.aclmdlGetInputIndexByName),
        (acl.aclmdlGetOutputNameByIndex, acl.aclmdlGetOutputIndexByName),
    ):
        for nothing in (name(desc, 2), name(NULL, 0)):
            assert nothing != NULL and ffi.string(nothing) == b""
        out = ffi.new("size_t *", 77)
        ok(index_of(desc, name(desc, 1), out))
        assert out[0] == 1
    assert ffi.string(acl.aclmdlGetInputNameByIndex(desc, 0)) == b"a"


@rule("S9.40")
def test_formats_and_types(desc: Any) -> None:
    for what in ("InputFormat", "OutputFormat", "InputDataType", "OutputDataType"):
        assert getattr(acl, f"aclmdlGet{what}")(NULL, 0) == -1
    assert acl.aclmdlGetInputDataType(desc, 0) == acl.ACL_FLOAT
    assert acl.aclmdlGetOutputDataType(desc, 1) == acl.ACL_FLOAT
    assert acl.aclmdlGetInputFormat(desc, 0) == acl.aclmdlGetOutputFormat(desc, 0) >= 0


@rule("S9.41")
@pytest.mark.parametrize("what", ["InputDims", "InputDimsV2", "OutputDims"])
def test_dims(desc: Any, what: str) -> None:
    function, out = getattr(acl, f"aclmdlGet{what}"), ffi.new("aclmdlIODims *")
    out.dimCount = 77
    assert function(desc, 2, out) == 100000
    assert out.dimCount == 77
    ok(function(desc, 1, out))
    assert [out.dims[index] for index in range(out.dimCount)] == [1, COUNT]


@rule("S9.42")
def test_too_many_dims(om: OmFiles) -> None:
    tensors = [models.tensor("many", [1] * 129), models.tensor("fine", [1] * 128)]
    made = described(om, models.description(tensors, tensors))
    out = ffi.new("aclmdlIODims *")
    for dims in (acl.aclmdlGetInputDims, acl.aclmdlGetOutputDims):
        out.dimCount = 77
        assert dims(made, 0, out) == 300000
        assert out.dimCount == 77
        ok(dims(made, 1, out))
        assert out.dimCount == 128
    ok(acl.aclmdlDestroyDesc(made))


@rule("S9.43")
def test_index_by_name(desc: Any) -> None:
    out = ffi.new("size_t *", 77)
    for what in ("Input", "Output"):
        function = getattr(acl, f"aclmdlGet{what}IndexByName")
        assert function(NULL, b"a", out) == 100000
        assert function(desc, NULL, out) == 100000
        assert function(desc, b"a", NULL) == 100000
        assert function(desc, b"no such name", out) == 100000
    assert out[0] == 77
    ok(acl.aclmdlGetInputIndexByName(desc, b"b", out))
    assert out[0] == 1


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


@rule("S9.75")
def test_current_dims_of_a_dynamic_model(om: OmFiles) -> None:
    tensors = [models.tensor("any", [-1, 4], [(1, 8), (4, 4)])]
    made = described(om, models.description(tensors, tensors), unknown_shape=True)
    out = ffi.new("aclmdlIODims *")
    out.dimCount = 77
    assert acl.aclmdlGetCurOutputDims(made, 0, out) == 200001
    assert out.dimCount == 77
    assert acl.aclmdlGetNumOutputs(made) == 1
    ok(acl.aclmdlDestroyDesc(made))


@rule("S9.76")
def test_dynamic_dims_index(desc: Any) -> None:
    every, dims, count = 2**64 - 1, ffi.new("aclmdlIODims[2]"), ffi.new("size_t *", 77)
    assert acl.aclmdlGetInputDynamicGearCount(desc, 0, count) == 100000
    assert acl.aclmdlGetInputDynamicDims(desc, 0, dims, 1) == 100000
    assert count[0] == 77
    ok(acl.aclmdlGetInputDynamicGearCount(desc, every, count))
    assert count[0] == 0


@rule("S9.77")
def test_gears_of_a_model_without(desc: Any) -> None:
    batch, image = ffi.new("aclmdlBatch *"), ffi.new("aclmdlHW *")
    batch.batchCount = image.hwCount = 77
    ok(acl.aclmdlGetDynamicBatch(desc, batch))
    ok(acl.aclmdlGetDynamicHW(desc, 0, image))
    assert (batch.batchCount, image.hwCount) == (0, 0)


@rule("S9.78")
def test_too_many_gears(om: OmFiles) -> None:
    tensors = [models.tensor("batch", [-1, 4])]
    batch, image = ffi.new("aclmdlBatch *"), ffi.new("aclmdlHW *")
    for count, code in ((129, 300000), (128, 0)):
        batch.batchCount = image.hwCount = 77
        made = described(om, models.description(tensors, tensors, models.batch_gears(count)))
        assert acl.aclmdlGetDynamicBatch(made, batch) == code
        assert batch.batchCount == (77 if code else 128)
        ok(acl.aclmdlDestroyDesc(made))
        made = described(om, models.description(tensors, tensors, models.image_gears(count)))
        assert acl.aclmdlGetDynamicHW(made, 0, image) == code
        assert image.hwCount == (77 if code else 128)
        ok(acl.aclmdlDestroyDesc(made))
    assert list(batch.batch)[:3] == [1, 2, 3]
    assert list(image.hw[1]) == [3, 4]


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
