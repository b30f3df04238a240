"""The clock of Python's waits: both forms keep the same promises, and Ctrl-C ends a wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError

import pytest

import ascendrt

CLOCKS = ("real", "virtual")


def script(text: str, clock: str) -> subprocess.Popen[str]:
    environ = {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private", "ASCENDRT_CLOCK": clock}
    return subprocess.Popen(
        [sys.executable, "-c", f"import ascendrt\nclock = ascendrt.clock()\n{text}"],
        env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(text: str, clock: str) -> str:
    with script(text, clock) as child:
        try:
            out, err = child.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert child.returncode == 0, err
    return out


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    "wait",
    [
        "clock.signal().wait()",
        "clock.sleep_ms(1e9) if not clock.is_virtual else clock.signal().wait()",
        "clock.start(lambda: clock.signal().wait()).result()",
        "import asyncio; ascendrt.run(asyncio.Event().wait())",
    ],
)
def test_ctrl_c_ends_a_wait(clock: str, wait: str) -> None:
    text = f"print('ready', flush=True)\ntry:\n    {wait}\nexcept KeyboardInterrupt:\n"
    text += "    print('interrupted', flush=True)\n    import os; os._exit(0)\n"
    with script(text, clock) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (0, "interrupted\n"), err


@pytest.mark.parametrize("clock", CLOCKS)
def test_waits_take_the_time_they_say(clock: str) -> None:
    text = """
began = clock.now_ns()
clock.sleep_ms(20)
assert clock.now_ns() - began >= 20_000_000
signal = clock.signal()
assert not signal.wait(clock.after_ms(10))
signal.set()
signal.set()
assert signal.wait(clock.after_ms(10_000))
assert not signal.wait(clock.now_ns())
condition = clock.condition()
with condition:
    assert not condition.wait_for(lambda: False, clock.after_ms(5))
    assert condition.wait_for(lambda: True)
future = clock.start(lambda: clock.sleep_ms(10_000) if clock.is_virtual else clock.sleep_ms(300))
try:
    future.result(timeout_ms=1)
    raise SystemExit("no timeout")
except TimeoutError as error:
    assert "1 ms" in str(error)
future.result()
"""
    began = time.monotonic()
    run(text, clock)
    if clock == "virtual":
        assert time.monotonic() - began < 9


@pytest.mark.parametrize("clock", CLOCKS)
def test_notices_reach_those_who_wait(clock: str) -> None:
    text = """
condition, seen, waiting = clock.condition(), [], []
def consumer(number):
    with condition:
        waiting.append(number)
        condition.wait_for(lambda: len(seen) == number)
        seen.append(number)
        condition.notify_all()
futures = [clock.start(lambda n=n: consumer(n)) for n in reversed(range(8))]
for future in futures:
    future.result()
print(seen)
"""
    assert run(text, clock) == f"{list(range(8))}\n"


def test_a_future_tells_what_became_of_it() -> None:
    clock = ascendrt.clock()
    heard: list[ascendrt.Future[int]] = []
    future: ascendrt.Future[int] = ascendrt.Future(clock)
    future.add_done_callback(heard.append)
    assert not future.done()
    assert future.begin()
    assert not future.cancel()
    future.set_result(5)
    future.set_result(6)
    assert (future.result(), future.exception(), heard) == (5, None, [future])
    future.add_done_callback(heard.append)
    assert heard == [future, future]
    failed = clock.start(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result()
    assert isinstance(failed.exception(), ZeroDivisionError)
    withdrawn: ascendrt.Future[int] = ascendrt.Future(clock)
    assert withdrawn.cancel()
    assert withdrawn.cancelled()
    assert not withdrawn.begin()
    withdrawn.set_exception(KeyError())
    with pytest.raises(CancelledError):
        withdrawn.result()
    assert repr(withdrawn) == "<Future cancelled>"


_BUSY = """
import asyncio
import time
import acl
from ascendrt import Device, Event, Memory, Stream
device = Device(0)
block, streams, events = Memory(4096), [Stream() for _ in range(3)], [Event() for _ in range(3)]
def work(n):
    for _ in range(3):
        streams[n].fill(block, n)
        streams[n].record(events[n])
    LOOK
    streams[n].synchronize()
def round():
    futures = [clock.start(lambda n=n: work(n)) for n in (1, 2)]
    work(0)
    for future in futures:
        future.result()
async def several():
    await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(3)))
began = time.monotonic()
for _ in range(20):
    round()
    ascendrt.run(several())
print(time.monotonic() - began < 15)
"""


@pytest.mark.parametrize(
    "look",
    [
        "streams[n].done",
        "events[n].done",
        "acl.rt.stream_query(streams[n].address)",
        "acl.rt.query_event_status(events[n].address)",
        "acl.rt.event_get_timestamp(events[n].address)",
    ],
)
def test_who_looks_at_the_device_lets_the_others_run(
    look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look brings the device's clock forward, and so waits for threads that need the GIL."""
    monkeypatch.setenv("ASCENDRT_HOST_GRACE_MS", "20000")
    assert run(_BUSY.replace("LOOK", look), "virtual") == "True\n"


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_burst_leaves_few_threads(clock: str) -> None:
    out = run(
        """
import threading, time, ascendrt
clock, ready = ascendrt.clock(), threading.Barrier(101)
jobs = [clock.start(ready.wait) for _ in range(100)]
ready.wait()
for job in jobs:
    job.result()
until = time.monotonic() + 20
while threading.active_count() > 40 and time.monotonic() < until:
    time.sleep(0.01)
print(threading.active_count() <= 40)
""",
        clock,
    )
    assert out == "True\n"
