"""Pains with init, the end of the process, forks, and machines without a card."""

from __future__ import annotations

import subprocess
import sys

import pytest
from painprograms import Program, environment

pain = pytest.mark.pain


@pain(37)
def test_two_libraries_initialise(program: Program) -> None:
    run = program("""
        codes = [acl.init(), acl.init()]
        answer(codes, acl.rt.set_device(0), acl.rt.malloc(64, 0)[-1])
    """)
    assert run.answer == [[0, 100002], 0, 0]


@pain(39)
def test_another_configuration(program: Program) -> None:
    run = program("""
        for name, text in (("a.json", {"dump": {}}), ("b.json", {"profiler": {}})):
            with open(name, "w") as file:
                json.dump(text, file)
        answer(acl.init("a.json"), acl.finalize(), acl.init("b.json"), told())
    """)
    *codes, text = run.answer
    assert codes == [0, 0, 100000]
    assert "the configuration differs from the one of the first aclInit" in text


@pain(41)
def test_counts_of_init(program: Program) -> None:
    run = program("""
        answer([acl.init() for _ in range(3)], acl.finalize(), acl.finalize(), told())
        answer([acl.init() for _ in range(3)], [acl.finalize_reference() for _ in range(4)])
    """)
    (inits, first, second, text), (_, references) = run.answers
    assert (inits, first, second) == ([0, 100002, 100002], 0, 100037)
    assert "aclFinalize was called twice" in text
    assert references == [[2, 0], [1, 0], [0, 0], [0, 100037]]


@pain(43)
def test_a_wrapper_that_gives_back_at_exit(program: Program) -> None:
    run = program("""
        class Resource:
            def init(self):
                acl.init(); acl.rt.set_device(0)
                self.context = acl.rt.create_context(0)[0]
                self.stream = acl.rt.create_stream()[0]
            def __del__(self):
                codes = [acl.rt.destroy_stream(self.stream), acl.rt.destroy_context(self.context),
                         acl.rt.reset_device(0), acl.finalize()]
                os.write(1, f"at exit {codes}\\n".encode())
        kept, again = Resource(), Resource()
        kept.init(); again.init()
        acl.finalize()
        sys.modules["kept"] = kept  # lives until the interpreter is torn down
    """)
    assert run.code == 0, run.errors
    assert sum(line.startswith("at exit [") for line in run.lines) == 2


@pain(45)
def test_an_end_with_everything_alive(program: Program) -> None:
    run = program("""
        import threading, time
        acl.init(); acl.rt.set_device(0)
        context, stream = acl.rt.get_context()[0], acl.rt.create_stream()[0]
        def serve():
            acl.rt.set_context(context)
            while True:
                acl.rt.process_report(10)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        acl.rt.subscribe_report(thread.ident, stream)
        for _ in range(50):
            acl.rt.launch_callback(time.sleep, 0.001, 1, stream)
        answer("over")
    """)
    assert run.answer == ["over"]
    assert "terminate" not in run.errors and "Fatal" not in run.errors


@pain(47)
def test_loaded_and_never_used(program: Program) -> None:
    """No thread, no file of a machine, no device: importing does nothing."""
    run = program("""
        import threading
        answer(len(os.listdir("/proc/self/task")), acl.rt.get_run_mode is not None)
    """)
    assert run.answer[0] == 1


@pain(49)
@pain(51)
def test_forked_workers(program: Program) -> None:
    run = program("""
        from ascendrt import _lib
        def forked(work):
            child = os.fork()
            if child == 0:
                work(); os._exit(0)
            os.waitpid(child, 0)
        def used():
            acl.init()
            answer(acl.rt.set_device(0), told())
        forked(used)      # the parent did nothing yet
        acl.init(); acl.rt.set_device(0)
        forked(used)
        answer(acl.rt.malloc(64, 0)[-1])
    """)
    before, after, parent = run.answers
    assert before[0] == 0 and parent == [0]
    assert after[0] != 0
    assert "was forked from one that already used the runtime" in after[1]
    assert "'spawn'" in after[1]


@pain(51)
def test_is_it_in_use(program: Program) -> None:
    """The state of a primary context tells, and starts nothing."""
    run = program("""
        before = acl.rt.get_primary_ctx_state(0)
        acl.init(); acl.rt.set_device(0)
        answer(before, acl.rt.get_primary_ctx_state(0))
    """)
    (before, _, first), (after, _, second) = run.answer
    assert (before, first, after, second) == (0, 0, 1, 0)


@pain(53)
def test_streams_of_two_processes(program: Program) -> None:
    """The budget is the device's: what one process holds, the other one lacks."""
    run = program("""
        import subprocess
        code = (
            "import acl, sys; acl.init(); acl.rt.set_device(0)\\n"
            "for _ in range(1500): acl.rt.create_stream()\\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        acl.init(); acl.rt.set_device(0)
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as other:
            other.stdout.readline()
            made = 0
            while (made := made + 1) < 4000:
                code = acl.rt.create_stream()[1]
                if code:
                    break
            answer(made, code, told())
            other.communicate("")
    """)
    made, code, text = run.answer
    assert made < 600 and code == 207008
    assert "streams of device 0" in text and "destroy streams" in text


@pain(161)
@pain(179)
def test_questions_on_machines_with_and_without_devices(program: Program) -> None:
    code = "answer(acl.rt.get_device_count(), acl.get_soc_name())"
    assert program(code, ASCENDRT_DEVICES="0").answer[0] == [0, 0]
    assert program(code, ASCENDRT_DEVICES="8", ASCENDRT_SOC="Ascend910B3").answer == [
        [8, 0], "Ascend910B3",
    ]  # fmt: skip


@pain(179)
def test_objects_answer_as_well() -> None:
    code = "import ascendrt; print(ascendrt.device_count())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(ASCENDRT_DEVICES="0"),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
