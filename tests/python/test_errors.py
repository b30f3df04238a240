"""The exception families: every code of the table has a name, a family and a readable text."""

from __future__ import annotations

import pickle

import pytest
from command import REPOSITORY

from ascendrt import errors
from ascendrt._gen import codes


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (100000, errors.UsageError),
        (107002, errors.UsageError),
        (145003, errors.ModelError),
        (545001, errors.ModelError),
        (200000, errors.OutOfMemoryError),
        (207001, errors.OutOfMemoryError),
        (207018, errors.OutOfMemoryError),
        (245000, errors.OutOfMemoryError),
        (207000, errors.NotSupportedError),
        (200001, errors.NotSupportedError),
        (200006, errors.NotSupportedError),
        (100039, errors.NotSupportedError),
        (107019, errors.WaitTimeoutError),
        (507046, errors.WaitTimeoutError),
        (507047, errors.WaitTimeoutError),
        (207007, errors.ResourceError),
        (300000, errors.ResourceError),
        (507011, errors.DeviceError),
        (500002, errors.DeviceError),
        (999999, errors.AclError),
    ],
)
def test_family_of_a_code(code: int, kind: type[errors.AclError]) -> None:
    assert type(errors.make(code, "aclX")) is kind


def test_families_are_what_python_programs_catch() -> None:
    assert issubclass(errors.OutOfMemoryError, MemoryError)
    assert issubclass(errors.WaitTimeoutError, TimeoutError)
    assert issubclass(errors.MissingSymbolError, errors.NotSupportedError)


def test_every_code_but_success_has_a_family_below_acl_error() -> None:
    assert len(codes.CODES) > 200
    for code, row in codes.CODES.items():
        assert row.name.startswith(("ACL", "OK"))
        if code:
            assert errors.family(code) is not errors.AclError, code


def test_text_says_what_which_and_what_to_do() -> None:
    error = errors.make(107001, "aclrtSetDevice", "no device 7 here", device=7, devices=1)
    text = str(error)
    for part in (
        "aclrtSetDevice",
        "107001",
        "ACL_ERROR_RT_INVALID_DEVICEID",
        "device=7",
        "devices=1",
        "no device 7 here",
    ):
        assert part in text
    assert error.hint
    assert error.hint in text
    assert (error.code, error.api, error.ids) == (
        107001,
        "aclrtSetDevice",
        {"device": 7, "devices": 1},
    )


def test_text_says_nothing_twice() -> None:
    _, hint = errors.describe(207001)
    own = f"[207001 ACL_ERROR_RT_MEMORY_ALLOCATION] aclrtMalloc: 5 bytes do not fit. {hint}"
    text = str(errors.make(207001, "aclrtMalloc", own))
    for part in ("207001", "aclrtMalloc", "5 bytes do not fit", hint):
        assert text.count(part) == 1, part


def test_a_missing_context_is_explained_in_the_words_of_python() -> None:
    assert "in Python: use ascendrt.Device(i)" in str(errors.AclError(107002, "aclrtMalloc"))
    assert "in Python" not in str(errors.AclError(107001, "aclrtMalloc"))


def test_text_tells_older_failures_apart() -> None:
    newest = "[145000 ACL_ERROR_GE_PARAM_INVALID] aclmdlLoadFromFile: two things:\n  a\n  b"
    older = "[107001 ACL_ERROR_RT_INVALID_DEVICEID] aclrtSetDevice: device id 99 is outside [0, 1)"
    noise = "[107002 ACL_ERROR_RT_CONTEXT_NULL] aclGetRecentErrMsg: no context"
    error = errors.make(145000, "aclmdlLoadFromFile", f"{noise}\n{newest}\n{older}")
    assert error.text == newest
    assert error.cause == older
    assert str(error).splitlines()[-1].strip() == f"before it, on this thread: {older}"
    alone = errors.make(145000, "aclmdlLoadFromFile", f"{newest}\n{older}", [older[:20]])
    assert (alone.text, alone.cause) == (newest, "")


def test_an_unknown_code_is_still_readable() -> None:
    assert str(errors.make(999999, "aclX")) == "aclX failed with 999999 UNKNOWN"


@pytest.mark.parametrize(
    "error",
    [
        errors.make(207001, "aclrtMalloc", "out of memory", size_bytes=5),
        errors.MissingSymbolError("aclrtFoo", "none has it"),
    ],
)
def test_errors_travel_between_processes(error: errors.AclError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.code, copy.api, copy.ids) == (error.code, error.api, error.ids)


def test_text_is_about_the_call_alone() -> None:
    """Asking for the text fails, too, on a thread without a context: no concern of the user."""
    asked = "[107002 ACL_ERROR_RT_CONTEXT_NULL] aclGetRecentErrMsg: no valid context"
    told = "[107001 ACL_ERROR_RT_INVALID_DEVICEID] aclrtSetDevice: device id 9 is outside [0, 1)"
    error = errors.make(107001, "aclrtSetDevice", f"{asked}\n{told}", device=9)
    assert error.text == told
    assert "aclGetRecentErrMsg" not in str(error)


def test_every_code_says_what_to_do() -> None:
    from ascendrt._gen.codes import CODES

    assert [row.name for code, row in CODES.items() if code and not row.hint] == []
    page = (REPOSITORY / "docs" / "error-codes.md").read_text()
    assert all(f"| {code} | `{row.name}` | " in page for code, row in CODES.items() if code)
