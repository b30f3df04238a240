"""Ask a model which digit a picture shows:  python examples/hello.py digits.om"""

import sys

import numpy as np

import ascendrt

if len(sys.argv) != 2:
    sys.exit(f"usage: python {sys.argv[0]} digits.om")
picture = np.load("examples/digits/heldout.npz")["pixels"][0].astype(np.float32) / 16
with ascendrt.Device(0), ascendrt.Model(sys.argv[1]) as model:
    (probabilities,) = model(picture.reshape(1, 1, 8, 8))
    print(f"{ascendrt.soc_name()} says {probabilities.argmax()} ({probabilities.max():.1%})")
