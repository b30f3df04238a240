"""The node cases of the onnx package through convert, OM file, load and execute.

`onnx_nodes.txt` names every case that does not pass, with its reason; a listed case that passes is
an error as well.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_nodes
import pytest

LIST = Path(__file__).with_name("onnx_nodes.txt")
CARRIED = 1742  # cases whose types aclDataType can carry
BAR = 1463  # of them pass in onnxruntime 1.32


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """How each case ends: "pass", or why it does not."""
    if not onnx.__version__.startswith("1.23."):
        pytest.skip(f"the list is for the cases of onnx 1.23, installed is {onnx.__version__}")
    directory = tmp_path_factory.mktemp("nodes")
    cases = [case for case in onnx_nodes.all_cases() if onnx_nodes.is_carried(case)]
    for case in cases:
        onnx_nodes.put(directory, case)
    ended = onnx_nodes.run(directory, [case.name for case in cases])
    return {case.name: onnx_nodes.judge(directory, case, ended[case.name]) for case in cases}


def _listed() -> dict[str, str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs}


def test_as_many_cases_pass_as_elsewhere(outcomes: dict[str, str]) -> None:
    assert len(outcomes) == CARRIED
    assert sum(ended == "pass" for ended in outcomes.values()) >= BAR


def test_the_failing_cases_are_those_of_the_list(outcomes: dict[str, str]) -> None:
    failing = {name: ended for name, ended in outcomes.items() if ended != "pass"}
    listed = _listed()
    new = {name: ended for name, ended in failing.items() if name not in listed}
    assert not new, "these cases fail and are not on the list"
    assert not sorted(set(listed) - set(failing)), "these cases are listed as failing and pass"
    assert all(reason.strip() for reason in listed.values())


def test_failing_cases_are_refused_by_name(outcomes: dict[str, str]) -> None:
    """No crash and no failing run; what is computed otherwise is listed as a difference."""
    listed = _listed()
    for name, ended in outcomes.items():
        if ended == "pass" or listed.get(name, "").startswith("differs:"):
            continue
        assert ended.startswith("convert: "), f"{name}: {ended}"
        assert "op type " in ended or "opset" in ended, f"{name}: {ended}"
