"""The variables that ascendrt reads, by name; README says what each means (a test compares).

Owns as well: what the shape of an emulated machine may be, for who would say so before it starts.
The core judges for itself, by the same rules; a test compares.
"""

from __future__ import annotations

import re
from typing import Final

from ascendrt._gen.chips import CHIPS
from ascendrt.cli.parsing import suggestion

KNOWN: Final = (
    "ASCENDRT_BACKEND",
    "ASCENDRT_LIBRARY_DIR",
    "ASCENDRT_DEVICES",
    "ASCENDRT_SOC",
    "ASCENDRT_HBM_SIZE",
    "ASCENDRT_DEVICE_MEMORY",
    "ASCENDRT_MACHINE",
    "ASCENDRT_HOST_MEMORY",
    "ASCENDRT_FILL",
    "ASCENDRT_MEMORY_GROWTH",
    "ASCENDRT_MEMORY_CACHE",
    "ASCENDRT_MEMORY_THREAD_CACHE",
    "ASCENDRT_MEMORY_FRAGMENTATION",
    "ASCENDRT_CONTEXT_RECLAIM",
    "ASCENDRT_MEMORY_TRACE",
    "ASCENDRT_WORKERS",
    "ASCENDRT_COMPUTE_THREADS",
    "ASCENDRT_CLOCK",
    "ASCENDRT_TIMING",
    "ASCENDRT_SCHED_SEED",
    "ASCENDRT_HOST_GRACE_MS",
    "ASCENDRT_TRACE",
    "ASCENDRT_OM_SOURCE",
    "ASCENDRT_OM_STRICT",
    "ASCENDRT_OM_RANDOM",
    "ASCENDRT_TRACEBACK",
)

_MOST_DEVICES = 64
_LEAST_BYTES, _MOST_BYTES = 2 << 20, 1 << 40
_SIZE = re.compile(r"([0-9]+)(?:([KMGT])(?:i?B|b)?|B)?", re.IGNORECASE)


def faults(devices: object, soc: object, hbm: object) -> tuple[str, str, str]:
    """Return what is wrong with each; nothing where it is right or None, which is the default."""
    return (
        "" if devices is None or _is_count(devices) else f"a number from 0 to {_MOST_DEVICES}",
        "" if soc is None or soc in CHIPS else f"no chip is called so{_meant(str(soc))}",
        "" if hbm is None or _is_size(str(hbm)) else "a size from 2M to 1T, such as 32G",
    )


def _is_count(devices: object) -> bool:
    return type(devices) is int and 0 <= devices <= _MOST_DEVICES


def _meant(soc: str) -> str:
    return suggestion(soc, CHIPS) or (
        "; names are like Ascend910B1, Ascend910_9391, Ascend310P3 or Ascend310B4"
    )


def _is_size(text: str) -> bool:
    found = _SIZE.fullmatch(text)
    if found is None:
        return False
    shift = 10 * (1 + "KMGT".index(found[2].upper())) if found[2] else 0
    return _LEAST_BYTES <= int(found[1]) << shift <= _MOST_BYTES
