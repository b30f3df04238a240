"""Which library set is chosen, when it warns, when it refuses: the rules of ASCENDRT_BACKEND."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from standins import Toolkit, clean_environment, compile_library

from ascendrt import _backend
from ascendrt.errors import BackendError, BackendWarning

NO_CARD = "/nonexistent/davinci*"
BROKEN = ("no_driver", "stub", "no_card", "crash", "no_count")


def choose(glob: str = NO_CARD, roots: tuple[str, ...] = (), **environ: str) -> _backend.Backend:
    return _backend.choose(clean_environment(**environ), roots=roots, device_glob=glob)


@pytest.fixture
def card(tmp_path: Path) -> str:
    """A glob that finds a device file."""
    (tmp_path / "davinci0").touch()
    return str(tmp_path / "davinci*")


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_a_toolkit_named_by_a_variable_is_used(toolkits: dict[str, Toolkit], variable: str) -> None:
    chosen = choose(**{variable: str(toolkits["full"].root)})
    assert (chosen.kind, chosen.directory) == ("real", toolkits["full"].lib64)
    assert chosen.origin == variable


def test_a_toolkit_on_the_library_path_is_used(toolkits: dict[str, Toolkit]) -> None:
    chosen = choose(LD_LIBRARY_PATH=f"/nonexistent:{toolkits['full'].lib64}")
    assert (chosen.kind, chosen.directory) == ("real", toolkits["full"].lib64)


def test_a_toolkit_in_the_standard_place_is_used(toolkits: dict[str, Toolkit]) -> None:
    chosen = choose(roots=(str(toolkits["full"].root),))
    assert (chosen.kind, chosen.directory) == ("real", toolkits["full"].lib64)


def test_without_any_toolkit_the_emulator_is_chosen_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose().kind == "emu"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("no_driver", "libascend_hal.so: cannot open shared object file"),
        ("stub", "link-time stub library"),
        ("no_card", "0 devices"),
        ("crash", "was killed by SIG"),
        ("no_count", "has no aclrtGetDeviceCount"),
    ],
)
def test_a_toolkit_that_cannot_work_gives_one_warning(
    toolkits: dict[str, Toolkit], broken: str, reason: str
) -> None:
    root = toolkits[broken].root
    with pytest.warns(BackendWarning) as caught:
        # Found by two ways: still one place, one warning.
        chosen = choose(ASCEND_HOME_PATH=str(root), LD_LIBRARY_PATH=str(root / "lib64"))
    assert chosen.kind == "emu"
    assert len(caught) == 1
    text = str(caught[0].message)
    assert str(root / "lib64" / "libascendcl.so") in text
    assert reason in text


def test_a_later_place_that_works_beats_an_earlier_broken_one(
    toolkits: dict[str, Toolkit],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = choose(
            ASCEND_HOME_PATH=str(toolkits["no_driver"].root),
            LD_LIBRARY_PATH=str(toolkits["full"].lib64),
        )
    assert (chosen.kind, chosen.directory) == ("real", toolkits["full"].lib64)
    assert "libascend_hal.so" in str(chosen.attempts[0])


@pytest.mark.parametrize("broken", BROKEN)
def test_with_device_files_a_broken_toolkit_is_an_error(
    toolkits: dict[str, Toolkit], card: str, broken: str
) -> None:
    with pytest.raises(BackendError, match="device files") as caught:
        choose(card, ASCEND_HOME_PATH=str(toolkits[broken].root))
    assert str(toolkits[broken].lib64) in str(caught.value)
    assert "ASCENDRT_BACKEND=emu" in str(caught.value)


def test_with_device_files_and_no_toolkit_it_is_an_error(card: str) -> None:
    with pytest.raises(BackendError, match="device files"):
        choose(card)


def test_emu_is_obeyed_even_with_device_files(toolkits: dict[str, Toolkit], card: str) -> None:
    chosen = choose(card, ASCENDRT_BACKEND="emu", ASCEND_HOME_PATH=str(toolkits["full"].root))
    assert (chosen.kind, chosen.directory) == ("emu", _backend.package_lib_dir())


def test_real_lists_every_place_with_its_reason(toolkits: dict[str, Toolkit]) -> None:
    with pytest.raises(BackendError) as caught:
        choose(
            ASCENDRT_BACKEND="real",
            ASCEND_HOME_PATH=str(toolkits["no_driver"].root),
            ASCEND_TOOLKIT_HOME="/nonexistent/toolkit",
            LD_LIBRARY_PATH=f"{toolkits['stub'].lib64}:/nonexistent/lib",
            roots=("/nonexistent/standard",),
        )
    lines = str(caught.value).splitlines()
    tried = [line for line in lines if line.startswith("  - ")]
    assert len(tried) == 5
    for place, reason in (
        (str(toolkits["no_driver"].lib64), "libascend_hal.so"),
        ("/nonexistent/toolkit/lib64", "no libascendcl.so"),
        (str(toolkits["stub"].lib64), "100039"),
        ("/nonexistent/lib", "no libascendcl.so"),
        ("/nonexistent/standard/lib64", "no libascendcl.so"),
    ):
        assert any(place in line and reason in line for line in tried), (place, reason, tried)


def test_our_own_facades_are_not_taken_for_real(toolkits: dict[str, Toolkit]) -> None:
    facades = str(_backend.package_lib_dir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(LD_LIBRARY_PATH=facades).kind == "emu"
    with pytest.raises(BackendError, match="library of the ascendrt emulator"):
        choose(ASCENDRT_BACKEND="real", LD_LIBRARY_PATH=facades)


def test_a_misspelt_backend_is_refused() -> None:
    with pytest.raises(BackendError, match="auto, real, emu"):
        choose(ASCENDRT_BACKEND="emulator")


def test_an_explicit_folder_is_taken_as_it_is(toolkits: dict[str, Toolkit], card: str) -> None:
    chosen = choose(card, ASCENDRT_LIBRARY_DIR=str(toolkits["no_card"].lib64))
    assert (chosen.kind, chosen.directory) == ("real", toolkits["no_card"].lib64)


def test_an_explicit_folder_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"holds no libascendcl\.so"):
        choose(ASCENDRT_LIBRARY_DIR=str(tmp_path))


def test_a_trial_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "slow.c"
    source.write_text(
        "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { sleep(60); }"
    )
    compile_library(tmp_path / "lib64" / "libascendcl.so", source=source)
    monkeypatch.setattr(_backend, "PROBE_TIMEOUT_S", 0.5)
    with pytest.warns(BackendWarning, match="did not answer within"):
        assert choose(ASCEND_HOME_PATH=str(tmp_path)).kind == "emu"
