"""Batches of copies, copies by descriptor and address, 32-bit fills (section 6)."""

from __future__ import annotations

from typing import Any

import pytest
import rawabi
from rawabi import (
    NULL,
    acl,
    address,
    ffi,
    foreign,
    fresh_on,
    gated,
    host_bytes,
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
SIZE_MAX = 2**64 - 1
INNER = 6
FORMS = [f"aclrtMemcpyBatch{end}" for end in ("", "V2", "Async", "AsyncV2")]
every_form = pytest.mark.parametrize("form", FORMS)


class Batch:
    """Arguments of a batch; the places are 'h' and 'd', one letter per copy."""

    def __init__(
        self, dsts: list[Any], srcs: list[Any], sizes: list[int], to: str, source: str
    ) -> None:
        count = len(sizes)
        self.count = count
        self.dsts = ffi.new("void *[]", dsts)
        self.srcs = ffi.new("void *[]", srcs)
        self.sizes = ffi.new("size_t[]", sizes)
        self.rooms = ffi.new("size_t[]", sizes)
        self.attrs = ffi.new("aclrtMemcpyBatchAttr[]", count + 1)
        self.starts = ffi.new("size_t[]", list(range(count + 1)))
        self.attr_count = count
        for index in range(count):
            self.attrs[index].dstLoc.type = 1 if to[index] == "d" else 0
            self.attrs[index].srcLoc.type = 1 if source[index] == "d" else 0
        self.fail = ffi.new("size_t *", 77)

    def run(self, form: str, stream: Any = NULL, **changed: Any) -> int:
        names = ("dsts", "rooms", "srcs", "sizes", "count", "attrs", "starts", "attr_count")
        values = [changed.get(name, getattr(self, name)) for name in names]
        if "V2" not in form:
            values.append(changed.get("fail", self.fail))
        if "Async" in form:
            values.append(stream)
        code = int(getattr(acl, form)(*values))
        ok(acl.aclrtSynchronizeStream(stream)) if "Async" in form else None
        return code


def both_ways(size: int = 8) -> tuple[Batch, Any, Any]:
    """A copy to the device, and one from it; the memory that receives."""
    to_device, from_device = malloc(64), malloc(64)
    write(from_device, b"upwards.")
    host = malloc_host(64)
    batch = Batch([to_device, host], [pageable(b"downward"), from_device], [size] * 2, "dh", "hd")
    return batch, to_device, host


@every_form
@rule("S6.147")
def test_batch_of_nothing(device: int, form: str) -> None:
    batch, _, _ = both_ways()
    assert batch.run(form, sizes=NULL) == 100000
    assert batch.run(form, count=0) == 100000
    if "V2" not in form:
        assert batch.run(form, fail=NULL) == 100000


@every_form
@rule("S6.148")
def test_batch_of_empty_copies(device: int, form: str) -> None:
    batch, target, _ = both_ways(0)
    write(target, b"as it was")
    assert batch.run(form, dsts=NULL, srcs=NULL, attrs=NULL, starts=NULL, rooms=NULL) == 0
    if "V2" not in form:
        assert batch.fail[0] == SIZE_MAX
    batch.sizes[0] = 8
    assert batch.run(form, dsts=NULL) == 100000
    assert read(target, 9) == b"as it was"


@every_form
@rule("S6.149")
def test_batch_arguments(device: int, form: str) -> None:
    batch, _, _ = both_ways()
    for name in ("dsts", "rooms", "srcs", "attrs", "starts"):
        assert batch.run(form, **{name: NULL}) == 100000
    assert batch.run(form, rooms=ffi.new("size_t[]", [8, 7])) == 100000
    batch.attrs[1].rsv[3] = 1
    assert batch.run(form) == 100000


@every_form
@rule("S6.150")
def test_batch_indexes(device: int, form: str) -> None:
    batch, _, _ = both_ways()
    assert batch.run(form, attr_count=3) == 107000
    assert batch.run(form, attr_count=0) == 107000
    for starts in ([1, 1], [0, 0], [0, 2]):  # two attributes each
        assert batch.run(form, starts=ffi.new("size_t[]", starts)) == 107000


@every_form
@rule("S6.151")
def test_batch_places(device: int, form: str) -> None:
    here = malloc(64)
    for dsts, to, source in (
        ([here, pageable(b"", 8)], "dd", "hh"),  # the second one is on the host
        ([here, malloc(64)], "dh", "hh"),  # ... or said to be
        ([here, malloc_host(64)], "dh", "hh"),  # host to host
    ):
        batch = Batch(dsts, [pageable(b"12345678")] * 2, [8, 8], to, source)
        assert batch.run(form) == 107000
        if "V2" not in form:
            assert batch.fail[0] == 1
    batch.attrs[0].dstLoc.id = 1  # another device
    assert batch.run(form) == 107000
    if "V2" not in form:
        assert batch.fail[0] == 0


@pytest.mark.parametrize("form", FORMS[:2])
@rule("S6.152")
def test_batch_copies(device: int, form: str) -> None:
    batch, down, up = both_ways()
    assert batch.run(form) == 0
    assert (read(down, 8), host_bytes(up, 8)) == (b"downward", b"upwards.")
    # One attribute for three copies.
    targets = [malloc(64) for _ in range(3)]
    many = Batch(targets, [pageable(bytes([65 + i]) * 8) for i in range(3)], [8] * 3, "ddd", "hhh")
    assert many.run(form, attr_count=1) == 0
    assert [read(target, 2) for target in targets] == [b"AA", b"BB", b"CC"]


@pytest.mark.parametrize("form", FORMS[2:])
@rule("S6.153")
def test_batch_in_a_stream(device: int, stream: Any, form: str) -> None:
    source, target, up = malloc_host(64), malloc(64), pageable(b"", 8)
    ffi.buffer(source, 8)[:] = b"pinned.."
    write(target, b"before..")
    batch = Batch([target], [source], [8], "d", "h")
    values = [batch.dsts, batch.rooms, batch.srcs, batch.sizes, 1, batch.attrs, batch.starts, 1]
    tail = [batch.fail] if "V2" not in form else []
    with gated(stream):
        ok(getattr(acl, form)(*values, *tail, stream))
        assert query(stream) == 1  # queued behind the gate
        assert read(target, 8) == b"before.."
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(target, 8) == b"pinned.."
    back = Batch([up], [target], [8], "h", "d")
    assert back.run(form, stream) == 0
    assert host_bytes(up, 8) == b"pinned.."


@every_form
@pytest.mark.parametrize("chip", ["310B", "310P", "910"])
@rule("S6.154")
def test_batch_on_a_chip_without(form: str, chip: str) -> None:
    def answer(form: str) -> int:
        ok(acl.aclrtSetDevice(0))
        one, rooms = ffi.new("void *[]", [malloc(64)]), ffi.new("size_t[]", [8])
        host, attrs = ffi.new("void *[]", [malloc_host(64)]), ffi.new("aclrtMemcpyBatchAttr *")
        attrs.dstLoc.type = 1
        values = [one, rooms, host, rooms, 1, attrs, ffi.new("size_t *"), 1]
        values += [ffi.new("size_t *")] if "V2" not in form else []
        values += [NULL] if "Async" in form else []
        return int(getattr(acl, form)(*values))

    assert fresh_on(chip, answer, form=form) == 207000


# --- descriptors -------------------------------------------------------------------------------


@rule("S6.155")
def test_descriptor_of_null(device: int, stream: Any) -> None:
    one, other = malloc(64), malloc(64)
    assert acl.aclrtGetMemcpyDescSize(INNER, NULL) == 100000
    assert acl.aclrtSetMemcpyDesc(NULL, INNER, one, other, 8, NULL) == 100000
    assert acl.aclrtSetMemcpyDesc(one, INNER, NULL, other, 8, NULL) == 100000
    assert acl.aclrtSetMemcpyDesc(one, INNER, one, NULL, 8, NULL) == 100000
    assert acl.aclrtSetMemcpyDesc(one, INNER, one, other, 0, NULL) == 100000
    assert acl.aclrtSetMemcpyDesc(one, INNER, one, other, 8, one) == 100000
    assert acl.aclrtMemcpyAsyncWithDesc(NULL, INNER, stream) == 100000
    assert acl.aclrtMemcpyAsyncWithDesc(one, INNER, NULL) == 100000


@rule("S6.156")
def test_descriptor_of_other_kinds(device: int, stream: Any) -> None:
    one, other = malloc(64), malloc(64)
    for kind in range(6):
        assert acl.aclrtGetMemcpyDescSize(kind, ffi.new("size_t *")) == 207000
        assert acl.aclrtSetMemcpyDesc(one, kind, one, other, 8, NULL) == 207000
        assert acl.aclrtMemcpyAsyncWithDesc(one, kind, stream) == 207000


@pytest.mark.parametrize(("chip", "size"), [("A2", 32), ("950", 64)])
@rule("S6.157")
def test_descriptor_size(chip: str, size: int) -> None:
    def answer() -> int:
        out = ffi.new("size_t *")
        ok(acl.aclrtSetDevice(0))
        ok(acl.aclrtGetMemcpyDescSize(6, out))
        return int(out[0])

    assert fresh_on(chip, answer) == size


@rule("S6.158")
def test_descriptor_places(device: int) -> None:
    desc, one, host = malloc(64), malloc(64), malloc_host(64)
    for at, source, target, count in (
        (host, one, one, 8),
        (offset(desc, 8), one, one, 8),
        (desc, host, one, 8),
        (desc, one, host, 8),
        (desc, one, one, (4 << 30) + 1),
    ):
        assert acl.aclrtSetMemcpyDesc(at, INNER, source, target, count, NULL) == 107000


@rule("S6.159")
def test_copy_by_descriptor(device: int, stream: Any) -> None:
    desc, source, target = malloc(64), malloc(64), malloc(64)
    write(source, b"described")
    write(target, bytes(9))
    ok(acl.aclrtSetMemcpyDesc(desc, INNER, source, target, 9, NULL))
    with gated(stream):
        ok(acl.aclrtMemcpyAsyncWithDesc(desc, INNER, stream))
        assert query(stream) == 1 and read(target, 9) == bytes(9)
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(target, 9) == b"described"


@rule("S6.160")
def test_no_bytes_by_address(device: int, stream: Any) -> None:
    assert acl.aclrtMemcpyAsyncWithOffset(NULL, 0, 0, NULL, 0, 0, 99, stream) == 0
    one = ffi.cast("void **", malloc(64))
    source = ffi.cast("const void **", one)
    assert acl.aclrtMemcpyAsyncWithOffset(one, 8, 0, source, 8, 0, 99, stream) != 0


@rule("S6.161")
def test_arguments_by_address(device: int, stream: Any) -> None:
    one = ffi.cast("void **", malloc(64))
    source = ffi.cast("const void **", one)
    assert acl.aclrtMemcpyAsyncWithOffset(one, 8, 0, source, 8, 0, 3, stream) == 107000
    assert acl.aclrtMemcpyAsyncWithOffset(one, 7, 0, source, 8, 0, INNER, stream) == 107000


@rule("S6.162")
def test_copy_by_address(device: int, stream: Any) -> None:
    holders, source, target = malloc(64), malloc(64), malloc(64)
    write(source, b"....indirect")
    write(target, bytes(16))
    write(holders, address(target).to_bytes(8, "little") + address(source).to_bytes(8, "little"))
    ok(acl.aclrtMemcpyAsyncWithOffset(
        ffi.cast("void **", holders), 8, 2, ffi.cast("const void **", offset(holders, 8)), 8, 4,
        INNER, stream,
    ))  # fmt: skip
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(target, 12) == b"\0\0indirect\0\0"


@rule("S6.163")
def test_condition_that_holds(device: int, stream: Any) -> None:
    source, target = malloc_host(64), malloc(64)
    ffi.buffer(source, 6)[:] = b"pinned"
    ok(acl.aclrtMemcpyAsyncWithCondition(target, 64, source, 6, 1, stream))
    ok(acl.aclrtSynchronizeStream(stream))
    assert read(target, 6) == b"pinned"


@rule("S6.164")
def test_condition_that_does_not_hold(device: int, stream: Any) -> None:
    target = malloc(64)
    for kind in (1, 4):
        copy = acl.aclrtMemcpyAsyncWithCondition
        assert copy(target, 64, pageable(b"12345678"), 8, kind, stream) == 107000


# --- numbers -----------------------------------------------------------------------------------


def fill(form: str, *arguments: Any) -> int:
    if form == "aclrtMemsetD32":
        return int(acl.aclrtMemsetD32(*arguments))
    code = int(acl.aclrtMemsetD32Async(*arguments, NULL))
    ok(acl.aclrtSynchronizeStream(NULL))
    return code


both_fills = pytest.mark.parametrize("form", ["aclrtMemsetD32", "aclrtMemsetD32Async"])


@both_fills
@rule("S6.165")
def test_numbers_arguments(device: int, form: str) -> None:
    pointer = malloc(64)
    assert fill(form, NULL, 64, 1, 1) == 100000
    assert fill(form, offset(pointer, 2), 32, 1, 1) == 100000
    assert fill(form, pointer, 7, 1, 2) == 100000
    assert fill(form, pointer, 64, 1, 2**62) == 100000
    assert fill(form, ffi.cast("void *", ffi.new("uint32_t[4]")), 16, 1, 4) == 100000


@both_fills
@rule("S6.166")
def test_no_numbers(device: int, form: str) -> None:
    assert fill(form, NULL, 0, 1, 0) == 0
    assert fill(form, NULL, 0, 1, 1) == 100000


@both_fills
@rule("S6.167")
def test_numbers(device: int, form: str) -> None:
    pointer, host = malloc(64), malloc_host(64)
    write(pointer, bytes(16))
    ok(fill(form, offset(pointer, 4), 12, 0x04030201, 2))
    assert read(pointer, 16) == bytes(4) + b"\1\2\3\4" * 2 + bytes(4)
    ok(fill(form, host, 64, 0xFFEEDDCC, 1))
    assert host_bytes(host, 4) == b"\xcc\xdd\xee\xff"


def kind_of(addresses: list[Any], kinds: int) -> int:
    out = ffi.new("uint32_t *", 77)
    ok(acl.aclrtCheckMemType(ffi.new("void *[]", addresses), len(addresses), kinds, out, 0))
    return int(out[0])


@rule("S6.168")
def test_kind_of_null(device: int) -> None:
    one, out = ffi.new("void *[]", [malloc(64)]), ffi.new("uint32_t *")
    assert acl.aclrtCheckMemType(NULL, 1, 2, out, 0) == 100000
    assert acl.aclrtCheckMemType(one, 1, 2, NULL, 0) == 100000


@rule("S6.169")
def test_kind_arguments(device: int) -> None:
    one, out = ffi.new("void *[]", [malloc(64)]), ffi.new("uint32_t *")
    assert acl.aclrtCheckMemType(one, 0, 2, out, 0) == 107000
    assert acl.aclrtCheckMemType(one, 1, 2, out, 1) == 107000
    assert acl.aclrtCheckMemType(one, 1, 0x41, out, 0) == 107000


@rule("S6.170")
def test_kinds(device: int) -> None:
    one, freed = malloc(64), malloc(64)
    ok(acl.aclrtFree(freed))
    assert kind_of([one, offset(one, 8)], 2) == 1
    assert kind_of([one], 2 | 8) == 1
    assert kind_of([one], 8) == 0
    for wrong in (malloc_host(64), freed, foreign(), rawabi.pageable(b"", 8)):
        assert kind_of([one, wrong], 2) == 0
