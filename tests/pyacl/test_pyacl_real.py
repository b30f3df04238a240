"""Every call of `acl` on the loaded library set: it succeeds once and fails once, in its shapes.

calls.txt has a call that succeeds for each, and how it fails where nulls do not make it fail.
"""

from __future__ import annotations

from typing import Any

import aclreal
import pytest
import rawabi
from aclcalls import BY_NAME, ROWS
from aclscene import LINES

every_line = pytest.mark.parametrize("name", LINES)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return aclreal.ask("both", tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="session")
def waits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return aclreal.ask("waits", tmp_path_factory.mktemp("waits"))


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return aclreal.ask("full", tmp_path_factory.mktemp("full"))


def present() -> set[str]:
    return {row.name for row in ROWS if not row.c or rawabi.has(row.c)}


def test_every_call_that_works_is_listed() -> None:
    assert set(LINES) == present(), sorted(set(LINES) ^ present())


@every_line
def test_success(real: dict[str, Any], name: str) -> None:
    done, failed = real[name]["success"], real[name]["failure"]
    assert done["problem"] is None
    if BY_NAME[name].shape != "bare":
        assert not done["failed"], (done["answer"], done["said"])
    elif not LINES[name].never:
        assert done["answer"] != failed["answer"], "success and failure look alike"


@every_line
def test_failure(real: dict[str, Any], name: str) -> None:
    """The status is no 0 and nothing else is told; the cause stands in the recent message."""
    done, failed, cannot = real[name]["success"], real[name]["failure"], LINES[name].never
    assert failed["problem"] is None
    if cannot:
        bare = BY_NAME[name].shape == "bare"
        fails = failed["answer"] != done["answer"] and failed["said"] if bare else failed["failed"]
        assert not fails, f"it does fail; so it is not true that {cannot}"
    elif BY_NAME[name].shape != "none":
        assert failed["failed"], failed["answer"]
        assert failed["left"] == []
        assert bool(failed["said"]) != (name in SILENT)


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - LINES.keys()))
def test_what_the_library_lacks(real: dict[str, Any], name: str) -> None:
    """It says so, in the shape of a failure."""
    found, row = real[name]["lacking"], BY_NAME[name]
    assert found["problem"] is None
    if row.shape != "none":
        assert found["failed"] and found["left"] == [], found["answer"]
    if row.results and row.results[-1].name == "code":
        assert str(UNSUPPORTED) in found["answer"]


UNSUPPORTED = 207000
# Failures without a message: programs ignore the second init, a size of 0 is an answer, the others
# are the system's, or about the message itself.
SILENT = {"init", "data_type_size", "get_recent_err_msg", "util.stop_thread"}


# Calls that wait for what is queued on a stream, whatever the hurry of the machine.
SURELY_WAITING = {
    "mdl.execute_v2", "rt.destroy_stream", "rt.synchronize_device", "rt.synchronize_stream",
    "rt.synchronize_device_with_timeout", "rt.synchronize_stream_with_timeout",
    "rt.synchronize_event", "rt.synchronize_event_with_timeout", "util.stop_thread",
}  # fmt: skip


@every_line
def test_no_call_waits_with_the_gil_in_hand(waits: dict[str, Any], name: str) -> None:
    """A thread that sleeps inside the call has given up the GIL, so others can end the wait."""
    assert waits[name]["held"] == 0, f"it sleeps in {waits[name]['held_in']}"
    assert waits[name]["given_up"] == 0 or BY_NAME[name].releases_gil


def test_the_streams_were_busy(waits: dict[str, Any]) -> None:
    assert waits["control"]["held"] == 1
    slept = {name for name, found in waits.items() if found["given_up"]}
    assert slept >= SURELY_WAITING, SURELY_WAITING - slept


@pytest.mark.parametrize("name", aclreal.SUBMITTING)
def test_who_waits_for_room_lets_others_run(full: dict[str, Any], name: str) -> None:
    assert full[name]["held"] == 0, f"it sleeps in {full[name]['held_in']}"
    assert full[name]["given_up"] > 0, "it did not wait, though the stream was full"


def test_a_call_that_holds_the_gil_puts_no_work_on_a_stream() -> None:
    """What has a stream and holds the GIL asks or sets something of it."""
    verbs = ("get_", "set_", "reset_stream_res", "use_", "unuse_", "subscribe_", "allocator_",
             "stream_get_", "stream_query")  # fmt: skip
    held = [row.name for row in ROWS if not row.releases_gil]
    with_stream = [n for n in held if any(a.name == "stream" for a in BY_NAME[n].arguments)]
    assert [n for n in with_stream if not n.removeprefix("rt.").startswith(verbs)] == []
