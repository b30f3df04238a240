"""The operators of a small compiled graph in numpy, on the layouts as they lie in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from om_decode import Om, Op, Tensor

Array = NDArray[Any]
BLOCK = 16


def to_blocks(x: Array) -> Array:
    """NCHW to NC1HWC0."""
    n, c, h, w = x.shape
    padded = np.zeros((n, -(-c // BLOCK) * BLOCK, h, w), x.dtype)
    padded[:, :c] = x
    return padded.reshape(n, -1, BLOCK, h, w).transpose(0, 1, 3, 4, 2)


def from_blocks(x: Array, channels: int) -> Array:
    n, c1, h, w, c0 = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, :channels]


def filter_nchw(x: Array, desc: Tensor) -> Array:
    """FRACTAL_Z, [C1 * H * W, N1, 16, 16], with an origin of HWCN."""
    assert desc.layout == "FRACTAL_Z" and desc.origin_layout == "HWCN"
    h, w, c, n = desc.origin
    blocks = x.reshape(-1, h, w, x.shape[1], BLOCK, BLOCK)
    full = blocks.transpose(3, 4, 0, 5, 1, 2).reshape(x.shape[1] * BLOCK, -1, h, w)
    assert not full[n:].any() and not full[:, c:].any()  # filled up with zeros
    return full[:n, :c]


def convolve(op: Op, x: Array, kernel: Array, filter_desc: Tensor) -> Array:
    """float16 in and out, sums in float32, as the matrix unit does it."""
    assert op.attrs["data_format"] == b"NCHW" and op.attrs["groups"] == 1
    assert op.attrs["strides"] == op.attrs["dilations"] == [1, 1, 1, 1]
    top, bottom, left, right = op.attrs["pads"]
    w = filter_nchw(kernel, filter_desc).astype(np.float32)
    planes = from_blocks(x, w.shape[1]).astype(np.float32)
    planes = np.pad(planes, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(planes, w.shape[2:], axis=(2, 3))
    y = np.einsum("nchwkl,ockl->nohw", windows, w, optimize=True)
    return to_blocks(y.astype(np.float16))


def evaluate(om: Om, inputs: dict[str, Array]) -> Array:
    """Run the whole graph; returns the one output."""
    values: dict[str, Array] = {}
    for op in om.ops:
        x = [values[name] for name, index in op.inputs if index >= 0 and name in values]
        if op.type == "Data":
            values[op.name] = inputs[op.name]
        elif op.type == "Const":
            values[op.name] = om.constant(op)
        elif op.type == "Cast":
            values[op.name] = x[0].astype({0: np.float32, 1: np.float16}[op.attrs["dst_type"]])
        elif op.type == "TransData" and op.attrs["dst_format"] == b"NC1HWC0":
            values[op.name] = to_blocks(x[0])
        elif op.type == "TransData":
            values[op.name] = from_blocks(x[0], op.output_descs[0].dims[1])
        elif op.type == "Conv2D":
            values[op.name] = convolve(op, x[0], x[1], op.input_descs[1])
        elif op.type == "NetOutput":
            return x[0]
        else:
            raise AssertionError(op.type)
        if op.type != "Const":
            assert list(values[op.name].shape) == op.output_descs[0].dims, op.name
    raise AssertionError("no NetOutput")
