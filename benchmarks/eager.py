"""Runs an ONNX model with torch in eager mode, one call per node, as a torch user's module would.

Owns: the translation of nodes to torch functions. Must never be imported without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional as f

Array = np.ndarray[Any, Any]


def _conv(a: dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    pads = a.get("pads", [0, 0, 0, 0])
    return f.conv2d(
        x, w, b, a.get("strides", 1), pads[:2], a.get("dilations", 1), a.get("group", 1)
    )


def _norm(a: dict[str, Any], x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    return f.batch_norm(x, mean, var, scale, bias, False, 0.0, a.get("epsilon", 1e-5))


def _gemm(a: dict[str, Any], x: Any, w: Any, b: Any = None) -> Any:
    return f.linear(x, w if a.get("transB") else w.T, b)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Conv": _conv,
    "BatchNormalization": _norm,
    "Gemm": _gemm,
    "Relu": lambda a, x: torch.relu_(x),
    "Clip": lambda a, x, low, high: f.hardtanh(x, float(low), float(high), inplace=True),
    "Add": lambda a, x, y: x + y,
    "MaxPool": lambda a, x: f.max_pool2d(x, a["kernel_shape"], a["strides"], a["pads"][:2]),
    "GlobalAveragePool": lambda a, x: f.adaptive_avg_pool2d(x, 1),
    "Flatten": lambda a, x: torch.flatten(x, a.get("axis", 1)),
}


class Eager:
    """A model ready to run; unknown operators fail at once, not at the first run."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.outputs = [value.name for value in graph.output]
        self.weights = {
            t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer
        }
        self.steps = []
        for node in graph.node:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            self.steps.append(
                (FUNCTIONS[node.op_type], attributes, list(node.input), node.output[0])
            )

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        with torch.inference_mode():
            values = dict(self.weights)
            values |= {name: torch.from_numpy(array) for name, array in feeds.items()}
            for function, attributes, inputs, output in self.steps:
                values[output] = function(attributes, *(values[name] for name in inputs))
            return [values[name].numpy() for name in self.outputs]
