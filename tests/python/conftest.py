"""What several test files of the package share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance"))

import pytest
from command import DIGITS, ascendrt


@pytest.fixture(scope="session")
def digits_om(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo network, converted once per test process. Tests must not write to it."""
    path = tmp_path_factory.mktemp("digits") / "digits.om"
    done = ascendrt("om", "convert", DIGITS, "-o", path)
    assert done.returncode == 0, done.stderr
    return path
