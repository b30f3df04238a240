"""Fixtures of the tests of serving."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

os.environ.setdefault("ASCENDRT_MACHINE", "private")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2])]

import pytest  # noqa: E402
from servingkit import WIDTH, affine  # noqa: E402


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of x * 3 + 1: batch8.om, one.om, gears.om, open.om; one_v2.om is x * 5 + 1."""
    folder = tmp_path_factory.mktemp("models")
    affine(folder, "batch8", 8, 3)
    affine(folder, "one", 1, 3)
    gears = (f"--input-shape=x:-1,{WIDTH}", "--dynamic-batch-size=1,2,4,8")
    affine(folder, "gears", "n", 3, gears)
    affine(folder, "open", "n", 3)
    affine(folder, "one_v2", 1, 5)
    return folder


@pytest.fixture
def seed() -> int:
    """A fresh seed, printed: a test that fails says how to have the same run again."""
    drawn = int(os.environ.get("SERVING_SEED", secrets.randbelow(1 << 32)))
    print(f"SERVING_SEED={drawn}")
    return drawn
