"""memory_stats(), memory_snapshot(), `ascendrt smi` and the knobs, each seen from outside."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import TIMEOUT_S, ascendrt, environment, run

from ascendrt import _ctl
from ascendrt.cli import smi

MIB = 1 << 20


@pytest.fixture
def machine() -> Iterator[str]:
    """A named machine of this test alone: what it holds is known to the byte."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    _ctl.ledger_file(name).unlink(missing_ok=True)


def python(code: str, **settings: str) -> str:
    done = run(sys.executable, "-c", code, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


STATS = """
import json, ascendrt
with ascendrt.Device(0), ascendrt.Memory(100 << 20) as kept:
    for _ in range(3):
        ascendrt.Memory(10 << 20).close()
    print(json.dumps({"stats": ascendrt.memory_stats(), "snapshot": ascendrt.memory_snapshot()}))
"""


def test_statistics_by_tier_and_context(machine: str) -> None:
    told = json.loads(python(STATS, ASCENDRT_MACHINE=machine))
    device = told["stats"]["devices"][0]
    assert device["live_bytes"] == 100 * MIB + 32
    assert device["peak_bytes"] == 110 * MIB + 64
    assert device["blocks"] == 1
    ready = device["thread_cached_bytes"] + device["pool_cached_bytes"]
    assert ready + device["pool_credit_bytes"] >= 10 * MIB
    assert device["reserved_bytes"] >= 110 * MIB
    expected = 1 - device["live_bytes"] / device["reserved_bytes"]
    assert device["fragmentation"] == pytest.approx(expected, abs=1e-5)
    assert device["total_bytes"] - device["free_bytes"] == 100 * MIB + 4096
    contexts = [row for row in device["contexts"] if row["context"] is not None]
    assert [row["blocks"] for row in contexts] == [1]
    assert "allocations" not in device
    [block] = told["snapshot"]["devices"][0]["allocations"]
    assert block["bytes"] == 100 * MIB + 32
    assert block["owner"] == "user call"
    assert block["stack"] == []


def test_snapshot_with_stacks(machine: str) -> None:
    told = json.loads(python(STATS, ASCENDRT_MACHINE=machine, ASCENDRT_MEMORY_TRACE="1"))
    [block] = told["snapshot"]["devices"][0]["allocations"]
    assert "_fast" in block["stack"][0]  # the caller of aclrtMalloc
    assert any("Py" in frame for frame in block["stack"])


def test_out_of_memory_names_the_largest_blocks(machine: str) -> None:
    out = python(
        """
import ascendrt
with ascendrt.Device(0):
    held = [ascendrt.Memory(size << 20) for size in (30, 70, 50, 10, 20, 40)]
    try:
        ascendrt.Memory(60 << 20)
    except ascendrt.OutOfMemoryError as error:
        print(error)
    held[0].close()
    ascendrt.Memory(30 << 20).close()
""",
        ASCENDRT_MACHINE=machine,
        ASCENDRT_HBM_SIZE="256M",
    )
    assert "no room for 60 MiB" in out
    assert "the largest free block has 35.98 MiB" in out
    assert "fragmentation 0.0 %" in out
    places = [out.index(f"{size} MiB (") for size in (70, 50, 40, 30, 20)]
    assert places == sorted(places)
    assert "(user call)" in out


def test_pool_size_is_reserved_and_refused(machine: str) -> None:
    code = """
import ascendrt
try:
    with ascendrt.Device(0) as device:
        print(ascendrt.memory_stats()["devices"][0]["reserved_bytes"] >> 20)
        print(device.memory().free_bytes >> 20)
except ascendrt.AclError as error:
    print(error.code, error)
"""
    alone = {"ASCENDRT_MACHINE": machine, "ASCENDRT_HBM_SIZE": "256M"}
    assert python(code, ASCEND_RT_MEM_POOL_SIZE="100M", **alone) == "100\n256\n"
    refused = python(code, ASCEND_RT_MEM_POOL_SIZE="300M", **alone)
    assert refused.startswith("207001 ")
    assert "mem pool init failed" in refused and "ASCEND_RT_MEM_POOL_SIZE" in refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ASCEND_RT_MEM_POOL_SIZE", "lots"),
        ("ASCENDRT_MEMORY_GROWTH", "-1"),
        ("ASCENDRT_MEMORY_THREAD_CACHE", "2T"),
        ("ASCENDRT_MEMORY_CACHE", "1Q"),
        ("ASCENDRT_MEMORY_FRAGMENTATION", "101"),
        ("ASCENDRT_CONTEXT_RECLAIM", "yes"),
        ("ASCENDRT_MEMORY_TRACE", "2"),
    ],
)
def test_wrong_knobs_are_named(name: str, value: str) -> None:
    done = run(sys.executable, "-c", "import ascendrt; ascendrt.Device(0)", **{name: value})
    assert done.returncode != 0
    assert name in done.stderr and value in done.stderr


def test_knobs_in_the_configuration(tmp_path: Path) -> None:
    code = """
import sys, ascendrt
try:
    ascendrt.init(sys.argv[1])
    with ascendrt.Device(0):
        print(ascendrt.memory_stats()["devices"][0]["reserved_bytes"] >> 20)
except ascendrt.AclError as error:
    print(error.code, error)
"""
    file = tmp_path / "acl.json"
    file.write_text('{"memory": {"pool_size": "64M"}}')
    assert run(sys.executable, "-c", code, file).stdout == "64\n"
    both = run(sys.executable, "-c", code, file, ASCEND_RT_MEM_POOL_SIZE="32M")
    assert both.stdout == "32\n"
    for wrong, words in (
        ('{"pool": "1M"}', "known are: pool_size"),
        ('{"pool_size": 5}', "is no string"),
    ):
        file.write_text(f'{{"memory": {wrong}}}')
        assert words in run(sys.executable, "-c", code, file).stdout


LEAK = """
import ctypes
import ascendrt
from ascendrt import _lib
device = ascendrt.Device(0)
pointer = _lib.new("void **")
_lib.call("aclrtMalloc", pointer, 3 << 20, 0)
_lib.call("aclrtResetDevice", 0)
print(_lib.lib.aclrtFree(pointer[0]))
"""


def test_leaks_are_told_and_stay_valid() -> None:
    done = run(sys.executable, "-c", LEAK)
    assert done.stdout == "0\n"
    assert "ends with 1 live allocation, 3 MiB (3145728 bytes)" in done.stderr
    assert "; it stays valid until aclrtFree" in done.stderr
    assert "ASCENDRT_MEMORY_TRACE=1 names the callers" in done.stderr


def test_leaks_with_callers_need_no_advice_to_ask_for_them() -> None:
    done = run(sys.executable, "-c", LEAK, ASCENDRT_MEMORY_TRACE="1")
    assert "allocated by" in done.stderr and "if that never comes\n" in done.stderr
    assert "names the callers" not in done.stderr


def test_leaks_are_freed_on_request() -> None:
    done = run(sys.executable, "-c", LEAK, ASCENDRT_CONTEXT_RECLAIM="1")
    assert done.stdout == "107000\n"
    assert "; it is freed (ASCENDRT_CONTEXT_RECLAIM=1)" in done.stderr


def test_a_context_object_frees_what_was_made_under_it() -> None:
    code = """
import ascendrt
with ascendrt.Device(0) as device:
    outside = ascendrt.Memory(1 << 20)
    with ascendrt.Context(0):
        inside = [ascendrt.Memory(3 << 20) for _ in range(3)]
        inside[0].close()
        dropped = ascendrt.Memory(64)
        del dropped
    print([memory.closed for memory in inside], outside.closed)
    inside[1].close()
    device.use()
    print(ascendrt.memory_stats()["devices"][0]["blocks"])
    outside.close()
"""
    done = run(sys.executable, "-c", code)
    assert done.stdout == "[True, True, True] False\n1\n", done.stderr
    assert "ends with" not in done.stderr


HOLD = """
import sys, ascendrt
device = ascendrt.Device(0)
kept = ascendrt.Memory(100 << 20)
ready = ascendrt.Memory(80 << 20)
ready.close()
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(machine: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=environment(ASCENDRT_MACHINE=machine, ASCENDRT_HBM_SIZE="256M"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate(timeout=TIMEOUT_S)


TAKE = """
import ascendrt
with ascendrt.Device(0) as device:
    print(device.memory().free_bytes >> 20)
    with ascendrt.Memory(150 << 20):
        print(device.memory().free_bytes >> 20)
    for size in (155, 157):
        try:
            ascendrt.Memory(size << 20).close()
            print(size)
        except ascendrt.OutOfMemoryError as error:
            print("by process" in str(error))
"""


def test_an_idle_process_gives_back_what_it_keeps_ready(
    machine: str, holder: subprocess.Popen[str]
) -> None:
    """256 MiB: 100 are live over there, 80 are kept ready and count as free."""
    out = python(TAKE, ASCENDRT_MACHINE=machine, ASCENDRT_HBM_SIZE="256M")
    assert out == "155\n5\n155\nTrue\n"


def test_a_stopped_process_is_waited_for_a_bounded_time(
    machine: str, holder: subprocess.Popen[str]
) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    code = TAKE.replace("150", "1")
    out = python(code, ASCENDRT_MACHINE=machine, ASCENDRT_HBM_SIZE="256M")
    assert out.splitlines()[-2:] == ["True", "True"]
    os.kill(holder.pid, signal.SIGCONT)


def test_smi_names_processes(machine: str, holder: subprocess.Popen[str], tmp_path: Path) -> None:
    settings = {"ASCENDRT_MACHINE": machine, "ASCENDRT_HBM_SIZE": "256M"}
    text = ascendrt("smi", **settings).stdout
    assert f"process {holder.pid:>8}" in text
    assert "device 0: 0.10 of 0.25 GiB in use" in text
    facts = json.loads(ascendrt("smi", "--json", **settings).stdout)
    [row] = facts["devices"][0]["processes"]
    assert row["process"] == holder.pid
    picture = tmp_path / "mem.svg"
    assert ascendrt("smi", "--memory", "-o", picture, **settings).returncode == 0
    root = ElementTree.parse(picture).getroot()
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert any(title is not None and str(holder.pid) in title for title in titles)
    wrong = ascendrt("smi", "--memory", "-o", tmp_path / "mem.gif", **settings)
    assert wrong.returncode == 2 and ".svg" in wrong.stderr


def test_smi_keeps_a_process_on_its_line() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read x\n#\x1b[2J"], stdin=subprocess.PIPE) as process:
        limit = time.monotonic() + 20
        while not (name := smi._name({"process": process.pid})) and time.monotonic() < limit:
            time.sleep(0.01)  # the kernel tells that the program is there before its words are
        assert name == r"/bin/sh -c read x\n#\x1b[2J"


def test_smi_draws_a_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(json.loads(python(STATS))["snapshot"]))
    picture = tmp_path / "mem.svg"
    assert ascendrt("smi", "--snapshot", file, "-o", picture).returncode == 0
    assert "user call" in picture.read_text()
    file.write_text("{}")
    assert "no memory_snapshot()" in ascendrt("smi", "--snapshot", file, "-o", picture).stderr


def test_smi_resets_a_damaged_ledger(machine: str) -> None:
    path = _ctl.ledger_file(machine)
    path.write_bytes(b"something else")
    path.chmod(0o644)
    refused = ascendrt("info", ASCENDRT_MACHINE=machine)
    assert "open to other users" in refused.stdout
    done = ascendrt("smi", "--reset", ASCENDRT_MACHINE=machine)
    assert done.returncode == 0 and "is new" in done.stdout
    assert "open to other users" not in ascendrt("info", ASCENDRT_MACHINE=machine).stdout


def test_ledgers_of_other_versions_are_not_met_but_told_and_cleaned(machine: str) -> None:
    """What an older version left must not be in the way, and its file can be removed."""
    older = Path(f"/dev/shm/ascendrt-{os.geteuid()}-{machine}")
    older.write_bytes(b"of an older version")
    try:
        assert ascendrt("info", ASCENDRT_MACHINE=machine).returncode == 0
        said = ascendrt("smi", ASCENDRT_MACHINE=machine).stdout
        [line] = [each for each in said.splitlines() if "another version" in each]
        assert "ascendrt smi --clean" in line and machine not in line
        told = json.loads(ascendrt("smi", "--json", ASCENDRT_MACHINE=machine).stdout)
        [row] = [each for each in told["ledgers"] if each["file"] == str(older)]
        assert (row["machine"], row["version"], row["in_use"]) == (machine, 0, False)
    finally:
        older.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("in_use", "told"),
    [
        ([], []),
        ([False], ["1 ledger of another version; `ascendrt smi --clean` removes what is unused"]),
        ([True], ["1 ledger of another version, in use"]),
        ([True, True], ["2 ledgers of another version, in use"]),
        (
            [False] * 59 + [True],
            [
                "60 ledgers of another version, 1 in use; "
                "`ascendrt smi --clean` removes what is unused"
            ],
        ),
    ],
)
def test_ledgers_of_other_versions_are_one_line(in_use: list[bool], told: list[str]) -> None:
    ledgers = [{"file": "f", "in_use": each, "other_version": True} for each in in_use]
    ledgers.append({"file": "own", "in_use": True, "other_version": False})
    facts = {"machine": "m", "soc": "s", "devices": [], "ledgers": ledgers}
    assert smi.report(facts)[1:] == told


CLEAN = """
mount -t tmpfs none /dev/shm
echo old > /dev/shm/ascendrt-0-default
echo foreign > /dev/shm/ascendrt-12345-default
"$0" -c 'import ascendrt, subprocess, sys
with ascendrt.Device(0):
    subprocess.run([sys.executable, "-m", "ascendrt", "smi", "--clean", "--json"], check=True)'
ls /dev/shm
"$0" -m ascendrt smi --clean
"""


def test_clean_removes_what_no_process_uses() -> None:
    """In a /dev/shm of its own, as other tests run beside; the user is root in there."""
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    if run(*namespace, "true").returncode:
        pytest.skip("no namespaces here: unshare --user --mount")
    done = run(*namespace, "sh", "-ec", CLEAN, sys.executable, ASCENDRT_MACHINE="default")
    assert done.returncode == 0, done.stderr
    told, end = json.JSONDecoder().raw_decode(done.stdout)
    assert told == {"removed": ["/dev/shm/ascendrt-0-default"]}
    own = Path(_ctl.ledgers()["prefix"]).name.replace(f"-{os.geteuid()}-", "-0-") + "default"
    assert done.stdout[end:].split("\n")[1:] == [
        "ascendrt-12345-default", own, f"removed /dev/shm/{own}", "",
    ]  # fmt: skip


def test_smi_does_not_reset_under_a_process(machine: str, holder: subprocess.Popen[str]) -> None:
    done = ascendrt("smi", "--reset", ASCENDRT_MACHINE=machine)
    assert done.returncode == 1 and "is in use" in done.stderr


def test_a_ledger_cut_short_or_scribbled_over_crashes_nobody(machine: str) -> None:
    """The client allocates past its caches while the file is cut and filled with noise."""
    code = f"""
import os, random
import ascendrt
path = "{_ctl.ledger_file(machine)}"
noise = random.Random(1)
with ascendrt.Device(0) as device:
    for step in range(60):
        blocks = [ascendrt.Memory((1 + noise.randrange(64)) << 16) for _ in range(20)]
        if step % 3 == 0:
            os.truncate(path, noise.randrange(300000))
        elif step % 3 == 1:
            with open(path, "r+b") as file:
                file.seek(noise.randrange(200000))
                file.write(noise.randbytes(4096))
        device.memory()
        for block in blocks:
            block.close()
        os.truncate(path, 0)
    device.memory()
print("alive")
"""
    done = run(sys.executable, "-c", code, ASCENDRT_MACHINE=machine)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1), said
    assert "alive" in done.stdout or "207001" in said


FAULTS = """
import ctypes, sys
import ascendrt
from ascendrt import _ctl, _lib
core = _ctl._core()
core.art_ctl_fault.restype = ctypes.c_int64
core.art_ctl_fault.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
def scenario():
    with ascendrt.Device(0):
        blocks = [ascendrt.Memory(size) for size in (100, 5000, 300_000, 3 << 20, 100 << 20)]
        blocks[3].write(b"x" * 100)
        for block in blocks:
            block.close()
def live():
    devices = ascendrt.memory_stats()["devices"]
    return sum(device["live_bytes"] for device in devices)
scenario()
failed = 0
for n in range(1, 100):
    core.art_ctl_fault(b"memory.driver", n, 2)
    try:
        scenario()
    except ascendrt.AclError as error:
        assert error.code == 207001, error
        failed += 1
    passed = core.art_ctl_fault(b"", 0, 0)
    assert live() == 0, (n, live())
    scenario()
    if passed < n:
        break
print(failed, n)
"""


def test_every_driver_allocation_may_fail() -> None:
    """The n-th one fails together with its retry, for n = 1, 2, 3, ... until none is left."""
    failed, last = map(int, python(FAULTS).split())
    assert failed == 5 and last == 6


def test_control_entries_are_there() -> None:
    from ascendrt import _ctl

    figures = _ctl._core().art_ctl_memory_figures
    out = (ctypes.c_int64 * 5)()
    assert figures(7, out, 5) != 0  # no such device
