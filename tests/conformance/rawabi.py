"""The raw ABI for the conformance tests: functions, constants, short helpers, fresh processes.

Owns: calling the library set through the binding's function table, and nothing else of the product.
Must never use the object layer, so that the tests run unchanged on a real card.

Run as a program it executes a snippet (see run_fresh) and prints what the snippet returned as JSON.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ascendrt._cffi import ffi, lib

ZERO_VARIABLE = "ASCENDRT_CONFORMANCE_ZERO"
FRESH_TIMEOUT_S = 40.0
WAIT_S = 5.0
NULL = ffi.NULL

# One SoC of each kind of chip that the rules tell apart, and how its kin are named.
SOC_OF_CHIP = {
    "A2": "Ascend910B1",
    "A3": "Ascend910_9391",
    "950": "Ascend950PR_9579",
    "310B": "Ascend310B4",
    "310P": "Ascend310P3",
    "910": "Ascend910ProA",
}


def chip_of(soc: str) -> str:
    """Return the kind of chip a SoC name belongs to, as the rules name it."""
    for start, chip in (
        ("Ascend910B", "A2"),
        ("Ascend910_", "A3"),
        ("Ascend950", "950"),
        ("Ascend310B", "310B"),
        ("Ascend310P", "310P"),
        ("Ascend910", "910"),
    ):
        if soc.startswith(start) and soc != "Ascend910B":
            return chip
    return "910" if soc == "Ascend910B" else soc


def chip() -> str:
    """Return the kind of chip in use, as the rules name it."""
    return chip_of(ffi.string(acl.aclrtGetSocName()).decode())


class Abi:
    """Functions and constants by their vendor names: acl.aclrtMalloc(...), acl.ACL_HOST.

    The library set is loaded at the first use. `zeroed` names functions that answer 0 instead of
    being called: the mutation runs use it to see whether a test notices.
    """

    def __init__(self) -> None:
        self.zeroed = frozenset(filter(None, os.environ.get(ZERO_VARIABLE, "").split(",")))

    def __getattr__(self, name: str) -> Any:
        value = getattr(lib, name)
        if not callable(value):
            return value
        load()
        if name in self.zeroed:
            return _zero(name, value)
        return _ending(name, value) if name in _ENDS else value


# What a test made and did not end itself; the clean-up of a test ends it.
_alive: dict[int, str] = {}
_streams: list[tuple[Any, Any]] = []
_gates: list[Gate] = []
_MAKERS = {
    "aclrtMalloc": "aclrtFree",
    "aclrtMallocAlign32": "aclrtFree",
    "aclrtMallocCached": "aclrtFree",
    "aclrtMallocWithCfg": "aclrtFree",
    "acldvppMalloc": "acldvppFree",
    "aclrtMallocHost": "aclrtFreeHost",
    "aclrtCreateContext": "aclrtDestroyContext",
    "aclrtCreateEvent": "aclrtDestroyEvent",
    "aclrtCreateEventWithFlag": "aclrtDestroyEvent",
    "aclrtCreateEventExWithFlag": "aclrtDestroyEvent",
}
_ENDS = frozenset(_MAKERS.values())


def _ending(name: str, function: Any) -> Callable[..., Any]:
    def call(handle: Any) -> Any:
        code = function(handle)
        if code == 0:
            _alive.pop(address(handle), None)
        return code

    return call


def end_all() -> None:
    """End what is still alive of this process's devices, contexts, events and memory.

    Nothing may block the clean-up of a test that failed: gates are opened, streams dropped first.
    """
    for gate in _gates:
        if not gate.is_open and real.aclrtSetCurrentContext(gate.context) == 0:
            real.aclrtRecordEvent(gate.event, gate.opener)
    for context, stream in _streams:
        if real.aclrtSetCurrentContext(context) == 0:
            real.aclrtDestroyStreamForce(stream)
    # Contexts last: the sort is stable.
    for handle, end in sorted(_alive.items(), key=lambda each: each[1] == "aclrtDestroyContext"):
        getattr(real, end)(foreign(handle))
    for kept in (_gates, _streams, _alive):
        kept.clear()
    count = ffi.new("uint32_t *")
    real.aclrtGetDeviceCount(count)
    for device in range(count[0]):
        real.aclrtResetDeviceForce(device)
    if real.aclrtSetDevice(0) == 0:
        for _ in range(64):
            if real.aclGetRecentErrMsg() == NULL:
                break
        real.aclrtResetDeviceForce(0)
    clear_last_error()


def _zero(name: str, function: Any) -> Callable[..., Any]:
    result = ffi.typeof(function).result
    pointer = result.kind == "pointer"
    return lambda *_: None if result.kind == "void" else NULL if pointer else 0


def load() -> Any:
    """Load the library set of the environment, once."""
    from ascendrt import _backend

    return _backend.load()


def emulated() -> bool:
    """Return whether the loaded library set is the emulator (or stands in for it)."""
    return bool(load().kind == "emu")


def has(name: str) -> bool:
    """Return whether the loaded library set implements a function."""
    load()
    from ascendrt import _lib

    if not _lib.has(name):
        return False
    return not emulated() or coverage().get(name) in ("full", "partial")


@functools.cache
def coverage() -> dict[str, str]:
    """Return the state of every function in the emulator: full, partial, stub or absent."""
    import conformance

    return conformance.read_coverage()


acl = Abi()
# The same, out of reach of the mutation runs: for what keeps a test from hanging or cleans up.
real = Abi()
real.zeroed = frozenset()


def recent() -> str:
    """Return the calling thread's recent error text, for failure messages."""
    text = lib.aclGetRecentErrMsg()
    return "" if text == NULL else ffi.string(text).decode(errors="replace")[:500]


def ok(code: int) -> None:
    """Assert that a call succeeded."""
    assert code == 0, f"{code}: {recent()}"


def last_error() -> int:
    """Return the last error of the thread without clearing it."""
    return int(acl.aclrtPeekAtLastError(acl.ACL_RT_THREAD_LEVEL))


def clear_last_error() -> None:
    """Forget the last error of the thread."""
    real.aclrtGetLastError(real.ACL_RT_THREAD_LEVEL)


def made(function: str, *arguments: Any, type_name: str = "void *") -> Any:
    """Call a function whose first parameter takes the handle it makes; return the handle."""
    out = ffi.new(type_name + "*")
    ok(getattr(acl, function)(out, *arguments))
    assert out[0] != NULL, f"{function} succeeded without giving a handle"
    if function in _MAKERS:
        _alive[address(out[0])] = _MAKERS[function]
    if function.startswith("aclrtCreateStream"):
        _streams.append((_context(), out[0]))
    return out[0]


def _context() -> Any:
    out = ffi.new("void **")
    real.aclrtGetCurrentContext(out)
    return out[0]


def new_stream() -> Any:
    """Make a stream of the current context."""
    return made("aclrtCreateStream")


def new_context(device: int = 0) -> Any:
    """Make an explicit context; it becomes current."""
    return made("aclrtCreateContext", device)


# Flag bits of events.
SYNC, PROGRESS, TIME_LINE, DEVICE_ONLY, EXTERNAL, IPC = 0x1, 0x2, 0x8, 0x10, 0x20, 0x40


def plain_event() -> Any:
    """Make a plain event."""
    return made("aclrtCreateEvent")


def flag_event(flag: int = SYNC) -> Any:
    """Make a flag event."""
    return made("aclrtCreateEventWithFlag", flag)


def ex_event(flag: int = SYNC) -> Any:
    """Make an ex event."""
    return made("aclrtCreateEventExWithFlag", flag)


def malloc(size_bytes: int, policy: int = 0) -> Any:
    """Allocate device memory."""
    return made("aclrtMalloc", size_bytes, policy)


def malloc_host(size_bytes: int) -> Any:
    """Allocate pinned host memory."""
    return made("aclrtMallocHost", size_bytes)


def write(device_ptr: Any, data: bytes) -> None:
    """Copy bytes to device memory, blocking."""
    source = ffi.new("char[]", data)
    ok(acl.aclrtMemcpy(device_ptr, len(data), source, len(data), acl.ACL_MEMCPY_HOST_TO_DEVICE))


def read(device_ptr: Any, size_bytes: int) -> bytes:
    """Copy bytes from device memory, blocking."""
    target = ffi.new("char[]", size_bytes)
    ok(acl.aclrtMemcpy(target, size_bytes, device_ptr, size_bytes, acl.ACL_MEMCPY_DEVICE_TO_HOST))
    return bytes(ffi.buffer(target, size_bytes))


def pageable(data: bytes, size: int = 0) -> Any:
    """Return host memory that the runtime knows nothing of."""
    return ffi.new("char[]", data) if data else ffi.new("char[]", size)


def host_bytes(pointer: Any, size: int) -> bytes:
    """Return the bytes at a host address."""
    return bytes(ffi.buffer(ffi.cast("char *", pointer), size))


def offset(pointer: Any, count_bytes: int) -> Any:
    """Return a pointer some bytes further on."""
    return ffi.cast("void *", int(ffi.cast("uintptr_t", pointer)) + count_bytes)


def address(pointer: Any) -> int:
    """Return the address of a pointer as a number."""
    return int(ffi.cast("uintptr_t", pointer))


def foreign(value: int = 0x1234560) -> Any:
    """Return a pointer that no call gave out and that nobody may touch."""
    return ffi.cast("void *", value)


def current_context() -> Any:
    """Return the context of the calling thread, or None when it has none."""
    out = ffi.new("void **")
    code = acl.aclrtGetCurrentContext(out)
    if code == 107002:
        return None
    ok(code)
    return out[0]


def default_stream() -> Any:
    """Return the real handle of the current context's default stream, if the call is there."""
    return made("aclrtCtxGetCurrentDefaultStream")


def query(stream: Any) -> int:
    """Return the status of a stream: 0 complete, 1 not ready."""
    status = ffi.new("aclrtStreamStatus *", 0xFFFF)
    ok(acl.aclrtStreamQuery(stream, status))
    return int(status[0])


def event_status(event: Any) -> int:
    """Return the recorded status of an event: 0 not ready, 1 complete."""
    status = ffi.new("aclrtEventRecordedStatus *", 77)
    ok(acl.aclrtQueryEventStatus(event, status))
    return int(status[0])


def limit_address_space(spare_bytes: int) -> None:
    """Leave the process this much more address space: the emulator cannot open a device then."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + spare_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def eventually(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> bool:
    """Wait until a condition holds; return whether it did."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return condition()


class Gate:
    """Keeps streams of the current context busy until open() is called.

    A flag event with SYNC that was never recorded blocks every stream that waits for it (S5.27).
    """

    def __init__(self, *streams: Any) -> None:
        out = ffi.new("void *[2]")
        ok(real.aclrtCreateEventWithFlag(out, SYNC))
        ok(real.aclrtCreateStream(out + 1))
        self.event, self.opener = out[0], out[1]
        assert NULL not in (self.event, self.opener)
        self.context = _context()
        _gates.append(self)
        _alive[address(self.event)] = "aclrtDestroyEvent"
        self.is_open = False
        for stream in streams:
            self.close(stream)

    def close(self, stream: Any) -> None:
        """Make a stream wait for the gate."""
        ok(real.aclrtStreamWaitEvent(stream, self.event))

    def open(self) -> None:
        """Let the waiting streams go on."""
        if not self.is_open:
            self.is_open = True
            ok(real.aclrtRecordEvent(self.event, self.opener))
            ok(real.aclrtSynchronizeStreamWithTimeout(self.opener, 5000))


@contextmanager
def gated(*streams: Any) -> Iterator[Gate]:
    """Keep streams busy inside the block; opens the gate at its end at the latest."""
    gate = Gate(*streams)
    try:
        yield gate
    finally:
        gate.open()


def open_in_context(gate: Gate) -> Callable[[], None]:
    """Return a function that opens the gate from a thread of its own, in the current context."""
    context = current_context()

    def run() -> None:
        ok(real.aclrtSetCurrentContext(context))
        gate.is_open = True
        ok(real.aclrtRecordEvent(gate.event, gate.opener))

    return run


def in_thread(function: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """Run a function on a new thread and return its result; what it raises is raised here."""
    box: dict[str, Any] = {}

    def body() -> None:
        try:
            box["value"] = function()
        except BaseException as error:  # handed to the caller's thread
            box["error"] = error

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(timeout_s)
    assert not thread.is_alive(), "the thread did not come back"
    if "error" in box:
        raise box["error"]
    return box.get("value")


class Worker:
    """A thread that runs one function after the other, keeping its own state of the runtime."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], dict[str, Any], threading.Event]] = []
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        """The pthread_self value of the thread."""
        assert self._thread.ident is not None
        return self._thread.ident

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: bool(self._calls))
                function, box, done = self._calls.pop(0)
            if box.get("stop"):
                return
            try:
                box["value"] = function()
            except BaseException as error:  # handed to the caller's thread
                box["error"] = error
            done.set()

    def _post(self, function: Callable[[], Any], box: dict[str, Any]) -> threading.Event:
        done = threading.Event()
        with self._wake:
            self._calls.append((function, box, done))
            self._wake.notify()
        return done

    def run(self, function: Callable[[], Any], timeout_s: float = 20.0) -> Any:
        """Run a function there and return its result."""
        box: dict[str, Any] = {}
        assert self._post(function, box).wait(timeout_s), "the thread did not come back"
        if "error" in box:
            raise box["error"]
        return box["value"]

    def stop(self) -> None:
        """End the thread."""
        self._post(lambda: None, {"stop": True})
        self._thread.join(WAIT_S)


@ffi.callback("void(void *)")
def mark_host_memory(pointer: Any) -> None:
    """Write a mark to host memory: a callback that shows that it ran."""
    ffi.buffer(pointer, 8)[:] = b"was here"


# --- fresh processes ---------------------------------------------------------------------------


_output: list[str] = []


def last_fresh_output() -> str:
    """Return what the latest fresh process wrote."""
    return _output[-1]


def run_fresh(
    body: str | Callable[..., Any], env: dict[str, str | None] | None = None, **arguments: Any
) -> Any:
    """Run a snippet in a new process and return what it gave, by way of JSON.

    A function is taken by its source: it sees the names of this module and its arguments, nothing
    of its surroundings. A string must set `result`. None in `env` removes a variable.
    """
    if callable(body):
        source = textwrap.dedent(inspect.getsource(body))
        source += f"\nresult = {body.__name__}(**arguments)\n"
    else:
        source = textwrap.dedent(body)
    environ = dict(os.environ)
    environ[ZERO_VARIABLE] = ",".join(sorted(acl.zeroed))
    environ.setdefault("ASCENDRT_MACHINE", "private")
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "ASCENDRT_DEVICES"):
        environ.pop(name, None)
    for name, value in (env or {}).items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
    order = json.dumps({"source": source, "arguments": arguments})
    child = subprocess.run(
        [sys.executable, str(Path(__file__).resolve())], input=order, env=environ, text=True,
        capture_output=True, timeout=FRESH_TIMEOUT_S, check=False,
    )  # fmt: skip
    _output.append(child.stdout + child.stderr)
    for line in child.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    end = f"the fresh process ended with status {child.returncode} and no result"
    raise AssertionError(f"{end}:\n{child.stderr[-3000:]}")


def fresh_on(
    chip: str,
    body: Callable[..., Any],
    env: dict[str, str | None] | None = None,
    devices: int = 1,
    **arguments: Any,
) -> Any:
    """Run a snippet in a new process on a kind of chip; skip where the card is of another kind."""
    if emulated():
        soc = {"ASCENDRT_SOC": SOC_OF_CHIP[chip]}
        return fresh_devices(devices, body, {**(env or {}), **soc}, **arguments)
    soc_name = ffi.string(acl.aclrtGetSocName()).decode()
    if chip_of(soc_name) != chip:
        _skip(f"the card is {soc_name}, the rule speaks of {chip}")
    return fresh_devices(devices, body, env, **arguments)


def fresh_devices(
    count: int,
    body: Callable[..., Any],
    env: dict[str, str | None] | None = None,
    **arguments: Any,
) -> Any:
    """Run a snippet in a new process that has this many devices; skip where there are fewer."""
    if emulated():
        return run_fresh(body, {"ASCENDRT_DEVICES": str(count), **(env or {})}, **arguments)
    found = ffi.new("uint32_t *")
    ok(acl.aclrtGetDeviceCount(found))
    if found[0] < count:
        _skip(f"needs {count} devices, found {found[0]}")
    return run_fresh(body, env, **arguments)


def _skip(reason: str) -> None:
    import pytest

    pytest.skip(reason)


def _main() -> None:
    order = json.loads(sys.stdin.read())
    scope = dict(globals(), arguments=order["arguments"])
    exec(compile(order["source"], "<fresh process>", "exec"), scope)
    print("RESULT " + json.dumps(scope["result"]), flush=True)
    # A snippet may leave streams behind on purpose; how a process ends is no matter of these tests.
    os._exit(0)


if __name__ == "__main__":
    _main()
