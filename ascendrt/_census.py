"""What this process made through the interface and has not given back, and where it was made.

Owns: watchers in the binding's table around the calls that make and end things; a list of what is
live, with the lines of Python that made it. For tests: each watched call takes some microseconds
more. Must never change what a call answers, or keep what it lists alive.

Note [Watchers]: a watcher stands in the table in place of a function, so all ways lead through it:
the module `acl`, the objects, cffi. It runs with the interpreter lock and lets go of it for the
call itself. No lock of the runtime is held around the table, so neither can wait for the other.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascendrt import _backend

_ANSWER = -1  # the thing is what the function returns; else the number of the out-parameter
DEVICE_MEMORY, HOST_MEMORY, MODEL = "device memory", "pinned memory", "model"
MANAGED = "managed memory"
# Kinds that come back by themselves, with their context, device or pool.
_HANDLES = {"context", "stream", "event", "notify"}

_MAKES: dict[str, tuple[str, int]] = {
    "aclrtMalloc": (DEVICE_MEMORY, 0),
    "aclrtMallocAlign32": (DEVICE_MEMORY, 0),
    "aclrtMallocCached": (DEVICE_MEMORY, 0),
    "aclrtMallocWithCfg": (DEVICE_MEMORY, 0),
    "aclrtMemAllocManaged": (MANAGED, 0),
    "aclrtMallocHost": (HOST_MEMORY, 0),
    "aclrtMallocHostWithCfg": (HOST_MEMORY, 0),
    "aclrtMallocPhysical": ("physical memory", 0),
    "aclrtReserveMemAddress": ("reserved addresses", 0),
    "aclrtCreateContext": ("context", 0),
    "aclrtCreateStream": ("stream", 0),
    "aclrtCreateStreamWithConfig": ("stream", 0),
    "aclrtCreateEvent": ("event", 0),
    "aclrtCreateEventWithFlag": ("event", 0),
    "aclrtCreateEventExWithFlag": ("event", 0),
    "aclrtCreateNotify": ("notify", 0),
    "aclCreateDataBuffer": ("data buffer", _ANSWER),
    "aclCreateTensorDesc": ("tensor description", _ANSWER),
    "aclmdlCreateDesc": ("model description", _ANSWER),
    "aclmdlCreateDataset": ("dataset", _ANSWER),
    "aclmdlCreateConfigHandle": ("configuration", _ANSWER),
    "aclmdlCreateExecConfigHandle": ("run configuration", _ANSWER),
    "aclmdlLoadFromFile": (MODEL, 1),
    "aclmdlLoadFromFileWithMem": (MODEL, 1),
    "aclmdlLoadFromMem": (MODEL, 2),
    "aclmdlLoadFromMemWithMem": (MODEL, 2),
    "aclmdlLoadWithConfig": (MODEL, 1),
    "aclmdlRICaptureEnd": ("graph", 1),
}
_ENDS: dict[str, tuple[str, ...]] = {
    "aclrtFree": (DEVICE_MEMORY, MANAGED),
    "aclrtFreeWithDevSync": (DEVICE_MEMORY, MANAGED),
    "aclrtFreeHost": (HOST_MEMORY,),
    "aclrtFreeHostWithDevSync": (HOST_MEMORY,),
    "aclrtFreePhysical": ("physical memory",),
    "aclrtReleaseMemAddress": ("reserved addresses",),
    "aclrtDestroyContext": ("context",),
    "aclrtDestroyStream": ("stream",),
    "aclrtDestroyStreamForce": ("stream",),
    "aclrtDestroyEvent": ("event",),
    "aclrtDestroyNotify": ("notify",),
    "aclDestroyDataBuffer": ("data buffer",),
    "aclDestroyTensorDesc": ("tensor description",),
    "aclmdlDestroyDesc": ("model description",),
    "aclmdlDestroyDataset": ("dataset",),
    "aclmdlDestroyConfigHandle": ("configuration",),
    "aclmdlDestroyExecConfigHandle": ("run configuration",),
    "aclmdlUnload": (MODEL,),
    "aclmdlRIDestroy": ("graph",),
}
_SIZE_ARGUMENT = {name: 1 for name in _MAKES if "Malloc" in name or "Alloc" in name}
_DEPTH = 24  # lines of Python kept for each thing
_OWN = str(Path(__file__).parent)

Site = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True)
class Item:
    """Something that is live."""

    kind: str
    handle: int
    api: str
    size_bytes: int
    sites: tuple[Site, ...] = field(repr=False)

    @property
    def where(self) -> str:
        """The line that made it: the innermost one outside of this package."""
        if not self.sites:
            return "not by Python"
        file, line, function = self.sites[0]
        return f"{file}:{line} in {function}"

    def __str__(self) -> str:
        size = f" of {self.size_bytes} bytes" if self.size_bytes else ""
        name = str(self.handle) if self.kind == MODEL else f"{self.handle:#x}"
        return f"{self.kind} {name}{size}, {self.api} at {self.where}"


class Census:
    """The list. One per process; `start()` begins it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items: dict[tuple[str, int], Item] = {}
        self._kept: list[Any] = []

    def start(self) -> None:
        """Load the libraries and watch them from here on; further calls do nothing.

        Raises: BackendError when no library set can be had.
        """
        if self._kept:
            return
        _backend.load()
        from ascendrt._cffi import ffi, lib

        for api in (*_MAKES, *_ENDS):
            count = len(ffi.typeof(getattr(lib, api)).args)
            address = int(ffi.cast("uintptr_t", lib.art_bind_exchange(api.encode(), ffi.NULL)))
            if address == 0:
                continue  # the library set has no such function
            form = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * count)
            make = self._maker if api in _MAKES else self._ender
            watcher = form(make(api, form(address)))
            entry = ctypes.cast(watcher, ctypes.c_void_p).value
            self._kept.append(watcher)
            lib.art_bind_exchange(api.encode(), ffi.cast("void *", entry))

    def _maker(self, api: str, function: Callable[..., int]) -> Callable[..., int]:
        kind, place = _MAKES[api]
        size_at = _SIZE_ARGUMENT.get(api)
        word = ctypes.c_uint32 if kind == MODEL else ctypes.c_uint64

        def watch(*arguments: int) -> int:
            answer = function(*arguments)
            if place == _ANSWER:
                handle = answer
            elif answer & 0xFFFFFFFF or not arguments[place]:
                return answer
            else:
                handle = word.from_address(arguments[place]).value
            if handle or kind == MODEL:
                size = arguments[size_at] if size_at is not None else 0
                item = Item(kind, handle, api, size, _sites())
                with self._lock:
                    self._items[kind, handle] = item
            return answer

        return watch

    def _ender(self, api: str, function: Callable[..., int]) -> Callable[..., int]:
        kinds = _ENDS[api]

        def watch(*arguments: int) -> int:
            handle = arguments[0] & 0xFFFFFFFF if MODEL in kinds else arguments[0]
            with self._lock:  # before the call: after it the same address may be another's
                taken = [((kind, handle), self._items.pop((kind, handle), None)) for kind in kinds]
            answer = function(*arguments)
            if answer & 0xFFFFFFFF and _tells(api):
                with self._lock:
                    self._items.update({key: item for key, item in taken if item is not None})
            return answer

        return watch

    def live(self) -> list[Item]:
        """Return what was made and is there still, in the order of making."""
        with self._lock:
            items = list(self._items.values())
        is_live = _backend.load().is_live
        return [item for item in items if item.kind not in _HANDLES or is_live(item.handle)]


def _tells(api: str) -> bool:
    """Whether the function answers a code."""
    return api != "aclDestroyTensorDesc"


def _sites() -> tuple[Site, ...]:
    """The Python lines that led here, without those of this package at the inner end."""
    frame, sites = sys._getframe(2), list[Site]()
    inside = True
    while frame is not None and len(sites) < _DEPTH:
        code = frame.f_code
        inside = inside and code.co_filename.startswith(_OWN)
        if not inside:
            sites.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(sites)


def grown(before: Iterable[Item], after: Iterable[Item]) -> list[tuple[int, Item]]:
    """Return, for each line that made more than went: by how many, and the newest one."""
    counts: Counter[tuple[str, str]] = Counter()
    newest: dict[tuple[str, str], Item] = {}
    for item in after:
        counts[item.kind, item.where] += 1
        newest[item.kind, item.where] = item
    for item in before:
        counts[item.kind, item.where] -= 1
    return [(count, newest[key]) for key, count in counts.items() if count > 0]


census = Census()
