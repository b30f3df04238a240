"""What the emulator compiles: types, prototypes, names, codes, chips, asserts, stub bodies."""

from __future__ import annotations

import json
import re

from c_text import NOTICE, constants_text, defines_text, types_text
from model import Code, Function, Model, Param, Soc

CORE_MARKER = "ascendrt_emu_marker"


def emit_abi_h(model: Model) -> str:
    everything = types_text(model)
    consts = "\n".join(
        line for line in constants_text(model).splitlines() if " OK =" not in line
    )  # the name OK is too common for a header that every layer includes
    return f"""// {NOTICE}
// All types, enums, structs and constants of the C ABI, for C11 and C++17.
#ifndef ASCENDRT_GEN_ABI_H_
#define ASCENDRT_GEN_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

{defines_text(model)}

{everything}

{consts}

#endif  // ASCENDRT_GEN_ABI_H_
"""


def emit_prototypes(model: Model) -> str:
    lines = "\n".join(f"ART_ENTRY {f.signature('art_emu_' + f.name)};" for f in model.functions)
    return f"""// {NOTICE}
// The entry points of the core: art_emu_<vendor name>. A facade forwards the vendor name to them.
// Declared here for every function; exported only as gen/export.map says.
#pragma once

#include "gen/abi.h"

#define ART_ENTRY __attribute__((visibility("default")))

extern "C" {{
{lines}
}}  // extern "C"
"""


def emit_api_id(model: Model) -> str:
    ids = ",\n".join(f"  {f.name}" for f in model.functions)
    names = ",\n".join(f'    "{f.name}"' for f in model.functions)
    return f"""// {NOTICE}
// A number for every function of the ABI, for events, counters and messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ascendrt {{

enum class ApiId : uint16_t {{
{ids}
}};

inline constexpr const char* kApiNames[] = {{
{names}}};
inline constexpr size_t kApiCount = sizeof(kApiNames) / sizeof(kApiNames[0]);

constexpr const char* api_name(ApiId id) {{ return kApiNames[static_cast<size_t>(id)]; }}

}}  // namespace ascendrt
"""


_CODES_HPP = f"""// {NOTICE}
// Name, meaning and "likely cause / fix" of every status code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace ascendrt {{

struct CodeText {{
  int32_t value;
  const char* name;
  const char* meaning;
  const char* hint;  // "likely cause; fix", "" where nothing is known
  const char* fix;   // what to do, for texts that do not say it; "" for codes of many causes
}};

inline constexpr CodeText kCodes[] = {{
@ROWS@
}};

// Null for a value that is no code.
constexpr const CodeText* find_code(int32_t value) {{
  const CodeText* found =
      std::lower_bound(std::begin(kCodes), std::end(kCodes), value,
                       [](const CodeText& code, int32_t wanted) {{ return code.value < wanted; }});
  return found != std::end(kCodes) && found->value == value ? found : nullptr;
}}

// For codes that are no constant of a header. A name that is no code does not compile.
consteval int32_t code_named(std::string_view name) {{
  for (const CodeText& code : kCodes) {{
    if (name == code.name) return code.value;
  }}
  throw "no such code";
}}

constexpr const char* code_name(int32_t value) {{
  const CodeText* code = find_code(value);
  return code != nullptr ? code->name : "unknown code";
}}

constexpr const char* code_meaning(int32_t value) {{
  const CodeText* code = find_code(value);
  return code != nullptr ? code->meaning : "";
}}

constexpr const char* code_hint(int32_t value) {{
  const CodeText* code = find_code(value);
  return code != nullptr ? code->hint : "";
}}

constexpr const char* code_fix(int32_t value) {{
  const CodeText* code = find_code(value);
  return code != nullptr ? code->fix : "";
}}

}}  // namespace ascendrt
"""


def _fix(code: Code) -> str:
    return "" if code.general else code.hint.rpartition("; ")[2]


def emit_codes(model: Model) -> str:
    rows = "\n".join(
        f"    {{{c.value}, {', '.join(map(json.dumps, (c.name, c.meaning, c.hint, _fix(c))))}}},"
        for c in model.codes_by_value()
    )
    return _CODES_HPP.replace("@ROWS@", rows)


_SOC_FIELDS = (
    ("npu_arch", "int32_t", ""),
    ("split_cores", "bool", "cube and vector cores are separate"),
    ("ai_core", "int32_t", ""),
    ("cube_core", "int32_t", ""),
    ("vector_core", "int32_t", ""),
    ("ai_cpu", "int32_t", ""),
    ("cube_mhz", "int32_t", ""),
    ("vector_mhz", "int32_t", ""),
    ("l2_bytes", "int64_t", ""),
    ("ub_bytes", "int64_t", "unified buffer of one core"),
    ("memory_bytes", "int64_t", ""),
    ("memory_gbps", "double", "GB/s, 1e9 bytes"),
    ("fp16_tflops", "double", ""),
    ("int8_tops", "double", ""),
    ("bf16", "bool", ""),
    ("inf_nan", "bool", "overflow mode is INF/NAN by default"),
)
_LIMIT_FIELDS = (
    ("streams", "int32_t", "per device, default streams included"),
    ("events", "int32_t", ""),
    ("notifies", "int32_t", ""),
    ("models", "int32_t", "0: no fixed number"),
    ("default_streams", "int32_t", "per context, the second one is internal"),
    ("sq_depth", "int32_t", "entries of a stream's queue"),
    ("tasks_per_stream", "int32_t", "in flight"),
    ("persistent_tasks", "int32_t", "of a model-bound stream; 0: unknown"),
    ("op_timeout_s", "int32_t", "AI core default"),
    ("op_timeout_max_s", "int32_t", "0: interval x 254"),
    ("aicpu_timeout_s", "int32_t", ""),
    ("timestamp_hz", "int64_t", ""),
    ("malloc_extra", "int32_t", "bytes added after rounding a size to 32"),
    ("huge_1g", "bool", "1 GB pages exist"),
    ("peer_access", "bool", ""),
    ("sat_selectable", "bool", "saturation can be chosen"),
)


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _soc_row(soc: Soc) -> str:
    values = [f'"{soc.name}"', f'"{soc.values["short"]}"', f'"{soc.values["family"]}"']
    values += [_literal(soc.values[f]) for f, _, _ in _SOC_FIELDS]
    values += [_literal(soc.limits[f]) for f, _, _ in _LIMIT_FIELDS]
    return "    {" + ", ".join(values) + "},"


def emit_soc(model: Model) -> str:
    fields = "\n".join(
        f"  {type_} {name};" + (f"  // {note}" if note else "")
        for name, type_, note in (*_SOC_FIELDS, *_LIMIT_FIELDS)
    )
    rows = "\n".join(_soc_row(s) for s in model.socs)
    return f"""// {NOTICE}
// The chips that can be emulated. Sources and guesses: csrc/abi/soc.toml.
#pragma once

#include <cstdint>
#include <string_view>

namespace ascendrt::gen {{

struct Soc {{
  const char* name;
  const char* short_name;
  const char* family;
{fields}
}};

inline constexpr Soc kSocs[] = {{
{rows}
}};

// Null when no chip has this name.
constexpr const Soc* find_soc(std::string_view name) {{
  for (const Soc& soc : kSocs) {{
    if (name == soc.name) return &soc;
  }}
  return nullptr;
}}

}}  // namespace ascendrt::gen
"""


def emit_layout_asserts(model: Model) -> str:
    lines = [
        f"static_assert({_static_value(e.name, e.scoped, n)} == {v});"
        for e in model.enums
        for n, v in e.current
    ]
    lines += [
        f"static_assert({c.name} == {c.value});"
        for c in model.consts
        if c.value is not None and not c.is_string and c.name != "OK"
    ]
    for struct in model.structs:
        lines.append(f"static_assert(sizeof({struct.kind} {struct.name}) == {struct.size});")
        lines += [
            f"static_assert(offsetof({struct.kind} {struct.name}, {path}) == {f.offset});"
            for f in struct.fields
            if (path := f.name.replace("<anon>.", "")) != "<anon>" and not f.bits
        ]
    return f"// {NOTICE}\n" + '#include "gen/abi.h"\n\n' + "\n".join(lines) + "\n"


def _static_value(enum: str, scoped: bool, member: str) -> str:
    return f"static_cast<int64_t>({enum}::{member})" if scoped else member


_STUB_ANSWERS = {
    "status": "return abi::stub_status(ApiId::{name});",
    "profiling off": "abi::stub_called(ApiId::{name});\n  return 0;",
    "pointer": "abi::stub_status(ApiId::{name});\n  return nullptr;",
    "value": "abi::stub_status(ApiId::{name});\n  return {{}};",
    "void": "abi::stub_status(ApiId::{name});",
}
_CXX_ANSWERS = {
    "status": ("uint32_t", "()", "return abi::stub_cxx_status({name}, said);"),
    "false": ("bool", "()", "abi::stub_cxx_called({name}, said);\n  return false;"),
    "void": ("void", "()", "abi::stub_cxx_called({name}, said);"),
    "object": (
        "void",
        "(void* self)",
        "abi::stub_cxx_called({name}, said);\n  std::memset(self, 0, 16);",
    ),
}


def _stub(function: Function) -> str:
    unnamed = re.sub(r"\n", " ", function.signature("art_emu_" + function.name))
    body = _STUB_ANSWERS[function.answer].format(name=function.name)
    return f"{unnamed} {{\n  {body}\n}}"


def _bare_type(param: Param) -> str:
    """The type of a parameter without a const of the parameter itself."""
    text = param.decl.removesuffix(param.name).strip()
    if "*" in text:
        return re.sub(r"\*\s*const$", "*", text)
    return text.removeprefix("const ")


def _shared_body(function: Function, by_name: dict[str, Function]) -> str:
    """The call of the acl layer with this function's arguments, cast where types have two names."""
    name, arguments = function.same.rstrip(")").split("(")
    target = by_name[name].params
    given = [argument.strip() for argument in arguments.split(",") if argument.strip()]
    if len(given) != len(target):
        raise ValueError(f"fn.{function.name}: same = {function.same!r} has a wrong argument count")
    passed = []
    for argument, param in zip(given, target, strict=True):
        wanted = _bare_type(param)
        own = next((p for p in function.params if p.name == argument), None)
        same_type = own is None or _bare_type(own) == wanted
        passed.append(argument if same_type else f"({wanted}){argument}")
    return f"return abi::runtime_code(art_emu_{name}({', '.join(passed)}));"


def emit_rt_entries(model: Model) -> str:
    by_name = {f.name: f for f in model.functions}
    bodies = []
    for function in model.functions:
        if function.same and function.emu in ("full", "partial"):
            head = re.sub(r"\n", " ", function.signature("art_emu_" + function.name))
            bodies.append(f"{head} {{\n  {_shared_body(function, by_name)}\n}}")
    text = "\n".join(bodies)
    return f"""// {NOTICE}
// Functions of the runtime layer that share a body with the acl layer (`same` in csrc/abi/rt.toml).
#include "abi/runtime_layer.hpp"
#include "gen/prototypes.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace abi = ascendrt::abi;

extern "C" {{
{text}
}}
"""


def emit_stubs(model: Model) -> str:
    bodies = "\n".join(_stub(f) for f in model.functions if f.emu == "stub")
    cxx = []
    for symbol in model.cxx:
        if symbol.emu == "stub":
            ret, params, body = _CXX_ANSWERS[symbol.answers]
            text = body.format(name=json.dumps(symbol.sig))
            said = "static std::atomic<bool> said{false};"
            cxx.append(
                f"ART_ENTRY {ret} art_emu_{symbol.mangled}{params} {{\n  {said}\n  {text}\n}}"
            )
    cxx_text = "\n".join(cxx)
    return f"""// {NOTICE}
// Bodies of what a known client links but nothing implements: each says so once and answers "no".
#include <atomic>
#include <cstring>

#include "abi/stub.hpp"
#include "gen/prototypes.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace abi = ascendrt::abi;
using ascendrt::ApiId;

extern "C" {{
ART_ENTRY extern const char {CORE_MARKER}[] = "ascendrt emulator";

{bodies}

{cxx_text}
}}  // extern "C"
"""


def emit_export_map(model: Model) -> str:
    names = [f"art_emu_{f.name}" for f in model.functions if f.exported]
    names += [f"art_emu_{c.mangled}" for c in model.cxx if c.emu != "absent"]
    lines = "\n".join(f"    {n};" for n in names)
    return f"""/* {NOTICE} */
{{
  global:
    {CORE_MARKER};
    art_ctl_*;
{lines}
  local:
    *;
}};
"""
