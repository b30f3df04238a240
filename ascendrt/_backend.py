"""Finds, chooses and loads the library set: real CANN libraries or the emulator.

Owns: the choice, made once per process at the first use; the only module that knows which kind is
loaded. Must never load a library at import, and must never try out a foreign library in this
process.

Note [Probe in a child]: a library that was loaded cannot be taken back. Even under RTLD_LOCAL it
stays the owner of its SONAME, so one failed try-out of a toolkit's libascendcl.so would answer
every later library that needs that name, and its constructors would have run. A candidate is thus
loaded and asked for its device count by a child process (_probe.py, about 20 ms, only where a
toolkit was found at all). Only a candidate that passed is loaded here.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ascendrt import _forks
from ascendrt.errors import BackendError, BackendWarning, describe

MODES = ("auto", "real", "emu")
STANDARD_ROOTS = (
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/latest",
    "/usr/local/Ascend/nnae/latest",
    "/usr/local/Ascend/nnrt/latest",
)
DEVICE_GLOB = "/dev/davinci*"
ANCHORS = ("libascendcl.so", "libacl_rt.so")
MARKER = "ascendrt_emu_marker"
# Where the table's functions live in a toolkit. The larger ones (opapi, hccl) stay out: who needs
# them loads them.
OPTIONAL = (
    "libacl_rt.so",
    "libacl_mdl.so",
    "libacl_op_executor.so",
    "libacl_op_compiler.so",
    "libacl_cblas.so",
    "libacl_tdt_channel.so",
    "libacl_tdt_queue.so",
    "libruntime.so",
    "libprofapi.so",
    "libmsprofiler.so",
    "libnnopbase.so",
    "libascend_dump.so",
    "libplatform.so",
    "libascendsk.so",
    "libacl_dvpp.so",
)
OWN_LIBRARIES = {"libascendrt_emu.so", "libascendrt_bind.so"}
PROBE_TIMEOUT_S = 60.0
_MESSAGE_BYTES = 1024
_STUB_CODE = 100039

Kind = Literal["real", "emu"]


@dataclass(frozen=True)
class Place:
    """A directory to look into, and what led there."""

    directory: Path
    origin: str


@dataclass(frozen=True)
class Attempt:
    """What became of one place. `broken` = a toolkit that should work and does not."""

    place: Place
    library: str
    reason: str
    usable: bool = False
    broken: bool = False

    def __str__(self) -> str:
        where = self.place.directory / self.library if self.library else self.place.directory
        return f"{where} (from {self.place.origin}): {self.reason}"


@dataclass(frozen=True)
class Backend:
    """The chosen library set."""

    kind: Kind
    directory: Path
    origin: str
    attempts: tuple[Attempt, ...] = ()
    libraries: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()  # libraries beside the main one that do not load, with reasons

    def page_kind(self) -> str:
        """Return what pages back device memory; empty where the backend does not tell."""
        if self.kind == "real":
            return ""
        from ascendrt import _ctl

        return _ctl.page_kind()

    def memory(self, blocks: bool) -> dict[str, Any] | None:
        """Return the figures of the memory tiers; None where the backend does not tell."""
        if self.kind == "real":
            return None
        from ascendrt import _ctl

        return _ctl.memory_snapshot() if blocks else _ctl.memory_stats()

    def is_live(self, handle: int) -> bool:
        """Return whether a context, stream, event or notify lives; True where that is not told."""
        if self.kind == "real":
            return True
        from ascendrt import _ctl

        return _ctl.is_live(handle)

    def machine(self) -> dict[str, Any] | None:
        """Return what each process holds of each device; None where the backend does not tell."""
        if self.kind == "real":
            return None
        from ascendrt import _ctl

        return _ctl.machine()

    def modelled_time(self) -> tuple[Callable[[], int], Callable[[], Any]] | None:
        """Return what reads the virtual clock and makes its signals; None where time is real."""
        if self.kind == "real":
            return None
        from ascendrt import _ctl

        if _ctl.clock_now_ns() < 0:
            return None
        return _ctl.clock_now_ns, _ctl.ModelledSignal


def package_lib_dir() -> Path:
    """Return the directory of the emulator's libraries."""
    return _installed("lib")


def package_bin_dir() -> Path:
    """Return the directory of the programs that go by the vendor's names."""
    return _installed("bin")


def package_include_dir() -> Path:
    """Return the directory of the C headers."""
    return _installed("include")


def _installed(name: str) -> Path:
    """Return a folder beside the extension module: an editable install keeps it elsewhere."""
    spec = importlib.util.find_spec("ascendrt._cffi")
    if spec is None or spec.origin is None:
        raise BackendError(
            "the extension ascendrt._cffi is missing: this source folder was never built; "
            "run `make build`, or leave the folder if ascendrt is installed elsewhere"
        )
    return Path(spec.origin).parent / name


def places(environ: Mapping[str, str], roots: Sequence[str] = STANDARD_ROOTS) -> Iterator[Place]:
    """Yield the directories where a toolkit may lie, best first, each once."""
    seen: set[str] = set()
    for place in _all_places(environ, roots):
        real = os.path.realpath(place.directory)
        if real not in seen:
            seen.add(real)
            yield place


def _all_places(environ: Mapping[str, str], roots: Sequence[str]) -> Iterator[Place]:
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if environ.get(variable):
            yield from _below_root(environ[variable], variable)
    for entry in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Place(Path(entry), "LD_LIBRARY_PATH")
    for root in roots:
        yield from _below_root(root, "the standard install place")


def _below_root(root: str, origin: str) -> Iterator[Place]:
    below = ("lib64", f"{platform.machine()}-linux/lib64", "runtime/lib64")
    found = [Path(root) / name for name in below if (Path(root) / name).is_dir()]
    yield from (Place(directory, origin) for directory in found or [Path(root) / below[0]])


def examine(place: Place, environ: Mapping[str, str]) -> Attempt:
    """Decide whether a place holds a usable real library set, without loading anything here."""
    anchor = _anchor(place.directory)
    if anchor is None:
        return Attempt(place, "", f"no {' or '.join(ANCHORS)} there")
    attempt = Attempt(place, anchor, "")
    answer = _probe(place.directory / anchor, environ)
    if answer.reason:
        return replace(attempt, reason=answer.reason, broken=True)
    if answer.facade:
        return replace(attempt, reason="a library of the ascendrt emulator, not of a toolkit")
    return _judge_count(attempt, answer.code, answer.count)


def _anchor(directory: Path) -> str | None:
    """Return the name of the main library there; a link to nothing is one that should work."""
    return next((name for name in ANCHORS if os.path.lexists(directory / name)), None)


def _judge_count(attempt: Attempt, code: int, count: int) -> Attempt:
    if code == _STUB_CODE:
        reason = f"a link-time stub library (aclrtGetDeviceCount answers {_STUB_CODE})"
    elif code != 0:
        name, hint = describe(code)
        reason = f"aclrtGetDeviceCount answers {code} {name}" + (f": {hint}" if hint else "")
    elif count == 0:
        reason = "aclrtGetDeviceCount finds 0 devices"
    else:
        return replace(attempt, reason=f"{count} device(s)", usable=True)
    return replace(attempt, reason=reason, broken=True)


@dataclass(frozen=True)
class _Answer:
    """What a trial load found out; `reason` = it did not load."""

    reason: str = ""
    facade: bool = False
    code: int = 0
    count: int = 0


def _probe(library: Path, environ: Mapping[str, str]) -> _Answer:
    """Load a library in a child; see Note [Probe in a child]."""
    from ascendrt import _elf

    if defect := _elf.defect(library):
        return _Answer(defect)
    script = Path(__file__).with_name("_probe.py")
    python = sys.executable or str(Path(sys.prefix) / "bin" / "python3")
    command = [python, "-I", "-S", str(script), str(library), MARKER]
    try:
        child = subprocess.run(
            command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=PROBE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _Answer(f"a trial load did not answer within {PROBE_TIMEOUT_S:g} s")
    except OSError as error:
        return _Answer(f"a trial load could not be started: {error}")
    for line in child.stdout.decode(errors="replace").splitlines():
        if line.startswith("ascendrt-probe "):
            return _Answer(**json.loads(line.partition(" ")[2]))
    return _Answer(f"a trial load {_end(child.returncode)}")


def _end(status: int) -> str:
    """Say how a child ended that should have answered."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def choose(
    environ: Mapping[str, str],
    roots: Sequence[str] | None = None,
    device_glob: str | None = None,
) -> Backend:
    """Choose a library set by the rules of ASCENDRT_BACKEND; loads nothing.

    Raises: BackendError when `real` cannot be had, or when device files exist and no toolkit works.
    Warns: one BackendWarning when a toolkit was found, cannot work, and the emulator takes over.
    """
    explicit = environ.get("ASCENDRT_LIBRARY_DIR")
    if explicit:
        return _explicit(Path(explicit), environ)
    mode = environ.get("ASCENDRT_BACKEND") or "auto"
    if mode not in MODES:
        raise BackendError(f"ASCENDRT_BACKEND is {mode!r}; it must be one of {', '.join(MODES)}")
    if mode == "emu":
        return Backend("emu", package_lib_dir(), "ASCENDRT_BACKEND=emu")
    attempts: list[Attempt] = []
    for place in places(environ, STANDARD_ROOTS if roots is None else roots):
        attempt = examine(place, environ)
        attempts.append(attempt)
        if attempt.usable:
            return Backend("real", place.directory, place.origin, tuple(attempts))
    if mode == "real":
        raise BackendError(_no_real("ASCENDRT_BACKEND=real", attempts))
    nodes = sorted(glob.glob(DEVICE_GLOB if device_glob is None else device_glob))
    if nodes:
        raise BackendError(_no_real(f"this machine has NPU device files ({nodes[0]})", attempts))
    _warn_broken([attempt for attempt in attempts if attempt.broken])
    return Backend("emu", package_lib_dir(), "no usable toolkit", tuple(attempts))


def _explicit(directory: Path, environ: Mapping[str, str]) -> Backend:
    origin = "ASCENDRT_LIBRARY_DIR"
    anchor = _anchor(directory)
    if anchor is None:
        raise BackendError(f"{origin}={directory} holds no {' or '.join(ANCHORS)}")
    answer = _probe(directory / anchor, environ)
    if answer.reason:
        raise BackendError(f"{origin}={directory}: {anchor} does not load: {answer.reason}")
    return Backend("emu" if answer.facade else "real", directory, origin)


def _no_real(because: str, attempts: Sequence[Attempt]) -> str:
    tried = "\n".join(f"  - {attempt}" for attempt in attempts)
    return (
        f"{because}, but no usable CANN was found. Tried:\n{tried}\n"
        "Source the toolkit's set_env.sh and check the driver (npu-smi info), "
        "or set ASCENDRT_BACKEND=emu to run on the emulator."
    )


def _warn_broken(broken: Sequence[Attempt]) -> None:
    if broken:
        found = "; ".join(str(attempt) for attempt in broken)
        text = f"CANN was found but cannot be used, running on the emulator instead: {found}"
        warnings.warn(text, BackendWarning, stacklevel=2)


_lock = _forks.lock()
_loaded: Backend | None = None


def load() -> Backend:
    """Load the library set into the binding's table, once per process; later calls are free.

    Raises: BackendError as `choose`, or when a set that passed its trial does not load here.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                chosen = choose(os.environ)
                _loaded = _install(chosen)
    return _loaded


def backend() -> Kind:
    """Return "real" or "emu"; loads the libraries if nothing has yet.

    Raises: BackendError when no usable set can be had.
    """
    return load().kind


def _install(chosen: Backend) -> Backend:
    """Load the chosen libraries and bind the table."""
    from ascendrt._cffi import ffi, lib

    message = ffi.new("char[]", _MESSAGE_BYTES)
    handles, loaded, unloaded = [], [], []
    for name in _library_names(chosen):
        path = chosen.directory / name
        handle = lib.art_bind_open(os.fsencode(path), message, _MESSAGE_BYTES)
        if handle:
            handles.append(handle)
            loaded.append(str(path))
        else:
            unloaded.append(f"{path}: {ffi.string(message).decode(errors='replace')}")
            if not handles:
                raise BackendError(
                    f"loads in a fresh process but not in this one: {unloaded[0]}. Was "
                    "LD_LIBRARY_PATH changed after the start, or another CANN loaded before?"
                )
    lib.art_bind_table(ffi.new("void *[]", handles), len(handles))
    return replace(chosen, libraries=tuple(loaded), unloaded=tuple(unloaded))


def _library_names(chosen: Backend) -> list[str]:
    """Return the files to bind, the main library first."""
    present = {path.name for path in chosen.directory.glob("lib*.so")}
    main = [name for name in ANCHORS if name in present][:1]
    if not main:
        raise BackendError(f"{chosen.directory} holds no {' or '.join(ANCHORS)}: install again")
    if chosen.kind == "real":
        return main + [name for name in OPTIONAL if name in present and name not in main]
    # Every facade: a library that needs one of them by name then finds the emulator's.
    return main + sorted(present - set(main) - OWN_LIBRARIES)
