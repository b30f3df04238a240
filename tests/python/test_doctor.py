"""`doctor` and `bench`, suggestions, exit codes and --json of the command line."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from command import DIGITS, REPOSITORY, TIMEOUT_S, ascendrt, environment, run

from ascendrt.cli import _COMMANDS, versions
from ascendrt.cli.settings import KNOWN


def doctor(code: int, **changes: str) -> list[dict[str, Any]]:
    done = ascendrt("doctor", "--json", **changes)
    assert done.returncode == code, (done.stdout, done.stderr)
    told = json.loads(done.stdout)
    problems = [finding for finding in told["findings"] if finding["state"] == "problem"]
    assert told["problems"] == len(problems)
    assert bool(problems) == bool(code)
    assert all(each["advice"] or each["topic"] == "trial" for each in problems)
    findings: list[dict[str, Any]] = told["findings"]
    return findings


def one(findings: list[dict[str, Any]], topic: str, *parts: str) -> dict[str, Any]:
    """The finding on a topic with all the parts in it."""
    found = [
        each
        for each in findings
        if each["topic"] == topic
        and all(part in each["text"] + " " + each["advice"] for part in parts)
    ]
    assert len(found) == 1, (topic, parts, findings)
    return found[0]


def test_a_healthy_machine() -> None:
    findings = doctor(0)
    one(findings, "backend", "ASCENDRT_BACKEND=emu")
    one(findings, "variable", "ASCENDRT_MACHINE=private")
    one(findings, "trial", "is right", "Ascend910B1, 1 device(s)")
    text = ascendrt("doctor").stdout
    assert text.endswith("no problem was found\n")


def test_a_misspelt_variable_and_a_stranger() -> None:
    findings = doctor(1, ASCENDRT_DEVICE="3")
    finding = one(findings, "variable", "ASCENDRT_DEVICE=3", "did you mean ASCENDRT_DEVICES?")
    assert finding["state"] == "problem"
    stranger = one(doctor(0, ASCENDRT_QQ="1"), "variable", "ASCENDRT_QQ=1")
    assert stranger["state"] == "note"


def test_a_wrong_value_fails_the_trial() -> None:
    finding = one(doctor(1, ASCENDRT_DEVICES="many"), "trial", "ASCENDRT_DEVICES")
    assert finding["state"] == "problem"


def test_a_toolkit_that_does_not_load(tmp_path: Path) -> None:
    folder = tmp_path / "lib64"
    folder.mkdir()
    (folder / "libascendcl.so").write_text("no library")
    findings = doctor(1, ASCENDRT_BACKEND="auto", ASCEND_HOME_PATH=str(tmp_path))
    finding = one(findings, "toolkit", str(folder / "libascendcl.so"), "no shared library")
    assert finding["state"] == "problem"
    one(findings, "trial", "is right")  # the emulator takes over


def test_all_missing_libraries_are_named(tmp_path: Path) -> None:
    """The loader tells of the first one only."""
    folder = tmp_path / "lib64"
    folder.mkdir()
    (tmp_path / "empty.c").write_text("")
    for name, needs in (("ascend_hal", ()), ("atb", ()), ("ascendcl", ("ascend_hal", "atb"))):
        words = ["-shared", "-Wl,--no-as-needed", tmp_path / "empty.c", f"-L{folder}"]
        target = ["-o", folder / f"lib{name}.so", *(f"-l{each}" for each in needs)]
        assert run("cc", *words, *target).returncode == 0
    for name in ("ascend_hal", "atb"):
        (folder / f"lib{name}.so").unlink()
    findings = doctor(1, ASCENDRT_BACKEND="auto", ASCEND_HOME_PATH=str(tmp_path))
    finding = one(findings, "library", "libascend_hal.so, libatb.so", "driver")
    assert finding["state"] == "problem"


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    findings = doctor(1, ASCEND_HOME_PATH=absent, LD_LIBRARY_PATH=absent)
    one(findings, "variable", f"ASCEND_HOME_PATH={absent}", "no such folder")
    assert one(findings, "variable", "LD_LIBRARY_PATH", absent)["state"] == "note"


def test_several_libraries_of_one_name(tmp_path: Path) -> None:
    folders = []
    for name in ("first", "second"):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        (folders[-1] / "libascendcl.so").write_text("")
    findings = doctor(0, LD_LIBRARY_PATH=":".join(map(str, folders)))
    one(findings, "variable", "several libascendcl.so", f"programs take {folders[0]}")


def test_no_backend_at_all() -> None:
    findings = doctor(1, ASCENDRT_BACKEND="real", ASCEND_HOME_PATH="/nonexistent/cann")
    one(findings, "backend", "no usable CANN", "ASCENDRT_BACKEND=emu")
    one(findings, "trial", "fails", "no usable CANN")


def install(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name / "version.info"
        path.parent.mkdir(parents=True)
        path.write_text(text)


DRIVER = "Version=24.1.rc3\nascendhal_version=7.35.23\ncompatible_version_fw=[7.0.0,7.5.99]\n"
FIRMWARE = "Version={}\ncompatible_version_drv=[23.0.0,23.0.0.],[24.0,24.0.],[24.1,24.1.]\n"


def test_versions_that_go_together_and_do_not(tmp_path: Path) -> None:
    install(tmp_path, driver=DRIVER, firmware=FIRMWARE.format("7.5.0.1.129"))
    base = versions.below_the_driver(tmp_path)
    assert [(part.name, part.version) for part in base] == [
        ("driver", "24.1.rc3"),
        ("firmware", "7.5.0.1.129"),
    ]
    assert [pair.fits for pair in versions.pairs(base, [])] == [True, True]
    (tmp_path / "firmware" / "version.info").write_text(FIRMWARE.format("7.7.0.1.231"))
    pairs = versions.pairs(versions.below_the_driver(tmp_path), [])
    assert [pair.fits for pair in pairs] == [False, True]
    assert "7.7.0.1.231" in pairs[0].text and "[7.0.0,7.5.99]" in pairs[0].text
    (tmp_path / "driver" / "version.info").write_text(DRIVER.replace("24.1.rc3", "25.0.rc1"))
    assert not versions.pairs(versions.below_the_driver(tmp_path), [])[1].fits


def test_a_toolkit_that_needs_a_newer_driver(tmp_path: Path) -> None:
    install(tmp_path, driver=DRIVER)
    needs = "Version=8.0.0.1\nrequired_driver_ascendhal_version={}\n"
    install(tmp_path / "cann", runtime=needs.format("4.0.0"), compiler="Version=8.0.0.3\n")
    base = versions.below_the_driver(tmp_path)
    pairs = versions.pairs(base, versions.of_toolkit(tmp_path / "cann"))
    assert [pair.fits for pair in pairs] == [True, True]
    (tmp_path / "cann/runtime/version.info").write_text(needs.format("7.40.1"))
    (tmp_path / "cann/compiler/version.info").write_text("Version=7.5.0.3\n")
    pairs = versions.pairs(base, versions.of_toolkit(tmp_path / "cann"))
    assert [pair.fits for pair in pairs] == [False, False]


def test_where_the_driver_is_comes_from_its_own_file(tmp_path: Path) -> None:
    assert versions.driver_home(tmp_path / "absent") == versions.DEFAULT_HOME
    told = tmp_path / "ascend_install.info"
    told.write_text(f"UserName=x\nDriver_Install_Path_Param={tmp_path}\n")
    assert versions.driver_home(told) == tmp_path


def test_settings_that_doctor_knows_are_those_of_the_readme() -> None:
    table = [
        line.split("`")[1]
        for line in (REPOSITORY / "README.md").read_text().splitlines()
        if line.startswith("| `ASCENDRT_")
    ]
    assert sorted(KNOWN) == sorted(table), "ascendrt/cli/settings.py lists what README lists"


# ---- bench


def test_bench_measures_what_is_asked(digits_om: Path) -> None:
    words = ("memory-4k", "d2h-pinned-4k", "h2d-1m", "handoff", "model")
    done = ascendrt("bench", *words, "--rounds", "2", "--model", digits_om, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no terminal, no progress"
    told = json.loads(done.stdout)
    assert [figure["name"] for figure in told["figures"]] == list(words)
    for figure in told["figures"]:
        assert figure["microseconds"] > 0 and figure["rival_microseconds"] > 0
        assert figure["ratio"] > 0
        is_copy = figure["name"].startswith(("h2d", "d2h"))
        assert (figure["gigabytes_per_second"] is not None) == is_copy
    assert told["soc"] == "Ascend910B1"


def test_bench_for_people_and_its_list(digits_om: Path) -> None:
    done = ascendrt("bench", "record", "--rounds", "1", "--model", digits_om)
    assert "an empty call of Python" in done.stdout
    assert "four runs of digits.om" in done.stdout, "--model: this model as well"
    names = [line.split()[0] for line in ascendrt("bench", "--list").stdout.splitlines()]
    assert {"memory-4k", "h2d-64m", "handoff", "stream"} <= set(names)


def test_bench_refuses() -> None:
    for words, text, code in (
        (("hand",), "did you mean handoff?", 2),
        (("--rounds", "0"), "at least 1", 2),
        (("--model", "absent.om"), "absent.om does not exist", 1),
    ):
        done = ascendrt("bench", *words)
        assert done.returncode == code and text in done.stderr, done.stderr


def on_a_terminal(*words: object) -> tuple[int, str]:
    """Run the command with a terminal as its error channel; returns what came there."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, 200, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "ascendrt", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=its,
        env=environment(),
    ) as child:
        os.close(its)
        seen = b""
        while True:
            try:
                chunk = os.read(mine, 4096)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            seen += chunk
        os.close(mine)
        return child.wait(TIMEOUT_S), seen.decode(errors="replace")


def test_progress_shows_on_a_terminal(tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    code, seen = on_a_terminal("om", "convert", DIGITS, "-o", tmp_path / "digits.om")
    assert code == 0
    assert f"converting {DIGITS}" in seen
    code, seen = on_a_terminal("bench", "h2d-64m", "d2h-64m", "--rounds", "150")
    assert code == 0
    assert "measuring" in seen


# ---- all commands


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = ascendrt(command, "--help")
    assert done.returncode == 0
    page = (REPOSITORY / "docs" / "commands.md").read_text()
    assert command == "sdk" or f"ascendrt {command}" in page


def test_wrong_words_get_a_suggestion() -> None:
    for words, meant in (
        (("inf",), "info"),
        (("converage",), "coverage"),
        (("info", "--jsno"), "--json"),
        (("om", "convrt"), "convert"),
        (("run", "--clock", "virtul", "--", "true"), "virtual"),
    ):
        done = ascendrt(*words)
        assert done.returncode == 2, words
        assert done.stderr.endswith(f"; did you mean {meant}?\n"), done.stderr
    assert "did you mean" not in ascendrt("zzzz").stderr


def test_failures_are_json_too() -> None:
    done = ascendrt("info", "--json", ASCENDRT_BACKEND="reel")
    assert done.returncode == 1
    told = json.loads(done.stdout)["error"]
    assert told["kind"] == "BackendError" and "ASCENDRT_BACKEND" in told["text"]
    assert "ASCENDRT_BACKEND" in done.stderr
    done = ascendrt("bench", "--device", "9", "--json")
    told = json.loads(done.stdout)["error"]
    assert (told["code"], told["api"], told["ids"]["device"]) == (107001, "aclrtSetDevice", "9")


def test_all_that_prints_facts_prints_json(tmp_path: Path, digits_om: Path) -> None:
    values = json.loads(ascendrt("env", "--json").stdout)
    assert values["ASCENDRT_BACKEND"] == "emu" and "lib" in values["LD_LIBRARY_PATH"]
    told = json.loads(ascendrt("sdk", tmp_path / "sdk", "--json").stdout)
    assert Path(told["source"]).is_file()
    done = ascendrt("om", "convert", DIGITS, "-o", tmp_path / "x.om", "--json")
    assert json.loads(done.stdout)["notes"][-1].startswith("wrote ")
    done = ascendrt("om", "convert", DIGITS, "-o", tmp_path / "x.om", "--soc_version=no", "--json")
    assert done.returncode == 2 and "error" in json.loads(done.stdout)
    import numpy as np

    np.save(tmp_path / "in.npy", np.zeros((1, 1, 8, 8), np.float32))
    words = ("--input", tmp_path / "in.npy", "--out", tmp_path / "out", "--json")
    (output,) = json.loads(ascendrt("om", "run", digits_om, *words).stdout)["outputs"]
    assert np.load(output["file"]).shape == tuple(output["shape"]) == (1, 10)
