"""Programs and models of the tests of modelled time, made once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2])]

import plans  # noqa: E402

from benchmarks import modelled  # noqa: E402


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modelled.build("player", tmp_path_factory.mktemp("player"))


@pytest.fixture(scope="session")
def overlap(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program of the overlap benchmark, and its model."""
    folder = tmp_path_factory.mktemp("overlap")
    return modelled.build("overlap", folder), modelled.kernel(folder, "kernel")


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("kernels")
    return [modelled.kernel(folder, name) for name in plans.kernel_names()]
