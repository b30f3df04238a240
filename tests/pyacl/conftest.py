"""What the tests of the module `acl` share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("ASCENDRT_MACHINE", "private")
ROOT = Path(__file__).resolve().parents[2]
for folder in ("csrc/abi", "tests/conformance"):
    sys.path.append(str(ROOT / folder))
