"""The calls of the Python module `acl` as the tests see them: what each takes and gives.

Owns: reading the generated table, harmless and wrong arguments by type, the check of an answer's
shape. Must never call a function of the module itself.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

_TABLE = json.loads(files("ascendrt").joinpath("_gen/pyacl.json").read_text(encoding="utf-8"))
ABSENT: list[str] = _TABLE["absent"]
MODULES = ("", "rt", "mdl", "op", "util", "prof", "blas", "media", "himpi", "fv")
INTS = "kKiIhHlLbB"
# The types that CPython's unit takes only as int, and an int of another library is refused.
STRICT_INTS = "kK"
RANGES = {"i": 2**31, "h": 2**15, "b": 256, "l": 2**63, "L": 2**63}


@dataclass(frozen=True)
class Argument:
    name: str
    type: str

    @property
    def is_list(self) -> bool:
        return self.type[0] == "[" or self.type == "list" or self.name == "values"

    @property
    def optional(self) -> bool:
        return self.type.endswith("?")


@dataclass(frozen=True)
class Row:
    """One call: what it takes, and the shape of its answer."""

    name: str
    c: str
    any_arguments: bool
    arguments: tuple[Argument, ...]
    shape: str
    results: tuple[Argument, ...]
    python_text: bool
    releases_gil: bool

    @property
    def dotted(self) -> str:
        return f"acl.{self.name}"

    @property
    def module(self) -> str:
        return self.dotted.rpartition(".")[0]

    @property
    def least(self) -> int:
        return sum(not argument.optional for argument in self.arguments)

    def function(self) -> Any:
        import_module("acl")
        return getattr(sys.modules[self.module], self.name.rpartition(".")[2])

    def harmless(self) -> list[Any]:
        """Arguments that pass the parser."""
        return [harmless(argument) for argument in self.arguments]


def _row(entry: dict[str, Any]) -> Row:
    given = entry["arguments"]
    return Row(
        name=entry["name"],
        c=entry["c"],
        any_arguments=given == "*",
        arguments=() if given == "*" else tuple(Argument(*pair) for pair in given),
        shape=entry["shape"],
        results=tuple(Argument(*pair) for pair in entry["results"]),
        python_text=entry.get("python_text", False),
        releases_gil=entry.get("releases_gil", False),
    )


ROWS = [_row(entry) for entry in _TABLE["calls"]]
BY_NAME = {row.name: row for row in ROWS}


def nothing(*_: object) -> None:
    """A callable."""


def harmless(argument: Argument) -> Any:
    """A value that the parser takes."""
    type_ = argument.type
    if type_.startswith("["):
        return []
    if type_[0] in INTS and len(type_) == 1:
        return 0
    simple: dict[str, Any] = {
        "f": 0.0, "d": 0.0, "s": "", "s?": "", "dict": {}, "list": [],
        "callable": nothing, "callable?": None,
        "object": (1,) if argument.name == "shape" else [] if argument.name == "values" else 0,
    }  # fmt: skip
    value: Any = simple[type_]
    return value


def wrong_values(argument: Argument) -> list[Any]:
    """Values that the parser refuses."""
    import numpy as np

    type_ = argument.type
    if type_.startswith("["):
        return [None, (1, 2), 5, "text", {}]
    if len(type_) == 1 and type_ in INTS:
        wrong: list[Any] = [None, 1.5, "1", b"1", [], object()]
        if type_ in STRICT_INTS:
            wrong.append(np.int64(1))
        if type_ in RANGES:
            wrong += [RANGES[type_], -RANGES[type_] - 1]
        return wrong
    refused: dict[str, list[Any]] = {
        "f": [None, "1", []], "d": [None, "1", []],
        "s": [None, b"x", 1, "a\0b"], "s?": [None, b"x", 1, "a\0b"],
        "dict": [None, [], 1], "list": [None, (), {}, 1],
        "callable": [None, 1, "f"], "callable?": [1, "f"], "object": [],
    }  # fmt: skip
    return refused[type_]


_NO_INTS: list[Any] = [None, 1.5, "1", b"1", [], object()]
_NO_DICTS: list[Any] = [None, 1, [], "text"]
# Lists whose members are told by the function.
_MEMBERS: dict[str, list[Any]] = {
    "rt.binary_load_from_file.options": _NO_DICTS,
    "rt.binary_load_from_data.options": _NO_DICTS,
    "rt.launch_kernel_with_config.cfg": _NO_DICTS,
    "rt.launch_kernel_with_host_args.cfg": _NO_DICTS,
    "rt.launch_kernel_with_host_args.placeHolders": _NO_DICTS,
    "rt.mem_uce_repair.memUceInfoArray": _NO_DICTS,
    "op.set_attr_list_int.values": _NO_INTS,
    "op.set_attr_list_float.values": [None, "1", [], object()],
    "op.set_attr_list_bool.values": [],  # whatever has a truth
    "op.set_attr_list_string.values": [None, 1, b"x", "a\0b"],
    "op.set_attr_list_list_int.values": [None, 1, (1,), [None], [1.5]],
}


def wrong_members(row: Row, argument: Argument) -> list[Any]:
    """Members of a list that the function refuses; KeyError for a list that nobody described."""
    if argument.type == "[LL]":
        return [1, [1], [1, 2, 3], ["1", 2], None]
    return _NO_INTS if argument.type[0] == "[" else _MEMBERS[f"{row.name}.{argument.name}"]


def large_members(row: Row, argument: Argument) -> list[Any]:
    """Members of the right type that do not fit."""
    if row.name == "op.set_attr_list_list_int":
        return [[2**63]]
    letter = "L" if row.name == "op.set_attr_list_int" else argument.type.strip("[]")
    ranges: dict[str, list[Any]] = {
        "L": [2**63, -(2**63) - 1],
        "LL": [[0, 2**63]],
        "i": [2**31],
        "I": [2**32, -1],
    }
    return ranges.get(letter, [])


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "s": (str, type(None)),
    "f": (float,),
    "d": (float,),
    "dict": (dict, type(None)),
    "list": (list, type(None)),
}


def _fits(value: Any, type_: str) -> bool:
    if type_ == "object":
        return True
    wanted = _PYTHON_TYPES.get(type_, (int,))
    return isinstance(value, wanted) and not isinstance(value, bool)


def problem(row: Row, answer: Any) -> str | None:
    """Why an answer has not the shape that the table tells; None when it has."""
    if row.shape == "none":
        return None if answer is None else f"{answer!r} is not None"
    if row.shape == "tuple":
        if type(answer) is not tuple or len(answer) != len(row.results):
            return f"{answer!r} is no tuple of {len(row.results)}"
        parts = answer
    else:
        parts = (answer,)
    for value, result in zip(parts, row.results, strict=True):
        if not _fits(value, result.type):
            return f"{answer!r}: {result.name} is {value!r}, the table says {result.type}"
    return None
