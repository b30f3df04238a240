"""Run as a script in a child process: loads one foreign library and asks it for devices.

Owns: nothing in this process. Must use the standard library alone (it runs with -I -S) and must
never be imported by the package. Prints one line `ascendrt-probe {json}`; whatever else the loaded
library prints is ignored by the reader.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys


def examine(path: str, marker: str) -> dict[str, object]:
    """Load `path`; answer "reason" on failure, "facade", or "code" and "count"."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        return {"reason": str(error)}
    if hasattr(library, marker):
        return {"facade": True}
    try:
        get_count = library.aclrtGetDeviceCount
    except AttributeError:
        return {"reason": f"{path} has no aclrtGetDeviceCount"}
    get_count.argtypes = [ctypes.POINTER(ctypes.c_uint32)]
    get_count.restype = ctypes.c_int
    count = ctypes.c_uint32(0)
    return {"code": get_count(ctypes.byref(count)), "count": count.value}


if __name__ == "__main__":
    # A new line first: the library may have printed half a line.
    line = "\nascendrt-probe " + json.dumps(examine(sys.argv[1], sys.argv[2])) + "\n"
    sys.stdout.flush()
    os.write(1, line.encode())
    # No clean-up: an exit handler of a half-working library must not turn the answer into a crash.
    os._exit(0)
