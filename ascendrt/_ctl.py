"""The emulator core's own control entries (art_ctl_*), which are no part of the vendor ABI.

Owns: a ctypes handle of libascendrt_emu.so. The core exports no vendor name, so opening it by path
is harmless when the real backend is in use too. Must never be needed to talk to a device.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from ascendrt._backend import package_lib_dir
from ascendrt.errors import AscendrtError

CORE = "libascendrt_emu.so"
_MESSAGE_BYTES = 8192


class ConvertError(AscendrtError):
    """The converter refuses a network; the text names the node, the operator and the opset."""


@functools.cache
def _core() -> ctypes.CDLL:
    path = package_lib_dir() / CORE
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise AscendrtError(f"the emulator's core does not load: {error}") from error


def _entry(name: str, *argument_types: Any) -> Callable[..., int]:
    try:
        function: Any = getattr(_core(), name)
    except AttributeError as error:
        text = f"{package_lib_dir() / CORE} has no {name}: it is of another version, install again"
        raise AscendrtError(text) from error
    function.argtypes = argument_types
    function.restype = ctypes.c_int32
    return cast("Callable[..., int]", function)


def convert(source: Path, target: Path, options: str) -> str:
    """Convert an ONNX file to an OM file; returns the converter's notes (may be empty).

    Raises: ConvertError with the converter's text; nothing is written then.
    """
    text_type = ctypes.c_char_p
    entry = _entry("art_ctl_om_convert", *[text_type] * 4, ctypes.c_size_t)
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    code = entry(
        os.fsencode(source), os.fsencode(target), options.encode(), message, _MESSAGE_BYTES
    )
    text = message.value.decode(errors="replace").strip()
    if code:
        raise ConvertError(text or f"conversion of {source} failed with code {code}")
    return text


def make_bundle(files: Sequence[Path], target: Path) -> None:
    """Write OM files as one bundle.

    Raises: AscendrtError with the reader's or writer's text; nothing is written then.
    """
    entry = _entry(
        "art_ctl_om_bundle",
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_char_p),
        *[ctypes.c_char_p] * 2,
        ctypes.c_size_t,
    )
    array = (ctypes.c_char_p * len(files))(*[os.fsencode(file) for file in files])
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    if entry(len(files), array, os.fsencode(target), message, _MESSAGE_BYTES):
        raise AscendrtError(message.value.decode(errors="replace"))


def describe_om(path: Path) -> dict[str, Any]:
    """Return the graphs of an OM file and the plan of its memory (see model/om_json.hpp).

    Of a bundle: `variable_bytes` and `models`, each with its `offset`, `bytes` and `model`.


    Raises: AscendrtError with the reader's text.
    """
    return _told("art_ctl_om_describe", (ctypes.c_char_p, os.fsencode(path)))


_LINE = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
_CONVERT_DIALECT = 1


def compile_model(words: Sequence[str], take: Callable[[bool, str], None]) -> int:
    """Run the model compiler's command line; returns its exit code.

    Every line it prints goes to `take`, with True for one of the error channel.
    """
    entry = _entry(
        "art_ctl_atc",
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_int32,
        _LINE,
        ctypes.c_void_p,
    )
    array = (ctypes.c_char_p * len(words))(*[os.fsencode(word) for word in words])
    line = _LINE(lambda channel, text, _: take(channel == 1, text.decode(errors="replace")))
    return entry(len(words), array, _CONVERT_DIALECT, line, None)


def page_kind() -> str:
    """Return what pages back the emulated device memory, such as "4 KiB pages"."""
    entry = _entry("art_ctl_page_kind", ctypes.c_char_p, ctypes.c_size_t)
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    entry(message, _MESSAGE_BYTES)
    return message.value.decode(errors="replace")


_STATISTICS, _SNAPSHOT, _MACHINE, _LEDGERS = range(4)
_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


def memory(question: int) -> dict[str, Any]:
    """Return what the memory tiers hold (see docs/memory.md)."""
    return _told("art_ctl_memory", (ctypes.c_int32, question))


def _told(name: str, *arguments: tuple[Any, Any]) -> dict[str, Any]:
    """Call an entry that gives JSON of any length; arguments are types with values."""
    entry = _entry(name, *(kind for kind, _ in arguments), _TAKE, ctypes.c_void_p)
    texts: list[bytes] = []
    take = _TAKE(lambda text, _: texts.append(text))
    code = entry(*(value for _, value in arguments), take, None)
    text = texts[0].decode(errors="replace")
    if code:
        raise AscendrtError(text)
    answer: dict[str, Any] = json.loads(text)
    return answer


def memory_stats() -> dict[str, Any]:
    """Return figures by device, tier, context and owner."""
    return memory(_STATISTICS)


def memory_snapshot() -> dict[str, Any]:
    """Return the figures and every live block."""
    return memory(_SNAPSHOT)


def machine() -> dict[str, Any]:
    """Return the emulated machine: capacity per device and the processes that hold some."""
    return memory(_MACHINE)


def ledgers() -> dict[str, Any]:
    """Return the ledger files of this user, of any machine and version, and the version of ours."""
    return memory(_LEDGERS)


def ledger_file(machine: str) -> Path:
    """Return where the ledger of an emulated machine lies, or would lie."""
    return Path(f"{ledgers()['prefix']}{machine}")


def clean_ledgers() -> list[str]:
    """Remove the ledger files of this user that no process uses; returns their paths."""
    removed: list[str] = _told("art_ctl_ledgers_clean")["removed"]
    return removed


def is_live(handle: int) -> bool:
    """Return whether a context, stream, event or notify lives."""
    return bool(_entry("art_ctl_handle_is_live", ctypes.c_void_p)(handle))


def clock_now_ns() -> int:
    """Return the calling thread's virtual clock; -1 when time is not virtual."""
    return int(_time_entry("art_ctl_clock_now", ctypes.c_int64)())


@functools.cache
def _time_entry(name: str, result: Any, *argument_types: Any) -> Callable[..., Any]:
    function: Any = _entry(name, *argument_types)
    function.restype = result
    return cast("Callable[..., Any]", function)


class ModelledSignal:
    """What one thread waits for and another one sets, in virtual time; see ascendrt/clock.py."""

    _SLICE_NS = 200_000_000  # of real time: how soon Ctrl-C is seen
    _SET, _DEADLINE = 0, 1

    def __init__(self) -> None:
        self._set = _time_entry("art_ctl_signal_set", None, ctypes.c_void_p)
        self._wait = _time_entry(
            "art_ctl_signal_wait", ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self._free = _time_entry("art_ctl_signal_free", None, ctypes.c_void_p)
        self._signal: int | None = _time_entry("art_ctl_signal_new", ctypes.c_void_p)()
        if self._signal is None:
            raise MemoryError("no host memory for a signal of the clock")

    def set(self) -> None:
        """Let the waiting thread go on; the next wait ends at once when nobody waits."""
        self._set(self._signal)

    def wait(self, until_ns: int | None = None) -> bool:
        """Wait for `set` and take it back; False when the clock has come to `until_ns` before."""
        until = -1 if until_ns is None else max(until_ns, 0)
        on_main = threading.current_thread() is threading.main_thread()
        slice_ns = self._SLICE_NS if on_main else -1
        while True:
            ended = self._wait(self._signal, until, slice_ns)
            if ended in (self._SET, self._DEADLINE):
                return bool(ended == self._SET)

    def __del__(self) -> None:
        if getattr(self, "_signal", None) is not None:
            self._free(self._signal)


def reset_ledger(name: str) -> str:
    """Make the ledger file of an emulated machine new; returns what was done.

    Raises: AscendrtError when processes use it or it belongs to another user.
    """
    entry = _entry("art_ctl_ledger_reset", ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    code = entry(name.encode(), message, _MESSAGE_BYTES)
    text = message.value.decode(errors="replace")
    if code:
        raise AscendrtError(text)
    return text
