"""Presence is capability: clients ask with dlsym and switch features on when a name is there.

So what is absent must be invisible, and what is exported must stand in its own column.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import emit_facades
import model as abi
import pytest


def exports(path: Path) -> set[str]:
    """Names in the dynamic symbol table, as the linker sees them."""
    text = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[-1] for line in text.splitlines()}


def dynamic(path: Path) -> str:
    return subprocess.run(
        ["readelf", "-dW", str(path)], check=True, capture_output=True, text=True
    ).stdout


def test_every_library_name_is_there(tables: abi.Model, lib_dir: Path) -> None:
    wanted = {
        *("ascendcl", "acl_rt", "acl_mdl", "acl_op_executor", "acl_op_compiler", "acl_cblas"),
        *("acl_tdt_channel", "acl_tdt_queue", "runtime", "profapi", "msprofiler", "nnopbase"),
        *("opapi", "fmk_onnx_parser", "ge_runner", "graph", "hccl"),
    }
    shipped = {lib.name for lib in emit_facades.shipped(tables)}
    assert wanted <= shipped
    for name in shipped:
        text = dynamic(lib_dir / f"lib{name}.so")
        assert f"Library soname: [lib{name}.so]" in text
        assert "Shared library: [libascendrt_emu.so]" in text
        assert re.search(r"\(RPATH\)\s+Library rpath: \[\$ORIGIN\]", text)
        assert "NODELETE" in text


def test_a_facade_exports_its_own_column(tables: abi.Model, lib_dir: Path) -> None:
    for lib in emit_facades.shipped(tables):
        wanted = {f.name for f in tables.column(lib)} | {c.mangled for c in tables.cxx_column(lib)}
        assert exports(lib_dir / f"lib{lib.name}.so") == wanted, lib.name


def test_the_union_library_has_every_exported_function(tables: abi.Model, lib_dir: Path) -> None:
    wanted = {f.name for f in tables.functions if f.exported}
    assert exports(lib_dir / "libascendcl.so") == wanted


def test_the_core_exports_nothing_but_entries(tables: abi.Model, lib_dir: Path) -> None:
    entries = {f"art_emu_{f.name}" for f in tables.functions if f.exported}
    entries |= {f"art_emu_{c.mangled}" for c in tables.cxx if c.emu != "absent"}
    found = exports(lib_dir / "libascendrt_emu.so")
    rest = found - entries
    assert entries <= found
    assert "ascendrt_emu_marker" in rest
    assert {n for n in rest if not n.startswith("art_ctl_")} == {"ascendrt_emu_marker"}


def test_absent_names_are_null_through_every_facade(tables: abi.Model, lib_dir: Path) -> None:
    absent = [f.name for f in tables.functions if not f.exported]
    assert absent
    for lib in emit_facades.shipped(tables):
        handle = ctypes.CDLL(str(lib_dir / f"lib{lib.name}.so"))
        assert [n for n in absent if hasattr(handle, n)] == [], lib.name
        assert hasattr(handle, "ascendrt_emu_marker"), "the marker is seen through each facade"


def test_present_names_only_in_their_own_column(tables: abi.Model, lib_dir: Path) -> None:
    present = [f.name for f in tables.functions if f.exported]
    for lib in emit_facades.shipped(tables):
        handle = ctypes.CDLL(str(lib_dir / f"lib{lib.name}.so"))
        column = {f.name for f in tables.column(lib)}
        assert {n for n in present if hasattr(handle, n)} == column, lib.name


_CALL_STUBS = """
import ctypes, json, sys
folder, stubs = sys.argv[1], json.loads(sys.argv[2])
lib = ctypes.CDLL(folder + "/libascendcl.so")
lib.aclGetRecentErrMsg.restype = ctypes.c_char_p
answers, texts = {}, {}
for name, params, answer in stubs:
    function = getattr(lib, name)
    function.restype = {"pointer": ctypes.c_void_p, "void": None}.get(answer, ctypes.c_int32)
    for _ in range(2):
        answers[name] = function(*[ctypes.c_void_p(0)] * params)
    texts[name] = lib.aclGetRecentErrMsg().decode()
print(json.dumps([answers, texts]))
"""


def test_stubs_say_no_once_by_name(tables: abi.Model, lib_dir: Path) -> None:
    stubs = [f for f in tables.functions if f.emu == "stub"]
    if not stubs:
        pytest.skip("no function is a stub any more")
    rows = [(f.name, len(f.params), f.answer) for f in stubs]
    result = subprocess.run(
        [sys.executable, "-c", _CALL_STUBS, str(lib_dir), json.dumps(rows)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    answers, texts = json.loads(result.stdout)
    want = {"status": 207000, "profiling off": 0, "pointer": None, "value": 0, "void": None}
    for function in stubs:
        assert answers[function.name] == want[function.answer], function.name
        said = re.findall(rf"^\[ascendrt\] {function.name} is not emulated", result.stderr, re.M)
        assert len(said) == 1, function.name
        noted = f"{function.name}: {function.name} is not emulated" in texts[function.name]
        assert noted is (function.answer != "profiling off"), function.name


def test_cxx_stubs_leave_a_usable_object(lib_dir: Path, tables: abi.Model, tmp_path: Path) -> None:
    if all(c.emu != "stub" for c in tables.cxx):
        pytest.skip("no C++ entry is a stub any more")
    program = tmp_path / "graph.cpp"
    program.write_text(
        """
        #include <cstdint>
        #include <map>
        #include <memory>
        #include <string>
        namespace ge {
        class AscendString {
         public:
          AscendString(const char* text);
          bool operator<(const AscendString& other) const;
         private:
          std::shared_ptr<std::string> name_;
        };
        class Graph { public: explicit Graph(const char* name); std::shared_ptr<void> impl_; };
        uint32_t aclgrphBuildInitialize(std::map<AscendString, AscendString>& options);
        void aclgrphBuildFinalize();
        }
        int main() {
          std::map<ge::AscendString, ge::AscendString> options{{"a", "b"}, {"c", "d"}};
          ge::Graph graph("g");
          const uint32_t code = ge::aclgrphBuildInitialize(options);
          ge::aclgrphBuildFinalize();
          return code == 0 ? 1 : 0;
        }
        """,
        encoding="utf-8",
    )
    binary = tmp_path / "graph"
    subprocess.run(
        ["g++", "-std=c++17", program, "-o", binary, f"-L{lib_dir}", "-lfmk_onnx_parser",
         f"-Wl,-rpath,{lib_dir}", f"-Wl,-rpath-link,{lib_dir}"],
        check=True,
    )  # fmt: skip
    subprocess.run([binary], check=True, capture_output=True)
