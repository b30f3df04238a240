"""The Python module `acl` as data: reads the call signatures that stand in the `acl` keys.

Owns: the notation, one line per call of the vendor's module:

    rt.memcpy(dst:k, destMax:k, src:k, count:k, kind:i) -> code:i
    rt.malloc(size:k, policy:i) -> (devPtr:k, code:i)      several values: a tuple, status last
    create_data_buffer(data:k, size:k) -> data_buffer:k    one value that is no status: it alone
    destroy_tensor_desc(desc:k) -> None

Arguments and results carry the names of the C parameters they stand for, so every C parameter is
accounted for. The letters are CPython's format units (k pointer or size, i int, s text, ...). More:

  *              any arguments, all ignored
  name:s?        may be left out (then null)
  name:s#length  text; its length goes to the C parameter `length`
  name:[L]#n     a list of that letter; its length goes to the C parameter `n`
  name:[k]=n     a list as long as the argument `n` says
  name:[LL]#n    a list of pairs
  name=NULL      no argument; C gets the constant
  _name:I        an argument that C never sees
  name:dict ...  dict, list, object, callable: a function written by hand takes the object
  name:s[n]      (result) text that C writes into a buffer of `n` bytes; [n<1024] bounds `n`
  0:k            (result) a constant
  name:k         (result) of an argument: the argument is handed back

Must never know how C is written: that is emit_aclmodule.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LETTERS = "kKiIhHlLbBfds"
OBJECTS = ("dict", "list", "object", "callable", "callable?")
MODULES = ("", "rt", "mdl", "op", "util", "prof", "blas", "media", "himpi", "fv")

_NAME = r"[\w.]+"
_ITEM = re.compile(
    rf"(?P<name>\w+)(?:=(?P<constant>NULL)|:(?P<type>\[\w+\]|[{LETTERS}]\?|[{LETTERS}]|\w+\??)"
    r"(?:#(?P<count>\w+)|=(?P<same>\w+)|\[(?P<size>\w+)(?:<(?P<limit>\d+))?\])?)"
)


class SignatureError(ValueError):
    """A call signature cannot be read; the text holds it."""


@dataclass(frozen=True)
class Item:
    """One argument or result."""

    name: str
    type: str = ""
    constant: str | None = None
    count: str | None = None  # C parameter that gets the length
    same: str | None = None  # argument that says the length
    size: str | None = None  # size of a text buffer: an argument or a number
    limit: int | None = None

    @property
    def is_list(self) -> bool:
        return self.type.startswith("[")

    @property
    def optional(self) -> bool:
        return self.type.endswith("?")


@dataclass(frozen=True)
class Call:
    """One function of the Python module."""

    name: str  # below `acl.`
    arguments: tuple[Item, ...]  # what Python hands over
    constants: tuple[Item, ...]  # what C gets besides
    any_arguments: bool
    shape: str  # code | tuple | bare | none
    results: tuple[Item, ...]

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def dotted(self) -> str:
        return f"acl.{self.name}"

    @property
    def needs_hand(self) -> bool:
        """True when a type has no general form in C."""
        types = [i.type for i in (*self.arguments, *self.results)]
        return any(t in OBJECTS for t in types)


def _item(text: str, line: str) -> Item:
    match = _ITEM.fullmatch(text)
    if match is None:
        raise SignatureError(f"{line!r}: cannot read {text!r}")
    groups = match.groupdict()
    groups["limit"] = int(groups["limit"]) if groups["limit"] else None
    groups["type"] = groups["type"] or ""
    item = Item(**groups)
    known = item.constant or item.type in (*LETTERS, *OBJECTS, "s?", "bytes", "ndarray", "tuple")
    if not known and not item.is_list:
        raise SignatureError(f"{line!r}: unknown type in {text!r}")
    return item


def _items(text: str, line: str) -> tuple[Item, ...]:
    return tuple(_item(part.strip(), line) for part in text.split(",") if part.strip())


def name_of(line: str) -> str:
    return line.partition("(")[0]


def parse(line: str) -> Call:
    match = re.fullmatch(rf"({_NAME})\((.*?)\) -> (.+)", line)
    if match is None:
        raise SignatureError(f"{line!r} is not 'name(arguments) -> result'")
    name, inside, result = match.groups()
    items = () if inside == "*" else _items(inside, line)
    if result == "None":
        shape, results = "none", ()
    else:
        results = _items(result.strip("()"), line)
        shape = "tuple" if result[0] == "(" else "code" if results[0].name == "code" else "bare"
    call = Call(
        name=name,
        arguments=tuple(i for i in items if i.constant is None),
        constants=tuple(i for i in items if i.constant is not None),
        any_arguments=inside == "*",
        shape=shape,
        results=results,
    )
    if call.module not in MODULES:
        raise SignatureError(f"{line!r}: there is no submodule {call.module!r}")
    return call
