"""The unmodified onnxruntime-cann wheel: every name resolves, and a session on CANN is made."""

from __future__ import annotations

import json
from pathlib import Path

import environments
import onnx
import pytest
from conftest import Emulated, needed_libraries, undefined_symbols
from onnx import TensorProto, helper

# The limit covers making the environment, which happens inside the first test that needs it.
pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * environments.INSTALL_TIMEOUT_S)]

PROVIDER = "libonnxruntime_providers_cann.so"
LINKED_NAMES = 67  # 59 C functions and 8 of the C++ namespace ge


@pytest.fixture(scope="module")
def provider(onnxruntime_cann_python: Path) -> Path:
    (found,) = onnxruntime_cann_python.parent.parent.glob(
        f"lib/python*/site-packages/*/*/{PROVIDER}"
    )
    return found


@pytest.fixture
def relu_model(tmp_path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = tmp_path / "relu.onnx"
    onnx.save(model, path)
    return path


def test_every_linked_name_resolves(
    emulated: Emulated, onnxruntime_cann_python: Path, provider: Path
) -> None:
    symbols = undefined_symbols(provider)
    assert len(symbols) == LINKED_NAMES, "the wheel or the reading of its symbols changed"
    assert sum(name.startswith("_Z") for name in symbols) == 8
    vendor = [
        name
        for name in needed_libraries(provider)
        if name.startswith(("libascendcl", "libacl_", "libfmk_"))
    ]
    assert len(vendor) == 3, vendor
    request = json.dumps({"libraries": vendor, "symbols": symbols})
    assert emulated(onnxruntime_cann_python, "resolve_symbols.py", stdin=request) == []


def test_session_on_the_cann_provider(
    emulated: Emulated, onnxruntime_cann_python: Path, provider: Path, relu_model: Path
) -> None:
    report = emulated(
        onnxruntime_cann_python, "open_cann_session.py", str(relu_model), LD_BIND_NOW="1"
    )
    assert "CANNExecutionProvider" in report["available"]
    # A provider that fails to start is left out of this list and the CPU takes its place.
    assert report["providers"][0] == "CANNExecutionProvider"
    mapped = {Path(name).name: Path(name) for name in report["mapped"]}
    assert mapped[PROVIDER].samefile(provider)
    for name in ("libascendcl.so", "libacl_op_compiler.so", "libfmk_onnx_parser.so"):
        assert mapped[name].parent == mapped["libascendrt_emu.so"].parent
