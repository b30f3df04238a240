"""`ascendrt doctor`: what there is, what is wrong with it, and what to do.

Owns: the findings and their order. Must never load a library into this process, change anything, or
end with a traceback: it is run where things are broken. Whatever may crash is tried in a child.
"""

from __future__ import annotations

import argparse
import glob
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Literal

from ascendrt import __version__, _backend
from ascendrt.cli import versions
from ascendrt.cli.parsing import Parser, suggestion
from ascendrt.errors import AscendrtError

State = Literal["ok", "note", "problem"]
_MARKS = {"ok": "ok  ", "note": "note", "problem": "FAIL"}
_TRIAL_S = 120
_LDD_S = 30
_TRIAL = """
import json
import numpy as np
import ascendrt
told = {"soc": ascendrt.soc_name(), "devices": ascendrt.device_count()}
numbers = np.arange(1 << 16, dtype=np.int32)
with ascendrt.Device(0), ascendrt.Memory(numbers.nbytes) as memory, ascendrt.Stream() as stream:
    stream.write(memory, numbers)
    stream.synchronize()
    told["same"] = bool((memory.read(numbers.shape, numbers.dtype) == numbers).all())
print("ascendrt-trial " + json.dumps(told))
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    state: State
    text: str
    advice: str = ""


def configure(parser: Parser) -> None:
    """Declare the options."""
    parser.add_json()
    parser.epilog = "exit codes: 0 no problem was found, 1 there is one, 2 wrong usage"
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print the findings; 1 when one of them is a problem."""
    findings = list(examine(os.environ))
    problems = sum(finding.state == "problem" for finding in findings)
    if options.json:
        told = {"problems": problems, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(told, indent=1))
    else:
        for finding in findings:
            print(f"{_MARKS[finding.state]}  {finding.topic:10} {finding.text}")
            if finding.advice:
                print(f"{'':17}-> {finding.advice}")
        print(f"{problems} problem(s)" if problems else "no problem was found")
    return 1 if problems else 0


def examine(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at everything, from what others stand on to what stands on others."""
    looks: tuple[Callable[[Mapping[str, str]], Iterator[Finding]], ...] = (
        _package, _backends, _driver, _versions, _variables, _modules, _tools, _trial,
    )  # fmt: skip
    for look in looks:
        try:
            yield from look(environ)
        except (AscendrtError, OSError, ValueError, subprocess.SubprocessError) as error:
            name = look.__name__.strip("_")
            advice = "the findings above and below hold nevertheless; mend what the error names"
            yield Finding(name, "problem", f"could not be examined: {error}", advice)


def _package(_: Mapping[str, str]) -> Iterator[Finding]:
    where = Path(__file__).parents[1]
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    try:
        libraries = _backend.package_lib_dir()
    except AscendrtError as error:
        yield Finding("package", "problem", f"ascendrt {__version__} in {where}", str(error))
        return
    yield Finding("package", "ok", f"ascendrt {__version__} in {where}, {machine}")
    count = len(list(libraries.glob("lib*.so")))
    if count:
        yield Finding("package", "ok", f"{count} emulator libraries in {libraries}")
    else:
        advice = "install ascendrt again: the wheel or the build is incomplete"
        yield Finding("package", "problem", f"no emulator libraries in {libraries}", advice)


def _backends(environ: Mapping[str, str]) -> Iterator[Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the attempts say the same
        try:
            chosen = _backend.choose(environ)
        except AscendrtError as error:
            advice = "set ASCENDRT_BACKEND=emu to work without a card meanwhile"
            yield Finding("backend", "problem", str(error), advice)
            return
    yield Finding("backend", "ok", f"{chosen.kind}, by {chosen.origin}: {chosen.directory}")
    for attempt in chosen.attempts:
        if attempt.broken:
            yield Finding("toolkit", "problem", str(attempt), _advice_for(attempt.reason))
            yield from _missing(attempt.place.directory / attempt.library, environ)
        elif attempt.library:
            yield Finding("toolkit", "ok", str(attempt))
        elif attempt.place.origin.startswith("ASCEND_"):
            advice = f"unset {attempt.place.origin}, or source the set_env.sh of a toolkit"
            yield Finding("toolkit", "note", str(attempt), advice)
    if not any(attempt.library for attempt in chosen.attempts):
        yield Finding("toolkit", "ok", "no CANN toolkit was looked at or found; none is needed")


def _missing(library: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """List all libraries that one needs and that are not found; the loader names the first only."""
    ldd = shutil.which("ldd", path=environ.get("PATH"))
    if ldd is None:
        return
    child = subprocess.run(
        [ldd, str(library)], env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", timeout=_LDD_S, check=False,
    )  # fmt: skip
    names = re.findall(r"^\s*(\S+) => not found", child.stdout, re.M)
    if names:
        text = f"{library} needs libraries that are not found: {', '.join(dict.fromkeys(names))}"
        advice = next((_ADVICE[word] for word in _ADVICE if word in text), _ADVICE[_NOT_FOUND])
        yield Finding("library", "problem", text, advice)


# By a word of the reason why a toolkit cannot be used, or why a copy fails; the first that fits.
_NOT_FOUND = "cannot open shared object"
_REINSTALL = "the installation is damaged or was copied in part: install that CANN package again"
_ADVICE = {
    "libascend_hal": "the driver's libraries are not found: install the driver, or add "
    "/usr/local/Ascend/driver/lib64/driver and .../common to LD_LIBRARY_PATH",
    "stub": "put the toolkit's lib64 before devlib and stub folders in LD_LIBRARY_PATH",
    "0 devices": "check `npu-smi info`, ASCEND_RT_VISIBLE_DEVICES, and in a container the "
    "--device /dev/davinci* options",
    "ASCEND_RT_VISIBLE_DEVICES=": "unset ASCEND_RT_VISIBLE_DEVICES, or give it ids that "
    "`npu-smi info` lists, ascending, like 0,1",
    "was built for": f"install the packages of CANN for {platform.machine()}, and take the others "
    "off LD_LIBRARY_PATH",
    "cut off": _REINSTALL,
    "is empty": _REINSTALL,
    "which is not there": _REINSTALL,
    "no shared library": _REINSTALL,
    "is no file": _REINSTALL,
    "ermission denied": "the user may not read it: ask who installed it to allow that "
    "(packages installed with --install-for-all are for everybody)",
    "undefined symbol": "libraries of different releases are mixed: source the set_env.sh of one "
    "toolkit in a new shell, and set no other LD_LIBRARY_PATH",
    "has no aclrtGetDeviceCount": "it is not CANN's library, or not the whole of it: "
    "source the set_env.sh of a toolkit",
    "none of the libraries": "the toolkit lacks what a release of its age has: source its own "
    "set_env.sh, so that all its libraries are found, or install a newer one",
    "was killed by": "the library crashes when it is loaded, mostly because driver and toolkit do "
    "not go together: compare the versions, and see dmesg and ~/ascend/log",
    "did not answer": "the driver hangs: see `npu-smi info`, dmesg and ~/ascend/log",
    "GLIBC": "the toolkit was made for a newer system than this: use its container image, or a "
    "release of CANN for this system",
    _NOT_FOUND: "a library that it needs is missing: source the toolkit's "
    "set_env.sh, and install the package that has it",
    "507": "the driver refuses: check `npu-smi info` and that driver and toolkit go together",
}


def _advice_for(reason: str) -> str:
    general = "source the toolkit's set_env.sh and check the driver with `npu-smi info`"
    return next((advice for word, advice in _ADVICE.items() if word in reason), general)


# Without these, which containers get by options of their own, no card can be opened.
_MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")


def _driver(_: Mapping[str, str]) -> Iterator[Finding]:
    nodes = [path for path in sorted(glob.glob(_backend.DEVICE_GLOB)) if path[-1].isdigit()]
    if not nodes:
        yield Finding("driver", "ok", "no NPU device files: this machine has no card, or none here")
        return
    yield Finding("driver", "ok", f"{len(nodes)} device file(s): {', '.join(nodes)}")
    managers = [str(Path(nodes[0]).with_name(name)) for name in _MANAGERS]
    absent = [path for path in managers if not os.path.exists(path)]
    if absent:
        advice = "start the container with --device for each; on a host, install the driver again"
        yield Finding("driver", "problem", f"not there: {', '.join(absent)}", advice)
    present = [*nodes, *(path for path in managers if path not in absent)]
    closed = [path for path in present if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        advice = "add the user to the group of the files (usermod -aG HwHiAiUser USER), log in anew"
        yield Finding("driver", "problem", f"no permission for {', '.join(closed)}", advice)


def _versions(environ: Mapping[str, str]) -> Iterator[Finding]:
    base = versions.below_the_driver(versions.driver_home())
    toolkit = next(filter(None, map(versions.of_toolkit, _toolkit_roots(environ))), [])
    for part in (*base, *toolkit):
        yield Finding("version", "ok", f"{part.name} {part.version} ({part.file})")
    for pair in versions.pairs(base, toolkit):
        advice = "" if pair.fits else "install versions of one release: the notes of CANN list them"
        yield Finding("version", "ok" if pair.fits else "problem", pair.text, advice)


def _toolkit_roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield where a toolkit may lie, best first: its libraries are one or two folders below."""
    for name in _FOLDERS[:2]:
        if environ.get(name):
            yield Path(environ[name])
    for place in _backend.places(environ, _backend.STANDARD_ROOTS):
        if any(os.path.lexists(place.directory / name) for name in _backend.ANCHORS):
            yield from place.directory.parents[:2]


_FOLDERS = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCENDRT_LIBRARY_DIR")


def _variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    from ascendrt.cli.settings import KNOWN

    for name, value in sorted(environ.items()):
        if name.startswith("ASCENDRT_"):
            if name in KNOWN:
                yield Finding("variable", "ok", f"{name}={value}")
            else:
                meant = suggestion(name, KNOWN, cutoff=0.85)
                advice = f"ascendrt reads no such variable{meant}"
                yield Finding("variable", "problem" if meant else "note", f"{name}={value}", advice)
    for name in _FOLDERS:
        if environ.get(name) and not Path(environ[name]).is_dir():
            advice = f"unset {name}, or correct it: {_why_no_folder(Path(environ[name]))}"
            yield Finding("variable", "problem", f"{name}={environ[name]}", advice)
    homes = {os.path.realpath(environ[name]) for name in _FOLDERS[:2] if environ.get(name)}
    if len(homes) > 1:
        advice = "source one set_env.sh only: two toolkits are mixed"
        yield Finding("variable", "note", f"{' and '.join(_FOLDERS[:2])} differ", advice)
    yield from _library_path(environ.get("LD_LIBRARY_PATH", ""))
    yield from _visible(environ.get(_VISIBLE))


def _why_no_folder(path: Path) -> str:
    if path.is_symlink() and not path.exists():
        return f"it is a link to {os.readlink(path)}, which is not there"
    return "it is no folder" if path.exists() else "no such folder"


def _library_path(text: str) -> Iterator[Finding]:
    entries = [entry for entry in text.split(":") if entry]
    missing = [entry for entry in entries if not Path(entry).is_dir()]
    if missing:
        text = f"LD_LIBRARY_PATH names folders that are not there: {', '.join(missing)}"
        yield Finding("variable", "note", text)
    holders = [entry for entry in entries if (Path(entry) / "libascendcl.so").exists()]
    if len({os.path.realpath(entry) for entry in holders}) > 1:
        text = f"LD_LIBRARY_PATH has several libascendcl.so; programs take {holders[0]}"
        yield Finding("variable", "note", text, f"the others are {', '.join(holders[1:])}")


_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def _visible(text: str | None) -> Iterator[Finding]:
    """Judge the list of devices as the runtime reads it: up to the first entry that is no id."""
    if text is None:
        return
    ids = _visible_ids(text)
    entries = text.split(",")
    advice = "list ids of `npu-smi info` in ascending order, like 0,1, or unset it to see all"
    if not ids:
        reason = f"its first entry {entries[0]!r} is no id" if text else "it is empty"
        yield Finding(
            "variable", "problem", f"{_VISIBLE}={text} hides every device: {reason}", advice
        )
    elif any(later <= earlier for earlier, later in pairwise(ids)):
        reason = "its ids do not ascend"
        yield Finding(
            "variable", "problem", f"{_VISIBLE}={text} hides every device: {reason}", advice
        )
    elif len(ids) < len(entries):
        reason = f"from {entries[len(ids)]!r} on it does not count"
        yield Finding("variable", "problem", f"{_VISIBLE}={text}: {reason}", advice)
    else:
        yield Finding("variable", "ok", f"{_VISIBLE}={text}")


def _visible_ids(text: str) -> list[int]:
    words = (entry.strip(" ") for entry in text.split(","))
    entries = takewhile(lambda word: word.isascii() and word.isdecimal(), words)
    return [int(entry) for entry in entries]


# Modules that matter when they are there; the first two are needed.
_MODULES = ("numpy", "cffi", "onnx", "torch", "torch_npu", "mindspore", "onnxruntime", "tqdm")
# Of those, the libraries by which they reach CANN.
_LIBRARIES = {
    "torch_npu": "lib/libtorch_npu.so",
    "onnxruntime": "capi/libonnxruntime_providers_cann.so",
}


def _modules(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name in _MODULES:
        spec = importlib.util.find_spec(name)
        if spec is not None:
            yield Finding("python", "ok", f"{name} {_version_of(name)}")
            library = Path(spec.origin or "").parent / _LIBRARIES.get(name, "-")
            if library.is_file():
                yield from _missing_of_module(library, environ)
        elif name in ("numpy", "cffi"):
            yield Finding("python", "problem", f"{name} is missing", f"pip install {name}")
    owners = [
        each for each in ("onnxruntime", "onnxruntime-cann", "onnxruntime-gpu") if _is_there(each)
    ]
    if len(owners) > 1:
        text = f"{' and '.join(owners)} own the same module; the one installed last has overwritten"
        advice = f"pip uninstall {' '.join(owners)}, then install the one you want"
        yield Finding("python", "problem", text, advice)
    found = [
        spec.origin
        for entry in sys.path
        if (spec := importlib.machinery.PathFinder.find_spec("acl", [entry or "."])) and spec.origin
    ]
    for index, origin in enumerate(dict.fromkeys(found)):
        yield Finding(
            "python", "note" if index else "ok",
            f"module acl: {origin}" + (" (hidden by the one above)" if index else ""),
        )  # fmt: skip


def _missing_of_module(library: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look as a process does that has imported ours: behind what the user named."""
    before = environ.get("LD_LIBRARY_PATH")
    own = str(_backend.package_lib_dir())
    # torch's own libraries lie in its folder, which the loader knows once torch is imported.
    torch = importlib.util.find_spec("torch")
    folders = [own, str(Path(torch.origin).parent / "lib") if torch and torch.origin else ""]
    path = ":".join(filter(None, (before, *folders)))
    yield from _missing(library, {**environ, "LD_LIBRARY_PATH": path})


def _is_there(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _version_of(name: str) -> str:
    for distribution in (name, name.replace("_", "-")):
        if _is_there(distribution):
            return metadata.version(distribution)
    return "(no metadata)"


def _tools(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("atc", "npu-smi", "msprof"):
        path = shutil.which(name, path=environ.get("PATH"))
        if path:
            yield Finding("tool", "ok", f"{name}: {path}")


def _trial(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Copy something to device 0 and back, in a child: a broken driver may crash or hang it."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", _TRIAL], env=dict(environ), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_TRIAL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        advice = "the driver or another process holds the device: `npu-smi info`, `ascendrt smi`"
        yield Finding("trial", "problem", f"no end within {_TRIAL_S} s", advice)
        return
    line = next((x for x in child.stdout.splitlines() if x.startswith("ascendrt-trial ")), "")
    told = json.loads(line.partition(" ")[2]) if line else {}
    if told.get("same"):
        text = f"a copy to device 0 and back is right: {told['soc']}, {told['devices']} device(s)"
        yield Finding("trial", "ok", text)
        asked = len(_visible_ids(environ.get(_VISIBLE, "")))
        if told["devices"] < asked:
            text = f"only {told['devices']} of the {asked} ids in {_VISIBLE} are devices here"
            yield Finding("trial", "problem", text, _ADVICE[f"{_VISIBLE}="])
        return
    reason = "it came back changed" if told else _last_error(child.stderr)
    text = f"a copy to device 0 and back fails: {reason or f'exit status {child.returncode}'}"
    advice = next((advice for word, advice in _ADVICE.items() if word in text), "")
    yield Finding("trial", "problem", text, advice)


def _last_error(text: str) -> str:
    """Return what a traceback ends with: the error and all lines of its text."""
    lines = text.strip().rpartition("Traceback (most recent call last):\n")[2].splitlines()
    return "\n".join(dropwhile(lambda line: line.startswith("  "), lines))
