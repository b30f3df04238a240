"""The types are complete for users: mypy --strict on a program that uses every object."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from command import REPOSITORY, run

SAMPLE = REPOSITORY / "examples" / "typed_serving.py"


def check(path: Path, folder: Path) -> tuple[int, str]:
    """Run mypy as a user of the installed package does: no settings of this project."""
    command = (sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}")
    done = run(*command, path, cwd=folder, MYPYPATH=str(REPOSITORY))
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mypy", reason="mypy is not installed")
    return tmp_path_factory.mktemp("mypy")


def test_the_sample_is_accepted(folder: Path) -> None:
    code, text = check(SAMPLE, folder)
    assert code == 0, text


def test_wrong_uses_are_found(folder: Path) -> None:
    wrong = folder / "wrong.py"
    wrong.write_text(
        "import ascendrt\n"
        "memory: int = ascendrt.Memory(8)\n"
        "ascendrt.Stream().record(memory)\n"
        "batcher = ascendrt.DynamicBatcher(lambda batch: [str(each) for each in batch])\n"
        "def run(batch: list[int]) -> list[str]:\n"
        "    return [str(each) for each in batch]\n"
        "answer: bytes = ascendrt.DynamicBatcher(run)(3)\n"
        "ascendrt.DynamicBatcher(run).submit('three')\n"
    )
    code, text = check(wrong, folder)
    assert code == 1
    lines = {int(number) for number in re.findall(r"wrong\.py:(\d+): error", text)}
    assert {2, 3, 7, 8} <= lines, text


def test_the_sample_runs(digits_om: Path) -> None:
    done = run(sys.executable, SAMPLE, digits_om)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[0 2 4 6] True"
    assert len(lines[1].split(",")) == 4
    assert lines[2:4] == ["49 1.0", "0"]
    assert lines[4].startswith("107001 ACL_ERROR_RT_INVALID_DEVICEID aclrtSetDevice")
