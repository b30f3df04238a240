"""Single operators and their attributes (section 11)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rawabi import NULL, acl, ffi, host_bytes, malloc_host, ok, run_fresh
from singleops import (
    FLOAT,
    FRACTAL_Z,
    HALF,
    HWCN,
    INT64,
    NCHW,
    NHWC,
    Place,
    buffers,
    desc,
    descs,
    dims_of,
    floats,
)

rule = pytest.mark.rule
pytestmark = pytest.mark.usefixtures("initialised", "device")

HOST_MEMORY = 1
SYS, UNREGISTERED = 0, 1

EXECUTE = ("aclopExecute", "aclopExecuteV2")
COMPILE = ("aclopCompileAndExecute", "aclopCompileAndExecuteV2")


@pytest.fixture
def attr() -> Iterator[Any]:
    made = acl.aclopCreateAttr()
    yield made
    acl.aclopDestroyAttr(made)


@pytest.fixture
def x() -> Place:
    return Place(floats(-1, 2, -3, 4, -5, 6))


@pytest.fixture
def y() -> Place:
    return Place(bytes(24))


def run(name: str, kind: bytes, ins: Any, outs: Any, attr: Any = NULL, flag: int = SYS) -> int:
    """One operator by one of the entries; `ins` and `outs` are (count, descs, buffers)."""
    more = (0, flag, NULL) if name in COMPILE else ()
    return int(getattr(acl, name)(kind, *ins, *outs, attr, *more, NULL))


def relu(name: str, x: Place, y: Place) -> int:
    ins, outs = ((1, descs(desc(2, 3)), buffers(each.buffer)) for each in (x, y))
    return run(name, b"Relu", ins, outs)


every_entry = pytest.mark.parametrize("name", [*EXECUTE, *COMPILE])


@every_entry
def test_an_operator_runs(name: str, x: Place, y: Place) -> None:
    ok(relu(name, x, y))
    assert y.read() == floats(0, 2, 0, 4, 0, 6)


def convolve(x_desc: Any, filter_desc: Any, values: bytes, y_desc: Any, attr: Any) -> bytes | int:
    """Four pixels of two channels, every second line: c0 + 10 c1 and c0 - c1."""
    for key, numbers in ((b"strides", STRIDES), (b"pads", [0] * 4), (b"dilations", [1] * 4)):
        ok(acl.aclopSetAttrListInt(attr, key, 4, ffi.new("int64_t[]", numbers)))
    x, w, y = Place(floats(1, 2, 3, 4, 5, 6, 7, 8)), Place(values), Place(bytes(16))
    ins = (2, descs(x_desc, filter_desc), buffers(x.buffer, w.buffer))
    code = run("aclopExecuteV2", b"Conv2D", ins, (1, descs(y_desc), buffers(y.buffer)), attr)
    return code or y.read()


STRIDES = [1, 2, 1, 1]  # of NHWC
FILTERS = {
    NCHW: ((2, 2, 1, 1), floats(1, 10, 1, -1)),
    HWCN: ((1, 1, 2, 2), floats(1, 1, 10, -1)),
}


@pytest.mark.parametrize("order", FILTERS)
def test_axes_are_where_the_format_says(order: int, attr: Any) -> None:
    dims, values = FILTERS[order]
    x, y = desc(1, 2, 2, 2, order=NHWC), desc(1, 1, 2, 2, order=NHWC)
    assert convolve(x, desc(*dims, order=order), values, y, attr) == floats(21, -1, 43, -1)
    ok(acl.aclopSetAttrString(attr, b"data_format", b"NHWC"))
    assert convolve(x, desc(*dims, order=order), values, y, attr) == floats(21, -1, 43, -1)


def test_formats_that_fit_no_kernel(attr: Any) -> None:
    dims, values = FILTERS[NCHW]
    x, y = desc(1, 2, 2, 2, order=NHWC), desc(1, 1, 2, 2, order=NHWC)
    assert convolve(x, desc(*dims, order=FRACTAL_Z), values, y, attr) == 100024
    ok(acl.aclopSetAttrString(attr, b"data_format", b"NCHW"))
    assert convolve(x, desc(*dims, order=NCHW), values, y, attr) == 100024
    image, boxes = (Place(floats(*range(8))) for _ in "ab")
    ins = (2, descs(x, desc(1, 2, 2, 2)), buffers(image.buffer, boxes.buffer))
    outs = (1, descs(y), buffers(boxes.buffer))
    assert run("aclopExecuteV2", b"GridSample", ins, outs) == 100024


def check_execution(name: str, x: Place, y: Place) -> None:
    ins, outs = ((1, descs(desc(2, 3)), buffers(each.buffer)) for each in (x, y))
    none = (1, descs(NULL), buffers(NULL))
    for kind, first, second in (
        (NULL, ins, outs),
        (b"Relu", (-1, *ins[1:]), outs),
        (b"Relu", ins, (-1, *outs[1:])),
        (b"Relu", (1, none[1], ins[2]), outs),
        (b"Relu", (1, ins[1], none[2]), outs),
        (b"Relu", ins, (1, none[1], outs[2])),
        (b"Relu", ins, (1, outs[1], none[2])),
        (b"Relu", (1, NULL, ins[2]), outs),
    ):
        assert run(name, kind, first, second) == 100000
    nowhere = buffers(acl.aclCreateDataBuffer(NULL, 24))
    assert run(name, b"Relu", (1, ins[1], nowhere), outs) == 100000
    if name in COMPILE:
        assert run(name, b"Relu", ins, outs, flag=UNREGISTERED) == 100000
    assert y.read() == bytes(24)


@rule("S11.11")
@pytest.mark.parametrize("name", EXECUTE)
def test_arguments_of_an_execution(name: str, x: Place, y: Place) -> None:
    check_execution(name, x, y)


@rule("S11.26")
@pytest.mark.parametrize("name", COMPILE)
def test_arguments_of_a_compiled_execution(name: str, x: Place, y: Place) -> None:
    check_execution(name, x, y)


def check_description(function: Any, *rest: Any) -> Any:
    """Returns a good description."""
    good, none = descs(desc(2, 3)), descs(NULL)
    ok(function(b"Relu", 1, good, 1, good, *rest))
    for arguments in (
        (NULL, 1, good, 1, good),
        (b"Relu", -1, good, 1, good),
        (b"Relu", 1, good, -1, good),
        (b"Relu", 1, none, 1, good),
        (b"Relu", 1, good, 1, none),
        (b"Relu", 1, NULL, 1, good),
    ):
        assert function(*arguments, *rest) == 100000
    return good


@rule("S11.11")
def test_arguments_of_a_handle() -> None:
    handle = ffi.new("aclopHandle **")
    good = check_description(acl.aclopCreateHandle, NULL, handle)
    assert acl.aclopCreateHandle(b"Relu", 1, good, 1, good, NULL, NULL) == 100000
    acl.aclopDestroyHandle(handle[0])


@rule("S11.26")
def test_arguments_of_a_compilation() -> None:
    good = check_description(acl.aclopCompile, NULL, 0, SYS, NULL)
    assert acl.aclopCompile(b"Relu", 1, good, 1, good, NULL, 0, UNREGISTERED, NULL) == 100000


@rule("S11.12")
@pytest.mark.parametrize("name", EXECUTE)
def test_empty_results_of_an_execution(name: str, x: Place) -> None:
    """The buffers are not looked at, not even whether they are there; an unknown dim is no 0."""
    ins = (1, descs(desc(2, 3)), buffers(NULL))
    ok(run(name, b"Relu", ins, (2, descs(desc(0, 3), desc(2, 0)), NULL)))
    assert run(name, b"Relu", ins, (2, descs(desc(0, 3), desc(2, 3)), NULL)) == 100000
    good = (1, descs(desc(2, 3)), buffers(x.buffer))
    assert run(name, b"Relu", good, (1, descs(desc(-1, 3)), buffers(x.buffer))) != 0


@rule("S11.27")
@pytest.mark.parametrize("name", COMPILE)
def test_empty_results_of_a_compilation(name: str, x: Place) -> None:
    ins, empty = (1, descs(desc(2, 3)), buffers(x.buffer)), descs(desc(0, 3))
    ok(run(name, b"Relu", ins, (1, empty, buffers(acl.aclCreateDataBuffer(NULL, 0)))))
    assert run(name, b"Relu", ins, (1, empty, buffers(NULL))) == 100000
    assert run(name, b"Relu", (1, ins[1], buffers(NULL)), (1, empty, buffers(x.buffer))) == 100000


@pytest.fixture
def handle() -> Iterator[Any]:
    good = descs(desc(2, 3))
    found = ffi.new("aclopHandle **")
    ok(acl.aclopCreateHandle(b"Relu", 1, good, 1, good, NULL, found))
    yield found[0]
    acl.aclopDestroyHandle(found[0])


def by_handle(handle: Any, ins: list[Any], outs: list[Any]) -> int:
    first, second = (len(ins), buffers(*ins)), (len(outs), buffers(*outs))
    return int(acl.aclopExecWithHandle(handle, *first, *second, NULL))


@rule("S11.12")
def test_empty_results_of_a_handle(handle: Any, x: Place, y: Place) -> None:
    empty = acl.aclCreateDataBuffer(NULL, 0)
    ok(by_handle(handle, [], [empty, empty]))
    assert by_handle(handle, [], [y.buffer, empty]) != 0


@rule("S11.16")
def test_inputs_of_a_handle(handle: Any, x: Place, y: Place) -> None:
    for wrong in ([], [x.buffer] * 2):
        assert by_handle(handle, wrong, [y.buffer]) == 100021
    assert y.read() == bytes(24)
    ok(by_handle(handle, [x.buffer], [y.buffer]))
    assert y.read() == floats(0, 2, 0, 4, 0, 6)


@rule("S11.17")
def test_outputs_of_a_handle(handle: Any, x: Place, y: Place) -> None:
    for wrong in ([], [y.buffer] * 2):
        assert by_handle(handle, [x.buffer], wrong) == 100022
    assert y.read() == bytes(24)


def check_places(describe: Callable[[Any, Any], int]) -> None:
    """No tensor of host memory is described before it is there, unless it is a constant."""
    plain, there, constant = desc(2, 3), desc(2, 3), desc(2, 3)
    for each in (there, constant):
        ok(acl.aclSetTensorPlaceMent(each, HOST_MEMORY))
    ok(acl.aclSetTensorConst(constant, ffi.from_buffer(floats(*range(6))), 24))
    assert describe(there, plain) == describe(plain, there) == 200001
    ok(describe(constant, plain))


@rule("S11.13")
def test_places_of_a_handle(y: Place) -> None:
    handle = ffi.new("aclopHandle **")
    check_places(
        lambda a, b: int(acl.aclopCreateHandle(b"Relu", 1, descs(a), 1, descs(b), NULL, handle))
    )
    ok(by_handle(handle[0], [y.buffer], [y.buffer]))
    assert y.read() == floats(*range(6))
    acl.aclopDestroyHandle(handle[0])


@rule("S11.25")
def test_places_of_a_compilation() -> None:
    rest = (NULL, 0, SYS, NULL)
    check_places(lambda a, b: int(acl.aclopCompile(b"Relu", 1, descs(a), 1, descs(b), *rest)))


@rule("S11.25")
def test_flags_of_a_compilation(x: Place, y: Place) -> None:
    ins, outs = ((1, descs(desc(2, 3)), buffers(each.buffer)) for each in (x, y))
    for name in COMPILE:
        assert run(name, b"Relu", ins, outs, flag=2) == 200001
    assert acl.aclopCompile(b"Relu", *ins[:2], *outs[:2], NULL, 0, 2, NULL) == 200001
    assert y.read() == bytes(24)


@rule("S11.24")
def test_operators_that_do_not_fit(x: Place, y: Place) -> None:
    good, other = descs(desc(2, 3)), descs(desc(2, 3), desc(5))
    for name in EXECUTE:
        for kind, ins in (
            (b"NoSuchOperator", (1, good, buffers(x.buffer))),
            (b"Add", (2, other, buffers(x.buffer, x.buffer))),
        ):
            assert run(name, kind, ins, (1, good, buffers(y.buffer))) == 100024
    found = ffi.new("aclopHandle **")
    assert acl.aclopCreateHandle(b"Add", 2, other, 1, good, NULL, found) == 100024
    assert y.read() == bytes(24)


# What each kind of value is set with.
NUMBERS = ffi.new("int64_t[]", [1, 0])
TEXT = ffi.new("char[]", b"text")
TEXTS = ffi.new("const char *[]", [TEXT])
SETTERS: dict[str, tuple[Any, ...]] = {
    "Bool": (1,),
    "Int": (1,),
    "Float": (0.5,),
    "String": (b"text",),
    "DataType": (HALF,),
    "ListBool": (2, ffi.new("uint8_t[]", [1, 0])),
    "ListInt": (2, NUMBERS),
    "ListFloat": (2, ffi.new("float[]", [1, 2])),
    "ListString": (1, TEXTS),
    "ListDataType": (1, ffi.new("aclDataType[]", [HALF])),
    "ListListInt": (1, ffi.new("int[]", [2]), ffi.new("int64_t *[]", [NUMBERS])),
}
every_setter = pytest.mark.parametrize("kind", SETTERS)


def setter(kind: str) -> tuple[Callable[..., int], tuple[Any, ...]]:
    return getattr(acl, f"aclopSetAttr{kind}"), SETTERS[kind]


@rule("S11.18")
@every_setter
def test_attributes_of_nothing(attr: Any, kind: str) -> None:
    function, values = setter(kind)
    ok(function(attr, b"name", *values))
    assert function(NULL, b"name", *values) == function(attr, NULL, *values) == 100000


@rule("S11.19")
@pytest.mark.parametrize("kind", [k for k in SETTERS if k == "String" or k.startswith("List")])
def test_nulls_among_values(attr: Any, kind: str) -> None:
    function, values = setter(kind)
    assert function(attr, b"name", *values[:-1], NULL) == 100000
    if kind == "ListString":
        assert function(attr, b"name", 1, ffi.new("const char *[]", [NULL])) == 100000
    if kind == "ListListInt":
        assert function(attr, b"name", 1, NULL, values[2]) == 100000
        assert function(attr, b"name", 1, values[1], ffi.new("int64_t *[]", [NULL])) == 100000


def leaky(x: Place, y: Place, attr: Any) -> int:
    ins, outs = ((1, descs(desc(2, 3)), buffers(each.buffer)) for each in (x, y))
    return run("aclopExecuteV2", b"LeakyRelu", ins, outs, attr)


@rule("S11.20")
@every_setter
def test_a_name_set_again(attr: Any, kind: str, x: Place, y: Place) -> None:
    """LeakyRelu wants a number: a value of another kind is found, the one set last counts."""
    function, values = setter(kind)
    ok(acl.aclopSetAttrFloat(attr, b"negative_slope", 0.25))
    ok(function(attr, b"negative_slope", *values))
    assert leaky(x, y, attr) == (0 if kind == "Float" else 100024)
    ok(acl.aclopSetAttrFloat(attr, b"negative_slope", 2))
    ok(leaky(x, y, attr))
    assert y.read() == floats(-2, 2, -6, 4, -10, 6)


@rule("S11.20")
def test_values_of_attributes_are_copied(attr: Any, x: Place, y: Place) -> None:
    axes, name = ffi.new("int64_t[]", [1]), ffi.new("char[]", b"axes")
    ok(acl.aclopSetAttrListInt(attr, name, 1, axes))
    axes[0], name[0] = 77, b"x"
    ins = (1, descs(desc(2, 3)), buffers(x.buffer))
    for dims, code in (((2, 1, 3), 0), ((1, 2, 3), 100022)):
        outs = (1, descs(desc(*dims)), buffers(y.buffer))
        assert run("aclopExecuteV2", b"Unsqueeze", ins, outs, attr) == code
    assert y.read() == x.read()


@rule("S11.21")
def test_attributes_at_first(x: Place, y: Place) -> None:
    first, second = acl.aclopCreateAttr(), acl.aclopCreateAttr()
    assert first != NULL and second not in (NULL, first)
    ok(acl.aclopSetAttrFloat(first, b"negative_slope", 3))
    ok(leaky(x, y, second))
    assert y.read()[:4] != floats(-3)
    for each in (first, second, NULL):
        acl.aclopDestroyAttr(each)
    acl.aclopDestroyHandle(NULL)
    assert acl.aclopSetAttrInt(first, b"name", 1) == 100000


@rule("S11.22")
def test_casts_to_nothing(x: Place, y: Place) -> None:
    source, found = desc(2, 3), ffi.new("aclopHandle **")
    assert acl.aclopCast(source, x.buffer, NULL, y.buffer, 0, NULL) == 100000
    assert acl.aclopCreateHandleForCast(source, NULL, 0, found) == 100000
    assert acl.aclopCreateHandleForCast(source, source, 0, NULL) == 100000
    assert y.read() == bytes(24)


@rule("S11.23")
@pytest.mark.parametrize("truncate", [0, 1])
def test_casts(x: Place, truncate: int) -> None:
    source, target = desc(2, 3), desc(2, 3, dtype=HALF)
    first, second, found = Place(bytes(12)), Place(bytes(12)), ffi.new("aclopHandle **")
    ok(acl.aclopCast(source, x.buffer, target, first.buffer, truncate, NULL))
    ok(acl.aclopCreateHandleForCast(source, target, truncate, found))
    ok(by_handle(found[0], [x.buffer], [second.buffer]))
    assert first.read() == second.read() == struct.pack("<6e", -1, 2, -3, 4, -5, 6)
    acl.aclopDestroyHandle(found[0])


def infer(kind: Any, ins: list[tuple[Any, Any]], outs: list[Any], attr: Any = NULL) -> int:
    first = descs(*(each[0] for each in ins)), buffers(*(each[1] for each in ins))
    return int(acl.aclopInferShape(kind, len(ins), *first, len(outs), descs(*outs), attr))


@rule("S11.28")
def test_arguments_of_an_inference(x: Place) -> None:
    good, result = (desc(2, 3), x.buffer), desc(7, dtype=HALF)
    arrays = (descs(good[0]), buffers(good[1]), descs(result))
    assert infer(NULL, [good], [result]) == 100000
    for counts in ((-1, 1), (1, -1)):
        code = acl.aclopInferShape(b"Relu", counts[0], *arrays[:2], counts[1], arrays[2], NULL)
        assert code == 100000
    for ins in ([(NULL, x.buffer)], [(good[0], NULL)]):
        assert infer(b"Relu", ins, [result]) == 100000
    assert infer(b"Relu", [good], [NULL]) == 100000
    for empty in (acl.aclCreateDataBuffer(x.pointer, 0), acl.aclCreateDataBuffer(NULL, 24)):
        assert infer(b"Relu", [(good[0], empty)], [result]) == 100000
    none = acl.aclCreateDataBuffer(x.pointer, 0)
    assert infer(b"Relu", [(desc(0, 3), none)], [result]) == 100000
    assert b"1 or more are needed" in ffi.string(acl.aclGetRecentErrMsg())
    assert infer(b"Relu", [good], [result, desc(1)]) != 0
    assert infer(b"NoSuchOperator", [good], [result]) != 0
    assert dims_of(result) == (7,)


@rule("S11.29")
@pytest.mark.parametrize("where", ["host", "device"])
def test_what_is_inferred(x: Place, where: str) -> None:
    """Type and dims, also where the bytes of an input decide them."""
    result = desc(7, dtype=HALF)
    ranges = ffi.new("int64_t[1][2]", [[1, 9]])
    ok(acl.aclSetTensorShapeRange(result, 1, ranges))
    ok(infer(b"Relu", [(desc(0, 3), x.buffer)], [result]))
    assert dims_of(result) == (0, 3)
    ok(infer(b"Relu", [(desc(2, 3), x.buffer)], [result]))
    assert dims_of(result) == (2, 3) and acl.aclGetTensorDescType(result) == FLOAT
    assert acl.aclGetTensorDescDimRange(result, 0, 2, ffi.new("int64_t[2]")) != 0
    shape = struct.pack("<2q", 3, -1)
    if where == "host":
        pointer = malloc_host(16)
        ffi.memmove(pointer, shape, 16)
        assert host_bytes(pointer, 16) == shape
        buffer = acl.aclCreateDataBuffer(pointer, 16)
    else:
        buffer = Place(shape).buffer
    ins = [(desc(2, 3), x.buffer), (desc(2, dtype=INT64), buffer)]
    ok(infer(b"Reshape", ins, [result]))
    assert dims_of(result) == (3, 2)


@rule("S11.14")
def test_a_directory_of_models_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (NULL, b"/nowhere", str(tmp_path / "file").encode()):
        assert acl.aclopSetModelDir(path) == (100000 if path == NULL else 100014)


@rule("S11.15")
def test_a_directory_of_models_is_set_once(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        paths = (b"/nowhere", path.encode(), path.encode(), b"/nowhere")
        return [acl.aclopSetModelDir(each) for each in paths]

    assert run_fresh(body, path=str(tmp_path)) == [100014, 0, 100002, 100014]
