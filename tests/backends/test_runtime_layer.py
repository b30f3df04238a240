"""Functions of the runtime layer: a C program, and the same behaviour as the acl layer's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tomllib

from ascendrt import _backend

HERE = Path(__file__).parent
ROWS = HERE.parents[1] / "csrc" / "abi" / "rt.toml"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, linked with libruntime alone."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a compiler is needed: apt-get install -y gcc"
    target = tmp_path_factory.mktemp("rt") / "runtime_layer"
    command = [
        compiler, "-std=c11", *WARNINGS, "-I", str(_backend.package_include_dir()),
        str(HERE / "runtime_layer.c"), f"-L{_backend.package_lib_dir()}", "-lruntime",
        "-o", str(target),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return target


def test_program_at_the_level_of_the_runtime(program: Path) -> None:
    environ = {
        **os.environ, "LD_LIBRARY_PATH": str(_backend.package_lib_dir()),
        "ASCENDRT_MACHINE": "private", "ASCENDRT_SOC": "Ascend910B1", "ASCENDRT_DEVICES": "1",
    }  # fmt: skip
    done = subprocess.run(
        [program], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (
        0, ["devices", "contexts", "memory", "events", "streams", "done"],
    ), done.stdout + done.stderr  # fmt: skip


def test_shared_bodies_are_emulated() -> None:
    """A function that shares a body is there if and only if that body is."""
    rows = tomllib.loads(ROWS.read_text(encoding="utf-8"))["fn"]
    states: dict[str, str] = {}
    for path in ROWS.parent.glob("*.toml"):
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("fn", {})
        states |= {name: row["emu"] for name, row in table.items()}
    shared = {name: row["same"].split("(")[0] for name, row in rows.items() if "same" in row}
    assert len(shared) >= 80
    wrong = [f for f, body in shared.items() if states[body] not in ("full", "partial")]
    assert wrong == []
