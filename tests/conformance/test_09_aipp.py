"""Parameters of image preprocessing (section 9); tests/differential compares what comes out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from models import OmFiles
from rawabi import NULL, acl, ffi, malloc, ok, read, write

rule = pytest.mark.rule
pytestmark = pytest.mark.usefixtures("initialised")


@pytest.fixture
def aipp() -> Iterator[Any]:
    made = acl.aclmdlCreateAIPP(1)
    assert made != NULL
    yield made
    acl.aclmdlDestroyAIPP(made)


@pytest.fixture
def model(device: int, om: OmFiles) -> Iterator[int]:
    made = ffi.new("uint32_t *")
    ok(acl.aclmdlLoadFromMem(ffi.from_buffer(om.pictures), len(om.pictures), made))
    yield int(made[0])
    acl.aclmdlUnload(made[0])


@rule("S9.92")
def test_parameters_of_no_image() -> None:
    assert acl.aclmdlCreateAIPP(0) == NULL
    assert acl.aclmdlCreateAIPP(1) != NULL


ON = (1, *[0] * 15)
WRONG = [
    ("InputFormat", (0,)),
    ("InputFormat", (15,)),
    ("CscParams", (2, *ON[1:])),
    ("CscParams", (1, 32677, *[0] * 14)),
    ("RbuvSwapSwitch", (2,)),
    ("AxSwapSwitch", (-1,)),
    ("SrcImageSize", (1, 2)),
    ("SrcImageSize", (4097, 2)),
    ("SrcImageSize", (2, 0)),
    ("ScfParams", (1, 16, 16, 15, 16, 0)),
    ("ScfParams", (2, 16, 16, 16, 16, 0)),
    ("ScfParams", (1, 16, 16, 16, 16, 1)),
    ("CropParams", (1, 0, 0, 0, 2, 0)),
    ("CropParams", (1, -1, 0, 2, 2, 0)),
    ("CropParams", (1, 0, 0, 2, 2, 1)),
    ("PaddingParams", (1, 33, 0, 0, 0, 0)),
    ("PaddingParams", (1, 0, 0, 0, 0, 1)),
    ("DtcPixelMean", (256, 0, 0, 0, 0)),
    ("DtcPixelMean", (0, 0, 0, 0, 1)),
    ("DtcPixelMin", (0, 255.5, 0, 0, 0)),
    ("DtcPixelMin", (0, 0, 0, 0, 1)),
    ("PixelVarReci", (0, 0, 65520.0, 0, 0)),
    ("PixelVarReci", (0, 0, 0, 0, 1)),
]


@rule("S9.93")
def test_parameters_are_checked(aipp: Any) -> None:
    for name, arguments in WRONG:
        function = getattr(acl, f"aclmdlSetAIPP{name}")
        assert function(aipp, *arguments) == 100000, (name, arguments)
        assert function(NULL, *arguments) == 100000, name
    assert acl.aclmdlDestroyAIPP(NULL) == 100000


@rule("S9.94")
def test_size_of_parameters() -> None:
    size = ffi.new("size_t *", 7)
    assert acl.aclmdlGetAippDataSize(0, size) == 100000
    assert acl.aclmdlGetAippDataSize(1, NULL) == 100000
    for batch in (1, 4):
        ok(acl.aclmdlGetAippDataSize(batch, size))
        assert size[0] == 64 + 96 * batch


@rule("S9.95")
def test_questions_about_no_input(model: int) -> None:
    kind, index = ffi.new("aclmdlInputAippType *"), ffi.new("size_t *")
    info = ffi.new("aclAippInfo *")
    assert acl.aclmdlGetAippType(model, 2, kind, index) == 100000
    assert acl.aclmdlGetAippType(model, 0, NULL, index) == 100000
    assert acl.aclmdlGetAippType(model, 0, kind, NULL) == 100000
    assert acl.aclmdlGetFirstAippInfo(model, 2, info) == 100000
    assert acl.aclmdlGetFirstAippInfo(model, 0, NULL) == 100000


@rule("S9.115")
def test_parameters_for_an_input_without_aipp(model: int, aipp: Any) -> None:
    dataset = acl.aclmdlCreateDataset()
    for _ in range(2):
        ok(acl.aclmdlAddDatasetBuffer(dataset, acl.aclCreateDataBuffer(malloc(160), 160)))
    assert acl.aclmdlSetAIPPByInputIndex(model, dataset, 1, aipp) == 500001
    ok(acl.aclmdlDestroyDataset(dataset))


@rule("S9.117")
def test_information_about_no_aipp(device: int, om: OmFiles) -> None:
    made, info = ffi.new("uint32_t *"), ffi.new("aclAippInfo *")
    ok(acl.aclmdlLoadFromFile(om.path(om.good), made))
    assert acl.aclmdlGetFirstAippInfo(made[0], 0, info) == 145015
    ok(acl.aclmdlUnload(made[0]))


@rule("S9.96")
def test_parameters_that_do_not_fit(model: int, aipp: Any) -> None:
    memory = [malloc(100), malloc(160)]
    write(memory[1], bytes(160))
    dataset = acl.aclmdlCreateDataset()
    for each, size in zip(memory, (100, 160), strict=True):
        ok(acl.aclmdlAddDatasetBuffer(dataset, acl.aclCreateDataBuffer(each, size)))
    by_image, by_index = acl.aclmdlSetAIPPByInputIndex, acl.aclmdlSetInputAIPP
    ok(acl.aclmdlSetAIPPInputFormat(aipp, acl.ACL_RGB888_U8))
    ok(acl.aclmdlSetAIPPSrcImageSize(aipp, 4, 2))
    assert by_index(model, dataset, 0, aipp) == 100000
    for function, right in ((by_image, 0), (by_index, 1)):
        assert function(model, NULL, right, aipp) == 100000
        assert function(model, dataset, right, NULL) == 100000
        assert function(model, dataset, 2, aipp) == 100000
    two = acl.aclmdlCreateAIPP(2)
    ok(acl.aclmdlSetAIPPInputFormat(two, acl.ACL_RGB888_U8))
    ok(acl.aclmdlSetAIPPSrcImageSize(two, 4, 2))
    assert by_image(model, dataset, 0, two) == 100000
    for width, height in ((5, 2), (4, 3), (40, 20)):
        ok(acl.aclmdlSetAIPPSrcImageSize(aipp, width, height))
        assert by_image(model, dataset, 0, aipp) == 100000
    ok(acl.aclmdlSetAIPPSrcImageSize(aipp, 4, 2))
    ok(acl.aclmdlSetAIPPCropParams(aipp, 1, 1, 0, 4, 2, 0))
    assert by_image(model, dataset, 0, aipp) == 100000, "the crop is not inside"
    ok(acl.aclmdlSetAIPPCropParams(aipp, 0, 0, 0, 0, 0, 0))
    ok(acl.aclmdlSetAIPPInputFormat(aipp, acl.ACL_YUV400_U8))
    ok(acl.aclmdlSetAIPPCscParams(aipp, 1, *[0] * 15))
    assert by_image(model, dataset, 0, aipp) == 100000, "grey images have no colours"
    ok(acl.aclmdlSetAIPPCscParams(aipp, 0, *[0] * 15))
    ok(acl.aclmdlSetAIPPInputFormat(aipp, acl.ACL_RGB888_U8))
    assert read(memory[1], 160) == bytes(160)
    ok(by_image(model, dataset, 0, aipp))
    assert read(memory[1], 160) != bytes(160)
    ok(acl.aclmdlDestroyDataset(dataset))


@rule("S9.116")
def test_parameters_of_a_model_with_batch_gears(device: int, om: OmFiles) -> None:
    made = ffi.new("uint32_t *")
    ok(acl.aclmdlLoadFromFile(om.path(om.picture_rows), made))
    model, sizes = made[0], (200, 64 + 96 * 5, 4)  # the image, its parameters, the gear
    feed, fetch = acl.aclmdlCreateDataset(), acl.aclmdlCreateDataset()
    memory = [malloc(size) for size in (*sizes, 5 * 96)]
    for each, size, dataset in zip(memory, (*sizes, 5 * 96), [feed] * 3 + [fetch], strict=True):
        ok(acl.aclmdlAddDatasetBuffer(dataset, acl.aclCreateDataBuffer(each, size)))
    pixels = bytes(range(48))  # two images of two rows of four
    write(memory[0], pixels + bytes(152))
    index = ffi.new("size_t *")
    desc = acl.aclmdlCreateDesc()
    ok(acl.aclmdlGetDesc(desc, model))
    ok(acl.aclmdlGetInputIndexByName(desc, b"ascend_mbatch_shape_data", index))
    for batch, code in ((2, 100000), (5, 0)):
        parameters = acl.aclmdlCreateAIPP(batch)
        ok(acl.aclmdlSetAIPPInputFormat(parameters, acl.ACL_RGB888_U8))
        ok(acl.aclmdlSetAIPPSrcImageSize(parameters, 4, 2))
        assert acl.aclmdlSetAIPPByInputIndex(model, feed, 0, parameters) == code
        ok(acl.aclmdlDestroyAIPP(parameters))
    ok(acl.aclmdlSetDynamicBatchSize(model, feed, index[0], 2))
    ok(acl.aclmdlExecute(model, feed, fetch))
    got = struct.unpack("<48f", read(memory[3], 192))
    expected = [-float(pixels[24 * n + 3 * p + c]) for n in range(2) for c in range(3)
                for p in range(8)]  # fmt: skip
    assert list(got) == expected
    ok(acl.aclmdlUnload(model))
