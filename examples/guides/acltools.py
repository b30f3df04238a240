"""What the guides share: codes become exceptions, constants have names, memory has an owner.

Plain pyACL and numpy, so that each guide runs on a card with the vendor's module and anywhere else
with the one of ascendrt, unchanged.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import acl
import numpy as np

# The module exports no constants, neither the vendor's nor ours; ascendrt.constants has them all.
HUGE_FIRST = 0  # ACL_MEM_MALLOC_HUGE_FIRST
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # ACL_MEMCPY_*
HBM = 1  # ACL_HBM_MEM, of acl.rt.get_mem_info


class AclFailure(RuntimeError):
    """A call answered a code other than 0. pyACL itself raises for wrong arguments only."""


def check(code: int, call: str) -> None:
    """Raise unless the code is 0. Not `assert`: that is gone under `python -O`."""
    if code != 0:
        raise AclFailure(f"{call} answers {code}: {acl.get_recent_err_msg()}")


def valued(answer: tuple, call: str):
    """Return the value of an answer (value, code)."""
    value, code = answer
    check(code, call)
    return value


def device_memory(size: int) -> int:
    """Allocate device memory in the current context."""
    return valued(acl.rt.malloc(size, HUGE_FIRST), "acl.rt.malloc")


def host_memory(size: int) -> int:
    """Allocate pinned host memory."""
    return valued(acl.rt.malloc_host(size), "acl.rt.malloc_host")


def view(pointer: int, shape: Sequence[int], dtype: type = np.float32) -> np.ndarray:
    """Look at host memory as an array, without a copy; good until the memory is freed."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(pointer), kind).reshape(shape)


def free_bytes() -> int:
    """Return the free memory of the current device."""
    free, _total, code = acl.rt.get_mem_info(HBM)
    check(code, "acl.rt.get_mem_info")
    return free


def picture(index: int) -> np.ndarray:
    """Return one of the held-out pictures of digits, as the model of this folder takes it."""
    return _held_out("pixels")[index].astype(np.float32).reshape(1, 1, 8, 8) / 16


def label(index: int) -> int:
    """Return the digit that a picture shows."""
    return int(_held_out("labels")[index])


def _held_out(name: str) -> np.ndarray:
    with np.load(Path(__file__).parents[1] / "digits" / "heldout.npz") as archive:
        return archive[name]


def model_path() -> str:
    """Return the model named on the command line."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: python {sys.argv[0]} digits.om")
    return sys.argv[1]
