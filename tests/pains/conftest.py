"""Fixtures of the tests of known pains; see painprograms.py."""

from __future__ import annotations

import pytest
from painprograms import digits, program, rows_om

__all__ = ["digits", "program", "rows_om"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pain(number): the row of rows.txt that the test shows")
