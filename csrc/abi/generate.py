"""Writes every generated file of the repository from csrc/abi/*.toml.

    python csrc/abi/generate.py               write what changed
    python csrc/abi/generate.py --check       write nothing, fail when a file is not up to date
    python csrc/abi/generate.py --check-full  fail when a `full` function has a rule without a test

Generated files are committed and never edited. Each output is one emit_x(model) -> str.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import check_full
import emit_aclmodule as aclmodule
import emit_c as c
import emit_core as core
import emit_docs as docs
import emit_facades as facades
import emit_python as py
import emit_timing as timing
import model as abi
from c_text import NOTICE

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("emulator/gen", "csrc/gen", "ascendrt/_gen")  # hold nothing but outputs


def outputs(model: abi.Model) -> dict[str, str]:
    """Path below the repository -> text."""
    files = {
        "emulator/gen/abi.h": core.emit_abi_h(model),
        "emulator/gen/prototypes.h": core.emit_prototypes(model),
        "emulator/gen/api_id.hpp": core.emit_api_id(model),
        "emulator/gen/codes.hpp": core.emit_codes(model),
        "emulator/gen/soc.inc": core.emit_soc(model),
        "emulator/gen/timing.inc": timing.emit_timing(model),
        "emulator/gen/call_costs.inc": timing.emit_call_costs(model),
        "emulator/gen/layout_asserts.cpp": core.emit_layout_asserts(model),
        "emulator/gen/stubs.cpp": core.emit_stubs(model),
        "emulator/gen/rt_entries.cpp": core.emit_rt_entries(model),
        "emulator/gen/export.map": core.emit_export_map(model),
    }
    files |= {
        "csrc/gen/all.h": c.emit_all_h(model),
        "csrc/gen/cdef.h": c.emit_cdef(model),
        "csrc/gen/table.inc": c.emit_table(model),
        "csrc/gen/aclmodule.c": aclmodule.emit_aclmodule(model),
        "csrc/gen/aclmodule_by_hand.h": aclmodule.emit_by_hand_h(model),
    }
    files |= {
        "ascendrt/_gen/enums.py": py.emit_enums(model),
        "ascendrt/_gen/members.py": py.emit_members(model),
        "ascendrt/_gen/constants.py": py.emit_constants(model),
        "ascendrt/_gen/chips.py": py.emit_chips(model),
        "ascendrt/_gen/codes.py": py.emit_codes(model),
        "ascendrt/_gen/functions.pyi": py.emit_stubs(model),
        "ascendrt/_gen/coverage.json": py.emit_coverage(model),
        "ascendrt/_gen/pyacl.json": aclmodule.emit_pyacl_json(model),
        "ascendrt/_gen/__init__.py": f'"""Generated modules. {NOTICE}."""\n',
    }
    files["docs/error-codes.md"] = docs.emit_error_codes(model)
    stubs = aclmodule.emit_stub_files(model)
    files |= {f"csrc/gen/acl-stubs/{p}": t for p, t in stubs.items()}
    files |= {f"csrc/gen/include/{p}": t for p, t in c.emit_public_headers(model).items()}
    files |= {f"emulator/gen/facades/{n}": t for n, t in facades.emit_facades(model).items()}
    return files


def stale(files: dict[str, str], root: Path) -> list[str]:
    """Files in the generated folders that nothing generates any more."""
    found = (p for folder in FOLDERS for p in (root / folder).rglob("*") if p.is_file())
    paths = (p.relative_to(root).as_posix() for p in found if p.suffix != ".pyc")
    return sorted(path for path in paths if path not in files)


def outdated(files: dict[str, str], root: Path) -> list[str]:
    return [
        path
        for path, text in files.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="fail when a file is not up to date")
    parser.add_argument("--check-full", action="store_true", help="`full` rows need their tests")
    options = parser.parse_args()
    model = abi.load()
    problems = check_full.check(model, ROOT)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if options.check_full or problems:
        return 1 if problems else 0
    files = outputs(model)
    changed, gone = outdated(files, ROOT), stale(files, ROOT)
    if options.check:
        for path in changed + gone:
            print(f"{path} is not up to date: run python csrc/abi/generate.py", file=sys.stderr)
        return 1 if changed or gone else 0
    for path in gone:
        (ROOT / path).unlink()
        print(f"removed {path}")
    for path in changed:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(files[path], encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
