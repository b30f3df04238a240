"""Offline models that other tools made, seen through the ABI: sizes, descriptions, refusals.

Runs when ASCENDRT_OM_CORPUS names a folder of such files with a manifest.tsv. What lies inside the
graphs is compared in the C++ unit test of the same name.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ascendrt
from ascendrt.model import Description, TensorSpec, required_memory

FOLDER = os.environ.get("ASCENDRT_OM_CORPUS")
pytestmark = pytest.mark.skipif(not FOLDER, reason="ASCENDRT_OM_CORPUS is not set")

Row = dict[str, str]
NAMES = {"FLOAT": "ACL_FLOAT", "FLOAT16": "ACL_FLOAT16", "INT32": "ACL_INT32"}


def rows(*kinds: str) -> list[Row]:
    """The files of the manifest, of some kinds or all."""
    if not FOLDER:
        return []
    with (Path(FOLDER) / "manifest.tsv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in found if not kinds or row["kind"] in kinds]


def each(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows(*kinds), ids=lambda row: str(row["file"]))


def path_of(row: Row) -> Path:
    assert FOLDER is not None
    return Path(FOLDER) / row["file"]


def described(path: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    with Description() as description:
        description.of_file(path)
        return description.specs("Input"), description.specs("Output")


def parts(cell: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Split "name FLOAT[1, 3]/NCHW (...) size=16; ..." into name, type and shape."""
    for entry in cell.split("; "):
        found = re.match(r"(\S+) (\w+)\[([-0-9, ]*)\]/", entry)
        assert found, entry
        shape = tuple(int(size) for size in found[3].split(",") if size.strip())
        yield found[1], found[2], shape


@pytest.fixture(autouse=True)
def initialised() -> None:
    ascendrt.init()


@each("ascend", "ge-test")
def test_inputs_and_outputs_are_those_of_the_manifest(row: Row) -> None:
    inputs, outputs = described(path_of(row))
    assert [(spec.name, spec.dtype, spec.shape) for spec in inputs] == [
        (name, NAMES[dtype], shape) for name, dtype, shape in parts(row["inputs"])
    ]
    assert [(spec.dtype, spec.shape) for spec in outputs] == [
        (NAMES[dtype], shape) for _, dtype, shape in parts(row["outputs"])
    ]
    for spec in (*inputs, *outputs):
        fixed = 0 if spec.is_dynamic else math.prod(spec.shape) * 4
        assert spec.size_bytes == fixed


@each("kirin")
def test_files_of_the_phone_side_are_described(row: Row) -> None:
    inputs, outputs = described(path_of(row))
    assert [spec.name for spec in inputs] == [name for name, _, _ in parts(row["inputs"])]
    sources = [name.replace(":", "_") for name, _, _ in parts(row["outputs"])]
    assert [spec.name for spec in outputs] == [
        f"output_{index}_{source}" for index, source in enumerate(sources)
    ]


@each("ascend")
def test_sizes_are_told(row: Row) -> None:
    work, weights = required_memory(path_of(row))
    assert work > 0
    assert 0 < weights < int(row["bytes"])


@each("not-om")
def test_what_is_no_model_is_refused(row: Row) -> None:
    with pytest.raises(ascendrt.ModelError) as caught:
        described(path_of(row))
    assert caught.value.code == 145000
    assert str(path_of(row)) in str(caught.value)


PHONE_TASKS = ("get_brow", "softmax_hcs", "sqrt_ir")  # their launch lists are of another make


@each("kirin")
def test_files_of_the_phone_side_load_or_say_what_they_are(row: Row) -> None:
    with ascendrt.Device(0):
        if any(part in row["file"] for part in PHONE_TASKS):
            with pytest.raises(ascendrt.AclError, match="phone-side toolkit") as caught:
                ascendrt.Model(path_of(row))
            assert caught.value.code == 500002
        else:
            ascendrt.Model(path_of(row)).close()


@each("ge-test")
def test_files_of_several_parts_load(row: Row) -> None:
    assert required_memory(path_of(row))[0] == 0
    with ascendrt.Device(0), ascendrt.Model(path_of(row)) as model:
        assert [spec.name for spec in model.inputs] == [n for n, _, _ in parts(row["inputs"])]


@each("ascend")
def test_models_for_another_chip_are_refused(row: Row) -> None:
    if row["soc"].startswith("none"):
        pytest.skip("the file does not say for which chip it is")
    with ascendrt.Device(0), pytest.raises(ascendrt.AclError) as caught:
        ascendrt.Model(path_of(row))
    assert caught.value.code == 500002
    assert row["soc"] in str(caught.value)
