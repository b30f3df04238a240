"""Tests about the conformance tests: they may read the repository, unlike those."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "csrc" / "abi"))
