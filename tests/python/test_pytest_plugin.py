"""The pytest plug-in: what a test that asks gets, and what it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PLUGIN = "ascendrt.pytest_plugin"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner sessions see neither the settings of this one nor its plug-ins."""
    for name in [n for n in os.environ if n.startswith(("ASCEND", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("ASCENDRT_MACHINE", "private")
    monkeypatch.setenv("ASCENDRT_BACKEND", "emu")


def inner(pytester: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(code)
    return pytester.runpytest_subprocess("-p", PLUGIN, *options, timeout=120)


def test_each_test_has_a_machine_as_it_asks(pytester: pytest.Pytester) -> None:
    inner(pytester, """
        import os
        import acl, pytest
        import ascendrt

        pytestmark = pytest.mark.ascend(soc="Ascend310P3")

        @pytest.mark.ascend(devices=2, hbm="1GiB")
        def test_one(ascend, tmp_path):
            assert acl.init() == 0
            assert ascendrt.device_count() == 2
            assert ascendrt.soc_name() == "Ascend310P3"
            with ascendrt.Device(1) as device:
                assert device.memory().total_bytes == 1 << 30

        @pytest.mark.ascend(soc="Ascend910B4", clock="virtual", seed=5, env={"FROM_MARK": "x"})
        def test_two(ascend):
            assert acl.init() == 0  # nobody was here before
            assert ascendrt.device_count() == 1
            assert ascendrt.soc_name() == "Ascend910B4"
            assert ascendrt.clock().is_virtual
            assert ascend.seed == 5 and os.environ["FROM_MARK"] == "x"

        @pytest.mark.ascend(devices=0)
        def test_none(ascend):
            assert ascendrt.device_count() == 0

        def test_device(ascend_device):
            with ascendrt.Memory(64) as memory:
                memory.fill(1)
    """).assert_outcomes(passed=4)  # fmt: skip


def test_pytest_starts_without_a_warning(pytester: pytest.Pytester) -> None:
    """Also when the package is installed editable: its finder is imported before pytest is."""
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_subprocess(
        "-W", "error::pytest.PytestAssertRewriteWarning", timeout=120
    )
    result.assert_outcomes(passed=1, warnings=0)
    result.stderr.no_fnmatch_line("*cannot be rewritten*")


def test_who_does_not_ask_stays_in_the_process(pytester: pytest.Pytester) -> None:
    """Also beside tests that ask: what those start from is not what the others did."""
    inner(pytester, """
        import os, sys
        import pytest
        main = os.getpid()

        def test_first():
            import acl
            assert os.getpid() == main
            assert acl.init() == 0 and acl.rt.set_device(0) == 0
            acl.rt.malloc(64, 0)  # a leak that nobody asked about

        @pytest.mark.ascend
        def test_asks():
            import acl
            assert os.getpid() != main
            assert acl.init() == 0

        def test_last():
            import acl
            assert os.getpid() == main and acl.init() == 100002
            assert "ascendrt._census" not in sys.modules
    """).assert_outcomes(passed=3)  # fmt: skip


def test_leaks_are_named_with_their_lines(pytester: pytest.Pytester) -> None:
    result = inner(pytester, """
        import acl, pytest
        import ascendrt

        @pytest.mark.ascend
        def test_leaves():
            acl.init(); acl.rt.set_device(0)
            acl.rt.malloc(1000, 0)
            acl.rt.malloc_host(200)
            event = acl.rt.create_event()[0]
            context = acl.rt.create_context(0)[0]
            stream = acl.rt.create_stream()[0]      # ends with its context
            acl.rt.destroy_context(context)
            acl.mdl.create_dataset()

        @pytest.mark.ascend
        def test_gives_back(ascend_device):
            kept = ascendrt.Memory(64), ascendrt.Stream(), ascendrt.Event()
            pointer = acl.rt.malloc(1000, 0)[0]
            acl.rt.free(pointer)
            for each in kept:
                each.close()

        @pytest.mark.ascend(leaks="ignore")
        def test_ignores():
            acl.init(); acl.rt.set_device(0); acl.rt.malloc(1000, 0)

        @pytest.mark.ascend
        def test_allows(ascend):
            acl.init(); acl.rt.set_device(0); acl.rt.malloc(1000, 0)
            ascend.allow_leaks()

        @pytest.mark.ascend(leaks="warn")
        def test_warns():
            acl.init(); acl.rt.set_device(0); acl.rt.malloc(1000, 0)
    """)  # fmt: skip
    result.assert_outcomes(passed=5, errors=1, warnings=1)
    result.stdout.fnmatch_lines([
        "the test left 4 object(s) behind:",
        "  device memory 0x* of 1000 bytes, aclrtMalloc at *test_leaks*.py:7 in test_leaves",
        "  pinned memory 0x* of 200 bytes, aclrtMallocHost at *.py:8 in test_leaves",
        "  event 0x*, aclrtCreateEvent at *.py:9 in test_leaves",
        "  dataset 0x*, aclmdlCreateDataset at *.py:13 in test_leaves",
    ])  # fmt: skip
    result.stdout.fnmatch_lines(["*PytestWarning: the test left 1 object(s) behind:"])


def test_a_failed_test_is_not_failed_again_for_its_leaks(pytester: pytest.Pytester) -> None:
    result = inner(pytester, """
        import acl, pytest

        @pytest.mark.ascend
        def test_fails():
            acl.init(); acl.rt.set_device(0); acl.rt.malloc(1000, 0)
            assert [1, 2] == [1, 3]
    """)  # fmt: skip
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E       assert [[]1, 2] == [[]1, 3]", "E*At index 1 diff: 2 != 3"]
    )


def test_growth_is_named(pytester: pytest.Pytester) -> None:
    result = inner(pytester, """
        import acl, pytest
        import ascendrt

        def test_grows(ascend_device, assert_no_growth):
            kept = []
            assert_no_growth(lambda: kept.append(acl.create_data_buffer(0, 8)), steps=10)

        @pytest.mark.ascend(leaks="ignore")
        def test_a_cache_that_fills_does_not(ascend_device, assert_no_growth):
            cache = {}

            def step():
                if len(cache) < 3:
                    cache[len(cache)] = acl.create_data_buffer(0, 8)
                ascendrt.Memory(100).close()

            assert_no_growth(step, steps=10, warm_up=3)
    """)  # fmt: skip
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "10 steps left more behind than there was:",
        "  + 10 data buffer by aclCreateDataBuffer at *.py:6 in <lambda>",
    ])  # fmt: skip


def test_a_crash_and_a_hang_are_failed_tests(pytester: pytest.Pytester) -> None:
    result = inner(pytester, """
        import os, time
        import acl, pytest

        @pytest.mark.ascend
        def test_touches_device_memory():
            acl.init(); acl.rt.set_device(0)
            acl.util.ptr_to_bytes(acl.rt.malloc(1000, 0)[0], 8)

        @pytest.mark.ascend(timeout=1)
        def test_hangs():
            time.sleep(600)

        @pytest.mark.ascend
        def test_leaves_the_process():
            os._exit(3)

        @pytest.mark.ascend
        def test_goes_on(capfd):
            assert acl.init() == 0
    """)  # fmt: skip
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines([
        "*test_touches_device_memory: its process was ended by SIGSEGV",
        "*the host touched device memory*allocation of 1000 bytes, 1056 with padding,*",
        "*test_hangs: no end within 1 s (mark ascend, timeout=)",
        "*test_leaves_the_process: its process ended by itself, with exit status 3",
    ])  # fmt: skip


def test_reports_come_as_pytest_makes_them(pytester: pytest.Pytester) -> None:
    """The summary of skips ended pytest, and so did a property that is no plain value."""
    result = inner(pytester, """
        import pytest

        @pytest.mark.ascend
        def test_skipped():
            pytest.skip("no reason")

        @pytest.mark.ascend
        def test_property(record_property):
            record_property("made", object())
    """, "-rA", "--junitxml=out.xml")  # fmt: skip
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] *no reason"])


def test_failing_subtests_fail(pytester: pytest.Pytester) -> None:
    code = """
        import unittest
        import pytest

        @pytest.mark.ascend
        def test_parts(subtests):
            for number in range(3):
                with subtests.test("part", number=number):
                    assert number != 1

        @pytest.mark.ascend
        class TestParts(unittest.TestCase):
            def test_sub(self):
                for number in range(3):
                    with self.subTest(number=number):
                        self.assertNotEqual(number, 2)
    """
    result = inner(pytester, code, "-rA")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    for told in ("assert 1 != 1", "2 == 2", "2 failed, 2 passed"):
        assert told in text, text


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("device=2", "takes no device; known are clock, devices, env, hbm"),
        ("2", "takes keywords only"),
        ("devices=-1", "devices=-1: a number from 0 to 64"),
        ("hbm='lots'", "hbm='lots': a size from 2M to 1T"),
        ("soc='Ascend910b1'", "soc='Ascend910b1': no chip is called so; did you mean Ascend910B1"),
        ("leaks='maybe'", "leaks='maybe': one of fail, warn, ignore"),
        ("timeout=0", "timeout=0: seconds above 0"),
        ("timeout='x'", "timeout='x': seconds above 0"),
        ("env=5", "env=5: a dict of texts"),
        ("env={'A': 1}", "env={'A': 1}: a dict of texts"),
        ("machine=7", "machine=7: a name"),
    ],
)
def test_wrong_marks_are_refused(pytester: pytest.Pytester, mark: str, words: str) -> None:
    result = inner(pytester, f"""
        import pytest

        @pytest.mark.ascend({mark})
        def test_it():
            pass
    """)  # fmt: skip
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*test_it: *{words}*"])


def test_a_wrong_mark_is_told_by_parallel_workers(pytester: pytest.Pytester) -> None:
    code = """
        import pytest

        @pytest.mark.ascend(device=1)
        def test_wrong(): pass

        def test_right(): pass
    """
    result = inner(pytester, code, "-p", "xdist", "-n", "2")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*test_wrong: the mark ascend takes no device; known are *"])


@pytest.mark.parametrize(
    ("word", "ending", "code"),
    [
        ("pytest.exit('enough', returncode=7)", "*Exit: enough*", 7),
        ("raise KeyboardInterrupt", "*KeyboardInterrupt*", pytest.ExitCode.INTERRUPTED),
    ],
)
def test_a_test_may_end_the_session(
    pytester: pytest.Pytester, word: str, ending: str, code: int
) -> None:
    result = inner(pytester, f"""
        import pytest

        @pytest.mark.ascend
        def test_last():
            {word}

        def test_never(): pass
    """)  # fmt: skip
    result.stdout.fnmatch_lines([ending])
    result.assert_outcomes()
    assert result.ret == code


def test_wrong_settings_and_early_use_are_told(pytester: pytest.Pytester) -> None:
    result = inner(pytester, """
        import pytest

        @pytest.mark.ascend(env={"ASCENDRT_SOC": "Ascend1"})
        def test_it():
            pass
    """)  # fmt: skip
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["no machine for *test_it: *", "*ASCENDRT_SOC='Ascend1' is no known SoC*"]
    )
    result = inner(pytester, """
        import acl, pytest
        acl.init(); acl.rt.set_device(0)

        @pytest.mark.ascend
        def test_it():
            pass
    """)  # fmt: skip
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no machine for *test_it: *", "*while tests were collected*"])


def test_all_tests_by_option_and_nothing_by_itself(pytester: pytest.Pytester) -> None:
    code = """
        import os
        main = os.getpid()

        def test_it():
            import acl
            assert os.getpid() {}= main
    """
    inner(pytester, code.format("!"), "--ascend").assert_outcomes(passed=1)
    inner(pytester, code.format("=")).assert_outcomes(passed=1)


def test_the_entry_point_is_the_same_plug_in(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import entry_points

    (entry,) = [e for e in entry_points(group="pytest11") if "ascendrt" in e.value]
    assert entry.name == entry.value == PLUGIN
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    pytester.makepyfile("""
        import sys, pytest

        def test_plain():
            assert not {"numpy", "ascendrt._cffi", "ascendrt._lib"} & sys.modules.keys()

        @pytest.mark.ascend(devices=3)
        def test_asks():
            import ascendrt
            assert ascendrt.device_count() == 3
    """)
    for options in ((), ("-p", PLUGIN)):
        done = pytester.runpytest_subprocess(*options, "-p", "no:hypothesispytest", timeout=120)
        done.assert_outcomes(passed=2)


def test_parallel_workers_do_not_meet(pytester: pytest.Pytester) -> None:
    """Each worker's tests fill their devices to the last byte."""
    result = inner(pytester, """
        import acl, os, pytest

        # Named: a private machine would be that of the process around this run, where it has one.
        @pytest.mark.parametrize("number", range(6))
        @pytest.mark.ascend(hbm="64MiB", machine=f"filled-{os.getpid()}")
        def test_fills_the_device(number):
            acl.init(); acl.rt.set_device(0)
            pointer, code = acl.rt.malloc(60 << 20, 0)
            assert code == 0
            acl.rt.free(pointer)
    """, "-p", "xdist", "-n", "2")  # fmt: skip
    for path in Path("/dev/shm").glob(f"ascendrt-{os.geteuid()}-filled-*"):
        path.unlink()
    result.assert_outcomes(passed=6)
