"""The `ascendrt` command: what it prints, its exit codes, and errors a user can act on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import ascendrt, environment, run

from ascendrt import _backend, _ctl


def refused(done: subprocess.CompletedProcess[str], *parts: str, code: int = 1) -> None:
    """The command ended with `code`, without a traceback, and its error names all the parts."""
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


def test_info_as_json() -> None:
    done = ascendrt("info", "--json", ASCENDRT_DEVICES="2", ASCENDRT_HBM_SIZE="4G")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["backend"] == "emu"
    assert facts["soc"] == "Ascend910B1"
    assert facts["device_count"] == len(facts["devices"]) == 2
    assert facts["library_dir"] == str(_backend.package_lib_dir())
    assert any(path.endswith("/libascendcl.so") for path in facts["libraries"])
    assert facts["versions"]["interface"].count(".") == 2
    assert "page" in facts["page_kind"]
    for device in facts["devices"]:
        assert device["memory_total_bytes"] == 4 << 30
        assert 0 < device["memory_free_bytes"] <= 4 << 30


def test_info_for_people() -> None:
    done = ascendrt("info", ASCENDRT_SOC="Ascend310P3")
    assert done.returncode == 0, done.stderr
    for part in ("backend", "emu", "Ascend310P3", "device 0", "GiB", "pages"):
        assert part in done.stdout


def test_info_without_devices_says_so() -> None:
    done = ascendrt("info", "--json", ASCENDRT_DEVICES="0")
    assert done.returncode == 1
    assert json.loads(done.stdout)["device_count"] == 0


def test_coverage_counts_what_the_table_lists() -> None:
    done = ascendrt("coverage", "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    levels = table["levels"]
    assert levels == ["full", "partial", "stub", "absent"]
    acl = [row for row in table["functions"] if row["name"].lower().startswith("acl")]
    assert len(acl) >= 742
    counted = sum(entry[level] for entry in table["areas"] for level in levels)
    assert counted == len(table["functions"]) == sum(table["totals"].values())
    malloc = next(row for row in acl if row["name"] == "aclrtMalloc")
    assert malloc["emu"] in ("full", "partial")
    printed = ascendrt("coverage").stdout.splitlines()
    assert len(printed) == len(table["areas"]) + 3
    totals = [int(word) for word in printed[-2].split()[1:]]
    assert sum(totals) == len(table["functions"])
    assert printed[-1].startswith("the Python module acl: 415 calls")
    assert ascendrt("coverage", "acl.rt.malloc").stdout.startswith("aclrtMalloc ")
    assert ascendrt("coverage", "himpi.sys_init").stdout.split() == ["acl.himpi.sys_init", "absent"]


def test_coverage_of_a_name_as_json() -> None:
    told = json.loads(ascendrt("coverage", "acl.rt.malloc", "--json").stdout)
    assert {row["name"] for row in told["functions"]} >= {"aclrtMalloc", "aclrtMallocHost"}
    assert all("malloc" in row["name"].lower() for row in told["functions"])
    told = json.loads(ascendrt("coverage", "himpi.sys_init", "--json").stdout)
    assert (told["functions"], told["python_absent"]) == ([], ["himpi.sys_init"])


def test_info_of_a_machine_that_does_not_open() -> None:
    path = _ctl.ledger_file(f"broken-{os.getpid()}")
    path.write_text("no ledger")
    path.chmod(0o600)
    try:
        done = ascendrt("info", ASCENDRT_MACHINE=f"broken-{os.getpid()}")
    finally:
        path.unlink()
    assert done.returncode == 1
    assert "507033" in done.stdout and "ascendrt smi --reset" in done.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"set -o pipefail; {sys.executable} -m ascendrt coverage --json | head -1"
    done = run("/bin/bash", "-c", command)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_or_full_output_is_no_traceback() -> None:
    for output, code in ((">&-", 0), ("> /dev/full", 1), ("2>&- >&-", 0)):
        done = run("sh", "-c", f'"$0" -m ascendrt coverage {output}', sys.executable)
        assert done.returncode == code, (output, done.stderr)
        assert "Traceback" not in done.stderr, output
    assert run("sh", "-c", '"$0" -m ascendrt run -- true >&-', sys.executable).returncode == 0
    for words in ("coverage --json", "info --json /nope"):
        done = run("sh", "-c", f'"$0" -m ascendrt {words} > /dev/full', sys.executable)
        assert done.returncode in (1, 2), done.stderr
        assert "Traceback" not in done.stderr, words


def test_a_name_that_the_terminal_cannot_show_is_shown_in_part(
    tmp_path: Path, digits_om: Path
) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/n\xff.om")
    shutil.copy(digits_om, name)
    for encoding in ("utf-8", "ascii"):
        done = ascendrt("om", "info", name, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        assert r"n\udcff.om" in done.stdout


def test_a_number_of_devices_that_is_none() -> None:
    done = ascendrt("run", "--devices", "two", "--", "true")
    assert done.returncode == 2
    assert "invalid int value: 'two'" in done.stderr


def test_env_lines_put_the_libraries_in_place(tmp_path: Path) -> None:
    lines = ascendrt("env").stdout
    script = 'set -eu\nunset LD_LIBRARY_PATH\neval "$1"\neval "$1"\nprintf %s "$LD_LIBRARY_PATH"'
    done = run("/bin/sh", "-c", script, "sh", lines)
    assert done.returncode == 0, done.stderr
    directory = str(_backend.package_lib_dir())
    assert done.stdout.split(":") == [directory, directory]


def test_env_takes_the_machine_as_run_does() -> None:
    words = ("--devices", "3", "--soc", "Ascend310P3", "--machine", "mine and yours")
    script = 'eval "$1"\nprintf "%s,%s,%s,%s" "$ASCENDRT_BACKEND" "$ASCENDRT_DEVICES" ' + (
        '"$ASCENDRT_SOC" "$ASCENDRT_MACHINE"'
    )
    done = run("/bin/sh", "-c", script, "sh", ascendrt("env", *words).stdout)
    assert done.stdout == "emu,3,Ascend310P3,mine and yours"
    told = json.loads(ascendrt("env", *words, "--json").stdout)
    assert (told["ASCENDRT_DEVICES"], told["ASCENDRT_MACHINE"]) == ("3", "mine and yours")
    refused = ascendrt("env", "--soc", "Ascend310P33")
    assert refused.returncode == 2 and "did you mean Ascend310P3" in refused.stderr


PROBE = """
import ctypes, json, os
library = ctypes.CDLL("libascendcl.so")
count = ctypes.c_uint32()
code = library.aclrtGetDeviceCount(ctypes.byref(count))
library.aclrtGetSocName.restype = ctypes.c_char_p
print(json.dumps([code, count.value, library.aclrtGetSocName().decode(), os.environ["MARK"]]))
"""


def test_run_gives_any_program_the_emulator() -> None:
    done = ascendrt(
        *("run", "--devices", "3", "--soc", "Ascend910B4", "--", sys.executable, "-c", PROBE),
        MARK="kept",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 3, "Ascend910B4", "kept"]


def test_run_gives_back_the_exit_code_of_the_program() -> None:
    assert ascendrt("run", "--", "/bin/sh", "-c", "exit 7").returncode == 7
    assert ascendrt("run", "--", "/bin/sh", "-c", "kill -TERM $$").returncode == -15


def test_run_keeps_the_users_library_path_behind_ours() -> None:
    done = ascendrt(
        "run", "--", "/bin/sh", "-c", 'printf %s "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH="/x"
    )
    assert done.stdout == f"{_backend.package_lib_dir()}:/x"


def test_run_of_nothing_and_of_what_is_not_there(tmp_path: Path) -> None:
    refused(ascendrt("run"), "say what to run", code=2)
    refused(ascendrt("run", "--", "no-such-program"), "no-such-program was not found", code=127)
    script = tmp_path / "script.py"
    script.write_text("print(1)")
    refused(ascendrt("run", "--", script), "is no program", "python3 script.py", code=126)


def test_wrong_usage_is_exit_code_2() -> None:
    refused(ascendrt(), "COMMAND", code=2)
    refused(ascendrt("inf"), "invalid choice", code=2)
    refused(ascendrt("om", "convert"), "NET.onnx", code=2)


def test_a_bad_setting_is_an_error_with_its_name() -> None:
    refused(ascendrt("info", ASCENDRT_BACKEND="reel"), "ASCENDRT_BACKEND", "auto, real, emu")


def test_a_misspelt_chip_is_told_the_nearest_ones() -> None:
    for given, meant in (
        ("Ascend910b1", "did you mean Ascend910B1?"),
        ("Asend310P3", "did you mean Ascend310P3"),
        ("V100", "names are like Ascend910B1"),
    ):
        done = ascendrt("info", ASCENDRT_SOC=given)
        assert done.returncode == 1
        [line] = [line for line in done.stdout.splitlines() if "no known SoC" in line]
        assert f"ASCENDRT_SOC='{given}' is no known SoC; {meant}" in line
        assert len(line) < 200, "the list of all chips is in docs/emulation.md"


def test_real_without_cann_lists_the_places() -> None:
    done = ascendrt("info", ASCENDRT_BACKEND="real", ASCEND_HOME_PATH="/nonexistent/cann")
    if os.path.exists("/usr/local/Ascend"):
        pytest.skip("this machine has a toolkit in the standard place")
    refused(done, "/nonexistent/cann/lib64", "/usr/local/Ascend", "ASCENDRT_BACKEND=emu")


def test_the_command_is_installed() -> None:
    script = Path(sys.executable).with_name("ascendrt")
    done = subprocess.run(
        [str(script), "--version"], capture_output=True, text=True, env=environment(), timeout=60,
        check=True,
    )  # fmt: skip
    assert done.stdout.startswith("ascendrt ")
