"""What the Python package reads: enums, codes, typed stubs of the functions, the coverage table."""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter

from c_text import NOTICE
from model import EMU_STATES, Enum, Function, Model


def _enum(enum: Enum) -> str:
    body = "\n".join(f"    {name} = {value}" for name, value in enum.current)
    return f'class {enum.name}(IntEnum):\n    """{enum.header}."""\n\n{body}\n'


def emit_enums(model: Model) -> str:
    enums = [e for e in model.enums if e.current]
    classes = "\n\n".join(_enum(e) for e in enums)
    head = f'"""The enums of the ABI, one IntEnum each. {NOTICE}."""'
    return f"{head}\n\nfrom enum import IntEnum\n\n\n{classes}"


def emit_members(model: Model) -> str:
    lines = [
        f"{name}: Final = enums.{enum.name}.{name}"
        for enum in model.enums
        for name, _ in enum.current
    ]
    head = f'"""The members of all enums under their own names. {NOTICE}."""'
    body = "\n".join(lines)
    return f"{head}\n\nfrom typing import Final\n\nfrom ascendrt._gen import enums\n\n{body}\n"


def emit_constants(model: Model) -> str:
    lines = []
    for const in model.consts:
        if const.value is None or const.name == "OK":
            continue
        value = const.value if const.is_string else str(const.number)
        lines.append(f"{const.name}: Final = {value}")
    body = "\n".join(lines)
    head = f'"""The constants of the ABI headers. {NOTICE}."""'
    return f"{head}\n\nfrom typing import Final\n\n{body}\n"


def emit_chips(model: Model) -> str:
    names = "\n".join(f'    "{soc.name}",' for soc in model.socs)
    head = f'"""The chips that can be emulated. {NOTICE}."""'
    return f"{head}\n\nfrom typing import Final\n\nCHIPS: Final = (\n{names}\n)\n"


def _quoted(*texts: str) -> str:
    return ", ".join(json.dumps(t) for t in texts)


def emit_codes(model: Model) -> str:
    rows = "\n".join(
        f"    {c.value}: Code({_quoted(c.name, c.layer, c.meaning, c.hint)}),"
        for c in model.codes_by_value()
    )
    return f'''"""The status codes: name, meaning, likely cause and fix. {NOTICE}."""

from typing import Final, NamedTuple


class Code(NamedTuple):
    """One status code."""

    name: str
    layer: str
    meaning: str
    hint: str


CODES: Final[dict[int, Code]] = {{
{rows}
}}
'''


def _python_type(decl: str, enums: frozenset[str]) -> str:
    if "*" in decl or "[" in decl:
        return "CData"
    words = [w for w in re.findall(r"\w+", decl) if w not in ("const", "struct", "enum")]
    base = words[0] if words else "void"
    if base == "void":
        return "None"
    if base in ("float", "double"):
        return "float"
    integer = base in enums or re.fullmatch(
        r"u?int\d*_t|size_t|int|bool|acl(nnStatus|Error|Float16)|rtError_t", base
    )
    return "int" if integer else "CData"


def _stub(function: Function, enums: frozenset[str]) -> str:
    params = []
    for param in function.params:
        name = param.name + ("_" if keyword.iskeyword(param.name) else "")
        params.append(f"{name}: {_python_type(param.decl, enums)}")
    params += ["*arguments: CData"] if function.variadic else []
    inside = ", ".join(["self", *params])
    return f"    def {function.name}({inside}) -> {_python_type(function.ret, enums)}: ..."


def emit_stubs(model: Model) -> str:
    enums = frozenset(e.name for e in model.enums) | frozenset(
        t.name for t in model.types if t.kind == "tag" and t.definition.startswith("enum")
    )
    methods = "\n".join(_stub(f, enums) for f in model.functions)
    return f'''# {NOTICE}
from typing import Any, Protocol, TypeAlias

CData: TypeAlias = Any  # a pointer, handle or structure of cffi

class Functions(Protocol):
    """Every function of the ABI as `ascendrt._cffi.lib` has it."""

{methods}
'''


def _row(function: Function) -> dict[str, object]:
    row: dict[str, object] = {
        "name": function.name,
        "area": function.area,
        "tier": function.tier,
        "emu": function.emu,
        "lib": function.lib,
    }
    optional = {
        "linked": list(function.linked),
        "acl": list(function.acl),
        "out": list(function.out),
        "waits": function.waits,
    }
    return row | {key: value for key, value in optional.items() if value}


def emit_coverage(model: Model) -> str:
    totals = Counter(f.emu for f in model.functions)
    areas: dict[tuple[str, int], Counter[str]] = {}
    for function in model.functions:
        areas.setdefault((function.area, function.tier), Counter())[function.emu] += 1
    table = [
        {"area": area, "tier": tier, **{s: counts[s] for s in EMU_STATES}}
        for (area, tier), counts in sorted(areas.items())
    ]
    rows = ",\n  ".join(json.dumps(_row(f)) for f in model.functions)
    groups = ",\n  ".join(json.dumps(g) for g in table)
    return (
        f'{{"notice": "{NOTICE}",\n "totals": {json.dumps({s: totals[s] for s in EMU_STATES})},\n'
        f' "areas": [\n  {groups}],\n "functions": [\n  {rows}]}}\n'
    )
