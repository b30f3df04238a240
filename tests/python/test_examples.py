"""Every public example is compiled and run: C11, C++17, CMake, Python."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from command import DIGITS, REPOSITORY, ascendrt, run

EXAMPLES = REPOSITORY / "examples"
# cmake, ninja and the ascendrt command lie beside the interpreter.
TOOLS = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
ASCENDRT = [sys.executable, "-m", "ascendrt"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
OLD_ABI = "-D_GLIBCXX_USE_CXX11_ABI=0"


def succeed(*words: object, cwd: Path | None = None) -> str:
    done = run(*words, cwd=cwd, PATH=TOOLS)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree made by `ascendrt sdk`; the space in its name must not matter."""
    folder = tmp_path_factory.mktemp("a toolkit") / "sdk"
    succeed(*ASCENDRT, "sdk", folder)
    return folder


@pytest.fixture(scope="module")
def answer_to_zeros() -> float:
    """The first output value for an input of zeros, by onnxruntime: what hello prints."""
    session = onnxruntime.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"])
    return float(session.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})[0][0, 0])


def compiler_of(language: str) -> str:
    names = (("CC", "cc", "gcc"), ("CXX", "c++", "g++"))[language == "cpp"]
    found = os.environ.get(names[0]) or shutil.which(names[1]) or shutil.which(names[2])
    assert found, "a compiler is needed: apt-get install -y g++"
    return found


def build(sdk: Path, language: str, target: Path, *flags: str, name: str = "hello") -> Path:
    source = EXAMPLES / language / f"{name}.{language}"
    standard = {"c": "-std=c11", "cpp": "-std=c++17"}[language]
    link = [f"-L{sdk / 'lib64'}", "-lascendcl"]
    folders = ["-I", sdk / "include"]
    compiler = compiler_of(language)
    succeed(compiler, standard, *WARNINGS, *flags, *folders, source, *link, "-o", target)
    return target


def check_output(text: str, expected: float) -> None:
    assert "device 0: Ascend910B1" in text
    assert "copy: 4096 bytes to the device and back" in text
    assert re.search(r"copy on a stream: 4096 bytes each way, events say \d+\.\d+ ms", text)
    printed = re.search(r"model output 0 \(.*\): 40 bytes, first value (\S+)", text)
    assert printed, text
    assert float(printed[1]) == pytest.approx(expected, abs=1e-5)
    assert text.rstrip().endswith("done")


PROGRAMS = [("c", ()), ("cpp", ()), ("cpp", (OLD_ABI,))]


@pytest.mark.parametrize(("language", "flags"), PROGRAMS)
def test_hello_under_ascendrt_run(
    sdk: Path,
    digits_om: Path,
    answer_to_zeros: float,
    tmp_path: Path,
    language: str,
    flags: tuple[str, ...],
) -> None:
    program = build(sdk, language, tmp_path / "hello", *flags)
    check_output(succeed(*ASCENDRT, "run", "--", program, digits_om), answer_to_zeros)


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_hello_links_libascendcl_alone(sdk: Path, tmp_path: Path, language: str) -> None:
    program = build(sdk, language, tmp_path / "hello")
    needed = re.findall(r"NEEDED.*\[(.+?)\]", succeed("readelf", "-d", program))
    system = ("libc.so", "libstdc++.so", "libgcc_s.so", "libm.so", "ld-linux")
    assert [name for name in needed if not name.startswith(system)] == ["libascendcl.so"]


@pytest.mark.parametrize("language", ["c", "cpp"])
@pytest.mark.parametrize("script", ["set_env.sh", "bin/setenv.bash"])
def test_hello_after_sourcing(
    sdk: Path, digits_om: Path, answer_to_zeros: float, tmp_path: Path, language: str, script: str
) -> None:
    """`set -u` on, every variable of the toolkit unset before, sourced twice."""
    program = build(sdk, language, tmp_path / "hello")
    shell = 'set -eu; . "$1"; . "$1"; exec "$2" "$3"'
    text = succeed("bash", "-c", shell, "bash", sdk / script, program, digits_om)
    check_output(text, answer_to_zeros)


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_hello_says_what_failed(sdk: Path, tmp_path: Path, language: str) -> None:
    program = build(sdk, language, tmp_path / "hello")
    done = ascendrt("run", "--", program, tmp_path / "absent.om")
    assert done.returncode == 1
    assert "145002" in done.stderr
    assert "absent.om" in done.stderr, "aclGetRecentErrMsg must name the file"
    assert "done" not in done.stdout


# acltools.py is what the guides share: asking for the model is one of its functions. What needs ray
# is run by the client tests, which install it.
SCRIPTS = [
    path
    for path in sorted(EXAMPLES.rglob("*.py"))
    if "sys.argv" in (text := path.read_text())
    and path.name != "acltools.py"
    and "\nimport ray\n" not in text
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_without_their_arguments_say_what_they_need(script: Path) -> None:
    done = run(sys.executable, script, cwd=REPOSITORY)
    assert done.returncode != 0
    assert done.stderr.startswith("usage: python "), done.stderr


def test_every_example_is_run_by_a_test() -> None:
    """By its name, or by a glob over its folder; acltools.py is what the guides share."""
    tests = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("*.py"))
    left = [
        path.name
        for path in EXAMPLES.rglob("*")
        if path.suffix in (".py", ".c", ".cpp")
        and path.name not in tests
        and not re.search(rf"\b{path.stem}\b", tests)
    ]
    assert left == []


@pytest.mark.parametrize("flags", ["", OLD_ABI])
@pytest.mark.parametrize("variable", ["ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"])
def test_cmake_project(
    sdk: Path,
    digits_om: Path,
    answer_to_zeros: float,
    tmp_path: Path,
    flags: str,
    variable: str,
) -> None:
    """Configured with one of the two variables alone, built unchanged, run after set_env.sh."""
    other = {"ASCEND_TOOLKIT_HOME": "ASCEND_HOME_PATH"}.get(variable, "ASCEND_TOOLKIT_HOME")
    shell = f"""set -eu; . "$1"; unset {other}
        cmake -S "$2" -B . -DCMAKE_CXX_FLAGS="$3" && cmake --build .
        . "$1"; ./hello_c "$4"; echo ----; ./hello_cpp "$4" """
    project = EXAMPLES / "cmake_project"
    arguments = [sdk / "set_env.sh", project, flags, digits_om]
    text = succeed("bash", "-c", shell, "bash", *arguments, cwd=tmp_path)
    first, second = text.split("\n----\n")
    check_output(first, answer_to_zeros)
    check_output(second, answer_to_zeros)


def test_cmake_project_without_a_toolkit(tmp_path: Path) -> None:
    done = run("cmake", "-S", EXAMPLES / "cmake_project", "-B", tmp_path, PATH=TOOLS)
    assert done.returncode != 0
    assert "ascendrt sdk DIR" in done.stderr


def test_hello_in_python(digits_om: Path) -> None:
    text = succeed(sys.executable, EXAMPLES / "hello.py", digits_om, cwd=REPOSITORY)
    with np.load(EXAMPLES / "digits" / "heldout.npz") as held_out:
        assert re.fullmatch(rf"Ascend910B1 says {held_out['labels'][0]} \(\d+\.\d%\)\n", text)


def test_text_is_read_as_onnxruntime_reads_it() -> None:
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("the package rapidocr-onnxruntime, which carries the networks, is missing")
    text = succeed(sys.executable, EXAMPLES / "ocr" / "demo.py", cwd=REPOSITORY)
    assert text.endswith("the same as onnxruntime reads\n")
    lines = text.replace(" ", "").splitlines()
    for written in ("Offlinemodels", "UPSIDEDOWN", "Total:1024.50", "INVOICE2024-117"):
        assert written in lines
