"""A library set whose every function answers 0, made from the ABI tables.

Owns: writing and compiling it. Must never contain behaviour: status 0, null pointers, size 0.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import model  # csrc/abi, on the path by conftest.py
from emit_core import CORE_MARKER


def source() -> str:
    """Return C source: one function per name of the tables, and the emulator's marker.

    Parameters are left out: callers clean up after themselves on every supported architecture.
    """
    tables = model.load()
    lines = [f"const int {CORE_MARKER} = 1;"]
    for function in sorted(tables.functions, key=lambda each: each.name):
        kind = function.ret if function.ret in ("void", "float", "double") else "long long"
        body = "{}" if kind == "void" else "{ return 0; }"
        lines.append(f"{kind} {function.name}() {body}")
    return "\n".join(lines) + "\n"


def build(folder: Path) -> Path:
    """Compile the set into a folder under the vendor's library names; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / "zero.c"
    code.write_text(source(), encoding="utf-8")
    for name in ("libascendcl.so", "libacl_rt.so"):
        command = ["cc", "-std=c11", "-w", "-O1", "-fPIC", "-shared", f"-Wl,-soname,{name}"]
        subprocess.run([*command, "-o", str(folder / name), str(code)], check=True, timeout=60)
    return folder
