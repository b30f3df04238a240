"""`python -m benchmarks NAME [--json]` runs one measurement; `claims` runs and judges them all."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
NOT_MEASUREMENTS = {"__init__", "__main__", "claims", "eager", "networks", "objects"}


def names() -> list[str]:
    """Every measurement: the modules of this package that have a `measure`."""
    return sorted({path.stem for path in HERE.glob("*.py")} - NOT_MEASUREMENTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*names(), "claims"])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.name == "claims":
        return int(import_module("benchmarks.claims").judge_all())
    figures: dict[str, object] = import_module(f"benchmarks.{options.name}").measure()
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {value:.4g}" if isinstance(value, float) else f"{name:28} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
