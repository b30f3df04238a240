"""Models with gears: what each gear answers, against the reference runtime."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from differential import Array, convert, distance, network, reference
from onnx import TensorProto, helper

from ascendrt import _ctl, _lib
from ascendrt._lib import call, lib
from ascendrt.cli.om import describe
from ascendrt.dataset import Dataset
from ascendrt.device import Device
from ascendrt.model import Model
from ascendrt.tensors import Description

LIMIT = 1e-5


def image_net() -> onnx.ModelProto:
    """Convolution, pooling, a resize to twice the size; height and width are open."""
    rng = np.random.default_rng(3)
    w = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
    scales = np.array([1, 1, 2, 2], np.float32)
    return network(
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Resize", ["b", "", "scales"], ["y"], mode="nearest"),
        inputs={"x": [1, 3, "h", "w"]}, w=w, scales=scales,
    )  # fmt: skip


def batch_net() -> onnx.ModelProto:
    """Two inputs of one batch; a reduction over it and a product."""
    m = np.random.default_rng(4).standard_normal((6, 5)).astype(np.float32)
    return network(
        helper.make_node("MatMul", ["x", "m"], ["a"], "product"),
        helper.make_node("Add", ["a", "z"], ["y"], "sum"),
        inputs={"x": ["n", 6], "z": ["n", 5]}, m=m,
    )  # fmt: skip


def sequence_net() -> onnx.ModelProto:
    """Open dims in two inputs, one of them twice."""
    return network(
        helper.make_node("MatMul", ["mask", "x"], ["y"], "mix"),
        inputs={"x": [1, "t", 4], "mask": ["t", "t"]},
    )


def feeds_of(*shapes: Sequence[int]) -> list[Array]:
    rng = np.random.default_rng(sum(shapes[0]))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def compare(model: onnx.ModelProto, loaded: Model, feeds: list[Array]) -> None:
    names = [value.name for value in model.graph.input]
    (expected,) = reference(model, dict(zip(names, feeds, strict=True)))
    (got,) = loaded(*feeds)
    assert distance(got, expected) <= LIMIT


def test_image_sizes(tmp_path: Path) -> None:
    model, om = image_net(), tmp_path / "net.om"
    convert(model, om, "input_shape=x:1,3,-1,-1\ndynamic_image_size=32,48;16,16;64,32")
    with Device(), Model(om) as loaded:
        assert loaded.inputs[0].shape == (1, 3, -1, -1)
        assert loaded.inputs[0].size_bytes == 3 * 64 * 32 * 4
        assert loaded.outputs[0].shape == (1, 8, 64, 32)
        for height, width in ((16, 16), (64, 32), (32, 48), (16, 16)):
            compare(model, loaded, feeds_of((1, 3, height, width)))
        with pytest.raises(ValueError, match="16x16"):
            loaded(*feeds_of((1, 3, 20, 20)))


def test_batches(tmp_path: Path) -> None:
    model, om = batch_net(), tmp_path / "net.om"
    convert(model, om, "input_shape=x:-1,6;z:-1,5\ndynamic_batch_size=2,8,4")
    with Device(), Model(om) as loaded:
        for batch in (2, 8, 4, 2, 3):
            compare(model, loaded, feeds_of((batch, 6), (batch, 5)))


def test_dims(tmp_path: Path) -> None:
    model, om = sequence_net(), tmp_path / "net.om"
    shapes = "input_shape=x:1,-1,4;mask:-1,-1\ninput_format=ND"
    convert(model, om, f"{shapes}\ndynamic_dims=3,3,3;7,7,7")
    with Device(), Model(om) as loaded:
        for steps in (3, 7, 3):
            compare(model, loaded, feeds_of((1, steps, 4), (steps, steps)))


def test_all_gears_share_one_copy_of_the_weights(tmp_path: Path) -> None:
    w = np.random.default_rng(5).standard_normal((512, 512)).astype(np.float32)
    model = network(helper.make_node("MatMul", ["x", "w"], ["y"]), inputs={"x": ["n", 512]}, w=w)
    om = tmp_path / "net.om"
    convert(model, om, "input_shape=x:-1,512\ndynamic_batch_size=1,2,4,8,16")
    assert om.stat().st_size < 1.2 * w.nbytes


def test_the_work_memory_of_the_file_is_that_of_the_plan(tmp_path: Path) -> None:
    """A block of the size that the query tells is enough for every gear."""
    om = tmp_path / "net.om"
    convert(image_net(), om, "input_shape=x:1,3,-1,-1\ndynamic_image_size=32,48;16,16;64,32")
    facts = describe(om)
    plan = facts["plan"]
    assert isinstance(plan, dict)
    assert facts["work_bytes"] == plan["planned_bytes"] > 0


def test_without_a_gear_the_largest_one_runs(tmp_path: Path) -> None:
    """As the manual says of aclmdlExecute without a call that sets a gear."""
    model, om = batch_net(), tmp_path / "net.om"
    convert(model, om, "input_shape=x:-1,6;z:-1,5\ndynamic_batch_size=2,4")
    x, z = feeds_of((4, 6), (4, 5))
    with Device(), Model(om) as loaded:
        slot = loaded._take()
        for index, array in enumerate((x, z)):
            slot.feed.memory(index).write(array)
        call("aclmdlExecute", loaded.model_id, slot.feed.handle, slot.fetch.handle)
        got = slot.fetch.memory(0).read((4, 5), np.float32)
    (expected,) = reference(model, {"x": x, "z": z})
    assert distance(got, expected) <= LIMIT


def test_the_description_without_loading(tmp_path: Path) -> None:
    om = tmp_path / "net.om"
    convert(image_net(), om, "input_shape=x:1,3,-1,-1\ndynamic_image_size=32,48;16,16")
    with Device(), Description() as desc:
        desc.of_file(om)
        assert desc.gears().values == ((16, 16), (32, 48))
        names = [spec.name for spec in desc.specs("Input")]
    assert names == ["x", "ascend_mbatch_shape_data"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("input_shape=x:1,3,-1,32\ndynamic_image_size=32,48;16,16", "height and width"),
        ("input_shape=x:1,3,-1,-1\ndynamic_batch_size=1,2", "first dim"),
        ("input_shape=x:1,3,1~8,-1\ndynamic_dims=3,4;4,5", "only -1"),
        ("input_shape=x:1,3,-1,-1\ndynamic_dims=3;4", "2 dims of -1"),
        ("input_shape=x:1,3,-1,-1\ninput_format=ND\ndynamic_image_size=3,4;5,6", "dynamic_dims"),
    ],
)
def test_gears_that_do_not_fit_the_shapes(tmp_path: Path, options: str, part: str) -> None:
    with pytest.raises(_ctl.ConvertError, match=part):
        convert(image_net(), tmp_path / "net.om", options)
    assert not (tmp_path / "net.om").exists()


def test_outputs_whose_shape_depends_on_values_have_no_gears(tmp_path: Path) -> None:
    model = network(helper.make_node("NonZero", ["x"], ["y"]), inputs={"x": ["n", 4]})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    with pytest.raises(_ctl.ConvertError, match="known shape"):
        convert(model, tmp_path / "net.om", "input_shape=x:-1,4\ndynamic_batch_size=1,2")


def test_threads_with_gears_of_their_own(tmp_path: Path) -> None:
    """Several threads run one model id; each answer is that of its own gear."""
    model, om = batch_net(), tmp_path / "net.om"
    convert(model, om, "input_shape=x:-1,6;z:-1,5\ndynamic_batch_size=2,4,8")
    wrong: list[BaseException] = []
    with Device(), Model(om) as loaded:

        def work(batch: int) -> None:
            try:
                for _ in range(8):
                    compare(model, loaded, feeds_of((batch, 6), (batch, 5)))
            except BaseException as error:  # told to the thread that waits
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(batch,)) for batch in (2, 8, 4, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


def test_a_model_is_replaced_while_threads_run_it(tmp_path: Path) -> None:
    """A new file is loaded, the threads are pointed at it, the old one is unloaded at once."""
    model, om = batch_net(), tmp_path / "net.om"
    convert(model, om, "input_shape=x:2,6;z:2,5")
    x, z = feeds_of((2, 6), (2, 5))
    (expected,) = reference(model, {"x": x, "z": z})
    wrong: list[object] = []
    with Device() as device, Model(om) as first:
        specs, current, over = (first.inputs, first.outputs), [load(om)], threading.Event()

        def work() -> None:
            device.use()
            with Dataset(specs[0]) as feed, Dataset(specs[1]) as fetch:
                for index, array in enumerate((x, z)):
                    feed.memory(index).write(array)
                while not over.is_set():
                    code = lib.aclmdlExecute(current[0], feed.handle, fetch.handle)
                    if code == GONE:  # unloaded between the look at the id and the call
                        continue
                    got = fetch.memory(0).read((2, 5), np.float32)
                    if code or distance(got, expected) > LIMIT:
                        wrong.append(code)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            old, current[0] = current[0], load(om)
            call("aclmdlUnload", old)
        over.set()
        for thread in threads:
            thread.join(60)
        call("aclmdlUnload", current[0])
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


GONE = 145003


def load(om: Path) -> int:
    model_id = _lib.new("uint32_t *")
    call("aclmdlLoadFromFile", bytes(om), model_id)
    return int(model_id[0])
