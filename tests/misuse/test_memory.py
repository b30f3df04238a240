"""What a program does wrong with memory, in processes of their own: each is told what and why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator

import pytest

from ascendrt import _ctl

TIMEOUT_S = 120

PRELUDE = """
import ctypes, faulthandler, os, sys
from ascendrt._cffi import ffi, lib as acl
from ascendrt import _backend
_backend.load()

def ok(code):
    if code != 0:
        text = acl.aclGetRecentErrMsg()
        sys.exit(f"code {code}: " + (ffi.string(text).decode() if text else ""))

def malloc(size, policy=0):
    out = ffi.new("void **")
    code = acl.aclrtMalloc(out, size, policy)
    return code, out[0]

def free_bytes():
    out = ffi.new("size_t[2]")
    ok(acl.aclrtGetMemInfo(1, out, out + 1))
    return out[0]

def address(pointer):
    return int(ffi.cast("uintptr_t", pointer))

ok(acl.aclrtSetDevice(0))
"""


def start(code: str, **settings: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    chosen = {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", **settings}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env={**kept, **chosen},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, **settings: str) -> tuple[int, str, str]:
    process = start(code, **settings)
    out, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, errors


@pytest.fixture
def machine() -> Iterator[str]:
    """A named machine of this test alone."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    _ctl.ledger_file(name).unlink(missing_ok=True)


@pytest.mark.parametrize("tracer", ["", "faulthandler.enable()"])
def test_reading_a_device_pointer(tracer: str) -> None:
    code, _, errors = run(f"""
        {tracer}
        status, pointer = malloc(1000)
        ctypes.string_at(address(pointer) + 8, 4)
    """)
    assert code == -signal.SIGSEGV
    if not tracer:  # a later handler gets the signal first and may not pass the address on
        assert "the host touched device memory" in errors
        assert "8 bytes into the allocation of 1000 bytes, 1056 with padding," in errors
        assert "aclrtMemcpy" in errors
    else:
        assert "Segmentation fault" in errors


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (20, "64 bytes with padding"),  # a block of 64 bytes has no room for what was asked
        (100, "100 bytes, 160 with padding,"),
        (1000, "1000 bytes, 1056 with padding,"),
        (1024, "1 KiB (1024 bytes), 1056 with padding,"),
        (100000, "97.66 KiB (100000 bytes), 100032 with padding,"),
        ((3 << 20) + 1, "3 MiB (3145729 bytes), 3145792 with padding,"),
    ],
)
def test_texts_name_the_size_that_was_asked(size: int, shown: str) -> None:
    """Blocks that come ready from a cache as well as those that do not; leaks too."""
    code, out, errors = run(f"""
        for attempt in range(3):
            status, pointer = malloc({size})
            host = bytes({size} + 100)
            status = acl.aclrtMemcpy(pointer, len(host), ffi.from_buffer(host), len(host), 1)
            print(status, ffi.string(acl.aclGetRecentErrMsg()).decode())
            if attempt < 2:
                ok(acl.aclrtFree(pointer))
                acl.aclrtFree(pointer)
                print(ffi.string(acl.aclGetRecentErrMsg()).decode())
        ok(acl.aclrtResetDevice(0))
    """)
    assert code == 0, errors
    assert out.count(f"allocation of {shown} at 0x") == 5, out
    assert out.count("past its end") == 3 and out.count("that was freed") == 2
    leak = f"{size} bytes" if size > 64 else "64 bytes"
    assert "1 live allocation" in errors and leak in errors, errors


def test_a_request_that_is_too_large_is_named_as_asked() -> None:
    _, out, _ = run("""
        print(malloc(1 << 50)[0], ffi.string(acl.aclGetRecentErrMsg()).decode())
    """)
    assert "has no room for 1 PiB (1125899906842624 bytes)" in out


def test_a_tracer_that_was_there_before_still_speaks() -> None:
    """Like pytest, which turns faulthandler on long before the runtime is loaded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent("""
            status, pointer = malloc(1000)
            ctypes.string_at(address(pointer), 4)
        """)],
        env={**kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGSEGV
    assert "the host touched device memory" in done.stderr
    assert "Segmentation fault" in done.stderr
    assert "string_at" in done.stderr


def test_dereferencing_a_stream() -> None:
    code, _, errors = run("""
        out = ffi.new("void **")
        ok(acl.aclrtCreateStream(out))
        ctypes.string_at(address(out[0]), 4)
    """)
    assert code == -signal.SIGSEGV
    assert "which is a handle" in errors


def test_a_bad_host_pointer_is_a_code() -> None:
    code, out, errors = run("""
        status, pointer = malloc(1000)
        bad = ffi.cast("void *", 16)
        print(acl.aclrtMemcpy(pointer, 8, bad, 8, 1), acl.aclrtMemcpy(bad, 8, pointer, 8, 2))
        print(ffi.string(acl.aclGetRecentErrMsg()).decode().splitlines()[0])
    """)
    assert code == 0, errors
    assert out.startswith("107000 107000\n")
    assert "host address 0x10 cannot be read or written" in out


@pytest.mark.parametrize("call", ["load_from_mem", "bundle_load_from_mem", "query_size_from_mem"])
def test_a_model_where_the_host_cannot_read_is_a_code(call: str) -> None:
    """A model that was copied to the device first, and addresses that are none."""
    code, out, errors = run(f"""
        import acl as python
        status, block = malloc(4096)
        for place in (address(block), 0x1000, (1 << 64) - 4096):
            print(python.mdl.{call}(place, 4096)[-1], python.get_recent_err_msg())
    """)
    assert code == 0, errors
    assert out.count("100000 [100000 ACL_ERROR_INVALID_PARAM] aclmdl") == 3
    assert out.count("which the host cannot read: device memory") == 3


def test_a_copy_past_the_block_is_refused_and_named() -> None:
    code, out, errors = run("""
        status, pointer = malloc(1000)
        host = ffi.new("char[4096]")
        print(acl.aclrtMemcpy(pointer, 4096, host, 4096, 1))
        print(ffi.string(acl.aclGetRecentErrMsg()).decode())
    """)
    assert code == 0, errors
    assert out.startswith("107000\n")
    assert "past its end" in out and "1000 bytes, 1056 with padding," in out


def test_work_on_freed_memory_fails_at_the_synchronize() -> None:
    code, out, errors = run("""
        status, pointer = malloc(1000)
        stream = ffi.new("void **")
        ok(acl.aclrtCreateStream(stream))
        ok(acl.aclrtFree(pointer))
        print(acl.aclrtMemsetAsync(pointer, 8, 1, 8, stream[0]))
        print(acl.aclrtSynchronizeStream(stream[0]))
        print(ffi.string(acl.aclGetRecentErrMsg()).decode())
        status, pointer = malloc(1000)
        ok(acl.aclrtMemsetAsync(pointer, 8, 1, 8, stream[0]))
        ok(acl.aclrtSynchronizeStream(stream[0]))
    """)
    assert code == 0, errors
    assert out.startswith("0\n507013\n")
    assert "that was freed, are no longer allocated; free memory only after the streams" in out


def test_the_host_is_not_used_up() -> None:
    """Touching more than the host gives ends in a code, the process lives and goes on."""
    code, out, errors = run(
        """
        held = []
        size = 16 << 20
        while True:
            status, pointer = malloc(size)
            if status != 0:
                break
            held.append(pointer)
            status = acl.aclrtMemset(pointer, size, 1, size)
            if status != 0:
                break
        print(status, len(held))
        print(ffi.string(acl.aclGetRecentErrMsg()).decode())
        for pointer in held:
            ok(acl.aclrtFree(pointer))
        status, pointer = malloc(size)
        ok(status)
        ok(acl.aclrtMemset(pointer, size, 1, size))
        """,
        ASCENDRT_HOST_MEMORY="100M",
        ASCENDRT_HBM_SIZE="64G",
    )
    assert code == 0, errors
    assert out.splitlines()[0] in ("207001 6", "207001 7")
    assert "host memory" in out and "ASCENDRT_HBM_SIZE" in out


def test_a_large_sparse_device_on_any_host(machine: str) -> None:
    code, out, errors = run(
        """
        held = [malloc(1 << 28) for _ in range(260)]
        print([status for status, _ in held].count(0), free_bytes() >> 20)
        """,
        ASCENDRT_MACHINE=machine,
        ASCENDRT_HBM_SIZE="64G",
    )
    assert code == 0, errors
    assert out == "255 255\n"  # 256 MiB and one normal page each


def test_processes_share_a_device_and_a_killed_one_gives_back(machine: str) -> None:
    settings = {"ASCENDRT_MACHINE": machine, "ASCENDRT_HBM_SIZE": "256M"}
    holder = start(
        """
        ok(malloc(150 << 20)[0])
        print("held", flush=True)
        sys.stdin.readline()
        """,
        **settings,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ask = """
            status, _ = malloc(150 << 20)
            print(status, free_bytes() >> 20)
            text = acl.aclGetRecentErrMsg()
            print(ffi.string(text).decode() if text else "")
        """
        code, out, errors = run(ask, **settings)
        assert code == 0, errors
        assert out.startswith("207001 105\n")
        assert f"by process {holder.pid}" in out
    finally:
        holder.kill()
        holder.communicate()
    code, out, errors = run(ask, **settings)
    assert code == 0, errors
    assert out.startswith("0 105\n")


def test_a_ledger_that_is_none_is_refused(machine: str) -> None:
    path = _ctl.ledger_file(machine)
    path.write_bytes(b"something else")
    path.chmod(0o600)
    code, _, errors = run("", ASCENDRT_MACHINE=machine)
    assert code != 0
    assert str(path) in errors and "ASCENDRT_MACHINE" in errors


def test_open_device_memory() -> None:
    code, out, errors = run(
        """
        status, pointer = malloc(1000)
        ffi.buffer(pointer, 4)[:] = b"open"
        host = ffi.new("char[4]")
        ok(acl.aclrtMemcpy(host, 4, pointer, 4, 2))
        mode = ffi.new("aclrtRunMode *")
        ok(acl.aclrtGetRunMode(mode))
        print(bytes(ffi.buffer(host, 4)).decode(), mode[0])
        """,
        ASCENDRT_DEVICE_MEMORY="open",
    )
    assert code == 0, errors
    assert out == "open 0\n"


def test_a_forked_child_is_told_and_does_not_hang() -> None:
    code, out, errors = run("""
        status, pointer = malloc(1000)
        child = os.fork()
        if child == 0:
            code, _ = malloc(1000)
            print(code, ffi.string(acl.aclGetRecentErrMsg()).decode(), flush=True)
            print("nothing more" if acl.aclGetRecentErrMsg() == ffi.NULL else "more", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        ok(acl.aclrtFree(pointer))
    """)
    assert code == 0, errors
    assert "forked" in out
    assert out.splitlines()[-1] == "nothing more"  # reading adds no failure of its own


def test_free_with_a_device_synchronize() -> None:
    """The work that uses the memory ends first; its failures come out of the free."""
    code, out, errors = run("""
        stream = ffi.new("void **")
        ok(acl.aclrtCreateStream(stream))
        status, pointer = malloc(64 << 20)
        for value in range(20):
            ok(acl.aclrtMemsetAsync(pointer, 64 << 20, value, 64 << 20, stream[0]))
        ok(acl.aclrtFreeWithDevSync(pointer))
        state = ffi.new("aclrtStreamStatus *")
        ok(acl.aclrtStreamQuery(stream[0], state))
        host = ffi.new("void **")
        ok(acl.aclrtMallocHost(host, 64))
        ok(acl.aclrtFreeHostWithDevSync(host[0]))
        print(state[0], acl.aclrtFreeHostWithDevSync(host[0]), acl.aclrtFreeWithDevSync(ffi.NULL))
    """)
    assert code == 0, errors
    assert out == "0 107000 100000\n"
