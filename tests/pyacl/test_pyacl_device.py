"""Effects of `acl.rt`: devices, contexts, settings."""

from __future__ import annotations

import os
import threading
from typing import Any

from aclchild import Child, ok
from acleffects import Recorder, shows

INVALID_DEVICE = 107001


@shows("rt.set_device", "rt.get_device", "rt.reset_device", "rt.get_device_count")
def test_devices_are_referenced(acl: Recorder) -> None:
    count = ok(acl.rt.get_device_count())
    assert acl.rt.set_device(count) == INVALID_DEVICE
    assert acl.rt.get_device()[1] != 0
    assert [acl.rt.set_device(0), acl.rt.set_device(0)] == [0, 0]
    assert acl.rt.get_device() == (0, 0)
    assert [acl.rt.reset_device(0) for _ in range(3)] == [0, 0, 507007]
    assert acl.rt.get_device()[1] != 0


@shows("rt.reset_device_force")
def test_force_ends_all_references(acl: Recorder, device: int) -> None:
    acl.rt.set_device(0)
    assert acl.rt.reset_device_force(0) == 0
    assert acl.rt.get_context()[1] != 0


@shows("rt.get_run_mode", "rt.device_get_bare_tgid", "rt.query_device_status",
       "rt.get_device_utilization_rate", "rt.get_logic_dev_id_by_user_dev_id")  # fmt: skip
def test_what_a_device_tells(acl: Recorder, device: int) -> None:
    assert acl.rt.get_run_mode() in ((0, 0), (1, 0))
    assert acl.rt.device_get_bare_tgid() == (os.getpid(), 0)
    assert acl.rt.query_device_status(0) == (0, 0)
    assert acl.rt.query_device_status(4711)[1] == INVALID_DEVICE
    rates, code = acl.rt.get_device_utilization_rate(0)
    assert code == 0 and set(rates) == {
        "cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization",
        "utilization_extend",
    }  # fmt: skip
    assert acl.rt.get_device_utilization_rate(4711)[1] > 0
    assert acl.rt.get_logic_dev_id_by_user_dev_id(0) == (0, 0)
    assert acl.rt.get_logic_dev_id_by_user_dev_id(4711)[1] == INVALID_DEVICE


@shows("rt.get_device_info")
def test_the_wrapper_cuts_device_info_to_32_bits(acl: Recorder, device: int) -> None:
    cores, memory = acl.rt.get_device_info(0, 101), acl.rt.get_device_info(0, 301)
    assert cores[1] == 0 and cores[0] > 0
    assert memory[1] == 0 and -(2**31) <= memory[0] < 2**31
    assert acl.rt.get_device_info(0, 4711)[1] != 0


@shows("rt.device_get_stream_priority_range", "rt.create_stream_with_config")
def test_priorities(acl: Recorder, device: int) -> None:
    least, greatest = ok(acl.rt.device_get_stream_priority_range())
    assert least > greatest >= 0
    assert ok(acl.rt.create_stream_with_config(greatest, 1)) != 0


@shows("rt.device_can_access_peer", "rt.device_enable_peer_access", "rt.device_peer_access_status",
       "rt.device_disable_peer_access")  # fmt: skip
def test_peers(child: Child) -> None:
    answer = child("""
        acl.init(); acl.rt.set_device(0)
        answer = [acl.rt.device_can_access_peer(0, 1), acl.rt.device_can_access_peer(0, 0)]
        for step in (lambda: 0, lambda: acl.rt.device_enable_peer_access(1, 0),
                     lambda: acl.rt.device_disable_peer_access(1)):
            answer += [step(), acl.rt.device_peer_access_status(0, 1)]
        answer += [acl.rt.device_enable_peer_access(9, 0)]
    """, ASCENDRT_DEVICES="2")  # fmt: skip
    assert answer[0] == [1, 0] and answer[1] != [1, 0]
    assert [answer[2], answer[4], answer[6]] == [0, 0, 0]
    before, enabled, disabled = answer[3], answer[5], answer[7]
    assert before == disabled != enabled and enabled[1] == 0
    assert answer[8] == INVALID_DEVICE


@shows("rt.create_context", "rt.destroy_context", "rt.set_context", "rt.get_context")
def test_contexts(acl: Recorder, device: int) -> None:
    primary = ok(acl.rt.get_context())
    other = ok(acl.rt.create_context(0))
    assert other != primary and acl.rt.get_context() == (other, 0)
    assert acl.rt.set_context(primary) == 0
    assert acl.rt.get_context() == (primary, 0)
    assert acl.rt.destroy_context(other) == 0
    assert acl.rt.set_context(other) != 0


@shows("rt.get_context")
def test_a_new_thread_has_no_context(acl: Recorder, device: int) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(acl.rt.get_context()))
    thread.start()
    thread.join()
    assert found == [(0, 107002)]


@shows("rt.get_primary_ctx_state", "rt.ctx_get_current_default_stream")
def test_primary_context(acl: Recorder) -> None:
    acl.init()
    assert acl.rt.get_primary_ctx_state(0) == (0, 0, 0)
    acl.rt.set_device(0)
    assert acl.rt.get_primary_ctx_state(0) == (1, 0, 0)
    first = ok(acl.rt.ctx_get_current_default_stream())
    acl.rt.create_context(0)
    assert ok(acl.rt.ctx_get_current_default_stream()) != first


@shows("rt.set_sys_param_opt", "rt.get_sys_param_opt", "rt.ctx_set_sys_param_opt",
       "rt.ctx_get_sys_param_opt")  # fmt: skip
def test_system_parameters(acl: Recorder, device: int) -> None:
    for value in (1, 0):
        assert acl.rt.set_sys_param_opt(0, value) == 0
        assert acl.rt.get_sys_param_opt(0) == (value, 0)
    for value in (0, 1):
        assert acl.rt.ctx_set_sys_param_opt(0, value) == 0
        assert acl.rt.ctx_get_sys_param_opt(0) == (value, 0)


@shows("rt.get_last_error", "rt.peek_at_last_error")
def test_last_error(acl: Recorder, device: int) -> None:
    acl.rt.get_last_error(0)
    assert acl.rt.peek_at_last_error(0) == 0
    failed = acl.rt.set_device(4711)
    assert failed == INVALID_DEVICE
    assert [acl.rt.peek_at_last_error(0), acl.rt.get_last_error(0)] == [failed, failed]
    assert acl.rt.get_last_error(0) == 0
