"""Effects of `acl.mdl`: a small network, described, run, and shaped by gears."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator

import models
import pytest
from aclchild import ok
from acleffects import Recorder, shows
from devicebytes import read, write
from models import COUNT, SIZE_BYTES, OmFiles, expected, floats

from ascendrt import constants

A = [float(index) for index in range(COUNT)]
B = [float(3 - index) for index in range(COUNT)]


@pytest.fixture(scope="session")
def om(tmp_path_factory: pytest.TempPathFactory) -> OmFiles:
    """The network; see tests/conformance/models.py."""
    return models.OmFiles(tmp_path_factory.mktemp("om"))


@pytest.fixture
def model(acl: Recorder, device: int, om: OmFiles) -> Iterator[int]:
    made = ok(acl.mdl.load_from_file(om.good_path))
    yield made
    acl.mdl.unload(made)


@pytest.fixture
def desc(acl: Recorder, model: int) -> Iterator[int]:
    made = acl.mdl.create_desc()
    assert acl.mdl.get_desc(made, model) == 0
    yield made
    acl.mdl.destroy_desc(made)


class Tensors:
    """Device memory and datasets for one run."""

    def __init__(self, acl: Recorder) -> None:
        self.acl = acl
        self.memory = [ok(acl.rt.malloc(SIZE_BYTES + 128, 0)) for _ in range(4)]
        buffers = [acl.create_data_buffer(each, SIZE_BYTES) for each in self.memory]
        self.datasets = [acl.mdl.create_dataset(), acl.mdl.create_dataset()]
        for index, buffer in enumerate(buffers):
            dataset = self.datasets[index // 2]
            assert acl.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
        write(acl, self.memory[0], floats(A))
        write(acl, self.memory[1], floats(B))

    def results(self) -> tuple[bytes, bytes]:
        return (read(self.acl, self.memory[2], SIZE_BYTES),
                read(self.acl, self.memory[3], SIZE_BYTES))  # fmt: skip


@shows("mdl.load_from_file", "mdl.unload", "mdl.execute", "mdl.execute_async", "mdl.create_dataset",
       "mdl.add_dataset_buffer")  # fmt: skip
def test_a_run(acl: Recorder, stream: int, om: OmFiles) -> None:
    model, tensors = ok(acl.mdl.load_from_file(om.good_path)), Tensors(acl)
    assert acl.mdl.execute(model, *tensors.datasets) == 0
    assert tensors.results() == expected(A, B)
    again = ok(acl.mdl.load_from_file(om.good_path))  # one load runs in one of the two ways
    write(acl, tensors.memory[0], floats(B))
    assert acl.mdl.execute_async(again, *tensors.datasets, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert tensors.results() == expected(B, B)
    assert [acl.mdl.unload(model), acl.mdl.unload(again)] == [0, 0]
    assert acl.mdl.execute(model, *tensors.datasets) != 0
    assert acl.mdl.load_from_file("/nowhere.om")[1] != 0


@shows("mdl.create_and_get_op_desc", "get_tensor_desc_by_index")
def test_the_operator_that_failed_is_described(acl: Recorder, device: int, om: OmFiles) -> None:
    model = ok(acl.mdl.load_from_file(os.fsdecode(om.path(om.choice))))
    memory = [ok(acl.rt.malloc(64, 0)) for _ in range(2)]
    datasets = [acl.mdl.create_dataset() for _ in memory]
    for dataset, address, size in zip(datasets, memory, (8, 24), strict=True):
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
    failed: list[tuple[int, ...]] = []

    def note(info: int) -> None:
        ids = (
            acl.rt.get_device_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_task_id_from_exception_info(info),
        )
        failed.append(ids)

    assert acl.rt.set_exception_info_callback(note) == 0
    write(acl, memory[0], struct.pack("2i", 1, 99))
    assert acl.mdl.execute(model, *datasets) != 0
    assert acl.rt.set_exception_info_callback(None) == 0
    (ids,) = failed
    name, inputs, count, outputs, made, code = acl.mdl.create_and_get_op_desc(*ids, 64)
    assert (name, count, made, code) == ("choose", 3, 1, 0)  # the axis is an input
    table, number = (acl.get_tensor_desc_by_index(inputs, index) for index in range(2))
    assert acl.get_tensor_desc_type(table) == 0 and acl.get_tensor_desc_type(number) == 3
    assert acl.get_tensor_desc_dim_v2(table, 0) == (4, 0)
    assert acl.get_tensor_desc_address(number) == memory[0]
    assert acl.get_tensor_desc_dim_v2(outputs, 1) == (3, 0)
    assert acl.get_tensor_desc_by_index(inputs, 3) == acl.get_tensor_desc_by_index(0, 0) == 0
    assert acl.mdl.create_and_get_op_desc(*ids, 6)[-1] == 100000  # no room for the name's end
    assert acl.mdl.create_and_get_op_desc(*ids[:2], ids[2] + 1, 64)[-1] == 500002
    acl.destroy_tensor_desc(inputs)
    assert acl.get_tensor_desc_type(number) != 3
    acl.destroy_tensor_desc(outputs)
    assert acl.mdl.unload(model) == 0


@shows("mdl.execute")
def test_threads_run_their_models_at_once(acl: Recorder, device: int, om: OmFiles) -> None:
    """The GIL is given up during a run: no answer may be lost or mixed up for it."""
    context, wrong = acl.rt.get_context()[0], []

    def work(number: int) -> None:
        assert acl.rt.set_context(context) == 0
        model, tensors = ok(acl.mdl.load_from_file(om.good_path)), Tensors(acl)
        for turn in range(20):
            a = [float(number + turn)] * COUNT
            write(acl, tensors.memory[0], floats(a))
            code = acl.mdl.execute(model, *tensors.datasets)
            if code != 0 or tensors.results() != expected(a, B):
                wrong.append((number, turn, code))
        acl.mdl.unload(model)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


@shows("mdl.load_from_mem", "mdl.load_from_file_with_mem", "mdl.load_from_mem_with_mem",
       "mdl.query_size", "mdl.query_size_from_mem")  # fmt: skip
def test_the_ways_to_load(acl: Recorder, device: int, om: OmFiles) -> None:
    data, tensors = om.good, Tensors(acl)
    place = (acl.util.bytes_to_ptr(data), len(data))
    work, weight = ok(acl.mdl.query_size(om.good_path))
    assert ok(acl.mdl.query_size_from_mem(*place)) == (work, weight)
    room = [ok(acl.rt.malloc(max(size, 64), 0)) for size in (work, weight)]
    memory = (room[0], work, room[1], weight)
    for answer in (
        acl.mdl.load_from_mem(*place),
        acl.mdl.load_from_file_with_mem(om.good_path, *memory),
        acl.mdl.load_from_mem_with_mem(*place, *memory),
    ):
        model = ok(answer)
        write(acl, tensors.memory[2], bytes(SIZE_BYTES))
        assert acl.mdl.execute(model, *tensors.datasets) == 0
        assert tensors.results() == expected(A, B)
        assert acl.mdl.unload(model) == 0
    assert acl.mdl.load_from_mem(place[0], 17)[1] != 0
    assert acl.mdl.query_size("/nowhere.om")[2] != 0


@shows("mdl.create_desc", "mdl.destroy_desc", "mdl.get_desc", "mdl.get_desc_from_file",
       "mdl.get_desc_from_mem", "mdl.get_num_inputs", "mdl.get_num_outputs")  # fmt: skip
def test_where_descriptions_come_from(acl: Recorder, model: int, om: OmFiles) -> None:
    data = om.good
    for fill in (
        lambda desc: acl.mdl.get_desc(desc, model),
        lambda desc: acl.mdl.get_desc_from_file(desc, om.good_path),
        lambda desc: acl.mdl.get_desc_from_mem(desc, acl.util.bytes_to_ptr(data), len(data)),
    ):
        desc = acl.mdl.create_desc()
        assert acl.mdl.get_num_inputs(desc) == 0
        assert fill(desc) == 0
        assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (2, 2)
        assert acl.mdl.destroy_desc(desc) == 0
    assert acl.mdl.destroy_desc(0) != 0


@shows("mdl.get_input_size_by_index", "mdl.get_output_size_by_index", "mdl.get_input_name_by_index",
       "mdl.get_output_name_by_index", "mdl.get_input_format", "mdl.get_output_format",
       "mdl.get_input_data_type", "mdl.get_output_data_type", "mdl.get_input_index_by_name",
       "mdl.get_output_index_by_name")  # fmt: skip
def test_what_a_description_tells(acl: Recorder, desc: int) -> None:
    mdl = acl.mdl
    assert [mdl.get_input_size_by_index(desc, i) for i in range(3)] == [SIZE_BYTES, SIZE_BYTES, 0]
    assert [mdl.get_output_size_by_index(desc, i) for i in range(2)] == [SIZE_BYTES, SIZE_BYTES]
    assert [mdl.get_input_name_by_index(desc, i) for i in range(2)] == ["a", "b"]
    names = [mdl.get_output_name_by_index(desc, i) for i in range(2)]
    assert "scaled" in names[0] or "add" in names[0]
    for number, name in enumerate(names):
        assert mdl.get_output_index_by_name(desc, name) == (number, 0)
    assert mdl.get_input_index_by_name(desc, "b") == (1, 0)
    assert mdl.get_input_index_by_name(desc, "nobody")[1] != 0
    known, beyond = (lambda f: f(desc, 0)), (lambda f: f(desc, 99))
    for call in (mdl.get_input_format, mdl.get_output_format):
        assert known(call) >= 0 > beyond(call)
    for call in (mdl.get_input_data_type, mdl.get_output_data_type):
        assert known(call) == 0 > beyond(call)


@shows("mdl.get_input_dims", "mdl.get_input_dims_v2", "mdl.get_output_dims",
       "mdl.get_cur_output_dims", "mdl.get_input_dims_range")  # fmt: skip
def test_dims(acl: Recorder, desc: int, model: int) -> None:
    for call in (acl.mdl.get_input_dims, acl.mdl.get_input_dims_v2):
        assert call(desc, 1) == ({"name": "b", "dimCount": 2, "dims": [1, COUNT]}, 0)
        answer = call(desc, 99)
        assert answer[0] == {} and answer[1] != 0
    for call in (acl.mdl.get_output_dims, acl.mdl.get_cur_output_dims):
        dims = ok(call(desc, 0))
        assert (dims["dimCount"], dims["dims"]) == (2, [1, COUNT])
    ranges = acl.mdl.get_input_dims_range(desc, 0)
    assert ranges[1] != 0 or ranges[0]["rangeCount"] == len(ranges[0]["range"])


@shows("mdl.get_tensor_real_name", "mdl.get_op_attr")
def test_names_inside_a_model(acl: Recorder, desc: int) -> None:
    name = acl.mdl.get_output_name_by_index(desc, 0)
    assert acl.mdl.get_tensor_real_name(desc, "nobody") is None
    assert acl.mdl.get_tensor_real_name(desc, name) in (name, None)
    assert acl.mdl.get_op_attr(desc, "nobody", "nothing") is None


@shows("mdl.create_dataset", "mdl.destroy_dataset", "mdl.get_dataset_buffer",
       "mdl.get_dataset_num_buffers", "mdl.add_dataset_buffer", "mdl.set_dataset_tensor_desc",
       "mdl.get_dataset_tensor_desc")  # fmt: skip
def test_datasets(acl: Recorder, block: int) -> None:
    dataset, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(block, 64)
    assert acl.mdl.get_dataset_num_buffers(dataset) == 0
    assert acl.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
    assert acl.mdl.get_dataset_num_buffers(dataset) == 1
    assert acl.mdl.get_dataset_buffer(dataset, 0) == buffer
    assert acl.mdl.get_dataset_buffer(dataset, 1) == 0
    tensor = acl.create_tensor_desc(0, [4, 4], 2)
    assert acl.mdl.set_dataset_tensor_desc(dataset, tensor, 0) == (dataset, 0)
    kept = acl.mdl.get_dataset_tensor_desc(dataset, 0)
    assert [acl.get_tensor_desc_dim_v2(kept, i)[0] for i in range(2)] == [4, 4]
    assert acl.mdl.set_dataset_tensor_desc(dataset, tensor, 7)[1] != 0
    assert acl.mdl.destroy_dataset(dataset) == 0
    assert acl.get_data_buffer_addr(buffer) == block  # a dataset owns no buffers
    acl.destroy_tensor_desc(tensor)
    acl.destroy_data_buffer(buffer)


def described(acl: Recorder, om: OmFiles, *blocks: bytes) -> int:
    """A description with gears, read from bytes."""
    tensors = (
        [models.tensor("ascend_mbatch_shape_data", [-1, 3, -1, -1])],
        [models.tensor("y", [1])],
    )
    data = om.with_description(models.description(*tensors, *blocks))
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc_from_mem(desc, acl.util.bytes_to_ptr(data), len(data)) == 0
    return int(desc)


@shows("mdl.get_dynamic_batch", "mdl.get_dynamic_hw")
def test_gears_of_batch_and_picture(acl: Recorder, device: int, om: OmFiles) -> None:
    batch = described(acl, om, models.batch_gears(3))
    assert acl.mdl.get_dynamic_batch(batch) == ({"batchCount": 3, "batch": [1, 2, 3]}, 0)
    picture = described(acl, om, models.image_gears(2))
    assert acl.mdl.get_dynamic_hw(picture, -1 & (2**64 - 1)) == (
        {"hwCount": 2, "hw": [[1, 2], [3, 4]]}, 0,
    )  # fmt: skip
    assert acl.mdl.get_dynamic_batch(0)[1] != 0
    acl.mdl.destroy_desc(batch)
    acl.mdl.destroy_desc(picture)


@shows("mdl.get_input_dynamic_gear_count", "mdl.get_input_dynamic_dims",
       "mdl.set_dynamic_batch_size", "mdl.set_dynamic_hw_size",
       "mdl.set_input_dynamic_dims")  # fmt: skip
def test_a_model_without_gears_refuses_them(acl: Recorder, desc: int, model: int) -> None:
    everywhere = 2**64 - 1
    assert acl.mdl.get_input_dynamic_gear_count(desc, everywhere) == (0, 0)
    assert acl.mdl.get_input_dynamic_gear_count(desc, 0)[1] != 0
    assert acl.mdl.get_input_dynamic_dims(desc, everywhere, 4097) == (None, 100000)
    assert acl.mdl.get_input_dynamic_dims(0, everywhere, 1)[1] != 0
    tensors = Tensors(acl)
    for call, values in (
        (acl.mdl.set_dynamic_batch_size, (2,)),
        (acl.mdl.set_dynamic_hw_size, (2, 2)),
        (acl.mdl.set_input_dynamic_dims, ({"dimCount": 2, "dims": [1, 2]},)),
    ):
        assert call(model, tensors.datasets[0], 0, *values) != 0
        assert call(model, 0, 0, *values) == 100000


@shows("mdl.create_config_handle", "mdl.set_config_opt", "mdl.load_with_config",
       "mdl.destroy_config_handle")  # fmt: skip
def test_a_load_by_a_handle(acl: Recorder, device: int, om: OmFiles) -> None:
    config, tensors, data = acl.mdl.create_config_handle(), Tensors(acl), om.good
    assert acl.mdl.load_with_config(config)[1] != 0
    for attr, value in (
        (constants.ACL_MDL_LOAD_TYPE_SIZET, constants.ACL_MDL_LOAD_FROM_FILE),
        (constants.ACL_MDL_PATH_PTR, om.good_path),
        (constants.ACL_MDL_PRIORITY_INT32, 2),
        (constants.ACL_MDL_MEM_ADDR_PTR, acl.util.bytes_to_ptr(data)),
        (constants.ACL_MDL_MEM_SIZET, len(data)),
    ):
        assert acl.mdl.set_config_opt(config, attr, value) == 0
    assert acl.mdl.set_config_opt(config, constants.ACL_MDL_PRIORITY_INT32, 9) != 0
    for kind in (constants.ACL_MDL_LOAD_FROM_FILE, constants.ACL_MDL_LOAD_FROM_MEM):
        assert acl.mdl.set_config_opt(config, constants.ACL_MDL_LOAD_TYPE_SIZET, kind) == 0
        model = ok(acl.mdl.load_with_config(config))
        write(acl, tensors.memory[2], bytes(SIZE_BYTES))
        assert acl.mdl.execute(model, *tensors.datasets) == 0
        assert tensors.results() == expected(A, B)
        assert acl.mdl.unload(model) == 0
    assert acl.mdl.destroy_config_handle(config) == 0
    assert acl.mdl.destroy_config_handle(config) != 0


@shows("mdl.create_exec_config_handle", "mdl.set_exec_config_opt", "mdl.execute_v2",
       "mdl.destroy_exec_config_handle")  # fmt: skip
def test_a_run_by_a_handle(acl: Recorder, model: int, stream: int) -> None:
    config, tensors = acl.mdl.create_exec_config_handle(), Tensors(acl)
    attr = constants.ACL_MDL_STREAM_SYNC_TIMEOUT
    assert acl.mdl.set_exec_config_opt(config, attr, 5000) == 0
    assert acl.mdl.set_exec_config_opt(config, constants.ACL_MDL_WORK_SIZET, 5000) != 0
    for target in (0, stream):
        write(acl, tensors.memory[2], bytes(SIZE_BYTES))
        assert acl.mdl.execute_v2(model, *tensors.datasets, target, config) == 0
        assert tensors.results() == expected(A, B)
    assert acl.mdl.destroy_exec_config_handle(config) == 0
    assert acl.mdl.execute_v2(model, *tensors.datasets, 0, config) != 0


@shows("mdl.create_aipp", "mdl.destroy_aipp", "mdl.get_aipp_data_size", "mdl.get_aipp_type",
       "mdl.get_first_aipp_info", "mdl.set_input_aipp", "mdl.set_aipp_by_input_index",
       "mdl.set_aipp_input_format", "mdl.set_aipp_csc_params", "mdl.set_aipp_rbuv_swap_switch",
       "mdl.set_aipp_ax_swap_switch", "mdl.set_aipp_src_image_size", "mdl.set_aipp_scf_params",
       "mdl.set_aipp_crop_params", "mdl.set_aipp_padding_params", "mdl.set_aipp_dtc_pixel_mean",
       "mdl.set_aipp_dtc_pixel_min", "mdl.set_aipp_pixel_var_reci")  # fmt: skip
def test_image_parameters_of_a_run(acl: Recorder, device: int, om: OmFiles) -> None:
    """Each call changes what comes out of a picture of 4 x 2 pixels."""
    data = om.pictures
    model = ok(acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data)))
    assert acl.mdl.get_aipp_type(model, 0) == (constants.ACL_DATA_WITH_DYNAMIC_AIPP, 1, 0)
    assert acl.mdl.get_aipp_type(model, 1)[0] == constants.ACL_DYNAMIC_AIPP_NODE
    info, code = acl.mdl.get_first_aipp_info(model, 0)
    assert code == 0 and info["srcDimNum"] == 4
    size = ok(acl.mdl.get_aipp_data_size(1))
    assert ok(acl.mdl.get_aipp_data_size(2)) == size + 96
    aipp, sizes = acl.mdl.create_aipp(1), (100, size, 96)
    memory = [ok(acl.rt.malloc(each, 0)) for each in sizes]
    datasets = [acl.mdl.create_dataset(), acl.mdl.create_dataset()]
    for index, place in enumerate(memory):
        buffer = acl.create_data_buffer(place, sizes[index])
        assert acl.mdl.add_dataset_buffer(datasets[index // 2], buffer)[1] == 0
    write(acl, memory[0], bytes(range(100)))
    answers = set()

    def run() -> None:
        for index, set_parameters in enumerate((acl.mdl.set_aipp_by_input_index,
                                                acl.mdl.set_input_aipp)):  # fmt: skip
            write(acl, memory[1], bytes(size))
            assert set_parameters(model, datasets[0], index, aipp) == 0
            assert acl.mdl.execute(model, *datasets) == 0
            answers.add(read(acl, memory[2], 96))

    wide = (16, 16, 16, 16)
    steps = [
        ("src_image_size", (4, 2)),
        ("rbuv_swap_switch", (1,)),
        ("csc_params", (1, 256, 0, 0, 0, 128, 0, 0, 0, 64, 1, 2, 3, 0, 0, 0)),
        ("dtc_pixel_mean", (1, 2, 3, 4, 0)),
        ("dtc_pixel_min", (0.5, 0.25, 0.5, 0.0, 0)),
        ("pixel_var_reci", (0.5, 2.0, 4.0, 1.0, 0)),
        ("crop_params", (1, 0, 0, 4, 2, 0)),
        ("padding_params", (1, 0, 1, 2, 0, 0)),
    ]
    assert acl.mdl.set_aipp_input_format(aipp, constants.ACL_RGB888_U8) == 0
    for name, arguments in steps:
        assert getattr(acl.mdl, f"set_aipp_{name}")(aipp, *arguments) == 0
        if name == "crop_params":  # the picture is larger now, only a part is taken
            assert acl.mdl.set_aipp_src_image_size(aipp, 5, 2) == 0
        if name == "padding_params":
            assert acl.mdl.set_aipp_crop_params(aipp, 1, 0, 0, 2, 1, 0) == 0
        run()
    assert len(answers) == len(steps)
    assert acl.mdl.set_aipp_input_format(aipp, constants.ACL_XRGB8888_U8) == 0
    run()
    assert acl.mdl.set_aipp_ax_swap_switch(aipp, 1) == 0
    run()
    assert len(answers) == len(steps) + 2
    assert acl.mdl.set_aipp_scf_params(aipp, 1, *wide, 0) == 0
    assert acl.mdl.set_aipp_by_input_index(model, datasets[0], 0, aipp) != 0  # 16 x 16 comes out
    assert acl.mdl.destroy_aipp(aipp) == 0
    assert acl.mdl.destroy_aipp(aipp) != 0
    assert acl.mdl.unload(model) == 0


@shows("mdl.bundle_load_from_file", "mdl.bundle_load_from_mem", "mdl.bundle_get_model_num",
       "mdl.bundle_get_model_id", "mdl.bundle_unload")  # fmt: skip
@pytest.mark.parametrize("way", ["file", "memory"])
def test_bundles(acl: Recorder, device: int, om: OmFiles, way: str) -> None:
    data = models.bundle([om.rows, om.good])
    if way == "file":
        bundle = ok(acl.mdl.bundle_load_from_file(om.path(data).decode()))
        assert acl.mdl.bundle_load_from_mem(0, 0) == (0, 100000)
    else:
        bundle = ok(acl.mdl.bundle_load_from_mem(acl.util.bytes_to_ptr(data), len(data)))
        assert acl.mdl.bundle_load_from_file("/nowhere.om")[1] == 145002
    assert acl.mdl.bundle_get_model_num(bundle) == (2, 0)
    model, tensors = ok(acl.mdl.bundle_get_model_id(bundle, 1)), Tensors(acl)
    assert acl.mdl.execute(model, *tensors.datasets) == 0
    assert tensors.results() == expected(A, B)
    assert acl.mdl.bundle_get_model_id(bundle, 2)[1] == 100000
    assert acl.mdl.unload(model) == 100000  # a bundle's models go with it
    assert acl.mdl.bundle_unload(bundle) == 0
    assert acl.mdl.execute(model, *tensors.datasets) == 145003
    assert acl.mdl.bundle_get_model_num(bundle)[1] == 148053
