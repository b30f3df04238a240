"""Init, finalize, versions, error texts and the log (section 1)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, ffi, in_thread, last_error, ok, read, run_fresh, write

rule = pytest.mark.rule


def init_in_fresh_process(path: Path | str) -> Any:
    """Call aclInit(path) in a new process; return its code and what aclFinalizeReference gives."""

    def body(path: str) -> Any:
        code = acl.aclInit(path.encode())
        count = ffi.new("uint64_t *", 77)
        return code, acl.aclFinalizeReference(count), count[0]

    return run_fresh(body, path=str(path))


@rule("S1.1")
def test_init_with_null() -> None:
    def body() -> Any:
        first = acl.aclInit(NULL)
        count = ffi.new("uint64_t *", 77)
        return first, acl.aclFinalizeReference(count), count[0], acl.aclFinalizeReference(count)

    assert run_fresh(body) == [0, 0, 0, 100037]


@rule("S1.2")
def test_init_with_empty_path() -> None:
    assert init_in_fresh_process("") == [0, 0, 0]


@rule("S1.3")
def test_second_init(tmp_path: Path) -> None:
    def body(bad: str) -> Any:
        codes = [acl.aclInit(NULL), acl.aclInit(NULL), acl.aclInit(bad.encode())]
        count = ffi.new("uint64_t *")
        left = []
        for _ in range(3):
            codes.append(acl.aclFinalizeReference(count))
            left.append(count[0])
        return codes, left

    bad = tmp_path / "bad.json"
    bad.write_text("not read again")
    assert run_fresh(body, bad=str(bad)) == [[0, 100002, 100002, 0, 0, 0], [2, 1, 0]]


@rule("S1.4")
def test_missing_file(tmp_path: Path) -> None:
    assert init_in_fresh_process(tmp_path / "missing.json") == [100003, 100037, 77]


@rule("S1.5")
def test_no_regular_file(tmp_path: Path) -> None:
    assert init_in_fresh_process(tmp_path) == [100003, 100037, 77]


@rule("S1.6")
def test_file_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text("{}" + " " * (10 * 1024 * 1024 - 1))
    assert init_in_fresh_process(path) == [100003, 100037, 77]
    path.write_text("{}" + " " * (10 * 1024 * 1024 - 2))
    assert init_in_fresh_process(path) == [0, 0, 0]


@rule("S1.7")
def test_no_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"defaultDevice": ')
    assert init_in_fresh_process(path) == [100006, 100037, 77]


@rule("S1.8")
@pytest.mark.parametrize("opening, closing", [('{"a":', "}"), ("[", "]")])
def test_json_nested_too_deep(tmp_path: Path, opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        text = opening * depth + "1" + closing * depth
        return text if opening[0] == "{" else '{"a":' + text + "}"

    path = tmp_path / "deep.json"
    path.write_text(nested(11))
    assert init_in_fresh_process(path) == [100006, 100037, 77]
    path.write_text(nested(10))
    assert init_in_fresh_process(path) == [0, 0, 0]


@rule("S1.9")
def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("")
    assert init_in_fresh_process(path) == [0, 0, 0]


@rule("S1.10")
@pytest.mark.parametrize("first, second", [('{"a": 1}', '{"a": 2}'), ("", "no json"), ("{}", "")])
def test_another_configuration_in_the_second_round(tmp_path: Path, first: str, second: str) -> None:
    def body(first: str | None, second: str | None) -> Any:
        paths = [NULL if path is None else path.encode() for path in (first, second)]
        codes = [acl.aclInit(paths[0]), acl.aclFinalize(), acl.aclInit(paths[1])]
        return [*codes, acl.aclInit(paths[0]), acl.aclFinalize()]

    paths: list[str | None] = []
    for number, text in enumerate((first, second)):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        paths.append(str(path) if text else None)
    assert run_fresh(body, first=paths[0], second=paths[1]) == [0, 0, 100000, 0, 0]


def default_device(tmp_path: Path, number: str) -> str:
    path = tmp_path / "acl.json"
    path.write_text('{"defaultDevice": {"default_device": "' + number + '"}}')
    return str(path)


@rule("S1.11")
@pytest.mark.emulator
def test_no_soc_name() -> None:
    def body() -> Any:
        return acl.aclInit(NULL), acl.aclrtGetSocName() == NULL

    assert run_fresh(body, {"ASCENDRT_SOC": "Ascend000"}) == [500000, True]
    assert run_fresh(body) == [0, False]


@rule("S1.13")
def test_default_device_is_set_on_first_use(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        pointer = ffi.new("void **")
        without = acl.aclrtMalloc(pointer, 64, 0)
        ok(acl.aclInit(path.encode()))
        ok(acl.aclrtMalloc(pointer, 64, 0))
        write(pointer[0], b"on the default device")
        text = read(pointer[0], 21).decode()
        ok(acl.aclrtMalloc(pointer, 64, 0))
        in_thread(lambda: ok(acl.aclrtMalloc(pointer, 64, 0)))
        resets = [acl.aclrtResetDevice(0) for _ in range(3)]
        return without, text, resets

    answer = run_fresh(body, path=default_device(tmp_path, "0"))
    assert answer == [107002, "on the default device", [0, 0, 507007]]


@rule("S1.14")
def test_get_device_does_not_set_the_default_device(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        ok(acl.aclInit(path.encode()))
        device = ffi.new("int32_t *", 77)
        context = ffi.new("void **")
        return (
            acl.aclrtGetDevice(device),
            device[0],
            acl.aclrtGetCurrentContext(context),
            acl.aclrtResetDevice(0),
        )

    assert run_fresh(body, path=default_device(tmp_path, "0")) == [0, 0, 107002, 507007]


@rule("S1.15")
def test_calls_that_ignore_the_default_device(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        ok(acl.aclInit(path.encode()))
        context = ffi.new("void **")
        host = ffi.new("char[64]")

        def try_both() -> list[int]:
            copy = acl.aclrtMemcpyAsync(host, 8, host + 32, 8, 1, NULL)
            return [acl.aclrtGetCurrentContext(context), copy]

        before = try_both()
        ok(acl.aclrtSynchronizeDevice())
        return before, acl.aclrtGetCurrentContext(context), context[0] != NULL

    assert run_fresh(body, path=default_device(tmp_path, "0")) == [[107002, 107002], 0, True]


@rule("S1.16")
@pytest.mark.parametrize("number", ["", "zero", "0x1", "-1", "1.0"])
def test_default_device_is_no_number(tmp_path: Path, number: str) -> None:
    assert init_in_fresh_process(default_device(tmp_path, number)) == [500001, 100037, 77]


@rule("S1.17")
def test_default_device_does_not_exist(tmp_path: Path) -> None:
    assert init_in_fresh_process(default_device(tmp_path, "63")) == [107001, 100037, 77]


@rule("S1.18")
def test_finalize_drops_all_references() -> None:
    def body() -> Any:
        acl.aclInit(NULL)
        acl.aclInit(NULL)
        acl.aclInit(NULL)
        codes = [acl.aclFinalize(), acl.aclFinalizeReference(NULL), acl.aclInit(NULL)]
        count = ffi.new("uint64_t *", 77)
        return [*codes, acl.aclFinalizeReference(count), count[0]]

    assert run_fresh(body) == [0, 100037, 0, 0, 0]


@rule("S1.19")
def test_finalize_twice() -> None:
    def body() -> Any:
        return acl.aclInit(NULL), acl.aclFinalize(), acl.aclFinalize(), acl.aclInit(NULL)

    assert run_fresh(body) == [0, 0, 100037, 0]


@rule("S1.20")
def test_finalize_before_init() -> None:
    def body() -> Any:
        return acl.aclFinalize(), acl.aclFinalize(), acl.aclInit(NULL), acl.aclFinalize()

    assert run_fresh(body) == [0, 100037, 0, 0]


@rule("S1.21")
def test_finalize_reference_counts_down() -> None:
    def body() -> Any:
        acl.aclInit(NULL)
        acl.aclInit(NULL)
        count = ffi.new("uint64_t *", 77)
        return acl.aclFinalizeReference(count), count[0], acl.aclInit(NULL)

    assert run_fresh(body) == [0, 1, 100002]


@rule("S1.22")
def test_last_reference_finalizes() -> None:
    def body() -> Any:
        acl.aclInit(NULL)
        count = ffi.new("uint64_t *", 77)
        code = acl.aclFinalizeReference(count)
        return code, count[0], acl.aclFinalize(), acl.aclInit(NULL)

    assert run_fresh(body) == [0, 0, 100037, 0]


@rule("S1.23")
def test_finalize_reference_without_reference() -> None:
    def body() -> Any:
        count = ffi.new("uint64_t *", 77)
        return acl.aclFinalizeReference(count), acl.aclFinalizeReference(NULL), acl.aclInit(NULL)

    assert run_fresh(body) == [100037, 100037, 0]


@rule("S1.24")
def test_finalize_reference_without_count() -> None:
    def body() -> Any:
        acl.aclInit(NULL)
        acl.aclInit(NULL)
        return [acl.aclFinalizeReference(NULL) for _ in range(3)]

    assert run_fresh(body) == [0, 0, 100037]


@rule("S1.25")
def test_finalize_is_bounded() -> None:
    def body() -> Any:
        ok(acl.aclInit(NULL))
        ok(acl.aclrtSetDevice(0))
        start = time.monotonic()
        codes = [acl.aclFinalize(), acl.aclFinalize()]
        return codes, time.monotonic() - start < 3.0

    for env in ({}, {"ASCEND_LOG_DEVICE_FLUSH_TIMEOUT": "0"}):
        assert run_fresh(body, env) == [[0, 100037], True]


@rule("S1.26")
def test_get_version_null() -> None:
    number = ffi.new("int32_t *")
    assert acl.aclrtGetVersion(NULL, number, number) == 100000
    assert acl.aclrtGetVersion(number, NULL, number) == 100000
    assert acl.aclrtGetVersion(number, number, NULL) == 100000
    assert number[0] == 0


@rule("S1.27")
def test_get_version() -> None:
    numbers = ffi.new("int32_t[3]", [-1, -1, -1])
    ok(acl.aclrtGetVersion(numbers, numbers + 1, numbers + 2))
    assert list(numbers) == [acl.ACL_MAJOR_VERSION, acl.ACL_MINOR_VERSION, acl.ACL_PATCH_VERSION]
    assert numbers[0] == 1


@rule("S1.28")
def test_soc_name() -> None:
    def body() -> Any:
        first, second = acl.aclrtGetSocName(), acl.aclrtGetSocName()
        ok(acl.aclInit(NULL))
        return ffi.string(first).decode(), first == second == acl.aclrtGetSocName()

    name, same = run_fresh(body)
    assert name.startswith("Ascend") and same


@rule("S1.29")
def test_recent_message_is_per_thread_and_taken(device: int) -> None:
    rawabi.recent()
    assert acl.aclrtSetDevice(4711) == 107001
    primary = rawabi.current_context()

    def elsewhere() -> str:
        ok(acl.aclrtSetCurrentContext(primary))
        return rawabi.recent()

    assert "4711" not in in_thread(elsewhere)
    text = acl.aclGetRecentErrMsg()
    assert text != NULL and b"4711" in ffi.string(text)
    assert "4711" not in rawabi.recent()


@rule("S1.30")
def test_recent_message_with_context(device: int) -> None:
    while rawabi.recent():
        pass
    assert acl.aclGetRecentErrMsg() == NULL
    assert acl.aclrtSetDevice(4711) == 107001
    assert acl.aclGetRecentErrMsg() != NULL
    assert acl.aclGetRecentErrMsg() == NULL


@rule("S1.31")
def test_recent_message_without_context() -> None:
    def body() -> Any:
        def text() -> str:
            pointer = acl.aclGetRecentErrMsg()
            return "" if pointer == NULL else ffi.string(pointer).decode()

        return text(), acl.aclrtSetDevice(4711), text(), text()

    first, code, second, third = run_fresh(body)
    assert code == 107001
    assert "rtGetDevMsg" in first and "4711" not in first
    # The failure of the question comes first, what was asked about behind it, and all of it stays.
    assert "rtGetDevMsg" in second.splitlines()[0]
    assert "4711" in second
    assert third.endswith(second) and third.removesuffix(second).count("rtGetDevMsg") == 1


@rule("S1.32")
def test_recent_message_without_context_leaves_a_code() -> None:
    def body() -> Any:
        before = last_error()
        acl.aclGetRecentErrMsg()
        return before, last_error()

    assert run_fresh(body) == [0, 107002]


@rule("S1.33")
def test_last_error_level(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    assert [acl.aclrtGetLastError(level) for level in (1, 7)] == [100000, 100000]
    assert acl.aclrtGetLastError(0) == 107001


@rule("S1.34")
def test_last_error_is_taken(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    ok(acl.aclrtSynchronizeDevice())
    assert in_thread(lambda: acl.aclrtGetLastError(0)) == 0
    assert [acl.aclrtGetLastError(0), acl.aclrtGetLastError(0)] == [107001, 0]


@rule("S1.35")
def test_last_error_is_looked_at(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    assert [acl.aclrtPeekAtLastError(0), acl.aclrtPeekAtLastError(0)] == [107001, 107001]
    assert acl.aclrtGetLastError(0) == 107001
    assert acl.aclrtPeekAtLastError(0) == 0


@rule("S1.36")
def test_peek_level(device: int) -> None:
    assert acl.aclrtSetDevice(4711) == 107001
    assert [acl.aclrtPeekAtLastError(level) for level in (1, 7)] == [100000, 100000]
    assert acl.aclrtPeekAtLastError(0) == 107001


def logged(body: Any, **arguments: Any) -> str:
    """Run a snippet with the log on standard output; return what was written."""
    env = {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "0"}
    rawabi.run_fresh(body, env, **arguments)
    return rawabi.last_fresh_output()


@rule("S1.37")
def test_log_with_null_writes_nothing() -> None:
    def body() -> Any:
        text = [ffi.new("char[]", word) for word in (b"quiet-format", b"quiet-func", b"quiet-file")]
        for hole in range(3):
            words = [NULL if index == hole else word for index, word in enumerate(text)]
            acl.aclAppLog(acl.ACL_ERROR, words[1], words[2], 7, words[0])
        acl.aclAppLog(acl.ACL_ERROR, text[1], text[2], 7, b"spoken-format %d", ffi.cast("int", 42))
        return 0

    written = logged(body)
    assert written.count("quiet-file") == 1 and "quiet-format" not in written
    assert re.search(r"\[ERROR\] APP\(\d+,.+\):\d{4}(-\d\d){3}:\d\d:\d\d\.\d{3}\.\d{3} \[", written)
    assert "spoken-format 42" in written


def test_failures_are_logged_where_the_log_goes_to_the_output() -> None:
    def body() -> Any:
        codes = [acl.aclrtSetDevice(-1), acl.aclInit(NULL), acl.aclrtSetDevice(99)]
        return [*codes, acl.aclGetRecentErrMsg() != NULL]

    written = logged(body)
    assert "aclGetRecentErrMsg" not in written  # asking is no failure of the program
    assert "aclrtSetDevice: [107001" in written or "aclrtSetDevice: [507033" in written
    assert "aclInit" not in written
    for env in ({}, {"ASCEND_LOG_PRINT_TO_STDOUT": "0", "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}):
        rawabi.run_fresh(body, env)
        assert "[ERROR]" not in rawabi.last_fresh_output()


@rule("S1.38")
def test_log_text_is_cut() -> None:
    def body() -> Any:
        text = ffi.new("char[]", b"x" * 3000)
        acl.aclAppLog(acl.ACL_ERROR, b"func", b"file", 7, b"long %s", text)
        return 0

    written = logged(body)
    assert 900 < written.count("x") <= 1024
    line = next(line for line in written.splitlines() if "xxx" in line)
    assert not line.rstrip("\n").endswith("x")


@rule("S1.39")
def test_version_file_missing(tmp_path: Path) -> None:
    def body() -> Any:
        version = ffi.new("aclCANNPackageVersion *")
        return acl.aclsysGetCANNVersion(acl.ACL_PKG_NAME_RUNTIME, version)

    assert run_fresh(body, {"ASCEND_HOME_PATH": None}) == 100003
    assert run_fresh(body, {"ASCEND_HOME_PATH": str(tmp_path)}) == 100003


@rule("S1.40")
def test_version_bad_arguments() -> None:
    version = ffi.new("aclCANNPackageVersion *")
    assert acl.aclsysGetCANNVersion(acl.ACL_PKG_NAME_RUNTIME, NULL) == 100000
    assert acl.aclsysGetCANNVersion(1000, version) == 100000
