"""Effects of the top level of `acl`: set-up, buffers, descriptions, numbers."""

from __future__ import annotations

from typing import Any

import pytest
from aclchild import Child, forget, recent
from acleffects import Recorder, shows

FLOAT, FLOAT16, INT8, INT32, INT64, ND = 0, 1, 2, 3, 9, 2


@shows("init", "finalize", "finalize_reference", "rt.get_device_count")
def test_init_and_finalize(child: Child) -> None:
    answer = child("""
        answer = [acl.init(), acl.init(), acl.finalize_reference(), acl.finalize(), acl.finalize()]
        answer += [acl.finalize_reference()[1], acl.init(), acl.rt.get_device_count()[0]]
    """, ASCENDRT_DEVICES="3")  # fmt: skip
    assert answer[:2] == [0, 100002]
    assert answer[2][1] == 0
    assert answer[-2] != 0 or answer[-1] == 3
    assert answer[4] != 0


@shows("init")
def test_init_reads_the_file_it_is_given(child: Child) -> None:
    assert child("answer = acl.init('/nowhere/acl.json')") != 0
    assert child("answer = [acl.init(), acl.init()]") == [0, 100002]


@shows("create_data_buffer", "destroy_data_buffer", "get_data_buffer_addr", "get_data_buffer_size",
       "get_data_buffer_size_v2", "update_data_buffer")  # fmt: skip
def test_data_buffers(acl: Recorder, block: int) -> None:
    buffer = acl.create_data_buffer(block, 128)
    assert buffer != 0
    assert acl.get_data_buffer_addr(buffer) == block
    assert (acl.get_data_buffer_size(buffer), acl.get_data_buffer_size_v2(buffer)) == (128, 128)
    assert acl.update_data_buffer(buffer, block + 64, 2**33) == 0
    assert acl.get_data_buffer_addr(buffer) == block + 64
    assert acl.get_data_buffer_size_v2(buffer) == 2**33
    assert acl.get_data_buffer_size(buffer) == 0  # 32 bits, as the old call has it
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_data_buffer(0) == 100000


@shows("data_type_size")
def test_data_type_sizes(acl: Recorder) -> None:
    assert [acl.data_type_size(t) for t in (FLOAT, FLOAT16, INT8, INT64)] == [4, 2, 1, 8]


@shows("float16_to_float", "float_to_float16")
def test_half_precision(acl: Recorder) -> None:
    for value, bits in ((1.5, 0x3E00), (-2.0, 0xC000), (65504.0, 0x7BFF)):
        assert acl.float_to_float16(value) == bits
        assert acl.float16_to_float(bits) == value


@shows("create_tensor_desc", "destroy_tensor_desc", "get_tensor_desc_type", "get_tensor_desc_dim",
       "get_tensor_desc_format", "get_tensor_desc_size", "get_tensor_desc_element_count",
       "get_tensor_desc_num_dims", "get_tensor_desc_dim_v2")  # fmt: skip
def test_tensor_descriptions(acl: Recorder) -> None:
    desc = acl.create_tensor_desc(FLOAT16, [2, 3, 5], ND)
    assert (acl.get_tensor_desc_type(desc), acl.get_tensor_desc_format(desc)) == (FLOAT16, ND)
    assert (acl.get_tensor_desc_size(desc), acl.get_tensor_desc_element_count(desc)) == (60, 30)
    assert acl.get_tensor_desc_num_dims(desc) == 3
    assert [acl.get_tensor_desc_dim(desc, i) for i in range(3)] == [2, 3, 5]
    assert [acl.get_tensor_desc_dim_v2(desc, i) for i in range(2)] == [(2, 0), (3, 0)]
    assert acl.get_tensor_desc_dim_v2(desc, 3)[1] == 100000
    other = acl.create_tensor_desc(INT32, [], 0)
    assert (acl.get_tensor_desc_type(other), acl.get_tensor_desc_num_dims(other)) == (INT32, 0)
    assert acl.destroy_tensor_desc(desc) is None
    assert acl.destroy_tensor_desc(other) is None


@pytest.fixture
def desc(acl: Recorder) -> Any:
    made = acl.create_tensor_desc(FLOAT, [2, -1], ND)
    yield made
    acl.destroy_tensor_desc(made)


@shows("set_tensor_desc_name", "get_tensor_desc_name")
def test_name_of_a_description(acl: Recorder, desc: int) -> None:
    assert acl.get_tensor_desc_name(desc) == ""
    acl.set_tensor_desc_name(desc, "pixels")
    assert acl.get_tensor_desc_name(desc) == "pixels"


@shows("set_tensor_shape_range", "get_tensor_desc_dim_range")
def test_ranges_of_dims(acl: Recorder, desc: int) -> None:
    assert acl.set_tensor_shape_range(desc, [[2, 2], [1, 8]]) == 0
    assert acl.get_tensor_desc_dim_range(desc, 1, 2) == ([1, 8], 0)
    assert acl.get_tensor_desc_dim_range(desc, 0, 2) == ([2, 2], 0)
    assert acl.get_tensor_desc_dim_range(desc, 0, 4097) == (None, 100000)


@shows("set_tensor_shape", "set_tensor_storage_shape", "set_tensor_origin_shape",
       "set_tensor_value_range", "set_tensor_dynamic_input", "set_tensor_place_ment",
       "get_recent_err_msg")  # fmt: skip
def test_settings_of_a_description_tell_a_null_one(acl: Recorder, device: int, desc: int) -> None:
    settings = {
        "set_tensor_shape": ([1, 2],), "set_tensor_storage_shape": ([1, 2],),
        "set_tensor_origin_shape": ([1, 2],), "set_tensor_value_range": ([[0, 9], [0, 9]],),
        "set_tensor_dynamic_input": ("x",), "set_tensor_place_ment": (0,),
    }  # fmt: skip
    forget(acl)
    for name, arguments in settings.items():
        call = getattr(acl, name)
        assert (call(desc, *arguments), call(0, *arguments)) == (0, 100000), name
        camel = name.replace("_", "")
        assert camel in recent(acl).lower()
    assert acl.get_recent_err_msg() is None


@shows("set_tensor_const")
def test_a_constant_tensor(acl: Recorder, desc: int) -> None:
    data = bytes(range(8))
    assert acl.set_tensor_const(desc, acl.util.bytes_to_ptr(data), len(data)) == 0
    assert acl.set_tensor_const(desc, 0, len(data)) == 100000


@shows("get_soc_name", "get_version", "get_cann_version", "get_device_capability")
def test_what_the_library_says_of_itself(child: Child) -> None:
    body = """
        acl.init(); acl.rt.set_device(0)
        answer = [acl.get_soc_name(), acl.get_version(), acl.get_cann_version(0),
                  [acl.get_device_capability(0, kind) for kind in (0, 1, 99)]]
    """
    first = child(body, ASCENDRT_SOC="Ascend310P3")
    second = child(body, ASCENDRT_SOC="Ascend910B1")
    assert (first[0], second[0]) == ("Ascend310P3", "Ascend910B1")
    assert second[1][0] >= 1 and second[1][3] == 0
    assert second[2][0].keys() == {
        "version", "major_version", "minor_version", "release_version", "patch_version", "reserved",
    }  # fmt: skip
    assert second[2][1] in (0, 100003) and second[2][1] >= 0
    assert second[3][0][0] > first[3][0][0] > 0  # cores
    assert second[3][2][1] == 100000


@shows("app_log")
def test_log(child: Child) -> None:
    body = "acl.app_log(3, 'a word from Python, 100% sure'); answer = acl.init()"
    environment = {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "0"}
    child(body, **environment)
    assert "a word from Python, 100% sure" in child.printed


def test_functions_that_no_library_has_are_named(child: Child) -> None:
    """As the stubs that a library does have (mdl.set_dump): by the text, and by the log."""
    body = """
        acl.rt.set_device(0)
        answer = []
        for call in (lambda: acl.prof.init("/tmp"), lambda: acl.mdl.set_dump("/tmp")):
            answer += [call(), acl.get_recent_err_msg(), acl.get_recent_err_msg()]
    """
    for answer in (child(body), child(body, ASCEND_LOG_PRINT_TO_STDOUT="1")):
        assert answer[0] == answer[3] == 207000
        assert "aclprofInit is not emulated" in answer[1]
        assert "aclmdlSetDump is not emulated" in answer[4]
        assert answer[2] is answer[5] is None
    assert "aclprofInit: [207000" in child.printed
    assert "aclmdlSetDump: [207000" in child.printed
