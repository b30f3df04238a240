"""Look every symbol up in the given libraries, as the loader would for a client that NEEDs them.

Reads {"libraries": [...], "symbols": [...]} from standard input, prints the names nobody defines as
a JSON list."""

import ctypes
import json
import os
import sys


def main() -> None:
    request = json.load(sys.stdin)
    handles = [ctypes.CDLL(name, mode=os.RTLD_NOW) for name in request["libraries"]]
    missing = [
        symbol
        for symbol in request["symbols"]
        if not any(hasattr(handle, symbol) for handle in handles)
    ]
    print(json.dumps(missing))


main()
