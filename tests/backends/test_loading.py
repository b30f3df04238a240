"""What a fresh process loads and how it reports: nothing at import, one set at first use."""

from __future__ import annotations

import json

import pytest
from standins import Toolkit, run_python

MAPPED = """
import json, re
def mapped():
    names = set()
    for line in open("/proc/self/maps"):
        found = re.search(r"/(lib(?:ascend|acl|runtime|hccl)[^/]*|_cffi[^/]*)$", line.strip())
        if found:
            names.add(found.group(1))
    return sorted(names)
"""


def answer(code: str, **environ: str) -> object:
    done = run_python(MAPPED + code, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_no_library_and_no_numpy() -> None:
    code = (
        "import sys, ascendrt, ascendrt.cli, ascendrt.errors\n"
        "ascendrt.Device, ascendrt.Stream, ascendrt.AclError\n"
        "print(json.dumps([mapped(), 'numpy' in sys.modules, 'cffi' in sys.modules]))"
    )
    assert answer(code) == [[], False, False]


def test_the_real_set_answers_calls(toolkits: dict[str, Toolkit]) -> None:
    code = (
        "import ascendrt\n"
        "with ascendrt.Device(1) as device:\n"
        "    memory = ascendrt.Memory.from_array([1.0, 2.0])\n"
        "    values = memory.read((2,), 'float64').tolist()\n"
        "    memory.close()\n"
        "print(json.dumps([ascendrt.backend(), ascendrt.soc_name(), ascendrt.device_count(),"
        " values, [name for name in mapped() if 'emu' in name]]))"
    )
    result = answer(code, ASCEND_HOME_PATH=str(toolkits["full"].root))
    assert result == ["real", "StandIn1", 2, [1.0, 2.0], []]


def test_a_real_failure_carries_the_librarys_own_text(toolkits: dict[str, Toolkit]) -> None:
    code = (
        "import ascendrt\n"
        "try:\n    ascendrt.Device(7)\n"
        "except ascendrt.UsageError as error:\n"
        "    print(json.dumps([error.code, error.name, error.api, error.ids, str(error)]))"
    )
    number, name, api, ids, text = answer(code, ASCEND_HOME_PATH=str(toolkits["full"].root))  # type: ignore[misc]
    assert (number, name, api) == (107001, "ACL_ERROR_RT_INVALID_DEVICEID", "aclrtSetDevice")
    assert ids == {"device": 7, "devices": 2}
    assert "stand-in: no such device" in text


def test_a_missing_symbol_is_an_error_with_its_name(toolkits: dict[str, Toolkit]) -> None:
    code = (
        "import ascendrt\n"
        "device = ascendrt.Device(0)\n"
        "try:\n    ascendrt.Memory(64)\n"
        "except ascendrt.MissingSymbolError as error:\n"
        "    print(json.dumps([error.api, str(error)]))\n"
        "device.close()"
    )
    api, text = answer(code, ASCEND_HOME_PATH=str(toolkits["missing_symbol"].root))  # type: ignore[misc]
    assert api == "aclrtMalloc"
    assert "aclrtMalloc" in text
    assert str(toolkits["missing_symbol"].lib64) in text


def test_a_missing_symbol_that_gives_no_status_is_an_error_too(
    toolkits: dict[str, Toolkit],
) -> None:
    code = (
        "import ascendrt\nfrom ascendrt.model import Description\n"
        "try:\n    Description()\n"
        "except ascendrt.MissingSymbolError as error:\n    print(json.dumps(error.api))"
    )
    assert answer(code, ASCEND_HOME_PATH=str(toolkits["full"].root)) == "aclmdlCreateDesc"


def test_what_did_not_load_is_told_where_it_is_missed(toolkits: dict[str, Toolkit]) -> None:
    code = (
        "import ascendrt\nfrom ascendrt.cli import main\n"
        "try:\n    ascendrt.Memory(64)\n"
        "except ascendrt.MissingSymbolError as error:\n    print(' '.join(str(error).split()))\n"
        "main(['info'])"
    )
    done = run_python(code, ASCEND_HOME_PATH=str(toolkits["half"].root))
    error, *info = done.stdout.splitlines()
    (told,) = [line for line in info if line.startswith("not loaded")]
    for text in (error, told):
        assert str(toolkits["half"].lib64 / "libacl_rt.so") in text
        assert "libascend_hal.so: cannot open" in text


@pytest.mark.parametrize("broken", ["no_driver", "stub"])
def test_falling_back_warns_once_and_works(toolkits: dict[str, Toolkit], broken: str) -> None:
    code = (
        "import ascendrt\n"
        "for _ in range(3):\n    ascendrt.device_count()\n"
        "print(ascendrt.backend(), ascendrt.device_count())"
    )
    done = run_python(code, ASCEND_HOME_PATH=str(toolkits[broken].root))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["emu", "1"]
    assert done.stderr.count("BackendWarning") == 1
    assert str(toolkits[broken].lib64 / "libascendcl.so") in done.stderr


def test_a_broken_toolkit_leaves_no_trace_in_the_process(toolkits: dict[str, Toolkit]) -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import ascendrt; ascendrt.device_count()\n"
        "print(json.dumps([line.split()[-1] for line in open('/proc/self/maps')"
        " if line.rstrip().endswith('libascendcl.so')]))"
    )
    paths = answer(code, ASCEND_HOME_PATH=str(toolkits["stub"].root))
    assert isinstance(paths, list)
    assert paths
    assert not any(str(toolkits["stub"].root) in path for path in paths)


def test_a_library_that_needs_libascendcl_gets_the_loaded_one(
    toolkits: dict[str, Toolkit],
) -> None:
    code = (
        "import ctypes, ascendrt; ascendrt.device_count()\n"
        "library = ctypes.CDLL('libascendcl.so')\n"
        "print(json.dumps(hasattr(library, _backend.MARKER)))"
    )
    assert answer(code) is True


def test_many_threads_load_one_set() -> None:
    code = (
        "import threading, ascendrt\n"
        "calls = []\n"
        "chosen = _backend.choose\n"
        "_backend.choose = lambda *a, **k: (calls.append(1), chosen(*a, **k))[1]\n"
        "barrier = threading.Barrier(8)\n"
        "counts = []\n"
        "def work():\n    barrier.wait(); counts.append(ascendrt.device_count())\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "print(json.dumps([len(calls), counts]))"
    )
    assert answer(code) == [1, [1] * 8]


def test_with_device_files_the_error_reaches_the_user(
    toolkits: dict[str, Toolkit], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("dev")
    (folder / "davinci0").touch()
    done = run_python(
        "from ascendrt.cli import main; raise SystemExit(main(['info']))",
        glob=str(folder / "davinci*"),
        ASCEND_HOME_PATH=str(toolkits["no_driver"].root),
    )
    assert done.returncode == 1
    assert "libascend_hal.so" in done.stderr
    assert "Traceback" not in done.stderr
