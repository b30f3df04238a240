"""The public headers compile alone and together, as C11 and as C++17, without a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

import model as abi
import pytest

LANGUAGES = {
    "c11": ["gcc", "-std=c11", "-x", "c"],
    "c++17": ["g++", "-std=c++17", "-x", "c++"],
}
HEADERS = [h.path for h in abi.load().headers if h.path]


def compile_text(root: Path, language: str, text: str) -> str:
    """The compiler's complaints; empty when it has none."""
    include = root / "csrc" / "gen" / "include"
    result = subprocess.run(
        [*LANGUAGES[language], "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
         f"-I{include}", f"-I{include / 'acl'}", "-"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return result.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone(root: Path, language: str, header: str) -> None:
    twice = f'#include "{header}"\n#include "{header}"\n'
    assert compile_text(root, language, twice) == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_headers_compile_together(root: Path, language: str) -> None:
    text = "".join(f'#include "{h}"\n' for h in HEADERS)
    assert compile_text(root, language, text) == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_both_spellings_of_an_include(root: Path, language: str) -> None:
    text = '#include "acl.h"\n#include "acl/acl.h"\naclError f(void) { return aclInit(0); }\n'
    assert compile_text(root, language, text) == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_names_programs_use(root: Path, language: str) -> None:
    text = """
    #include "acl/acl.h"
    int use(void);
    int use(void) {
      ACL_APP_LOG(ACL_INFO, "text %d", 1);
      dim3 grid = {1, 2, 3};
      aclmdlIODims dims;
      dims.dimCount = grid.x;
      return ACL_ERROR_RT_PARAM_INVALID + ACL_MEMCPY_HOST_TO_DEVICE + (int)dims.dimCount;
    }
    """
    assert compile_text(root, language, text) == ""


def test_layouts_hold_in_c_too(root: Path, tables: abi.Model) -> None:
    lines = [f'#include "{h}"' for h in HEADERS] + ["#include <assert.h>"]
    for struct in tables.structs:
        lines.append(f'static_assert(sizeof({struct.kind} {struct.name}) == {struct.size}, "");')
    for enum in tables.enums:
        lines += [f'static_assert({n} == {v}, "{n}");' for n, v in enum.current]
    assert compile_text(root, "c11", "\n".join(lines) + "\n") == ""
