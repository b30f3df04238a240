"""Model files and descriptions (section 9)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import models
import pytest
from modelrun import NO_MODEL, described, sizes_of
from models import COUNT, SIZE_BYTES, OmFiles
from rawabi import (
    NULL,
    acl,
    ffi,
    in_thread,
    ok,
    run_fresh,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
pytestmark = pytest.mark.usefixtures("initialised")


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


@rule("S9.119")
def test_real_names(desc: Any) -> None:
    function = acl.aclmdlGetTensorRealName
    assert function(NULL, b"a") == function(desc, NULL) == function(desc, b"nobody") == NULL
    assert ffi.string(function(desc, b"a")) == b"a"


@rule("S9.120")
def test_attributes_of_operators(desc: Any) -> None:
    function, attribute = acl.aclmdlGetOpAttr, b"_datadump_original_op_names"
    assert function(NULL, b"add", attribute) == NULL
    assert function(desc, NULL, attribute) == function(desc, b"add", NULL) == NULL
    assert function(desc, b"add", b"colour") == function(desc, b"nobody", attribute) == NULL
    assert function(desc, b"subtract", attribute) != NULL


@rule("S9.121")
def test_descriptions_without_a_model(device: int, om: OmFiles) -> None:
    made, size = acl.aclmdlCreateDesc(), ffi.new("size_t[2]")
    path, data = om.path(om.good), ffi.from_buffer(om.good)
    assert acl.aclmdlGetDescFromFile(NULL, path) == 100000
    assert acl.aclmdlGetDescFromFile(made, NULL) == 100000
    for arguments in ((NULL, data, len(om.good)), (made, NULL, len(om.good)), (made, data, 0)):
        assert acl.aclmdlGetDescFromMem(*arguments) == 100000
    for model, count, work, weight in (
        (NULL, len(om.good), size, size + 1), (data, 0, size, size + 1),
        (data, len(om.good), NULL, size + 1), (data, len(om.good), size, NULL),
    ):  # fmt: skip
        assert acl.aclmdlQuerySizeFromMem(model, count, work, weight) == 100000
    ok(acl.aclmdlQuerySizeFromMem(data, len(om.good), size, size + 1))
    ok(acl.aclmdlDestroyDesc(made))


@rule("S9.122")
def test_descriptions_of_files(device: int, om: OmFiles) -> None:
    made = acl.aclmdlCreateDesc()
    assert acl.aclmdlGetNumInputs(made) == acl.aclmdlGetNumOutputs(made) == 0
    ok(acl.aclmdlGetDescFromFile(made, om.path(om.good)))
    assert (acl.aclmdlGetNumInputs(made), acl.aclmdlGetNumOutputs(made)) == (2, 2)
    ok(acl.aclmdlGetDescFromMem(made, ffi.from_buffer(om.pictures), len(om.pictures)))
    assert (acl.aclmdlGetNumInputs(made), acl.aclmdlGetNumOutputs(made)) == (2, 1)
    assert ffi.string(acl.aclmdlGetInputNameByIndex(made, 0)) == b"x"
    ok(acl.aclmdlDestroyDesc(made))
