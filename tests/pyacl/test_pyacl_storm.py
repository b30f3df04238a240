"""Python's heap stays whole: threads that call at random, and arguments that change under a call.

Each in a process of its own whose heap is checked (PYTHONMALLOC=debug). Every pointer stays valid
for the whole storm: what a program breaks itself, with the address of a temporary, is not shown.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

STORM = Path(__file__).with_name("aclstorm.py")


def in_checked_heap(*words: object) -> str:
    environment = {**os.environ, "ASCENDRT_MACHINE": "private", "ASCENDRT_DEVICES": "2"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", *map(str, words)],
        env=environment | {"PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_a_storm_of_threads() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    out = in_checked_heap(STORM, seed, 3)
    calls = int(out.split()[0])
    assert calls > 500, f"seed {seed}: {out}"


@pytest.mark.parametrize("name", ["bool", "int", "float", "list_int"])
@pytest.mark.parametrize("raises", [False, True])
def test_a_list_that_is_emptied_under_the_call(name: str, raises: bool) -> None:
    out = in_checked_heap(
        "-c",
        f"""
import acl

class Member:
    def number(self):
        values.clear()
        return 1 // (0 if {raises} else 1)
    __index__ = __bool__ = number
    def __float__(self):
        return float(self.number())

values = [[Member()], [1]] if {name!r} == "list_int" else [Member(), Member(), Member()]
attr = acl.op.create_attr()
try:
    print(acl.op.set_attr_list_{name}(attr, "name", values))
except (IndexError, TypeError, ZeroDivisionError) as error:
    print("refused", type(error).__name__)
""",
    )
    assert out.startswith("refused"), out
