"""A pipeline: while one request is computed, the next goes in and the one before comes out.

Owns: how many requests are under way. Must never let a request touch memory that another one still
uses: each has a slot of the model, with a stream, to itself from its first copy to its last, and
the executions wait for each other by events (ascendrt/model.py, Note [Slots]).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt.closing import Closing
from ascendrt.model import Model, Run
from ascendrt.numbers import whole

Inputs = Sequence[npt.ArrayLike] | Mapping[str, npt.ArrayLike]


class Pipeline(Closing):
    """Runs requests of a model with copies in, computing and copies out at the same time.

    `depth` requests are under way at once: 2 hide the copies behind computing or the other way
    round, 3 keep all three parts busy. Results come in the order of the requests.

    The model must stay open as long as the pipeline. Raises: ValueError for a depth below 1.
    """

    def __init__(self, model: Model, *, depth: int = 3) -> None:
        self._model = model
        self._depth = whole(depth, "depth", 1)
        self._under_way: deque[Run] = deque()
        self._closed = False

    def __repr__(self) -> str:
        return f"Pipeline({self._model!r}, depth={self._depth})"

    def submit(self, inputs: Inputs) -> Run:
        """Put a request in; waits while `depth` others are under way.

        The inputs may be changed when this returns. Take the results with `result()` or `await`.
        Several threads may submit; the requests of each keep their order.

        Raises: as Model.run_async; ValueError when the pipeline is closed.
        """
        if self._closed:
            raise ValueError("this Pipeline is closed")
        while len(self._under_way) >= self._depth:
            self._collect_oldest()
        run = self._model.run_async(inputs)
        self._under_way.append(run)
        return run

    def _collect_oldest(self) -> None:
        with contextlib.suppress(IndexError):  # another thread took it
            self._under_way.popleft().collect()

    def map(self, requests: Iterable[Inputs]) -> Iterator[list[np.ndarray[Any, Any]]]:
        """Run many requests; yields their results in order, at most `depth` behind the requests.

        Where the requests end with an error, or with one that does not fit, the results of those
        before come first.
        """
        ahead: deque[Run] = deque()
        failed: Exception | None = None
        source = iter(requests)
        while True:
            try:
                ahead.append(self.submit(next(source)))
            except StopIteration:
                break
            except Exception as error:
                failed = error
                break
            if len(ahead) >= self._depth:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Wait for what is under way and end; results can be taken afterwards as well."""
        self._closed = True
        while self._under_way:
            self._collect_oldest()
