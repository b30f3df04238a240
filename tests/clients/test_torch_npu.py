"""The unmodified torch-npu wheel finds every library and name it links.

In this project's first stage a load check: libtorch_npu.so under RTLD_NOW, no operator is run.
"""

from __future__ import annotations

import json
from pathlib import Path

import environments
import pytest
from conftest import Emulated, needed_libraries, undefined_symbols

# The limit covers making the environment, which happens inside the first test that needs it.
pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * environments.INSTALL_TIMEOUT_S)]

# Its own libraries link CANN too; what the dynamic section names is all there is to satisfy.
LINKED_NAMES = 83


def libraries(files: Path) -> list[Path]:
    return [files / "torch_npu" / "lib" / name for name in ("libtorch_npu.so", "libtensorpipe.so")]


def test_every_linked_name_resolves(
    emulated: Emulated, torch_npu_python: Path, torch_npu_files: Path
) -> None:
    main_library = libraries(torch_npu_files)[0]
    symbols = undefined_symbols(main_library)
    assert len(symbols) == LINKED_NAMES, "the wheel or the reading of its symbols changed"
    vendor = [
        name
        for name in needed_libraries(main_library)
        if name.startswith(("libascendcl", "libacl_", "libhccl", "libge_", "libgraph"))
    ]
    assert len(vendor) == 5, vendor
    request = json.dumps({"libraries": vendor, "symbols": symbols})
    assert emulated(torch_npu_python, "resolve_symbols.py", stdin=request) == []


def test_libraries_beside_it_resolve(
    emulated: Emulated, torch_npu_python: Path, torch_npu_files: Path
) -> None:
    tensorpipe = libraries(torch_npu_files)[1]
    vendor = [name for name in needed_libraries(tensorpipe) if name.startswith("libacl_tdt")]
    assert vendor == ["libacl_tdt_channel.so"]
    request = json.dumps(
        {"libraries": [*vendor, "libascendcl.so"], "symbols": undefined_symbols(tensorpipe)}
    )
    assert emulated(torch_npu_python, "resolve_symbols.py", stdin=request) == []


def test_resolver_reports_what_is_missing(emulated: Emulated, torch_npu_python: Path) -> None:
    request = json.dumps(
        {"libraries": ["libascendcl.so"], "symbols": ["aclInit", "aclNobodyHasThis"]}
    )
    assert emulated(torch_npu_python, "resolve_symbols.py", stdin=request) == ["aclNobodyHasThis"]


def test_libtorch_npu_loads_with_rtld_now(emulated: Emulated, torch_npu_python: Path) -> None:
    report = emulated(
        torch_npu_python,
        "load_torch_npu.py",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        ASCENDRT_DEVICES="3",
    )
    assert report["torch"].split("+")[0] == "2.13.0"
    assert report["cuda"] is None, "the environment must hold the CPU build of torch"
    mapped = {Path(name).name: Path(name) for name in report["mapped"]}
    core = mapped["libascendrt_emu.so"]
    for name in ("libtorch_npu.so", "libascendcl.so", "libacl_op_compiler.so", "libhccl.so"):
        assert name in mapped
    assert mapped["libascendcl.so"].parent == core.parent, "the facade is not one of ours"
    assert report["device_count"] == [0, 3]
