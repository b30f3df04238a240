"""python aclstorm.py SEED SECONDS: threads call acl at random; prints how many calls were made.

Host memory lies between guards and lives to the end, as every handle does while one uses it.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

import acl
import numpy as np

THREADS, SIZE, GUARD = 32, 1 << 12, 1 << 9
SEED, SECONDS = int(sys.argv[1]), float(sys.argv[2])
UNTIL = time.monotonic() + SECONDS
rt, mdl = acl.rt, acl.mdl


class Thread:
    """What one thread has, and does at random."""

    def __init__(self, number: int) -> None:
        self.number, self.calls = number, 0
        self.draw = random.Random(SEED + number)
        self.guarded = np.full(SIZE + 2 * GUARD, 165, np.uint8)
        self.host = self.guarded[GUARD:-GUARD].ctypes.data
        self.bytes = bytes(SIZE)
        self.blocks: list[int] = []
        self.streams: list[int] = []
        self.events: list[int] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run)

    def any(self, handles: list[int]) -> int:
        return self.draw.choice(handles)

    def run(self) -> None:
        try:
            assert rt.set_device(self.number % 2) == 0
            self.more()
            ways = [
                self.more,
                self.less,
                self.copy,
                self.queue,
                self.wait,
                self.look,
                self.function,
            ]
            ways += [self.dataset, self.describe, self.refused, self.context]
            while time.monotonic() < UNTIL:
                self.draw.choice(ways)()
                self.calls += 1
            while self.streams:
                rt.destroy_stream(self.streams.pop())
        except BaseException as error:
            self.error = error

    def more(self) -> None:
        self.blocks.append(rt.malloc(SIZE, 0)[0])
        self.streams.append(rt.create_stream()[0])
        self.events.append(rt.create_event()[0])
        assert self.blocks[-1] and self.streams[-1] and self.events[-1]

    def less(self) -> None:
        if len(self.streams) > 3:
            how = self.draw.choice((rt.destroy_stream, rt.destroy_stream_force))
            assert how(self.streams.pop(0)) == 0
            assert rt.synchronize_device() == 0
            assert rt.free(self.blocks.pop(0)) == 0
            assert rt.destroy_event(self.events.pop(0)) == 0

    def copy(self) -> None:
        size, block = self.draw.randrange(SIZE + 1), self.any(self.blocks)
        assert rt.memcpy(block, SIZE, acl.util.bytes_to_ptr(self.bytes), size, 1) == 0
        assert rt.memcpy(self.host, SIZE, block, size, 2) == 0
        assert len(acl.util.ptr_to_bytes(self.host, size)) == size

    def queue(self) -> None:
        stream, size = self.any(self.streams), self.draw.randrange(SIZE + 1)
        assert rt.memset_async(self.any(self.blocks), SIZE, 7, size, stream) == 0
        assert rt.memcpy_async(self.host, SIZE, self.any(self.blocks), size, 2, stream) == 0
        event = self.any(self.events)
        assert rt.record_event(event, stream) == 0
        assert rt.stream_wait_event(self.any(self.streams), event) == 0

    def wait(self) -> None:
        assert rt.synchronize_stream(self.any(self.streams)) == 0
        assert rt.synchronize_event(self.any(self.events)) == 0

    def look(self) -> None:
        rt.stream_query(self.any(self.streams))
        rt.query_event_status(self.any(self.events))
        rt.event_elapsed_time(self.any(self.events), self.any(self.events))
        rt.pointer_get_attributes(self.any(self.blocks))
        rt.get_mem_info(1)
        rt.device_get_uuid(0)

    def function(self) -> None:
        stream, found = self.any(self.streams), []
        if rt.subscribe_report(REPORTER[self.number % 2], stream) == 0:
            for order in range(3):
                assert rt.launch_callback(found.append, [order], order % 2, stream) == 0
            assert rt.synchronize_stream(stream) == 0
            assert rt.unsubscribe_report(REPORTER[self.number % 2], stream) == 0

    def dataset(self) -> None:
        dataset = mdl.create_dataset()
        buffers = [acl.create_data_buffer(block, SIZE) for block in self.blocks[:3]]
        for buffer in buffers:
            assert mdl.add_dataset_buffer(dataset, buffer)[1] == 0
        assert mdl.get_dataset_num_buffers(dataset) == len(buffers)
        for buffer in buffers:
            assert acl.destroy_data_buffer(buffer) == 0
        assert mdl.destroy_dataset(dataset) == 0

    def describe(self) -> None:
        desc, attr = acl.create_tensor_desc(1, [1, 2, 3], 2), acl.op.create_attr()
        acl.set_tensor_desc_name(desc, f"name {self.number}")
        assert acl.get_tensor_desc_name(desc) == f"name {self.number}"
        acl.op.set_attr_list_string(attr, "texts", ["a", "b" * 40])
        acl.op.set_attr_list_list_int(attr, "lists", [[1], [2, 3]])
        acl.op.destroy_attr(attr)
        acl.destroy_tensor_desc(desc)

    def refused(self) -> None:
        assert rt.memcpy(self.host, 1, self.host, 2, 0) != 0
        assert acl.get_recent_err_msg()
        try:
            rt.malloc("a text", 0)
        except TypeError:
            return
        raise AssertionError("taken")

    def context(self) -> None:
        own, (other, code) = rt.get_context()[0], rt.create_context(self.draw.randrange(2))
        assert code == 0
        assert rt.destroy_context(other) == 0
        assert rt.set_context(own) == 0


def report(arguments: Any) -> None:
    rt.set_device(arguments[0])
    while time.monotonic() < UNTIL + 1:
        rt.process_report(50)


acl.init()
REPORTER = [acl.util.start_thread(report, [device])[0] for device in range(2)]
threads = [Thread(number) for number in range(THREADS)]
for each in threads:
    each.thread.start()
for each in threads:
    each.thread.join()
for reporter in REPORTER:
    acl.util.stop_thread(reporter)
for each in threads:
    if each.error is not None:
        raise each.error
    assert (each.guarded[:GUARD] == 165).all() and (each.guarded[-GUARD:] == 165).all()
print(sum(each.calls for each in threads))
