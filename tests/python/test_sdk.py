"""`ascendrt sdk`: the shape of the folder, its scripts, and that copied libraries work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from command import ascendrt, run

SOURCED = """
set -eu
unset ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME LD_LIBRARY_PATH
. "$1"
printf '%s\\n' "$ASCEND_HOME_PATH" "$ASCEND_TOOLKIT_HOME" "$LD_LIBRARY_PATH" "$PATH"
"""


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("with space") / "it's an sdk"
    done = ascendrt("sdk", root)
    assert done.returncode == 0, done.stderr
    assert "set_env.sh" in done.stdout
    return root


def test_the_shape_is_what_projects_look_for(sdk: Path) -> None:
    for name in (
        "include/acl/acl.h",
        "lib64/libascendcl.so",
        "lib64/libascendrt_emu.so",
        "lib64/stub/libascendcl.so",
        "runtime/include/acl/acl_rt.h",
        "runtime/lib64/stub/libascendcl.so",
        "acllib/include/acl/acl_mdl.h",
        "compiler/include/acl/acl_op_compiler.h",
        "bin/atc",
        "set_env.sh",
        "bin/setenv.bash",
    ):
        assert (sdk / name).is_file(), name
    assert not list(sdk.glob("lib64/*bind*"))


@pytest.mark.parametrize(
    ("shell", "script"),
    [("/bin/sh", "set_env.sh"), ("/bin/bash", "set_env.sh"), ("/bin/bash", "bin/setenv.bash")],
)
def test_scripts_are_safe_under_set_u(sdk: Path, shell: str, script: str) -> None:
    done = run(shell, "-c", SOURCED, "sh", sdk / script, PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    home, toolkit, libraries, path = done.stdout.splitlines()
    assert home == toolkit == str(sdk)
    assert libraries == f"{sdk}/lib64"
    assert path == f"{sdk}/bin:/usr/bin:/bin"


def test_a_moved_tree_still_works_in_bash(sdk: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    assert run("/bin/cp", "-a", sdk, moved).returncode == 0
    done = run("/bin/bash", "-c", SOURCED, "sh", moved / "set_env.sh")
    assert done.stdout.splitlines()[0] == str(moved)


def test_the_sdk_brings_atc(sdk: Path, tmp_path: Path) -> None:
    network = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
    command = (
        '. "$1"; atc --framework=5 --model="$2" --output="$3/net" --soc_version=Ascend910B1 >&2'
    )
    script = sdk / "set_env.sh"
    done = run("/bin/bash", "-c", command, "sh", script, network, tmp_path, PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "net.om").is_file()


def test_copied_libraries_and_the_package_share_one_state(sdk: Path) -> None:
    code = (
        "import ctypes, json, sys, ascendrt\n"
        "device = ascendrt.Device(0)\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "index = ctypes.c_int32(-1)\n"
        "answer = library.aclrtGetDevice(ctypes.byref(index))\n"
        "print(json.dumps([answer, index.value]))\n"
        "device.close()"
    )
    done = run(sys.executable, "-c", code, sdk / "lib64" / "libascendcl.so")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 0]


def test_a_sourced_sdk_is_not_taken_for_a_real_toolkit(sdk: Path) -> None:
    done = ascendrt(
        "info", "--json", ASCENDRT_BACKEND="auto", ASCEND_HOME_PATH=str(sdk), PYTHONWARNINGS="error"
    )
    if "device files" in done.stderr:
        pytest.skip("this machine has NPU device files")
    facts = json.loads(done.stdout)
    assert facts["backend"] == "emu"
    tried = next(row for row in facts["tried"] if row["directory"] == str(sdk / "lib64"))
    assert "emulator" in tried["reason"]


def test_an_sdk_is_written_again_in_place_but_over_nothing_else(sdk: Path, tmp_path: Path) -> None:
    (sdk / "lib64" / "libstale.so").touch()
    assert ascendrt("sdk", sdk).returncode == 0
    assert not (sdk / "lib64" / "libstale.so").exists()
    (tmp_path / "precious").touch()
    done = ascendrt("sdk", tmp_path)
    assert done.returncode == 1
    assert "no ascendrt sdk" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_an_sdk_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A full disk, here a limit on the size of files."""
    script = 'ulimit -f 2; "$0" -m ascendrt sdk "$1"'
    done = run("bash", "-c", script, sys.executable, tmp_path / "new")
    assert (done.returncode, "cannot be written: " in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
