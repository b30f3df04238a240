"""Run by the onnxruntime-cann environment: make an InferenceSession on the CANN provider.

    open_cann_session.py MODEL.onnx

Prints one JSON object: the session's providers and the mapped libraries."""

import json
import sys
from pathlib import Path

import onnxruntime


def main() -> None:
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CANNExecutionProvider"])
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    report = {
        "available": onnxruntime.get_available_providers(),
        "providers": session.get_providers(),
        "mapped": sorted(name for name in mapped if ".so" in name),
    }
    print(json.dumps(report))


main()
