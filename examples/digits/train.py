"""Train the demo network on scikit-learn's digits and write it as ONNX.

Owns `digits.onnx` (the network for one image), `digits_batch.onnx` (the same for any number of
them) and `heldout.npz` (the 360 images it was never shown); all are committed, so this script is
needed only to make them again. It never imports ascendrt.

    python examples/digits/train.py            # needs numpy, scikit-learn, onnx; about 10 s

The network: conv 3x3 (1 to 16), relu, max pool, conv 3x3 (16 to 32), relu, matrix product, softmax.
Plain numpy and Adam: everything that shapes the result is on this page.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Params = dict[str, Array]

HERE = Path(__file__).resolve().parent
SEED = 20240917
HELD_OUT = 360
CLASSES = 10
BATCH = 48
EPOCHS = 40
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-3


@dataclass(frozen=True)
class Split:
    """Images as float32 [n, 1, 8, 8] in 0..1 and their digits."""

    train_x: Array
    train_y: Labels
    test_x: Array
    test_y: Labels


def load_split() -> Split:
    """The fixed split: one seeded permutation, its last 360 images are held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    x = (digits.images[order].astype(np.float32) / np.float32(16.0))[:, None]
    y = digits.target[order].astype(np.int64)
    return Split(x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:])


def init_params(rng: np.random.Generator) -> Params:
    """He initialisation; a filter is [out, in, 3, 3], the matrix is [in, out]."""

    def he(shape: tuple[int, ...], fan_in: int) -> Array:
        scale = np.float32(np.sqrt(2.0 / fan_in))
        return rng.standard_normal(shape, np.float32) * scale

    return {
        "conv1.weight": he((16, 1, 3, 3), 9),
        "conv1.bias": np.zeros(16, np.float32),
        "conv2.weight": he((32, 16, 3, 3), 144),
        "conv2.bias": np.zeros(32, np.float32),
        "fc.weight": he((512, CLASSES), 512),
        "fc.bias": np.zeros(CLASSES, np.float32),
    }


def patches_of(x: Array) -> Array:
    """[n, c, h, w] to [n, h, w, c*9]: every 3x3 neighbourhood, zero padded."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n, h, w, c * 9)


def images_of(patches: Array, channels: int) -> Array:
    """The adjoint of patches_of: add every patch back to where it was read."""
    n, h, w, _ = patches.shape
    cells = patches.reshape(n, h, w, channels, 3, 3).transpose(0, 3, 4, 5, 1, 2)
    padded = np.zeros((n, channels, h + 2, w + 2), np.float32)
    for dy in range(3):
        for dx in range(3):
            padded[:, :, dy : dy + h, dx : dx + w] += cells[:, :, dy, dx]
    return padded[:, :, 1:-1, 1:-1]


def convolve(patches: Array, weight: Array, bias: Array) -> Array:
    """Patches times filters, back to [n, out, h, w]."""
    return (patches @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2)


def loss_and_gradients(params: Params, x: Array, y: Labels) -> tuple[float, Params]:
    """Mean cross entropy of a batch and its gradient for every parameter."""
    n = len(x)
    patches1 = patches_of(x)
    relu1 = np.maximum(convolve(patches1, params["conv1.weight"], params["conv1.bias"]), 0)
    blocks = relu1.reshape(n, 16, 4, 2, 4, 2)
    pooled = blocks.max(axis=(3, 5))
    patches2 = patches_of(pooled)
    relu2 = np.maximum(convolve(patches2, params["conv2.weight"], params["conv2.bias"]), 0)
    flat = relu2.reshape(n, -1)
    probabilities = softmax(flat @ params["fc.weight"] + params["fc.bias"])
    loss = -float(np.log(probabilities[np.arange(n), y] + 1e-12).mean())

    d_logits = probabilities.copy()
    d_logits[np.arange(n), y] -= 1
    d_logits /= n
    d_relu2 = np.where(relu2 > 0, (d_logits @ params["fc.weight"].T).reshape(relu2.shape), 0)
    d_out2 = d_relu2.transpose(0, 2, 3, 1)
    d_patches2 = d_out2 @ params["conv2.weight"].reshape(32, -1)
    d_pooled = images_of(d_patches2, 16)
    winners = blocks == pooled[:, :, :, None, :, None]
    d_blocks = np.where(winners, d_pooled[:, :, :, None, :, None], 0)
    d_relu1 = np.where(relu1 > 0, d_blocks.reshape(relu1.shape), 0)
    d_out1 = d_relu1.transpose(0, 2, 3, 1)
    return loss, {
        "conv1.weight": filter_gradient(d_out1, patches1, params["conv1.weight"].shape),
        "conv1.bias": d_out1.sum(axis=(0, 1, 2)),
        "conv2.weight": filter_gradient(d_out2, patches2, params["conv2.weight"].shape),
        "conv2.bias": d_out2.sum(axis=(0, 1, 2)),
        "fc.weight": flat.T @ d_logits,
        "fc.bias": d_logits.sum(axis=0),
    }


def filter_gradient(d_out: Array, patches: Array, shape: tuple[int, ...]) -> Array:
    d_rows = d_out.reshape(-1, d_out.shape[-1])
    return (d_rows.T @ patches.reshape(len(d_rows), -1)).reshape(shape)


def softmax(logits: Array) -> Array:
    powers: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def predict(params: Params, x: Array) -> Array:
    """Class probabilities [n, 10]; what the exported graph computes."""
    relu1 = np.maximum(convolve(patches_of(x), params["conv1.weight"], params["conv1.bias"]), 0)
    pooled = relu1.reshape(len(x), 16, 4, 2, 4, 2).max(axis=(3, 5))
    relu2 = np.maximum(
        convolve(patches_of(pooled), params["conv2.weight"], params["conv2.bias"]), 0
    )
    return softmax(relu2.reshape(len(x), -1) @ params["fc.weight"] + params["fc.bias"])


def accuracy(params: Params, x: Array, y: Labels) -> float:
    return float((predict(params, x).argmax(axis=1) == y).mean())


class Adam:
    """Adam with decoupled weight decay on the weights; the rate falls to 0 along a cosine."""

    def __init__(self, params: Params, steps: int) -> None:
        self.mean = {name: np.zeros_like(value) for name, value in params.items()}
        self.square = {name: np.zeros_like(value) for name, value in params.items()}
        self.steps = steps
        self.step = 0

    def update(self, params: Params, gradients: Params) -> None:
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * self.step / self.steps))
        self.step += 1
        for name, gradient in gradients.items():
            self.mean[name] += 0.1 * (gradient - self.mean[name])
            self.square[name] += 0.001 * (gradient**2 - self.square[name])
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            decay = WEIGHT_DECAY * params[name] if name.endswith("weight") else 0
            params[name] -= (rate * (mean / (np.sqrt(square) + 1e-8) + decay)).astype(np.float32)


def train(split: Split, epochs: int = EPOCHS) -> Params:
    """Same seed, same numpy: same weights."""
    rng = np.random.default_rng(SEED)
    params = init_params(rng)
    batches = -(-len(split.train_x) // BATCH)
    adam = Adam(params, epochs * batches)
    for epoch in range(epochs):
        order = rng.permutation(len(split.train_x))
        losses = []
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            loss, gradients = loss_and_gradients(
                params, split.train_x[chosen], split.train_y[chosen]
            )
            adam.update(params, gradients)
            losses.append(loss)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  loss {np.mean(losses):.4f}")
    return params


def export_onnx(params: Params, path: Path, batch: int | str = 1) -> None:
    """Opset 17, input image [batch, 1, 8, 8], output probabilities [batch, 10]."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    conv: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
    nodes = [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **conv),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **conv),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("Flatten", ["r2"], ["flat"], "flatten", axis=1),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc"),
        node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in params.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, producer_name="ascendrt-examples")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def save_held_out(split: Split, path: Path) -> None:
    """Pixels as the 0..16 integers they are, so the file stays small; divide by 16 to use them."""
    pixels = np.rint(split.test_x[:, 0] * 16).astype(np.uint8)
    np.savez_compressed(path, pixels=pixels, labels=split.test_y.astype(np.uint8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    split = load_split()
    params = train(split, options.epochs)
    options.out.mkdir(parents=True, exist_ok=True)
    export_onnx(params, options.out / "digits.onnx")
    export_onnx(params, options.out / "digits_batch.onnx", "batch")
    save_held_out(split, options.out / "heldout.npz")
    train_accuracy = accuracy(params, split.train_x, split.train_y)
    print(f"accuracy: train {train_accuracy:.2%}, held out", end=" ")
    print(f"{accuracy(params, split.test_x, split.test_y):.2%} of {len(split.test_y)}")


if __name__ == "__main__":
    main()
