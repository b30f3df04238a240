"""Values in device memory that streams write and wait for (section 6)."""

from __future__ import annotations

import time
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, malloc, new_stream, offset, ok, query, read, write

rule = pytest.mark.rule


@rule("S6.87")
def test_value_null(stream: Any) -> None:
    assert acl.aclrtValueWrite(NULL, 1, 0, stream) == 100000
    assert acl.aclrtValueWait(NULL, 1, 0, stream) == 100000


@rule("S6.88")
@pytest.mark.parametrize(
    ("flag", "value", "before", "after"),
    [(0, 5, 4, 5), (0, 5, 4, 9), (1, 5, 6, 5), (2, 6, 9, 4), (3, 2**64 - 2, 1, 0)],
)  # fmt: skip
def test_value_wait(
    block: Any, stream: Any, flag: int, value: int, before: int, after: int
) -> None:
    other = new_stream()
    write(block, before.to_bytes(8, "little"))
    ok(acl.aclrtValueWait(block, value, flag, stream))
    time.sleep(0.05)
    assert query(stream) == 1
    ok(acl.aclrtValueWrite(block, after, 0, other))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))
    assert read(block, 8) == after.to_bytes(8, "little")


@rule("S6.88")
def test_value_changed_by_a_copy(block: Any, stream: Any) -> None:
    ok(acl.aclrtValueWait(block, 3, 1, stream))
    assert query(stream) == 1
    write(block, (3).to_bytes(8, "little"))
    ok(acl.aclrtSynchronizeStreamWithTimeout(stream, 5000))


@rule("S6.89")
def test_value_arguments(block: Any, pinned: Any, stream: Any) -> None:
    assert acl.aclrtValueWrite(block, 1, 1, stream) == 107000
    assert acl.aclrtValueWait(block, 1, 4, stream) == 107000
    for other in (pinned, rawabi.pageable(b"", 64), offset(block, 4)):
        assert acl.aclrtValueWrite(other, 1, 0, stream) == 107000
        assert acl.aclrtValueWait(other, 1, 0, stream) == 107000
    assert read(block, 8) == bytes(8)


@rule("S6.90")
def test_value_on_a_stream_of_another_context(block: Any, other_stream: Any) -> None:
    assert acl.aclrtValueWrite(block, 1, 0, other_stream) == 107003
    assert acl.aclrtValueWait(block, 0, 0, other_stream) == 107003
    assert read(block, 8) == bytes(8)


@rule("S6.88")
def test_value_chips() -> None:
    def body() -> Any:
        ok(acl.aclrtSetDevice(0))
        pointer = malloc(64)
        return [acl.aclrtValueWrite(pointer, 1, 0, NULL), acl.aclrtValueWait(pointer, 1, 1, NULL)]

    assert rawabi.fresh_on("310P", body) == [207000] * 2
    assert rawabi.fresh_on("950", body) == [0] * 2
