"""Two models side by side, a context each:  python examples/guides/multi_model.py digits.om

What the usual guide gets wrong:
* Contexts do not divide the device's memory: each can take all of it, and a pointer from one may be
  used in the other. What a context has of its own is streams, models and its default stream.
* A context per request is expensive and no safer. One per model (or thread) for its life is enough.
* A thread begins without a context: each must set one, or calls answer 107002. With the wrong one
  they answer 107003 when a stream of another context is used.
* Models in one context do not block each other either, if they run in different streams.
"""

from __future__ import annotations

import threading

import acl
from acltools import check, device_memory, free_bytes, label, model_path, picture, valued
from model_executor import ModelExecutor

REQUESTS = 20


class Service:
    """A model with a context and a stream of its own, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self.context = valued(acl.rt.create_context(0), "acl.rt.create_context")
        self.stream = valued(acl.rt.create_stream(), "acl.rt.create_stream")
        self.executor = ModelExecutor(path)
        self.slot = self.executor.slot()

    def use(self) -> None:
        """Make the context current on the calling thread."""
        check(acl.rt.set_context(self.context), "acl.rt.set_context")

    def answer(self, index: int) -> int:
        """Run one picture."""
        self.executor.execute_async(self.slot, self.stream, picture(index))
        check(acl.rt.synchronize_stream(self.stream), "acl.rt.synchronize_stream")
        return int(self.executor.results(self.slot)[0].argmax())

    def close(self) -> None:
        """Free what the context does not take with it, then the context."""
        self.use()
        self.slot.close()
        self.executor.close()
        check(acl.rt.destroy_stream(self.stream), "acl.rt.destroy_stream")
        check(acl.rt.destroy_context(self.context), "acl.rt.destroy_context")


def main() -> None:
    """Serve two threads; then show what is shared."""
    path = model_path()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    home = valued(acl.rt.get_context(), "acl.rt.get_context")
    before = free_bytes()
    services = {"first": Service(path), "second": Service(path)}
    right: dict[str, int] = {}

    def work(name: str) -> None:
        service = services[name]
        service.use()  # a thread begins without a context
        right[name] = sum(service.answer(n) == label(n) for n in range(REQUESTS))

    threads = [threading.Thread(target=work, args=(name,)) for name in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"right of {REQUESTS} each: {right['first']} and {right['second']}")

    services["first"].use()
    pointer = device_memory(1 << 20)
    services["second"].use()
    code = acl.rt.memset_async(pointer, 1 << 20, 7, 1 << 20, services["second"].stream)
    check(code, "acl.rt.memset_async")
    check(acl.rt.synchronize_stream(services["second"].stream), "acl.rt.synchronize_stream")
    print("memory of one context was used in the other")
    event = valued(acl.rt.create_event(), "acl.rt.create_event")
    code = acl.rt.record_event(event, services["first"].stream)
    print(f"a stream of the other context: code {code}")
    check(acl.rt.destroy_event(event), "acl.rt.destroy_event")
    check(acl.rt.free(pointer), "acl.rt.free")

    for service in services.values():
        service.close()
    check(acl.rt.set_context(home), "acl.rt.set_context")
    print("all device memory is back:", free_bytes() == before)
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
