"""The function table of csrc/binding.h over libraries of our own: found, missing, variadic.

The table is one per process, so each case runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_FIRST = """
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
static char g_text[2048];
int aclrtGetDeviceCount(uint32_t *count) { *count = 3; return 0; }
int aclrtSetDevice(int32_t id) { return id == 7 ? 107001 : 0; }
const char *aclrtGetSocName(void) { return g_text; }
void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
  va_list arguments;
  va_start(arguments, fmt);
  const int used = snprintf(g_text, sizeof(g_text), "%d %s %s %u ", level, func, file, line);
  vsnprintf(g_text + used, sizeof(g_text) - used, fmt, arguments);
  va_end(arguments);
}
"""
_SECOND = """
int aclrtSetDevice(int id) { (void)id; return 500000; }
int aclrtResetDevice(int id) { return id; }
"""
_HEAD = """
import sys
from ascendrt._cffi import ffi, lib

def open_library(path):
    error = ffi.new("char[]", 300)
    handle = lib.art_bind_open(path.encode(), error, 300)
    return handle, ffi.string(error).decode()

first, second = (open_library(path)[0] for path in sys.argv[1:3])
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("standins")
    paths = []
    for name, text in (("first", _FIRST), ("second", _SECOND)):
        (folder / f"{name}.c").write_text(text, encoding="utf-8")
        target = folder / f"lib{name}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", folder / f"{name}.c", "-o", target], check=True)
        paths.append(str(target))
    return paths


def run(libraries: list[str], body: str) -> None:
    program = _HEAD + textwrap.dedent(body)
    result = subprocess.run(
        [sys.executable, "-c", program, *libraries], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_the_first_library_wins(libraries: list[str]) -> None:
    run(
        libraries,
        """
        assert lib.art_bind_table([first, second], 2) == 5
        assert lib.art_bind_symbol_count() == 5
        assert lib.aclrtSetDevice(7) == 107001
        assert lib.aclrtResetDevice(11) == 11
        assert ffi.string(lib.art_bind_origin(b"aclrtSetDevice")).decode() == sys.argv[1]
        assert ffi.string(lib.art_bind_origin(b"aclrtResetDevice")).decode() == sys.argv[2]
        assert lib.art_bind_origin(b"aclrtMalloc") == ffi.NULL
        assert lib.art_bind_table([second, first], 2) == 5
        assert lib.aclrtSetDevice(7) == 500000
        """,
    )


def test_a_missing_function_answers_by_type_and_is_named(libraries: list[str]) -> None:
    run(
        libraries,
        """
        lib.art_bind_table([first], 1)
        assert lib.art_has(b"aclrtSetDevice") and not lib.art_has(b"aclrtMalloc")
        assert not lib.art_has(b"strlen") and not lib.art_has(b"")
        assert lib.art_missing() == ffi.NULL
        assert lib.aclrtMalloc(ffi.NULL, 1, 0) == 207000
        assert ffi.string(lib.art_missing()) == b"aclrtMalloc"
        assert lib.art_missing() == ffi.NULL
        assert lib.aclCreateDataBuffer(ffi.NULL, 0) == ffi.NULL
        assert lib.aclGetDataBufferSizeV2(ffi.NULL) == 0
        assert lib.MsprofReportApi(0, ffi.NULL) == 0
        assert lib.aclDestroyTensorDesc(ffi.NULL) is None
        assert ffi.string(lib.art_missing()) == b"aclDestroyTensorDesc"
        """,
    )


def test_missing_names_are_noted_per_thread(libraries: list[str]) -> None:
    run(
        libraries,
        """
        import threading
        worker = threading.Thread(target=lambda: lib.aclrtMalloc(ffi.NULL, 1, 0))
        worker.start()
        worker.join()
        assert lib.art_missing() == ffi.NULL
        """,
    )


def test_nothing_is_bound_before_and_after(libraries: list[str]) -> None:
    run(
        libraries,
        """
        assert lib.art_bind_symbol_count() == 0
        assert lib.aclrtSetDevice(0) == 207000
        lib.art_bind_table([first], 1)
        lib.art_bind_reset()
        assert lib.aclrtSetDevice(0) == 207000
        assert lib.art_bind_symbol(b"aclrtSetDevice") == ffi.NULL
        """,
    )


def test_looking_at_a_library_binds_nothing(libraries: list[str]) -> None:
    run(
        libraries,
        """
        count = ffi.new("uint32_t *")
        assert lib.art_bind_device_count(first, count) == 0 and count[0] == 3
        assert lib.art_bind_device_count(second, count) == -1
        assert not lib.art_bind_is_emulator(first)
        assert lib.art_bind_has_symbol(first, b"aclrtSetDevice")
        assert not lib.art_bind_has_symbol(second, b"aclAppLog")
        assert lib.art_bind_symbol_count() == 0
        """,
    )


def test_the_loaders_reason_is_handed_on(libraries: list[str]) -> None:
    run(
        libraries,
        """
        handle, reason = open_library("/nowhere/libascendcl.so")
        assert handle == ffi.NULL and "/nowhere/libascendcl.so" in reason
        short = ffi.new("char[]", 8)
        assert lib.art_bind_open(b"/nowhere/x.so", short, 8) == ffi.NULL
        assert len(ffi.string(short)) == 7
        assert lib.art_bind_open(b"/nowhere/x.so", ffi.NULL, 0) == ffi.NULL
        """,
    )


def test_the_variadic_log_call_is_formatted_once(libraries: list[str]) -> None:
    run(
        libraries,
        """
        lib.art_bind_table([first], 1)
        text = ffi.new("char[]", b"part")
        lib.aclAppLog(1, b"f", b"g.c", 5, b"%d%% of %s", ffi.cast("int", 50), text)
        assert ffi.string(lib.aclrtGetSocName()) == b"1 f g.c 5 50% of part"
        """,
    )


def test_slots_are_listed_by_name(libraries: list[str], root: Path) -> None:
    run(
        libraries,
        """
        names = [ffi.string(lib.art_bind_slot_name(i)).decode()
                 for i in range(lib.art_bind_slot_count())]
        assert names == sorted(names) and len(names) == 853
        assert lib.art_bind_slot_name(-1) == ffi.NULL
        assert lib.art_bind_slot_name(len(names)) == ffi.NULL
        assert all(hasattr(lib, name) for name in names)
        """,
    )
