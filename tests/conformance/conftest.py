"""Fixtures of the conformance tests. Every test starts and ends on a thread without context.

Must never leave devices, contexts, streams or memory behind for the next test.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("ASCENDRT_MACHINE", "private")
sys.path.append(str(Path(__file__).parents[2] / "csrc" / "abi"))

import conformance
import models
import rawabi
from modelrun import NO_MODEL, Run
from models import OmFiles
from rawabi import NULL, acl, ffi, ok

TIMEOUT_S = int(os.environ.get("ASCENDRT_CONFORMANCE_TIMEOUT", "60"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--rule-report", metavar="FILE", help="write outcome per test as JSON lines")
    group.addoption(
        "--zero-own", action="store_true",
        help="let the functions of a test's rule answer 0 while it runs: every test must fail",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "rule(id): the rule of csrc/abi/rules.toml that a test holds",
        "guess: the rule is our inference, to be checked on hardware",
        "emulator: needs control of the emulator, skipped on a real card",
        "wall_clock(why): compares with real time, skipped when ASCENDRT_CLOCK models the time",
    ):
        config.addinivalue_line("markers", line)
    report = config.getoption("--rule-report")
    if report and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_RuleReport(Path(report)))


class _RuleReport:
    """Writes one JSON line per finished phase at once, so that a crash loses nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = {"test": report.nodeid, "when": report.when, "outcome": report.outcome,
               "seconds": round(report.duration, 3)}  # fmt: skip
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            # By thread: a signal would wait for a call that hangs inside the library.
            item.add_marker(pytest.mark.timeout(TIMEOUT_S, method="thread"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    marker = item.get_closest_marker("rule")
    if item.config.getoption("--zero-own") and marker is not None:
        acl.zeroed = frozenset(_rules()[marker.args[0]].functions)
    try:
        return (yield)
    finally:
        acl.zeroed = frozenset()


@functools.cache
def _rules() -> dict[str, conformance.Rule]:
    return {rule.id: rule for rule in conformance.read_rules()}


@functools.cache
def _missing(rule: str) -> list[str]:
    """The functions that the loaded library set lacks for a rule."""
    states = {name: "full" if rawabi.has(name) else "absent" for name in rawabi.coverage()}
    return conformance.missing_functions(_rules()[rule], states)


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip what the backend cannot show; leave a thread without context behind."""
    for rule in getattr(request.node.get_closest_marker("rule"), "args", ()):
        if _missing(rule):
            pytest.skip(f"function absent: {', '.join(_missing(rule))}")
    if request.node.get_closest_marker("emulator") and not rawabi.emulated():
        pytest.skip("needs control of the emulator")
    real_time = request.node.get_closest_marker("wall_clock")
    if real_time and os.environ.get("ASCENDRT_CLOCK", "real") != "real":
        pytest.skip(f"the clock is modelled: {real_time.args[0]}")
    rawabi.clear_last_error()
    yield
    rawabi.end_all()


@pytest.fixture
def device() -> int:
    """Device 0, set on the calling thread."""
    ok(acl.aclrtSetDevice(0))
    return 0


@pytest.fixture
def stream(device: int) -> Any:
    """A stream of the primary context of device 0."""
    return rawabi.new_stream()


@pytest.fixture
def other_stream(device: int) -> Any:
    """A stream of another, explicit context; the primary context is current afterwards."""
    rawabi.new_context()
    stream = rawabi.new_stream()
    ok(acl.aclrtSetDevice(0))
    return stream


@pytest.fixture
def block(device: int) -> Any:
    """4096 bytes of device memory, zeroed."""
    pointer = rawabi.malloc(4096)
    rawabi.write(pointer, bytes(4096))
    return pointer


@pytest.fixture
def pinned(device: int) -> Any:
    """4096 bytes of pinned host memory, zeroed."""
    pointer = rawabi.malloc_host(4096)
    ffi.buffer(pointer, 4096)[:] = bytes(4096)
    return pointer


@pytest.fixture
def worker() -> Iterator[rawabi.Worker]:
    """A second thread with its own state of the runtime."""
    thread = rawabi.Worker()
    yield thread
    thread.stop()


@pytest.fixture(scope="session")
def om(tmp_path_factory: pytest.TempPathFactory) -> models.OmFiles:
    """Small models made by the product's converter, and damaged forms of them."""
    return models.OmFiles(tmp_path_factory.mktemp("om"))


@pytest.fixture(scope="session")
def _initialised() -> None:
    assert acl.aclInit(ffi.NULL) in (0, 100002)


@pytest.fixture
def initialised(_initialised: None) -> None:
    """aclInit was called in this process."""


@pytest.fixture
def model(device: int, om: OmFiles) -> Iterator[int]:
    """The id of the tiny network, loaded."""
    model_id = ffi.new("uint32_t *", NO_MODEL)
    ok(acl.aclmdlLoadFromFile(om.path(om.good), model_id))
    assert model_id[0] != NO_MODEL
    yield int(model_id[0])
    acl.aclmdlUnload(model_id[0])


@pytest.fixture
def desc(model: int) -> Iterator[Any]:
    """The description of the loaded network."""
    made = acl.aclmdlCreateDesc()
    assert made != NULL
    ok(acl.aclmdlGetDesc(made, model))
    yield made
    acl.aclmdlDestroyDesc(made)


@pytest.fixture
def run(device: int) -> Iterator[Run]:
    """Memory and datasets for one execution."""
    made = Run()
    yield made
    made.close()
