"""Device memory kept ready in classes of size:  python examples/guides/memory_pool.py

What the usual guide gets wrong:
* Its `free` puts a block into the class of the size that was asked for, also one that came from
  the fallback and is smaller than the class. The next request of that class writes past its end.
* When a class is empty it goes to the device although a larger class has blocks, and when it is
  full the block of the right size is freed while nobody ever frees the rest: no `close`.
* It gives a block back while the stream that uses it is still at work; the next owner's data is
  overwritten. Here a block may come back with an event: it is lent again when that is over.
* Two threads take the same block: no lock. `device_id` is an argument that nothing reads.
* It expects 50 to 200 us of `acl.rt.malloc`. Both runtimes keep freed memory ready themselves:
  measure before you add a layer (`ascendrt bench`).
"""

from __future__ import annotations

import threading
from collections import deque

import acl
from acltools import check, device_memory, free_bytes, valued

SMALLEST = 1 << 12


class DeviceMemoryPool:
    """Blocks of powers of two; each class keeps at most `keep` of them."""

    def __init__(self, keep: int = 8) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._ready: dict[int, deque[tuple[int, int]]] = {}  # class: (block, event or 0)
        self._lent: dict[int, int] = {}  # block: class
        self.misses = 0

    def alloc(self, size: int) -> int:
        """Lend a block of at least `size` bytes that no work uses any more."""
        if size < 1:
            raise ValueError(f"{size} bytes: an allocation has at least 1")
        of_class = max(SMALLEST, 1 << (size - 1).bit_length())
        block = self._take(of_class)
        if block == 0:
            block = device_memory(of_class)  # the class's size, so that it may come back to it
            self.misses += 1
        with self._lock:
            self._lent[block] = of_class
        return block

    def _take(self, of_class: int) -> int:
        with self._lock:
            ready = self._ready.get(of_class)
            if not ready:
                return 0
            block, event = ready.popleft()
        if event:
            check(acl.rt.synchronize_event(event), "acl.rt.synchronize_event")
            check(acl.rt.destroy_event(event), "acl.rt.destroy_event")
        return block

    def free(self, block: int, stream: int = 0) -> None:
        """Take a block back; with a stream, for use after the work that is queued there now."""
        event = 0
        if stream:
            event = valued(acl.rt.create_event(), "acl.rt.create_event")
            check(acl.rt.record_event(event, stream), "acl.rt.record_event")
        with self._lock:
            if block not in self._lent:
                raise ValueError(f"{block:#x} is not lent: freed twice, or of another pool")
            of_class = self._lent.pop(block)
            ready = self._ready.setdefault(of_class, deque())
            ready.append((block, event))
            excess = ready.popleft() if len(ready) > self._keep else None
        if excess:
            self._drop(*excess)

    def _drop(self, block: int, event: int) -> None:
        if event:
            check(acl.rt.synchronize_event(event), "acl.rt.synchronize_event")
            check(acl.rt.destroy_event(event), "acl.rt.destroy_event")
        check(acl.rt.free(block), "acl.rt.free")

    def close(self) -> None:
        """Free all that is ready. Raises: RuntimeError when blocks are still lent."""
        with self._lock:
            ready, self._ready = self._ready, {}
            lent = len(self._lent)
        for blocks in ready.values():
            for block, event in blocks:
                self._drop(block, event)
        if lent:
            raise RuntimeError(f"{lent} block(s) are still lent")


def main() -> None:
    """Serve a thousand requests of three sizes."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    before = free_bytes()
    stream = valued(acl.rt.create_stream(), "acl.rt.create_stream")
    pool = DeviceMemoryPool()
    for number in range(1000):
        size = (600_000, 4_000, 150_000)[number % 3]
        block = pool.alloc(size)
        code = acl.rt.memset_async(block, size, number % 256, size, stream)
        check(code, "acl.rt.memset_async")
        pool.free(block, stream)  # while the stream may still be at work
    check(acl.rt.synchronize_stream(stream), "acl.rt.synchronize_stream")
    print(f"1000 requests, {pool.misses} allocations")
    pool.close()
    check(acl.rt.destroy_stream(stream), "acl.rt.destroy_stream")
    print("all device memory is back:", free_bytes() == before)
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
