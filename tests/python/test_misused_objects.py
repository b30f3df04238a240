"""Objects in the hands of those who misuse them: wrong numbers and arrays, copies of handles, use
from wherever, closing in the midst, Ctrl-C. Nothing crashes or hangs, and what is wrong is said."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import secrets
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendrt
from ascendrt import _lib, numbers
from ascendrt._slot import Run, Slot

PICTURE = np.zeros((1, 1, 8, 8), np.float32)
Objects = dict[str, Any]


@pytest.fixture
def device() -> Iterator[ascendrt.Device]:
    with ascendrt.Device(0) as opened:
        yield opened


def everything(om: Path) -> Objects:
    """One open object of every kind, in a context of their own."""
    made: Objects = {"device": ascendrt.Device(0)}
    made |= {"context": ascendrt.Context(0), "stream": ascendrt.Stream()}
    made |= {"event": ascendrt.Event(), "memory": ascendrt.Memory(64)}
    made |= {"pinned": ascendrt.PinnedMemory(64), "model": ascendrt.Model(om)}
    with ascendrt.Graph.capture(made["stream"]) as made["graph"]:
        made["stream"].fill(made["memory"], 1)
    made["run"] = made["model"].run_async([PICTURE])
    made["pipeline"] = ascendrt.Pipeline(made["model"])
    made["batcher"] = ascendrt.DynamicBatcher.of_model(made["model"])
    made["device pool"] = ascendrt.DevicePool([0])
    made["model pool"] = ascendrt.ModelPool()
    made["model pool"].add("digits", om)
    return made


def close(made: Objects) -> None:
    for each in reversed(made.values()):
        if hasattr(each, "close"):
            each.close()


# ---- numbers

NO_NUMBERS = [8.0, float("nan"), "8", None, [8], np.float32(8), b"8"]
USES: dict[str, Callable[[Objects, Any], object]] = {
    "size_bytes": lambda o, n: ascendrt.Memory(n),
    "size_bytes ": lambda o, n: ascendrt.PinnedMemory(n),
    "device": lambda o, n: ascendrt.Device(n),
    "device ": lambda o, n: ascendrt.Context(n),
    "offset_bytes": lambda o, n: o["memory"].write(bytes(4), n),
    "offset_bytes ": lambda o, n: o["memory"].read((4,), np.uint8, n),
    "offset_bytes  ": lambda o, n: o["stream"].write(o["memory"], bytes(4), n),
    "offset_bytes   ": lambda o, n: o["pinned"].numpy((4,), np.uint8, n),
    "a size of the shape": lambda o, n: o["pinned"].numpy((n,)),
    "byte": lambda o, n: o["memory"].fill(n),
    "byte ": lambda o, n: o["stream"].fill(o["memory"], n),
}


@pytest.fixture
def few(device: ascendrt.Device) -> Iterator[Objects]:
    stream, memory, pinned = ascendrt.Stream(), ascendrt.Memory(64), ascendrt.PinnedMemory(64)
    with stream, memory, pinned:
        yield {"stream": stream, "memory": memory, "pinned": pinned}


@pytest.mark.parametrize("name", USES)
def test_what_is_no_number_is_named(few: Objects, name: str) -> None:
    for value in NO_NUMBERS:
        with pytest.raises(TypeError, match=rf"^{name.strip()} is .*; it must be a whole number$"):
            USES[name](few, value)
    for value in (2**70, -(2**70)):
        with pytest.raises(ValueError, match=f"{name.strip()} is|bytes at offset"):
            USES[name](few, value)


def test_numbers_of_numpy_are_numbers(few: Objects) -> None:
    memory, stream, pinned = few["memory"], few["stream"], few["pinned"]
    for kind in (np.uint8, np.int64, np.uint64):
        with ascendrt.Memory(kind(8)) as own, ascendrt.PinnedMemory(kind(8)) as host:
            assert (own.size_bytes, host.size_bytes) == (8, 8)
        with ascendrt.Device(kind(0)), ascendrt.Context(kind(0)):
            pass
        memory.fill(kind(7))
        memory.write(np.full(4, 9, np.uint8), offset_bytes=kind(32))
        stream.fill(memory, kind(3), kind(8))
        stream.read_into(memory, pinned.numpy((40,)), kind(0))
        stream.synchronize(kind(250))
        assert pinned.numpy()[[0, 8, 32]].tolist() == [3, 7, 9]


def test_a_number_out_of_range_is_told() -> None:
    assert numbers.whole(True, "n", 1, 1) == 1
    with pytest.raises(ValueError, match=r"^n is 3; it must be at most 2$"):
        numbers.whole(3, "n", 0, 2)
    with pytest.raises(ValueError, match=r"^n is -1; it must be at least 0$"):
        numbers.whole(-1, "n", 0, 2)


# ---- arrays


def test_arrays_of_objects_and_masks_are_refused(few: Objects) -> None:
    """Bytes of pointers would go out, and come in as pointers to anywhere."""
    memory, stream = few["memory"], few["stream"]
    record = np.zeros(2, np.dtype([("a", object), ("b", "i4")]))
    for array in (np.array([None, {}], object), record):
        for use in (memory.write, memory.read_into, ascendrt.Memory.from_array):
            with pytest.raises(TypeError, match="holds Python objects"):
                use(array)
        with pytest.raises(TypeError, match="holds Python objects"):
            stream.read_into(memory, array)
        with pytest.raises(TypeError, match="holds Python objects"):
            memory.read((2,), array.dtype)
    masked = np.ma.array([1, 2, 3], mask=np.array([0, 1, 0], bool))
    with pytest.raises(TypeError, match=r"lose its mask.*filled\(value\)"):
        memory.write(masked)
    memory.write(masked.filled(0))


def test_device_memory_is_refused_where_host_memory_is_taken(few: Objects) -> None:
    with ascendrt.Memory(64) as memory:
        for view, kind in ((np.asarray, TypeError), (np.from_dlpack, BufferError)):
            with pytest.raises(kind, match=r"copy it with memory\.read\("):
                view(memory)
        with pytest.raises(TypeError, match=r"lies on a device.*memory\.read\("):
            memory.write(memory)


def test_a_strided_target_is_not_told_to_be_copied(few: Objects) -> None:
    with ascendrt.Memory(64) as memory:
        with pytest.raises(ValueError, match=r"not contiguous; give a new array, np\.empty"):
            memory.read_into(np.zeros((4, 8), np.float32)[:, ::2])
        with pytest.raises(ValueError, match=r"not contiguous; give np\.ascontiguousarray"):
            memory.write(np.zeros((4, 8), np.float32)[:, ::2])


def test_a_dropped_device_is_named_as_a_cause(few: Objects) -> None:
    said: list[BaseException] = []

    def without_a_context() -> None:
        try:
            ascendrt.Memory(16)
        except ascendrt.UsageError as error:
            said.append(error)

    thread = threading.Thread(target=without_a_context)
    thread.start()
    thread.join()
    assert "nothing refers to is closed" in str(said[0])


def test_a_tensor_of_a_type_that_numpy_lacks_is_told(few: Objects) -> None:
    class Tensor:
        dtype = "bfloat16"

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def numpy(self) -> None: ...

        def __array__(self, *_: object, **__: object) -> None:
            raise TypeError("unsupported scalar type")

    with pytest.raises(TypeError, match=r"Tensor of bfloat16.*view\(torch\.uint16\)"):
        few["memory"].write(Tensor())


def test_inputs_of_models_that_are_none(few: Objects, digits_om: Path) -> None:
    with ascendrt.Model(digits_om) as model:
        with pytest.raises(TypeError, match="lose its mask"):
            model(np.ma.array(PICTURE, mask=PICTURE == 0))
        wrong: list[Any] = [PICTURE, None, 5, "abc"]
        for inputs in wrong:
            with pytest.raises(TypeError, match="a list of arrays or a dict by name"):
                model.run_async(inputs)
        with pytest.raises(TypeError, match="it must be a Stream or None"):
            model.run_async([PICTURE], 5)  # type: ignore[arg-type]


def test_a_model_comes_from_any_buffer(device: ascendrt.Device, digits_om: Path) -> None:
    content = digits_om.read_bytes()
    buffers: list[Any] = [bytearray(content), memoryview(content), np.frombuffer(content, "u1")]
    for source in buffers:
        with ascendrt.Model(source) as model:
            assert model(PICTURE)[0].shape == (1, 10)
    others: list[Any] = [None, 5, 1.5, [content], memoryview(content)[::2]]
    for source in others:
        with pytest.raises(TypeError, match=r"a model is given by its path .* or its content"):
            ascendrt.Model(source)


# ---- copies of handles


def test_nothing_that_owns_is_copied(digits_om: Path) -> None:
    """The copy would give back what is the first one's, or wait for what never comes."""
    made = everything(digits_om)
    made["future"] = made["batcher"].submit(PICTURE[0])
    for name, each in made.items():
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="can be neither copied nor pickled"):
                way(each)
            assert name
    assert made["future"].result()[0].shape == (10,)
    close(made)


def test_an_error_about_handles_can_be_pickled(few: Objects) -> None:
    with pytest.raises(ascendrt.AclError) as caught, ascendrt.Event() as one, few["stream"]:
        one.elapsed_ms(one)
    back = pickle.loads(pickle.dumps(caught.value))
    assert str(back) == str(caught.value)
    assert back.ids["event"] == repr(one)


# ---- threads and orders


def test_a_thread_without_a_context_may_use_everything(digits_om: Path) -> None:
    made = everything(digits_om)
    stream, event, memory, model = (made[n] for n in ("stream", "event", "memory", "model"))
    stream.record(event)
    uses: list[Callable[[], object]] = [
        lambda: memory.write(np.zeros(64, np.uint8)),
        lambda: memory.read((64,), np.uint8),
        lambda: memory.fill(1),
        lambda: stream.done,
        lambda: event.done,
        lambda: stream.record(event),
        lambda: stream.wait(event),
        lambda: stream.call(int),
        lambda: stream.fill(memory, 1),
        stream.synchronize,
        lambda: stream.synchronize(1000),
        event.synchronize,
        lambda: event.elapsed_ms(event),
        lambda: made["graph"].replay(stream),
        lambda: model(PICTURE),
        lambda: model.run_async([PICTURE], stream).result(),
        lambda: model.run_async([PICTURE]).result(),
        made["run"].result,
        lambda: made["pipeline"].submit([PICTURE]).result(),
        lambda: made["model pool"]("digits", PICTURE),
        *(made[name].close for name in reversed(made) if hasattr(made[name], "close")),
    ]
    wrong: list[tuple[int, BaseException]] = []

    def use(index: int) -> None:
        try:
            uses[index]()
        except BaseException as error:
            wrong.append((index, error))

    for index in range(len(uses)):
        thread = threading.Thread(target=use, args=(index,))
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), f"use {index} hangs"
    assert wrong == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", ["one thread", "a thread each"])
def test_everything_closes_in_any_order(way: str, digits_om: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"{seed=}")
    rng = random.Random(seed)
    with ascendrt.Device(0) as device:
        close(everything(digits_om))
        before = device.memory()
        for _ in range(8):
            made = everything(digits_om)
            made["run"].result()
            order = [name for name in made if hasattr(made[name], "close")] * 2
            rng.shuffle(order)
            wrong: list[BaseException] = []
            threads = [threading.Thread(target=_close_one, args=(made[n], wrong)) for n in order]
            for thread in threads:
                thread.start()
                if way == "one thread":
                    thread.join(30)
            for thread in threads:
                thread.join(30)
            assert wrong == [], order
            device.use()
        del made
        assert device.memory() == before


def _close_one(each: Any, wrong: list[BaseException]) -> None:
    try:
        each.close()
    except BaseException as error:
        wrong.append(error)


def _run_on(model: ascendrt.Model, wrong: list[BaseException]) -> None:
    try:
        while True:
            model(PICTURE)
            model.run_async([PICTURE]).result()
    except BaseException as error:
        wrong.append(error)


def test_closing_a_model_waits_for_its_calls(device: ascendrt.Device, digits_om: Path) -> None:
    """What is under way ends well, what comes later is refused, and nothing in between."""
    for _ in range(20):
        model, wrong = ascendrt.Model(digits_om), list[BaseException]()
        threads = [threading.Thread(target=_run_on, args=(model, wrong)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        model.close()
        for thread in threads:
            thread.join(30)
        assert {str(error) for error in wrong} == {"this Model is closed"}
        assert len(wrong) == len(threads)


def test_a_signal_may_close_a_model_inside_of_a_call(
    device: ascendrt.Device, digits_om: Path
) -> None:
    before = device.memory()
    model = ascendrt.Model(digits_om)
    previous = signal.signal(signal.SIGALRM, lambda *_: model.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        with pytest.raises(ValueError, match="this Model is closed"):
            while True:
                model(PICTURE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert device.memory() == before


def test_a_context_closes_all_it_owns_though_one_fails(device: ascendrt.Device) -> None:
    with ascendrt.Context(device) as context:
        owned = [ascendrt.Memory(64) for _ in range(3)]
        middle = owned[1]
        _lib.call("aclrtFree", middle.pointer)
        with pytest.raises(ascendrt.AclError, match="aclrtFree"):
            context.close()
        assert all(each.closed for each in owned)
        with pytest.raises(ascendrt.AclError):
            _lib.call("aclrtSetCurrentContext", context._handle)


def test_a_forgotten_object_is_given_back_though_the_warning_is_an_error(
    device: ascendrt.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    before, told = device.memory(), list[Any]()
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ascendrt.Memory(32 << 20)
        ascendrt.Event()
        gc.collect()
    assert {type(each.exc_value) for each in told} == {ResourceWarning}
    assert device.memory() == before


def test_a_function_in_a_stream_cannot_wait_for_itself(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream, ascendrt.Event() as event:
        for wait in (stream.synchronize, event.synchronize, device.synchronize):
            stream.call(wait)
            stream.record(event)
            with pytest.raises(RuntimeError, match="cannot wait for the device"):
                stream.synchronize(20_000)
        stream.synchronize()


def test_a_limit_is_kept_in_slices(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream:
        stream.call(lambda: time.sleep(1.2))
        began = time.monotonic()
        with pytest.raises(ascendrt.WaitTimeoutError, match=r"timeout_ms=500(?s:.*)within 500 ms"):
            stream.synchronize(500)
        assert 0.49 < time.monotonic() - began < 1.1
        stream.synchronize(20_000)


def test_threads_share_streams(device: ascendrt.Device) -> None:
    """What a task needs lives until it has run, whichever thread looks how far the stream is."""
    streams, memory = [ascendrt.Stream() for _ in range(3)], ascendrt.Memory(64)
    until, early, failed = time.monotonic() + 4, [], []

    class Needed:
        def __init__(self, stream: ascendrt.Stream) -> None:
            self.used = stream.record(ascendrt.Event())

        def __del__(self) -> None:
            early.append(self) if not self.used.done else self.used.close()

    def work(number: int) -> None:
        device.use()
        draw = random.Random(number)
        try:
            while time.monotonic() < until:
                stream = draw.choice(streams)
                for _ in range(8):
                    stream.fill(memory, 1)
                    stream.keep(Needed(stream))
                for _ in range(40):
                    stream.keep(memory)
                if draw.random() < 0.1:
                    stream.synchronize()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for each in (*streams, memory):
        each.close()
    assert (failed, early) == ([], [])


@pytest.mark.parametrize("when", ["before", "behind", "at the end"])
def test_ctrl_c_while_a_run_is_queued_loses_nothing(
    device: ascendrt.Device, digits_om: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    kind, name = (Run, "__init__") if when == "at the end" else (Slot, "queue")
    true = getattr(kind, name)

    def interrupted(*arguments: Any) -> None:
        if when != "before":
            true(*arguments)
        raise KeyboardInterrupt

    model = ascendrt.Model(digits_om)
    (answer,) = model(PICTURE)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, interrupted)
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                model.run_async([PICTURE])
            gc.collect()
    runs = [model.run_async([PICTURE + n]) for n in range(30)]
    assert len({id(run._slot) for run in runs}) == len(runs)  # none was given back twice
    assert np.array_equal(runs[0].result()[0], answer)
    for run in runs:
        run.result()
    closer = threading.Thread(target=model.close)  # it waits for the runs of other threads
    closer.start()
    closer.join(20)
    assert not closer.is_alive()
