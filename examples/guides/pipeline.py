"""Copies in, runs, copies out, all at the same time:  python examples/guides/pipeline.py digits.om

Times of one request per program, by events of the device. To see what a card of given speed does,
without one (4 ms in, 5 ms of computing, 4 ms out):

    ASCENDRT_CLOCK=virtual ASCENDRT_TIMING=... python examples/guides/pipeline.py digits.om

What the usual guide gets wrong:
* Its "pipeline" has two streams, but one input buffer, one output buffer and a synchronize in the
  loop: request n+1 begins when request n has ended. It overlaps nothing and takes the sum of the
  three times, as one stream does (`as_the_guide_does` below). Overlap needs a buffer per
  request under way, and no waiting in the loop but for the buffer that is used next.
* It takes both copies through one stream, so they take turns even though the device has an engine
  for each direction. Two streams give max(in + out, compute), three give max(in, compute, out).
* `create_event(stream)`: the argument is dropped unread. Recording ties an event to a stream.
* It copies from ordinary numpy memory "asynchronously", and allocates pinned memory per request.

`ascendrt.Pipeline` is right by construction: there is nothing that two requests could race for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import acl
import numpy as np
from acltools import DEVICE_TO_HOST, HOST_TO_DEVICE, check, label, model_path, picture, valued
from model_executor import ModelExecutor, Slot

REQUESTS = 30
DEPTH = 3  # requests under way; two would do if the host were never late


def stream() -> int:
    """Make a stream."""
    return valued(acl.rt.create_stream(), "acl.rt.create_stream")


def event() -> int:
    """Make an event; it belongs to no stream."""
    return valued(acl.rt.create_event(), "acl.rt.create_event")


class Place:
    """One request under way: its memory, and events for the ends of its stages."""

    def __init__(self, executor: ModelExecutor) -> None:
        self.slot: Slot = executor.slot()
        self.arrived, self.computed, self.left = event(), event(), event()

    def close(self) -> None:
        """Free everything."""
        self.slot.close()
        for each in (self.arrived, self.computed, self.left):
            check(acl.rt.destroy_event(each), "acl.rt.destroy_event")


class Stages:
    """Queues the three stages of a request in the streams that they were given."""

    def __init__(self, executor: ModelExecutor, copy_in: int, compute: int, copy_out: int) -> None:
        self.executor = executor
        self.copy_in, self.compute, self.copy_out = copy_in, compute, copy_out

    def begin(self, place: Place, array: np.ndarray) -> None:
        """Queue the copy in, and the run behind it."""
        self.executor.fill(place.slot, (array,))
        for tensor in place.slot.inputs:
            tensor.copy(HOST_TO_DEVICE, self.copy_in)
        check(acl.rt.record_event(place.arrived, self.copy_in), "acl.rt.record_event")
        wait(self.compute, place.arrived)
        self.executor.compute(place.slot, self.compute)
        check(acl.rt.record_event(place.computed, self.compute), "acl.rt.record_event")

    def finish(self, place: Place) -> None:
        """Queue the copy out behind the run."""
        wait(self.copy_out, place.computed)
        for tensor in place.slot.outputs:
            tensor.copy(DEVICE_TO_HOST, self.copy_out)
        check(acl.rt.record_event(place.left, self.copy_out), "acl.rt.record_event")

    def result(self, place: Place) -> np.ndarray:
        """Wait for the place's request, not for the streams, and take its answer."""
        check(acl.rt.synchronize_event(place.left), "acl.rt.synchronize_event")
        return self.executor.results(place.slot)[0]


def wait(stream: int, event: int) -> None:
    """Let a stream wait; the host does not."""
    check(acl.rt.stream_wait_event(stream, event), "acl.rt.stream_wait_event")


def as_the_guide_does(stages: Stages, places: list[Place]) -> list[np.ndarray]:
    """One buffer and a synchronize in the loop: nothing overlaps, however many streams."""
    answers = []
    for number in range(REQUESTS):
        stages.begin(places[0], picture(number))
        stages.finish(places[0])
        check(acl.rt.synchronize_stream(stages.copy_out), "acl.rt.synchronize_stream")
        answers.append(stages.result(places[0]))
    return answers


def overlapped(stages: Stages, places: list[Place]) -> list[np.ndarray]:
    """Keep DEPTH requests under way; the answers come in order.

    With one stream for both copies, the copy in of the next request has to be queued before the
    copy out of this one, which has to wait for the run: a stream is served in order.
    """
    answers, begun, leaving = [], deque[Place](), deque[Place]()
    for number in range(REQUESTS):
        if number >= len(places):
            answers.append(stages.result(leaving.popleft()))
        place = places[number % len(places)]
        stages.begin(place, picture(number))
        begun.append(place)
        if len(begun) > 1:
            leaving.append(begun.popleft())
            stages.finish(leaving[-1])
    for place in begun:
        stages.finish(place)
    return answers + [stages.result(place) for place in (*leaving, *begun)]


def timed(
    program: Callable[[Stages, list[Place]], list[np.ndarray]],
    executor: ModelExecutor,
    streams: int,
) -> float:
    """Run a program and return the device's milliseconds per request."""
    of_copies, compute = stream(), stream()
    out = stream() if streams == 3 else of_copies
    stages = Stages(executor, of_copies, compute, out)
    places = [Place(executor) for _ in range(DEPTH)]
    start, end = event(), event()
    check(acl.rt.record_event(start, of_copies), "acl.rt.record_event")
    answers = program(stages, places)
    check(acl.rt.record_event(end, out), "acl.rt.record_event")
    check(acl.rt.synchronize_event(end), "acl.rt.synchronize_event")
    milliseconds = valued(acl.rt.event_elapsed_time(start, end), "acl.rt.event_elapsed_time")
    right = sum(int(answer.argmax()) == label(n) for n, answer in enumerate(answers))
    if right < REQUESTS - 1:
        raise RuntimeError(f"{right} of {REQUESTS} answers are right: requests were mixed up")
    for place in places:
        place.close()
    for each in (start, end):
        check(acl.rt.destroy_event(each), "acl.rt.destroy_event")
    for each in {of_copies, compute, out}:
        check(acl.rt.destroy_stream(each), "acl.rt.destroy_stream")
    return milliseconds / REQUESTS


def main() -> None:
    """Time the three programs."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    executor = ModelExecutor(model_path())
    timed(overlapped, executor, 3)  # the first runs of a model may take longer
    print(f"as the guide does: {timed(as_the_guide_does, executor, 2):.3f} ms per request")
    print(f"two streams: {timed(overlapped, executor, 2):.3f} ms per request")
    print(f"three streams: {timed(overlapped, executor, 3):.3f} ms per request")
    executor.close()
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")


if __name__ == "__main__":
    main()
