"""Bundles of models (section 9)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from modelrun import NO_MODEL, Run, sizes_of
from models import HEADER_BYTES, TABLE_ENTRY, TYPE_AT, OmFiles, bundle
from rawabi import NULL, acl, ffi, malloc, ok, run_fresh

rule = pytest.mark.rule
pytestmark = pytest.mark.usefixtures("initialised")

NO_BUNDLE = 987655
UNKNOWN_BUNDLE = 148053


@pytest.fixture
def whole(om: OmFiles) -> bytes:
    """A bundle of two models: the tiny network and one with gears; 4096 bytes of variables."""
    return bundle([om.good, om.rows], variable_bytes=4096)


@pytest.fixture
def opened(device: int, whole: bytes) -> Iterator[int]:
    """A bundle that is open, nothing of it loaded."""
    made = ffi.new("uint32_t *")
    ok(acl.aclmdlBundleInitFromMem(ffi.from_buffer(whole), len(whole), NULL, 0, made))
    yield int(made[0])
    acl.aclmdlBundleUnload(made[0])


def loaded(om: OmFiles, data: bytes, way: str) -> int:
    made = ffi.new("uint32_t *", NO_BUNDLE)
    if way == "file":
        ok(acl.aclmdlBundleLoadFromFile(om.path(data), made))
    else:
        ok(acl.aclmdlBundleLoadFromMem(ffi.from_buffer(data), len(data), made))
    return int(made[0])


def all_codes(om: OmFiles, data: bytes) -> list[int]:
    """Return the codes of all six calls that take a bundle's bytes; no id may come out."""
    made, info = ffi.new("uint32_t *", NO_BUNDLE), acl.aclmdlBundleCreateQueryInfo()
    memory, path = ffi.from_buffer(data), om.path(data)
    codes = [
        acl.aclmdlBundleLoadFromFile(path, made),
        acl.aclmdlBundleLoadFromMem(memory, len(data), made),
        acl.aclmdlBundleInitFromFile(path, NULL, 0, made),
        acl.aclmdlBundleInitFromMem(memory, len(data), NULL, 0, made),
        acl.aclmdlBundleQueryInfoFromFile(path, info),
        acl.aclmdlBundleQueryInfoFromMem(memory, len(data), info),
    ]
    assert made[0] == NO_BUNDLE
    assert count_of(info) == 0
    ok(acl.aclmdlBundleDestroyQueryInfo(info))
    return codes


def model_ids(made: int) -> list[int]:
    count, model_id = ffi.new("size_t *"), ffi.new("uint32_t *")
    ok(acl.aclmdlBundleGetModelNum(made, count))
    ids = []
    for index in range(count[0]):
        ok(acl.aclmdlBundleGetModelId(made, index, model_id))
        ids.append(int(model_id[0]))
    return ids


def count_of(info: Any) -> int:
    count = ffi.new("size_t *", 77)
    ok(acl.aclmdlBundleGetQueryModelNum(info, count))
    return int(count[0])


def runs(model: int) -> bool:
    run = Run()
    code = run.execute(model)
    right = run.right()
    run.close()
    return code == 0 and right


def is_loaded(model: int) -> bool:
    desc = acl.aclmdlCreateDesc()
    code = acl.aclmdlGetDesc(desc, model)
    acl.aclmdlDestroyDesc(desc)
    assert code in (0, 145003)
    return bool(code == 0)


@rule("S9.103")
@pytest.mark.parametrize("way", ["file", "memory"])
def test_load_a_bundle(device: int, om: OmFiles, whole: bytes, way: str) -> None:
    made = loaded(om, whole, way)
    first, second = model_ids(made)
    assert len({made, first, second}) == 3
    assert runs(first)
    desc = acl.aclmdlCreateDesc()
    ok(acl.aclmdlGetDesc(desc, second))
    assert acl.aclmdlGetNumInputs(desc) == 2  # the data and its gear
    acl.aclmdlDestroyDesc(desc)
    ok(acl.aclmdlBundleUnload(made))


@rule("S9.103")
def test_a_bundle_is_loaded_as_a_whole(device: int, om: OmFiles) -> None:
    broken = bundle([om.good, om.damaged_definition()])
    before, after, made = ffi.new("size_t[2]"), ffi.new("size_t[2]"), ffi.new("uint32_t *", 5)
    ok(acl.aclrtGetMemInfo(1, before, before + 1))
    assert acl.aclmdlBundleLoadFromFile(om.path(broken), made) == 500002
    assert acl.aclmdlBundleLoadFromMem(ffi.from_buffer(broken), len(broken), made) == 500002
    assert made[0] == 5
    ok(acl.aclrtGetMemInfo(1, after, after + 1))
    assert after[0] == before[0]


@rule("S9.104")
def test_null_pointers(device: int, whole: bytes) -> None:
    made, info, memory = ffi.new("uint32_t *"), NULL, ffi.from_buffer(whole)
    for code in (
        acl.aclmdlBundleLoadFromFile(NULL, made),
        acl.aclmdlBundleLoadFromFile(b"x", NULL),
        acl.aclmdlBundleLoadFromMem(NULL, 8, made),
        acl.aclmdlBundleLoadFromMem(memory, 0, made),
        acl.aclmdlBundleLoadFromMem(memory, len(whole), NULL),
        acl.aclmdlBundleInitFromFile(NULL, NULL, 0, made),
        acl.aclmdlBundleInitFromFile(b"x", NULL, 0, NULL),
        acl.aclmdlBundleInitFromMem(NULL, 8, NULL, 0, made),
        acl.aclmdlBundleInitFromMem(memory, len(whole), NULL, 0, NULL),
        acl.aclmdlBundleQueryInfoFromFile(NULL, info),
        acl.aclmdlBundleQueryInfoFromFile(b"x", info),
        acl.aclmdlBundleQueryInfoFromMem(memory, len(whole), info),
    ):
        assert code == 100000


@rule("S9.104")
def test_other_files(device: int, om: OmFiles) -> None:
    assert all_codes(om, om.good) == [100000] * 6
    assert "no bundle" in ffi.string(acl.aclGetRecentErrMsg()).decode()


@rule("S9.104")
def test_a_table_that_runs_past_the_end(device: int, om: OmFiles, whole: bytes) -> None:
    for count in (200, 2**32 - 1):
        data = bytearray(whole)
        struct.pack_into("<I", data, HEADER_BYTES, count)
        assert all_codes(om, bytes(data[: HEADER_BYTES + 3000])) == [100000] * 6
    for size in (len(whole), 2**64 - 1, 2**63):
        data = bytearray(whole)
        struct.pack_into("<Q", data, HEADER_BYTES + 8 + TABLE_ENTRY.size + 16, size)
        assert all_codes(om, bytes(data)) == [100000] * 6


@rule("S9.104")
def test_truncated(device: int, om: OmFiles, whole: bytes) -> None:
    table_end = HEADER_BYTES + 8 + 3 * TABLE_ENTRY.size
    for length in [*range(4), 255]:
        codes = all_codes(om, whole[:length] or b"") if length else []
        assert codes == ([145006, 100000] * 3 if codes else [])
    for length in [*range(HEADER_BYTES, table_end + 9, 7), len(whole) - 1]:
        assert all_codes(om, whole[:length]) == [100000] * 6


@rule("S9.104")
def test_bytes_of_header_and_table(device: int, om: OmFiles, whole: bytes) -> None:
    """Each damaged byte gives the documented code, or success where nobody looks."""
    made = ffi.new("uint32_t *")
    looked_at = {TYPE_AT}
    for row in range(3):
        start = HEADER_BYTES + 8 + row * TABLE_ENTRY.size
        looked_at |= set(range(start, start + 4)) | set(range(start + 16, start + 24))
    looked_at |= set(range(HEADER_BYTES, HEADER_BYTES + 4))
    for at in range(HEADER_BYTES + 8 + 3 * TABLE_ENTRY.size):
        data = bytearray(whole)
        data[at] ^= 0xFF
        code = acl.aclmdlBundleInitFromMem(ffi.from_buffer(data), len(data), NULL, 0, made)
        assert code in ((0, 100000) if at in looked_at else (0,)), at
        if code == 0:
            ok(acl.aclmdlBundleUnload(made[0]))


@rule("S9.105")
def test_missing_file(device: int) -> None:
    made, info = ffi.new("uint32_t *"), acl.aclmdlBundleCreateQueryInfo()
    assert acl.aclmdlBundleLoadFromFile(b"no such bundle.om", made) == 145002
    assert acl.aclmdlBundleInitFromFile(b"no such bundle.om", NULL, 0, made) == 145002
    assert acl.aclmdlBundleQueryInfoFromFile(b"no such bundle.om", info) == 145002
    ok(acl.aclmdlBundleDestroyQueryInfo(info))


@rule("S9.106")
def test_unknown_bundles(opened: int) -> None:
    model_id, count = ffi.new("uint32_t *"), ffi.new("size_t *")
    config = acl.aclmdlCreateConfigHandle()
    ok(acl.aclmdlBundleLoadModel(opened, 0, model_id))
    for wrong in (NO_BUNDLE, int(model_id[0])):
        for code in (
            acl.aclmdlBundleUnload(wrong),
            acl.aclmdlBundleGetModelNum(wrong, count),
            acl.aclmdlBundleGetModelId(wrong, 0, model_id),
            acl.aclmdlBundleLoadModel(wrong, 0, model_id),
            acl.aclmdlBundleLoadModelWithMem(wrong, 0, NULL, 0, NULL, 0, model_id),
            acl.aclmdlBundleLoadModelWithConfig(wrong, 0, config, model_id),
            acl.aclmdlBundleUnloadModel(wrong, 0),
        ):
            assert code == UNKNOWN_BUNDLE
    assert acl.aclmdlUnload(opened) == 145003
    ok(acl.aclmdlBundleUnload(opened))
    assert acl.aclmdlBundleUnload(opened) == UNKNOWN_BUNDLE
    ok(acl.aclmdlDestroyConfigHandle(config))


@rule("S9.107")
def test_wrong_index_and_null(device: int, om: OmFiles, whole: bytes) -> None:
    made, model_id, sizes = loaded(om, whole, "file"), ffi.new("uint32_t *"), ffi.new("size_t[2]")
    config, info = acl.aclmdlCreateConfigHandle(), acl.aclmdlBundleCreateQueryInfo()
    ok(acl.aclmdlBundleQueryInfoFromMem(ffi.from_buffer(whole), len(whole), info))
    for code in (
        acl.aclmdlBundleGetModelId(made, 2, model_id),
        acl.aclmdlBundleGetModelId(made, 0, NULL),
        acl.aclmdlBundleLoadModel(made, 2, model_id),
        acl.aclmdlBundleLoadModel(made, 0, NULL),
        acl.aclmdlBundleLoadModelWithMem(made, 2**63, NULL, 0, NULL, 0, model_id),
        acl.aclmdlBundleLoadModelWithMem(made, 0, NULL, 0, NULL, 0, NULL),
        acl.aclmdlBundleLoadModelWithConfig(made, 2, config, model_id),
        acl.aclmdlBundleLoadModelWithConfig(made, 0, NULL, model_id),
        acl.aclmdlBundleLoadModelWithConfig(made, 0, config, NULL),
        acl.aclmdlBundleGetSize(info, 2, sizes, sizes + 1),
        acl.aclmdlBundleGetSize(NULL, 0, sizes, sizes + 1),
        acl.aclmdlBundleGetSize(info, 0, NULL, sizes),
        acl.aclmdlBundleGetSize(info, 0, sizes, NULL),
        acl.aclmdlBundleGetSize(ffi.cast("void *", config), 0, sizes, sizes + 1),
    ):
        assert code == 100000
    ok(acl.aclmdlBundleDestroyQueryInfo(info))
    ok(acl.aclmdlDestroyConfigHandle(config))
    ok(acl.aclmdlBundleUnload(made))


@rule("S9.108")
def test_no_ids_of_an_opened_bundle(opened: int) -> None:
    model_id, count = ffi.new("uint32_t *"), ffi.new("size_t *")
    assert acl.aclmdlBundleGetModelId(opened, 0, model_id) == 200001
    ok(acl.aclmdlBundleLoadModel(opened, 0, model_id))
    assert acl.aclmdlBundleGetModelId(opened, 0, model_id) == 200001
    ok(acl.aclmdlBundleGetModelNum(opened, count))
    assert count[0] == 2


@rule("S9.109")
def test_memory_for_variables(device: int, om: OmFiles, whole: bytes) -> None:
    made, block, data = ffi.new("uint32_t *"), malloc(4096), ffi.from_buffer(whole)
    assert acl.aclmdlBundleInitFromFile(om.path(whole), block, 4095, made) == 100000
    assert acl.aclmdlBundleInitFromMem(data, len(whole), block, 4095, made) == 100000
    for size, given in ((4096, block), (0, NULL)):
        ok(acl.aclmdlBundleInitFromFile(om.path(whole), given, size, made))
        ok(acl.aclmdlBundleUnload(made[0]))
    ok(acl.aclrtFree(block))


@rule("S9.109")
def test_a_bundle_is_opened_before_acl_init(om: OmFiles) -> None:
    def body(path: str) -> Any:
        made, model_id = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        load = acl.aclmdlBundleLoadModel
        codes = [acl.aclmdlBundleInitFromFile(path.encode(), NULL, 0, made)]
        codes += [load(made[0], 0, model_id), acl.aclInit(NULL), acl.aclrtSetDevice(0)]
        return [*codes, load(made[0], 0, model_id)]

    path = om.path(bundle([om.good])).decode()
    assert run_fresh(body, path=path) == [0, 145001, 0, 0, 0]


@rule("S9.110")
def test_load_single_models(opened: int, om: OmFiles) -> None:
    work, weight = sizes_of(om.path(om.good))
    blocks = [malloc(max(work, 64)), malloc(max(weight, 64))]
    config, ids = acl.aclmdlCreateConfigHandle(), ffi.new("uint32_t[4]")
    priority = ffi.new("int32_t *", 3)
    ok(acl.aclmdlSetConfigOpt(config, 0, priority, 4))
    ok(acl.aclmdlBundleLoadModel(opened, 0, ids))
    ok(acl.aclmdlBundleLoadModel(opened, 0, ids + 1))
    load = acl.aclmdlBundleLoadModelWithMem
    ok(load(opened, 0, blocks[0], work, blocks[1], weight, ids + 2))
    ok(acl.aclmdlBundleLoadModelWithConfig(opened, 0, config, ids + 3))
    assert len(set(ids)) == 4
    assert all(runs(each) for each in ids)
    assert load(opened, 0, blocks[0], work, blocks[1], weight - 1, ids) == 145000
    attribute = ffi.new("aclmdlAttrValue_t *")
    ok(acl.aclmdlGetAttribute(ids[3], 0, attribute))
    assert attribute.mdlPriority == 3
    ok(acl.aclmdlDestroyConfigHandle(config))
    ok(acl.aclmdlBundleUnload(opened))
    assert not any(is_loaded(each) for each in ids)
    for each in blocks:
        ok(acl.aclrtFree(each))


@rule("S9.110")
def test_a_file_is_read_again(device: int, om: OmFiles, tmp_path: Any) -> None:
    path, model_id = tmp_path / "b.om", ffi.new("uint32_t *", NO_MODEL)
    path.write_bytes(bundle([om.good, om.good]))
    made = ffi.new("uint32_t *")
    ok(acl.aclmdlBundleLoadFromFile(str(path).encode(), made))
    path.write_bytes(bundle([om.good]))
    assert acl.aclmdlBundleLoadModel(made[0], 1, model_id) == 100000
    assert model_id[0] == NO_MODEL
    ok(acl.aclmdlBundleLoadModel(made[0], 0, model_id))
    assert runs(model_id[0])
    path.unlink()
    assert acl.aclmdlBundleLoadModel(made[0], 0, model_id) == 145002
    ok(acl.aclmdlBundleUnload(made[0]))


@rule("S9.24")
def test_unload_a_member_of_a_bundle(opened: int, om: OmFiles) -> None:
    model_id = ffi.new("uint32_t *")
    ok(acl.aclmdlBundleLoadModel(opened, 0, model_id))
    assert acl.aclmdlUnload(model_id[0]) == 100000
    assert "aclmdlBundleUnload" in ffi.string(acl.aclGetRecentErrMsg()).decode()
    assert runs(model_id[0])


@rule("S9.111")
def test_unload_one_model(opened: int, om: OmFiles) -> None:
    model_id, other = ffi.new("uint32_t *"), ffi.new("uint32_t *")
    ok(acl.aclmdlBundleLoadModel(opened, 0, model_id))
    ok(acl.aclmdlLoadFromFile(om.path(om.good), other))
    assert acl.aclmdlBundleUnloadModel(opened, other[0]) == 100000
    ok(acl.aclmdlUnload(other[0]))
    ok(acl.aclmdlBundleUnloadModel(opened, model_id[0]))
    assert not is_loaded(model_id[0])
    assert acl.aclmdlBundleUnloadModel(opened, model_id[0]) == 100000
    assert acl.aclmdlUnload(model_id[0]) == 145003


@rule("S9.112")
def test_unload_takes_all_models(device: int, om: OmFiles, whole: bytes) -> None:
    made, model_id = loaded(om, whole, "memory"), ffi.new("uint32_t *")
    ok(acl.aclmdlBundleLoadModel(made, 0, model_id))
    models = [*model_ids(made), int(model_id[0])]
    assert all(is_loaded(each) for each in models)
    assert acl.aclmdlUnload(models[0]) == 100000
    ok(acl.aclmdlBundleUnload(made))
    assert not any(is_loaded(each) for each in models)


@rule("S9.113")
def test_ask_without_loading(device: int, om: OmFiles) -> None:
    dynamic = bytearray(om.good)
    dynamic[193] = 1  # the header says: unknown shape
    data = bundle([om.good, bytes(dynamic)], variable_bytes=123)
    info, sizes = acl.aclmdlBundleCreateQueryInfo(), ffi.new("size_t[2]", [77, 77])
    ok(acl.aclmdlBundleQueryInfoFromFile(om.path(data), info))
    ok(acl.aclmdlBundleGetVarWeightSize(info, sizes))
    assert (sizes[0], count_of(info)) == (123, 2)
    ok(acl.aclmdlBundleGetSize(info, 0, sizes, sizes + 1))
    assert tuple(sizes) == sizes_of(om.path(om.good))
    ok(acl.aclmdlBundleGetSize(info, 1, sizes, sizes + 1))
    assert tuple(sizes) == (0, 0)
    ok(acl.aclmdlBundleQueryInfoFromMem(ffi.from_buffer(data), len(data), info))
    assert count_of(info) == 4
    ok(acl.aclmdlBundleDestroyQueryInfo(info))


@rule("S9.114")
def test_null_queries() -> None:
    out, info = ffi.new("size_t *"), acl.aclmdlBundleCreateQueryInfo()
    assert acl.aclmdlBundleDestroyQueryInfo(NULL) == 100000
    assert acl.aclmdlBundleGetQueryModelNum(NULL, out) == 100000
    assert acl.aclmdlBundleGetQueryModelNum(info, NULL) == 100000
    assert acl.aclmdlBundleGetVarWeightSize(NULL, out) == 100000
    assert acl.aclmdlBundleGetVarWeightSize(info, NULL) == 100000
    ok(acl.aclmdlBundleDestroyQueryInfo(info))
    assert acl.aclmdlBundleDestroyQueryInfo(info) == 100000
