"""Effects of `acl.op` and `acl.blas`: single operators and matrix products on streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from aclchild import Child, forget, ok, recent
from acleffects import Recorder, shows
from devicebytes import read, write

Array = npt.NDArray[Any]
NUMBERS = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int64": 9}
ND = 2


class Ops:
    """Arrays in device memory, with their buffers and descriptions."""

    def __init__(self, acl: Recorder, stream: int) -> None:
        self.acl, self.stream = acl, stream

    def put(self, array: Array) -> int:
        block: int = ok(self.acl.rt.malloc(max(array.nbytes, 1), 0))
        write(self.acl, block, array.tobytes())
        return block

    def get(self, block: int, like: Array) -> Array:
        assert self.acl.rt.synchronize_stream(self.stream) == 0
        data = read(self.acl, block, like.nbytes)
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def desc(self, array: Array) -> int:
        made: int = self.acl.create_tensor_desc(NUMBERS[array.dtype.name], list(array.shape), ND)
        return made

    def buffer(self, array: Array) -> tuple[int, int]:
        block = self.put(array)
        return block, self.acl.create_data_buffer(block, array.nbytes)


@pytest.fixture
def ops(acl: Recorder, stream: int) -> Ops:
    return Ops(acl, stream)


def numbers(seed: int, dtype: str, *shape: int) -> Array:
    values = np.random.default_rng(seed).integers(-8, 8, shape)
    return (values / (4 if dtype.startswith("float") else 1)).astype(dtype)


@shows("op.cast", "op.create_handle_for_cast", "op.execute_with_handle", "op.destroy_handle")
def test_casts(ops: Ops, acl: Recorder) -> None:
    x = np.array([[1.75, -2.5, 3e4], [0.1, -0.0, 7]], np.float32)
    for wanted in (x.astype(np.float16), x.astype(np.int32)):
        _, source = ops.buffer(x)
        target, out = ops.buffer(np.zeros_like(wanted))
        descs = ops.desc(x), ops.desc(wanted)
        assert acl.op.cast(descs[0], source, descs[1], out, 0, ops.stream) == 0
        assert ops.get(target, wanted).tobytes() == wanted.tobytes()
        handle = ok(acl.op.create_handle_for_cast(*descs, 0))
        other, again = ops.buffer(np.zeros_like(wanted))
        assert acl.op.execute_with_handle(handle, [source], [again], ops.stream) == 0
        assert ops.get(other, wanted).tobytes() == wanted.tobytes()
        assert acl.op.execute_with_handle(handle, [source, source], [again], ops.stream) == 100021
        acl.op.destroy_handle(handle)
        assert acl.op.execute_with_handle(handle, [source], [again], ops.stream) == 100000
    assert acl.op.cast(0, source, descs[1], out, 0, ops.stream) == 100000


@shows("op.execute_v2", "op.execute", "op.create_handle", "op.create_attr", "op.destroy_attr",
       "op.set_attr_bool")  # fmt: skip
def test_operators(ops: Ops, acl: Recorder) -> None:
    a, b = numbers(1, "float32", 3, 5), numbers(2, "float32", 4, 5)
    wanted = a @ b.T
    inputs, descs = [ops.buffer(a)[1], ops.buffer(b)[1]], [ops.desc(a), ops.desc(b)]
    target, out = ops.buffer(np.zeros_like(wanted))
    attr, result = acl.op.create_attr(), ops.desc(wanted)
    rest = (descs, inputs, [result], [out])
    assert acl.op.execute_v2("MatMulV2", *rest, attr, ops.stream) == 100024  # 5 and 4 rows
    assert acl.op.set_attr_bool(attr, "transpose_x2", 1) == 0
    assert acl.op.execute_v2("MatMulV2", *rest, attr, ops.stream) == 0
    np.testing.assert_array_equal(ops.get(target, wanted), wanted)
    write(acl, target, bytes(wanted.nbytes))
    assert acl.op.execute("MatMulV2", *rest, attr, ops.stream) == 0
    np.testing.assert_array_equal(ops.get(target, wanted), wanted)
    write(acl, target, bytes(wanted.nbytes))
    handle = ok(acl.op.create_handle("MatMulV2", descs, [result], attr))
    acl.op.destroy_attr(attr)
    assert acl.op.set_attr_bool(attr, "transpose_x2", 1) == 100000
    assert acl.op.execute_with_handle(handle, inputs, [out], ops.stream) == 0
    np.testing.assert_array_equal(ops.get(target, wanted), wanted)
    assert acl.op.execute_v2("NoSuchOperator", *rest, 0, ops.stream) == 100024
    assert acl.op.execute_v2("Add", *rest, 0, ops.stream) == 100024
    wrong = ops.desc(np.zeros((2, 2), np.float32))
    assert (
        acl.op.execute_v2("Relu", [descs[0]], inputs[:1], [wrong], [out], 0, ops.stream) == 100022
    )


@shows("op.set_attr_float")
def test_an_attribute_changes_what_is_computed(ops: Ops, acl: Recorder) -> None:
    x = numbers(3, "float32", 2, 3, 4)
    source, desc = ops.buffer(x)[1], ops.desc(x)
    attr = acl.op.create_attr()
    target, out = ops.buffer(np.zeros_like(x))
    for slope in (0.5, 0.25):
        assert acl.op.set_attr_float(attr, "negative_slope", slope) == 0
        assert (
            acl.op.execute_v2("LeakyRelu", [desc], [source], [desc], [out], attr, ops.stream) == 0
        )
        np.testing.assert_array_equal(ops.get(target, x), np.where(x < 0, x * slope, x))
    acl.op.destroy_attr(attr)


class Attributes:
    """One operator with other attributes each time."""

    def __init__(self, ops: Ops, kind: str, *inputs: Array) -> None:
        self.ops, self.kind, self.op = ops, kind, ops.acl.op
        self.inputs = [ops.buffer(each)[1] for each in inputs]
        self.descs = [ops.desc(each) for each in inputs]

    def run(self, setter: str, name: str, value: Any, *wanted: Array) -> int:
        """Set one attribute, run, and compare; the status of the run."""
        attr = self.op.create_attr()
        answer = getattr(self.op, f"set_attr_{setter}")(attr, name, value)
        assert answer in (0, (attr, 0))
        places = [self.ops.buffer(np.zeros_like(each)) for each in wanted]
        descs = [self.ops.desc(each) for each in wanted]
        code: int = self.op.execute_v2(
            self.kind, self.descs, self.inputs, descs, [out for _, out in places], attr,
            self.ops.stream,
        )  # fmt: skip
        self.op.destroy_attr(attr)
        for (block, _), each in zip(places, wanted, strict=True) if code == 0 else ():
            np.testing.assert_allclose(self.ops.get(block, each), each, rtol=1e-6)
        return code


@shows("op.set_attr_int", "op.set_attr_data_type")
def test_types_as_attributes(ops: Ops) -> None:
    """A cast takes its type as a number or as a type."""
    x = numbers(5, "float32", 2, 3)
    cast = Attributes(ops, "Cast", x)
    for setter in ("int", "data_type"):
        for wanted in (x.astype(np.float16), x.astype(np.int32)):
            assert cast.run(setter, "dst_type", NUMBERS[wanted.dtype.name], wanted) == 0
        assert cast.run(setter, "dst_type", NUMBERS["int8"], x) == 100022


@shows("op.set_attr_string")
def test_texts_as_attributes(ops: Ops, acl: Recorder) -> None:
    x = numbers(6, "float32", 1, 4, 1, 2)
    shuffle = Attributes(ops, "DepthToSpace", x)
    assert shuffle.run("string", "mode", "CRD", x) == 100024  # there is no block_size
    blocks = x.reshape(1, 1, 2, 2, 1, 2)
    attr, out = acl.op.create_attr(), ops.buffer(np.zeros((1, 1, 2, 4), np.float32))
    assert acl.op.set_attr_int(attr, "block_size", 2) == 0
    for mode, turn in (("CRD", (0, 1, 4, 2, 5, 3)), ("DCR", (0, 3, 4, 1, 5, 2))):
        assert acl.op.set_attr_string(attr, "mode", mode) == 0
        source = blocks if mode == "CRD" else x.reshape(1, 2, 2, 1, 1, 2)
        wanted = source.transpose(turn).reshape(1, 1, 2, 4)
        ends = (shuffle.descs, shuffle.inputs, [ops.desc(wanted)], [out[1]])
        assert acl.op.execute_v2("DepthToSpace", *ends, attr, ops.stream) == 0
        np.testing.assert_array_equal(ops.get(out[0], wanted), wanted)
    acl.op.destroy_attr(attr)


@shows("op.set_attr_list_int")
@pytest.mark.parametrize("make", [list, np.array])
def test_lists_of_numbers_as_attributes(ops: Ops, make: Any) -> None:
    x = numbers(7, "float32", 2, 3)
    unsqueeze = Attributes(ops, "Unsqueeze", x)
    assert unsqueeze.run("list_int", "axes", make([0, 2]), x.reshape(1, 2, 1, 3)) == 0
    assert unsqueeze.run("list_int", "axes", make([0, 1]), x.reshape(1, 1, 2, 3)) == 0
    assert unsqueeze.run("list_int", "axes", make([1]), x.reshape(1, 2, 1, 3)) == 100022


@shows("op.set_attr_list_string", "op.set_attr_list_float")
def test_functions_of_a_recurrent_network(ops: Ops, acl: Recorder) -> None:
    """One step of one cell: f(x * w), with f by name and its factor by another list."""
    x, w = np.array([[[-3]]], np.float32), np.array([[[0.5]]], np.float32)
    results = [np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)]

    def step(value: float) -> tuple[Array, Array]:
        return results[0] + np.float32(value), results[1] + np.float32(value)

    cell = Attributes(ops, "CommonRNN", x, w, w)
    assert cell.run("list_string", "activations", ["Relu"], *step(0)) == 0
    assert cell.run("list_string", "activations", ["Affine"], *step(-1.5)) == 0
    assert cell.run("list_string", "activations", ["Nothing"], *step(0)) == 100024
    attr = acl.op.create_attr()
    assert acl.op.set_attr_list_string(attr, "activations", ["Affine"]) == 0
    for factors in ([2.0], np.array([4.0])):
        assert acl.op.set_attr_list_float(attr, "activation_alpha", factors) == 0
        places = [ops.buffer(each) for each in results]
        ends = (cell.descs, cell.inputs, [ops.desc(each) for each in results])
        outs = [out for _, out in places]
        assert acl.op.execute_v2("CommonRNN", *ends, outs, attr, ops.stream) == 0
        assert float(ops.get(places[1][0], results[1]).item()) == -1.5 * factors[0]
    acl.op.destroy_attr(attr)


@shows("op.set_attr_list_bool", "op.set_attr_list_list_int", "op.set_attr_list_data_type")
def test_kinds_that_no_operator_of_the_table_takes(ops: Ops, acl: Recorder) -> None:
    """They arrive as what they are: the operator refuses them by name and kind."""
    x = numbers(8, "float32", 2, 3)
    for setter, value, told in (
        ("list_bool", [1, 0], "a list of yes and no"),
        ("list_list_int", [[1], [2, 3]], "a list of lists"),
        ("list_data_type", [0, 1], "a list of data types"),
    ):
        unsqueeze = Attributes(ops, "Unsqueeze", x)
        forget(acl)
        assert unsqueeze.run(setter, "axes", value, x.reshape(1, 2, 1, 3)) == 100024
        assert f"'axes' is {told}, a list of whole numbers is needed" in recent(acl)
        # A name that the operator does not know changes nothing.
        assert Attributes(ops, "Relu", x).run(setter, "other", value, np.maximum(x, 0)) == 0


@shows("set_tensor_format", "set_tensor_storage_format", "set_tensor_origin_format")
def test_formats_of_a_description(ops: Ops, acl: Recorder) -> None:
    """Data stored in another format than it is described in is refused; the origin is the view."""
    nchw, x = 0, numbers(10, "float32", 2, 3)
    target, out = ops.buffer(np.zeros_like(x))
    for setter in (acl.set_tensor_format, acl.set_tensor_storage_format):
        desc, source = ops.desc(x), ops.buffer(x)[1]
        ends = ("Relu", [desc], [source], [ops.desc(x)], [out], 0, ops.stream)
        assert setter(desc, nchw) == 0
        assert acl.op.execute_v2(*ends) == 207000
        assert acl.get_tensor_desc_format(desc) == ND
        assert acl.set_tensor_origin_format(desc, nchw) == 0
        assert acl.get_tensor_desc_format(desc) == nchw
        assert acl.op.execute_v2(*ends) == 0
        np.testing.assert_array_equal(ops.get(target, x), np.maximum(x, 0))


@shows("op.set_model_dir")
def test_a_directory_of_models(child: Child, tmp_path: Path) -> None:
    calls = f"[acl.op.set_model_dir(p) for p in ('/nowhere', {str(tmp_path)!r}, {str(tmp_path)!r})]"
    assert child(f"answer = {calls}") == [100014, 0, 100002]


@shows("op.infer_shape")
def test_shapes_ahead(ops: Ops, acl: Recorder) -> None:
    """Also those that the bytes of an input decide; those lie on the host."""
    x, perm = numbers(9, "float32", 2, 3, 4), np.array([2, 0, 1], np.int64)
    data = [x.tobytes(), perm.tobytes()]
    inputs = [acl.create_data_buffer(acl.util.bytes_to_ptr(each), len(each)) for each in data]
    descs, result = [ops.desc(x), ops.desc(perm)], ops.desc(np.zeros(7, np.float16))
    assert acl.op.infer_shape("Transpose", descs, inputs, 1, [result], 0) == 0
    assert [acl.get_tensor_desc_dim_v2(result, i)[0] for i in range(3)] == [4, 2, 3]
    assert acl.get_tensor_desc_type(result) == NUMBERS["float32"]
    assert acl.op.infer_shape("NoSuchOperator", descs, inputs, 1, [result], 0) != 0


@shows("op.execute_v2")
def test_values_that_decide_a_shape(ops: Ops, acl: Recorder) -> None:
    x, perm = numbers(3, "float32", 2, 3, 4), np.array([2, 0, 1], np.int64)
    inputs, descs = [ops.buffer(x)[1], ops.buffer(perm)[1]], [ops.desc(x), ops.desc(perm)]
    wanted = np.ascontiguousarray(x.transpose(*perm))
    target, out = ops.buffer(np.zeros_like(wanted))
    run = acl.op.execute_v2
    assert run("Transpose", descs, inputs, [ops.desc(wanted)], [out], 0, ops.stream) == 0
    np.testing.assert_array_equal(ops.get(target, wanted), wanted)


FORMS = [("float16", "float16"), ("float16", "float32"), ("int8", "float32"), ("int8", "int32")]


class Product:
    """One random product alpha * a * b + beta * c, its operands in device memory."""

    def __init__(self, ops: Ops, case: int) -> None:
        rng = np.random.default_rng(case)
        factor, result = FORMS[case % len(FORMS)]
        m, n, k = self.sizes = tuple(int(size) for size in rng.integers(1, 40, 3))
        self.turns = (int(rng.integers(2)), int(rng.integers(2)), 0)
        self.types = NUMBERS[factor], NUMBERS[factor], NUMBERS[result]
        a, b = numbers(case, factor, m, k), numbers(case + 50, factor, k, n)
        self.c, beta = numbers(case + 99, result, m, n), case % 3
        exact = 2.0 * (a.astype(float) @ b.astype(float)) + beta * self.c.astype(float)
        self.wanted = exact.astype(result)
        self.a = ops.buffer(np.ascontiguousarray(a.T) if self.turns[0] else a)
        self.b = ops.buffer(np.ascontiguousarray(b.T) if self.turns[1] else b)
        self.alpha, self.beta = (ops.buffer(np.array(x, result)) for x in (2, beta))


@shows("blas.gemm_ex", "blas.create_handle_for_gemm_ex")
@pytest.mark.parametrize("case", range(12))
def test_matrix_products(ops: Ops, acl: Recorder, case: int) -> None:
    p, stream = Product(ops, case), ops.stream
    place = ops.buffer(p.c)
    ends = (p.beta[0], place[0], -1, p.types[2], 0, stream)
    factors = (p.alpha[0], p.a[0], -1, p.types[0], p.b[0], -1, p.types[1])
    assert acl.blas.gemm_ex(*p.turns, *p.sizes, *factors, *ends) == 0
    np.testing.assert_array_equal(ops.get(place[0], p.wanted), p.wanted)
    handle = ok(acl.blas.create_handle_for_gemm_ex(*p.turns, *p.sizes, *p.types, 0))
    run_handle(ops, p, handle)


def fractal(x: Array, width: int) -> Array:
    """A matrix in blocks of 16 rows and `width` columns, padded with zeros (ACL_TRANS_NZ)."""
    rows, columns = (-size % step for size, step in zip(x.shape, (16, width), strict=True))
    padded = np.pad(x, ((0, rows), (0, columns)))
    blocks = padded.reshape(padded.shape[0] // 16, 16, padded.shape[1] // width, width)
    return np.ascontiguousarray(blocks.transpose(2, 0, 1, 3))


@shows("blas.gemm_ex", "blas.create_handle_for_gemm_ex")
@pytest.mark.parametrize("case", range(12))
@pytest.mark.parametrize("blocks", ["abc", "a", "b", "c"])
def test_products_of_blocks(ops: Ops, acl: Recorder, case: int, blocks: str) -> None:
    rng, factor, result = np.random.default_rng(case), *FORMS[case % len(FORMS)]
    m, n, k = (int(size) for size in rng.integers(1, 70, 3))
    types, turns = (NUMBERS[factor], NUMBERS[factor], NUMBERS[result]), [0, 0, 0]
    a, b, c = numbers(case, factor, m, k), numbers(case, factor, k, n), numbers(9, result, m, n)
    wanted = (2.0 * (a.astype(float) @ b.astype(float)) + c.astype(float)).astype(result)
    width = 32 if factor == "int8" else 16
    if "a" in blocks:
        a, turns[0] = fractal(a, width), 2
    if "b" in blocks:
        b, turns[1] = fractal(b.T if factor == "int8" else b, width), 2
    if "c" in blocks:
        c, wanted, turns[2] = fractal(c, 16), fractal(wanted, 16), 2
    at, bt, alpha, beta = (ops.buffer(x) for x in (a, b, np.array(2, result), np.array(1, result)))
    place, again = ops.buffer(c), ops.buffer(c)
    assert acl.blas.gemm_ex(*turns, m, n, k, alpha[0], at[0], -1, types[0], bt[0], -1, types[1],
                            beta[0], place[0], -1, types[2], 0, ops.stream) == 0  # fmt: skip
    np.testing.assert_array_equal(ops.get(place[0], wanted), wanted)
    handle = ok(acl.blas.create_handle_for_gemm_ex(*turns, m, n, k, *types, 0))
    inputs = [at[1], bt[1], again[1], alpha[1], beta[1]]
    assert acl.op.execute_with_handle(handle, inputs, [again[1]], ops.stream) == 0
    np.testing.assert_array_equal(ops.get(again[0], wanted), wanted)
    acl.op.destroy_handle(handle)


@shows("blas.hgemm", "blas.create_handle_for_hgemm")
@pytest.mark.parametrize("case", [0, 4, 8])
def test_products_of_halves(ops: Ops, acl: Recorder, case: int) -> None:
    p = Product(ops, case)
    run_short(ops, p, acl.blas.hgemm, ok(acl.blas.create_handle_for_hgemm(*p.turns, *p.sizes, 0)))


@shows("blas.s8gemm", "blas.create_handle_for_s8gemm")
@pytest.mark.parametrize("case", [3, 7, 11])
def test_products_of_bytes(ops: Ops, acl: Recorder, case: int) -> None:
    p = Product(ops, case)
    run_short(ops, p, acl.blas.s8gemm, ok(acl.blas.create_handle_for_s8gemm(*p.turns, *p.sizes, 0)))


def run_handle(ops: Ops, p: Product, handle: int) -> None:
    place = ops.buffer(p.c)
    inputs = [p.a[1], p.b[1], place[1], p.alpha[1], p.beta[1]]
    assert ops.acl.op.execute_with_handle(handle, inputs, [place[1]], ops.stream) == 0
    np.testing.assert_array_equal(ops.get(place[0], p.wanted), p.wanted)
    ops.acl.op.destroy_handle(handle)


def run_short(ops: Ops, p: Product, call: Any, handle: int) -> None:
    place = ops.buffer(p.c)
    operands = (p.alpha[0], p.a[0], -1, p.b[0], -1, p.beta[0], place[0], -1)
    assert call(*p.turns, *p.sizes, *operands, 0, ops.stream) == 0
    np.testing.assert_array_equal(ops.get(place[0], p.wanted), p.wanted)
    run_handle(ops, p, handle)


@shows("blas.gemv_ex", "blas.hgemv", "blas.s8gemv", "blas.create_handle_for_gemv_ex",
       "blas.create_handle_for_hgemv", "blas.create_handle_for_s8gemv")  # fmt: skip
def test_products_with_vectors(ops: Ops, acl: Recorder) -> None:
    blas = acl.blas
    for case, (factor, result, short) in enumerate(
        [("float16", "float16", "hgemv"), ("int8", "int32", "s8gemv")]
    ):
        a, x, y = numbers(case, factor, 7, 5), numbers(9, factor, 5, 1), numbers(8, result, 7, 1)
        wanted = (3 * (a.astype(float) @ x.astype(float)) - y.astype(float)).astype(result)
        alpha, beta = ops.buffer(np.array(3, result)), ops.buffer(np.array(-1, result))
        at, xt = ops.buffer(a), ops.buffer(x)
        types = NUMBERS[factor], NUMBERS[factor], NUMBERS[result]
        place = ops.buffer(y)
        assert blas.gemv_ex(0, 7, 5, alpha[0], at[0], -1, types[0], xt[0], -1, types[1], beta[0],
                            place[0], -1, types[2], 0, ops.stream) == 0  # fmt: skip
        np.testing.assert_array_equal(ops.get(place[0], wanted), wanted)
        place = ops.buffer(y)
        assert getattr(blas, short)(0, 7, 5, alpha[0], at[0], -1, xt[0], -1, beta[0], place[0], -1,
                                    0, ops.stream) == 0  # fmt: skip
        np.testing.assert_array_equal(ops.get(place[0], wanted), wanted)
        handles = [ok(blas.create_handle_for_gemv_ex(0, 7, 5, *types, 0)),
                   ok(getattr(blas, f"create_handle_for_{short}")(0, 7, 5, 0))]  # fmt: skip
        for handle in handles:
            place = ops.buffer(y)
            inputs = [at[1], xt[1], place[1], alpha[1], beta[1]]
            assert acl.op.execute_with_handle(handle, inputs, [place[1]], ops.stream) == 0
            np.testing.assert_array_equal(ops.get(place[0], wanted), wanted)


def test_what_products_refuse(ops: Ops, acl: Recorder) -> None:
    x = ops.put(np.ones((4, 4), np.float16))
    good: list[int] = [0, 0, 0, 4, 4, 4, x, x, -1, 1, x, -1, 1, x, x, -1, 1, 0, ops.stream]

    def code(**changes: int) -> int:
        places = {"trans_a": 0, "trans_c": 2, "m": 3, "alpha": 6, "lda": 8, "type_a": 9,
                  "beta": 13, "compute": 17}  # fmt: skip
        given = list(good)
        for name, value in changes.items():
            given[places[name]] = value
        return int(acl.blas.gemm_ex(*given))

    assert code() == 0
    for wrong in ({"alpha": 0}, {"beta": 0}, {"m": 0}, {"m": -1}, {"trans_a": 3}, {"trans_a": -1},
                  {"trans_c": 1}, {"lda": 4}, {"compute": 1}):  # fmt: skip
        assert code(**wrong) == 100000, wrong
    assert code(type_a=0) == 100024
    assert acl.rt.synchronize_stream(ops.stream) == 0


def test_nothing_is_read_of_c_when_beta_is_0(ops: Ops, acl: Recorder) -> None:
    one, zero = ops.put(np.array(1, np.float16)), ops.put(np.array(0, np.float16))
    x = ops.put(np.ones((2, 2), np.float16))
    c = np.full((2, 2), np.nan, np.float16)
    place = ops.put(c)
    assert acl.blas.hgemm(0, 0, 0, 2, 2, 2, one, x, -1, x, -1, zero, place, -1, 0, ops.stream) == 0
    np.testing.assert_array_equal(ops.get(place, c), np.full((2, 2), 2, np.float16))
