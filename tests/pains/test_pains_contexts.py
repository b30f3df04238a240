"""Pains with threads, devices and handles: the code people get, and a text that names the cause."""

from __future__ import annotations

import pytest
from painprograms import Program

pain = pytest.mark.pain
IN_THREAD = """
import threading
def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


@pain(1)
@pain(3)
def test_a_thread_without_context(program: Program) -> None:
    run = program(f"""{IN_THREAD}
acl.init(); acl.rt.set_device(0); acl.rt.create_context(0)
in_thread(lambda: answer(acl.rt.malloc(64, 0), told()))
""")
    (pointer, code), text = run.answer
    assert (pointer, code) == (0, 107002)
    assert "aclrtMalloc: the calling thread has no context" in text
    assert "a new thread starts without one: call aclrtSetDevice" in text


@pain(5)
@pain(11)
def test_calls_before_a_device_is_set(program: Program) -> None:
    run = program("""
        acl.init()
        answer(acl.rt.get_mem_info(1)[-1], told(), acl.rt.malloc(64, 2)[-1], told())
    """)
    code, text, second, _ = run.answer
    assert (code, second) == (107002, 107002)
    assert "aclrtGetMemInfo" in text and "call aclrtSetDevice" in text


@pain(11)
def test_a_default_device(program: Program) -> None:
    run = program("""
        with open("acl.json", "w") as file:
            json.dump({"defaultDevice": {"default_device": "0"}}, file)
        acl.init("acl.json")
        answer(acl.rt.malloc(64, 2)[-1])
    """)
    assert run.answer == [0]


@pain(7)
def test_the_current_device_before_it_is_set(program: Program) -> None:
    run = program("""
        acl.init()
        before = acl.rt.get_device()[-1], acl.rt.get_context()[-1], told()
        acl.rt.set_device(0)
        answer(*before, acl.rt.get_device())
    """)
    device, context, text, after = run.answer
    assert (device, context, after) == (107002, 107002, [0, 0])
    assert "aclrtGetDevice: the calling thread has set no device" in text


@pain(9)
def test_a_profiler_on_a_thread_without_device(program: Program) -> None:
    run = program(f"""{IN_THREAD}
acl.init(); acl.rt.set_device(0)
in_thread(lambda: answer(acl.prof.init("out")))
""")
    assert run.answer[0] != 0  # a code, and the process lives


@pain(13)
def test_a_stream_of_another_device(program: Program) -> None:
    run = program(
        """
        acl.init()
        acl.rt.set_device(0); stream = acl.rt.create_stream()[0]
        acl.rt.set_device(1); acl.rt.create_stream()
        answer(acl.rt.destroy_stream(stream), told())
        """,
        ASCENDRT_DEVICES="2",
    )
    code, text = run.answer
    assert code == 107003
    assert "belongs to context 0 of device 0" in text
    assert "the calling thread's current context is 1 of device 1" in text


@pain(15)
def test_events_between_devices(program: Program) -> None:
    """A stream of a context that is not current is refused; waits across devices work."""
    run = program(
        """
        acl.init()
        acl.rt.set_device(0); event, first = acl.rt.create_event()[0], acl.rt.create_stream()[0]
        acl.rt.set_device(1); second = acl.rt.create_stream()[0]
        refused = acl.rt.record_event(event, first), told()
        acl.rt.set_device(0); recorded = acl.rt.record_event(event, first)
        acl.rt.set_device(1); waits = acl.rt.stream_wait_event(second, event)
        answer(*refused, recorded, waits, acl.rt.synchronize_stream(second))
        """,
        ASCENDRT_DEVICES="2",
    )
    code, text, *rest = run.answer
    assert code == 107003 and "of device 0" in text and "of device 1" in text
    assert rest == [0, 0, 0]


@pain(17)
def test_a_stream_that_was_destroyed(program: Program) -> None:
    run = program("""
        acl.init(); acl.rt.set_device(0)
        stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]
        acl.rt.record_event(event, stream)
        acl.rt.destroy_stream(stream)
        answer(acl.rt.synchronize_stream(stream), told(), acl.rt.synchronize_event(event))
    """)
    code, text, event = run.answer
    assert code == 107017 and "it was destroyed" in text and event == 0


@pain(19)
def test_the_number_of_the_machine_in_a_worker(program: Program) -> None:
    run = program(
        "acl.init(); answer(acl.rt.set_device(1), told(), acl.rt.set_device(0))",
        ASCENDRT_DEVICES="2", ASCEND_RT_VISIBLE_DEVICES="1",
    )  # fmt: skip
    code, text, right = run.answer
    assert (code, right) == (107001, 0)
    assert "device id 1 is outside [0, 1)" in text
    assert "ASCEND_RT_VISIBLE_DEVICES='1' shows 1 devices, and programs number them from 0" in text


@pain(21)
def test_a_wrong_entry_in_the_list(program: Program) -> None:
    run = program(
        "acl.init(); answer(acl.rt.get_device_count(), acl.rt.set_device(3), told())",
        ASCENDRT_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES="0,1,3,4",
    )  # fmt: skip
    count, code, text = run.answer
    assert (count, code) == ([3, 0], 107001)
    assert "ASCEND_RT_VISIBLE_DEVICES='0,1,3,4' shows 3 devices" in text
    assert "its entry 4 is no id of the 4 devices of this machine, so the list ends before" in text


@pain(23)
@pain(25)
@pytest.mark.parametrize(
    ("devices", "visible", "reason"),
    [("4", "1,2,2", "its ids must ascend and not repeat"),
     ("1", "4", "its first entry is no id of the 1 devices of this machine")],
)  # fmt: skip
def test_lists_that_show_nothing(program: Program, devices: str, visible: str, reason: str) -> None:
    run = program(
        "acl.init(); answer(acl.rt.set_device(0), told())",
        ASCENDRT_DEVICES=devices, ASCEND_RT_VISIBLE_DEVICES=visible,
    )  # fmt: skip
    code, text = run.answer
    assert code == 107001
    assert f"ASCEND_RT_VISIBLE_DEVICES='{visible}' is set but {reason}" in text


@pain(27)
def test_an_id_beyond_the_last_and_no_device(program: Program) -> None:
    code = "acl.init(); n = acl.rt.get_device_count()[0]; answer(n, acl.rt.set_device(n), told())"
    count, refused, text = program(code).answer
    assert (count, refused) == (1, 107001)
    assert "device id 1 is outside [0, 1)" in text and "no device at all" not in text
    count, refused, text = program(code, ASCENDRT_DEVICES="0").answer
    assert (count, refused) == (0, 107001)
    assert "the machine has no device at all" in text
