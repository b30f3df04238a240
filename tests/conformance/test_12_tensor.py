"""Tensors, scalars, arrays and lists that two-phase operators take (section 12)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from rawabi import NULL, acl, ffi, last_fresh_output, run_fresh

rule = pytest.mark.rule
FLOAT, NCHW, ND = 0, 0, 2
NULL_ARGUMENT, INVALID = 161001, 161002


def ints(*values: int) -> Any:
    return ffi.new("int64_t[]", values)


def new_tensor(strides: Any = NULL, data: Any = NULL) -> Any:
    made = acl.aclCreateTensor(ints(2, 3), 2, FLOAT, strides, 5, ND, ints(40), 1, data)
    assert made != NULL
    return made


@pytest.fixture
def tensor() -> Iterator[Any]:
    made = new_tensor()
    yield made
    acl.aclDestroyTensor(made)


def given(function: str, tensor: Any) -> list[int]:
    """Call a getter of dims; give back its array as C++ does."""
    array, count = ffi.new("int64_t **"), ffi.new("uint64_t *")
    assert getattr(acl, function)(tensor, array, count) == 0
    values = list(array[0][0 : count[0]])
    delete = ctypes.CDLL("libstdc++.so.6")["_ZdaPv"]  # operator delete[]
    delete(ctypes.c_void_p(int(ffi.cast("uintptr_t", array[0]))))
    return values


@rule("S12.1")
def test_dims_that_are_missing() -> None:
    for dims, storage in ((NULL, ints(40)), (ints(2, 3), NULL)):
        assert acl.aclCreateTensor(dims, 2, FLOAT, NULL, 0, ND, storage, 1, NULL) == NULL
    scalar = acl.aclCreateTensor(NULL, 0, FLOAT, NULL, 0, ND, NULL, 0, NULL)
    assert scalar != NULL and acl.aclDestroyTensor(scalar) == 0


@rule("S12.2")
def test_what_a_tensor_keeps(tensor: Any) -> None:
    assert given("aclGetViewStrides", tensor) == [3, 1]
    offset, dtype = ffi.new("int64_t *"), ffi.new("aclDataType *", 9)
    form, place = ffi.new("aclFormat *", 9), ffi.new("void **")
    assert acl.aclGetViewOffset(tensor, offset) == acl.aclGetDataType(tensor, dtype) == 0
    assert acl.aclGetFormat(tensor, form) == acl.aclGetRawTensorAddr(tensor, place) == 0
    assert (offset[0], dtype[0], form[0], place[0]) == (5, FLOAT, ND, NULL)
    data = ffi.new("char[160]", b"kept")
    turned = new_tensor(ints(1, 2), data)
    assert given("aclGetViewStrides", turned) == [1, 2]
    assert acl.aclGetRawTensorAddr(turned, place) == 0 and place[0] == data
    assert acl.aclSetRawTensorAddr(turned, NULL) == 0
    assert acl.aclGetRawTensorAddr(turned, place) == 0 and place[0] == NULL
    assert acl.aclInitTensor(turned, ints(7), 1, 1, NULL, 0, NCHW, ints(7), 1, NULL) == 0
    assert given("aclGetViewShape", turned) == given("aclGetStorageShape", turned) == [7]
    assert acl.aclDestroyTensor(turned) == 0 and ffi.string(data) == b"kept"


@rule("S12.3")
@pytest.mark.parametrize("kind", ["Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray"])
def test_null_is_destroyed(kind: str) -> None:
    assert getattr(acl, f"aclDestroy{kind}")(NULL) == 0


@pytest.mark.parametrize("kind", ["Int", "Float", "Bool"])
def test_arrays_know_their_size(kind: str) -> None:
    ctype = {"Int": "int64_t[]", "Float": "float[]", "Bool": "_Bool[]"}[kind]
    made = getattr(acl, f"aclCreate{kind}Array")(ffi.new(ctype, [1, 0, 1]), 3)
    size = ffi.new("uint64_t *")
    get, destroy = getattr(acl, f"aclGet{kind}ArraySize"), getattr(acl, f"aclDestroy{kind}Array")
    assert get(made, size) == 0 and size[0] == 3
    assert get(made, NULL) == get(NULL, size) == NULL_ARGUMENT
    assert getattr(acl, f"aclCreate{kind}Array")(NULL, 3) == NULL
    assert destroy(made) == 0


@rule("S12.4")
def test_a_list_takes_its_members_along() -> None:
    tensors = [new_tensor() for _ in range(3)]
    made = acl.aclCreateTensorList(ffi.new("aclTensor *[]", tensors), 3)
    size = ffi.new("uint64_t *")
    assert acl.aclGetTensorListSize(made, size) == 0 and size[0] == 3
    assert acl.aclDestroyTensorList(made) == 0
    scalars = [acl.aclCreateScalar(ffi.new("float *", 1.5), FLOAT) for _ in range(2)]
    made = acl.aclCreateScalarList(ffi.new("aclScalar *[]", scalars), 2)
    assert acl.aclGetScalarListSize(made, size) == 0 and size[0] == 2
    assert acl.aclDestroyScalarList(made) == acl.aclDestroyScalarList(NULL) == 0


@pytest.mark.emulator
def test_members_of_a_destroyed_list_are_gone() -> None:
    tensor = new_tensor()
    made = acl.aclCreateTensorList(ffi.new("aclTensor *[]", [tensor]), 1)
    assert acl.aclDestroyTensorList(made) == 0
    assert acl.aclDestroyTensor(tensor) == acl.aclDestroyTensorList(made) == INVALID
    assert acl.aclCreateTensorList(ffi.new("aclTensor *[]", [tensor]), 1) == NULL


@rule("S12.5")
def test_a_scalar_without_a_value() -> None:
    assert acl.aclCreateScalar(NULL, FLOAT) == NULL


@rule("S12.7")
def test_arrays_belong_to_the_caller(tensor: Any) -> None:
    for _ in range(2):
        assert given("aclGetViewShape", tensor) == [2, 3]
        assert given("aclGetStorageShape", tensor) == [40]
        assert given("aclGetViewStrides", tensor) == [3, 1]


@rule("S12.8")
@pytest.mark.parametrize("function", ["aclGetViewShape", "aclGetStorageShape", "aclGetViewStrides"])
def test_getters_refuse_null(tensor: Any, function: str) -> None:
    array, count, get = ffi.new("int64_t **"), ffi.new("uint64_t *"), getattr(acl, function)
    assert get(NULL, array, count) == NULL_ARGUMENT
    assert get(tensor, NULL, count) == get(tensor, array, NULL) == NULL_ARGUMENT


@pytest.mark.emulator
def test_what_was_never_destroyed_is_told_at_the_end() -> None:
    def body() -> Any:
        acl.aclInit(NULL)
        kept = [acl.aclCreateScalar(ffi.new("float *", 1.5), 0) for _ in range(3)]
        acl.aclDestroyScalar(kept[0])
        return acl.aclFinalize()

    assert run_fresh(body) == 0
    assert "never destroyed: 2 aclScalar;" in last_fresh_output()
