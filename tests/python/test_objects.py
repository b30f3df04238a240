"""The first objects: devices, contexts, streams, events, memory, models. Run on both backends."""

from __future__ import annotations

import gc
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from command import DIGITS, run
from command import ascendrt as ascendrt_command
from onnx import TensorProto, helper

import ascendrt


@pytest.fixture
def device() -> Iterator[ascendrt.Device]:
    with ascendrt.Device(0) as opened:
        yield opened


@pytest.fixture(scope="module")
def om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("om") / "digits.om"
    done = ascendrt_command("om", "convert", DIGITS, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_a_bad_device_names_the_id_and_the_count() -> None:
    with pytest.raises(ascendrt.UsageError) as caught:
        ascendrt.Device(99)
    assert caught.value.code == 107001
    assert "device=99" in str(caught.value)
    assert f"devices={ascendrt.device_count()}" in str(caught.value)


def test_memory_makes_the_round_trip(device: ascendrt.Device) -> None:
    values = np.arange(1000, dtype=np.int32)
    with ascendrt.Memory.from_array(values) as memory:
        assert memory.size_bytes == 4000
        np.testing.assert_array_equal(memory.read((1000,), np.int32), values)
        memory.write(values[:10] * 2, offset_bytes=40)
        np.testing.assert_array_equal(
            memory.read((10,), np.int32, offset_bytes=40), values[:10] * 2
        )
        memory.fill(0xAB)
        assert set(memory.read((4000,), np.uint8).tolist()) == {0xAB}


def test_memory_refuses_what_lies_outside(device: ascendrt.Device) -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        ascendrt.Memory(0)
    with ascendrt.Memory(8) as memory:
        with pytest.raises(ValueError, match="do not fit in 8 bytes"):
            memory.write(np.zeros(3, np.int32))
        with pytest.raises(ValueError, match="do not fit in 8 bytes"):
            memory.read((2,), np.int32, offset_bytes=1)
        with pytest.raises(ValueError, match="0 to 255"):
            memory.fill(256)
        frozen = np.zeros(8, np.uint8)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="writable"):
            memory.read_into(frozen)


def test_memory_is_given_back(device: ascendrt.Device) -> None:
    before = device.memory()
    with ascendrt.Memory(64 << 20):
        assert device.memory().free_bytes <= before.free_bytes - (64 << 20)
    assert device.memory() == before
    assert before.free_bytes <= before.total_bytes


def test_too_much_memory_is_a_memory_error(device: ascendrt.Device) -> None:
    with pytest.raises(MemoryError) as caught:
        ascendrt.Memory(1 << 50)
    assert isinstance(caught.value, ascendrt.OutOfMemoryError)
    assert caught.value.ids == {"size_bytes": 1 << 50}


def test_a_closed_object_refuses_use_and_closes_once(device: ascendrt.Device) -> None:
    memory = ascendrt.Memory(8)
    memory.close()
    memory.close()
    assert memory.closed
    with pytest.raises(ValueError, match="this Memory is closed"):
        memory.read((1,), np.uint8)
    with pytest.raises(ValueError, match="closed"), memory:
        pass


def test_a_forgotten_object_warns_and_is_freed(device: ascendrt.Device) -> None:
    before = device.memory().free_bytes
    with pytest.warns(ResourceWarning, match="Memory.* was never closed"):
        ascendrt.Memory(32 << 20)
        gc.collect()
    assert device.memory().free_bytes == before


def test_events_measure_and_order(device: ascendrt.Device) -> None:
    with ascendrt.Stream() as stream, ascendrt.Event() as start, ascendrt.Event() as end:
        assert not start.done
        stream.record(start)
        stream.record(end)
        end.synchronize()
        assert start.done
        assert end.done
        assert end.elapsed_ms(start) >= 0
        with ascendrt.Stream() as other:
            other.wait(end)
            other.synchronize(timeout_ms=5000)
            assert other.done
        stream.synchronize()


def test_an_event_that_was_never_recorded_has_no_time(device: ascendrt.Device) -> None:
    with ascendrt.Event() as start, ascendrt.Event() as end:
        with pytest.raises(ascendrt.DeviceError) as caught:
            end.elapsed_ms(start)
        assert caught.value.code == 507000


def test_a_context_can_be_left_and_entered_again(device: ascendrt.Device) -> None:
    with ascendrt.Context(device) as context:
        with ascendrt.Memory(16) as memory:
            memory.fill(1)
        device.use()
        context.use()
    device.use()
    device.synchronize()


def test_a_model_describes_itself_and_runs(device: ascendrt.Device, om: Path) -> None:
    with ascendrt.Model(om) as model:
        (given,), (result,) = model.inputs, model.outputs
        assert (given.shape, result.shape) == ((1, 1, 8, 8), (1, 10))
        image = np.random.default_rng(3).random(given.shape, dtype=np.float32)
        (by_order,) = model(image)
        (by_name,) = model(**{given.name: image})
        np.testing.assert_array_equal(by_order, by_name)
        assert by_order.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["memory", "nothing"])
def test_a_model_says_what_is_no_array(device: ascendrt.Device, om: Path, kind: str) -> None:
    text = r"(no array of numbers.*float32|lies on a device).*read\("
    with ascendrt.Model(om) as model, ascendrt.Memory(256) as memory:
        given = memory if kind == "memory" else None
        with pytest.raises(TypeError, match=text):
            model(given)


def test_a_model_from_memory_answers_the_same(device: ascendrt.Device, om: Path) -> None:
    image = np.full((1, 1, 8, 8), 0.5, np.float32)
    with ascendrt.Model(om) as one, ascendrt.Model(om.read_bytes()) as two:
        np.testing.assert_array_equal(one(image)[0], two(image)[0])


def test_a_model_may_be_called_from_other_threads(device: ascendrt.Device, om: Path) -> None:
    images = [np.full((1, 1, 8, 8), value / 8, np.float32) for value in range(8)]
    with ascendrt.Model(om) as model:
        expected = [model(image)[0] for image in images]
        results: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}

        def work(index: int) -> None:
            results[index] = model(images[index])[0]

        threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for index in range(8):
            np.testing.assert_array_equal(results[index], expected[index])


def test_a_model_refuses_the_wrong_inputs(device: ascendrt.Device, om: Path) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)
    with ascendrt.Model(om) as model:
        name = model.inputs[0].name
        with pytest.raises(TypeError, match="takes 1 input "):
            model()
        with pytest.raises(TypeError, match="no input \\['nosuch'\\]"):
            model(nosuch=image)
        with pytest.raises(TypeError, match="not both"):
            model(image, **{name: image})
        with pytest.raises(TypeError, match="float64"):
            model(image.astype(np.float64))
        for wrong, advice in (
            (image[0], "the first dimension is missing"),
            ([image], "one dimension too many"),
            (np.zeros((3, 1, 8, 8), np.float32), "its batch is fixed.*--dynamic_batch_size"),
            (image.ravel(), "as many elements: transpose or reshape"),
            (np.zeros((1, 1, 9, 8), np.float32), "expects .*8, 8.$"),
        ):
            with pytest.raises(ValueError, match=r"\(1, 1, 8, 8\)") as caught:
                model(wrong)
            assert re.search(advice, str(caught.value))
        with pytest.raises(TypeError, match=r"by name as model\(\*\*inputs\)"):
            model({name: image})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "own"),
    [(TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT8E5M2, "float8_e5m2")],
)
def test_types_that_numpy_lacks_come_as_their_bits(
    device: ascendrt.Device, tmp_path: Path, kind: int, own: str
) -> None:
    ends = [helper.make_tensor_value_info(name, kind, [2, 2]) for name in "xy"]
    node = helper.make_node("Transpose", ["x"], ["y"])
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]),
              tmp_path / "net.onnx")  # fmt: skip
    om = tmp_path / "net.om"
    done = ascendrt_command("om", "convert", tmp_path / "net.onnx", "-o", om)
    assert done.returncode == 0, done.stderr
    given = np.array([[1, 2], [3, -4]], getattr(ml_dtypes, own))
    bits = given.view(f"u{given.itemsize}")
    with ascendrt.Model(om) as model:
        for x in (given, bits):
            assert np.array_equal(model(x)[0], bits.T)
            assert np.array_equal(model.run_async([x]).result()[0], bits.T)
        for wrong in (given.astype(np.float32), bits.astype(np.int32)):
            with pytest.raises(TypeError, match=rf"as its bits, uint.*astype\(ml_dtypes\.{own}\)"):
                model(wrong)


def test_help_and_editors_are_told_how_each_object_is_made() -> None:
    for name in dir(ascendrt):
        each = getattr(ascendrt, name)
        if isinstance(each, type) and not issubclass(each, BaseException):
            assert inspect.signature(each) is not None, name
    assert str(inspect.signature(ascendrt.Memory)) == "(size_bytes)"


def test_a_name_that_is_none_comes_with_the_one_meant() -> None:
    done = run(sys.executable, "-c", "import ascendrt; ascendrt.Strem")
    assert "no attribute 'Strem'. Did you mean: 'Stream'?" in done.stderr


def test_a_model_that_is_none(device: ascendrt.Device, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.om"):
        ascendrt.Model(tmp_path / "nothing.om")
    (tmp_path / "bad.om").write_bytes(b"x" * 1000)
    with pytest.raises(ascendrt.ModelError) as caught:
        ascendrt.Model(tmp_path / "bad.om")
    assert caught.value.code == 145000
    assert "bad.om" in str(caught.value)
    with pytest.raises(ascendrt.ModelError):
        ascendrt.Model(b"IM")
    with pytest.raises(ascendrt.ModelError, match="an ONNX network; convert it first"):
        ascendrt.Model(DIGITS)


def test_a_model_without_a_device() -> None:
    code = "import ascendrt; ascendrt.Model(b'x' * 300)"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 1
    assert "aclmdlLoadFromMem" in done.stderr


def test_device_memory_is_no_array_and_pinned_memory_is_one() -> None:
    with ascendrt.Device(0), ascendrt.Memory(64) as memory, ascendrt.PinnedMemory(64) as pinned:
        for take in (np.asarray, np.array, np.sum):
            with pytest.raises(TypeError, match=r"copy it with memory\.read\(shape, dtype\)"):
                take(memory)
        view = np.asarray(pinned)
        view[:] = 7
        assert view.dtype == np.uint8 and bytes(pinned.buffer) == b"\7" * 64
        del view
