"""Runs snippets against the raw ABI in a process of its own, with the clock modelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
PRELUDE = f"""
import json, sys, threading, time
sys.path.insert(0, {str(CONFORMANCE)!r})
import rawabi
from rawabi import NULL, acl, ffi, made, malloc, malloc_host, new_stream, ok
def elapsed_ms(start, end):
    out = ffi.new("float *")
    ok(acl.aclrtEventElapsedTime(out, start, end))
    return out[0]
def mark(stream):
    event = made("aclrtCreateEvent")
    ok(acl.aclrtRecordEvent(event, stream))
    return event
ok(acl.aclInit(NULL))
ok(acl.aclrtSetDevice(0))
"""


def run(body: str, **variables: str) -> Any:
    """Run a snippet that leaves its answer in `answer`."""
    environ = {"ASCENDRT_CLOCK": "virtual", "ASCENDRT_MACHINE": "private"} | variables
    text = f"{PRELUDE}{textwrap.dedent(body)}\nok(acl.aclFinalize())\nprint(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", text], env=os.environ | environ, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
