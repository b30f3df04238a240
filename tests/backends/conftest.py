"""The stand-in toolkits, built once per test run."""

from __future__ import annotations

import pytest
from standins import Toolkit, compile_library


@pytest.fixture(scope="session")
def toolkits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Toolkit]:
    """All variants by name; built once, a second in all."""
    base = tmp_path_factory.mktemp("toolkits")
    made = {
        name: Toolkit(base / name)
        for name in (
            "full",
            "half",
            "missing_symbol",
            "no_driver",
            "stub",
            "no_card",
            "crash",
            "no_count",
        )
    }
    name = "libascendcl.so"
    compile_library(made["full"].lib64 / name)
    compile_library(made["missing_symbol"].lib64 / name, "-DWITHOUT_MALLOC")
    compile_library(made["stub"].lib64 / name, "-DCOUNT_CODE=100039", "-DDEVICES=0")
    compile_library(made["no_card"].lib64 / name, "-DDEVICES=0")
    hal = compile_library(base / "driver" / "libascend_hal.so")
    needed = ["-Wl,--no-as-needed", f"-L{hal.parent}", "-lascend_hal"]
    compile_library(made["no_driver"].lib64 / name, *needed)
    compile_library(made["half"].lib64 / name, "-DWITHOUT_MALLOC")
    compile_library(made["half"].lib64 / "libacl_rt.so", *needed)
    hal.unlink()
    for kind, text in (
        ("crash", "__attribute__((constructor)) static void die(void) { __builtin_trap(); }"),
        ("no_count", "int aclInit(const char *path) { return path != 0; }"),
    ):
        source = base / f"{kind}.c"
        source.write_text(text)
        compile_library(made[kind].lib64 / name, source=source)
    return made
