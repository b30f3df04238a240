"""Memory, copies and sets (section 6)."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    acl,
    address,
    ffi,
    gated,
    host_bytes,
    in_thread,
    made,
    malloc,
    malloc_host,
    offset,
    ok,
    pageable,
    query,
    read,
    write,
)

rule = pytest.mark.rule
guess = pytest.mark.guess
H2H, H2D, D2H, D2D, DEFAULT = 0, 1, 2, 3, 4
SIZE_MAX = 2**64 - 1
HBM = 1


def mem_info(attribute: int = HBM) -> tuple[int, int]:
    """Return the free and total bytes of a kind of memory."""
    out = ffi.new("size_t[2]", [77, 77])
    ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
    return int(out[0]), int(out[1])


def free_in_thread(pointer: Any, function: str = "aclrtFree") -> int:
    return int(in_thread(lambda: getattr(acl, function)(pointer)))


@rule("S6.1")
def test_malloc_null_or_zero(device: int) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMalloc(NULL, 64, 0) == 100000
    assert acl.aclrtMalloc(out, 0, 0) == 100000
    assert out[0] == NULL


@rule("S6.2")
def test_malloc_overflow(device: int) -> None:
    out = ffi.new("void **")
    assert [acl.aclrtMalloc(out, SIZE_MAX - less, 0) for less in (0, 16, 31)] == [100000] * 3
    assert out[0] == NULL


@rule("S6.3")
def test_malloc_without_context() -> None:
    out = ffi.new("void **")
    assert acl.aclrtMalloc(out, 64, 0) == 107002
    assert out[0] == NULL


@rule("S6.4")
def test_out_of_memory(device: int) -> None:
    out = ffi.new("void **")
    free, total = mem_info()
    assert 0 < free <= total
    assert acl.aclrtMalloc(out, total + (1 << 30), 0) == 207001
    assert out[0] == NULL
    assert mem_info()[0] == free
    pointer = malloc(64)
    write(pointer, b"still there")
    assert read(pointer, 11) == b"still there"


def check_usable(pointer: Any, size: int) -> None:
    """The block starts aligned and its bytes can be set and read."""
    assert address(pointer) % 64 == 0
    ok(acl.aclrtMemset(pointer, size, 0x3C, size))
    assert read(pointer, size) == b"\x3c" * size


@rule("S6.5")
@pytest.mark.parametrize("size", [1, 31, 32, 33, 100, 4096, (1 << 20) + 5])
def test_alignment_and_spare_bytes(device: int, size: int) -> None:
    spare = 0 if rawabi.chip() == "950" else 32
    first, second = malloc(size), malloc(size)
    rounded = (size + 31) // 32 * 32
    check_usable(first, rounded + spare)
    check_usable(second, rounded + spare)
    assert abs(address(first) - address(second)) >= rounded + spare


@rule("S6.6")
@pytest.mark.parametrize("size", [1, 32, 100])
def test_malloc_align32(device: int, size: int) -> None:
    pointer = made("aclrtMallocAlign32", size, 0)
    check_usable(pointer, (size + 31) // 32 * 32)
    ok(acl.aclrtFree(pointer))


def test_memory_of_the_picture_units_is_device_memory(device: int) -> None:
    pointer = made("acldvppMalloc", 100)
    check_usable(pointer, 100)
    ok(acl.acldvppFree(pointer))
    assert acl.acldvppFree(pointer) != 0
    assert acl.acldvppFree(NULL) == acl.acldvppMalloc(NULL, 1) == 100000
    assert acl.acldvppMalloc(ffi.new("void **"), 0) == 100000


@rule("S6.7")
def test_malloc_cached(device: int) -> None:
    for policy in (acl.ACL_MEM_MALLOC_HUGE_FIRST, acl.ACL_MEM_MALLOC_NORMAL_ONLY_P2P):
        pointer = made("aclrtMallocCached", 100, policy)
        check_usable(pointer, 128 + 32)
        ok(acl.aclrtFree(pointer))


@rule("S6.8")
def test_malloc_with_cfg(device: int) -> None:
    pointer = made("aclrtMallocWithCfg", 100, 0, NULL)
    check_usable(pointer, 128)
    ok(acl.aclrtFree(pointer))


@rule("S6.9")
def test_malloc_with_cfg_without_attributes(device: int) -> None:
    out, config = ffi.new("void **"), ffi.new("aclrtMallocConfig *")
    config.numAttrs = 1
    assert acl.aclrtMallocWithCfg(out, 64, 0, config) == 100000
    assert out[0] == NULL


@rule("S6.10")
def test_malloc_with_an_empty_cfg(device: int) -> None:
    out, config = ffi.new("void **"), ffi.new("aclrtMallocConfig *")
    assert acl.aclrtMallocWithCfg(out, 64, 0, config) == 107000
    assert out[0] == NULL


@rule("S6.11")
@pytest.mark.parametrize("policy", [0, 1, 2, 3, 4, 5, 0x100, 0x1000, 0x100000])
def test_known_policies(device: int, policy: int) -> None:
    pointer = malloc(4096, policy)
    check_usable(pointer, 4096)
    ok(acl.aclrtFree(pointer))


@rule("S6.12")
@pytest.mark.parametrize("policy", [0x7FFFFFF0, 8, 0x101, 0x1100, 9999])
def test_unknown_policies(device: int, policy: int) -> None:
    pointer = malloc(4096, policy)
    check_usable(pointer, 4096)
    ok(acl.aclrtFree(pointer))


@rule("S6.13")
def test_page_kind_by_size(device: int) -> None:
    huge, normal = acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL
    free_huge, free_normal = mem_info(huge)[0], mem_info(normal)[0]
    large = malloc((1 << 20) + 64)
    assert free_huge - mem_info(huge)[0] == 1 << 21
    assert mem_info(normal)[0] == free_normal
    ok(acl.aclrtFree(large))
    small = malloc((1 << 20) - 64)
    assert mem_info(huge)[0] == free_huge
    assert 0 < free_normal - mem_info(normal)[0] <= 1 << 21
    ok(acl.aclrtFree(small))


@rule("S6.14")
def test_malloc_does_not_wait(stream: Any) -> None:
    with gated(stream):
        pointer = malloc(4096)
        assert query(stream) == 1
        write(pointer, b"no wait")
        assert read(pointer, 7) == b"no wait"


@rule("S6.15")
def test_free_null(device: int) -> None:
    assert acl.aclrtFree(NULL) == 100000


@rule("S6.16")
def test_free(stream: Any) -> None:
    before = mem_info()[0]
    pointer = malloc(64 << 20)
    held = mem_info()[0]
    assert before - held >= 64 << 20
    with gated(stream):
        assert free_in_thread(pointer) == 0
        assert query(stream) == 1
        assert mem_info()[0] >= held + (64 << 20)


@guess
@rule("S6.17")
@pytest.mark.emulator
def test_free_of_no_allocation(device: int) -> None:
    pointer = malloc(4096)
    assert acl.aclrtFree(offset(pointer, 64)) == 107000
    assert acl.aclrtFree(rawabi.foreign()) == 107000
    ok(acl.aclrtFree(pointer))
    assert acl.aclrtFree(pointer) == 107000
    assert acl.aclrtFree(ffi.new("char[64]")) == 107000


@rule("S6.18")
def test_malloc_host_null_or_zero(device: int) -> None:
    out = ffi.new("void **")
    assert acl.aclrtMallocHost(NULL, 64) == 100000
    assert acl.aclrtMallocHost(out, 0) == 100000
    assert out[0] == NULL


@rule("S6.19")
def test_malloc_host_without_context() -> None:
    out = ffi.new("void **")
    assert acl.aclrtMallocHost(out, 64) == 107002
    assert out[0] == NULL


@rule("S6.20")
def test_malloc_host(device: int) -> None:
    for size in (1, 100, 4096, 1 << 20):
        pointer = malloc_host(size)
        assert address(pointer) % 64 == 0
        rounded = (size + 31) // 32 * 32
        ffi.buffer(ffi.cast("char *", pointer), rounded)[:] = b"\x11" * rounded
        assert host_bytes(pointer, rounded) == b"\x11" * rounded
        attributes = ffi.new("aclrtPtrAttributes *")
        ok(acl.aclrtPointerGetAttributes(pointer, attributes))
        assert attributes.location.type == acl.ACL_MEM_LOCATION_TYPE_HOST
        ok(acl.aclrtFreeHost(pointer))


@guess
@rule("S6.21")
def test_malloc_host_alignment(device: int) -> None:
    assert {address(malloc_host(size)) % 512 for size in (1, 33, 1000)} == {0}


@rule("S6.22")
def test_free_host_null(device: int) -> None:
    assert acl.aclrtFreeHost(NULL) == 100000


@rule("S6.23")
def test_free_host_of_device_memory(block: Any) -> None:
    write(block, b"device")
    assert acl.aclrtFreeHost(block) == 107000
    assert read(block, 6) == b"device"
    ok(acl.aclrtFree(block))


@rule("S6.24")
@pytest.mark.emulator
def test_free_host_without_context(device: int) -> None:
    pointer = malloc_host(4096)
    assert free_in_thread(pointer, "aclrtFreeHost") == 0
    attributes = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(pointer, attributes))
    assert attributes.location.type == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.25")
def test_mem_info_null(device: int) -> None:
    out = ffi.new("size_t *", 77)
    assert acl.aclrtGetMemInfo(HBM, NULL, out) == 100000
    assert acl.aclrtGetMemInfo(HBM, out, NULL) == 100000
    assert out[0] == 77


@rule("S6.26")
def test_mem_info_without_context() -> None:
    out = ffi.new("size_t[2]", [77, 77])
    assert acl.aclrtGetMemInfo(HBM, out, out + 1) == 107002
    assert list(out) == [77, 77]


@rule("S6.27")
def test_mem_info_attribute(device: int) -> None:
    out = ffi.new("size_t[2]", [77, 77])
    assert [acl.aclrtGetMemInfo(each, out, out + 1) for each in (18, 77)] == [107016] * 2
    assert in_thread(lambda: acl.aclrtGetMemInfo(18, out, out + 1)) == 107016
    assert list(out) == [77, 77]
    assert mem_info(17)[0] <= mem_info(17)[1]


@rule("S6.28")
def test_mem_info_of_absent_memory() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        answers = []
        for attribute in (acl.ACL_DDR_MEM, acl.ACL_HBM_MEM):
            out = ffi.new("size_t[2]", [77, 77])
            ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
            answers.append([out[0], out[1]])
        return answers

    ddr, hbm = rawabi.fresh_on("A2", body)
    assert ddr == [0, 0]
    assert 0 < hbm[0] <= hbm[1]


@rule("S6.29")
@pytest.mark.parametrize("chip", ["310P", "310B"])
def test_hbm_question_on_a_ddr_chip(chip: str) -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        totals = []
        for attribute in (acl.ACL_HBM_MEM, acl.ACL_DDR_MEM):
            out = ffi.new("size_t[2]", [77, 77])
            ok(acl.aclrtGetMemInfo(attribute, out, out + 1))
            totals.append(out[1])
        return totals

    hbm, ddr = rawabi.fresh_on(chip, body)
    assert hbm == ddr > 1 << 30


@rule("S6.71")
def test_pointer_attributes(block: Any, pinned: Any) -> None:
    host = pageable(b"", 64)

    def look(pointer: Any) -> tuple[int, int]:
        attributes = ffi.new("aclrtPtrAttributes *")
        attributes.location.type, attributes.location.id = 77, 77
        ok(acl.aclrtPointerGetAttributes(pointer, attributes))
        return int(attributes.location.type), int(attributes.location.id)

    assert look(block) == (acl.ACL_MEM_LOCATION_TYPE_DEVICE, 0)
    assert look(offset(block, 100)) == (acl.ACL_MEM_LOCATION_TYPE_DEVICE, 0)
    assert look(pinned) == (acl.ACL_MEM_LOCATION_TYPE_HOST, 0)
    assert look(host)[0] == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    assert in_thread(lambda: look(block)) == (1, 0)


@rule("S6.72")
def test_pointer_attributes_null(block: Any) -> None:
    attributes = ffi.new("aclrtPtrAttributes *")
    assert acl.aclrtPointerGetAttributes(NULL, attributes) == 100000
    assert acl.aclrtPointerGetAttributes(block, NULL) == 100000


@pytest.fixture
def pages(device: int) -> Iterator[Any]:
    """Host memory of two pages that starts at a page, registered by nobody."""
    area = mmap.mmap(-1, 8192)
    pointer = ffi.from_buffer(area)
    yield pointer
    acl.aclrtHostUnregister(pointer)
    ffi.release(pointer)
    area.close()


def place(pointer: Any) -> int:
    attributes = ffi.new("aclrtPtrAttributes *")
    ok(acl.aclrtPointerGetAttributes(pointer, attributes))
    return int(attributes.location.type)


@rule("S6.73")
def test_attributes_of_registered_memory(pages: Any) -> None:
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostRegister(pages, 4096, acl.ACL_HOST_REGISTER_MAPPED, ffi.new("void **")))
    assert place(pages) == place(offset(pages, 4095)) == acl.ACL_MEM_LOCATION_TYPE_HOST
    assert place(offset(pages, 4096)) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostUnregister(pages))
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.74")
def test_register_null_or_zero(pages: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtHostRegister(NULL, 4096, 0, out) == 100000
    assert acl.aclrtHostRegister(pages, 4096, 0, NULL) == 100000
    assert acl.aclrtHostRegister(pages, 0, 0, out) == 100000
    assert acl.aclrtHostRegisterV2(NULL, 4096, 2) == 100000
    assert acl.aclrtHostRegisterV2(pages, 0, 2) == 100000
    assert out[0] == NULL
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.75")
def test_register_type(pages: Any) -> None:
    out = ffi.new("void **")
    assert [acl.aclrtHostRegister(pages, 4096, kind, out) for kind in (1, 2, 16, 5)] == [207000] * 4
    assert out[0] == NULL
    ok(acl.aclrtHostRegister(pages, 4096, 4 | 8, out))
    assert out[0] != NULL


@rule("S6.76")
def test_register_flag(pages: Any) -> None:
    for flag in (0, 1, 0x12, 0x20000000):
        assert acl.aclrtHostRegisterV2(pages, 4096, flag) == 107000
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
    ok(acl.aclrtHostRegisterV2(pages, 4096, 0x1000000E))
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_HOST


@rule("S6.77")
def test_register_without_context(pages: Any) -> None:
    out = ffi.new("void **")
    assert in_thread(lambda: acl.aclrtHostRegister(pages, 4096, 0, out)) == 107002
    assert in_thread(lambda: acl.aclrtHostRegisterV2(pages, 4096, 2)) == 107002
    assert place(pages) == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED


@rule("S6.78")
def test_register_needs_a_page_start(pages: Any) -> None:
    out = ffi.new("void **")
    assert acl.aclrtHostRegister(offset(pages, 64), 4096, 0, out) not in (0, 207000)
    assert out[0] == NULL
    ok(acl.aclrtHostRegister(pages, 4096, 0, out))


@rule("S6.79")
def test_register_twice(pages: Any) -> None:
    out = ffi.new("void **")
    ok(acl.aclrtHostRegisterV2(pages, 8192, 2))
    assert acl.aclrtHostRegisterV2(pages, 8192, 2) == 507910
    assert acl.aclrtHostRegister(pages, 4096, 0, out) == 507910
    assert acl.aclrtHostRegisterV2(offset(pages, 4096), 4096, 2) == 507910
    ok(acl.aclrtHostUnregister(pages))
    ok(acl.aclrtHostRegister(pages, 8192, 0, out))


@rule("S6.80")
def test_unregister_what_is_not_registered(pages: Any) -> None:
    assert acl.aclrtHostUnregister(pages) == 507911
    ok(acl.aclrtHostRegisterV2(pages, 8192, 2))
    assert acl.aclrtHostUnregister(offset(pages, 4096)) == 507911
    ok(acl.aclrtHostUnregister(pages))
    assert acl.aclrtHostUnregister(pages) == 507911


def register_anything() -> Any:
    import mmap

    ok(acl.aclrtSetDevice(0))
    pointer = ffi.from_buffer(mmap.mmap(-1, 4096))
    return [
        acl.aclrtHostRegister(pointer, 4096, 0, ffi.new("void **")),
        acl.aclrtHostRegisterV2(pointer, 4096, 2),
        acl.aclrtHostUnregister(pointer),
    ]


@rule("S6.81")
@pytest.mark.parametrize("chip", ["310B", "310P"])
def test_register_on_a_chip_without_it(chip: str) -> None:
    assert rawabi.fresh_on(chip, register_anything) == [207000] * 3


@pytest.mark.emulator
@rule("S6.206")
def test_memory_usage_arguments(device: int) -> None:
    info, count = ffi.new("aclrtMemUsageInfo[8]"), ffi.new("size_t *")
    assert acl.aclrtGetMemUsageInfo(0, NULL, 8, count) == 100000
    assert acl.aclrtGetMemUsageInfo(0, info, 8, NULL) == 100000
    assert acl.aclrtGetMemUsageInfo(0, info, 0, count) == 100000


@rule("S6.207")
def test_memory_usage_on_a_chip_without() -> None:
    def body() -> int:
        ok(acl.aclrtSetDevice(0))
        info, count = ffi.new("aclrtMemUsageInfo[8]"), ffi.new("size_t *")
        return int(acl.aclrtGetMemUsageInfo(0, info, 8, count))

    assert rawabi.fresh_on("950", body) == 207000


@rule("S6.208")
def test_memory_usage_is_sorted(device: int) -> None:
    """The component that holds most comes first."""
    info, count = ffi.new("aclrtMemUsageInfo[8]"), ffi.new("size_t *")

    def names() -> list[bytes]:
        ok(acl.aclrtGetMemUsageInfo(0, info, 8, count))
        sizes = [int(info[i].curMemSize) for i in range(count[0])]
        assert sizes == sorted(sizes, reverse=True)
        return [ffi.string(info[i].name) for i in range(count[0])]

    pointer = malloc(64 << 20)
    assert names()[0] == b"APP"
    ok(acl.aclrtFree(pointer))


def test_memory_usage_by_owner(device: int) -> None:
    info, count = ffi.new("aclrtMemUsageInfo[8]"), ffi.new("size_t *")
    assert acl.aclrtGetMemUsageInfo(99, info, 8, count) == 107001
    ok(acl.aclrtGetMemUsageInfo(0, info, 8, count))
    assert count[0] >= 1
    assert ffi.string(info[0].name) == b"APP"
    before = info[0].curMemSize
    pointer = malloc(5 << 20)
    ok(acl.aclrtGetMemUsageInfo(0, info, 1, count))
    assert (info[0].curMemSize - before, count[0]) == ((5 << 20) + 32, 1)
    assert info[0].memPeakSize >= info[0].curMemSize
    ok(acl.aclrtFree(pointer))
    ok(acl.aclrtGetMemUsageInfo(0, info, 8, count))
    assert info[0].curMemSize == before
