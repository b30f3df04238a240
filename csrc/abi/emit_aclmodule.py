"""The C of the Python module `acl`: one function per call, and the method tables.

Owns: how arguments become C values and results Python objects. What has no general form is a
prototype here (gen/aclmodule_by_hand.h) and a body in csrc/aclmodule_*.c; such a function gets
its plain arguments as C values and the others as checked objects. See csrc/aclmodule.h for the
helpers.
"""

from __future__ import annotations

import json
import re

from c_text import NOTICE
from model import Function, Model, Param, PythonCall
from pyacl import MODULES, Call, Item

_C_TYPES = {
    "k": "unsigned long",
    "K": "unsigned long long",
    "I": "unsigned int",
    "i": "int",
    "H": "unsigned short",
    "h": "short",
    "l": "long",
    "L": "long long",
    "B": "unsigned char",
    "b": "unsigned char",
    "f": "float",
    "d": "double",
    "s": "const char *",
}
_TO_PYTHON = {
    "k": "PyLong_FromUnsignedLong((unsigned long)(uintptr_t)({}))",
    "K": "PyLong_FromUnsignedLongLong((unsigned long long)({}))",
    "I": "PyLong_FromUnsignedLong((unsigned int)({}))",
    "i": "PyLong_FromLong((int)({}))",
    "H": "PyLong_FromUnsignedLong((unsigned short)({}))",
    "l": "PyLong_FromLong((long)({}))",
    "L": "PyLong_FromLongLong((long long)({}))",
    "f": "PyFloat_FromDouble({})",
    "s": "art_text({})",
}
_CHECKS = {
    "dict": "!PyDict_Check({})",
    "list": "!PyList_Check({})",
    "object": "0",
    "callable": "!PyCallable_Check({})",
    "callable?": "({0} != Py_None && !PyCallable_Check({0}))",
}


class EmitError(ValueError):
    """A call and its C function do not fit; the text names the call."""


def _type_of(param: Param) -> str:
    """The C type of a parameter; arrays as pointers."""
    decl = re.sub(r"\[[^\]]*\]\s*$", "", param.decl)
    pointer = "*" if decl != param.decl else ""
    return re.sub(rf"(\bconst\s+)?\b{param.name}\b\s*$", "", decl).strip() + pointer


def _pointee(param: Param) -> str:
    type_ = _type_of(param)
    if not type_.endswith("*"):
        raise EmitError(f"{param.decl!r} is no pointer")
    return type_[:-1].strip()


def _doc(call: PythonCall) -> str:
    names = ", ".join(i.name.lstrip("_") for i in call.call.arguments)
    given = ", ".join(i.name for i in call.call.results) or "None"
    behind = f"{call.function.name}; " if call.function else ""
    signature = f"{call.call.function}({names + ', /' if names else '*ignored'})"
    if any(i.optional for i in call.call.arguments):
        signature = f"{call.call.function}({names}=None, /)"
    answer = f"({given})" if call.call.shape == "tuple" else given
    return json.dumps(f"{signature}\n--\n\n{behind}gives {answer}")


def _identifier(call: Call) -> str:
    return call.name.replace(".", "_")


def _spec(call: Call) -> str:
    return " ".join(f"{i.name.lstrip('_')}:{i.type}" for i in call.arguments)


def _conditions(call: Call) -> list[str]:
    """C conditions, true when an argument is wrong; they also fetch the plain arguments."""
    optional = sum(i.optional for i in call.arguments)
    total = len(call.arguments)
    if call.any_arguments:
        return []
    found = [f"argc > {total}" if optional else f"argc != {total}"]
    for index, item in enumerate(call.arguments):
        value = f"argv[{index}]"
        if item.is_list:
            wrong = f"!PyList_Check({value})"
        elif item.type in _CHECKS:
            wrong = _CHECKS[item.type].format(value)
        else:
            wrong = f"art_get_{item.type[0]}({value}, &v_{item.name})"
        if item.optional:
            wrong = f"(argc > {index} && {wrong})"
        if wrong != "0":
            found.append(wrong)
    return found


def _plain(item: Item) -> bool:
    return item.type[:1] in _C_TYPES and item.type not in _CHECKS and not item.is_list


def _fetch(call: Call, python_text: bool) -> list[str]:
    """Declare and fetch the arguments; refuse wrong ones."""
    lines = []
    for item in call.arguments:
        if _plain(item):
            start = " = NULL" if item.optional else ""
            lines.append(f"  {_C_TYPES[item.type[0]]} v_{item.name}{start};")
    conditions = " ||\n      ".join(_conditions(call))
    if conditions:
        refuse = "art_refuse_plainly" if python_text else "art_refuse"
        name = call.function if python_text else call.dotted
        lines.append(f"  if ({conditions})")
        lines.append(f'    return {refuse}("{name}", "{_spec(call)}", argv, argc);')
    return lines


def _argument(param: Param, call: PythonCall) -> str:
    """The C expression for one parameter of the function."""
    for item in call.call.arguments:
        if item.name == param.name:
            if item.is_list:
                return f"l_{item.name}.data"
            through = {"k": "(uintptr_t)", "K": "(uintptr_t)", "i": "(intptr_t)"}
            return f"({_type_of(param)}){through.get(item.type, '')}v_{item.name}"
        if item.count == param.name:
            length = f"l_{item.name}.count" if item.is_list else f"strlen(v_{item.name})"
            return f"({_type_of(param)}){length}"
    for item in call.call.results:
        if item.name == param.name:
            return f"o_{item.name}" if item.size else f"&o_{item.name}"
    for item in call.call.constants:
        if item.name == param.name:
            return str(item.constant)
    raise EmitError(f"{call.call.name}: nothing stands for the parameter {param.name!r}")


def _check_results(call: PythonCall, function: Function) -> None:
    names = {p.name for p in function.params}
    for item in call.call.arguments:
        if item.name not in names and not item.name.startswith("_"):
            raise EmitError(f"{call.call.name}: {function.name} has no parameter {item.name!r}")
    for item in call.call.results if call.call.shape == "tuple" else ():
        if item.name not in names and item.name != "code" and not item.name.isdigit():
            raise EmitError(f"{call.call.name}: {function.name} has no parameter {item.name!r}")


def _outs(call: PythonCall, function: Function) -> list[str]:
    """Declare what the function answers through."""
    given = {i.name for i in call.call.arguments}
    params = {p.name: p for p in function.params}
    lines = []
    for item in call.call.results if call.call.shape == "tuple" else ():
        if item.name not in params or item.name in given:
            continue
        if item.size:
            size = f"v_{item.size}" if item.size in given else item.size
            lines.append(f"  char *o_{item.name} = art_buffer({size}, {item.limit or 0});")
        else:
            lines.append(f"  {_pointee(params[item.name])} o_{item.name} = {{0}};")
    return lines


def _result(call: Call) -> str:
    """The expression that builds what Python gets."""

    def value(item: Item) -> str:
        if item.name == "code" or call.shape == "bare":
            c_value = "ret"
        elif item.name in {i.name for i in call.arguments}:
            c_value = f"v_{item.name}"
        else:
            c_value = item.name if item.name.isdigit() else f"o_{item.name}"
        return _TO_PYTHON[item.type].format(c_value)

    values = [value(i) for i in call.results]
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        return f"art_pair({', '.join(values)})"
    return f"art_tuple({len(values)}, {', '.join(values)})"


def _resources(call: PythonCall) -> tuple[list[str], list[str]]:
    """Lists and buffers: lines that make them (leaving through `done`), lines that free them."""
    make, free = [], []
    for index, item in enumerate(call.call.arguments):
        if not item.is_list:
            continue
        letter = item.type.strip("[]")
        width = "2" if len(letter) == 2 else "1"
        place = f'"{call.call.dotted}", {index + 1}, "{item.name}"'
        make.append(f"  if (art_list_read(&l_{item.name}, argv[{index}], '{letter[0]}', {width}, ")
        make[-1] += f"{place})) goto done;"
        free.append(f"  art_list_free(&l_{item.name});")
    sizes: dict[str, str] = {}
    for item in call.call.arguments:
        if item.is_list and item.count in sizes:
            first = sizes[item.count]
            make.append(
                f"  if (art_list_differ(l_{first}.count, l_{item.name}.count, "
                f'"{call.call.dotted}", "{first}", "{item.name}")) goto done;'
            )
        elif item.is_list and item.same:
            make.append(
                f"  if (art_list_differ(v_{item.same}, l_{item.name}.count, "
                f'"{call.call.dotted}", "{item.same}", "{item.name}")) goto done;'
            )
        elif item.is_list and item.count:
            sizes[item.count] = item.name
    for item in call.call.results:
        if item.size:
            make.append(f"  if (o_{item.name} == NULL) goto done;")
            free.append(f"  PyMem_Free(o_{item.name});")
    return make, free


def _call_lines(call: PythonCall, function: Function) -> list[str]:
    inside = ", ".join(_argument(p, call) for p in function.params)
    expression = f"{function.name}({inside})"
    none = call.call.shape == "none" or function.ret == "void"
    if call.releases_gil or call.looks:
        assign = "" if none else "ret = "
        declare = [] if none else [f"  {function.ret} ret;"]
        give, take = ("PyEval_SaveThread", "PyEval_RestoreThread")
        if not call.releases_gil:
            give, take = ("art_look", "art_look_over")
        return [
            *declare,
            f"  PyThreadState *thread = {give}();",
            f"  {assign}{expression};",
            f"  {take}(thread);",
        ]
    return [f"  {expression};" if none else f"  {function.ret} ret = {expression};"]


def _generic(call: PythonCall, function: Function) -> list[str]:
    _check_results(call, function)
    lines = _outs(call, function)
    make, free = _resources(call)
    body = _call_lines(call, function)
    if not make:
        last = "Py_RETURN_NONE;" if call.call.shape == "none" else f"return {_result(call.call)};"
        return [*lines, *body, f"  {last}"]
    lists = [f"  struct art_list l_{i.name} = {{0}};" for i in call.call.arguments if i.is_list]
    inner = [f"  {line}" for line in body] + [f"    result = {_result(call.call)};"]
    return [
        *lines,
        *lists,
        "  PyObject *result = NULL;",
        *make,
        "  {",
        *inner,
        "  }",
        "done:",
        *free,
        "  return result;",
    ]


def _hand_arguments(call: Call) -> str:
    values = []
    for index, item in enumerate(call.arguments):
        if _plain(item):
            values.append(f"v_{item.name}")
        elif item.optional:
            values.append(f"argc > {index} ? argv[{index}] : Py_None")
        else:
            values.append(f"argv[{index}]")
    return ", ".join(values)


def _function(call: PythonCall) -> str:
    name = _identifier(call.call)
    unused = ["  (void)self;"]
    unused += ["  (void)argv;", "  (void)argc;"] if call.call.any_arguments else []
    lines = _fetch(call.call, call.python_text)
    if call.by_hand:
        body = [f"  return hand_{name}({_hand_arguments(call.call)});"]
    elif call.function is None:
        raise EmitError(f"{call.call.name}: nothing to call, and not by_hand")
    else:
        body = _generic(call, call.function)
    head = f"static PyObject *py_{name}(PyObject *self, PyObject *const *argv, Py_ssize_t argc) {{"
    return "\n".join([head, *unused, *lines, *body, "}"])


def _table(model: Model, module: str) -> str:
    rows = [
        f'    {{"{c.call.function}", (PyCFunction)(void (*)(void))py_{_identifier(c.call)}, '
        f"METH_FASTCALL,\n     {_doc(c)}}},"
        for c in model.python_calls()
        if c.call.module == module
    ]
    inside = "\n".join([*rows, "    {0},"])
    return f"static PyMethodDef methods_{module or 'acl'}[] = {{\n{inside}\n}};"


def emit_aclmodule(model: Model) -> str:
    functions = "\n\n".join(_function(c) for c in model.python_calls())
    tables = "\n\n".join(_table(model, m) for m in MODULES)
    modules = "\n".join(f'    {{"{m}", methods_{m or "acl"}}},' for m in MODULES)
    return f"""/* {NOTICE} */
#include "aclmodule.h"
#include "gen/aclmodule_by_hand.h"

{functions}

{tables}

const struct art_module art_modules[] = {{
{modules}
    {{NULL, NULL}},
}};
"""


def _prototype(call: PythonCall) -> str:
    types = [
        _C_TYPES[i.type[0]] + ("" if i.type[0] == "s" else " ") + i.name.lstrip("_")
        if _plain(i)
        else f"PyObject *{i.name}"
        for i in call.call.arguments
    ]
    return f"PyObject *hand_{_identifier(call.call)}({', '.join(types) or 'void'});"


def emit_by_hand_h(model: Model) -> str:
    prototypes = "\n".join(_prototype(c) for c in model.python_calls() if c.by_hand)
    return f"""/* {NOTICE} */
/* Calls of the Python module `acl` whose bodies stand in csrc/aclmodule_*.c. */
#ifndef ASCENDRT_GEN_ACLMODULE_BY_HAND_H_
#define ASCENDRT_GEN_ACLMODULE_BY_HAND_H_

#include "aclmodule.h"

{prototypes}

#endif /* ASCENDRT_GEN_ACLMODULE_BY_HAND_H_ */
"""


def _row(call: PythonCall) -> dict[str, object]:
    def pair(item: Item) -> list[str]:
        return [item.name, item.type]

    row: dict[str, object] = {
        "name": call.call.name,
        "c": call.function.name if call.function else "",
        "arguments": "*" if call.call.any_arguments else [pair(i) for i in call.call.arguments],
        "shape": call.call.shape,
        "results": [pair(i) for i in call.call.results],
    }
    if call.python_text:
        row["python_text"] = True
    if call.releases_gil:
        row["releases_gil"] = True
    return row


def emit_pyacl_json(model: Model) -> str:
    rows = ",\n  ".join(json.dumps(_row(c)) for c in model.python_calls())
    absent = json.dumps(list(model.absent_calls))
    return f'{{"notice": "{NOTICE}",\n "calls": [\n  {rows}],\n "absent": {absent}}}\n'


_STUB_TYPES = {"f": "float", "d": "float", "s": "str", "s?": "str", "object": "Any"} | {
    "dict": "dict[str, Any]",
    "list": "list[Any]",
    "callable": "Callable[..., object]",
    "callable?": "Callable[..., object] | None",
}


def _stub_type(item: Item, result: bool) -> str:
    if item.is_list:
        return "list[list[int]]" if len(item.type) == 4 else "list[int]"
    found = _STUB_TYPES.get(item.type, "int")
    return f"{found} | None" if result and item.type == "s" else found


def _stub(call: PythonCall) -> str:
    arguments = [
        f"{i.name.lstrip('_')}_: {_stub_type(i, False)}" + (" = ..." if i.optional else "")
        for i in call.call.arguments
    ]
    inside = ", ".join([*arguments, "/"] if arguments else [])
    if call.call.any_arguments:
        inside = "*ignored: object"
    results = [_stub_type(i, True) for i in call.call.results]
    given = {"none": "None", "tuple": f"tuple[{', '.join(results)}]"}.get(
        call.call.shape, results[0] if results else "None"
    )
    return f"def {call.call.function}({inside}) -> {given}: ..."


def emit_stub_files(model: Model) -> dict[str, str]:
    """Path below the folder of the stub package -> text: types of the calls, for type checkers."""
    files = {}
    for module in MODULES:
        lines = [_stub(c) for c in model.python_calls() if c.call.module == module]
        imports = [f"from acl import {m} as {m}" for m in MODULES[1:]] if not module else []
        used = " ".join(lines)
        head = [f"# {NOTICE}"]
        head += ["from collections.abc import Callable"] if "Callable" in used else []
        head += ["from typing import Any"] if "Any" in used else []
        files[f"{module or '__init__'}.pyi"] = "\n".join([*head, *imports, "", *lines, ""])
    return files
