"""Functions registered for init and finalize; versions and attributes (section 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rawabi
from rawabi import NULL, acl, ffi, fresh_on, ok, run_fresh

rule = pytest.mark.rule
MODEL, EXECUTOR, COMPILER, MEDIA, OTHER = 0, 1, 3, 6, 0xFFFF


@rule("S1.12")
def test_order_inside_init(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        seen = []
        kept = []
        for kind in (0xFFFF, 6, 1, 0):

            def function(text: Any, size: int, data: Any, kind: int = kind) -> int:
                out = ffi.new("int32_t *")
                set_yet = acl.aclrtGetDevice(out)  # the default device comes after the executor
                seen.append([kind, ffi.string(text, size).decode(), set_yet])
                return 0

            kept.append(ffi.callback("aclInitCallbackFunc", function))
            ok(acl.aclInitCallbackRegister(kind, kept[-1], NULL))
        ok(acl.aclInit(path.encode()))
        ok(acl.aclFinalize())
        with_file = list(seen)
        seen.clear()
        return with_file

    text = '{"defaultDevice": {"default_device": "0"}}'
    path = tmp_path / "acl.json"
    path.write_text(text)
    assert run_fresh(body, path=str(path)) == [
        [MODEL, text, 107002], [EXECUTOR, text, 107002], [MEDIA, text, 0], [OTHER, text, 0],
    ]  # fmt: skip

    def bare() -> Any:
        seen = []
        kept = []
        for kind in (0xFFFF, 6, 1, 0):
            function = ffi.callback(
                "aclInitCallbackFunc", lambda text, size, data, kind=kind: seen.append(kind) or 0
            )
            kept.append(function)
            ok(acl.aclInitCallbackRegister(kind, function, NULL))
        ok(acl.aclInit(NULL))
        return seen

    assert run_fresh(bare) == [MODEL, MEDIA, OTHER]


@rule("S1.41")
def test_null_functions() -> None:
    assert acl.aclInitCallbackRegister(MODEL, NULL, NULL) == 100000
    assert acl.aclFinalizeCallbackRegister(MODEL, NULL, NULL) == 100000
    assert acl.aclInitCallbackUnRegister(MODEL, NULL) == 100000
    assert acl.aclFinalizeCallbackUnRegister(MODEL, NULL) == 100000


@ffi.callback("aclFinalizeCallbackFunc")
def say_nothing(data: Any) -> int:
    return 0


@ffi.callback("aclInitCallbackFunc")
def start_nothing(text: Any, size: int, data: Any) -> int:
    return 0


PAIRS = pytest.mark.parametrize(
    ("register", "unregister", "function"),
    [
        ("aclInitCallbackRegister", "aclInitCallbackUnRegister", start_nothing),
        ("aclFinalizeCallbackRegister", "aclFinalizeCallbackUnRegister", say_nothing),
    ],
)


@PAIRS
@rule("S1.42")
def test_one_function_per_type(register: str, unregister: str, function: Any) -> None:
    ok(getattr(acl, register)(MEDIA, function, NULL))
    assert getattr(acl, register)(MEDIA, function, NULL) == 500000
    ok(getattr(rawabi.real, unregister)(MEDIA, function))
    for _ in range(2):
        ok(getattr(acl, register)(OTHER, function, NULL))
    for _ in range(2):
        ok(getattr(rawabi.real, unregister)(OTHER, function))


@PAIRS
@rule("S1.43")
def test_functions_that_are_not_there(register: str, unregister: str, function: Any) -> None:
    assert getattr(acl, unregister)(MEDIA, function) == 500000
    ok(getattr(acl, register)(MEDIA, function, NULL))
    assert getattr(acl, unregister)(COMPILER, function) == 500000
    ok(getattr(acl, unregister)(MEDIA, function))
    assert getattr(acl, unregister)(MEDIA, function) == 500000


@rule("S1.44")
def test_function_that_comes_late(tmp_path: Path) -> None:
    def body(path: str) -> Any:
        seen = []

        @ffi.callback("aclInitCallbackFunc")
        def function(text: Any, size: int, data: Any) -> int:
            seen.append([ffi.string(text, size).decode(), int(ffi.cast("uintptr_t", data))])
            return 77

        ok(acl.aclInit(path.encode()))
        code = acl.aclInitCallbackRegister(4, function, ffi.cast("void *", 5))
        return code, seen

    path = tmp_path / "acl.json"
    path.write_text('{"some": "text"}')
    assert run_fresh(body, path=str(path)) == [0, [['{"some": "text"}', 5]]]


@rule("S1.45")
def test_function_that_fails() -> None:
    def body() -> Any:
        codes = [500002, 0]
        function = ffi.callback("aclInitCallbackFunc", lambda text, size, data: codes.pop(0))
        ok(acl.aclInitCallbackRegister(0, function, NULL))
        count = ffi.new("uint64_t *", 77)
        first = acl.aclInit(NULL)
        nothing = acl.aclFinalizeReference(count)
        return first, nothing, acl.aclInit(NULL)

    assert run_fresh(body) == [500002, 100037, 0]


@rule("S1.46")
def test_order_inside_finalize() -> None:
    def body() -> Any:
        seen = []
        kept = []
        for kind in (0xFFFF, 6, 3, 0):
            function = ffi.callback(
                "aclFinalizeCallbackFunc", lambda data, kind=kind: seen.append(kind) or 0
            )
            kept.append(function)
            ok(acl.aclFinalizeCallbackRegister(kind, function, NULL))
        ok(acl.aclInit(NULL))
        ok(acl.aclFinalize())
        return seen

    assert run_fresh(body) == [COMPILER, MODEL, MEDIA, OTHER]


# --- versions ----------------------------------------------------------------------------------


def version_of(home: Path, package: str, version: str | None, asked: str = "") -> Any:
    """The codes and answers of both calls for a package of an installation."""
    folder = home / "share" / "info" / package
    folder.mkdir(parents=True, exist_ok=True)
    if version is not None:
        (folder / "version.info").write_text(f"Package=x\nVersion={version}\nOther=y\n")

    def body(asked: str) -> Any:
        text, number = ffi.new("char[128]"), ffi.new("int32_t *", -1)
        name = ffi.new("char[]", asked.encode())
        codes = [acl.aclsysGetVersionStr(name, text), acl.aclsysGetVersionNum(name, number)]
        return [*codes, ffi.string(text).decode(), number[0]]

    return run_fresh(body, {"ASCEND_HOME_PATH": str(home)}, asked=asked or package)


@rule("S1.47")
def test_version_of_null() -> None:
    name = ffi.new("char[]", b"runtime")
    assert acl.aclsysGetVersionStr(NULL, ffi.new("char[128]")) == 100000
    assert acl.aclsysGetVersionStr(name, NULL) == 100000
    assert acl.aclsysGetVersionNum(NULL, ffi.new("int32_t *")) == 100000
    assert acl.aclsysGetVersionNum(name, NULL) == 100000


@rule("S1.48")
def test_version_that_is_not_there(tmp_path: Path) -> None:
    assert version_of(tmp_path, "runtime", None) == [100003, 100003, "", -1]
    assert version_of(tmp_path, "runtime", "9.1.0", "other") == [100003, 100003, "", -1]


@rule("S1.49")
def test_version_text(tmp_path: Path) -> None:
    assert version_of(tmp_path, "runtime", "9.1.0")[2] == "9.1.0"
    assert version_of(tmp_path, "oam-tools", "9.0.0-rc.1", "oam_tools")[2] == "9.0.0-rc.1"
    assert version_of(tmp_path, "ops_math", "8.5.0.alpha002", "ops-math")[2] == "8.5.0.alpha002"


@rule("S1.50")
def test_version_numbers(tmp_path: Path) -> None:
    numbers = [
        version_of(tmp_path, "runtime", text)[3]
        for text in ("9.0.0-alpha.1", "9.0.0.alpha2", "9.0.0-beta.1", "9.0.0.rc1", "9.0.0", "9.2.1")
    ]
    assert numbers == [89999701, 89999702, 89999801, 89999901, 90000000, 90201000]


@rule("S1.51")
def test_version_of_another_form(tmp_path: Path) -> None:
    for text in ("9", "nine", "9.0.0-gamma.1", "9.0.0--rc1", "9.0.0-rcx"):
        assert version_of(tmp_path, "runtime", text)[1] == 500000


@rule("S1.52")
def test_attribute_arguments() -> None:
    out = ffi.new("int32_t *")
    assert acl.aclGetCannAttribute(0, NULL) == 100000
    assert acl.aclGetCannAttribute(3, out) == 100000
    assert acl.aclGetCannAttribute(-1, out) == 100000
    assert acl.aclGetCannAttributeList(NULL, ffi.new("size_t *")) == 100000
    assert acl.aclGetCannAttributeList(ffi.new("aclCannAttr **"), NULL) == 100000


@pytest.mark.parametrize(("chip", "has"), [("A2", [1, 1, 1]), ("310P", [0, 0, 1])])
@rule("S1.53")
def test_attributes(chip: str, has: list[int]) -> None:
    def body() -> Any:
        out = ffi.new("int32_t *", -1)
        values = []
        for attr in range(3):
            ok(acl.aclGetCannAttribute(attr, out))
            values.append(out[0])
        listed, count = ffi.new("aclCannAttr **"), ffi.new("size_t *")
        ok(acl.aclGetCannAttributeList(ffi.cast("const aclCannAttr **", listed), count))
        return values, [int(listed[0][i]) for i in range(count[0])]

    assert fresh_on(chip, body) == [has, [attr for attr in range(3) if has[attr]]]
