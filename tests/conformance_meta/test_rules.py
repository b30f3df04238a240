"""rules.toml, the conformance tests, their page and the list of absent functions agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import conformance
import pytest

ROOT = Path(__file__).parents[2]
ABSENT = ROOT / "tests" / "conformance" / "absent.txt"
LEAST_TESTED = 210


@pytest.fixture(scope="module")
def rules() -> list[conformance.Rule]:
    return conformance.read_rules()


@pytest.fixture(scope="module")
def tests() -> list[conformance.Test]:
    return conformance.read_tests()


@pytest.fixture(scope="module")
def coverage() -> dict[str, str]:
    return conformance.read_coverage()


def test_ids_are_unique_and_in_order(rules: list[conformance.Rule]) -> None:
    sections = Counter(rule.section for rule in rules)
    expected = {f"S{section}.{1 + index}" for section, n in sections.items() for index in range(n)}
    assert len({rule.id for rule in rules}) == len(rules)
    assert {rule.id for rule in rules} == expected
    assert sorted(sections) == list(range(len(conformance.SECTIONS)))


def test_rules_speak_of_functions_of_the_abi(
    rules: list[conformance.Rule], coverage: dict[str, str]
) -> None:
    named = {name for rule in rules for name in (*rule.functions, *rule.needs)}
    assert named <= coverage.keys()
    for rule in rules:
        assert rule.functions and rule.text.endswith(".") and rule.source and rule.mark
        assert set(rule.mark) <= {"S", "D", "G"}
        assert set(rule.chips) <= {"A2", "A3", "950", "310B", "310P", "910"}


def test_tests_carry_known_rules(
    rules: list[conformance.Rule], tests: list[conformance.Test]
) -> None:
    known = {rule.id: rule for rule in rules}
    assert {test.rule for test in tests} <= known.keys()
    wrong = [test.name for test in tests if test.guess != known[test.rule].is_guess]
    assert wrong == [], "guesses and only guesses carry the mark"
    names = Counter((test.file, test.name) for test in tests)
    assert [name for name, count in names.items() if count > 1] == [], "one test per rule and code"


def test_every_rule_is_tested_or_says_why_not(
    rules: list[conformance.Rule],
    tests: list[conformance.Test],
    coverage: dict[str, str],
) -> None:
    states = {rule.id: conformance.state_of(rule, tests, coverage) for rule in rules}
    assert [rule for rule, state in states.items() if state == "untested"] == []
    firm = [rule for rule in rules if states[rule.id] == "tested" and not rule.is_guess]
    assert len(firm) >= LEAST_TESTED
    carried = {test.rule for test in tests}
    assert [rule.id for rule in rules if rule.blocked and rule.id in carried] == []


def test_list_of_absent_functions(
    rules: list[conformance.Rule],
    tests: list[conformance.Test],
    coverage: dict[str, str],
) -> None:
    """A rule leaves the list when its function comes, and needs a test from then on."""
    carried = {test.rule for test in tests}
    wanted = [
        f"{rule.id} function absent: {' '.join(conformance.missing_functions(rule, coverage))}"
        for rule in rules
        if rule.section in conformance.TESTED_SECTIONS
        and rule.id not in carried
        and conformance.missing_functions(rule, coverage)
    ]
    listed = [line for line in ABSENT.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert listed == wanted


def test_page_is_up_to_date() -> None:
    page = (ROOT / conformance.PAGE).read_text(encoding="utf-8")
    assert page == conformance.page(), "run `python csrc/abi/conformance.py`"
