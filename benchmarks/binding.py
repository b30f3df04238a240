"""What our binding adds to a call: our cffi call against a plain cffi API-mode call.

Both call the same no-op in the same library, both functions are looked up beforehand, the rounds of
the two alternate in one process, and medians are compared. Must never compare figures of two runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from timeit import Timer

ROUNDS = 41
CALLS = 50_000

NO_OP = """
#include <stdint.h>
int aclrtSetDevice(int32_t device) { return device < 0; }
int aclrtGetDeviceCount(uint32_t *count) { *count = 1; return 0; }
"""


def measure() -> dict[str, object]:
    """Return nanoseconds per call and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build_no_op(folder)
        plain = _build_plain(folder)
        os.environ["ASCENDRT_LIBRARY_DIR"] = str(folder)
        from ascendrt import _lib

        samples = _alternate(
            {
                "plain_ns": Timer("f(0)", globals={"f": plain}),
                "ours_ns": Timer("f(0)", globals={"f": _lib.lib.aclrtSetDevice}),
                "inline_check_ns": Timer(
                    "code = f(0)\nif code: fail(code)",
                    globals={"f": _lib.lib.aclrtSetDevice, "fail": _lib.failure},
                ),
                "checked_call_ns": Timer("call('aclrtSetDevice', 0)", globals={"call": _lib.call}),
            }
        )
    medians = {key: statistics.median(values) for key, values in samples.items()}
    return {
        **medians,
        "ratio": medians["ours_ns"] / medians["plain_ns"],
        "checked_ratio": medians["checked_call_ns"] / medians["plain_ns"],
        "rounds": ROUNDS,
        "calls_per_round": CALLS,
    }


def _alternate(timers: dict[str, Timer]) -> dict[str, list[float]]:
    """Time every function in turn, round after round; the first round warms up and is dropped."""
    samples: dict[str, list[float]] = {key: [] for key in timers}
    for round_number in range(ROUNDS + 1):
        for key, timer in timers.items():
            elapsed_ns = timer.timeit(CALLS) / CALLS * 1e9
            if round_number:
                samples[key].append(elapsed_ns)
    return samples


def _build_no_op(folder: Path) -> None:
    source = folder / "no_op.c"
    source.write_text(NO_OP)
    library = folder / "libascendcl.so"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True, timeout=60)


def _build_plain(folder: Path) -> Callable[[int], int]:
    """Compile an ordinary cffi module that links the no-op, and return its function."""
    import cffi

    builder = cffi.FFI()
    builder.cdef("int aclrtSetDevice(int32_t device);")
    builder.set_source("plain_binding", "#include <stdint.h>\nint aclrtSetDevice(int32_t device);")
    source = folder / "plain_binding.c"
    with contextlib.redirect_stdout(sys.stderr):  # it reports its progress where our figures go
        builder.emit_c_code(str(source))
    path = folder / f"plain_binding{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [os.environ.get("CC", "cc"), "-O2", "-DNDEBUG", "-shared", "-fPIC"]
    command += [f"-I{sysconfig.get_path('include')}", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    command += ["-o", str(path), str(source), "-lascendcl"]
    subprocess.run(command, check=True, timeout=120)
    spec = importlib.util.spec_from_file_location("plain_binding", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[int], int] = module.lib.aclrtSetDevice
    return function
