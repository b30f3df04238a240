"""Every call of `acl`: it is there, takes what the table says and refuses anything else.

No test here reaches a function of the library: a call with a wrong argument ends in the parser.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import acl
import numpy as np
import pytest
from aclcalls import (
    ABSENT,
    BY_NAME,
    MODULES,
    ROWS,
    Row,
    large_members,
    wrong_members,
    wrong_values,
)

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
WITH_ARGUMENTS = [row for row in ROWS if not row.any_arguments]


def refused(row: Row, *arguments: Any) -> str:
    """The text of the TypeError that these arguments raise."""
    with pytest.raises(TypeError) as caught:
        row.function()(*arguments)
    return str(caught.value)


@every_row
def test_it_is_there(row: Row) -> None:
    function, name = row.function(), row.name.rpartition(".")[2]
    assert callable(function)
    assert name in dir(sys.modules[row.module])
    assert (function.__name__, function.__module__) == (name, row.module)
    assert not row.c or row.c in function.__doc__


@every_row
def test_it_takes_no_keywords(row: Row) -> None:
    with pytest.raises(TypeError, match="keyword"):
        row.function()(any=0)


@pytest.mark.parametrize("row", WITH_ARGUMENTS, ids=lambda row: row.name)
def test_it_refuses_another_number_of_arguments(row: Row) -> None:
    good = row.harmless()
    tries = [[*good, 0]] + ([good[: row.least - 1]] if row.least else [])
    for arguments in tries:
        text = refused(row, *arguments)
        if row.python_text:
            assert text.startswith(f"function takes exactly {len(good)} argument"), text
            assert f"({len(arguments)} given)" in text
        else:
            assert text.startswith(f"{row.dotted} args parse failed"), text
            assert f"{len(arguments)} given" in text


@pytest.mark.parametrize(
    ("row", "place"),
    [(row, place) for row in WITH_ARGUMENTS for place in range(len(row.arguments))],
    ids=lambda value: value.name if isinstance(value, Row) else str(value),
)
def test_it_refuses_wrong_types(row: Row, place: int) -> None:
    argument = row.arguments[place]
    for value in wrong_values(argument):
        arguments = row.harmless()
        arguments[place] = value
        text = refused(row, *arguments)
        if row.python_text:
            assert text.startswith((f"argument {place + 1} must be", "parameter must be callable"))
        else:
            assert text.startswith(f"{row.dotted} args parse failed"), text
            assert f"argument {place + 1} ({argument.name.lstrip('_')}" in text


LISTS = [
    pytest.param(row, place, id=f"{row.name}-{argument.name}")
    for row in WITH_ARGUMENTS
    for place, argument in enumerate(row.arguments)
    if argument.is_list
]


@pytest.mark.parametrize(("row", "place"), LISTS)
def test_it_refuses_wrong_members(row: Row, place: int) -> None:
    """TypeError for members of another type, ValueError for those that do not fit."""
    argument = row.arguments[place]
    tries: list[tuple[type[Exception], Any]]
    tries = [(TypeError, value) for value in wrong_members(row, argument)]
    tries += [(ValueError, value) for value in large_members(row, argument)]
    for error, member in tries:
        arguments = row.harmless()
        arguments[place] = [member]
        if "placeHolderNum" in argument_names(row):
            arguments[-1] = len(arguments[-2])
        with pytest.raises(error, match=re.escape(f"{row.dotted} args parse failed")) as caught:
            row.function()(*arguments)
        assert f"argument {place + 1} ({argument.name})" in str(caught.value)


def argument_names(row: Row) -> list[str]:
    return [argument.name for argument in row.arguments]


def test_the_modules() -> None:
    for name in MODULES:
        dotted = f"acl.{name}" if name else "acl"
        assert sys.modules[dotted].__name__ == dotted
        assert not name or getattr(acl, name) is sys.modules[dotted]
    from acl.rt import memcpy

    assert memcpy is acl.rt.memcpy
    assert acl.__file__.endswith(".so")


def test_the_table_has_every_name_of_the_interface() -> None:
    assert len(ROWS) + len(ABSENT) == 742
    present = [row.name for row in ROWS if row.name.split(".")[0] in ("himpi", "fv", "media")]
    assert present == ["media.dvpp_free", "media.dvpp_malloc"]


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_left_out_says_so(name: str) -> None:
    module, _, function = name.partition(".")
    with pytest.raises(AttributeError, match="ascendrt coverage"):
        getattr(getattr(acl, module), function)
    assert not hasattr(getattr(acl, module), function)


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("acl", "ACL_SUCCESS", "ascendrt.constants"),
        ("acl", "ACL_MEMCPY_HOST_TO_DEVICE", "ascendrt.constants"),
        ("acl", "tdt", "no Python form"),
        ("acl", "const", "no Python form"),
        ("acl.mdl", "add_dataset_tensor", "acl.mdl.add_dataset_buffer"),
        ("acl.mdl", "destroy_model", "acl.mdl.unload"),
        ("acl.mdl", "create_stream", "acl.rt.create_stream"),
        ("acl.rt", "free_dvpp", "acl.media.dvpp_free"),
        ("acl.rt", "destory_context", "acl.rt.destroy_context"),
        ("acl.rt", "no_such_thing", "has no attribute 'no_such_thing'"),
    ],
)
def test_names_that_do_not_exist(module: str, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(sys.modules[module], name)
    assert hint in str(caught.value)


def test_the_stubs_have_every_call() -> None:
    folder = Path(__file__).resolve().parents[2] / "csrc" / "gen" / "acl-stubs"
    found = {}
    for path in folder.glob("*.pyi"):
        prefix = "" if path.stem == "__init__" else f"{path.stem}."
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                found[prefix + node.name] = node
    assert found.keys() == BY_NAME.keys()
    for row in ROWS:
        assert len(found[row.name].args.posonlyargs) == len(row.arguments), row.name
        assert (found[row.name].args.vararg is not None) == row.any_arguments, row.name


def test_no_constant_is_exported() -> None:
    for name in MODULES:
        module = sys.modules[f"acl.{name}" if name else "acl"]
        assert [each for each in vars(module) if each.isupper()] == []


def test_the_constants_are_offered_elsewhere() -> None:
    from ascendrt import constants

    assert (constants.ACL_MEMCPY_HOST_TO_DEVICE, constants.ACL_MEM_MALLOC_HUGE_FIRST) == (1, 0)
    assert constants.aclDataType(1).name == "ACL_FLOAT16"
    assert constants.ACL_ERROR_REPEAT_INITIALIZE == 100002


def test_a_numpy_int_is_told_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"\(size\) must be int \(write int\(\.\.\.\) around it\)"):
        acl.rt.malloc(np.int64(8), 0)


def test_members_of_lists() -> None:
    with pytest.raises(TypeError, match=r"argument 2 \(dims\).*is no int"):
        acl.create_tensor_desc(0, [1, 2.5], 2)
    with pytest.raises(ValueError, match="does not fit"):
        acl.create_tensor_desc(0, [1, 2**63], 2)
    with pytest.raises(TypeError, match="no pair of ints"):
        acl.set_tensor_shape_range(0, [[1, 2], [3]])
    with pytest.raises(ValueError, match="inputDesc stands for 1, but inputs has 0 members"):
        acl.op.execute_v2("Add", [1], [], [], [], 0, 0)


def test_the_raises_besides_type_errors() -> None:
    with pytest.raises(KeyError, match="numAttrs"):
        acl.rt.malloc_with_cfg(64, 0, {"attrs": []})
    with pytest.raises(KeyError, match="value"):
        acl.rt.malloc_host_with_cfg(64, {"numAttrs": 1, "attrs": [{"attr": 1}]})
    for call in (acl.rt.ipc_mem_get_export_key, lambda *a: acl.rt.notify_get_export_key(*a[1:])):
        with pytest.raises(ValueError, match="below 1024"):
            call(0, 0, 1024, 0)
    for timeout in (-1, 2**32):
        with pytest.raises(TypeError, match="args parse failed"):
            acl.rt.wait_and_reset_notify(0, 0, timeout)
    assert BY_NAME["rt.wait_and_reset_notify"].arguments[2].type == "L"
