"""A context manager against leaks:  python examples/guides/contexts.py

What the usual guide gets wrong:
* When its create_context fails, the set_device before it is never undone.
* It says that contexts own memory. Streams and models end with their context; device memory
  belongs to the process and the device, and an allocation outlives the context it was made in.
  Nobody then has its address: that is the leak. The block below frees what was made in it.
* After it the thread has no current context, whatever it had before: nesting breaks the outer
  block.

`ascendrt.Context` and `ascendrt.Device` do the same for objects, in any order of closing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import acl
from acltools import check, device_memory, free_bytes, valued


class Allocations:
    """The device memory of one block of code."""

    def __init__(self) -> None:
        self._blocks: set[int] = set()

    def alloc(self, size: int) -> int:
        """Allocate memory that is freed with the block."""
        pointer = device_memory(size)
        self._blocks.add(pointer)
        return pointer

    def free(self, pointer: int) -> None:
        """Free it earlier."""
        self._blocks.remove(pointer)
        check(acl.rt.free(pointer), "acl.rt.free")

    def close(self) -> None:
        """Free what is left."""
        for pointer in tuple(self._blocks):
            self.free(pointer)


@contextmanager
def npu_context(device: int) -> Iterator[Allocations]:
    """Make a context current; afterwards all is as before, also after an exception."""
    before, _ = acl.rt.get_context()  # 0 and a code when the thread has none
    check(acl.rt.set_device(device), "acl.rt.set_device")
    try:
        context = valued(acl.rt.create_context(device), "acl.rt.create_context")
        allocations = Allocations()
        try:
            yield allocations
        finally:
            allocations.close()
            check(acl.rt.destroy_context(context), "acl.rt.destroy_context")
    finally:
        check(acl.rt.reset_device(device), "acl.rt.reset_device")
        if before:
            check(acl.rt.set_context(before), "acl.rt.set_context")


def leak_in_a_context() -> int:
    """Show whose the memory is: it is still taken when its context is gone."""
    context = valued(acl.rt.create_context(0), "acl.rt.create_context")
    pointer = device_memory(64 << 20)
    check(acl.rt.destroy_context(context), "acl.rt.destroy_context")
    return pointer


def main() -> None:
    """Lose memory as the guide does; then run blocks that fail, and lose nothing."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    home = valued(acl.rt.get_context(), "acl.rt.get_context")
    before = free_bytes()

    pointer = leak_in_a_context()
    check(acl.rt.set_context(home), "acl.rt.set_context")
    print(f"a destroyed context kept {(before - free_bytes()) >> 20} MiB of the device")
    check(acl.rt.free(pointer), "acl.rt.free")

    for _ in range(100):
        try:
            with npu_context(0) as outer:
                outer.alloc(1 << 20)
                with npu_context(0) as inner:
                    inner.free(inner.alloc(1 << 20))
                outer.alloc(1 << 20)  # the outer context is current again
                raise KeyError("a failure in the middle")
        except KeyError:
            pass
    print("100 failing blocks, all device memory is back:", free_bytes() == before)
    current = valued(acl.rt.get_context(), "acl.rt.get_context")
    print("the thread has the context it had before:", current == home)
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
