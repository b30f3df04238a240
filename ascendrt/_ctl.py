"""The emulator core's own control entries (art_ctl_*), which are no part of the vendor ABI.

Owns: a ctypes handle of libascendrt_emu.so. The core exports no vendor name, so opening it by path
is harmless when the real backend is in use too. Must never be needed to talk to a device.
"""

from __future__ import annotations

import ctypes
import functools
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
