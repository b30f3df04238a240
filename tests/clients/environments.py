"""Third-party clients, each in a virtual environment of its own.

Owns the folder of environments (`ASCENDRT_CLIENT_VENVS`, default `build/venvs` of the source tree)
and the pinned requirements. An environment is made once, kept between runs and made anew when its
requirements change. Never installs into the environment that runs the tests, never waits unbounded.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALL_TIMEOUT_S = 1200
TORCH_NPU = "torch-npu==2.13.0"
# The "+cpu" label exists for x86_64 only; elsewhere the plain build has no CUDA in it. Naming the
# label keeps pip from resolving the CUDA build and its gigabytes.
TORCH = "torch==2.13.0+cpu" if os.uname().machine == "x86_64" else "torch==2.13.0"
# The wheel is built for the numpy 1 ABI, and owns the module name onnxruntime.
ONNXRUNTIME_CANN = ("onnxruntime-cann==1.24.4", "numpy<2")

RAY = ("ray[serve]==2.60.0", "numpy", "cffi")


def folder() -> Path:
    return Path(os.environ.get("ASCENDRT_CLIENT_VENVS") or REPOSITORY / "build" / "venvs")


def torch_npu_python() -> Path:
    """An interpreter with torch (CPU build) and torch_npu beside it."""
    return environment("torch_npu", [["numpy", TORCH], ["--no-deps", TORCH_NPU]])


def onnxruntime_cann_python() -> Path:
    return environment("onnxruntime_cann", [list(ONNXRUNTIME_CANN)])


def ray_python() -> Path:
    return environment("ray", [list(RAY)])


def torch_npu_files() -> Path:
    """The unpacked torch-npu wheel; nothing of it is installed or imported."""
    return wheel_files("torch_npu_wheel", TORCH_NPU)


def wheel_files(name: str, requirement: str) -> Path:
    """The unpacked wheel of one distribution, without what it depends on."""
    with locked(name):
        target = folder() / name
        wanted = fingerprint([[requirement]])
        if read_mark(target) != wanted:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            pip(Path(sys.executable), "download", "--no-deps", "--dest", str(target), requirement)
            (wheel,) = target.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
            wheel.unlink()
            write_mark(target, wanted)
    return target


def environment(name: str, installs: list[list[str]]) -> Path:
    """The interpreter of environment `name`, after one `pip install` per entry of `installs`."""
    with locked(name):
        target = folder() / name
        python = target / "bin" / "python"
        wanted = fingerprint(installs)
        if read_mark(target) != wanted:
            shutil.rmtree(target, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(target)])
            for arguments in installs:
                pip(python, "install", *arguments)
            write_mark(target, wanted)
    return python


def pip(python: Path, command: str, *arguments: str) -> None:
    run([str(python), "-m", "pip", command, "--disable-pip-version-check", "-q", *arguments])


def run(command: list[str]) -> None:
    """Run to the end within the limit; the error carries what pip said."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        shown = " ".join(command)
        hint = ""
        if "+cpu" in shown:
            hint = "\nThe CPU build of torch must be reachable by pip: see PIP_EXTRA_INDEX_URL."
        raise RuntimeError(f"{shown}\nexited {done.returncode}\n{done.stderr[-4000:]}{hint}")


def fingerprint(installs: list[list[str]]) -> str:
    return hashlib.sha256(f"{sys.version}\n{installs}".encode()).hexdigest()


def read_mark(target: Path) -> str:
    mark = target / ".complete"
    return mark.read_text() if mark.is_file() else ""


def write_mark(target: Path, text: str) -> None:
    (target / ".complete").write_text(text)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Two test runs at once make an environment once; the lock goes with the process."""
    folder().mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 2 * INSTALL_TIMEOUT_S
    with (folder() / f"{name}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"another process keeps {lock.name} locked") from None
                time.sleep(0.2)
        yield
