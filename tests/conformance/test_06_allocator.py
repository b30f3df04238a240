"""Allocators of the client (section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, ffi, ok

rule = pytest.mark.rule
OBJECT = ffi.cast("void *", 0x1000)
SETTERS = {
    "aclrtAllocatorSetObjToDesc": OBJECT,
    "aclrtAllocatorSetAllocFuncToDesc": ffi.cast("aclrtAllocatorAllocFunc", 0x2000),
    "aclrtAllocatorSetFreeFuncToDesc": ffi.cast("aclrtAllocatorFreeFunc", 0x3000),
    "aclrtAllocatorSetGetAddrFromBlockFuncToDesc": ffi.cast(
        "aclrtAllocatorGetAddrFromBlockFunc", 0x4000
    ),
    "aclrtAllocatorSetAllocAdviseFuncToDesc": ffi.cast("aclrtAllocatorAllocAdviseFunc", 0x5000),
}
NEEDED = list(SETTERS)[:4]


def describe(*names: str) -> Any:
    desc = acl.aclrtAllocatorCreateDesc()
    assert desc != NULL
    for name in names:
        ok(getattr(acl, name)(desc, SETTERS[name]))
    return desc


@pytest.fixture
def own(stream: Any) -> Iterator[Any]:
    """A stream whose registration ends with the test."""
    yield stream
    rawabi.real.aclrtAllocatorUnregister(stream)


def registered(stream: Any) -> tuple[Any, ...]:
    outs = [
        ffi.new(f"{name} *")
        for name in (
            "aclrtAllocatorDesc", "aclrtAllocator", "aclrtAllocatorAllocFunc",
            "aclrtAllocatorFreeFunc", "aclrtAllocatorAllocAdviseFunc",
            "aclrtAllocatorGetAddrFromBlockFunc",
        )
    ]  # fmt: skip
    ok(acl.aclrtAllocatorGetByStream(stream, *outs))
    return tuple(out[0] for out in outs)


@rule("S6.184")
def test_descriptions_of_null(device: int) -> None:
    desc = describe()
    assert acl.aclrtAllocatorDestroyDesc(NULL) == 100000
    for name, value in SETTERS.items():
        assert getattr(acl, name)(NULL, value) == 100000
        assert getattr(acl, name)(desc, NULL) == 100000
    ok(rawabi.real.aclrtAllocatorDestroyDesc(desc))


@rule("S6.185")
def test_registration_of_too_little(own: Any) -> None:
    assert acl.aclrtAllocatorRegister(NULL, describe(*NEEDED)) == 100000
    assert acl.aclrtAllocatorRegister(own, NULL) == 100000
    for missing in NEEDED:
        desc = describe(*(name for name in NEEDED if name != missing))
        assert acl.aclrtAllocatorRegister(own, desc) == 100000


@rule("S6.186")
def test_question_without_answer(own: Any) -> None:
    out = ffi.new("aclrtAllocatorDesc *")
    rest = [NULL] * 5
    assert acl.aclrtAllocatorGetByStream(own, out, *rest) == 100000
    ok(rawabi.real.aclrtAllocatorRegister(own, describe(*NEEDED)))
    assert acl.aclrtAllocatorGetByStream(own, NULL, *rest) == 100000
    assert acl.aclrtAllocatorGetByStream(NULL, out, *rest) == 100000


@rule("S6.187")
def test_registration(own: Any) -> None:
    first, second = describe(*NEEDED), describe(*SETTERS)
    ok(acl.aclrtAllocatorRegister(own, first))
    assert registered(own)[4] == NULL
    ok(acl.aclrtAllocatorRegister(own, second))
    ok(acl.aclrtAllocatorDestroyDesc(second))
    functions = SETTERS.values()
    given, allocate, free, address_of, near = functions
    assert registered(own) == (second, given, allocate, free, near, address_of)
    out = ffi.new("aclrtAllocatorDesc *")
    ok(acl.aclrtAllocatorGetByStream(own, out, *[NULL] * 5))
    assert out[0] == second


@rule("S6.188")
def test_end_of_null() -> None:
    assert acl.aclrtAllocatorUnregister(NULL) == 100000


@rule("S6.189")
def test_end_of_registration(own: Any) -> None:
    ok(acl.aclrtAllocatorRegister(own, describe(*NEEDED)))
    assert registered(own)[1] == OBJECT
    for _ in range(2):
        assert acl.aclrtAllocatorUnregister(own) == 0
    out = ffi.new("aclrtAllocatorDesc *")
    assert acl.aclrtAllocatorGetByStream(own, out, *[NULL] * 5) == 100000
