"""The runtime's life, devices and contexts.

Owns: the one implicit aclInit of a process, references to primary contexts, explicit contexts.
Must never know whether the device is real or emulated.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ascendrt import _forks, _lib, _waits, numbers
from ascendrt._gen.enums import aclrtMemAttr
from ascendrt._lib import call, check, fast, lib
from ascendrt._owned import InContext, Owned, note_use, settle
from ascendrt.closing import close_all
from ascendrt.errors import AclError

_REPEATED_INIT = 100002
_MEMORY_KINDS = (int(aclrtMemAttr.ACL_HBM_MEM), int(aclrtMemAttr.ACL_DDR_MEM))

_lock = _forks.lock()
_initialised = False
_round = 0  # of init and finalize; references to devices end with theirs


@dataclass(frozen=True)
class MemoryInfo:
    """Device memory in bytes."""

    free_bytes: int
    total_bytes: int


def init(config: str | os.PathLike[str] | None = None) -> None:
    """Initialise the runtime; optional, because the first Device does it.

    `config` is a JSON file in the form of aclInit. A runtime that somebody else initialised in this
    process (a framework, the acl module) is used as it is.

    Raises: AclError (missing or malformed file, second round with another configuration).
    Source: semantics of aclInit.
    """
    global _initialised
    with _lock:
        if _initialised:
            return
        path = _lib.null() if config is None else os.fsencode(config)
        code = lib.aclInit(path)
        if code != _REPEATED_INIT:
            check(code, "aclInit", config=config)
            atexit.register(_finalize_at_exit, os.getpid())
        _initialised = True
        note_use()


def finalize() -> None:
    """Finalise the runtime; every object must be closed before. Without `init` it does nothing.

    Raises: AclError.
    """
    global _initialised, _round
    with _lock:
        if not _initialised:
            return
        _initialised = False
        _round += 1
        atexit.unregister(_finalize_at_exit)
        call("aclFinalize")


def _finalize_at_exit(pid: int) -> None:
    if _initialised and pid == os.getpid():  # a forked child has no runtime to finalise
        _lib.check_quiet(lib.aclFinalize(), "aclFinalize")


def device_count() -> int:
    """Return how many devices this process may use (ASCEND_RT_VISIBLE_DEVICES applies).

    Raises: AclError, for example 207004 when the visible list names no device.
    """
    count = _lib.new("uint32_t *")
    call("aclrtGetDeviceCount", count)
    return int(count[0])


def soc_name() -> str:
    """Return the name of the chip, such as Ascend910B1; empty when the runtime cannot tell."""
    return _lib.text(lib.aclrtGetSocName())


class Device(InContext):
    """A device made current on the calling thread; closing drops that reference.

    Raises: AclError 107001 for an id outside [0, device_count()).
    Source: aclrtSetDevice, aclrtResetDevice: one reference to the primary context per object.
    """

    def __init__(self, index: int = 0) -> None:
        index = numbers.int32(index, "device")
        init()
        code = lib.aclrtSetDevice(index)
        if code:
            raise _lib.failure(code, "aclrtSetDevice", device=index, devices=_count_or_unknown())
        self.index = index
        self._round = _round
        self._closed = False
        self._scope = Scope()
        self._scope.ids["device"] = index
        self._context = self._scope.context

    def __repr__(self) -> str:
        return f"Device({self.index})"

    def _release(self) -> None:
        if self._round != _round:
            return  # aclFinalize has dropped every reference
        if code := lib.aclrtResetDevice(self.index):
            again = lambda: int(lib.aclrtResetDevice(self.index))  # noqa: E731
            settle(code, "aclrtResetDevice", 0, again, device=self.index)

    def use(self) -> None:
        """Make this device current on the calling thread (its primary context)."""
        self._require_open()
        if code := fast.set_context(self._context):
            raise _lib.failure(code, "aclrtSetCurrentContext", device=self.index)

    def synchronize(self) -> None:
        """Wait for all streams of the calling thread's current context.

        Raises: AclError of a task that failed.
        """
        self._require_open()
        _waits.refuse_in_function()
        code, api = _waits.wait("aclrtSynchronizeDevice")
        if code:
            self.failed(code, api, lib.aclrtSynchronizeDevice, device=self.index)

    def memory(self) -> MemoryInfo:
        """Return free and total memory of this device, whichever is current.

        Units: bytes. Chips without HBM answer for DDR.
        """
        self._require_open()
        free, total = _lib.new("size_t *"), _lib.new("size_t *")
        with self._scope:
            for kind in _MEMORY_KINDS:
                call("aclrtGetMemInfo", kind, free, total, ids={"device": self.index})
                if total[0]:
                    break
        return MemoryInfo(int(free[0]), int(total[0]))


class Context(Owned):
    """An explicit context on a device, current on the creating thread.

    Closing it closes every Memory that was made while it was current: an allocation would outlive
    its context, as on a card, and leak. Raises: AclError 107001 for a bad device id.
    Source: aclrtCreateContext: owns a default stream, works without a Device object.
    """

    def __init__(self, device: Device | int = 0) -> None:
        index = device.index if isinstance(device, Device) else numbers.int32(device, "device")
        init()
        handle = _lib.new("aclrtContext *")
        call("aclrtCreateContext", handle, index, ids={"device": index})
        self.device_index = index
        self._handle = handle[0]
        self._owned: weakref.WeakSet[Owned] = weakref.WeakSet()
        self._guard = threading.RLock()  # of them; a finalizer may come in between
        self._closed = False
        contexts[_lib.address(self._handle)] = weakref.ref(self)

    def __repr__(self) -> str:
        return f"Context(device={self.device_index})"

    def _release(self) -> None:
        contexts.pop(_lib.address(self._handle), None)
        with self._guard:
            owned = list(self._owned)
        try:
            close_all(owned)
        finally:
            self._finish()
            if code := lib.aclrtDestroyContext(self._handle):
                again = lambda: int(lib.aclrtDestroyContext(self._handle))  # noqa: E731
                settle(code, "aclrtDestroyContext", 0, again, device=self.device_index)

    def _finish(self) -> None:
        """Wait for its streams, as destroying does, but so that Ctrl-C ends it."""
        before = fast.get_context()
        if not before or fast.set_context(_lib.address(self._handle)):
            return  # the thread could not go back to having none, or this one is gone
        try:
            _waits.wait("aclrtSynchronizeDevice")
        finally:
            fast.set_context(before)

    def own(self, owned: Owned) -> None:
        """Close `owned` with this context; nothing happens to a closed one's."""
        with self._guard:
            if not self._closed:
                self._owned.add(owned)

    def use(self) -> None:
        """Make this context current on the calling thread."""
        self._require_open()
        call("aclrtSetCurrentContext", self._handle, ids={"device": self.device_index})


class Scope:
    """The context that is current where it is made, for use on other threads: `with scope:`.

    A thread that had a context gets it back after the block; one that had none keeps this one.
    Blocks may nest, and run on several threads at once.
    """

    def __init__(self) -> None:
        self.context = fast.get_context()
        self.ids: dict[str, object] = {}  # for whom it is
        self._before = threading.local()

    def __enter__(self) -> None:
        before = fast.get_context()
        if before == self.context:
            before = 0
        elif self.context and (code := fast.set_context(self.context)):
            raise _lib.failure(code, "aclrtSetCurrentContext", **self.ids)
        stack = getattr(self._before, "stack", None)
        if stack is None:
            stack = self._before.stack = []
        stack.append(before)

    def __exit__(self, *_: object) -> None:
        if before := self._before.stack.pop():
            fast.set_context(before)

    @contextmanager
    def if_alive(self) -> Iterator[None]:
        """Be in the context if it has not ended; then what it held is gone, or needs none."""
        try:
            self.__enter__()
        except AclError:
            yield
            return
        try:
            yield
        finally:
            self.__exit__()


# Open Context objects by the address of their handle; a plain dict, which costs nothing to ask.
contexts: dict[int, weakref.ref[Context]] = {}


def give_to_context(owned: Owned) -> None:
    """Let the current Context close `owned` with itself; nothing without a Context object."""
    reference = contexts.get(fast.get_context())
    context = reference() if reference else None
    if context is not None:
        context.own(owned)


def _count_or_unknown() -> int | str:
    count = _lib.new("uint32_t *")
    return int(count[0]) if lib.aclrtGetDeviceCount(count) == 0 else "unknown"
