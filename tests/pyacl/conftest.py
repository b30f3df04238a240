"""What the tests of the module `acl` share. Each leaves the process without devices in use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("ASCENDRT_MACHINE", "private")
ROOT = Path(__file__).resolve().parents[2]
for folder in ("csrc/abi", "tests/conformance"):
    sys.path.append(str(ROOT / folder))

import pytest  # noqa: E402
from aclcalls import BY_NAME  # noqa: E402
from aclchild import Child, ok  # noqa: E402
from acleffects import Recorder  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(*calls): the calls of acl whose effect is observed")


def _lacking(names: tuple[str, ...]) -> list[str]:
    """The functions behind these calls that the loaded library set has not, or only as a stub."""
    import rawabi

    return sorted({BY_NAME[n].c for n in names if BY_NAME[n].c and not rawabi.has(BY_NAME[n].c)})


@pytest.fixture
def acl(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """The module under a recorder; see acleffects.py."""
    import acl as module

    mark = request.node.get_closest_marker("shows")
    names: tuple[str, ...] = mark.args if mark else ()
    if lacking := _lacking(names):
        pytest.skip(f"function absent: {', '.join(lacking)}")
    recorder = Recorder(module)
    yield recorder
    for device in range(module.rt.get_device_count()[0]):
        module.rt.reset_device_force(device)
    module.rt.get_last_error(0)
    missing = set(names) - recorder.called
    assert not missing, f"declared but never called: {sorted(missing)}"


@pytest.fixture
def device(acl: Recorder) -> int:
    """Device 0, set on the calling thread."""
    acl.init()
    assert acl.rt.set_device(0) == 0
    return 0


@pytest.fixture
def stream(acl: Recorder, device: int) -> int:
    made: int = ok(acl.rt.create_stream())
    return made


@pytest.fixture
def block(acl: Recorder, device: int) -> Iterator[int]:
    """4096 bytes of device memory, zeroed."""
    made: int = ok(acl.rt.malloc(4096, 0))
    assert acl.rt.memset(made, 4096, 0, 4096) == 0
    yield made
    acl.rt.free(made)


@pytest.fixture
def child(acl: Recorder) -> Child:
    return Child(acl)
