"""The ABI as data: reads the TOML files beside this module into frozen dataclasses and checks them.

Owns the file format. Must never know about any output: that is what the emit_*.py modules are for.

Keys, beyond what their names say:
  value, torch_npu  the value in CANN 9.1, and in the headers inside torch-npu 2.13 where it differs
                    ("absent": no such name there; torch_npu alone: no such name in CANN 9.1)
  only              header generation of a whole file that exists in one generation alone
  lib               the library (lib<lib>.so) whose column holds the function; "none": none has it
  emu               full | partial | stub | absent, see the coverage page
  same              the call of the acl layer whose body a function of the runtime layer shares
  linked            known binaries that need the name at load time
  out               parameters through which the function answers
  acl               call(s) of the vendor's Python module `acl`, in the notation of pyacl.py
  by_hand           the C of these calls is written by hand (true: all of the row)
  acl_text          "python": a bad argument raises CPython's own text, not the module's
  waits             the call may block until work is done; a call that submits may wait for room
  slow              the call takes long without waiting: Python lets other threads run meanwhile
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyacl

ABI_DIR = Path(__file__).resolve().parent
EMU_STATES = ("full", "partial", "stub", "absent")
CLIENTS = ("torch_npu", "onnxruntime_cann")
STATUS_TYPES = ("aclError", "aclnnStatus", "rtError_t")
LAYERS = ("acl", "runtime", "graph engine", "aclnn")

Answer = Literal["status", "profiling off", "pointer", "value", "void"]
Table = dict[str, Any]


class AbiError(ValueError):
    """A row of the ABI tables is wrong; the text names file and row."""


@dataclass(frozen=True)
class TypeDef:
    name: str
    kind: str  # handle | alias | opaque | callback | tag
    definition: str
    header: str
    torch_npu: str | None


@dataclass(frozen=True)
class Const:
    name: str
    kind: str  # "define", or the C type of a static const
    value: str | None
    torch_npu: str | None
    header: str

    @property
    def is_string(self) -> bool:
        return self.value is not None and self.value.startswith('"')

    @property
    def number(self) -> int:
        if self.value is None:
            raise AbiError(f"const {self.name} has no value in CANN 9.1")
        return int(re.sub(r"(?i)(?<=[0-9a-f])u?l{0,2}$", "", self.value.strip("() ")), 0)


@dataclass(frozen=True)
class Member:
    name: str
    value: int | None
    torch_npu: int | str | None


@dataclass(frozen=True)
class Enum:
    name: str
    members: tuple[Member, ...]
    torch_npu: str | None
    header: str
    scoped: bool  # an enum class in C++, because that is how its only header declares it

    @property
    def current(self) -> tuple[tuple[str, int], ...]:
        return tuple((m.name, m.value) for m in self.members if m.value is not None)


@dataclass(frozen=True)
class Field:
    name: str  # "a.b": member b of the nested union or struct a; "<anon>": without a name
    type: str
    offset: int
    size: int
    bits: int
    torch_npu: str | None
    cxx_tag: str


@dataclass(frozen=True)
class Struct:
    name: str
    kind: str  # struct | union
    size: int
    fields: tuple[Field, ...]
    torch_npu: str | None
    header: str


@dataclass(frozen=True)
class Param:
    name: str
    decl: str


@dataclass(frozen=True)
class PythonCall:
    """A function of the Python module `acl`."""

    call: pyacl.Call
    by_hand: bool
    python_text: bool
    releases_gil: bool
    source: str
    function: Function | None = None  # None: nothing of the ABI stands behind it
    looks: bool = False  # at what the device has done: releases the GIL in modelled time


@dataclass(frozen=True)
class Function:
    name: str
    ret: str
    params: tuple[Param, ...]
    variadic: bool
    header: str
    lib: str
    emu: str
    area: str
    tier: int
    linked: tuple[str, ...]
    out: tuple[str, ...]
    python_calls: tuple[PythonCall, ...]
    waits: bool
    deprecated: bool
    torch_npu: str | None
    note: str
    source: str
    same: str = ""

    @property
    def acl(self) -> tuple[str, ...]:
        """Names in the Python module."""
        return tuple(c.call.name for c in self.python_calls)

    @property
    def exported(self) -> bool:
        return self.emu != "absent"

    @property
    def answer(self) -> Answer:
        """How the function says "no" when nothing implements it."""
        if self.ret == "void":
            return "void"
        if self.name.startswith("Msprof"):
            return "profiling off"
        if self.ret in STATUS_TYPES or (self.ret in ("int", "int32_t")):
            return "status"
        return "pointer" if "*" in self.ret or self.ret in _POINTER_HANDLES else "value"

    def signature(self, name: str) -> str:
        inside = ", ".join([p.decl for p in self.params] + (["..."] if self.variadic else []))
        gap = "" if self.ret.endswith("*") else " "
        return f"{self.ret}{gap}{name}({inside or 'void'})"


_POINTER_HANDLES = ("aclrtBinary", "aclrtAllocatorDesc")


@dataclass(frozen=True)
class CxxSymbol:
    mangled: str
    sig: str
    lib: str
    emu: str
    answers: str
    linked: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Code:
    name: str
    value: int
    layer: str
    meaning: str
    hint: str
    general: bool


@dataclass(frozen=True)
class Library:
    name: str
    union: bool
    also: tuple[str, ...]
    names: tuple[str, ...]
    skip_empty: bool


@dataclass(frozen=True)
class Header:
    path: str
    include: tuple[str, ...]
    only: str | None


@dataclass(frozen=True)
class Soc:
    name: str
    values: Table
    limits: Table


@dataclass(frozen=True)
class Model:
    headers: tuple[Header, ...]
    types: tuple[TypeDef, ...]
    consts: tuple[Const, ...]
    enums: tuple[Enum, ...]
    structs: tuple[Struct, ...]
    functions: tuple[Function, ...]
    cxx: tuple[CxxSymbol, ...]
    codes: tuple[Code, ...]
    libs: tuple[Library, ...]
    socs: tuple[Soc, ...]
    timing: Table
    pure_calls: tuple[PythonCall, ...]  # of the Python module, with no function behind them
    absent_calls: tuple[str, ...]  # what the vendor's Python module has and ours has not

    def python_calls(self) -> tuple[PythonCall, ...]:
        """Everything in the Python module `acl`, by name."""
        looks = self.timing["calls"]["looks"]
        with_function = [
            replace(c, function=f, looks=f.name in looks)
            for f in self.functions
            for c in f.python_calls
        ]
        return tuple(sorted((*with_function, *self.pure_calls), key=lambda c: c.call.name))

    def column(self, lib: Library) -> tuple[Function, ...]:
        """The C functions that lib<name>.so exports, in name order."""
        wanted = {lib.name, *lib.also}
        return tuple(
            f
            for f in self.functions
            if f.exported and (lib.union or f.lib in wanted or f.name in lib.names)
        )

    def codes_by_value(self) -> tuple[Code, ...]:
        """One code per value, in value order: several layers name the same value."""
        best: dict[int, Code] = {}
        for code in sorted(self.codes, key=lambda c: (LAYERS.index(c.layer), "NONE" in c.name)):
            best.setdefault(code.value, code)
        return tuple(sorted(best.values(), key=lambda c: c.value))

    def cxx_column(self, lib: Library) -> tuple[CxxSymbol, ...]:
        wanted = {lib.name, *lib.also}
        return tuple(c for c in self.cxx if c.emu != "absent" and c.lib in wanted)


@dataclass
class _Rows:
    """Collects rows while the files are read."""

    headers: list[Header] = field(default_factory=list)
    types: list[TypeDef] = field(default_factory=list)
    consts: list[Const] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    structs: list[Struct] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)


def split_params(text: str) -> tuple[str, ...]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip() not in ("", "void"):
        parts.append(current.strip())
    return tuple(parts)


def param_name(decl: str) -> str:
    inner = re.search(r"\(\*\s*(?:const\s+)?(\w+)\)", decl)
    outer = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", decl)
    found = inner or outer
    if found is None:
        raise AbiError(f"parameter without a name: {decl!r}")
    return found.group(1)


def _names(value: str | list[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _python_calls(row: Table) -> tuple[PythonCall, ...]:
    by_hand = row.get("by_hand", False)
    found = []
    for line in _names(row.get("acl")):
        call = pyacl.parse(line)
        found.append(
            PythonCall(
                call,
                by_hand=call.needs_hand or by_hand is True or call.name in _names(by_hand or None),
                python_text=row.get("acl_text") == "python",
                releases_gil=row.get("waits", False) or row.get("slow", False),
                source=row["source"],
            )
        )
    return tuple(found)


def _function(name: str, row: Table, header: str) -> Function:
    match = re.fullmatch(r"(.+?) \((.*)\)", row["sig"])
    if match is None:
        raise AbiError(f"fn.{name}: sig {row['sig']!r} is not 'ret (params)'")
    decls = split_params(match.group(2))
    function = Function(
        name=name,
        ret=match.group(1),
        params=tuple(Param(param_name(d), d) for d in decls if d != "..."),
        variadic="..." in decls,
        header=header,
        lib=row["lib"],
        emu=row["emu"],
        area=row["area"],
        tier=row["tier"],
        linked=_names(row.get("linked")),
        out=_names(row.get("out")),
        python_calls=_python_calls(row),
        waits=row.get("waits", False),
        deprecated=row.get("deprecated", False),
        torch_npu=row.get("torch_npu"),
        note=row.get("note", ""),
        source=row["source"],
        same=row.get("same", ""),
    )
    _check_function(function)
    return function


def _check_function(function: Function) -> None:
    if function.emu not in EMU_STATES:
        raise AbiError(f"fn.{function.name}: emu {function.emu!r} is not one of {EMU_STATES}")
    unknown = set(function.out) - {p.name for p in function.params}
    if unknown:
        raise AbiError(f"fn.{function.name}: out names no parameter: {sorted(unknown)}")
    strangers = set(function.linked) - set(CLIENTS)
    if strangers:
        raise AbiError(f"fn.{function.name}: unknown client {sorted(strangers)}")
    if function.linked and not function.exported:
        raise AbiError(f"fn.{function.name}: a linked function cannot be absent, make it a stub")
    if function.lib == "none" and function.exported:
        raise AbiError(f"fn.{function.name}: exported, but no library holds it (lib = none)")


def _enum(name: str, row: Table, header: str, only: str | None) -> Enum:
    members = []
    for member, value in row["members"].items():
        entry = value if isinstance(value, dict) else {"value": value}
        members.append(Member(member, entry.get("value"), entry.get("torch_npu")))
    scoped = only == "torch_npu" and "class" in row.get("torch_npu", "")
    return Enum(name, tuple(members), row.get("torch_npu"), header, scoped)


def _struct(name: str, row: Table, header: str) -> Struct:
    fields = tuple(
        Field(
            f["name"],
            f["type"],
            f["offset"],
            f["size"],
            f.get("bits", 0),
            f.get("torch_npu"),
            f.get("cxx_tag", ""),
        )
        for f in row["fields"]
    )
    return Struct(name, row["kind"], row["size"], fields, row.get("torch_npu"), header)


def _read_header(table: Table, rows: _Rows) -> None:
    header = table["header"]
    rows.headers.append(Header(header, tuple(table["include"]), table.get("only")))
    for name, row in table.get("type", {}).items():
        rows.types.append(
            TypeDef(name, row["kind"], row.get("def", ""), header, row.get("torch_npu"))
        )
    for name, row in table.get("const", {}).items():
        rows.consts.append(Const(name, row["kind"], row.get("value"), row.get("torch_npu"), header))
    rows.enums += [_enum(n, r, header, table.get("only")) for n, r in table.get("enum", {}).items()]
    rows.structs += [_struct(n, r, header) for n, r in table.get("struct", {}).items()]
    rows.functions += [_function(n, r, header) for n, r in table.get("fn", {}).items()]


def _codes(table: Table, consts: list[Const]) -> Iterator[Code]:
    values = {c.name: c for c in consts}
    for name, row in table["code"].items():
        if row["layer"] not in LAYERS:
            raise AbiError(f"code.{name}: layer {row['layer']!r} is not one of {LAYERS}")
        if name in values and values[name].value is None:
            continue  # torch-npu's headers only
        value = row["value"] if "value" in row else values[name].number
        yield Code(
            name,
            value,
            row["layer"],
            row["meaning"],
            row.get("hint", ""),
            row.get("general", False),
        )


def _cxx(table: Table) -> tuple[CxxSymbol, ...]:
    return tuple(
        CxxSymbol(n, r["sig"], r["lib"], r["emu"], r["answers"], _names(r["linked"]), r["source"])
        for n, r in table["cxx"].items()
    )


def _libs(table: Table) -> tuple[Library, ...]:
    return tuple(
        Library(
            name,
            row.get("union", False),
            tuple(row.get("also", ())),
            tuple(row.get("names", ())),
            row.get("when_empty") == "skip",
        )
        for name, row in table["lib"].items()
    )


def _socs(table: Table) -> tuple[Soc, ...]:
    families = table["family"]
    return tuple(Soc(name, row, families[row["family"]]) for name, row in table["soc"].items())


def _check_unique(model: Model) -> None:
    seen: dict[str, str] = {}
    groups = (model.types, model.consts, model.enums, model.structs, model.functions)
    for row in (r for group in groups for r in group):
        if row.name in seen:
            raise AbiError(f"{row.name} is declared in {seen[row.name]} and in {row.header}")
        seen[row.name] = row.header
    known = {lib.name for lib in model.libs} | {"none"}
    for function in model.functions:
        if function.lib not in known:
            raise AbiError(f"fn.{function.name}: libs.toml has no library {function.lib!r}")
    calls = [c.call.name for c in model.python_calls()]
    doubles = {name for name in calls if calls.count(name) > 1} | set(calls) & set(
        model.absent_calls
    )
    if doubles:
        raise AbiError(f"acl: named twice: {sorted(doubles)}")


def load(folder: Path = ABI_DIR) -> Model:
    """Read every *.toml of the folder. Raises AbiError with the row's name."""
    rows = _Rows()
    special: dict[str, Table] = {}
    for path in sorted(folder.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if "header" in table:
            _read_header(table, rows)
        else:
            special[path.stem] = table
    model = Model(
        headers=tuple(rows.headers),
        types=tuple(rows.types),
        consts=tuple(rows.consts),
        enums=tuple(rows.enums),
        structs=tuple(rows.structs),
        functions=tuple(sorted(rows.functions, key=lambda f: f.name)),
        cxx=_cxx(special["ge_cxx"]),
        codes=tuple(_codes(special["codes"], rows.consts)),
        libs=_libs(special["libs"]),
        socs=_socs(special["soc"]),
        timing=special["timing"],
        pure_calls=tuple(c for r in special["pyacl"]["call"].values() for c in _python_calls(r)),
        absent_calls=tuple(
            f"{module}.{name}"
            for module, names in special["pyacl"]["absent"].items()
            for name in names
        ),
    )
    _check_unique(model)
    return model
