"""Models whose shapes only a run tells: what each shape answers, against the reference runtime."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from differential import Array, convert, distance, network, reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from networks import rapidocr
from onnx import TensorProto, helper
from random_graphs import graphs

from ascendrt import AclError, _ctl, _lib
from ascendrt._lib import call, lib
from ascendrt.device import Device
from ascendrt.memory import Memory
from ascendrt.model import Model

LIMIT = 1e-4


def typed(model: onnx.ModelProto, dtype: int) -> onnx.ModelProto:
    """Give the output another type."""
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", dtype, None))
    return model


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compare(model: onnx.ModelProto, loaded: Model, *feeds: Array, limit: float = LIMIT) -> None:
    names = [value.name for value in model.graph.input]
    expected = reference(model, dict(zip(names, feeds, strict=True)))
    for got, wanted in zip(loaded(*feeds), expected, strict=True):
        assert distance(got, wanted) <= limit


def cnn() -> onnx.ModelProto:
    """Convolutions, a resize by the shape of another tensor, a pooling over everything."""
    return network(
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "two", "four"], ["hw"]),
        helper.make_node("Shape", ["c"], ["cs"]),
        helper.make_node("Slice", ["cs", "zero", "two"], ["nc"]),
        helper.make_node("Concat", ["nc", "hw"], ["sizes"], axis=0),
        helper.make_node("Resize", ["c", "", "", "sizes"], ["d"], mode="nearest"),
        helper.make_node("GlobalAveragePool", ["d"], ["p"]),
        helper.make_node("Mul", ["d", "p"], ["y"]),
        inputs={"x": ["n", 3, "h", "w"]}, w1=random(8, 3, 3, 3), w2=random(5, 8, 3, 3),
        zero=np.array([0]), two=np.array([2]), four=np.array([4]),
    )  # fmt: skip


def transformer() -> onnx.ModelProto:
    """One block of attention with two heads, batch and sequence open."""
    split = np.array([0, 0, 2, 8])
    return network(
        *(helper.make_node("MatMul", ["x", f"w{k}"], [f"{k}1"]) for k in "qkv"),
        *(helper.make_node("Reshape", [f"{k}1", "split"], [f"{k}2"]) for k in "qkv"),
        *(helper.make_node("Transpose", [f"{k}2"], [k], perm=[0, 2, 1, 3]) for k in "qv"),
        helper.make_node("Transpose", ["k2"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["back", "join"], ["joined"]),
        helper.make_node("Add", ["joined", "x"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "gain", "bias"], ["y"], axis=-1),
        inputs={"x": ["n", "t", 16], "mask": ["n", 1, 1, "t"]}, split=split,
        join=np.array([0, 0, 16]), scale=np.array(8 ** -0.5, np.float32),
        wq=random(16, 16), wk=random(16, 16), wv=random(16, 16), gain=random(16), bias=random(16),
    )  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes=st.lists(st.tuples(*[st.integers(1, m) for m in (3, 40, 40)]), min_size=1,
                       max_size=4))  # fmt: skip
def test_random_shapes_of_a_cnn(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int]]
) -> None:
    om = tmp_path_factory.mktemp("cnn") / "net.om"
    convert(cnn(), om)
    with Device(), Model(om) as loaded:
        assert loaded.inputs[0].shape == (-1, 3, -1, -1)
        assert loaded.outputs[0].shape == (-1, 5, -1, -1)
        for batch, height, width in shapes:
            compare(cnn(), loaded, random(batch, 3, height, width))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 70)), min_size=1, max_size=4))
def test_random_shapes_of_a_transformer(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int]]
) -> None:
    om = tmp_path_factory.mktemp("bert") / "net.om"
    convert(transformer(), om)
    with Device(), Model(om) as loaded:
        assert loaded.outputs[0].shape == (-1, -1, 16)
        for batch, steps in shapes:
            compare(transformer(), loaded, random(batch, steps, 16), random(batch, 1, 1, steps))


@pytest.mark.parametrize(("start", "end"), [(0, -2), (2, 9), (-9, -2)])
def test_a_dim_that_small_shapes_leave_empty_is_open(tmp_path: Path, start: int, end: int) -> None:
    """`b` takes one or two elements, so no more are tried for `x`; these leave nothing of it."""
    model = network(
        helper.make_node("Slice", ["x", "start", "end"], ["y"]),
        helper.make_node("Add", ["b", "two"], ["z"]),
        inputs={"x": ["n"], "b": ["m"]},
        start=np.array([start]), end=np.array([end]), two=random(2),
    )  # fmt: skip
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    om = tmp_path / "net.om"
    convert(model, om)
    with Device(), Model(om) as loaded:
        assert [output.shape for output in loaded.outputs] == [(-1,), (2,)]
        for size in (1, 3, 5):
            compare(model, loaded, random(size), random(1))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=graphs())
def test_the_graph_kept_is_the_network(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[onnx.ModelProto, dict[str, Array]]
) -> None:
    """Random operators, first dims made open: a run at the size of before gives the same bits."""
    model, feeds = made
    folder = tmp_path_factory.mktemp("kept")
    convert(model, folder / "fixed.om")
    for index, value in enumerate(model.graph.input):
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = f"n{index}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    convert(model, folder / "open.om")
    with Device(), Model(folder / "fixed.om") as fixed, Model(folder / "open.om") as loaded:
        for a, b in zip(loaded(*feeds.values()), fixed(*feeds.values()), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("kind", "shapes", "output"),
    [
        ("detection", [(1, 3, 64, 96), (2, 3, 96, 64), (1, 3, 160, 224)], (-1, 1, -1, -1)),
        ("recognition", [(1, 3, 48, 100), (2, 3, 48, 320), (3, 3, 48, 64)], (-1, -1, 6625)),
        ("angle", [(1, 3, 48, 192), (4, 3, 48, 192), (1, 3, 64, 96)], (-1, 2)),
    ],
)
def test_networks_that_read_text(
    tmp_path: Path, kind: str, shapes: list[tuple[int, ...]], output: tuple[int, ...]
) -> None:
    om = tmp_path / "net.om"
    model = rapidocr(kind, (-1, 3, -1, -1))
    if model is None:
        pytest.skip("rapidocr-onnxruntime is not installed")
    for place in (0, 2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[place].dim_param = f"d{place}"
    convert(model, om)
    size = om.with_suffix(".onnx").stat().st_size
    assert om.stat().st_size < 1.1 * size + 600_000, "the weights are in the file once"
    with Device(), Model(om) as loaded:
        assert loaded.outputs[0].shape == output
        for shape in shapes:
            # Detection of noise ends in a sigmoid near 0: its own test compares a picture.
            x = np.zeros(shape, np.float32) + np.linspace(-1, 1, shape[-1], dtype=np.float32)
            compare(model, loaded, x, limit=1e-3 if kind == "detection" else LIMIT)


def test_results_whose_shape_depends_on_values(tmp_path: Path) -> None:
    model = typed(network(helper.make_node("NonZero", ["x"], ["y"]), inputs={"x": ["n", 4]}),
                  TensorProto.INT64)  # fmt: skip
    convert(model, tmp_path / "net.om")
    with Device(), Model(tmp_path / "net.om") as loaded:
        for rows in (1, 5, 3):
            compare(model, loaded, np.maximum(random(rows, 4, seed=rows), 0))


def test_a_run_that_fails_keeps_no_memory(tmp_path: Path) -> None:
    """The first output got memory, the second has too little for what the run tells."""
    model = network(helper.make_node("Relu", ["x"], ["y"]),
                    helper.make_node("NonZero", ["x"], ["z"]),
                    inputs={"x": ["n", 4]})  # fmt: skip
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.INT64, None))
    convert(model, tmp_path / "net.om")
    with Device() as device, Model(tmp_path / "net.om") as loaded:
        (x,) = feeds = [random(64, 4)]
        compare(model, loaded, *feeds)
        slot = loaded._take()
        slot.feed.write(0, x)
        small = Memory(8)
        call("aclUpdateDataBuffer", slot.fetch._buffers[1], small.pointer, small.size_bytes)
        before = device.memory().free_bytes
        for _ in range(20):
            with pytest.raises(AclError, match="its buffer has 8"):
                loaded.execute_now(slot)
            assert lib.aclGetDataBufferAddr(slot.fetch._buffers[0]) == _lib.null()
        assert device.memory().free_bytes == before
        small.close()


def test_a_loop_over_an_open_length(tmp_path: Path) -> None:
    """The body reads a tensor from around it; its turns are the length of the sequence."""
    turn = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
            helper.make_node("Add", ["state", "row"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        "turn",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [3]),
        ],
    )
    model = network(
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Squeeze", ["s"], ["length"]),
        helper.make_node("Loop", ["length", "", "start"], ["last", "y"], body=turn),
        inputs={"x": ["t", 3]},
        start=np.zeros(3, np.float32),
    )
    convert(model, tmp_path / "net.om")
    with Device(), Model(tmp_path / "net.om") as loaded:
        for steps in (1, 6, 2):
            compare(model, loaded, random(steps, 3))


def test_bodies_run_again_with_other_values(tmp_path: Path) -> None:
    """A kernel made for one run serves the next only as far as both know the same."""

    def branch(name: str, *nodes: onnx.NodeProto, **weights: Array) -> onnx.GraphProto:
        made = [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
        stored = [onnx.numpy_helper.from_array(value, key) for key, value in weights.items()]
        return helper.make_graph(list(nodes), name, [], made, stored)

    product = branch("a", helper.make_node("MatMul", ["x", "w"], ["p"]),
                     helper.make_node("Slice", ["p", "from", "to", "axis"], ["a_y"]),
                     w=random(4, 6, seed=1), axis=np.array([1]))  # fmt: skip
    scaled = branch("b", helper.make_node("Mul", ["x", "factor"], ["q"]),
                    helper.make_node("MatMul", ["q", "square"], ["b_y"]))  # fmt: skip
    model = network(
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "nothing"], ["positive"]),
        helper.make_node("Cast", ["bounds"], ["ends"], to=TensorProto.INT64),
        helper.make_node("Slice", ["ends", "zero", "one"], ["from"]),
        helper.make_node("Slice", ["ends", "one", "two"], ["to"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=product, else_branch=scaled),
        inputs={"x": [2, 4], "bounds": [2], "square": [4, 4]},
        nothing=np.array(0, np.float32), factor=np.array(3, np.float32),
        zero=np.array([0]), one=np.array([1]), two=np.array([2]),
    )  # fmt: skip
    convert(model, tmp_path / "net.om")
    with Device(), Model(tmp_path / "net.om") as loaded:
        for run in range(12):
            x = np.abs(random(2, 4, seed=run)) * (1 if run % 3 else -1)
            ends = np.array([run % 2, 3 + run % 4], np.float32)
            compare(model, loaded, x, ends, random(4, 4, seed=100 + run))


@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype"])
def test_options_hold_for_every_shape(tmp_path: Path, mode: str) -> None:
    """Types at the edge, precision and merging are those of a conversion for fixed shapes."""
    options = f"precision_mode={mode}\noutput_type=FP16\ninput_fp16_nodes=x\nfusion=off"
    convert(cnn(), tmp_path / "open.om", options)
    convert(cnn(), tmp_path / "fixed.om", f"{options}\ninput_shape=x:2,3,10,12")
    x = random(2, 3, 10, 12).astype(np.float16)
    with Device(), Model(tmp_path / "open.om") as loaded, Model(tmp_path / "fixed.om") as fixed:
        assert [loaded.inputs[0].dtype, loaded.outputs[0].dtype] == ["ACL_FLOAT16"] * 2
        assert loaded(x)[0].tobytes() == fixed(x)[0].tobytes()


@pytest.mark.parametrize(
    "option", ["input_shape=x:1~2,3,8~32,8~32", "input_shape_range=x:[1~2,3,8~32,8~32]"]
)
def test_bounds(tmp_path: Path, option: str) -> None:
    convert(cnn(), tmp_path / "net.om", option)
    with Device(), Model(tmp_path / "net.om") as loaded:
        assert loaded.inputs[0].size_bytes == 2 * 3 * 32 * 32 * 4
        assert loaded.outputs[0].size_bytes == 2 * 5 * 32 * 32 * 4
        compare(cnn(), loaded, random(2, 3, 8, 32))
        with pytest.raises(AclError, match=r"dim 2 of input 0 \('x'\) is 33 .* from 8 to 32"):
            loaded(random(1, 3, 33, 8))
        with pytest.raises(ValueError, match="shape"):
            loaded(random(1, 4, 8, 8))


def test_shapes_that_the_network_cannot_take(tmp_path: Path) -> None:
    """They fail with the operator's text, and the model goes on."""
    model = network(helper.make_node("Add", ["x", "z"], ["y"]),
                    inputs={"x": ["a", 2], "z": ["b", 2]})  # fmt: skip
    convert(model, tmp_path / "net.om")
    with Device(), Model(tmp_path / "net.om") as loaded:
        for _ in range(2):
            with pytest.raises(AclError, match="cannot take inputs of these shapes") as told:
                loaded(random(3, 2), random(4, 2))
            assert told.value.code == 507011
            compare(model, loaded, random(3, 2), random(1, 2))


def test_an_unknown_operator_is_told_when_converting(tmp_path: Path) -> None:
    model = network(helper.make_node("Mystery", ["x"], ["y"]), inputs={"x": ["n", 2]})
    with pytest.raises(_ctl.ConvertError, match="op type Mystery"):
        convert(model, tmp_path / "net.om")
    assert not (tmp_path / "net.om").exists()


def test_equal_networks_give_equal_files(tmp_path: Path) -> None:
    for name in ("a.om", "b.om"):
        convert(transformer(), tmp_path / name)
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()


def test_more_shapes_than_are_kept(tmp_path: Path) -> None:
    """Shapes that were given up are made again; device memory does not grow with their number."""
    model = network(helper.make_node("MatMul", ["x", "w"], ["a"]),
                    helper.make_node("Exp", ["a"], ["b"]),
                    helper.make_node("Softmax", ["b"], ["y"]),
                    inputs={"x": ["n", 64]}, w=random(64, 64) / 8)  # fmt: skip
    convert(model, tmp_path / "net.om")
    with Device() as device, Model(tmp_path / "net.om") as loaded:
        loaded(random(400, 64))
        before = device.memory().free_bytes
        for rows in [*range(1, 90), 1, 45, 89]:
            x = random(rows, 64)
            assert np.array_equal(loaded(x)[0], loaded(x)[0])
            if rows % 22 == 1:
                compare(model, loaded, x)
        assert device.memory().free_bytes >= before - (4 << 20)


def test_threads_with_shapes_of_their_own(tmp_path: Path) -> None:
    """Several threads run one model id, new shapes come while others run."""
    model = transformer()
    convert(model, tmp_path / "net.om")
    wrong: list[BaseException] = []
    with Device(), Model(tmp_path / "net.om") as loaded:

        def work(first: int) -> None:
            try:
                for steps in (first, first + 1, 3, first):
                    compare(model, loaded, random(2, steps, 16), random(2, 1, 1, steps))
            except BaseException as error:  # told to the thread that waits
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(first,)) for first in (2, 5, 2, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)
