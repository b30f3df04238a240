"""Pains with copies, models, leaks and the Python module itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from painprograms import DIGITS, REPOSITORY, Program, environment

from ascendrt._backend import package_lib_dir

pain = pytest.mark.pain
pytest_plugins = ["pytester"]
MODEL = """
model, code = acl.mdl.load_from_file(sys.argv[1])
assert code == 0
desc = acl.mdl.create_desc()
acl.mdl.get_desc(desc, model)

def dataset(*parts):
    made = acl.mdl.create_dataset()
    for pointer, size in parts:
        acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(pointer, size))
    return made

def memory(size):
    pointer, code = acl.rt.malloc(size, 0)
    assert code == 0
    return pointer, size
"""


@pain(65)
@pain(69)
def test_a_workspace_per_launch_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import acl

        def launch():
            acl.rt.malloc(4096, 0)  # the workspace

        def test_service(ascend_device, assert_no_growth):
            assert_no_growth(launch, steps=5)
    """)
    result = pytester.runpytest_subprocess("-p", "ascendrt.pytest_plugin", timeout=120)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "5 steps left more behind than there was:",
        "  + 5 device memory by aclrtMalloc at *.py:4 in launch, 4096 bytes each",
    ])  # fmt: skip


LISTS = """
import ctypes

library = ctypes.CDLL(sys.argv[1])
library.aclCreateTensor.restype = library.aclCreateTensorList.restype = ctypes.c_void_p

def new_list(count):
    dims = (ctypes.c_int64 * 1)(4)
    tensor = lambda: library.aclCreateTensor(
        dims, ctypes.c_uint64(1), 0, None, ctypes.c_int64(0), 2, dims, ctypes.c_uint64(1), None
    )
    members = (ctypes.c_void_p * count)(*(tensor() for _ in range(count)))
    return library.aclCreateTensorList(members, ctypes.c_uint64(count)), list(members)
"""


@pain(63)
def test_lists_that_pile_up_are_counted(program: Program) -> None:
    run = program(
        LISTS + "acl.init(); [new_list(2) for _ in range(50)]; answer(acl.finalize())",
        package_lib_dir() / "libnnopbase.so",
    )
    assert run.answer == [0]
    assert "never destroyed: 50 aclTensorList, 100 aclTensor;" in run.errors


@pain(67)
def test_members_end_with_their_list(program: Program) -> None:
    run = program(
        LISTS
        + """
        made, (member,) = new_list(1)
        first = library.aclDestroyTensorList(ctypes.c_void_p(made))
        answer(first, library.aclDestroyTensor(ctypes.c_void_p(member)), told())
        """.replace("\n        ", "\n"),
        package_lib_dir() / "libnnopbase.so",
    )
    first, second, text = run.answer
    assert (first, second) == (0, 161002)
    assert "aclDestroyTensorList" in text and "destroy the members" in text


@pain(101)
def test_a_queued_copy_between_hosts(program: Program) -> None:
    run = program("""
        acl.init(); acl.rt.set_device(0)
        stream = acl.rt.create_stream()[0]
        a, b = acl.rt.malloc_host(64)[0], acl.rt.malloc_host(64)[0]
        answer(acl.rt.memcpy_async(a, 64, b, 64, 0, stream), told())
    """)
    code, text = run.answer
    assert code == 207000 and "host to host" in text


@pain(105)
def test_rows_are_not_copied_on_a_board(program: Program) -> None:
    """A 310B that is its own host: the same program works as a card in a host."""
    body = """
        acl.init(); acl.rt.set_device(0)
        device, host = acl.rt.malloc(64, 0)[0], acl.rt.malloc_host(64)[0]
        answer(acl.rt.get_run_mode()[0], acl.rt.memcpy2d(device, 8, host, 8, 8, 4, 1), told())
    """
    chip = {"ASCENDRT_SOC": "Ascend310B4"}
    mode, code, text = program(body, ASCENDRT_DEVICE_MEMORY="open", **chip).answer
    assert (mode, code) == (0, 207000)
    assert "feature not support" in text and "copies no rows" in text and "aclrtMemcpy" in text
    assert program(body, **chip).answer[:2] == [1, 0]


@pain(103)
def test_more_bytes_than_fit(program: Program) -> None:
    run = program("""
        acl.init(); acl.rt.set_device(0)
        device, host = acl.rt.malloc(64, 0)[0], acl.rt.malloc_host(64)[0]
        acl.rt.memset(device, 64, 7, 64)
        refused = acl.rt.memcpy(device, 16, host, 32, 1), told()
        # A kind that is not true is not told by a card: the places count.
        wrong = acl.rt.memcpy(host, 64, device, 64, 0)
        answer(*refused, wrong, list(acl.util.ptr_to_bytes(host, 2)))
    """)
    code, text, wrong, seen = run.answer
    assert code == 107000 and "count is 32, but destMax is 16" in text
    assert (wrong, seen) in ((0, [7, 7]), (107000, [0, 0]))


@pain(119)
def test_an_input_of_another_size(program: Program, digits: Path) -> None:
    run = program(
        f"""acl.init(); acl.rt.set_device(0)
{MODEL}
code = acl.mdl.execute(model, dataset(memory(128)), dataset(memory(40)))
answer(code, told())
""",
        digits,
    )
    code, text = run.answer
    assert code != 0 and "input 0" in text and "128" in text and "256" in text


@pain(121)
def test_sizes_of_a_model_of_several_shapes(program: Program, rows_om: Path) -> None:
    """-1 stands in the input's shape alone; outputs tell sizes, and those of the gear once set."""
    run = program(
        f"""acl.init(); acl.rt.set_device(0)
{MODEL}
inputs = dataset(memory(80), memory(acl.mdl.get_input_size_by_index(desc, 1)))
code = acl.mdl.set_dynamic_batch_size(model, inputs, 1, 2)
answer(acl.mdl.get_input_dims(desc, 0)[0]["dims"], acl.mdl.get_output_dims(desc, 0)[0]["dims"],
       acl.mdl.get_output_size_by_index(desc, 0), code,
       acl.mdl.execute(model, inputs, dataset(memory(80))),
       acl.mdl.set_dynamic_batch_size(model, inputs, 1, 3), told())
""",
        rows_om,
    )
    given, taken, size, code, executed, wrong, text = run.answer
    assert (given, taken, size, code, executed) == ([-1, 4], [5, 4], 80, 0, 0)
    assert wrong == 145013 and "the model was not compiled for 3; its gears are: 2 5" in text


@pain(123)
def test_preprocessing_and_gears(tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text("aipp_op { aipp_mode: dynamic max_src_image_size: 100 }")
    command = [sys.executable, "-m", "ascendrt", "om", "convert", str(DIGITS), "-o"]
    command += [str(tmp_path / "net.om"), "--input_shape=image:-1,1,8,8", "--input_format=ND"]
    command += ["--dynamic_dims=1;4", f"--insert_op_conf={tmp_path}/aipp.cfg"]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0 and not (tmp_path / "net.om").exists()
    assert "insert_op_conf" in done.stderr and "not dynamic_dims" in done.stderr


@pain(125)
def test_what_is_written_into_the_input_of_gears_harms_nobody(
    program: Program, rows_om: Path
) -> None:
    """The call that sets the gear decides, whatever lies in the input before it."""
    run = program(
        f"""import struct
acl.init(); acl.rt.set_device(0)
{MODEL}
gear = memory(acl.mdl.get_input_size_by_index(desc, 1))
noise, numbers = b"\\x7f" * gear[1], struct.pack("8f", *range(8))
x, y = memory(80), memory(80)
acl.rt.memcpy(gear[0], gear[1], acl.util.bytes_to_ptr(noise), gear[1], 1)
acl.rt.memcpy(x[0], 80, acl.util.bytes_to_ptr(numbers), 32, 1)
inputs, host = dataset(x, gear), acl.rt.malloc_host(32)[0]
codes = [acl.mdl.set_dynamic_batch_size(model, inputs, 1, 2),
         acl.mdl.execute(model, inputs, dataset(y)), acl.rt.memcpy(host, 32, y[0], 32, 2)]
answer(codes, struct.unpack("8f", acl.util.ptr_to_bytes(host, 32)))
""",
        rows_om,
    )
    assert run.answer == [[0, 0, 0], [-float(n) for n in range(8)]]


@pain(127)
def test_an_output_without_memory(program: Program, digits: Path) -> None:
    run = program(
        f"""acl.init(); acl.rt.set_device(0)
{MODEL}
outputs = dataset((0, 0))
code = acl.mdl.execute(model, dataset(memory(256)), outputs)
buffer = acl.mdl.get_dataset_buffer(outputs, 0)
pointer, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)
answer(code, bool(pointer), size, acl.rt.free(pointer) if pointer else None, told())
""",
        digits,
    )
    code, made, size, freed, text = run.answer
    assert (code, made, size, freed) == (0, True, 40, 0), text


@pain(141)
def test_codes_that_nobody_looks_at(program: Program) -> None:
    """The drop-in keeps its tuples; the objects raise."""
    run = program("""
        import ascendrt
        acl.init()
        stream, code = acl.rt.create_stream()
        try:
            ascendrt.Stream()
        except ascendrt.AclError as error:
            answer(stream, code, error.code, error.api, str(error))
    """)
    stream, code, raised, api, text = run.answer
    assert (stream, code, raised) == (0, 107002, 107002)
    assert api.startswith("aclrtCreateStream") and "aclrtSetDevice" in text


@pain(143)
def test_models_in_threads(program: Program, digits: Path) -> None:
    run = program(
        f"""import threading
acl.init(); acl.rt.set_device(0)
context = acl.rt.get_context()[0]
done = []
def work():
    acl.rt.set_context(context)
{MODEL.replace(chr(10), chr(10) + "    ")}
    inputs, outputs = dataset(memory(256)), dataset(memory(40))
    done.append([acl.mdl.execute(model, inputs, outputs) for _ in range(50)])
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join(60)
answer(len(done), sum(map(sum, done)))
""",
        digits,
    )
    assert run.answer == [6, 0]


@pain(145)
def test_a_callback_that_nobody_serves(program: Program) -> None:
    run = program("""
        acl.init(); acl.rt.set_device(0)
        stream = acl.rt.create_stream()[0]
        answer(acl.rt.launch_callback(print, 0, 0, stream), told())
    """)
    code, text = run.answer
    assert code == 107015 and "call aclrtSubscribeReport first" in text


@pain(151)
def test_a_key_for_bytes_outside_an_allocation(program: Program) -> None:
    """Any bytes of an allocation may be shared; what leaves it is refused, with its bounds."""
    run = program("""
        acl.init(); acl.rt.set_device(0)
        pointer = acl.rt.malloc(1024, 0)[0]
        inside = acl.rt.ipc_mem_get_export_key(pointer, 1024, 65, 0)[-1]
        answer(inside, acl.rt.ipc_mem_get_export_key(pointer + 512, 4096, 65, 0)[-1], told())
    """)
    inside, outside, text = run.answer
    assert inside == 0 and outside == 107000
    assert "aclrtIpcMemGetExportKey" in text


@pain(163)
def test_arguments_that_the_real_call_refuses(program: Program) -> None:
    run = program("""
        import numpy as np
        acl.init(); acl.rt.set_device(0)
        texts = []
        for wrong in ((np.int64(64), 0), (64,), (64, 0, 0), ("64", 0), (64.0, 0)):
            try:
                acl.rt.malloc(*wrong)
            except TypeError as error:
                texts.append(str(error))
        answer(*texts)
    """)
    assert len(run.answer) == 5
    assert all(text.startswith("acl.rt.malloc args parse failed") for text in run.answer)


@pain(171)
def test_results_without_the_card(program: Program, digits: Path) -> None:
    held = REPOSITORY / "examples" / "digits" / "heldout.npz"
    run = program(
        """
        import numpy as np
        import ascendrt
        data = np.load(sys.argv[2])
        with ascendrt.Device(0), ascendrt.Model(sys.argv[1]) as model:
            seen = [int(model((picture.astype(np.float32) / 16).reshape(1, 1, 8, 8))[0].argmax())
                    for picture in data["pixels"][:100]]
        answer(data.files, seen, [int(x) for x in data[data.files[-1]].reshape(-1)[:100]])
        """,
        digits, held, ASCENDRT_SOC="Ascend310P3",
    )  # fmt: skip
    _, seen, labels = run.answer
    right = sum(a == b for a, b in zip(seen, labels, strict=True))
    assert right >= 90 and len(set(seen)) == 10
