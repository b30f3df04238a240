"""`ascendrt doctor` in front of installations as people have them: damaged, mixed, half there."""

from __future__ import annotations

import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import ascendrt
from test_doctor import doctor, install, one

from ascendrt import _elf

OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"
MACHINE = {"x86_64": 62, "aarch64": 183}
INIT = "int aclInit(const char *p) { return 0; }\n"
COUNT = INIT + "int aclrtGetDeviceCount(unsigned *count) { *count = %d; return %d; }\n"


def compiled(target: Path, source: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(target)]
    subprocess.run(command, input=source, text=True, check=True, timeout=60)
    return target


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A toolkit's folder behind the link that scripts use, with everything but libraries."""
    version = tmp_path / "ascend-toolkit" / "8.0.RC1"
    (version / "lib64").mkdir(parents=True)
    (version / "set_env.sh").write_text("export ASCEND_TOOLKIT_HOME=/x\n")
    (version.parent / "latest").symlink_to("8.0.RC1")
    return version.parent / "latest"


def examined(code: int, root: Path, **changes: str) -> list[dict[str, Any]]:
    return doctor(code, ASCENDRT_BACKEND="auto", ASCEND_HOME_PATH=str(root), **changes)


def as_text(library: Path) -> None:
    library.write_text("version https://git-lfs.github.com/spec/v1\noid x\n")


def as_empty(library: Path) -> None:
    library.touch()


def as_folder(library: Path) -> None:
    library.mkdir()


def as_dead_link(library: Path) -> None:
    library.symlink_to("libascendcl.so.1")


def as_half(library: Path) -> None:
    compiled(library, COUNT % (1, 0))
    os.truncate(library, 700)


def as_foreign(library: Path) -> None:
    compiled(library, COUNT % (1, 0))
    content = bytearray(library.read_bytes())
    struct.pack_into("<H", content, 18, MACHINE[OTHER])
    library.write_bytes(content)


def as_32_bits(library: Path) -> None:
    compiled(library, INIT)
    content = bytearray(library.read_bytes())
    content[4] = 1
    library.write_bytes(content)


def as_object_file(library: Path) -> None:
    command = ["cc", "-c", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=INIT, text=True, check=True, timeout=60)


@pytest.mark.parametrize(
    ("spoil", "what", "advice"),
    [
        (as_text, "some other file (it begins 'version https://git-lfs", "install that CANN"),
        (as_empty, "the file is empty", "install that CANN package again"),
        (as_folder, "it is no file", "install that CANN package again"),
        (as_dead_link, "a link to libascendcl.so.1, which is not there", "install that CANN"),
        (as_half, "it was cut off after 700", "install that CANN package again"),
        (as_foreign, f"it was built for {OTHER}", f"packages of CANN for {platform.machine()}"),
        (as_32_bits, "no 64-bit little-endian library", "set_env.sh"),
        (as_object_file, "an object file or a program", "install that CANN package again"),
    ],
)
def test_a_file_that_is_no_library(
    root: Path, spoil: Callable[[Path], None], what: str, advice: str
) -> None:
    """The loader would call them "too short" or "no such file", or die (a half copied one)."""
    spoil(root / "lib64" / "libascendcl.so")
    findings = examined(1, root)
    finding = one(findings, "toolkit", str(root / "lib64" / "libascendcl.so"), what, advice)
    assert finding["state"] == "problem"
    one(findings, "backend", "emu, by no usable toolkit")
    one(findings, "trial", "is right")


@pytest.mark.parametrize(
    ("source", "what", "advice"),
    [
        (INIT, "has no aclrtGetDeviceCount", "set_env.sh"),
        (INIT + "int absent(void); int x(void) { return absent(); }", "absent", "are mixed"),
        ("__attribute__((constructor)) void f(void) { __builtin_trap(); }", "SIGILL", "dmesg"),
        (COUNT % (0, 507033), "507033 ACL_ERROR_RT_DEV_SETUP_ERROR", "driver and toolkit go"),
        (COUNT % (0, 0), "finds 0 devices", "--device /dev/davinci*"),
        (COUNT % (0, 100039), "a link-time stub", "before devlib and stub"),
    ],
)
def test_a_library_that_cannot_work(root: Path, source: str, what: str, advice: str) -> None:
    if "constructor" in source and platform.machine() != "x86_64":
        what = "was killed by SIG"
    compiled(root / "lib64" / "libascendcl.so", source)
    findings = examined(1, root)
    assert one(findings, "toolkit", what, advice)["state"] == "problem"
    one(findings, "trial", "is right")


def test_a_toolkit_that_answers_but_lacks_functions(root: Path) -> None:
    compiled(root / "lib64" / "libascendcl.so", COUNT % (1, 0))
    findings = examined(1, root)
    one(findings, "backend", "real, by ASCEND_HOME_PATH")
    finding = one(findings, "trial", "207000", "none of the libraries in", "set_env.sh")
    assert finding["state"] == "problem" and finding["advice"]


def test_a_link_to_a_toolkit_that_was_removed(root: Path) -> None:
    root.unlink()
    root.symlink_to("7.0.0")
    one(examined(1, root), "variable", f"ASCEND_HOME_PATH={root}", "a link to 7.0.0, which is not")


def test_a_file_in_place_of_a_toolkit(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one(examined(1, tmp_path / "file"), "variable", "ASCEND_HOME_PATH", "it is no folder")


def test_our_own_folder_is_no_fault(tmp_path: Path) -> None:
    assert ascendrt("sdk", tmp_path / "sdk").returncode == 0
    findings = examined(0, tmp_path / "sdk", LD_LIBRARY_PATH=str(tmp_path / "sdk" / "lib64"))
    assert one(findings, "toolkit", "of the ascendrt emulator")["state"] == "ok"


def test_versions_of_a_toolkit_that_the_library_path_names(root: Path) -> None:
    as_text(root / "lib64" / "libascendcl.so")
    install(root / "share" / "info", runtime="Version=7.3.0.1.231\n", compiler="Version=7.1.0.3\n")
    (root / f"{OTHER}-linux").mkdir()
    told = f"package_name=Ascend-cann-toolkit\nversion=8.0.RC1\narch={OTHER}\n"
    (root / f"{OTHER}-linux" / "ascend_toolkit_install.info").write_text(told)
    findings = doctor(1, ASCENDRT_BACKEND="auto", LD_LIBRARY_PATH=str(root / "lib64"))
    one(findings, "version", "cann 8.0.RC1", "ascend_toolkit_install.info")
    one(findings, "version", "runtime 7.3.0.1.231", str(root / "share"))
    assert one(findings, "version", f"cann 8.0.RC1 is for {OTHER}")["state"] == "problem"
    assert one(findings, "version", "packages of one toolkit differ")["state"] == "problem"


def test_two_installations_at_once(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name / "lib64").mkdir(parents=True)
        compiled(tmp_path / name / "lib64" / "libascendcl.so", COUNT % (0, 0))
    old, new = tmp_path / "old", tmp_path / "new"
    findings = examined(
        1, new, ASCEND_TOOLKIT_HOME=str(old), LD_LIBRARY_PATH=f"{old}/lib64:{new}/lib64"
    )
    one(findings, "variable", "ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME differ", "one set_env.sh")
    one(findings, "variable", "several libascendcl.so", f"programs take {old}/lib64", str(new))
    assert len([each for each in findings if "finds 0 devices" in each["text"]]) == 2


def test_the_vendor_module_hides_ours(tmp_path: Path) -> None:
    vendor = compiled(tmp_path / "acl.so", "int nothing;")
    findings = doctor(0, PYTHONPATH=str(tmp_path))
    assert one(findings, "python", f"module acl: {vendor}")["state"] == "ok"
    assert one(findings, "python", "acl.abi3.so (hidden by the one above)")["state"] == "note"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("x", "hides every device: its first entry 'x' is no id"),
        ("", "hides every device: it is empty"),
        ("-1", "hides every device: its first entry '-1' is no id"),
        ("1,0", "hides every device: its ids do not ascend"),
        ("0,0", "hides every device: its ids do not ascend"),
        ("0,abc", "from 'abc' on it does not count"),
        ("0,1,", "from '' on it does not count"),
    ],
)
def test_a_list_of_devices_that_is_wrong(value: str, what: str) -> None:
    findings = doctor(1, ASCEND_RT_VISIBLE_DEVICES=value, ASCENDRT_DEVICES="2")
    one(findings, "variable", what, "ascending order")
    trial = [each for each in findings if each["topic"] == "trial"]
    assert len(trial) == 1
    # The runtime says the same as doctor has read from the text.
    assert (trial[0]["state"] == "problem") == ("hides" in what)


def test_ids_that_the_machine_does_not_have() -> None:
    findings = doctor(1, ASCEND_RT_VISIBLE_DEVICES="0, 1,7", ASCENDRT_DEVICES="2")
    one(findings, "trial", "only 2 of the 3 ids in ASCEND_RT_VISIBLE_DEVICES", "npu-smi info")
    findings = doctor(1, ASCEND_RT_VISIBLE_DEVICES="9")
    finding = one(findings, "trial", "ASCEND_RT_VISIBLE_DEVICES='9' leaves no device")
    assert "ascending" in finding["advice"]
    assert one(doctor(0, ASCEND_RT_VISIBLE_DEVICES="0"), "variable", "ASCEND_RT_VISIBLE_DEVICES=0")


DEVICES = """
import ctypes, sys
from ascendrt import _backend
from ascendrt.cli import main
_backend.DEVICE_GLOB = sys.argv[1] + "/davinci*"
# Root without its capabilities is held by the modes of files, as everybody is.
header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, none) == 0
sys.exit(main(["doctor", "--json"]))
"""


def with_device_files(folder: Path, *names: str, mode: int) -> dict[str, Any]:
    for name in names:
        (folder / name).touch()
        (folder / name).chmod(mode)
    environ = {**os.environ, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
    done = subprocess.run(
        [sys.executable, "-c", DEVICES, str(folder)],
        capture_output=True, text=True, env=environ, timeout=120, check=False,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout)
    drivers = [each for each in told["findings"] if each["topic"] == "driver"]
    return {each["text"]: (each["state"], each["advice"]) for each in drivers}


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    return folder


def test_device_files_that_may_not_be_opened(devices: Path) -> None:
    names = ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc")
    told = with_device_files(devices, *names, mode=0o000)
    assert told[f"1 device file(s): {devices}/davinci0"] == ("ok", "")
    state, advice = told[
        f"no permission for {devices}/davinci0, "
        + ", ".join(f"{devices}/{name}" for name in names[1:])
    ]
    assert state == "problem" and "HwHiAiUser" in advice


def test_a_container_that_got_the_cards_alone(devices: Path) -> None:
    told = with_device_files(devices, "davinci0", "davinci1", "devmm_svm", mode=0o666)
    state, advice = told[f"not there: {devices}/davinci_manager, {devices}/hisi_hdc"]
    assert state == "problem" and "--device" in advice
    assert not any(text.startswith("no permission") for text in told)


def test_a_library_of_every_kind_that_loads_has_no_defect() -> None:
    import _ctypes

    assert _elf.defect(Path(_ctypes.__file__)) == ""
    assert _elf.defect(Path("/nonexistent/lib.so")) == "it is no file"
    assert "no shared library" in _elf.defect(Path("/etc/passwd"))
