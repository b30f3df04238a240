"""The facades: one assembly file of forwarders per library name, and the list of them for CMake.

A forwarder is a jump through the global offset table to art_emu_<name> in the core. Assembly,
because arguments (also variadic ones and structures by value) pass untouched, and so do
mangled names.
"""

from __future__ import annotations

from c_text import NOTICE
from model import Library, Model

_FORWARD_H = f"""/* {NOTICE} */
/* FORWARD(name): `name` jumps to art_emu_<name> of the core. No frame, only a scratch register. */
#if defined(__x86_64__)
#define FORWARD(name)                  \\
  .globl name;                         \\
  .type name, @function;               \\
  name: endbr64;                       \\
  jmp *art_emu_##name@GOTPCREL(%rip);  \\
  .size name, . - name
#elif defined(__aarch64__)
#define FORWARD(name)                       \\
  .globl name;                              \\
  .type name, %function;                    \\
  name: bti c;                              \\
  adrp x16, :got:art_emu_##name;            \\
  ldr x16, [x16, :got_lo12:art_emu_##name]; \\
  br x16;                                   \\
  .size name, . - name
#else
#error "no forwarder for this architecture: add the two instructions of a jump through the GOT"
#endif
#if defined(__ELF__)
  .section .note.GNU-stack, "", %progbits
#endif
  .text
"""


def shipped(model: Model) -> tuple[Library, ...]:
    return tuple(
        lib
        for lib in model.libs
        if not lib.skip_empty or model.column(lib) or model.cxx_column(lib)
    )


def _facade(model: Model, lib: Library) -> str:
    names = [f.name for f in model.column(lib)] + [c.mangled for c in model.cxx_column(lib)]
    lines = "\n".join(f"FORWARD({n})" for n in names)
    return f'/* {NOTICE} */\n#include "forward.h"\n{lines}\n'


def emit_facades(model: Model) -> dict[str, str]:
    """File name -> text, for the folder gen/facades."""
    libs = shipped(model)
    listing = "\n".join(f"  {lib.name}" for lib in libs)
    files = {f"lib{lib.name}.S": _facade(model, lib) for lib in libs}
    files["forward.h"] = _FORWARD_H
    files["facades.cmake"] = f"# {NOTICE}\nset(ART_FACADES\n{listing})\n"
    return files
