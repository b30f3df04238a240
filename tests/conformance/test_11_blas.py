"""Products of matrices and vectors (section 11)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from rawabi import NULL, acl, ffi, ok
from singleops import HALF, Place, buffers

rule = pytest.mark.rule
pytestmark = pytest.mark.usefixtures("initialised", "device")


class Product:
    """2 * (4 x 3 by 3 x 2) + c in one of the types, all in device memory."""

    def __init__(self, factor: str, result: str, columns: int) -> None:
        self.result, self.columns = result, columns
        a, b = [*range(12)], [n % 5 for n in range(3 * columns)]
        self.a, self.b = (Place(struct.pack(f"<{len(n)}{factor}", *n)) for n in (a, b))
        self.alpha, self.beta = (Place(struct.pack(f"<{result}", n)) for n in (2, 1))
        self.c = Place(struct.pack(f"<{4 * columns}{result}", *range(4 * columns)))
        rows = [a[3 * i : 3 * i + 3] for i in range(4)]
        turned = [b[j::columns] for j in range(columns)]
        sums = [2 * sum(p * q for p, q in zip(r, t, strict=True)) for r in rows for t in turned]
        self.wanted = struct.pack(f"<{len(sums)}{result}", *(s + n for n, s in enumerate(sums)))

    def operands(self, name: str) -> list[Any]:
        """In the order of the entries: pointers, leading dimensions or steps, types for "Ex"."""
        types = [HALF] if name.endswith("Ex") else []
        a, b, c = ([each.pointer, -1, *types] for each in (self.a, self.b, self.c))
        return [self.alpha.pointer, *a, *b, self.beta.pointer, *c]


# The entry: struct letters of factors and result, columns of the product.
PRODUCTS = {
    "aclblasGemmEx": ("e", "e", 2), "aclblasHgemm": ("e", "e", 2), "aclblasS8gemm": ("b", "i", 2),
    "aclblasGemvEx": ("e", "e", 1), "aclblasHgemv": ("e", "e", 1), "aclblasS8gemv": ("b", "i", 1),
}  # fmt: skip
every_product = pytest.mark.parametrize("name", PRODUCTS)


def head(name: str) -> list[int]:
    """Turns and sizes."""
    return [0, 4, 3] if "mv" in name else [0, 0, 0, 4, 2, 3]


def changed(values: list[Any], place: int, value: Any) -> list[Any]:
    return [*values[:place], value, *values[place + 1 :]]


def wrong_heads(name: str) -> Iterator[list[int]]:
    good = head(name)
    turns = len(good) - len(good) // 2 if len(good) == 6 else 1
    for place in range(turns):
        for turn in (-1 & 0xFFFFFFFF, 3, *([1] if place == 2 else [])):
            yield changed(good, place, turn)
    for place in range(turns, len(good)):
        for size in (0, -1):
            yield changed(good, place, size)


@rule("S11.32")
@every_product
def test_products(name: str) -> None:
    product = Product(*PRODUCTS[name])
    ok(getattr(acl, name)(*head(name), *product.operands(name), 0, NULL))
    assert product.c.read() == product.wanted


def blocks(data: bytes, letter: str, rows: int, columns: int, width: int, turned: bool) -> bytes:
    """A plain matrix in blocks; those of this file are small: one row of blocks, one column."""
    size = struct.calcsize(letter)
    cells = [data[at : at + size] for at in range(0, len(data), size)]
    lines = [cells[r * columns : (r + 1) * columns] for r in range(rows)]
    if turned:
        lines = [list(line) for line in zip(*lines, strict=True)]
    nothing = bytes(size)
    padded = [line + [nothing] * (width - len(line)) for line in lines]
    padded += [[nothing] * width] * (16 - len(lines))
    return b"".join(b"".join(line) for line in padded)


@rule("S11.33")
@every_product
def test_products_in_blocks(name: str) -> None:
    factor, result, columns = PRODUCTS[name]
    product, bytes_ = Product(*PRODUCTS[name]), factor == "b"
    width = 32 if bytes_ else 16
    product.a = Place(blocks(product.a.read(), factor, 4, 3, width, False))
    first, wanted = [2, 4, 3], product.wanted
    if "mm" in name:
        first = [2, 2, 2, 4, 2, 3]
        product.b = Place(blocks(product.b.read(), factor, 3, columns, width, bytes_))
        product.c = Place(blocks(product.c.read(), result, 4, columns, 16, False))
        wanted = blocks(wanted, result, 4, columns, 16, False)
    ok(getattr(acl, name)(*first, *product.operands(name), 0, NULL))
    assert product.c.read() == wanted


@rule("S11.30")
@every_product
def test_arguments_of_products(name: str) -> None:
    product, function = Product(*PRODUCTS[name]), getattr(acl, name)
    first, rest, before = head(name), product.operands(name), product.c.read()
    for place, value in enumerate(rest):
        wrong = NULL if isinstance(value, ffi.CData) else 4 if value == -1 else None
        if wrong is not None:
            assert function(*first, *changed(rest, place, wrong), 0, NULL) == 100000
    for each in wrong_heads(name):
        assert function(*each, *rest, 0, NULL) == 100000
    assert function(*first, *rest, 1, NULL) == 100000
    assert product.c.read() == before


@rule("S11.31")
@every_product
def test_handles_of_products(name: str) -> None:
    product = Product(*PRODUCTS[name])
    function = getattr(acl, name.replace("aclblas", "aclblasCreateHandleFor"))
    types = [HALF] * 3 if name.endswith("Ex") else []
    handle = ffi.new("aclopHandle **")
    for each in wrong_heads(name):
        assert function(*each, *types, 0, handle) == 100000
    assert function(*head(name), *types, 1, handle) == 100000
    assert function(*head(name), *types, 0, NULL) == 100000
    ok(function(*head(name), *types, 0, handle))
    places = [product.a, product.b, product.c, product.alpha, product.beta]
    ins = buffers(*(each.buffer for each in places))
    ok(acl.aclopExecWithHandle(handle[0], 5, ins, 1, buffers(product.c.buffer), NULL))
    assert product.c.read() == product.wanted
    acl.aclopDestroyHandle(handle[0])
