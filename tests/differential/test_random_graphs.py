"""Random graphs of mixed operators against onnxruntime.

ASCENDRT_TEST_SEED chooses other graphs than the usual ones, ASCENDRT_TEST_GRAPHS how many. A
failure prints the smallest graph that shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from differential import HERE, Array, convert, outputs, put_inputs, reference
from hypothesis import HealthCheck, given, seed, settings
from random_graphs import graphs

SEED = int(os.environ.get("ASCENDRT_TEST_SEED", "1"))
GRAPHS = int(os.environ.get("ASCENDRT_TEST_GRAPHS", "120"))
BAR = 1e-4


class Runner:
    """A process that runs models, one after the other."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND")}
        environment |= {"ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
        self.process = subprocess.Popen(
            [sys.executable, HERE / "execute.py", "-"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, om: Path) -> list[Array]:
        """Run a model on its inputs."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{om}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{om}\n", "the executing process died"
        return outputs(om)

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    running = Runner()
    yield running
    running.close()


def _agree(got: Array, expected: Array) -> bool:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    if got.dtype != np.float32:
        return bool((got == expected).all())
    top = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)) or 1.0
    return bool(np.isclose(got, expected, rtol=BAR, atol=BAR * top, equal_nan=True).all())


@seed(SEED)
@settings(
    max_examples=GRAPHS,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
                           HealthCheck.data_too_large],
)  # fmt: skip
@given(made=graphs())
def test_random_graphs(
    runner: Runner, tmp_path: Path, made: tuple[onnx.ModelProto, dict[str, Array]]
) -> None:
    model, feeds = made
    expected = reference(model, feeds)
    om = tmp_path / "graph.om"
    for old in tmp_path.iterdir():
        old.unlink()
    convert(model, om)
    put_inputs(om, feeds)
    got = runner.run(om)
    shown = f"seed {SEED}\n{onnx.printer.to_text(model)}"
    assert len(got) == len(expected), shown
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert _agree(a, b), f"output {i}: {a}\nonnxruntime: {b}\n{shown}"
