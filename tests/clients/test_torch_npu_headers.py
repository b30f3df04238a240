"""The vendor headers inside the torch-npu wheel say what our tables say, overrides included.

Compiled, not run: a different value, layout or signature is a compile error that names it.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Any

import environments
import pytest
import torch_npu_asserts

# The limit covers making the environment, which happens inside the first test that needs it.
pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * environments.INSTALL_TIMEOUT_S)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COMPILE_TIMEOUT_S = 300
# What the tables hold for headers of that wheel; fewer asserts mean that the choice of rows broke.
LEAST = {"enum value": 600, "constant": 350, "layout": 400, "signature": 650}


@pytest.fixture(scope="module")
def include(torch_npu_files: Path) -> Path:
    return torch_npu_files / "torch_npu" / "include" / "third_party" / "acl" / "inc"


@pytest.fixture(scope="module")
def model() -> Any:
    return torch_npu_asserts.load_model()


def headers_of(model: Any, include: Path) -> set[str]:
    return {row.path for row in model.headers if row.path and (include / row.path).is_file()}


def compile_text(text: str, include: Path, folder: Path) -> str:
    """What the compiler complains about; empty when the text is accepted."""
    source = folder / "asserts.cpp"
    source.write_text(text)
    return compile_file(source, include, "-std=c++17", "-w")


def compile_file(source: Path, include: Path, *flags: str) -> str:
    compiler = shutil.which("g++")
    assert compiler, "a C++ compiler is needed: apt-get install -y g++"
    folders = ["-isystem", str(include), "-isystem", str(include / "acl")]
    done = subprocess.run(
        [compiler, "-fsyntax-only", *flags, *folders, str(source)],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr or f"exit {done.returncode}"


def test_tables_hold_against_the_headers(model: Any, include: Path, tmp_path: Path) -> None:
    text, counts = torch_npu_asserts.asserts(model, headers_of(model, include))
    assert {kind: counts[kind] >= least for kind, least in LEAST.items()} == dict.fromkeys(
        LEAST, True
    ), counts
    complaints = compile_text(text, include, tmp_path)
    assert not complaints, complaints[:6000]


def test_overrides_are_needed(model: Any, include: Path, tmp_path: Path) -> None:
    """With the values of CANN 9.1 the capture codes and the platform enum must differ."""
    plain = dataclasses.replace(
        model,
        consts=tuple(
            dataclasses.replace(row, torch_npu=None)
            if row.value is not None and row.torch_npu != torch_npu_asserts.ABSENT
            else row
            for row in model.consts
        ),
        enums=tuple(
            dataclasses.replace(
                row,
                members=tuple(
                    dataclasses.replace(member, torch_npu=None)
                    if member.value is not None and isinstance(member.torch_npu, int)
                    else member
                    for member in row.members
                ),
            )
            for row in model.enums
        ),
    )
    text, _ = torch_npu_asserts.asserts(plain, headers_of(model, include))
    complaints = compile_text(text, include, tmp_path)
    for name in ("107045", "107046", "ACL_PLATFORM_"):
        assert name in complaints


@pytest.mark.parametrize(
    ("program", "flags"),
    [("c/hello.c", ("-x", "c", "-std=c11")), ("cpp/hello.cpp", ("-std=c++17",))],
)
def test_examples_compile_with_the_vendor_headers(
    include: Path, program: str, flags: tuple[str, ...]
) -> None:
    """Our examples need nothing that only our headers have."""
    complaints = compile_file(EXAMPLES / program, include, *flags, "-Wall", "-Wextra", "-Werror")
    assert not complaints, complaints[:6000]
