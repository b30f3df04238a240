"""What happens to a Python process from outside: Ctrl-C, fork, exit with live objects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

TIMEOUT_S = 120


def start(code: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND")}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str) -> tuple[int, str, str]:
    process = start(code)
    out, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, errors


def test_ctrl_c_ends_a_wait_for_a_stream_that_never_ends() -> None:
    # A parent that ignores SIGINT (a shell's background job) hands that down.
    process = start("""
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import ascendrt
        from ascendrt._cffi import ffi, lib
        device, stream = ascendrt.Device(0), ascendrt.Stream()
        event = ffi.new("aclrtEvent *")
        assert lib.aclrtCreateEventWithFlag(event, 1) == 0
        assert lib.aclrtStreamWaitEvent(stream.handle, event[0]) == 0
        print("waits", flush=True)
        try:
            stream.synchronize()
        except KeyboardInterrupt:
            print("interrupted", lib.aclrtPeekAtLastError(0), flush=True)
    """)
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "interrupted 0\n"), errors


def test_a_forked_child_ends_in_silence() -> None:
    code, out, errors = run("""
        import os, sys, warnings
        import ascendrt
        device = ascendrt.Device(0)
        # Since 3.12 Python warns of every fork with threads: the emulator has some, as CANN has.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert (code, out, errors) == (0, "3\n", "")


def test_exit_with_live_objects_and_running_threads() -> None:
    code, out, errors = run("""
        import threading, time
        import ascendrt
        device, stream, memory = ascendrt.Device(0), ascendrt.Stream(), ascendrt.Memory(1 << 20)
        def work():
            with ascendrt.Device(0), ascendrt.Memory(1 << 16) as block:
                while True:
                    block.fill(1)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("end")
    """)
    assert (code, out, errors) == (0, "end\n", "")
