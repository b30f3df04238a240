"""Effects of `acl.rt`: limits of cores and time, sizes, ids of devices, facts about them."""

from __future__ import annotations

from pathlib import Path

import pytest
from aclchild import Child, ok
from acleffects import Recorder, shows

CUBE, VECTOR = 0, 1
SIMD_STACK, SIMD_PRINT = 2, 3
NO_DEVICE, INVALID = 107001, 107000


@pytest.fixture
def cores(acl: Recorder, device: int) -> int:
    """The device's cube cores; limits that a test sets are gone afterwards."""
    return int(ok(acl.rt.get_device_info(0, 102)))


@shows("rt.get_device_res_limit", "rt.set_device_res_limit", "rt.reset_device_res_limit",
       "rt.get_res_in_current_thread")  # fmt: skip
def test_core_limits_of_a_device(acl: Recorder, cores: int) -> None:
    assert acl.rt.get_device_res_limit(0, CUBE) == (cores, 0)
    assert acl.rt.set_device_res_limit(0, CUBE, cores - 1) == 0
    assert acl.rt.get_device_res_limit(0, CUBE) == (cores - 1, 0)
    assert acl.rt.get_res_in_current_thread(CUBE) == (cores - 1, 0)
    assert acl.rt.set_device_res_limit(0, CUBE, cores + 1) == INVALID
    assert acl.rt.reset_device_res_limit(0) == 0
    assert acl.rt.get_device_res_limit(0, CUBE) == (cores, 0)
    assert acl.rt.reset_device_res_limit(99) == NO_DEVICE


@shows("rt.get_stream_res_limit", "rt.set_stream_res_limit", "rt.reset_stream_res_limit",
       "rt.use_stream_res_in_current_thread", "rt.unuse_stream_res_in_current_thread",
       "rt.get_res_in_current_thread")  # fmt: skip
def test_core_limits_of_a_stream(acl: Recorder, cores: int, stream: int) -> None:
    assert acl.rt.set_stream_res_limit(stream, CUBE, 2) == 0
    assert acl.rt.get_stream_res_limit(stream, CUBE) == (2, 0)
    assert acl.rt.get_res_in_current_thread(CUBE) == (cores, 0)
    assert acl.rt.use_stream_res_in_current_thread(stream) == 0
    assert acl.rt.get_res_in_current_thread(CUBE) == (2, 0)
    assert acl.rt.unuse_stream_res_in_current_thread(stream) == 0
    assert acl.rt.get_res_in_current_thread(CUBE) == (cores, 0)
    assert acl.rt.reset_stream_res_limit(stream) == 0
    assert acl.rt.get_stream_res_limit(stream, CUBE) == (cores, 0)


@shows("rt.get_op_execute_timeout", "rt.set_op_execute_time_out", "rt.set_op_execute_timeout_v2",
       "rt.get_op_timeout_interval")  # fmt: skip
def test_time_limits_of_operators(child: Child) -> None:
    before, step_us, after, actual_us, longest_ms = child("""
        acl.init(); acl.rt.set_device(0)
        before = acl.rt.get_op_execute_timeout()[0]
        step = acl.rt.get_op_timeout_interval()[0]
        assert acl.rt.set_op_execute_time_out(20) == 0
        after = acl.rt.get_op_execute_timeout()[0]
        actual = acl.rt.set_op_execute_timeout_v2(step + 1)[0]
        answer = [before, step, after, actual, acl.rt.get_op_execute_timeout()[0]]
    """)
    assert before not in (after, 0) and step_us > 0
    assert 20000 <= after <= 20000 + step_us / 1000
    assert actual_us == 2 * step_us
    assert longest_ms == int(actual_us / 1000)


@shows("rt.get_device_sat_mode", "rt.set_device_sat_mode")
def test_overflow_mode(acl: Recorder, device: int) -> None:
    first = ok(acl.rt.get_device_sat_mode())
    for mode in (1 - first, first):
        assert acl.rt.set_device_sat_mode(mode) == 0
        assert acl.rt.get_device_sat_mode() == (mode, 0)
    assert acl.rt.set_device_sat_mode(2) == INVALID


@shows("rt.device_get_limit", "rt.device_set_limit")
def test_sizes_of_a_device(child: Child) -> None:
    assert child("""
        acl.init(); acl.rt.set_device(0)
        before = acl.rt.device_get_limit(2)
        codes = [acl.rt.device_set_limit(2, 65536), acl.rt.device_set_limit(2, 5)]
        answer = [before, codes, acl.rt.device_get_limit(2), acl.rt.device_get_limit(3)]
    """) == [[32768, 0], [0, INVALID], [65536, 0], [32768, 0]]  # fmt: skip


@shows("rt.get_user_dev_id_by_logic_dev_id", "rt.get_logic_dev_id_by_phy_dev_id",
       "rt.get_phy_dev_id_by_logic_dev_id")  # fmt: skip
def test_ids_of_a_device(child: Child) -> None:
    """Of four devices the program sees 1 and 3, as 0 and 1."""
    seen = child(
        """
        acl.init()
        answer = [[acl.rt.get_phy_dev_id_by_logic_dev_id(n)[0] for n in (0, 1)],
                  [acl.rt.get_user_dev_id_by_logic_dev_id(n) for n in (0, 1, 3)],
                  [acl.rt.get_logic_dev_id_by_phy_dev_id(n) for n in (1, 2, 3)]]
        """,
        ASCENDRT_DEVICES="4",
        ASCEND_RT_VISIBLE_DEVICES="1,3",
    )
    users, machine = seen[1], seen[2]
    assert seen[0] == [1, 3]
    assert (users[0][1], users[1], users[2]) == (NO_DEVICE, [0, 0], [1, 0])
    assert (machine[0], machine[1][1], machine[2]) == ([0, 0], NO_DEVICE, [1, 0])


@shows("rt.device_get_uuid")
def test_uuid(child: Child) -> None:
    first, second, none = child(
        """
        acl.init()
        answer = [acl.rt.device_get_uuid(n) for n in (0, 1, 2)]
        """,
        ASCENDRT_DEVICES="2",
    )
    assert first[1] == second[1] == 0 and none[1] == NO_DEVICE
    assert len(first[0]["bytes"]) == 16 and first != second


@shows("rt.get_device_capability", "rt.get_mem_uce_info")
def test_features_and_faults(acl: Recorder, device: int) -> None:
    assert acl.rt.get_device_capability(0, 1)[1] == 0
    assert acl.rt.get_device_capability(0, 99)[1] == INVALID
    assert acl.rt.get_mem_uce_info(0, 20) == ([], 0)
    assert acl.rt.get_mem_uce_info(99, 20)[1] == NO_DEVICE


@shows("get_cann_attribute", "get_cann_attribute_list")
def test_attributes_follow_the_chip(child: Child) -> None:
    code = """
        acl.init()
        answer = [[acl.get_cann_attribute(n)[0] for n in range(3)], acl.get_cann_attribute_list()]
    """
    assert child(code, ASCENDRT_SOC="Ascend910B1") == [[1, 1, 1], [[0, 1, 2], 3, 0]]
    assert child(code, ASCENDRT_SOC="Ascend310P3") == [[0, 0, 1], [[2], 1, 0]]


@shows("get_version_str")
def test_version_of_a_package(child: Child, tmp_path: Path) -> None:
    folder = tmp_path / "share" / "info" / "runtime"
    folder.mkdir(parents=True)
    (folder / "version.info").write_text("Package=x\nVersion=9.0.0-rc.1\n")
    asked = "answer = [acl.get_version_str('runtime'), acl.get_version_str('other')]"
    assert child(asked, ASCEND_HOME_PATH=str(tmp_path)) == [["9.0.0-rc.1", 0], ["", 100003]]


@shows("rt.device_task_abort")
def test_abort_of_a_device(acl: Recorder, stream: int, block: int) -> None:
    event = ok(acl.rt.create_event_with_flag(1))
    assert acl.rt.stream_wait_event(stream, event) == 0
    assert acl.rt.memset_async(block, 64, 1, 4, stream) == 0
    assert acl.rt.stream_query(stream) == (1, 0) or acl.rt.stream_query(stream)[0] == 1
    assert acl.rt.device_task_abort(0, 2000) == 0
    assert acl.rt.stream_query(stream) == (0, 0)
    assert acl.rt.device_task_abort(99, 0) == NO_DEVICE


@shows("rt.allocator_create_desc", "rt.allocator_destroy_desc", "rt.allocator_register",
       "rt.allocator_unregister", "rt.allocator_set_obj_to_desc",
       "rt.allocator_set_alloc_func_to_desc", "rt.allocator_set_free_func_to_desc",
       "rt.allocator_set_get_addr_from_block_func_to_desc",
       "rt.allocator_set_alloc_advise_func_to_desc")  # fmt: skip
def test_allocators(acl: Recorder, stream: int) -> None:
    """A description counts once it has all that is needed; each setter is shown by its lack."""
    needed = {
        "obj": (acl.rt.allocator_set_obj_to_desc, 4096),
        "alloc": (acl.rt.allocator_set_alloc_func_to_desc, print),
        "free": (acl.rt.allocator_set_free_func_to_desc, print),
        "address": (acl.rt.allocator_set_get_addr_from_block_func_to_desc, print),
    }
    for missing, (last, last_value) in needed.items():
        desc = acl.rt.allocator_create_desc()
        for name, (setter, value) in needed.items():
            if name != missing:
                assert setter(desc, value) == 0
        assert acl.rt.allocator_register(stream, desc) == 100000
        assert last(desc, last_value) == 0
        assert acl.rt.allocator_set_alloc_advise_func_to_desc(desc, print) == 0
        assert acl.rt.allocator_register(stream, desc) == 0
        assert acl.rt.allocator_unregister(stream) == 0
        assert acl.rt.allocator_destroy_desc(desc) == 0
        assert acl.rt.allocator_set_alloc_advise_func_to_desc(desc, print) != 0
        assert acl.rt.allocator_destroy_desc(desc) != 0
