"""The shape of every answer, and that other threads run during every call that may wait.

The libraries here are stand-ins that answer one status everywhere: what is tested is the module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aclstandin
import pytest
from aclcalls import BY_NAME, ROWS, Row

CODES = {"success": 0, "failure": aclstandin.FAILURE}
WITH_FUNCTION = [row for row in ROWS if row.c]
# The vendor's module holds the GIL in these although they wait; ours must not.
# src: hicann/runtime python/pyACL
RELEASED_BY_THE_VENDOR = {
    "rt.synchronize_stream", "rt.synchronize_stream_with_timeout", "rt.synchronize_device",
    "rt.synchronize_event", "rt.synchronize_event_with_timeout", "rt.stream_wait_event",
    "rt.process_report", "util.start_thread", "util.stop_thread",
}  # fmt: skip
MUST_NOT_HOLD = {
    "finalize", "rt.reset_device", "rt.reset_device_force", "rt.memcpy", "rt.memset", "rt.free",
    "rt.destroy_stream", "rt.destroy_context", "rt.synchronize_device_with_timeout",
    "rt.memcpy_async", "rt.record_event", "rt.launch_callback", "rt.unsubscribe_report",
    "rt.stream_abort", "mdl.execute", "mdl.execute_async", "mdl.load_from_file",
    "mdl.load_from_mem", "mdl.unload", "op.execute_v2", "op.update_params", "blas.gemm_ex",
}  # fmt: skip


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return aclstandin.build(tmp_path_factory.mktemp("everything"), aclstandin.source())


@pytest.fixture(scope="session")
def almost_nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = aclstandin.source(frozenset({"aclrtGetDeviceCount"}))
    return aclstandin.build(tmp_path_factory.mktemp("nothing"), text)


@pytest.fixture(scope="session")
def answers(everything: Path) -> dict[str, dict[str, Any]]:
    return {
        outcome: aclstandin.ask(everything, "shapes", code=code) for outcome, code in CODES.items()
    }


@pytest.fixture(scope="session")
def progress(everything: Path) -> dict[str, bool]:
    return aclstandin.ask(everything, "progress")


@pytest.fixture(scope="session")
def missing(almost_nothing: Path) -> dict[str, Any]:
    return aclstandin.ask(almost_nothing, "shapes")


@pytest.fixture(scope="session")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = aclstandin.build(tmp_path_factory.mktemp("echo"), aclstandin.echo_source())
    return aclstandin.ask(folder, "echoes")


every_call = pytest.mark.parametrize("row", WITH_FUNCTION, ids=lambda row: row.name)


@every_call
@pytest.mark.parametrize("outcome", CODES)
def test_the_shape(answers: dict[str, dict[str, Any]], row: Row, outcome: str) -> None:
    problem, status, _ = answers[outcome][row.name]
    assert problem is None
    if status is not None and row.c != "aclrtGetDeviceCount":
        assert status == CODES[outcome]


@every_call
def test_a_function_that_the_library_lacks(missing: dict[str, Any], row: Row) -> None:
    problem, status, _ = missing[row.name]
    assert problem is None
    if status is not None and row.c != "aclrtGetDeviceCount":
        assert status == 207000  # feature unsupported


@pytest.mark.parametrize(
    "row", [r for r in WITH_FUNCTION if r.c != "aclrtGetDeviceCount"], ids=lambda row: row.name
)
def test_other_threads_run_during_the_call(progress: dict[str, bool], row: Row) -> None:
    """Exactly during those of which the table says so."""
    assert progress[row.name] == row.releases_gil


def test_what_must_not_hold_the_gil() -> None:
    released = {row.name for row in ROWS if row.releases_gil}
    assert released >= RELEASED_BY_THE_VENDOR | MUST_NOT_HOLD
    # A call that costs nothing keeps it: giving it up is dearer than the call.
    for name in ("rt.get_device", "rt.malloc", "rt.query_event_status", "create_data_buffer"):
        assert not BY_NAME[name].releases_gil


def test_every_argument_arrives_where_it_belongs(echoes: dict[str, Any]) -> None:
    assert {name: wrong for name, wrong in echoes.items() if wrong} == {}
    assert len(echoes) > 340


@pytest.mark.parametrize("outcome", CODES)
def test_no_call_leaves_memory_behind(everything: Path, outcome: str) -> None:
    growth = aclstandin.ask(everything, "growth", code=CODES[outcome])
    assert {name: blocks for name, blocks in growth.items() if blocks >= 12} == {}


def test_answers_on_failure(answers: dict[str, dict[str, Any]]) -> None:
    failed = {name: answer[2] for name, answer in answers["failure"].items()}
    code = aclstandin.FAILURE
    assert failed["mdl.get_input_dims"] == failed["mdl.get_dynamic_hw"] == f"({{}}, {code})"
    assert failed["mdl.get_first_aipp_info"] == f"(None, {code})"
    assert failed["rt.malloc"] == f"(0, {code})"
    assert failed["rt.get_mem_info"] == f"(0, 0, {code})"
    assert failed["create_data_buffer"] == failed["mdl.create_desc"] == "0"
    assert failed["destroy_tensor_desc"] == failed["op.destroy_attr"] == "None"
    assert failed["get_soc_name"] == failed["get_recent_err_msg"] == "None"
