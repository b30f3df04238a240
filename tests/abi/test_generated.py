"""The committed generated files are what the tables give, and the tables refuse nonsense."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import check_full
import generate
import model as abi
import pytest


def test_generated_files_are_up_to_date(root: Path, tables: abi.Model) -> None:
    files = generate.outputs(tables)
    assert generate.outdated(files, root) == []
    assert generate.stale(files, root) == []


def test_every_function_is_there(tables: abi.Model) -> None:
    kinds = Counter(f.name[:3].lower() for f in tables.functions)
    assert kinds["acl"] == 744
    of_clients = {f.name for f in tables.functions if f.linked or not f.name.startswith("rt")}
    assert {name for name in of_clients if name.startswith(("rt", "Msprof"))} == {
        "MsprofGetHashId",
        "MsprofRegisterCallback",
        "MsprofReportAdditionalInfo",
        "MsprofReportApi",
        "MsprofReportCompactInfo",
        "MsprofSysCycleTime",
        "rtDevBinaryRegister",
        "rtFunctionRegister",
        "rtGetC2cCtrlAddr",
        "rtKernelLaunch",
    }
    runtime = [f for f in tables.functions if f.name.startswith("rt") and not f.linked]
    assert len(runtime) == 99 and {f.lib for f in runtime} == {"runtime"}
    linked = Counter(client for f in tables.functions for client in f.linked)
    assert linked == {"torch_npu": 102, "onnxruntime_cann": 59}
    assert all(f.source for f in tables.functions)


def test_coverage_adds_up(tables: abi.Model, root: Path) -> None:

    table = json.loads((root / "ascendrt/_gen/coverage.json").read_text(encoding="utf-8"))
    assert sum(table["totals"].values()) == len(table["functions"]) == len(tables.functions)
    for state, total in table["totals"].items():
        assert total == sum(area[state] for area in table["areas"])
        assert total == sum(f["emu"] == state for f in table["functions"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('emu = "', 'emu = "wrong', "is not one of"),
        ('out = ["', 'out = ["no_such_', "out names no parameter"),
        ('lib = "', 'lib = "no_such_', "has no library"),
        ('linked = ["torch_npu"', 'linked = ["somebody"', "unknown client"),
        ('sig = "aclError (', 'sig = "aclError', "is not 'ret (params)'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, root: Path, old: str, new: str, words: str) -> None:
    for path in (root / "csrc" / "abi").glob("*.toml"):
        shutil.copy(path, tmp_path)
    target = tmp_path / "acl_rt.toml"
    text = target.read_text(encoding="utf-8")
    assert old in text
    target.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(abi.AbiError, match=re.escape(words)) as caught:
        abi.load(tmp_path)
    assert "fn." in str(caught.value)


def test_full_needs_a_test_per_rule(tables: abi.Model) -> None:
    name = next(f.name for f in tables.functions if f.exported)
    claimed = _with_state(tables, name, "full")
    rules = "\n".join(
        f'[[rule]]\nid = "{rule}"\nfunctions = ["{name}"]\nmark = ["{mark}"]\n{extra}'
        for rule, mark, extra in (
            ("S1", "S", ""),
            ("S2", "D", ""),
            ("S3", "G", ""),
            ("S4", "S", 'blocked = "no way"\n'),
        )
    )
    assert len(check_full.unproven(claimed, rules, [])) == 3
    half = '@pytest.mark.rule("S1")\ndef test_one() -> None: ...\n'
    assert check_full.unproven(claimed, rules, [half]) == [
        f"{name} is full, but no conformance test shows rule S2"
    ]
    other = 'rule = pytest.mark.rule\n@rule("S2")\ndef test_two() -> None: ...\n'
    assert check_full.unproven(claimed, rules, [half, other]) == []
    assert check_full.unproven(_with_state(tables, name, "partial"), rules, []) == []
    assert check_full.unproven(claimed, "", []) == [
        f"{name} is full, but no conformance test shows any rule of it"
    ]


def test_full_rows_of_the_tables_are_proven(tables: abi.Model, root: Path) -> None:
    assert check_full.check(tables, root) == []


def _with_state(tables: abi.Model, name: str, state: str) -> abi.Model:
    from dataclasses import replace

    functions = tuple(
        replace(f, emu=state if f.name == name else "absent", linked=()) for f in tables.functions
    )
    return replace(tables, functions=functions)


def test_rows_and_bodies_agree(tables: abi.Model, root: Path) -> None:
    """A body under emulator/abi means full or partial, and the other way round."""
    pattern = re.compile(r"^(?!\s|//|extern).*\bart_emu_(\w+)\(", re.MULTILINE)
    files = [*(root / "emulator" / "abi").glob("*.cpp"), root / "emulator/gen/rt_entries.cpp"]
    texts = [p.read_text(encoding="utf-8") for p in files]
    bodies = {name for text in texts for name in pattern.findall(text)}
    names = {c.mangled for c in tables.cxx} | {f.name for f in tables.functions}
    rows = {f.name for f in tables.functions if f.emu in ("full", "partial")}
    rows |= {c.mangled for c in tables.cxx if c.emu in ("full", "partial")}
    assert bodies <= names
    assert bodies - rows == set(), "bodies exist, so the rows of the tables must say so"
    assert rows - bodies == set(), "the rows promise what no file implements"
