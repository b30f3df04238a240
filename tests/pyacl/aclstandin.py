"""A library set in which every function of the interface does one thing.

For facts that hold for all calls: the shape of an answer on success and on failure, and whether
other threads run meanwhile.

A second set notes what every function was given, for the way of arguments into C.

Owns: the C source of the sets, their build, and a child process that calls every row once. As a
program: python aclstandin.py MODE prints {name: answer} as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAILURE = 507899
# How long a function waits for another thread of Python: one that runs comes at once.
RUNNING_MS, STANDING_MS = 20000, 3
# Calls that end or change the process the children run in, or read memory at an address.
_OWN_WAYS = {"util.stop_thread", "util.start_thread", "util.ptr_to_bytes", "util.ptr_to_numpy"}
_HEAD = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static char text[1 << 20];
volatile int entered, seen, met, patience_ms;
static long answer(void) {
  static long code = -1;
  if (code < 0) code = atol(getenv("STANDIN_CODE"));
  ++entered;
  for (int ms = 0; ms < patience_ms && seen != entered; ++ms) usleep(1000);
  if (seen == entered) ++met;
  return code;
}
"""
_BODIES = {
    "status": "int {name}() {{ return (int)answer(); }}",
    "profiling off": "int {name}() {{ return (int)answer(); }}",
    "void": "void {name}() {{ answer(); }}",
    "pointer": "void *{name}() {{ return answer() == 0 ? text : 0; }}",
    "value": "{ret} {name}() {{ return answer() == 0 ? ({ret})7 : ({ret})0; }}",
}


def source(only: frozenset[str] | None = None) -> str:
    """The C of a set with every function, or with `only` some."""
    import model as abi

    lines = [_HEAD]
    for function in abi.load().functions:
        if only is not None and function.name not in only:
            continue
        if function.name == "aclrtGetDeviceCount":
            lines.append("int aclrtGetDeviceCount(uint32_t *count) { *count = 1; return 0; }")
            continue
        ret = function.ret if function.ret in ("float", "size_t", "uint64_t") else "long"
        lines.append(_BODIES[function.answer].format(name=function.name, ret=ret))
    return "\n".join(lines)


_ECHO_HEAD = """
#include <stdint.h>
#include <string.h>
uint64_t note[64][2], noted;
static void keep(const void *value, uint64_t size) {
  memcpy(&note[noted][1], value, size);
  note[noted++][0] = size;
}
#define NOTE(value) keep(&(value), sizeof(value))
void standin_forget(void) { memset(note, 0, sizeof note); noted = 0; }
"""


def echo_source() -> str:
    """The C of a set whose functions note size and bits of each parameter, in order."""
    import model as abi

    model = abi.load()
    headers = [f'#include "{h.path}"' for h in model.headers if h.path and h.only is None]
    lines = [*headers, _ECHO_HEAD]
    for function in model.functions:
        if not function.acl or function.variadic or function.name == "aclrtGetDeviceCount":
            continue
        notes = " ".join(f"NOTE({p.name});" for p in function.params)
        end = "" if function.ret == "void" else " return 0;"
        lines.append(f"{function.signature(function.name)} {{ {notes}{end} }}")
    lines.append("aclError aclrtGetDeviceCount(uint32_t *count) { *count = 1; return 0; }")
    return "\n".join(lines)


def build(folder: Path, text: str) -> Path:
    """Compile a set; returns its folder."""
    folder.mkdir(exist_ok=True)
    path = folder / "standin.c"
    path.write_text(text)
    command = [os.environ.get("CC", "cc"), "-O1", "-w", "-shared", "-fPIC"]
    command += [f"-I{HERE.parents[1]}/csrc/gen/include"]
    command += ["-Wl,-soname,libascendcl.so", "-o", str(folder / "libascendcl.so"), str(path)]
    subprocess.run(command, check=True, timeout=120)
    return folder


def ask(folder: Path, mode: str, code: int = 0) -> dict[str, Any]:
    """Call every row once in a child bound to the set; returns what MODE tells of each."""
    environment = {
        **os.environ,
        "ASCENDRT_LIBRARY_DIR": str(folder),
        "STANDIN_CODE": str(code),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "aclstandin.py"), mode],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _shapes() -> dict[str, Any]:
    """{name: [problem or null, value of the status or null]}"""
    from aclcalls import ROWS, problem

    found: dict[str, Any] = {}
    for row in ROWS:
        if row.name in _OWN_WAYS or row.name.startswith("util."):
            continue
        answer = row.function()(*row.harmless())
        last = answer[-1] if isinstance(answer, tuple) else answer
        has_status = bool(row.results) and row.results[-1].name == "code"
        found[row.name] = [problem(row, answer), last if has_status else None, repr(answer)]
    return found


def _progress() -> dict[str, Any]:
    """{name: whether another thread saw, during the call, that the function had been entered}"""
    import ctypes

    from aclcalls import ROWS

    library = ctypes.CDLL(os.environ["ASCENDRT_LIBRARY_DIR"] + "/libascendcl.so")
    entered, seen, met, patience_ms = (
        ctypes.c_int.in_dll(library, name) for name in ("entered", "seen", "met", "patience_ms")
    )

    def watch() -> None:
        while True:
            seen.value = entered.value
            time.sleep(0.0005)

    threading.Thread(target=watch, daemon=True).start()
    found = {}
    for row in ROWS:
        if not row.c or row.c == "aclrtGetDeviceCount":
            continue
        patience_ms.value = RUNNING_MS if row.releases_gil else STANDING_MS
        met.value = 0
        row.function()(*row.harmless())
        found[row.name] = met.value > 0
    return found


def _value(letter: str, place: int) -> Any:
    """An argument unlike its neighbours; large and negative where the type lets it."""
    if letter[0] == "[":
        return [[1, 2], [3, 4]] if letter == "[LL]" else [1, 2]
    values = {"f": place + 0.5, "d": place + 0.5, "s": f"text {place}", "I": 3 * 10**9 + place,
              "K": 2**63 + place, "L": -(10**12) - place, "l": -(10**12) - place,
              "i": -1000 - place, "h": -100 - place}  # fmt: skip
    return values.get(letter[0], 100 + place)


def _expected(value: Any, letter: str, size: int, bits: int) -> bool:
    import ctypes
    import struct

    if letter[0] == "[":
        return True
    if letter[0] == "s":
        return ctypes.string_at(bits) == str(value).encode()
    if letter[0] in "fd":
        return bits == int.from_bytes(struct.pack("<f", value), "little")
    return bool(bits == value & (1 << 8 * size) - 1)


def _echoes() -> dict[str, Any]:
    """{name: null, or what arrived wrongly in C}"""
    import ctypes

    import model as abi
    from aclcalls import BY_NAME

    library = ctypes.CDLL(os.environ["ASCENDRT_LIBRARY_DIR"] + "/libascendcl.so")
    note = (ctypes.c_uint64 * 2 * 64).in_dll(library, "note")
    found: dict[str, Any] = {}
    for call in abi.load().python_calls():
        if call.by_hand or call.function is None or call.function.name == "aclrtGetDeviceCount":
            continue
        items = call.call.arguments
        given: list[Any] = [
            0 if i.name == "numOutputs" else _value(i.type, n) for n, i in enumerate(items)
        ]
        given = [[] if i.same else v for i, v in zip(items, given, strict=True)]
        library.standin_forget()
        BY_NAME[call.call.name].function()(*given)
        arrived = {p.name: tuple(note[n]) for n, p in enumerate(call.function.params)}
        wrong = [
            (item.name, value, arrived[item.name])
            for item, value in zip(items, given, strict=True)
            if item.name in arrived and not _expected(value, item.type, *arrived[item.name])
        ]
        wrong += [
            (item.count, len(value), arrived[item.count])
            for item, value in zip(items, given, strict=True)
            if item.count and arrived[item.count][1] != len(value)
        ]
        found[call.call.name] = wrong or None
    return found


# Calls that keep something for C on purpose: it stays until C lets go, which a stand-in never does.
_KEEPS = {"prof.create_subscribe_config", "rt.launch_callback"}
_TURNS, _MOST_ROUNDS = 25, 40


def _growth() -> dict[str, Any]:
    """{name: blocks of memory that a round of calls, right and wrong, leaves behind each time}

    Caches of the interpreter fill and are full one day; a leak grows in every round.
    """
    from aclcalls import ROWS

    found = {}
    for row in ROWS:
        if row.name in _OWN_WAYS | _KEEPS:
            continue
        function, good = row.function(), row.harmless()
        if row.name.startswith("util."):
            good = [b"bytes"]
        bad = [object()] * len(good) if not row.any_arguments else []
        for _ in range(_MOST_ROUNDS):
            before = sys.getallocatedblocks()
            for _ in range(_TURNS):
                for arguments in (good, bad, [*good, 0, 0]):
                    with contextlib.suppress(TypeError, ValueError):
                        function(*arguments)
            found[row.name] = sys.getallocatedblocks() - before
            if found[row.name] < _TURNS // 2:
                break
    return found


_MODES = {"growth": _growth, "shapes": _shapes, "progress": _progress, "echoes": _echoes}

if __name__ == "__main__":
    print(json.dumps(_MODES[sys.argv[1]]()))
