"""Models that keep their weights in other files (section 9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modelrun import NO_MODEL, Run
from models import SIZE_BYTES, OmFiles, convert
from rawabi import NULL, acl, ffi, malloc, ok, write

rule = pytest.mark.rule
guess = pytest.mark.guess
pytestmark = pytest.mark.usefixtures("initialised")

FROM_FILE, FROM_MEMORY = 1, 3


@pytest.fixture
def path(om: OmFiles, tmp_path: Path) -> Path:
    """The tiny network, its one weight in a file of its own."""
    assert om.good
    convert(om.folder / "tiny.onnx", tmp_path / "tiny.om", "--external_weight=1")
    return tmp_path / "tiny.om"


@pytest.fixture
def config() -> Iterator[Any]:
    made = acl.aclmdlCreateConfigHandle()
    yield made
    acl.aclmdlDestroyConfigHandle(made)


def weight_of(path: Path) -> Path:
    (only,) = (path.parent / "weight").iterdir()
    return only


def set_option(config: Any, attr: int, kind: str, value: Any) -> None:
    box = ffi.new(kind, value)
    ok(acl.aclmdlSetConfigOpt(config, attr, box, ffi.sizeof(ffi.typeof(kind).item)))


def load(path: Path) -> tuple[int, int]:
    made = ffi.new("uint32_t *", NO_MODEL)
    return int(acl.aclmdlLoadFromFile(os.fsencode(path), made)), int(made[0])


def load_from_memory(config: Any, data: bytes) -> tuple[int, int]:
    content = ffi.from_buffer(data)
    set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, "size_t *", FROM_MEMORY)
    set_option(config, acl.ACL_MDL_MEM_ADDR_PTR, "void **", content)
    set_option(config, acl.ACL_MDL_MEM_SIZET, "size_t *", len(data))
    made = ffi.new("uint32_t *", NO_MODEL)
    return int(acl.aclmdlLoadWithConfig(config, made)), int(made[0])


def runs(model: int, run: Run) -> bool:
    for each in run.memory[2:]:
        write(each, bytes(SIZE_BYTES))
    ok(run.execute(model))
    ok(acl.aclmdlUnload(model))
    return run.right()


@rule("S9.102")
def test_weights_beside_the_model(device: int, path: Path, config: Any, run: Run) -> None:
    assert weight_of(path).name.startswith("weight_")
    assert weight_of(path).stat().st_size == SIZE_BYTES
    code, model = load(path)
    assert code == 0 and runs(model, run)
    folder = ffi.new("char[]", os.fsencode(path.parent / "weight"))
    set_option(config, acl.ACL_MDL_WEIGHT_PATH_PTR, "void **", folder)
    code, model = load_from_memory(config, path.read_bytes())
    assert code == 0 and runs(model, run)


@rule("S9.100")
@guess
def test_weights_that_are_missing_or_short(device: int, path: Path, config: Any) -> None:
    weight = weight_of(path)
    assert load_from_memory(config, path.read_bytes()) == (500002, NO_MODEL)
    weight.write_bytes(weight.read_bytes()[:-1])
    assert load(path) == (500002, NO_MODEL)
    weight.unlink()
    assert load(path) == (500002, NO_MODEL)


@rule("S9.101")
def test_a_folder_of_weights_for_a_model_in_a_file(device: int, path: Path, config: Any) -> None:
    name = ffi.new("char[]", os.fsencode(path))
    set_option(config, acl.ACL_MDL_LOAD_TYPE_SIZET, "size_t *", FROM_FILE)
    set_option(config, acl.ACL_MDL_PATH_PTR, "void **", name)
    set_option(config, acl.ACL_MDL_WEIGHT_PATH_PTR, "void **", name)
    made = ffi.new("uint32_t *", NO_MODEL)
    assert (acl.aclmdlLoadWithConfig(config, made), made[0]) == (100000, NO_MODEL)


@rule("S9.97")
def test_external_weight_arguments(device: int, config: Any) -> None:
    function, memory = acl.aclmdlSetExternalWeightAddress, malloc(64)
    assert function(NULL, b"weight", memory, 64) == 100000
    assert function(config, NULL, memory, 64) == 100000
    assert function(config, b"weight", NULL, 64) == 100000
    for size in (0, 31, 33):
        assert function(config, b"weight", memory, size) == 100000
    ok(function(config, b"weight", memory, 64))


@rule("S9.98")
def test_weights_in_memory_of_the_caller(device: int, path: Path, config: Any, run: Run) -> None:
    weight = weight_of(path)
    memory = malloc(SIZE_BYTES)
    write(memory, weight.read_bytes())
    name = weight.name.encode()
    weight.unlink()
    ok(acl.aclmdlSetExternalWeightAddress(config, name, memory, SIZE_BYTES))
    code, model = load_from_memory(config, path.read_bytes())
    assert code == 0 and runs(model, run)


@rule("S9.99")
def test_too_little_memory_for_a_weight(device: int, path: Path, config: Any) -> None:
    memory, name = malloc(SIZE_BYTES), weight_of(path).name.encode()
    ok(acl.aclmdlSetExternalWeightAddress(config, name, memory, SIZE_BYTES - 32))
    assert load_from_memory(config, path.read_bytes()) == (145000, NO_MODEL)
