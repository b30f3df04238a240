"""A pool that gives each job the least loaded device:  python examples/guides/device_pool.py

What the usual guide gets wrong:
* It makes a context for every job and destroys it after: hundreds of microseconds each time, and
  models and memory cannot be kept. Here a device has one context for the life of the pool.
* Its `acquire` calls set_device each time and never reset_device: references pile up, and the
  device stays open. If create_context fails, the device counts as busy for ever.
* It counts jobs alone. Two devices with one job each are not equal when one has no memory left.
* After `release` the thread's current context is a destroyed one; the next call fails far away.

`ascendrt.DevicePool` has this and more: jobs wait until a device has room, on threads of its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import acl
from acltools import check, device_memory, free_bytes, valued


class DevicePool:
    """Devices, a context each; a job gets the one with the fewest jobs, then the most memory."""

    def __init__(self, devices: Sequence[int]) -> None:
        self._lock = threading.Lock()
        self._jobs = dict.fromkeys(devices, 0)
        self._contexts: dict[int, int] = {}
        for device in devices:
            check(acl.rt.set_device(device), "acl.rt.set_device")
            self._contexts[device] = valued(acl.rt.get_context(), "acl.rt.get_context")

    @contextmanager
    def device(self) -> Iterator[int]:
        """Lend the least loaded device: current on this thread in the block."""
        device = self._take()
        try:
            check(acl.rt.set_context(self._contexts[device]), "acl.rt.set_context")
            yield device
        finally:
            with self._lock:
                self._jobs[device] -= 1

    def _take(self) -> int:
        with self._lock:
            fewest = min(self._jobs.values())
            idle = [device for device, jobs in self._jobs.items() if jobs == fewest]
            device = max(idle, key=self._free) if len(idle) > 1 else idle[0]
            self._jobs[device] += 1
            return device

    def _free(self, device: int) -> int:
        check(acl.rt.set_context(self._contexts[device]), "acl.rt.set_context")
        return free_bytes()

    def close(self) -> None:
        """Give back each device's one reference."""
        for device in self._contexts:
            check(acl.rt.reset_device(device), "acl.rt.reset_device")


def main() -> None:
    """Let sixteen jobs run at the same time and count where they ran."""
    check(acl.init(), "acl.init")
    pool = DevicePool(range(valued(acl.rt.get_device_count(), "acl.rt.get_device_count")))
    together = threading.Barrier(16)

    def job(_: int) -> int:
        with pool.device() as device:
            together.wait(60)  # all of them are under way
            check(acl.rt.free(device_memory(1 << 20)), "acl.rt.free")
            return device

    with ThreadPoolExecutor(16) as threads:
        ran = Counter(threads.map(job, range(16)))
    print("jobs per device:", dict(sorted(ran.items())))
    pool.close()
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
