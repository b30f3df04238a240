"""Operators that run by themselves: their descriptions, and the models made of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import ascendrt

from ascendrt import Device, Model


def tensor(*shape: int, kind: str = "float", order: str = "ND", **more: Any) -> dict[str, Any]:
    return {"format": order, "shape": list(shape), "type": kind, **more}


def attr(name: str, kind: str, value: object) -> dict[str, object]:
    return {"name": name, "type": kind, "value": value}


def operator(kind: str, inputs: list[Any], outputs: list[Any], *attrs: Any, **more: Any) -> Any:
    tensors = {"input_desc": inputs, "output_desc": outputs}
    return {"op": kind, **tensors, "attr": list(attrs), **more}


ADD = operator("Add", [tensor(3, 2), tensor(3, 2)], [tensor(3, 2)])


def compile_ops(
    folder: Path, *operators: Any, chip: str = "--soc_version=Ascend910B1"
) -> subprocess.CompletedProcess[str]:
    (folder / "ops.json").write_text(json.dumps(operators))
    words = ("--singleop=ops.json", "--output=models/of", chip)
    return ascendrt("run", "--", "atc", *words, cwd=folder)


def made(folder: Path, *operators: Any) -> list[Path]:
    done = compile_ops(folder, *operators)
    assert done.returncode == 0 and "ATC run success" in done.stdout, (done.stdout, done.stderr)
    return sorted((folder / "models/of").iterdir())


def test_names_of_files(tmp_path: Path) -> None:
    """Type, format and dims of every tensor, or the name that is given where it can be one."""
    many = [tensor(1, 2)] * 30
    long = operator("ConcatD", many, [tensor(30, 2)], attr("concat_dim", "int", 0))
    bad = {**ADD, "name": "../other"}
    paths = made(tmp_path, ADD, {**ADD, "name": "my-add.1"}, bad, long)
    names = {path.name for path in paths}
    assert {"0_Add_0_2_3_2_0_2_3_2_0_2_3_2.om", "my-add.1.om"} < names
    assert "2_Add_0_2_3_2_0_2_3_2_0_2_3_2.om" in names
    assert sorted(map(len, names))[-1] == 128 + 3
    assert not list(tmp_path.glob("*other*"))


def test_the_model_computes_it(tmp_path: Path) -> None:
    (path,) = made(tmp_path, ADD)
    a, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.float32(np.eye(3, 2))
    with Device(), Model(path) as model:
        assert [each.shape for each in model.inputs] == [(3, 2), (3, 2)]
        assert np.array_equal(model(a, b)[0], a + b)


def test_images_and_constants(tmp_path: Path) -> None:
    """A picture with channels last, a filter that is told, halves, a stride of lines only."""
    w = np.array([[1, 10], [1, -1]], np.float16)
    conv = operator(
        "Conv2D",
        [
            tensor(1, 4, 2, 2, kind="fp16", order="NHWC"),
            tensor(2, 2, 1, 1, kind="half", order="NCHW", is_const=True,
                   const_value=[float(v) for v in w.flat]),
            {"format": "RESERVED", "shape": [], "type": "UNDEFINED"},
        ],
        [tensor(1, 2, 2, 2, kind="float16", order="NHWC")],
        attr("strides", "list_int", [1, 2, 1, 1]),
        attr("pads", "list_int", [0, 0, 0, 0]),
        attr("dilations", "list_int", [1, 1, 1, 1]),
    )  # fmt: skip
    (path,) = made(tmp_path, conv)
    x = np.float16(np.random.default_rng(3).integers(-9, 9, (1, 4, 2, 2)))
    with Device(), Model(path) as model:
        assert [each.format for each in model.inputs] == ["NHWC"]
        assert np.array_equal(model(x)[0], x[:, ::2] @ w.T)


def test_attributes_of_every_type(tmp_path: Path) -> None:
    x = np.float32(np.random.default_rng(4).random((2, 6)))
    halves = [tensor(*shape, kind="float16") for shape in ((2, 6), (2, 6), (2, 2), (), ())]
    gemm = operator("GEMM", halves, halves[2:3], attr("transpose_a", "bool", False),
                    attr("transpose_b", "bool", True))  # fmt: skip
    cast = operator("Cast", [tensor(2, 6)], [tensor(2, 6, kind="int32")],
                    attr("dst_type", "data_type", "DT_INT32"))  # fmt: skip
    leaky = operator("LeakyRelu", [tensor(2, 6)], [tensor(2, 6)],
                     attr("negative_slope", "float", 0.5))  # fmt: skip
    softmax = operator("SoftmaxV2", [tensor(2, 6)], [tensor(2, 6)],
                       attr("axes", "list_int", [1]))  # fmt: skip
    paths = made(tmp_path, gemm, cast, leaky, softmax)
    half, one = np.float16(np.round(x * 8)), np.float16(1)
    wanted = [half @ half.T + 1, np.int32(x * 9), np.where(x > 0, x, x / 2), np.exp(x)]
    feeds = [[half, half, np.ones((2, 2), np.float16), one, one], [x * 9], [x], [x]]
    wanted[3] /= wanted[3].sum(1, keepdims=True)
    with Device():
        for path, given, expected in zip(paths, feeds, wanted, strict=True):
            with Model(path) as model:
                np.testing.assert_allclose(model(*given)[0], expected, rtol=1e-5)


def test_constants_of_every_type(tmp_path: Path) -> None:
    """What a type rounds is rounded; whatever else is held as it stands in the file."""
    values = {"float": [0.1, -2], "float16": [0.1, -2], "double": [0.1, 2.0**60], "uint8": [255, 0],
              "int8": [-128, 1], "int32": [-(2**31), 7], "int64": [2**53 - 1, -1],
              "bool": [True, 0]}  # fmt: skip
    parts = [
        operator("ConcatD", [tensor(2, kind=kind, is_const=True, const_value=given),
                             tensor(0, kind=kind)], [tensor(2, kind=kind)],
                 attr("concat_dim", "int", 0))
        for kind, given in values.items()
    ]  # fmt: skip
    paths = made(tmp_path, *parts)
    with Device():
        for path, (kind, given) in zip(paths, values.items(), strict=True):
            dtype = np.dtype("float32" if kind == "float" else kind)
            with Model(path) as model:
                got = model(np.zeros(0, dtype))[0]
            assert got.dtype == dtype and np.array_equal(got, np.array(given, dtype)), kind


def test_one_operand_of_halves(tmp_path: Path) -> None:
    """The left one is float32 and as it is, the right one is widened: neither lies on the other."""
    draw = np.random.default_rng(5)
    a, b = draw.standard_normal((300, 400)), draw.standard_normal((400, 77))
    kinds = [("float", "float16"), ("float16", "float")]
    paths = made(tmp_path, *(
        operator("MatMulV2", [tensor(300, 400, kind=x), tensor(400, 77, kind=y)],
                 [tensor(300, 77, kind="float16")])
        for x, y in kinds
    ))  # fmt: skip
    dtypes = {"float": np.float32, "float16": np.float16}
    with Device():
        for path, (x, y) in zip(paths, kinds, strict=True):
            with Model(path) as model:
                np.testing.assert_allclose(
                    model(a.astype(dtypes[x]), b.astype(dtypes[y]))[0], a @ b, atol=0.3
                )


def test_attributes_that_are_left_out(tmp_path: Path) -> None:
    """No dilation, no padding, and 1e-4 or 1e-6 beside variances, as the graph engine has it."""
    four = attr("strides", "list_int", [1, 1, 2, 2])
    x, w = tensor(1, 2, 4, 4, order="NCHW"), tensor(2, 2, 1, 1, order="NCHW")
    small, lists = tensor(1, 2, 2, 2, order="NCHW"), [tensor(2)] * 4
    size = attr("ksize", "list_int", [1, 1, 2, 2])
    paths = made(
        tmp_path,
        operator("Conv2D", [x, w], [small], four, attr("pads", "list_int", [0] * 4)),
        operator("MaxPoolV3", [x], [small], four, size),
        operator("AvgPoolV2", [x], [small], four, size),
        operator("BatchNorm", [x, *lists], [x], attr("is_training", "bool", False)),
        operator("InstanceNorm", [x, *lists[:2]], [x]),
    )
    draw = np.random.default_rng(6)
    image, turn = np.float32(draw.random((1, 2, 4, 4)) / 100), np.float32([[1, 2], [3, 4]])
    one, zero, tiny = np.ones(2, np.float32), np.zeros(2, np.float32), np.full(2, 1e-5, np.float32)
    windows = image.reshape(1, 2, 2, 2, 2, 2).swapaxes(3, 4).reshape(1, 2, 2, 2, 4)
    centred = image - image.mean((2, 3), keepdims=True)
    spread = image.var((2, 3), keepdims=True)
    cases = [
        ((image, turn.reshape(2, 2, 1, 1)), np.einsum("oc,nchw->nohw", turn, image[..., ::2, ::2])),
        ((image,), windows.max(-1)),
        ((image,), windows.mean(-1)),
        ((image, one, zero, zero, tiny), image / np.sqrt(np.float32(1.1e-4))),
        ((image, one, zero), centred / np.sqrt(spread + 1e-6)),
    ]
    with Device():
        for path, (given, expected) in zip(paths, cases, strict=True):
            with Model(path) as model:
                np.testing.assert_allclose(model(*given)[0], expected, rtol=1e-4, err_msg=path.name)


WRONG = {
    "missing attribute": (operator("MaxPoolV3", [tensor(1, 1, 2, 2)], [tensor(1, 1, 1, 1)]),
                          "attribute ksize is missing"),
    "no operator": (operator("Addd", [tensor(2)], [tensor(2)]), "'Addd'"),
    "no type": ({"input_desc": []}, "'op' is missing"),
    "shapes": (operator("Add", [tensor(2), tensor(3)], [tensor(3)]), "2 and 3"),
    "result": (operator("Relu", [tensor(2)], [tensor(3)]), "described is float32 3"),
    "more results": (operator("Relu", [tensor(2)], [tensor(2), tensor(2)]), "describes 2"),
    "element type": (operator("Relu", [tensor(2, kind="flot")], [tensor(2)]), "'flot'"),
    "format": (operator("Relu", [tensor(2, order="NCWH")], [tensor(2)]), "'NCWH'"),
    "blocked": (operator("Relu", [tensor(1, 1, 2, 2, 16, order="NC1HWC0")],
                         [tensor(1, 1, 2, 2, 16)]), "NC1HWC0"),
    "open": (operator("Relu", [tensor(-1)], [tensor(-1)]), "below 0"),
    "values": (operator("Relu", [tensor(2, is_const=True, const_value=[1])], [tensor(2)]),
               "1 values"),
    "attribute": (operator("Relu", [tensor(2)], [tensor(2)], attr("a", "list_in", [1])),
                  "list_int"),
    "beyond 2^53": (operator("Relu", [tensor(2)], [tensor(2)], attr("a", "int", 2**53 + 1)),
                    "2^53"),
    "beyond floats": (operator("LeakyRelu", [tensor(2)], [tensor(2)],
                               attr("negative_slope", "float", 1e39)), "largest float"),
    **{
        f"{value} as {kind}": (
            operator("Relu", [tensor(1, kind=kind, is_const=True, const_value=[value])],
                     [tensor(1, kind=kind)]),
            f"none that {kind} holds",
        )
        for kind, value in (("uint8", 300), ("uint8", -1), ("int32", 1.5), ("int32", 2**31),
                            ("int64", 2**53 + 1), ("float16", 1e6), ("bool", 2))
    },
    "no truth": (operator("Relu", [tensor(1, is_const=True, const_value=[True])], [tensor(1)]),
                 "no number"),
    "the same file": ({**ADD, "name": "x"}, "operator 0"),
    "no number": (operator("Relu", [tensor(2)], [tensor(2)], attr("a", "int", 1.5)),
                  "whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_description(tmp_path: Path, case: str) -> None:
    wrong, part = WRONG[case]
    done = compile_ops(tmp_path, {**ADD, "name": "x"}, wrong)
    assert done.returncode == 255 and "operator 1 (" in done.stderr and part in done.stderr, (
        done.stderr
    )
    assert not (tmp_path / "models").exists()


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    done = compile_ops(tmp_path, {**ADD, "name": "x"}, *(wrong for wrong, _ in WRONG.values()))
    for _, part in WRONG.values():
        assert part in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1", "[" * 50 + "]" * 50])
def test_no_list_of_operators(tmp_path: Path, text: str) -> None:
    (tmp_path / "ops.json").write_text(text)
    done = ascendrt("run", "--", "atc", "--singleop=ops.json", "--output=.",
                    "--soc_version=Ascend910B1", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 255 and "ops.json" in done.stderr
    assert not list(tmp_path.glob("*.om"))


def test_words_that_are_wrong(tmp_path: Path) -> None:
    done = compile_ops(tmp_path, ADD, chip="--soc_version=Ascend310Q")
    assert done.returncode == 255 and "Ascend310Q" in done.stderr
    done = compile_ops(tmp_path, ADD, chip="--model=net.onnx")
    assert done.returncode == 255 and "exclude" in done.stderr
    (tmp_path / "models").write_text("a file")
    done = compile_ops(tmp_path, ADD)
    assert done.returncode == 255 and "models/of" in done.stderr
