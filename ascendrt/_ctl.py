"""The emulator core's own control entries (art_ctl_*), which are no part of the vendor ABI.

Owns: a ctypes handle of libascendrt_emu.so. The core exports no vendor name, so opening it by path
is harmless when the real backend is in use too. Must never be needed to talk to a device.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Callable
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


def page_kind() -> str:
    """Return what pages back the emulated device memory, such as "4 KiB pages"."""
    entry = _entry("art_ctl_page_kind", ctypes.c_char_p, ctypes.c_size_t)
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    entry(message, _MESSAGE_BYTES)
    return message.value.decode(errors="replace")


_STATISTICS, _SNAPSHOT, _MACHINE = range(3)
_TAKE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


def memory(question: int) -> dict[str, Any]:
    """Return what the memory tiers hold (see docs/memory.md)."""
    entry = _entry("art_ctl_memory", ctypes.c_int32, _TAKE, ctypes.c_void_p)
    texts: list[bytes] = []
    take = _TAKE(lambda text, _: texts.append(text))
    code = entry(question, take, None)
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
