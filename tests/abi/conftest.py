"""Fixtures of the abi tests: the tables, the tree, and the built libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "csrc" / "abi"))

import model as abi  # noqa: E402


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tables() -> abi.Model:
    return abi.load()


@pytest.fixture(scope="session")
def lib_dir() -> Path:
    """Where the core and the facades lie: of the installed package, or ASCENDRT_TEST_LIB_DIR."""
    if place := os.environ.get("ASCENDRT_TEST_LIB_DIR"):
        return Path(place)
    from ascendrt._backend import package_lib_dir

    return package_lib_dir()
