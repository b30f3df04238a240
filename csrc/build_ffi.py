"""Writes the C source of ascendrt._cffi (cffi, API mode): python build_ffi.py OUTPUT.c

The module sees the ABI functions under their vendor names; gen/all.h turns each into a trampoline
of libascendrt_bind.so. It adds the functions of binding.h.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent


def binding_functions() -> str:
    """The prototypes of binding.h as cffi reads them."""
    text = (HERE / "binding.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(re.findall(r"^ART_BIND ([^;]+;)", text, flags=re.MULTILINE))


def builder() -> cffi.FFI:
    ffi = cffi.FFI()
    ffi.cdef((HERE / "gen" / "cdef.h").read_text(encoding="utf-8"))
    ffi.cdef(binding_functions())
    preamble = '#include "gen/all.h"\n#include "binding.h"\n'
    ffi.set_source("ascendrt._cffi", preamble)
    return ffi


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    builder().emit_c_code(sys.argv[1])
