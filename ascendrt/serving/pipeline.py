"""A pipeline: while one request is computed, the next goes in and the one before comes out.

Owns: three streams and the order between them. Must never let a request touch memory that another
one still uses: each has a slot of the model to itself from its first copy to its last, and the
events of the slot keep the three streams in step (ascendrt/model.py, Note [Slots]).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ascendrt.clocks import Clock, clock
from ascendrt.model import Model, Run
from ascendrt.stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Self

Inputs = Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike]


class Pipeline:
    """Runs requests of a model with copies in, computing and copies out at the same time.

    `depth` requests are under way at once: 2 hide the copies behind computing or the other way
    round, 3 keep all three parts busy. Results come in the order of the requests.

    The model must be of the calling thread's context and stay open as long as the pipeline. Raises:
    ValueError for a depth below 1.
    """

    def __init__(self, model: Model, *, depth: int = 3, clock: Clock | None = None) -> None:
        if depth < 1:
            raise ValueError(f"depth is {depth}; at least 1 request must be under way")
        self._model = model
        self._depth = depth
        self._turn = (clock or _the_clock()).condition()
        self._under_way: deque[Run] = deque()
        self._submitting = False
        self._closed = False
        self._streams: list[Stream] = []
        try:
            with model.scope:
                self._streams += [Stream(), Stream(), Stream()]
        except BaseException:
            self.close()
            raise

    def submit(self, inputs: Inputs) -> Run:
        """Put a request in; waits while `depth` others are under way.

        The inputs may be changed when this returns. Take the results with `result()` or `await`.
        Raises: as Model.run_async; ValueError when the pipeline is closed.
        """
        with self._turn:
            self._turn.wait_for(lambda: not self._submitting)
            self._submitting = True
        try:
            if self._closed:
                raise ValueError("this Pipeline is closed")
            while len(self._under_way) >= self._depth:
                self._under_way.popleft().collect()
            run = self._model.run_staged(inputs, *self._streams)
            self._under_way.append(run)
            return run
        finally:
            with self._turn:
                self._submitting = False
                self._turn.notify()

    def map(self, requests: Iterable[Inputs]) -> Iterator[list[np.ndarray[Any, Any]]]:
        """Run many requests; yields their results in order, at most `depth` behind the requests."""
        ahead: deque[Run] = deque()
        for inputs in requests:
            ahead.append(self.submit(inputs))
            if len(ahead) >= self._depth:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def close(self) -> None:
        """Wait for what is under way and end; results can be taken afterwards as well."""
        self._closed = True
        while self._under_way:
            self._under_way.popleft().collect()
        for stream in self._streams:
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _the_clock() -> Clock:
    return clock()
