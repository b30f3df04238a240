"""One idea of exit codes, over all of the command: 0 done, 1 failed, 2 wrong usage.

Wrong usage is what the words alone show, whatever the machine and its files are like.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import DIGITS, ascendrt

from ascendrt.cli import _COMMANDS

DONE, FAILED, WRONG = 0, 1, 2

# Words, exit code, part of the error channel. OM, NPY, TEXT, OUT and NONE stand for files.
_TABLE = {
    "": [("", WRONG, "COMMAND"), ("zzz", WRONG, "invalid choice"), ("--version", DONE, "")],
    "doctor": [("", DONE, ""), ("now", WRONG, "unrecognized arguments: now")],
    "info": [("", DONE, ""), ("--jsn", WRONG, "did you mean --json?")],
    "smi": [
        ("", DONE, ""),
        ("-o OUT/m.svg", WRONG, "needs --memory or --snapshot"),
        ("--memory -o OUT/m.gif", WRONG, "neither .svg nor .png"),
        ("--memory -o NONE/m.svg", FAILED, "NONE/m.svg cannot be written: No such file"),
        ("--snapshot NONE -o OUT/m.svg", FAILED, "--snapshot NONE does not exist"),
        ("--snapshot OUT -o OUT/m.svg", FAILED, "is a folder, not a file"),
        ("--snapshot TEXT -o OUT/m.svg", FAILED, "no memory_snapshot()"),
        ("--snapshot TEXT", WRONG, "--snapshot needs -o PICTURE"),
        ("--reset", FAILED, "a private machine has no ledger file"),
    ],
    "coverage": [
        ("", DONE, ""),
        ("aclrtMalloc", DONE, ""),
        ("aclrtMalloc aclrtFree", WRONG, "unrecognized"),
        ("aclrtMaloc", FAILED, "did you mean aclrtMalloc"),
    ],
    "bench": [
        ("--list", DONE, ""),
        ("record --rounds 1", DONE, ""),
        ("recrod", WRONG, "did you mean record?"),
        ("nosuch", WRONG, "stream, model)"),
        ("--rounds 0", WRONG, "at least 1"),
        ("--rounds many", WRONG, "invalid int value"),
        ("model", WRONG, "'model' needs --model NET.om"),
        ("model --model NONE", FAILED, "--model NONE does not exist"),
        ("model --model TEXT", FAILED, "TEXT"),
        ("record --rounds 1 --device 7", FAILED, "107001"),
    ],
    "env": [("", DONE, ""), ("more", WRONG, "unrecognized")],
    "run": [
        ("-- true", DONE, ""),
        ("-- false", FAILED, ""),
        ("", WRONG, "say what to run"),
        ("--clock often -- true", WRONG, "invalid choice"),
        ("--devices -1 -- true", WRONG, "--devices -1: a number from 0 to 64"),
        ("--devices 65 -- true", WRONG, "--devices 65: a number from 0 to 64"),
        ("--soc Ascend910b1 -- true", WRONG, "did you mean Ascend910B1?"),
        ("--soc Foo -- true", WRONG, "--soc Foo: no chip is called so; names are like"),
        ("--hbm-size 4Q -- true", WRONG, "--hbm-size 4Q: a size from 2M to 1T"),
        ("--hbm-size 0 -- true", WRONG, "--hbm-size 0: a size from 2M to 1T"),
        ("--devices 0 --soc Ascend310P3 --hbm-size 4GiB -- true", DONE, ""),
        ("-- no-such-program", 127, "was not found"),
        ("-- TEXT", 126, "is no program"),
    ],
    "om": [
        ("", WRONG, "ACTION"),
        ("convrt", WRONG, "did you mean convert?"),
        ("info OM", DONE, ""),
        ("info", WRONG, "NET.om"),
        ("info NONE", FAILED, "does not exist"),
        ("info TEXT", FAILED, "TEXT"),
        ("info OM --graph OUT/g.gif", WRONG, "pictures are written as .svg"),
        ("info OM --graph NONE/g.svg", FAILED, "cannot be written"),
        ("run OM --input NPY --out OUT", DONE, ""),
        ("run OM --input NPY", WRONG, "--out"),
        ("run OM --out OUT", WRONG, "has 1 input(s): image"),
        ("run OM --input nosuch=NPY --out OUT", WRONG, "no input 'nosuch'; the inputs are image"),
        ("run OM --input imag=NPY --out OUT", WRONG, "no input 'imag'; did you mean image?"),
        ("run OM --input NONE --out OUT", FAILED, "does not exist"),
        ("run OM --input NPY --out TEXT", FAILED, "is a file; give a folder"),
        ("run OM --input NPY --out OUT --source NONE", FAILED, "does not exist"),
        ("run NONE --input NPY --out OUT", FAILED, "does not exist"),
        ("convert ONNX -o OUT/net.om", DONE, ""),
        ("convert", WRONG, "--model is missing"),
        ("convert ONNX", WRONG, "--output is missing"),
        ("convert ONNX -o OUT/n.om --soc_versoin=x", WRONG, "did you mean --soc_version?"),
        ("convert ONNX -o OUT/n.om --soc_version=Ascend1", WRONG, "no chip is called"),
        ("convert ONNX -o OUT/n.om --input_shape=x", WRONG, "is not of the form"),
        ("convert ONNX -o OUT/n.om --input_shape=nosuch:1", FAILED, "nosuch"),
        ("convert NONE -o OUT/n.om", FAILED, "does not exist"),
        ("convert TEXT -o OUT/n.om", FAILED, "TEXT"),
    ],
    "sdk": [
        ("OUT/sdk", DONE, ""),
        ("", WRONG, "DIR"),
        ("OUT", FAILED, "is no ascendrt sdk"),
        ("TEXT/sdk", FAILED, "Not a directory"),
    ],
}
_ROWS = [(command, *row) for command, rows in _TABLE.items() for row in rows]


def test_the_table_has_every_command() -> None:
    assert set(_TABLE) == {"", *_COMMANDS}
    for command, rows in _TABLE.items():
        assert {DONE, WRONG} <= {code for _, code, _ in rows}, command


@pytest.fixture
def files(tmp_path: Path, digits_om: Path) -> dict[str, str]:
    """What stands for the words in capitals."""
    import numpy as np

    text, array, out = tmp_path / "text.file", tmp_path / "zeros.npy", tmp_path / "out"
    text.write_text("plain text\n")
    np.save(array, np.zeros((1, 1, 8, 8), np.float32))
    out.mkdir()
    (out / "kept").write_text("")
    return {
        "OM": str(digits_om), "ONNX": str(DIGITS), "NPY": str(array), "TEXT": str(text),
        "OUT": str(out), "NONE": str(tmp_path / "none"),
    }  # fmt: skip


def put(files: dict[str, str], text: str) -> str:
    return re.sub(r"\b(ONNX|OM|NPY|TEXT|OUT|NONE)\b", lambda found: files[found[0]], text)


@pytest.mark.parametrize(
    ("command", "words", "code", "said"), _ROWS, ids=[f"{row[0]} {row[1]}".strip() for row in _ROWS]
)
def test_exit_code(command: str, words: str, code: int, said: str, files: dict[str, str]) -> None:
    given = [*command.split(), *(put(files, word) for word in words.split())]
    done = ascendrt(*given)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "Errno" not in done.stderr, done.stderr
    assert put(files, said) in done.stderr
    if code == DONE or command == "run":
        return
    assert done.stdout == "" or code == FAILED
    if code == WRONG:
        assert "ascendrt" in done.stderr and "usage: " in done.stderr
    told = ascendrt("--json", *given)  # before the command as well as behind it
    assert told.returncode == code
    error = json.loads(told.stdout)["error"]
    assert error["exit_code"] == code
    assert put(files, said) in error["text"] + told.stderr


def test_json_is_taken_before_and_behind_the_command(files: dict[str, str]) -> None:
    om = files["OM"]
    convert = ["om", "convert", str(DIGITS), "-o", f"{files['OUT']}/n.om"]
    plain = [["info"], ["smi"], ["coverage"], ["env"], ["doctor"], ["bench", "--list"]]
    for words in (*plain, ["om", "info", om], convert):
        for given in (["--json", *words], [*words, "--json"], [words[0], "--json", *words[1:]]):
            done = ascendrt(*given)
            assert done.returncode == 0, (given, done.stderr)
            json.loads(done.stdout)


def test_run_has_no_json_of_its_own() -> None:
    done = ascendrt("--json", "run", "--", "true")
    assert done.returncode == WRONG and "behind `--`" in done.stderr
    assert ascendrt("run", "--", "echo", "--json").stdout == "--json\n"
