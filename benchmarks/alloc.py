"""Device memory through the public ABI against the best allocators, from C, all in one run.

Every allocator runs in processes of its own over the same program (alloc.cpp); rounds of all of
them alternate and the least disturbed round of each counts. Rivals are Debian packages; one that is
missing is named in the figures. Must never compare figures of two runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from ctypes.util import find_library
from pathlib import Path

SIZES = (256, 4 << 10, 64 << 10, 1 << 20, 2 << 20, 64 << 20)
ROUNDS = 3
MIX_OPERATIONS = int(os.environ.get("ALLOC_MIX_OPERATIONS", str(10**8)))
NO_RIVALS = ("set", "mmap", "mmap_touched")  # what a program does without an allocator
RIVALS = {  # name -> (library, Debian package)
    "mimalloc": ("mimalloc", "libmimalloc2.0"),
    "jemalloc": ("jemalloc", "libjemalloc2"),
    "tcmalloc": ("tcmalloc_minimal", "libtcmalloc-minimal4"),
}


def measure() -> dict[str, object]:
    """Return nanoseconds per operation by size, the ratios that count, and the service mix."""
    from ascendrt import _backend

    library = _backend.package_lib_dir() / "libascendcl.so"
    with tempfile.TemporaryDirectory() as folder:
        program = _build(Path(folder))
        jobs: dict[str, tuple[list[str], dict[str, str]]] = {
            "ours": ([str(program), "ours", str(library)], {}),
            "glibc": ([str(program), "malloc"], {}),
            "set": ([str(program), "set"], {}),
            "mmap": ([str(program), "mmap"], {}),
            "mmap_touched": ([str(program), "mmap_touched"], {}),
        }
        missing = []
        for name, (short, package) in RIVALS.items():
            found = find_library(short)
            if found is None:
                missing.append(f"{name} (apt-get install {package})")
            else:
                jobs[name] = ([str(program), "malloc"], {"LD_PRELOAD": found})
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
        for _ in range(ROUNDS):
            for name, (command, extra) in jobs.items():
                rounds[name].append(_run(command, extra))
        mix = _run([str(program), "ours", str(library), "mix", str(MIX_OPERATIONS), "1"], {})
    best = {name: _least(samples) for name, samples in rounds.items()}
    rivals = [name for name in jobs if name not in ("ours", *NO_RIVALS)]
    return {
        **_ratios(best, rivals),
        **{f"ours_{key}": value for key, value in best["ours"].items() if "best" not in key},
        **_table(best, rivals),
        **mix,
        "rivals_missing": ", ".join(missing) or "none",
    }


def _build(folder: Path) -> Path:
    program = folder / "alloc"
    source = Path(__file__).with_suffix(".cpp")
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-O2", "-std=c++20", "-o", str(program), str(source), "-ldl", "-pthread"]
    subprocess.run(command, check=True, timeout=120)
    return program


def _run(command: list[str], extra: dict[str, str]) -> dict[str, float]:
    environment = {**os.environ, "ASCENDRT_MACHINE": "private", "ASCENDRT_DEVICES": "1", **extra}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, check=True, timeout=3600, text=True
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in lines}


def _least(samples: list[dict[str, float]]) -> dict[str, float]:
    return {key: min(sample[key] for sample in samples) for key in samples[0]}


def _ratios(best: dict[str, dict[str, float]], rivals: list[str]) -> dict[str, object]:
    """Worst case over the sizes of each figure that has a bar."""
    ours = best["ours"]

    def fastest(key: str) -> float:
        return min(best[name][key] for name in rivals)

    def times_slower(name: str) -> float:
        return min(best[name][f"pair_{s}"] / ours[f"pair_{s}"] for s in SIZES)

    small, large = [s for s in SIZES if s <= 64 << 10], [s for s in SIZES if s >= 1 << 20]
    return {
        "pair_ns_worst": max(ours[f"pair_{s}"] for s in SIZES),
        "set_times_slower": times_slower("set"),
        "mmap_times_slower": times_slower("mmap_touched"),
        "mmap_untouched_times_slower": times_slower("mmap"),
        "pair_ratio_to_64k": max(ours[f"pair_{s}"] / fastest(f"pair_{s}") for s in small),
        "pair_ratio_from_1m": max(ours[f"pair_{s}"] / fastest(f"pair_{s}") for s in large),
        "replace_ratio": max(ours[f"replace_{s}"] / fastest(f"replace_{s}") for s in SIZES),
        "two_threads_ratio": max(ours[f"two_{s}"] / ours[f"pair_{s}"] for s in SIZES),
        "elsewhere_ns_to_64k": max(ours[f"elsewhere_{s}"] for s in small),
        "elsewhere_ns_from_1m": max(ours[f"elsewhere_{s}"] for s in large),
    }


def _table(best: dict[str, dict[str, float]], rivals: list[str]) -> dict[str, object]:
    names = [*rivals, *NO_RIVALS]
    table = {f"{n}_{kind}_{s}": best[n][f"{kind}_{s}"]
             for n in names for kind in ("pair", "replace") for s in SIZES}  # fmt: skip
    return {**table, "median_pair_ns": statistics.median(best["ours"][f"pair_{s}"] for s in SIZES)}
