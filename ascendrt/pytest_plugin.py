"""pytest plug-in: an emulated machine of its own for each test that asks, and a check for leaks.

Asked for by `@pytest.mark.ascend(...)`, by the fixture `ascend`, or by `--ascend` for all tests;
else it does nothing. Owns: the mark, the fixtures, the processes in which asked tests run. Must
never load a library in the process that collects tests.

Note [A process per test]: the runtime cannot be started twice in one process: what aclInit read,
the chip, the number of devices and the clock hold until its end, as with the vendor's. So a test
that asks runs in a forked process, together with all its fixtures. They are forked from a process
that was itself forked when collection was over and has used no device (the nursery): whatever
other tests did meanwhile in the main process, a fresh machine starts from nothing. A test that
crashes is a failed test, and the others go on.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from ascendrt._census import Item
    from ascendrt.device import Device

_REQUEST = struct.Struct("=q")  # number of the item
_NEWS = struct.Struct("=qq")  # process, and 0 for "started" or its wait status + 1
_GRACE_S = 10.0
_STEPS, _WARM_UP = 20, 3
_LEAK_CHOICES = ("fail", "warn", "ignore")
_HELP = (
    "ascend(devices, soc, hbm, clock, seed, ...): run the test on an emulated machine of its own"
)


@dataclass
class Wish:
    """What a test asks of its machine; what it leaves out is as the environment says."""

    devices: int | None = None
    soc: str | None = None
    hbm: str | int | None = None
    clock: str | None = None
    seed: int | None = None
    timing: str | None = None
    memory: str | None = None
    machine: str = "private"
    leaks: str = "fail"
    timeout: float = 300.0
    env: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Return the environment of the machine."""
        named = {
            "ASCENDRT_DEVICES": self.devices,
            "ASCENDRT_SOC": self.soc,
            "ASCENDRT_HBM_SIZE": self.hbm,
            "ASCENDRT_CLOCK": self.clock,
            "ASCENDRT_SCHED_SEED": self.seed,
            "ASCENDRT_TIMING": self.timing,
            "ASCENDRT_DEVICE_MEMORY": self.memory,
            "ASCENDRT_MACHINE": self.machine,
        }
        return {name: str(value) for name, value in named.items() if value is not None} | self.env


def _wish(item: pytest.Item) -> Wish:
    """Put the marks of a test together; the one next to it counts most."""
    known = {each.name for each in fields(Wish)}
    given: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("ascend"))):
        unknown = sorted(mark.kwargs.keys() - known)
        if mark.args or unknown:
            what = f"no {', '.join(unknown)}" if unknown else "keywords only"
            raise pytest.UsageError(
                f"{item.nodeid}: the mark ascend takes {what}; known are {', '.join(sorted(known))}"
            )
        given |= mark.kwargs
    wish = Wish(**given)
    _check(item, wish)
    return wish


def _check(item: pytest.Item, wish: Wish) -> None:
    from ascendrt.cli.settings import faults

    wrong = None
    shape = {"devices": wish.devices, "soc": wish.soc, "hbm": wish.hbm}
    for (name, value), fault in zip(shape.items(), faults(*shape.values()), strict=True):
        if fault:
            wrong = f"{name}={value!r}: {fault}"
    if wish.leaks not in _LEAK_CHOICES:
        wrong = f"leaks={wish.leaks!r}: one of {', '.join(_LEAK_CHOICES)}"
    elif not isinstance(wish.timeout, (int, float)) or not wish.timeout > 0:
        wrong = f"timeout={wish.timeout!r}: seconds above 0"
    elif not isinstance(wish.env, dict) or not all(map(_is_text, chain(*wish.env.items()))):
        wrong = f"env={wish.env!r}: a dict of texts"
    elif not _is_text(wish.machine):
        wrong = f"machine={wish.machine!r}: a name"
    if wrong is not None:
        raise pytest.UsageError(f"{item.nodeid}: mark ascend, {wrong}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _asks(item: pytest.Item) -> bool:
    if item.get_closest_marker("ascend") is not None or item.config.getoption("ascend"):
        return isinstance(item, pytest.Function)
    return "ascend" in getattr(item, "fixturenames", ())


class Machine:
    """The emulated machine of a test, as its fixture `ascend` gives it."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.seed = wish.seed
        self.leaks_allowed = False

    def __repr__(self) -> str:
        return f"Machine({self.wish})"

    def live(self) -> list[Item]:
        """Return what was made through the interface and is there still."""
        from ascendrt._census import census

        gc.collect()
        return census.live()

    def allow_leaks(self) -> None:
        """Do not fail this test for what it leaves behind."""
        self.leaks_allowed = True

    def assert_no_growth(
        self, step: Callable[[], object], *, steps: int = _STEPS, warm_up: int = _WARM_UP
    ) -> None:
        """Call `step` again and again; fail when the last `steps` calls left more than there was.

        The first `warm_up` calls may fill caches. What grew is named with the line that made it.
        """
        __tracebackhide__ = True
        for _ in range(warm_up):
            step()
        before = self.live()
        for _ in range(steps):
            step()
        text = _growth(before, self.live(), steps)
        if text:
            pytest.fail(text, pytrace=False)


def _growth(before: list[Item], after: list[Item], steps: int) -> str:
    from ascendrt._census import grown

    lines = [
        f"  + {count} {newest.kind} by {newest.api} at {newest.where}"
        + (f", {newest.size_bytes} bytes each" if newest.size_bytes else "")
        for count, newest in grown(before, after)
    ]
    return "\n".join([f"{steps} steps left more behind than there was:", *lines]) if lines else ""


@pytest.fixture
def ascend(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The emulated machine of this test alone."""
    machine = _child_machine
    if machine is None:
        pytest.fail("the fixture `ascend` works only in tests that run on a machine of their own")
    yield machine


@pytest.fixture
def ascend_device(ascend: Machine) -> Iterator[Device]:
    """Device 0 of the test's machine, set on the calling thread."""
    import ascendrt

    with ascendrt.Device(0) as device:
        yield device


@pytest.fixture
def assert_no_growth(ascend: Machine) -> Callable[..., None]:
    """`assert_no_growth(step, steps=20, warm_up=3)`, see Machine.assert_no_growth."""
    return ascend.assert_no_growth


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --ascend."""
    group = parser.getgroup("ascendrt", "emulated NPUs")
    group.addoption(
        "--ascend", action="store_true", help="run every test on an emulated machine of its own"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Keep a nursery while tests run, when one of them asks; Note [A process per test]."""
    global _nursery
    asked = [item for item in session.items if _asks(item)]
    if not hasattr(session.config, "workerinput"):  # under xdist, an error of the test
        for item in asked:
            _wish(item)
    if not asked or session.config.option.collectonly:
        return (yield)
    _nursery = _Nursery(session)
    try:
        return (yield)
    finally:
        _nursery.close()
        _nursery = None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run an asked test in a process of its own."""
    if _child is not None:
        runtestprotocol(item, nextitem=None)
        return True
    if _nursery is None or not _asks(item):
        return None
    if hasattr(item.config.hook, "pytest_timeout_cancel_timer"):  # it runs in the child as well
        item.config.hook.pytest_timeout_cancel_timer(item=item)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    try:
        reports = _nursery.run(item)
    except pytest.UsageError as error:
        reports = [_broken(item, str(error))]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the machine, in a child, before the first fixture."""
    global _child_machine
    if _child is not None:
        _child_machine = _start_machine(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Look for leaks when all fixtures of an asked test are gone."""
    yield
    if _child is not None and _child_machine is not None:
        _judge_leaks(item, _child_machine)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note that a test failed: what it left behind is no failure then."""
    if _child is not None and call.excinfo is not None and call.when != "teardown":
        _child.failed = True
    return (yield)


def pytest_warning_recorded(
    warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
) -> None:
    """Hand warnings of a child's test to the main process."""
    if _child is not None:
        category = f"{warning_message.category.__module__}:{warning_message.category.__qualname__}"
        _child.warnings.append(
            [str(warning_message.message), category, warning_message.filename,
             warning_message.lineno, when, nodeid]
        )  # fmt: skip


def _judge_leaks(item: pytest.Item, machine: Machine) -> None:
    from ascendrt._census import census

    if machine.wish.leaks == "ignore" or machine.leaks_allowed:
        return
    gc.collect()
    items = census.live()
    if not items:
        return
    lines = [f"  {each}" for each in items[:20]]
    if len(items) > len(lines):
        lines.append(f"  and {len(items) - len(lines)} more")
    text = "\n".join([f"the test left {len(items)} object(s) behind:", *lines])
    if _child is not None and _child.failed:
        item.add_report_section("teardown", "ascend", text)
    elif machine.wish.leaks == "warn":
        warnings.warn(pytest.PytestWarning(text), stacklevel=1)
    else:
        pytest.fail(
            f"{text}\nFree or close them in the test, or say @pytest.mark.ascend(leaks='warn').",
            pytrace=False,
        )


@dataclass
class _Child:
    """What a process that runs one test hands over at its end."""

    reports: list[pytest.TestReport] = field(default_factory=list)
    warnings: list[list[Any]] = field(default_factory=list)
    failed: bool = False
    stop: list[Any] | None = None
    """Reason and exit code of pytest.exit, which ends the session as Ctrl-C does."""

    def keep(self, *, report: pytest.TestReport) -> None:
        """Stand in for the hook pytest_runtest_logreport."""
        self.reports.append(report)


_child: _Child | None = None
_child_machine: Machine | None = None
_nursery: _Nursery | None = None


def _start_machine(item: pytest.Item) -> Machine:
    """Make the machine that a test asked for, in its process."""
    from ascendrt import _backend, _lib
    from ascendrt._census import census

    wish = _wish(item)
    os.environ.setdefault("ASCENDRT_BACKEND", "emu")
    os.environ.update(wish.variables())
    census.start()
    count = _lib.new("uint32_t *")
    code = _lib.lib.aclrtGetDeviceCount(count)
    if code:
        pytest.fail(
            f"no machine for {item.nodeid}: {_lib.failure(code, 'aclrtGetDeviceCount')}\n"
            f"Asked for: {wish.variables()}; backend: {_backend.load().origin}.\n"
            "If a device was used while tests were collected, at the import of a test module or "
            "conftest.py, move that into a fixture.",
            pytrace=False,
        )
    return Machine(wish)


def _run_child(item: pytest.Item, path: str) -> NoReturn:
    """Run one test in this new process and leave what came of it in a file."""
    global _child, _nursery
    _child, _nursery = _Child(), None
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Reports, those of subtests among them, are shown and counted in the main process alone.
        vars(item.config.hook)["pytest_runtest_logreport"] = _child.keep
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    except KeyboardInterrupt:
        _child.stop = ["", None]
    except pytest.exit.Exception as error:
        _child.stop = [error.msg, error.returncode]
    except BaseException:
        _child.reports = [_broken(item, traceback.format_exc())]
    hook = item.config.hook
    rows = [
        hook.pytest_report_to_serializable(config=item.config, report=r) for r in _child.reports
    ]
    with open(path + ".new", "w", encoding="utf-8") as file:
        # Properties of a test may be anything.
        told = {"reports": rows, "warnings": _child.warnings, "stop": _child.stop}
        json.dump(told, file, default=repr)
    os.rename(path + ".new", path)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _broken(item: pytest.Item, text: str, *sections: tuple[str, str]) -> pytest.TestReport:
    return pytest.TestReport(
        item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call",
        sections=[section for section in sections if section[1]],
    )  # fmt: skip


class _Nursery:
    """The process that tests are forked from; Note [A process per test]."""

    def __init__(self, session: pytest.Session) -> None:
        self._numbers = {item: number for number, item in enumerate(session.items)}
        self._folder = tempfile.TemporaryDirectory(prefix="ascendrt-pytest-")
        factory = getattr(session.config, "_tmp_path_factory", None)
        if factory is not None:
            factory.getbasetemp()  # one for all, made here
        request_end, self._requests = os.pipe()
        self._news, news_end = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._requests)
            os.close(self._news)
            self._serve(session.items, request_end, news_end)
        os.close(request_end)
        os.close(news_end)

    def _path(self, number: int) -> str:
        return str(Path(self._folder.name) / str(number))

    def _serve(self, items: list[pytest.Item], requests: int, news: int) -> NoReturn:
        """Fork a child per request until the main process is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's
        while True:
            request = os.read(requests, _REQUEST.size)
            if len(request) < _REQUEST.size:
                os._exit(0)
            (number,) = _REQUEST.unpack(request)
            child = os.fork()
            if child == 0:
                os.close(requests)
                os.close(news)
                _run_child(items[number], self._path(number))
            os.write(news, _NEWS.pack(child, 0))
            _, status = os.waitpid(child, 0)
            os.write(news, _NEWS.pack(child, status + 1))

    def run(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Run a test in a child; returns its reports, or one that tells how the child ended."""
        number = self._numbers[item]
        debugged = any(item.config.getoption(name, False) for name in ("usepdb", "trace"))
        limit_s = None if debugged else _wish(item).timeout
        os.write(self._requests, _REQUEST.pack(number))
        child, _ = self._hear(None)
        try:
            news = self._hear(limit_s)
        except BaseException:
            self._end(child)
            raise
        late = news is None
        status = self._end(child) if news is None else news[1] - 1
        path = Path(self._path(number))
        if not late and path.exists():
            return self._reports(item, path)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        text = f"no end within {limit_s:g} s (mark ascend, timeout=)" if late else _ending(status)
        return [
            _broken(item, f"{item.nodeid}: {text}", ("Captured output", _leftover(item.config)))
        ]

    def _hear(self, limit_s: float | None) -> Any:
        if not select.select([self._news], [], [], limit_s)[0]:
            return None
        news = os.read(self._news, _NEWS.size)
        if len(news) < _NEWS.size:
            raise RuntimeError("the process that tests are forked from is gone")
        return _NEWS.unpack(news)

    def _end(self, child: int) -> int:
        """Kill a child, after a moment in which it writes where its threads are."""
        for number in (signal.SIGABRT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            news = self._hear(_GRACE_S)
            if news is not None:
                return int(news[1]) - 1
        return 0

    def _reports(self, item: pytest.Item, path: Path) -> list[pytest.TestReport]:
        told = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
        if told["stop"] is not None:
            reason, code = told["stop"]
            raise pytest.exit.Exception(reason, code) if reason else KeyboardInterrupt
        for text, category, filename, line, when, nodeid in told["warnings"]:
            warning = warnings.WarningMessage(text, _category(category), filename, line)
            item.config.hook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": warning, "when": when, "nodeid": nodeid, "location": None,
                }
            )  # fmt: skip
        hook = item.config.hook
        return [
            hook.pytest_report_from_serializable(config=item.config, data=_with_tuples(row))
            for row in told["reports"]
        ]

    def close(self) -> None:
        """End the nursery."""
        os.close(self._requests)
        os.waitpid(self._process, 0)
        os.close(self._news)
        self._folder.cleanup()


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    """Make a report what it was before JSON, which has lists only: pytest counts on it."""
    if isinstance(row.get("longrepr"), list):  # file, line and reason of a skip
        row["longrepr"] = tuple(row["longrepr"])
    row["user_properties"] = [tuple(each) for each in row.get("user_properties", ())]
    return row


def _category(name: str) -> type[Warning]:
    module, _, qualname = name.partition(":")
    found = getattr(sys.modules.get(module), qualname, UserWarning)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"its process was ended by {name}"
    return f"its process ended by itself, with exit status {os.waitstatus_to_exitcode(status)}"


def _leftover(config: pytest.Config) -> str:
    """What a child wrote and did not live to report."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None or not capture.is_globally_capturing():
        return ""
    out, errors = capture.read_global_capture()
    return f"{out}{errors}"
