"""The guards around calls, and Python functions handed to C."""

from __future__ import annotations

import threading

import pytest

import ascendrt
from ascendrt import _lib


def test_call_raises_with_the_library_s_text_and_the_ids() -> None:
    with pytest.raises(ascendrt.UsageError) as caught:
        _lib.call("aclrtGetDeviceCount", _lib.null(), ids={"what": "count"})
    error = caught.value
    assert (error.code, error.api, error.ids) == (100000, "aclrtGetDeviceCount", {"what": "count"})
    assert "argument count is a null pointer" in error.text
    assert "argument count is a null pointer" in str(error)


def test_check_passes_success_and_raises_the_rest() -> None:
    _lib.check(0, "aclX")
    with pytest.raises(ascendrt.OutOfMemoryError, match="device=3"):
        _lib.check(207001, "aclX", device=3)


def test_check_quiet_only_warns() -> None:
    _lib.check_quiet(0, "aclX")
    with pytest.warns(RuntimeWarning, match="aclX failed with 107017"):
        _lib.check_quiet(107017, "aclX")


def test_a_function_that_is_absent_raises_by_name() -> None:
    absent = "aclrtSnapShotProcessLock"
    if _lib.has(absent):
        pytest.skip(f"{absent} is there now: name another one")
    with pytest.raises(ascendrt.MissingSymbolError) as caught:
        _lib.call(absent)
    assert caught.value.api == absent
    assert not _lib.has("no such function")
    with pytest.raises(AttributeError):
        _lib.lib.aclNoSuchFunction  # type: ignore[attr-defined]  # noqa: B018


def test_a_callback_reports_its_exception_and_lives_until_released() -> None:
    def fail(_: object) -> None:
        raise ValueError("from the callback")

    callback = _lib.Callback("void (*)(void *)", fail)
    with pytest.warns(RuntimeWarning, match="from the callback"):
        callback.pointer(_lib.null())
    assert isinstance(callback.error, ValueError)
    assert callback in _lib.Callback._alive
    callback.release()
    assert callback not in _lib.Callback._alive


def test_a_thread_gets_its_own_context_back() -> None:
    with ascendrt.Device(0) as device, ascendrt.Context(device) as context:
        device.use()
        before = _lib.current_context()
        with _lib.in_context(context._handle):
            assert _lib.current_context() == context._handle
        assert _lib.current_context() == before
        seen = []

        def without_context() -> None:
            seen.append(_lib.current_context())
            with _lib.in_context(context._handle):
                seen.append(_lib.current_context() == context._handle)

        thread = threading.Thread(target=without_context)
        thread.start()
        thread.join(30)
        assert seen == [None, True]


def test_buffers_refuse_what_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="writable"):
        _lib.writable(b"bytes")
    assert _lib.address(_lib.offset(_lib.null(), 24)) == 24
    assert _lib.text(_lib.null()) == ""
