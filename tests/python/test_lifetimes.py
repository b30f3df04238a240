"""Objects live and end in any order; arrays go in and out in place. Run on both backends."""

from __future__ import annotations

import asyncio
import gc
import itertools
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from command import environment

import ascendrt
from ascendrt import interop
from ascendrt._owned import Owned

Maker = Callable[[], Owned]


@pytest.fixture
def device() -> Iterator[ascendrt.Device]:
    with ascendrt.Device(0) as opened:
        yield opened


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "order", [*itertools.permutations(("device", "context", "stream", "event"))], ids="-".join
)
def test_any_order_of_closing_is_survived(order: tuple[str, ...]) -> None:
    made: dict[str, Owned] = {"device": ascendrt.Device(0)}
    made["context"] = ascendrt.Context(0)
    made |= {"stream": ascendrt.Stream(), "event": ascendrt.Event()}
    made |= {"memory": ascendrt.Memory(64), "pinned": ascendrt.PinnedMemory(64)}
    for name in (*order, "pinned", "memory"):
        made[name].close()
        assert made[name].closed
    with ascendrt.Device(0), ascendrt.Stream() as after:
        after.synchronize()


def test_objects_outlive_finalize() -> None:
    """In a process of its own: finalize ends the references that the others here hold."""
    code = (
        "import ascendrt as a\n"
        "d, s, e, m = a.Device(0), a.Stream(), a.Event(), a.Memory(64)\n"
        "p = a.PinnedMemory(64)\n"
        "a.finalize()\n"
        "for each in (d, s, e, m, p): each.close()\n"
        "with a.Device(0), a.Stream() as s: s.synchronize()\n"
        "a.finalize()\n"
    )
    assert _python(code).returncode == 0


@pytest.mark.parametrize("exiting", ["", "raise SystemExit(0)", "import os; os._exit(0)"])
def test_open_objects_do_not_disturb_the_end_of_the_process(exiting: str) -> None:
    code = (
        "import ascendrt as a, numpy as np\n"
        "d, s, e, m = a.Device(0), a.Stream(), a.Event(), a.Memory(64)\n"
        "p = a.PinnedMemory(64); view = np.asarray(p)\n"
        "s.write(m, p); s.record(e); s.call(lambda: None)\n"
        f"{exiting}\n"
    )
    done = _python(code)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_a_forked_child_drops_its_parents_objects_silently() -> None:
    code = (
        "import ascendrt as a, os, sys\n"
        "d, s, m = a.Device(0), a.Stream(), a.Memory(64)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    s.close(); m.close(); del d\n"
        "    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "m.close(); s.synchronize(); s.close(); d.close()\n"
    )
    done = _python(code, "-W", "error")
    assert done.returncode == 0, done.stderr
    assert "never closed" not in done.stderr


def _python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda stream, event, memory: stream.record(event),
        lambda stream, event, memory: stream.wait(event),
        lambda stream, event, memory: stream.fill(memory, 1),
        lambda stream, event, memory: stream.synchronize(),
        lambda stream, event, memory: stream.call(print),
        lambda stream, event, memory: stream.done,
        lambda stream, event, memory: stream.handle,
    ],
)
def test_a_closed_stream_refuses_every_use(
    device: ascendrt.Device,
    use: Callable[[ascendrt.Stream, ascendrt.Event, ascendrt.Memory], object],
) -> None:
    with ascendrt.Event() as event, ascendrt.Memory(8) as memory:
        stream = ascendrt.Stream()
        stream.close()
        with pytest.raises(ValueError, match="this Stream is closed"):
            use(stream, event, memory)


def test_a_closed_event_or_memory_is_refused_by_the_stream(device: ascendrt.Device) -> None:
    event, memory = ascendrt.Event(), ascendrt.Memory(8)
    event.close()
    memory.close()
    with ascendrt.Stream() as stream:
        with pytest.raises(ValueError, match="this Event is closed"):
            stream.record(event)
        with pytest.raises(ValueError, match="this Memory is closed"):
            stream.write(memory, np.zeros(8, np.uint8))


def test_a_new_thread_may_use_any_object(device: ascendrt.Device) -> None:
    """A new thread has no context; the object brings its own."""
    errors: list[BaseException] = []
    with ascendrt.Stream() as stream, ascendrt.Event() as event, ascendrt.Memory(64) as memory:
        target = np.zeros(64, np.uint8)

        def work() -> None:
            try:
                stream.fill(memory, 3)
                stream.read_into(memory, target)
                stream.record(event)
                event.synchronize()
                stream.synchronize()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)
    assert errors == []
    assert set(target.tolist()) == {3}


def test_pinned_memory_is_an_array_without_a_copy(device: ascendrt.Device) -> None:
    with ascendrt.PinnedMemory(64) as pinned:
        numbers = pinned.numpy((4, 4), np.float32)
        numbers[:] = 2.5
        assert np.asarray(pinned).view(np.float32).tolist() == [2.5] * 16
        assert pinned.buffer.nbytes == len(pinned) == 64
        assert interop.address(numbers) == pinned.address
        exchanged = np.from_dlpack(pinned)
        assert interop.address(exchanged) == pinned.address
        if sys.version_info >= (3, 12):  # the buffer protocol reaches Python classes
            assert memoryview(pinned).nbytes == 64  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="do not fit in 64 bytes"):
            pinned.numpy((17,), np.float32)
        numbers[0, 0] = 1
        with ascendrt.Memory.from_array(pinned) as memory:
            assert memory.read((4, 4), np.float32)[0, 0] == 1


def test_views_keep_pinned_memory(device: ascendrt.Device) -> None:
    pinned = ascendrt.PinnedMemory(4096)
    view, exchanged = pinned.numpy(), np.from_dlpack(pinned)
    pinned.close()
    with pytest.raises(ValueError, match="closed"):
        pinned.numpy()
    view[:] = 7
    del view
    gc.collect()
    assert exchanged.tolist() == [7] * 4096


def test_torch_tensors_go_in_and_out_in_place(device: ascendrt.Device) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with ascendrt.PinnedMemory(64) as pinned, ascendrt.Memory(64) as memory:
        tensor = torch.from_dlpack(pinned)
        tensor.fill_(9)
        assert set(pinned.numpy().tolist()) == {9}
        memory.write(tensor)
        back = torch.zeros(64, dtype=torch.uint8)
        memory.read_into(back)
        assert bool((back == 9).all())


def test_what_would_need_a_copy_is_refused(device: ascendrt.Device) -> None:
    with ascendrt.Memory(64) as memory:
        with pytest.raises(ValueError, match="not contiguous"):
            memory.write(np.zeros((8, 8), np.uint8).T[::2])
        with pytest.raises(TypeError, match="list is no array"):
            memory.write([1, 2, 3])
        with pytest.raises(ValueError, match="read-only"):
            memory.read_into(b"12345678")
        memory.write(b"12345678")
        memory.write(memoryview(b"12345678"), offset_bytes=8)
        assert memory.read((16,), np.uint8).tobytes() == b"12345678" * 2


class _Watched(np.ndarray[tuple[int, ...], np.dtype[np.uint8]]):
    """An array that can be watched for its end."""


def test_a_copy_in_flight_keeps_what_it_needs(device: ascendrt.Device) -> None:
    go = threading.Event()
    with ascendrt.Stream() as stream, ascendrt.Memory(1 << 16) as memory:
        stream.call(lambda: go.wait(30))
        pinned = ascendrt.PinnedMemory(1 << 16)  # another copy would wait here for its turn
        source = pinned.numpy().view(_Watched)
        source[:] = 5
        pinned.close()
        ended = weakref.ref(source)
        stream.write(memory, source)
        del source
        gc.collect()
        assert ended() is not None
        go.set()
        stream.synchronize()
        gc.collect()
        assert ended() is None
        assert set(memory.read((1 << 16,), np.uint8).tolist()) == {5}


def test_a_stream_that_is_never_synchronized_lets_go_of_old_copies(
    device: ascendrt.Device,
) -> None:
    with ascendrt.Stream() as stream, ascendrt.Memory(64) as memory:
        watched = []
        for _ in range(400):
            source = np.zeros(64, np.uint8).view(_Watched)
            watched.append(weakref.ref(source))
            stream.write(memory, source)
            while not stream.done:
                pass
        del source
        assert sum(each() is not None for each in watched) <= 128


def test_a_function_in_a_stream_runs_in_its_turn(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream, ascendrt.Memory(8) as memory:
        seen: list[int] = []
        target = np.zeros(8, np.uint8)
        stream.fill(memory, 4)
        stream.read_into(memory, target)
        stream.call(lambda: seen.append(int(target[0])))
        stream.synchronize()
        assert seen == [4]


def test_what_a_function_in_a_stream_raises_comes_out(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream:
        stream.call(lambda: dict[str, int]()["lost"])
        with pytest.raises(KeyError, match="lost"):
            stream.synchronize()
        stream.synchronize()


def test_what_a_function_raised_and_nobody_waited_for_is_logged(
    device: ascendrt.Device, caplog: pytest.LogCaptureFixture
) -> None:
    with ascendrt.Stream() as stream:
        stream.call(lambda: 1 / 0)
        name = repr(stream)
    (record,) = caplog.records
    assert record.getMessage() == f"a function in {name} raised, nobody waited for it"
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


def test_streams_and_events_can_be_awaited(device: ascendrt.Device) -> None:
    async def main() -> list[str]:
        order: list[str] = []
        go = threading.Event()
        with ascendrt.Stream() as stream, ascendrt.Event() as event:
            stream.call(lambda: go.wait(30))
            stream.record(event)

            async def other() -> None:
                order.append("loop")
                go.set()

            task = asyncio.create_task(other())
            await event
            order.append("event")
            await stream
            await task
            stream.call(lambda: dict[str, int]()["late"])
            with pytest.raises(KeyError):
                await stream
        return order

    assert asyncio.run(main()) == ["loop", "event"]


def test_an_error_tells_what_failed_before_it() -> None:
    """A raw call failed and nobody asked; the next failure names both."""
    import ascendrt._lib as low

    with ascendrt.Device(0):
        low.lib.aclGetRecentErrMsg()  # what others left on this thread
        low.lib.aclrtSetDevice(77)
        with pytest.raises(ascendrt.AclError) as caught:
            ascendrt.Memory(1 << 50)
        text = str(caught.value)
        assert "aclrtMalloc failed with" in text.splitlines()[0]
        if caught.value.cause:  # a library without this text names one failure only
            assert "aclrtSetDevice" in caught.value.cause
            assert "before it, on this thread" in text


def test_a_failure_that_was_told_is_no_later_cause() -> None:
    """A thread without a context cannot take texts back: they may not return as causes."""
    causes: list[str] = []

    def thread() -> None:
        with pytest.raises(ascendrt.AclError, match="107002"):
            ascendrt.Memory(10)
        with ascendrt.Device(0), pytest.raises(ascendrt.AclError) as caught:
            ascendrt.Memory(1 << 50)
        causes.append(caught.value.cause)

    worker = threading.Thread(target=thread)
    worker.start()
    worker.join(60)
    assert causes == [""]


def test_a_graph_replays_what_a_stream_was_given(device: ascendrt.Device) -> None:
    ran: list[int] = []
    with ascendrt.Stream() as stream, ascendrt.Memory(16) as memory, ascendrt.Memory(16) as other:
        source, target = ascendrt.PinnedMemory(16), ascendrt.PinnedMemory(16)
        source.numpy()[:] = 1
        with ascendrt.Graph.capture(stream) as graph:
            stream.write(memory, source)
            stream.copy(other, memory)
            stream.read_into(other, target)
            stream.call(lambda: ran.append(1))
        assert ran == []
        given, taken = source.numpy(), target.numpy()
        source.close()
        target.close()
        with graph:
            for value in (5, 6):
                given[:] = value
                graph.replay(stream)
                stream.synchronize()
                assert set(taken.tolist()) == {value}
            assert len(ran) == 2
        with pytest.raises(ValueError, match="this Graph is closed"):
            graph.replay(stream)


def test_a_capture_that_fails_leaves_the_stream_usable(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream, ascendrt.Memory(16) as memory:
        with pytest.raises(KeyError), ascendrt.Graph.capture(stream):
            stream.fill(memory, 1)
            raise KeyError("the block's own")
        with pytest.raises(ascendrt.AclError), ascendrt.Graph.capture(stream):
            stream.synchronize()  # cannot be recorded
        stream.fill(memory, 2)
        stream.synchronize()
        assert set(memory.read((16,), np.uint8).tolist()) == {2}
    with pytest.raises(TypeError, match=r"Graph\.capture"):
        ascendrt.Graph()


def test_a_graph_may_be_closed_after_its_device() -> None:
    device = ascendrt.Device(0)
    stream, memory = ascendrt.Stream(), ascendrt.Memory(16)
    with ascendrt.Graph.capture(stream) as graph:
        stream.fill(memory, 1)
    for each in (device, graph, stream, memory):
        each.close()
