"""AscendCL from Python: the same objects on real NPUs and on the emulator.

Importing this package loads no library and no numpy; the first object used does. Which library set
is used is decided by ASCENDRT_BACKEND (see `ascendrt info`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascendrt._backend import backend as backend
    from ascendrt._pyacl import activate as activate
    from ascendrt.aipp import Aipp as Aipp
    from ascendrt.clocks import Clock as Clock
    from ascendrt.clocks import Future as Future
    from ascendrt.clocks import clock as clock
    from ascendrt.clocks import run as run
    from ascendrt.device import Context as Context
    from ascendrt.device import Device as Device
    from ascendrt.device import MemoryInfo as MemoryInfo
    from ascendrt.device import device_count as device_count
    from ascendrt.device import finalize as finalize
    from ascendrt.device import init as init
    from ascendrt.device import soc_name as soc_name
    from ascendrt.errors import AclError as AclError
    from ascendrt.errors import AscendrtError as AscendrtError
    from ascendrt.errors import BackendError as BackendError
    from ascendrt.errors import BackendWarning as BackendWarning
    from ascendrt.errors import DeviceError as DeviceError
    from ascendrt.errors import MissingSymbolError as MissingSymbolError
    from ascendrt.errors import ModelError as ModelError
    from ascendrt.errors import NotSupportedError as NotSupportedError
    from ascendrt.errors import OutOfMemoryError as OutOfMemoryError
    from ascendrt.errors import ResourceError as ResourceError
    from ascendrt.errors import UsageError as UsageError
    from ascendrt.errors import WaitTimeoutError as WaitTimeoutError
    from ascendrt.graph import Graph as Graph
    from ascendrt.memory import Memory as Memory
    from ascendrt.memory import PinnedMemory as PinnedMemory
    from ascendrt.memory import memory_snapshot as memory_snapshot
    from ascendrt.memory import memory_stats as memory_stats
    from ascendrt.model import Model as Model
    from ascendrt.model import Run as Run
    from ascendrt.model import TensorSpec as TensorSpec
    from ascendrt.serving import DevicePool as DevicePool
    from ascendrt.serving import DynamicBatcher as DynamicBatcher
    from ascendrt.serving import ModelPool as ModelPool
    from ascendrt.serving import Pipeline as Pipeline
    from ascendrt.stream import Event as Event
    from ascendrt.stream import Stream as Stream

__version__ = "0.1.0"

_HOMES = {
    "_backend": ("backend",),
    "_pyacl": ("activate",),
    "aipp": ("Aipp",),
    "clocks": ("Clock", "Future", "clock", "run"),
    "device": ("Context", "Device", "MemoryInfo", "device_count", "finalize", "init", "soc_name"),
    "errors": (
        "AclError",
        "AscendrtError",
        "BackendError",
        "BackendWarning",
        "DeviceError",
        "MissingSymbolError",
        "ModelError",
        "NotSupportedError",
        "OutOfMemoryError",
        "ResourceError",
        "UsageError",
        "WaitTimeoutError",
    ),
    "graph": ("Graph",),
    "memory": ("Memory", "PinnedMemory", "memory_snapshot", "memory_stats"),
    "model": ("Model", "Run", "TensorSpec"),
    "serving": ("DevicePool", "DynamicBatcher", "ModelPool", "Pipeline"),
    "stream": ("Event", "Stream"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        me = sys.modules[__name__]  # Python then says which name was probably meant
        raise AttributeError(f"module 'ascendrt' has no attribute {name!r}", name=name, obj=me)
    value: object = getattr(import_module(f"ascendrt.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME_OF))
