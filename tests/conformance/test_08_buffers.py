"""Data buffers, data types and tensor descriptions (section 8)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, ffi, malloc, ok, read, write

rule = pytest.mark.rule
UNKNOWN_RANK = 0xFFFFFFFFFFFFFFFE


def buffer(data: Any, size: int) -> Any:
    made = acl.aclCreateDataBuffer(data, size)
    assert made != NULL
    return made


def tensor_desc(*dims: int, data_type: int = 0, layout: int = 2) -> Any:
    array = ffi.new("int64_t[]", dims) if dims else NULL
    made = acl.aclCreateTensorDesc(data_type, len(dims), array, layout)
    assert made != NULL
    return made


def dims_of(desc: Any) -> list[int]:
    out, dims = ffi.new("int64_t *"), []
    for index in range(acl.aclGetTensorDescNumDims(desc)):
        ok(acl.aclGetTensorDescDimV2(desc, index, out))
        dims.append(int(out[0]))
    return dims


@rule("S8.1")
def test_create_buffer_of_nothing(block: Any) -> None:
    empty = buffer(NULL, 0)
    assert (acl.aclGetDataBufferAddr(empty), acl.aclGetDataBufferSizeV2(empty)) == (NULL, 0)
    full = buffer(block, 4096)
    assert (acl.aclGetDataBufferAddr(full), acl.aclGetDataBufferSizeV2(full)) == (block, 4096)
    ok(acl.aclDestroyDataBuffer(empty))
    ok(acl.aclDestroyDataBuffer(full))


@rule("S8.2")
def test_destroy_buffer_null() -> None:
    assert acl.aclDestroyDataBuffer(NULL) == 100000


@rule("S8.3")
def test_destroy_buffer_keeps_the_memory(device: int) -> None:
    pointer = malloc(64)
    write(pointer, b"kept")
    made = buffer(pointer, 64)
    ok(acl.aclDestroyDataBuffer(made))
    if rawabi.emulated():
        assert acl.aclGetDataBufferAddr(made) == NULL
    assert read(pointer, 4) == b"kept"
    ok(acl.aclrtFree(pointer))


@rule("S8.4")
def test_null_buffer(block: Any) -> None:
    assert acl.aclGetDataBufferAddr(NULL) == NULL
    assert acl.aclGetDataBufferSize(NULL) == acl.aclGetDataBufferSizeV2(NULL) == 0
    full = buffer(block, 4096)
    assert acl.aclGetDataBufferAddr(full) == block
    assert acl.aclGetDataBufferSize(full) == acl.aclGetDataBufferSizeV2(full) == 4096


@rule("S8.5")
def test_buffer_size_is_cut() -> None:
    large = buffer(NULL, (5 << 32) + 77)
    assert acl.aclGetDataBufferSize(large) == 77
    assert acl.aclGetDataBufferSizeV2(large) == (5 << 32) + 77
    ok(acl.aclDestroyDataBuffer(large))


@rule("S8.6")
def test_update_null_buffer(block: Any) -> None:
    assert acl.aclUpdateDataBuffer(NULL, block, 64) == 100000
    empty = buffer(NULL, 0)
    ok(acl.aclUpdateDataBuffer(empty, block, 64))
    assert (acl.aclGetDataBufferAddr(empty), acl.aclGetDataBufferSizeV2(empty)) == (block, 64)


@rule("S8.7")
def test_data_type_sizes() -> None:
    sizes = {
        "ACL_STRING": 0, "ACL_DT_UNDEFINED": 0, "ACL_INT4": 1, "ACL_UINT1": 1,
        "ACL_COMPLEX32": 4, "ACL_COMPLEX64": 8, "ACL_COMPLEX128": 16,
        "ACL_FLOAT": 4, "ACL_FLOAT16": 2, "ACL_BF16": 2, "ACL_DOUBLE": 8, "ACL_BOOL": 1,
        "ACL_INT8": 1, "ACL_UINT8": 1, "ACL_INT16": 2, "ACL_UINT16": 2,
        "ACL_INT32": 4, "ACL_UINT32": 4, "ACL_INT64": 8, "ACL_UINT64": 8,
    }  # fmt: skip
    assert {name: acl.aclDataTypeSize(getattr(acl, name)) for name in sizes} == sizes


@rule("S8.8")
def test_unknown_data_type_sizes() -> None:
    names = ("ACL_FLOAT6_E3M2", "ACL_FLOAT6_E2M3", "ACL_FLOAT4_E2M1", "ACL_FLOAT4_E1M2")
    assert [acl.aclDataTypeSize(getattr(acl, name)) for name in names] == [8] * 4
    assert [acl.aclDataTypeSize(each) for each in (5, 999)] == [8, 8]


@rule("S8.9")
@pytest.mark.parametrize(
    "bits, half",
    [
        (0x7F800000, 0x7BFF), (0xFF800000, 0xFBFF), (0x7FC00000, 0x7BFF), (0xFFC00000, 0xFBFF),
        (0x477FF000, 0x7BFF), (0x47800000, 0x7BFF), (0xC7800000, 0xFBFF), (0x7F7FFFFF, 0x7BFF),
        (0x477FE000, 0x7BFF),
    ],
)  # fmt: skip
def test_to_half_saturates(bits: int, half: int) -> None:
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    assert acl.aclFloatToFloat16(number) == half


@rule("S8.10")
def test_to_half_rounds_to_nearest_even() -> None:
    for number in (
        0.0,
        -0.0,
        1.0,
        0.1,
        1 / 3,
        65503.0,
        65504.0,
        2**-14,
        2**-24,
        2**-25,
        1e-7,
        6e-8,
        2049.0,
        2051.0,
        -2049.5,
        1.00048828125,
        1.0014648437500,
        5.9e-5,
        3e-8,
    ):
        (half,) = struct.unpack("<H", struct.pack("<e", number))
        assert acl.aclFloatToFloat16(number) == half, number


@rule("S8.11")
def test_from_half() -> None:
    special = {
        0x7C00: 65536.0,
        0xFC00: -65536.0,
        0x7E00: 98304.0,
        0x7FFF: 131008.0,
        0xFFFF: -131008.0,
        0x7C01: 65600.0,
    }
    assert {half: acl.aclFloat16ToFloat(half) for half in special} == special
    for half in (0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0x3555):
        (number,) = struct.unpack("<e", struct.pack("<H", half))
        assert acl.aclFloat16ToFloat(half) == number


@rule("S8.12")
def test_create_desc_refused() -> None:
    assert acl.aclCreateTensorDesc(0, -1, ffi.new("int64_t[1]"), 2) == NULL
    assert acl.aclCreateTensorDesc(0, 2, NULL, 2) == NULL
    assert dims_of(tensor_desc(2, 3)) == [2, 3]
    assert dims_of(tensor_desc()) == []


@rule("S8.13")
def test_destroy_desc() -> None:
    assert acl.aclDestroyTensorDesc(NULL) is None
    desc = tensor_desc(2, 3)
    assert acl.aclGetTensorDescElementCount(desc) == 6
    assert acl.aclDestroyTensorDesc(desc) is None
    if rawabi.emulated():
        assert acl.aclGetTensorDescElementCount(desc) == 0


@rule("S8.14")
def test_element_count_of_a_scalar() -> None:
    assert acl.aclGetTensorDescElementCount(tensor_desc()) == 1


@rule("S8.15")
def test_element_count() -> None:
    count = acl.aclGetTensorDescElementCount
    assert count(tensor_desc(2, 3, 4)) == 24
    assert count(tensor_desc(2, -1)) == 0
    assert count(tensor_desc(-2)) == 0
    assert count(tensor_desc(2**62, 8)) == 0
    assert count(NULL) == 0


@rule("S8.16")
def test_desc_size() -> None:
    size = acl.aclGetTensorDescSize
    assert size(tensor_desc(2, 3)) == 24
    assert size(tensor_desc(2, 3, data_type=acl.ACL_FLOAT16)) == 12
    assert size(tensor_desc(data_type=acl.ACL_INT64)) == 8
    assert size(tensor_desc(5, data_type=acl.ACL_STRING)) == 0


@rule("S8.17")
def test_number_of_dims() -> None:
    assert acl.aclGetTensorDescNumDims(tensor_desc(-2)) == UNKNOWN_RANK == acl.ACL_UNKNOWN_RANK
    assert acl.aclGetTensorDescNumDims(tensor_desc(2, -2)) == 2


@rule("S8.18")
def test_dim() -> None:
    desc = tensor_desc(7, -1)
    dim = acl.aclGetTensorDescDim
    assert [dim(desc, 0), dim(desc, 1), dim(desc, 2), dim(NULL, 0)] == [7, -1, -1, -1]


@rule("S8.19")
def test_dim_v2() -> None:
    desc, out = tensor_desc(7), ffi.new("int64_t *", 77)
    dim = acl.aclGetTensorDescDimV2
    assert [dim(desc, 1, out), dim(NULL, 0, out), dim(desc, 0, NULL)] == [100000] * 3
    assert out[0] == 77
    ok(dim(desc, 0, out))
    assert out[0] == 7


@rule("S8.20")
def test_type_and_format() -> None:
    desc = tensor_desc(2, data_type=acl.ACL_INT8, layout=acl.ACL_FORMAT_NHWC)
    assert acl.aclGetTensorDescType(desc) == acl.ACL_INT8
    assert acl.aclGetTensorDescFormat(desc) == acl.ACL_FORMAT_NHWC
    assert (acl.aclGetTensorDescType(NULL), acl.aclGetTensorDescFormat(NULL)) == (-1, -1)


@rule("S8.21")
def test_set_format_null() -> None:
    ok(acl.aclSetTensorFormat(NULL, acl.ACL_FORMAT_NCHW))
    desc = tensor_desc(2, layout=acl.ACL_FORMAT_ND)
    ok(acl.aclSetTensorFormat(desc, acl.ACL_FORMAT_NCHW))
    assert acl.aclGetTensorDescFormat(desc) == acl.ACL_FORMAT_ND


@rule("S8.22")
def test_set_format_and_shape_of_the_storage() -> None:
    desc = tensor_desc(2, 3, layout=acl.ACL_FORMAT_ND)
    ok(acl.aclSetTensorFormat(desc, acl.ACL_FORMAT_FRACTAL_NZ))
    ok(acl.aclSetTensorShape(desc, 1, ffi.new("int64_t[1]", [99])))
    assert acl.aclGetTensorDescFormat(desc) == acl.ACL_FORMAT_ND
    assert dims_of(desc) == [2, 3]
    assert acl.aclGetTensorDescSize(desc) == 24


@rule("S8.23")
def test_set_shape_null() -> None:
    desc = tensor_desc(2, 3)
    assert acl.aclSetTensorShape(NULL, 1, ffi.new("int64_t[1]")) == 100000
    assert acl.aclSetTensorShape(desc, 1, NULL) == 100000
    assert dims_of(desc) == [2, 3]


@rule("S8.24")
def test_set_const_refused() -> None:
    desc, data = tensor_desc(2), ffi.new("char[8]")
    codes = [
        acl.aclSetTensorConst(NULL, data, 8),
        acl.aclSetTensorConst(desc, NULL, 8),
        acl.aclSetTensorConst(desc, data, 0),
    ]
    assert codes == [100000] * 3


@rule("S8.25")
def test_set_const_copies() -> None:
    desc, data = tensor_desc(2), ffi.new("char[]", b"constant")
    ok(acl.aclSetTensorConst(desc, data, 8))
    ffi.buffer(data, 8)[:] = b"changed!"
    assert dims_of(desc) == [2]
    acl.aclDestroyTensorDesc(desc)


@rule("S8.26")
def test_formats_of_nothing() -> None:
    ok(acl.aclSetTensorOriginFormat(NULL, 0))
    ok(acl.aclSetTensorStorageFormat(NULL, 0))


@rule("S8.27")
def test_the_origin_is_what_is_told() -> None:
    desc = tensor_desc(2, 3)
    ok(acl.aclSetTensorOriginFormat(desc, 1))
    assert acl.aclGetTensorDescFormat(desc) == 1
    ok(acl.aclSetTensorOriginShape(desc, 3, ffi.new("int64_t[]", [4, 5, 6])))
    assert dims_of(desc) == [4, 5, 6] and acl.aclGetTensorDescSize(desc) == 480


@rule("S8.28")
def test_storage_leaves_the_view() -> None:
    desc = tensor_desc(2, 3)
    ok(acl.aclSetTensorStorageFormat(desc, 3))
    ok(acl.aclSetTensorStorageShape(desc, 1, ffi.new("int64_t[]", [77])))
    assert (dims_of(desc), acl.aclGetTensorDescFormat(desc)) == ([2, 3], 2)


@rule("S8.29")
def test_nulls_of_descriptions() -> None:
    desc, dims, ranges = tensor_desc(2), ffi.new("int64_t[]", [1]), ffi.new("int64_t[1][2]")
    for function in (acl.aclSetTensorOriginShape, acl.aclSetTensorStorageShape):
        assert function(NULL, 1, dims) == function(desc, 1, NULL) == 100000
    assert acl.aclSetTensorShapeRange(NULL, 1, ranges) == 100000
    assert acl.aclSetTensorValueRange(NULL, 1, ranges) == 100000
    assert acl.aclSetTensorDynamicInput(NULL, b"x") == 100000
    assert acl.aclSetTensorDynamicInput(desc, NULL) == 100000
    assert acl.aclSetTensorPlaceMent(NULL, 0) == 100000
    assert dims_of(desc) == [2]


def dim_range(desc: Any, index: int, room: int = 2) -> list[int]:
    found = ffi.new("int64_t[2]")
    ok(acl.aclGetTensorDescDimRange(desc, index, room, found))
    return list(found)


@rule("S8.30")
def test_ranges_are_replaced() -> None:
    desc = tensor_desc(-1, -1)
    ok(acl.aclSetTensorShapeRange(desc, 3, ffi.new("int64_t[3][2]", [[1, 2], [3, 4], [5, 6]])))
    assert [dim_range(desc, index) for index in range(3)] == [[1, 2], [3, 4], [5, 6]]
    ok(acl.aclSetTensorShapeRange(desc, 1, ffi.new("int64_t[1][2]", [[7, 8]])))
    assert dim_range(desc, 0, 9) == [7, 8]
    assert acl.aclGetTensorDescDimRange(desc, 1, 2, ffi.new("int64_t[2]")) == 100000


@rule("S8.31")
def test_ranges_that_are_not_there() -> None:
    desc, found = tensor_desc(-1), ffi.new("int64_t[2]", [5, 5])
    ok(acl.aclSetTensorShapeRange(desc, 1, ffi.new("int64_t[1][2]", [[1, 2]])))
    for arguments in (
        (NULL, 0, 2, found),
        (desc, 0, 2, NULL),
        (desc, 1, 2, found),
        (desc, 0, 1, found),
    ):
        assert acl.aclGetTensorDescDimRange(*arguments) == 100000
    assert list(found) == [5, 5]


@rule("S8.32")
def test_names_of_descriptions() -> None:
    desc, names = tensor_desc(2), []
    for name in (None, b"first", b"second", NULL):
        if name is not None:
            acl.aclSetTensorDescName(desc, name)
        names.append(ffi.string(acl.aclGetTensorDescName(desc)))
    acl.aclSetTensorDescName(NULL, b"name")
    assert names == [b"", b"first", b"second", b""]
    assert ffi.string(acl.aclGetTensorDescName(NULL)) == b""


@rule("S8.33")
def test_addresses_of_descriptions() -> None:
    assert acl.aclGetTensorDescAddress(NULL) == acl.aclGetTensorDescAddress(tensor_desc(2)) == NULL


@rule("S8.34")
def test_places_of_tensors(block: Any) -> None:
    """The dims of a Reshape may lie in host memory, and only when the desc says so."""
    write(block, struct.pack("<6f", *range(6)))
    dims = ffi.from_buffer(struct.pack("<2q", 3, 2))
    ins = [tensor_desc(2, 3), tensor_desc(2, data_type=9)]
    buffers = [buffer(block, 24), buffer(dims, 16), buffer(malloc(24), 24)]
    ends = (2, ins, buffers[:2], 1, [tensor_desc(3, 2)], buffers[2:], NULL, NULL)
    assert acl.aclopExecuteV2(b"Reshape", *ends) == 100000
    ok(acl.aclSetTensorPlaceMent(ins[1], 1))
    ok(acl.aclopExecuteV2(b"Reshape", *ends))
    ok(acl.aclrtSynchronizeDevice())
    assert read(acl.aclGetDataBufferAddr(buffers[2]), 24) == struct.pack("<6f", *range(6))
