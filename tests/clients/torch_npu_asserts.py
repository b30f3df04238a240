"""The ABI tables as static asserts against foreign headers: those inside the torch-npu wheel.

Owns the choice of rows (a header that exists there, a row not marked absent there) and of values
(the row's `torch_npu` override, else its own). Reads the tables through csrc/abi/model.py alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ABI = Path(__file__).resolve().parents[2] / "csrc" / "abi"
ABSENT = "absent"


def load_model() -> Any:
    sys.path.insert(0, str(ABI))
    try:
        import model
    finally:
        sys.path.remove(str(ABI))
    assert isinstance(model, ModuleType)
    return model.load()


def asserts(model: Any, headers: set[str]) -> tuple[str, Counter[str]]:
    """C++17 text that includes `headers` and asserts their rows; how many rows of each kind."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    for kind, rows in (
        ("enum value", enum_values(model, headers)),
        ("constant", constants(model, headers)),
        ("layout", layouts(model, headers)),
        ("signature", signatures(model, headers)),
    ):
        found = list(rows)
        counts[kind] = len(found)
        lines += found
    includes = [f'#include "{header}"' for header in sorted(headers)]
    system = ["#include <cstddef>", "#include <cstdint>", "#include <type_traits>"]
    return "\n".join([*system, *includes, "", *lines, ""]), counts


def enum_values(model: Any, headers: set[str]) -> Iterator[str]:
    for enum in model.enums:
        if enum.header not in headers or enum.torch_npu == ABSENT:
            continue
        scope = f"{enum.name}::" if "class" in (enum.torch_npu or "") else ""
        for member in enum.members:
            value = member.value if member.torch_npu is None else member.torch_npu
            if value != ABSENT:
                name = f"static_cast<long long>({scope}{member.name})"
                yield f'static_assert({name} == {value}, "{member.name}");'


def constants(model: Any, headers: set[str]) -> Iterator[str]:
    for const in model.consts:
        value = const.value if const.torch_npu is None else const.torch_npu
        if const.header in headers and value != ABSENT and not value.startswith('"'):
            yield f'static_assert({const.name} == ({value}), "{const.name}");'


def layouts(model: Any, headers: set[str]) -> Iterator[str]:
    for struct in model.structs:
        if struct.header not in headers or struct.torch_npu == ABSENT:
            continue
        name = struct.name
        yield f'static_assert(sizeof({name}) == {struct.size}, "{struct.name}");'
        for item in struct.fields:
            path = item.name.replace("<anon>.", "")
            if item.torch_npu != ABSENT and path != "<anon>" and not item.bits:
                label = f"{struct.name}.{path}"
                yield f'static_assert(offsetof({name}, {path}) == {item.offset}, "{label}");'


def signatures(model: Any, headers: set[str]) -> Iterator[str]:
    for function in model.functions:
        if function.header in headers and function.torch_npu != ABSENT:
            wanted = function.signature("(*)")
            yield (
                f"static_assert(std::is_same<decltype(&{function.name}), {wanted}>::value, "
                f'"{function.name}");'
            )
