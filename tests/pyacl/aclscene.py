"""What the calls of calls.txt are made with: handles, memory and models, made when asked for.

Owns: the values behind the names of that file, and how it is read. Must never be kept from one
call to the next: a scene is made for one call, which may spoil it.
"""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import models
from aclcalls import nothing

CALLS = Path(__file__).with_name("calls.txt")


@dataclass(frozen=True)
class Line:
    """A call that succeeds, and arguments that make it fail ("" when none are told)."""

    name: str
    good: str
    bad: str
    never: str  # why it cannot fail, "" when it can


def _read() -> tuple[dict[str, Line], dict[str, str]]:
    calls: dict[str, Line] = {}
    values: dict[str, str] = {}
    for text in CALLS.read_text(encoding="utf-8").splitlines():
        if not text or text.startswith("#"):
            continue
        if value := re.match(r"(\w+) = (.+)", text):
            values[value[1]] = value[2]
            continue
        call, _, never = text.partition(" # ")
        call, _, bad = call.partition(" ! ")
        name, _, good = call.partition("(")
        assert name not in calls and good.endswith(")"), text
        calls[name] = Line(name, good[:-1], bad, never)
    return calls, values


LINES, VALUES = _read()


class Files:
    """Networks with and without gears; made once, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._om, self._folder = models.OmFiles(folder), folder

    def __getitem__(self, name: str) -> bytes:
        path = self._folder / f"{name}.kept"
        if not path.exists():
            path.write_bytes(self._made(name))
        return path.read_bytes()

    def path(self, name: str) -> str:
        assert self[name]
        return str(self._folder / f"{name}.kept")

    def _made(self, name: str) -> bytes:
        if name == "open":
            return self._om.open_rows("1~5")
        if name == "sights":
            options: tuple[str, ...] = ("--input_shape=x:1,3,-1,-1", "--dynamic_image_size=2,2;4,4")
            return self._om.negation(name, [1, 3, "h", "w"], *options)
        if name == "mats":
            options = ("--input_shape=x:-1,-1", "--input_format=ND", "--dynamic_dims=1,2;2,4")
            return self._om.negation(name, ["n", "m"], *options)
        if name == "bundle":
            return models.bundle([self["rows"], self["good"]])
        made: bytes = getattr(self._om, name)
        return made


class Scene(Mapping[str, Any]):
    """The namespace in which the arguments of one call are evaluated."""

    nothing = staticmethod(nothing)

    def __init__(self, acl: Any, files: Files) -> None:
        self.acl, self.rt, self.mdl, self.op, self.util = acl, acl.rt, acl.mdl, acl.op, acl.util
        self.files = files
        self.closing = threading.Event()
        self._kept: list[Any] = []
        self.made: dict[str, Any] = {}
        self._other: subprocess.Popen[bytes] | None = None

    def __getitem__(self, name: str) -> Any:
        if name in VALUES and name not in self.made:
            self.made[name] = self._evaluated(VALUES[name])
        return self.made[name] if name in self.made else getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(VALUES)

    def __len__(self) -> int:
        return len(VALUES)

    def _evaluated(self, text: str) -> Any:
        return eval(text, {"__builtins__": {}}, self)

    def arguments(self, text: str) -> list[Any]:
        given: list[Any] = self._evaluated(f"[{text}]")
        return given

    def close(self) -> None:
        self.closing.set()
        if self._other is not None:
            self._other.communicate(b"end", timeout=20)
        if "thread_id" in vars(self):
            self.util.stop_thread(self.thread_id)
        if "page" in vars(self):
            self.rt.host_unregister(self.page)

    # What the expressions are written with.

    @staticmethod
    def ok(answer: tuple[Any, ...]) -> Any:
        assert answer[-1] == 0, answer
        return answer[0]

    @staticmethod
    def after(code: int, value: Any) -> Any:
        assert code == 0
        return value

    def zeroed(self, pointer: int, size: int) -> int:
        assert self.rt.memset(pointer, size, 0, size) == 0
        return pointer

    def file(self, name: str) -> str:
        return self.files.path(name)

    def bytes_of(self, name: str) -> tuple[int, int]:
        """Where the bytes of a model are, and how many."""
        data = self.files[name]
        self._kept.append(data)
        return self.util.bytes_to_ptr(data), len(data)

    def desc_of(self, name: str) -> int:
        made: int = self.mdl.create_desc()
        assert self.mdl.get_desc_from_file(made, self.files.path(name)) == 0
        return made

    def dataset_of(self, model: int, kind: str) -> int:
        """A dataset with memory for all inputs or outputs of a model."""
        desc, dataset = self.mdl.create_desc(), self.mdl.create_dataset()
        assert self.mdl.get_desc(desc, model) == 0
        for index in range(getattr(self.mdl, f"get_num_{kind}puts")(desc)):
            size = getattr(self.mdl, f"get_{kind}put_size_by_index")(desc, index)
            buffer = self.acl.create_data_buffer(self.ok(self.rt.malloc(size, 0)), size)
            assert self.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
        return int(dataset)

    # Values that take more than an expression.

    @cached_property
    def failure(self) -> list[Any]:
        """No arguments, after a call that failed."""
        assert self.rt.set_device(99) != 0
        return []

    @cached_property
    def ended(self) -> list[Any]:
        """No arguments, and the library is not initialised."""
        assert self.acl.finalize() == 0
        return []

    @cached_property
    def page(self) -> int:
        """The address of a page of ordinary memory."""
        room = ctypes.create_string_buffer(2 * 4096)
        self._kept.append(room)
        return (ctypes.addressof(room) + 4095) // 4096 * 4096

    @cached_property
    def array(self) -> Any:
        import numpy as np

        return np.arange(4)

    @cached_property
    def context(self) -> int:
        kept = self.ok(self.rt.get_context())
        made: int = self.ok(self.rt.create_context(0))
        assert self.rt.set_context(kept) == 0
        return made

    @cached_property
    def rooms(self) -> tuple[int, int, int, int]:
        """Work and weight memory of the network."""
        work, weight, code = self.mdl.query_size(self.file("good"))
        assert code == 0
        places = [self.ok(self.rt.malloc(max(size, 64), 0)) for size in (work, weight)]
        return places[0], work, places[1], weight

    @cached_property
    def allocator(self) -> int:
        made: int = self.rt.allocator_create_desc()
        for part in ("alloc", "free", "get_addr_from_block"):
            setter = getattr(self.rt, f"allocator_set_{part}_func_to_desc")
            assert setter(made, nothing) == 0
        assert self.rt.allocator_set_obj_to_desc(made, 4096) == 0
        return made

    @cached_property
    def foreign(self) -> int:
        """What another process exported to everybody."""
        code = (
            "import acl; acl.init(); acl.rt.set_device(0); "
            f"size, prop = {self['granularity']}, {self['prop']}; "
            "made = acl.rt.malloc_physical(size, prop, 0)[0]; "
            "print(acl.rt.mem_export_to_shareable_handle(made, 0, 1)[0], flush=True); input()"
        )
        pipe = subprocess.PIPE
        self._other = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe)
        assert self._other.stdout is not None
        return int(self._other.stdout.readline())

    @cached_property
    def thread_id(self) -> int:
        """A thread of util.start_thread that serves callbacks until the scene is closed."""
        context = self.ok(self.rt.get_context())

        def serve() -> None:
            self.rt.set_context(context)
            while not self.closing.is_set():
                self.rt.process_report(20)

        return int(self.ok(self.util.start_thread(serve, None)))

    @cached_property
    def reported(self) -> int:
        """A time limit, when a callback waits for this thread."""
        assert self.rt.subscribe_report(threading.get_ident(), self["stream"]) == 0
        assert self.rt.launch_callback(nothing, 0, 0, self["stream"]) == 0
        return 1000

    @cached_property
    def failed_task(self) -> list[int]:
        """Device, stream and task of an operator of a model that failed: an index out of range."""
        model = self.ok(self.mdl.load_from_file(self.file("choice")))
        inputs, outputs = self.dataset_of(model, "in"), self.dataset_of(model, "out")
        found: list[int] = []
        address = self.acl.get_data_buffer_addr(self.mdl.get_dataset_buffer(inputs, 0))
        data = struct.pack("2i", 1, 99)
        assert self.rt.memcpy(address, 8, self.util.bytes_to_ptr(data), 8, 1) == 0

        def note(info: int) -> None:
            names = ("device_id", "stream_id", "task_id")
            found.extend(getattr(self.rt, f"get_{n}_from_exception_info")(info) for n in names)

        assert self.rt.set_exception_info_callback(note) == 0
        assert self.mdl.execute(model, inputs, outputs) != 0
        assert self.rt.set_exception_info_callback(None) == 0
        return found

    @cached_property
    def info(self) -> int:
        """What a task that failed tells; its callback lasts until the scene is closed."""
        found: list[int] = []
        told = threading.Event()

        def note(info: int) -> None:
            found.append(info)
            told.set()
            self.closing.wait()

        event = self.ok(self.rt.create_event_with_flag(1))
        target = self.ok(self.rt.malloc(64, 0))
        assert self.rt.set_exception_info_callback(note) == 0
        assert self.rt.stream_wait_event(self["stream"], event) == 0
        assert self.rt.memcpy_async(target, 64, self["block"], 64, 3, self["stream"]) == 0
        assert self.rt.free(target) == 0
        assert self.rt.record_event(event, self.ok(self.rt.create_stream())) == 0
        assert told.wait(10)
        return found[0]
