"""The timing table: one row of figures per chip, from timing.toml and soc.toml.

One emit_x(model) -> str. Must never: hold a figure of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from c_text import NOTICE
from model import AbiError, Model, Soc

_LANES = 128  # fp16 lanes of a vector unit


def _flat(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)):
            yield prefix + key, float(value)


def _vector_tops(soc: Soc) -> float:
    row = soc.values
    units = row["vector_core"] if row["split_cores"] else row["ai_core"] + row["vector_core"]
    return max(1, units) * _LANES * row["vector_mhz"] / 1e6


def _row(soc: Soc, model: Model) -> dict[str, float]:
    family = soc.values["family"]
    sets = [table for table in model.timing["set"].values() if family in table["families"]]
    if len(sets) != 1:
        raise AbiError(f"timing.toml: family {family} is in {len(sets)} sets, not in one")
    row = {
        "cube.fp16_tflops": soc.values["fp16_tflops"],
        "cube.int8_tops": soc.values["int8_tops"],
        "vector.tops": round(_vector_tops(soc), 4),
        "memory.gbps": soc.values["memory_gbps"],
    }
    shared = dict(_flat(sets[0]))
    own = dict(_flat(model.timing.get("family", {}).get(family, {})))
    own |= dict(_flat(model.timing.get("soc", {}).get(soc.name, {})))
    if unknown := own.keys() - row.keys() - shared.keys():
        raise AbiError(f"timing.toml: {sorted(unknown)} of {soc.name} are no keys of its set")
    return row | shared | own


def emit_timing(model: Model) -> str:
    rows = {soc.name: _row(soc, model) for soc in model.socs}
    keys = list(next(iter(rows.values())))
    if odd := [name for name, row in rows.items() if list(row) != keys]:
        raise AbiError(f"timing.toml: {odd} have other keys than the first chip")
    members = {key: key.replace(".", "_") for key in keys}
    fields = "\n".join(f"  double {member};" for member in members.values())
    table = "\n".join(f'    {{"{key}", &TimingRow::{name}}},' for key, name in members.items())
    figures = {name: ", ".join(f"{row[key]:g}" for key in keys) for name, row in rows.items()}
    lines = "\n".join(f'    {{"{name}", {{{text}}}}},' for name, text in figures.items())
    return f"""// {NOTICE}
// How long things take on the modelled clock. Sources and guesses: csrc/abi/timing.toml.
#pragma once

namespace ascendrt::gen {{

struct TimingRow {{
{fields}
}};

struct TimingKey {{
  const char* name;
  double TimingRow::*field;
}};

inline constexpr TimingKey kTimingKeys[] = {{
{table}
}};

struct SocTiming {{
  const char* soc;
  TimingRow row;
}};

inline constexpr SocTiming kSocTimings[] = {{
{lines}
}};

}}  // namespace ascendrt::gen
"""


def _call_rows(model: Model) -> Iterator[str]:
    figures = {name: figure for figure, names in model.timing["calls"].items() for name in names}
    known = [function.name for function in model.functions]
    if unknown := figures.keys() - set(known):
        raise AbiError(f"timing.toml: [calls] names {sorted(unknown)}, which are no functions")
    for name in (name for name in known if name in figures):
        figure = "query" if figures[name] == "looks" else figures[name]
        field = "nullptr" if figure == "none" else f"&TimingRow::host_{figure}_us"
        yield f"    {{ApiId::{name}, {field}, {str(figure == 'query').lower()}}},"


def emit_call_costs(model: Model) -> str:
    rows = "\n".join(_call_rows(model))
    return f"""// {NOTICE}
// What calls cost their thread on the modelled clock, by ApiId. Source: csrc/abi/timing.toml.
#pragma once

#include "gen/api_id.hpp"
#include "gen/timing.inc"

namespace ascendrt::gen {{

struct CallFigure {{
  ApiId api;
  double TimingRow::*figure;  // null: nothing
  bool looks;                 // answers what the device has done until now
}};

inline constexpr CallFigure kCallFigures[] = {{
{rows}
}};

}}  // namespace ascendrt::gen
"""
