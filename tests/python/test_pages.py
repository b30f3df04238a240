"""README and docs are true: their blocks run, their settings, links and commands exist."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import tomllib
from command import REPOSITORY, ascendrt, run

import ascendrt as ascendrt_package
from ascendrt import _HOME_OF as HOME_OF

README = REPOSITORY / "README.md"
PAGES = [README, *sorted((REPOSITORY / "docs").glob("*.md"))]
TOOLS = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def all_blocks(language: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page.name}-{index}")
        for page in PAGES
        for index, text in enumerate(blocks(page, language))
    ]


@pytest.fixture
def workplace(tmp_path: Path, digits_om: Path) -> Path:
    """What the pages assume: .venv with the package, examples/ and a converted digits.om."""
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    shutil.copy(digits_om, tmp_path / "digits.om")
    return tmp_path


@pytest.mark.parametrize("text", all_blocks("sh"))
def test_shell_blocks(text: str, workplace: Path) -> None:
    """Blocks marked `sh` run as they stand; blocks marked `console` need root or a network."""
    done = run("bash", "-c", f"set -eu\n{text}", cwd=workplace, PATH=TOOLS)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("text", all_blocks("c"))
def test_c_blocks(text: str, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(text)
    script = """set -eu
    ascendrt sdk ./sdk > /dev/null
    cc -std=c11 -Wall -Wextra -Werror -I sdk/include program.c -L sdk/lib64 -lascendcl -o program
    ascendrt run -- ./program"""
    done = run("bash", "-c", script, cwd=tmp_path, PATH=TOOLS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


# `console` needs root or a network, `mermaid` is a picture; all others are run above.
LANGUAGES = {"python", "sh", "c", "console", "mermaid"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_escapes(page: Path) -> None:
    fences = re.findall(r"^[ >]*(?:```|~~~)(.*)$", page.read_text(), re.M)
    assert fences == re.findall(r"^```(.*)$", page.read_text(), re.M), (
        "an indented block is not run"
    )
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}


def test_the_site_builds_and_has_every_page(tmp_path: Path) -> None:
    """Dead links, pages outside the menu's reach and names without docstring are errors."""
    pytest.importorskip("mkdocs", reason="mkdocs is missing: pip install ascendrt[docs]")
    words = ("mkdocs", "build", "--strict", "--site-dir", tmp_path)
    done = run(sys.executable, "-m", *words, cwd=REPOSITORY, NO_MKDOCS_2_WARNING="1")
    assert done.returncode == 0, done.stderr
    menu = (REPOSITORY / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert f": {page.name}\n" in menu, f"{page.name} is not in the menu of mkdocs.yml"
    reference = (tmp_path / "reference" / "index.html").read_text()
    for name in ("Device", "Stream", "Model", "DynamicBatcher", "AclError"):
        assert f">{name}</span>" in reference
    settings = (tmp_path / "settings" / "index.html").read_text()
    assert "ASCENDRT_SCHED_SEED" in settings


def test_every_public_name_is_in_the_reference() -> None:
    page = (REPOSITORY / "docs" / "reference.md").read_text()
    names = set(re.findall(r"^::: [\w.]+\.(\w+)$", page, re.M))
    assert {name for name in ascendrt_package.__dir__() if name in HOME_OF} <= names


@pytest.mark.parametrize("text", all_blocks("python"))
def test_python_blocks(text: str, workplace: Path) -> None:
    done = run(sys.executable, "-c", text, "digits.om", cwd=workplace)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_readme_shows_hello() -> None:
    shown = blocks(README, "python")[0]
    code = (REPOSITORY / "examples" / "hello.py").read_text().split('"""\n', 1)[1]
    assert shown.strip() == code.strip()
    assert len([line for line in shown.splitlines() if line.strip()]) <= 10


def test_readme_lists_every_setting() -> None:
    """A variable that some source reads is in the table, and the table has no other of ours."""
    sources = [
        path
        for folder in ("emulator", "ascendrt", "csrc")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in (".cpp", ".hpp", ".c", ".py")
        and "gen" not in path.parts
        and path.name != "settings.py"  # the list itself
    ]
    read = {
        name
        for path in sources
        for name in re.findall(r'"(ASCENDRT_[A-Z_]+[A-Z])"', path.read_text())
    }
    table = set(re.findall(r"^\| `(ASCENDRT_[A-Z_]+)`", README.read_text(), re.M))
    assert read, "no source was read"
    assert table == read


def test_every_chip_is_listed() -> None:
    page = (REPOSITORY / "docs" / "emulation.md").read_text()
    rows = re.findall(r"^\| Ascend\d+ \| (.*) \|$", page, re.M)
    known = tomllib.loads((REPOSITORY / "csrc" / "abi" / "soc.toml").read_text())["soc"]
    assert sorted(name for row in rows for name in row.split()) == sorted(known)


def test_readme_lists_every_command() -> None:
    usage = ascendrt("--help").stdout
    commands = set(re.findall(r"^    (\w+) ", usage, re.M))
    shown = set(re.findall(r"`(?:eval \"\$\()?ascendrt (\w+)", README.read_text()))
    assert commands, usage
    assert shown == commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_on_the_pages_exist(page: Path) -> None:
    roots = ("ascendrt/", "csrc/", "docs/", "emulator/", "examples/", "tests/")
    for name in re.findall(r"`([\w./-]+)`", page.read_text()):
        if name.startswith(roots):
            assert (REPOSITORY / name).exists(), f"{page.name} names {name}"
        elif re.fullmatch(r"[\w-]+\.md", name):
            assert (page.parent / name).exists(), f"{page.name} names {name}"
