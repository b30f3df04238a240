"""Effects of `acl.util`: addresses, and that they stay what they are."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
from aclchild import Child
from acleffects import Recorder, shows

NPY_BOOL, NPY_UINT8, NPY_INT64, NPY_FLOAT, NPY_DOUBLE, NPY_HALF = 0, 2, 7, 11, 12, 23


@shows("util.bytes_to_ptr", "util.ptr_to_bytes")
def test_bytes(acl: Recorder) -> None:
    data = b"some \0 bytes"
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.util.ptr_to_bytes(pointer, len(data)) == data
    assert acl.util.ptr_to_bytes(pointer + 5, 2) == b"\0 "
    for wrong in (bytearray(4), "text", None, 5, np.zeros(2)):
        with pytest.raises(ValueError, match="is not bytes"):
            acl.util.bytes_to_ptr(wrong)
    with pytest.raises(ValueError, match="pointer is 0"):
        acl.util.ptr_to_bytes(0, 8)


@shows("util.numpy_to_ptr", "util.ptr_to_numpy")
@pytest.mark.filterwarnings("ignore:acl.util")
def test_arrays(acl: Recorder) -> None:
    for dtype, number in (
        ("?", NPY_BOOL), ("u1", NPY_UINT8), ("i8", NPY_INT64), ("f4", NPY_FLOAT),
        ("f8", NPY_DOUBLE), ("f2", NPY_HALF),
    ):  # fmt: skip
        array = np.arange(6).astype(dtype).reshape(2, 3)
        pointer = acl.util.numpy_to_ptr(array)
        assert pointer == array.ctypes.data
        view = acl.util.ptr_to_numpy(pointer, (3, 2), number)
        assert (view.dtype, view.shape) == (array.dtype, (3, 2))
        assert not view.flags.owndata and view.flags.writeable
        view[0, 1] = 0
        assert array[0, 1] == 0
    assert acl.util.ptr_to_numpy(pointer, (0, 4), NPY_FLOAT).shape == (0, 4)


@shows("util.numpy_contiguous_to_ptr")
@pytest.mark.filterwarnings("ignore:acl.util")
def test_contiguous_arrays(acl: Recorder) -> None:
    strided = np.arange(12, dtype=np.int32)[::2]
    pointer, held = acl.util.numpy_contiguous_to_ptr(strided)
    assert pointer == held.ctypes.data != strided.ctypes.data
    assert acl.util.ptr_to_bytes(pointer, 24) == np.arange(0, 12, 2, dtype=np.int32).tobytes()
    whole = np.zeros(4)
    assert acl.util.numpy_contiguous_to_ptr(whole)[1] is whole


@pytest.mark.filterwarnings("ignore:acl.util")
def test_what_is_no_array(acl: Recorder) -> None:
    for call in (acl.util.numpy_to_ptr, acl.util.numpy_contiguous_to_ptr):
        for wrong in (b"bytes", [1, 2], None):
            with pytest.raises(ValueError, match=r"no numpy\.ndarray"):
                call(wrong)
    pointer = acl.util.numpy_to_ptr(np.zeros(4))
    for shape in ([2, 2], 4, None):
        with pytest.raises(TypeError, match="must be a tuple"):
            acl.util.ptr_to_numpy(pointer, shape, NPY_FLOAT)
    with pytest.raises(TypeError, match=r"ptr_to_numpy .*shape\) must hold int, not 2\.0"):
        acl.util.ptr_to_numpy(pointer, (2.0,), NPY_FLOAT)
    for shape in ((-1,), (2**62, 2**62), (2**70,)):
        with pytest.raises(ValueError, match="no possible shape"):
            acl.util.ptr_to_numpy(pointer, shape, NPY_FLOAT)
    with pytest.raises(ValueError, match="no type number 4711"):
        acl.util.ptr_to_numpy(pointer, (2,), 4711)
    with pytest.raises(ValueError, match="pointer is 0"):
        acl.util.ptr_to_numpy(0, (2,), NPY_FLOAT)


def test_array_functions_are_deprecated(acl: Recorder) -> None:
    with pytest.deprecated_call(match="bytes_to_ptr"):
        pointer = acl.util.numpy_to_ptr(np.zeros(2))
    with pytest.deprecated_call():
        acl.util.ptr_to_numpy(pointer, (2,), NPY_DOUBLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        acl.util.bytes_to_ptr(b"x")


def test_programs_without_arrays_import_no_numpy(child: Child) -> None:
    assert child("""
        acl.init(); acl.rt.set_device(0)
        acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(b"x"), 1)
        answer = "numpy" in sys.modules
    """) is False  # fmt: skip


def test_references_are_neither_lost_nor_kept(acl: Recorder, stream: int) -> None:
    data, array, number = b"x" * 64, np.zeros(4), 123456789
    values: list[Any] = [data, array, number]

    def calls() -> None:
        acl.util.bytes_to_ptr(data)
        acl.create_tensor_desc(0, [2, 3], 2)
        acl.mdl.get_input_dims(0, 0)
        acl.rt.launch_callback(values.append, data, 1, stream)  # nobody subscribed
        for wrong in (lambda: acl.rt.malloc(data, 0), lambda: acl.create_tensor_desc(0, [data], 2)):
            with pytest.raises(TypeError):
                wrong()

    calls()
    gc.collect()
    before = [sys.getrefcount(value) for value in (*values, values)]
    for _ in range(50):
        calls()
    gc.collect()
    assert [sys.getrefcount(value) for value in (*values, values)] == before


def test_start_thread_gives_ctrl_c_back_to_the_system(child: Child) -> None:
    """A loop over process_report would otherwise hold up Ctrl-C. As the vendor's module does."""
    inner = (
        "import acl, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "acl.util.stop_thread(acl.util.start_thread(lambda: None, None)[0])\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    assert child(f"""
        import subprocess
        answer = subprocess.run([sys.executable, "-c", {inner!r}], check=False).returncode
    """) == -signal.SIGINT  # fmt: skip


def test_threads_that_run_at_exit(child: Child) -> None:
    assert child("""
        import threading, time
        acl.init(); acl.rt.set_device(0)
        context = acl.rt.get_context()[0]
        def serve(_):
            acl.rt.set_context(context)
            while True: acl.rt.process_report(10)
        thread = acl.util.start_thread(serve, 0)[0]
        stream = acl.rt.create_stream()[0]
        acl.rt.subscribe_report(thread, stream)
        for number in range(20): acl.rt.launch_callback(time.sleep, 0.001, 1, stream)
        answer = "left running"
    """) == "left running"  # fmt: skip


def test_a_stress_of_threads(acl: Recorder, device: int) -> None:
    """Threads that allocate, copy and wait at the same time, while Python switches often."""
    errors: list[Any] = []
    context = acl.rt.get_context()[0]

    def work(number: int) -> None:
        assert acl.rt.set_context(context) == 0
        stream, data = acl.rt.create_stream()[0], bytes([number]) * 4096
        for _ in range(100):
            pointer, host = acl.rt.malloc(4096, 0)[0], acl.rt.malloc_host(4096)[0]
            source = acl.util.bytes_to_ptr(data)
            codes = [acl.rt.memcpy_async(pointer, 4096, source, 4096, 1, stream),
                     acl.rt.memcpy_async(host, 4096, pointer, 4096, 2, stream),
                     acl.rt.synchronize_stream(stream)]  # fmt: skip
            if codes != [0, 0, 0] or acl.util.ptr_to_bytes(host, 4096) != data:
                errors.append((number, codes))
            acl.rt.free(pointer)
            acl.rt.free_host(host)
        acl.rt.destroy_stream(stream)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    end = time.monotonic() + 60
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, end - time.monotonic()))
    sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
