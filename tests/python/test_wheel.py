"""The wheel works away from the source tree: built, installed alone, run from another folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command import DIGITS, REPOSITORY, environment, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
BUILD_TIMEOUT_S = 1000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the tools that are here, in the folder of `make build`: little to compile."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    settings = f"--config-settings=build-dir={REPOSITORY}/build/python"
    subprocess.run(
        [*command, settings, "-w", str(target), str(REPOSITORY)],
        check=True,
        timeout=BUILD_TIMEOUT_S,
        env=environment(),
    )
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel and what it depends on, and nothing else."""
    root = tmp_path_factory.mktemp("fresh") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(root)], check=True, timeout=120)
    python = root / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, timeout=600, env=environment())
    return python


def test_it_is_one_abi3_wheel_with_everything_in_it(wheel: Path) -> None:
    assert "-cp310-abi3-linux_" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "acl.abi3.so",
        "acl-stubs/rt.pyi",
        "ascendrt/_cffi.abi3.so",
        "ascendrt/_fast.abi3.so",
        "ascendrt/_fast.pyi",
        "ascendrt/serving/__init__.py",
        "ascendrt/lib/libascendrt_bind.so",
        "ascendrt/lib/libascendrt_emu.so",
        "ascendrt/lib/libascendcl.so",
        "ascendrt/include/acl/acl.h",
        "ascendrt/_gen/coverage.json",
        "ascendrt/_probe.py",
        "ascendrt/py.typed",
    ):
        assert name in names, name
    foreign = [n for n in names if n.split("/")[0] not in ("ascendrt", "acl.abi3.so", "acl-stubs")]
    assert all(".dist-info/" in name for name in foreign), foreign


def test_the_installed_command_works_elsewhere(python: Path, tmp_path: Path) -> None:
    command = python.with_name("ascendrt")
    done = run(command, "info", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["backend"] == "emu"
    assert str(REPOSITORY) not in json.dumps(facts)
    assert facts["library_dir"].startswith(str(python.parents[1]))
    for words in (
        ("om", "convert", DIGITS, "-o", "digits.om"),
        ("om", "info", "digits.om"),
        ("sdk", "sdk"),
        ("coverage",),
    ):
        done = run(command, *words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)


def test_the_limited_api_is_kept(wheel: Path) -> None:
    audit = Path(sys.executable).with_name("abi3audit")
    if not audit.exists():
        pytest.skip("abi3audit is not installed (extra `dev`)")
    done = run(audit, "--strict", wheel)
    assert done.returncode == 0, done.stdout + done.stderr
