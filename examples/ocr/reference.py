"""Reads the pictures of the demo with onnxruntime and prints the lines as JSON."""

from __future__ import annotations

import json

import onnxruntime
from demo import FILES, characters, network_file
from pictures import PAGES, render
from reading import Array, Network, Networks, read


def network(name: str) -> Network:
    """Return one of the networks, run by onnxruntime."""
    session = onnxruntime.InferenceSession(
        str(network_file(name)), providers=["CPUExecutionProvider"]
    )

    def run(x: Array) -> Array:
        result: Array = session.run(None, {"x": x})[0]
        return result

    return run


if __name__ == "__main__":
    networks = Networks(**{name: network(name) for name in FILES}, characters=characters())
    print(json.dumps([read(render(page), networks) for page in PAGES]))
