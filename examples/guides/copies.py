"""To the device and back, pinned memory, a view:  python examples/guides/copies.py

What the usual guide gets wrong:
* `acl.ACL_MEMCPY_HOST_TO_DEVICE` and its kin: the module has no constants.
* `acl.rt.get_ptr_addr` into `np.frombuffer`: no such function, and frombuffer takes no address. A
  copy is `acl.util.ptr_to_bytes`; a view is made by ctypes (`view` in acltools.py), or by
  `acl.util.ptr_to_numpy`, which is deprecated.
* It allocates pinned memory for every copy. Pinning is slow: allocate once, copy often.
* It calls the view good for as long as you like. Freeing the memory leaves the array dangling, and
  numpy cannot know. Copy out what shall live longer, then free.
* It passes `array.ctypes.data` of any array. A strided one (a transpose, a slice) is not the bytes
  that its shape suggests: `np.ascontiguousarray` first, with a name that keeps it alive.
* A copy from memory that is not pinned is not asynchronous: `memcpy_async` waits for it or takes a
  copy first.
"""

from __future__ import annotations

import acl
import numpy as np
from acltools import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    check,
    device_memory,
    free_bytes,
    host_memory,
    valued,
    view,
)


def main() -> None:
    """Send numbers through device memory in three ways and compare."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    before = free_bytes()
    numbers = np.arange(1 << 18, dtype=np.float32)
    size = numbers.nbytes
    device = device_memory(size)

    # 1. Ordinary memory: returns when the bytes are there.
    back = np.empty_like(numbers)
    code = acl.rt.memcpy(device, size, numbers.ctypes.data, size, HOST_TO_DEVICE)
    check(code, "acl.rt.memcpy to the device")
    code = acl.rt.memcpy(back.ctypes.data, size, device, size, DEVICE_TO_HOST)
    check(code, "acl.rt.memcpy to the host")
    print("ordinary memory:", np.array_equal(back, numbers))

    # 2. Pinned memory, filled and read in place through views, copied in a stream.
    stream = valued(acl.rt.create_stream(), "acl.rt.create_stream")
    sent, received = host_memory(size), host_memory(size)
    given, taken = view(sent, numbers.shape), view(received, numbers.shape)
    np.multiply(numbers, 2, out=given)  # computed where the copy reads it
    taken[:] = -1
    code = acl.rt.memcpy_async(device, size, sent, size, HOST_TO_DEVICE, stream)
    check(code, "acl.rt.memcpy_async to the device")
    code = acl.rt.memcpy_async(received, size, device, size, DEVICE_TO_HOST, stream)
    check(code, "acl.rt.memcpy_async to the host")
    # Until here nothing may be read from `taken` or written to `given`.
    check(acl.rt.synchronize_stream(stream), "acl.rt.synchronize_stream")
    print("pinned memory, a view:", np.array_equal(taken, numbers * 2))

    # 3. What shall outlive the memory is copied out before it is freed.
    kept = taken.copy()
    del given, taken
    for pointer in (sent, received):
        check(acl.rt.free_host(pointer), "acl.rt.free_host")
    print("kept after free_host:", float(kept[-1]) == 2 * float(numbers[-1]))

    check(acl.rt.free(device), "acl.rt.free")
    check(acl.rt.destroy_stream(stream), "acl.rt.destroy_stream")
    print("all device memory is back:", free_bytes() == before)
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
