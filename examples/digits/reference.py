"""The second opinion of the demo: onnxruntime on the CPU, in a process of its own.

    python examples/digits/reference.py MODEL.onnx IMAGES.npy ANSWERS.npy

IMAGES is [n, ...], one entry per run; ANSWERS becomes the first output of each run, stacked.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(f"usage: python {sys.argv[0]} MODEL.onnx IMAGES.npy ANSWERS.npy")
    model, images, answers = sys.argv[1:]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    results = [session.run(None, {name: image})[0][0] for image in np.load(images)]
    np.save(answers, np.stack(results))


if __name__ == "__main__":
    main()
