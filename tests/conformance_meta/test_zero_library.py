"""Mutation: the conformance tests notice functions that answer 0 without doing anything.

Two runs of the same suite, each in processes of its own that may crash or hang:
  all   against a library set whose every function answers 0;
  own   against the emulator, where only the functions that a test's rule speaks of answer 0.
Every rule must fail in the first, and in the second every rule but those that zero_survivors.txt
lists with a reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import conformance
import pytest
import zero_library

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests" / "conformance"
SURVIVORS = SUITE / "zero_survivors.txt"
RUN_LIMIT_S = 300
TEST_LIMIT_S = 6


def survivors(run: str) -> set[str]:
    """Return the rules that are allowed to survive a run."""
    lines = SURVIVORS.read_text(encoding="utf-8").splitlines()
    rows = [line.split(maxsplit=2) for line in lines if line and line[0] != "#"]
    assert all(len(row) == 3 for row in rows), "a line is: run, rule, reason"
    return {rule for name, rule, _ in rows if name == run}


def run_suite(report: Path, env: dict[str, str], *options: str) -> dict[str, bool]:
    """Run the suite; return for every rule that was tried whether a test of it failed."""
    command = [
        sys.executable, "-m", "pytest", str(SUITE), "-p", "no:cacheprovider", "-q", "-n", "2",
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT),
        # Plain tracebacks: reading sources for prettier ones can fail deep inside a broken test.
        "--max-worker-restart=1000", "--tb=native",
        f"--timeout={TEST_LIMIT_S}", f"--rule-report={report}",
        *options,
    ]  # fmt: skip
    environ = {**os.environ, **env, "ASCENDRT_MACHINE": "private"}
    environ["ASCENDRT_CONFORMANCE_TIMEOUT"] = str(TEST_LIMIT_S)
    subprocess.run(
        command, cwd=report.parent, env=environ, timeout=RUN_LIMIT_S, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return failed_rules(report)


def failed_rules(report: Path) -> dict[str, bool]:
    """Read a report: a rule failed when one of its tests failed, crashed or never ended."""
    outcomes: dict[tuple[str, str], dict[str, str]] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        file, _, rest = row["test"].partition("::")
        key = Path(file).name, rest.partition("[")[0]
        outcomes.setdefault(key, {})[f"{row['when']} {rest}"] = row["outcome"]
    failed: dict[str, bool] = {}
    for test in conformance.read_tests():
        found = outcomes.get((test.file, test.name), {})
        if set(found.values()) == {"skipped"} or _only_skipped(found):
            continue
        bad = not found or "failed" in found.values()
        failed[test.rule] = failed.get(test.rule, False) or bad
    return failed


def _only_skipped(found: dict[str, str]) -> bool:
    """Whether all the parameters of a test were skipped: no body ran and nothing failed."""
    ran = [outcome for when, outcome in found.items() if when.startswith("call")]
    return bool(found) and "failed" not in found.values() and set(ran) <= {"skipped"}


@pytest.mark.slow
@pytest.mark.timeout(RUN_LIMIT_S + 60)
def test_all_functions_answer_0(tmp_path: Path) -> None:
    folder = zero_library.build(tmp_path / "zero")
    failed = run_suite(tmp_path / "report", {"ASCENDRT_LIBRARY_DIR": str(folder)})
    assert len(failed) >= 210
    assert {rule for rule, bad in failed.items() if not bad} == survivors("all")


@pytest.mark.slow
@pytest.mark.timeout(RUN_LIMIT_S + 60)
def test_functions_of_the_rule_answer_0(tmp_path: Path) -> None:
    failed = run_suite(tmp_path / "report", {}, "--zero-own")
    assert len(failed) >= 210
    assert {rule for rule, bad in failed.items() if not bad} == survivors("own")
