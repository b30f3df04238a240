"""Which `acl` a program gets: ours, the vendor's, a mock; and what the import brings with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import _cffi_backend
import numpy as np
import pytest

from ascendrt import _backend, _pyacl

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installed wheel has it; an editable install finds its parts elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    own = _pyacl.own_file()
    (folder / own.name).symlink_to(own)
    package = folder / "ascendrt"
    package.mkdir()
    built = _backend.package_lib_dir().parent
    for source in (Path(_pyacl.__file__).parent, built):
        for path in source.iterdir():
            if not (package / path.name).exists() and path.name != "__pycache__":
                (package / path.name).symlink_to(path)
    return folder


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A folder with another `acl`."""
    folder = tmp_path / "toolkit" / "python" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "acl.py").write_text("who = 'the vendor'\n")
    return folder


def run(code: str, *path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process that finds packages in these folders, the first one first."""
    others = {str(Path(module.__file__ or "").parent) for module in (_cffi_backend,)}
    others |= {str(Path(np.__file__).parents[1])}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "LD_LIBRARY"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={
            **kept, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private",
            "PYTHONPATH": os.pathsep.join([*map(str, path), *others]), **environment,
        },
        cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_ours_alone(site: Path) -> None:
    done = run("import acl; print(acl.__file__, acl.init(), acl.rt.set_device(0))", site)
    assert done.stdout.split()[1:] == ["0", "0"], done.stderr
    assert done.stdout.startswith(str(site))
    assert done.stderr == ""


def test_the_vendors_wins_when_it_comes_first(site: Path, vendor: Path) -> None:
    done = run("import acl; print(acl.who)", vendor, site)
    assert (done.stdout, done.stderr) == ("the vendor\n", "")


def test_ours_first_says_so_once(site: Path, vendor: Path) -> None:
    code = "import acl, acl.rt, importlib; from acl import rt; print(acl.rt.get_device_count())"
    done = run(code, site, vendor)
    assert done.stdout == "(1, 0)\n", done.stderr
    (warning,) = re.findall(r"BackendWarning: (.*)", done.stderr)
    assert str(site) in warning and str(vendor / "acl.py") in warning
    assert "activate(acl=True)" in warning


def test_activate_forces_ours(site: Path, vendor: Path) -> None:
    code = "import ascendrt; ascendrt.activate(acl=True)\n"
    code += "import acl, acl.rt; print(acl.rt.get_device_count(), acl.__file__)"
    done = run(code, vendor, site)
    assert done.stdout.startswith(f"(1, 0) {site}"), done.stderr
    assert done.stderr == ""


def test_activate_takes_the_place_of_a_mock(site: Path) -> None:
    done = run(
        "import sys, types, ascendrt\n"
        "sys.modules['acl'] = sys.modules['acl.rt'] = types.ModuleType('acl')\n"
        "ascendrt.activate(acl=True)\n"
        "import acl, acl.rt\n"
        "from acl.rt import get_device_count\n"
        "first = acl\n"
        "ascendrt.activate(acl=True)\n"
        "print(get_device_count(), sys.modules['acl'] is first)\n",
        site,
    )
    assert done.stdout == "(1, 0) True\n", done.stderr


def test_activate_alone_loads_the_libraries(site: Path) -> None:
    done = run("import ascendrt, sys; ascendrt.activate(); print('acl' in sys.modules)", site)
    assert done.stdout == "False\n", done.stderr


def test_without_libraries_there_is_no_module(site: Path, tmp_path: Path) -> None:
    done = run("import acl", site, ASCENDRT_LIBRARY_DIR=str(tmp_path))
    assert "ImportError: acl cannot be imported: ASCENDRT_LIBRARY_DIR=" in done.stderr
    assert "holds no libascendcl.so" in done.stderr


def test_objects_and_acl_never_import_each_other(site: Path) -> None:
    code = "import sys, {0}; print(sorted(n for n in sys.modules if n.split('.')[0] in {1}))"
    done = run(code.format("acl", ("ascendrt", "numpy", "acl")), site)
    loaded = literal_eval(done.stdout)
    objects = {"ascendrt.device", "ascendrt.memory", "ascendrt.model", "ascendrt.stream"}
    assert not objects & set(loaded) and "numpy" not in loaded, loaded
    assert {f"acl.{m}" for m in ("rt", "mdl", "op", "util", "prof", "blas", "media")} <= set(loaded)
    names = "ascendrt, ascendrt.device, ascendrt.memory, ascendrt.model, ascendrt.stream"
    done = run(code.format(names, ("acl",)), site)
    assert done.stdout == "[]\n", done.stderr


def test_one_table_for_both(site: Path) -> None:
    """A handle made by the object layer is known to `acl`, and the other way round."""
    done = run(
        "import acl, ascendrt\n"
        "with ascendrt.Device(0):\n"
        "    with ascendrt.Memory(64) as memory:\n"
        "        print(acl.rt.memset(memory.address, 64, 1, 64), acl.rt.get_device())\n",
        site,
    )
    assert done.stdout == "0 (0, 0)\n", done.stderr


def test_the_example(tmp_path: Path) -> None:
    model = tmp_path / "digits.om"
    environment = {**os.environ, "ASCENDRT_BACKEND": "emu", "ASCENDRT_MACHINE": "private"}
    digits = str(ROOT / "examples" / "digits" / "digits.onnx")
    convert = ["-m", "ascendrt", "om", "convert", digits, "-o", str(model)]
    for words, cwd in ((convert, tmp_path), (["examples/pyacl_hello.py", str(model)], ROOT)):
        done = subprocess.run(
            [sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    with np.load(ROOT / "examples" / "digits" / "heldout.npz") as held_out:
        label = held_out["labels"][0]
    assert re.fullmatch(rf"Ascend910B1 says {label} \(\d+\.\d%\)\n", done.stdout)
