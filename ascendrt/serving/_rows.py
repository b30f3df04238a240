"""Requests of one row and a model that takes batches of them.

Must never mix rows up: row i of the batch is request i, in and out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt.model import Model
from ascendrt.tensors import Gear

Array = np.ndarray[Any, Any]
Row = npt.ArrayLike | Sequence[npt.ArrayLike]


class ModelRows:
    """Runs lists of rows on a model. `gears`: the batches that it takes; none: of any size."""

    def __init__(self, model: Model) -> None:
        self._model = model
        sizes = {spec.shape[:1] for spec in (*model.inputs, *model.outputs)}
        self.gears: tuple[int, ...] = ()
        self._fixed = 0
        if self._follows_batch(model):
            self.gears = model.gears.batches
        elif sizes == {(-1,)} and self._has_fixed_rows(model):
            pass  # any batch
        elif len(sizes) == 1 and (batch := next(iter(sizes), ())) and batch[0] > 0:
            self.gears = batch
            self._fixed = batch[0]
        else:
            raise ValueError(
                "a batcher needs a model whose inputs and outputs begin with one batch dimension, "
                "and only that one may be open (-1); "
                f"this one has inputs {[spec.shape for spec in model.inputs]} and outputs "
                f"{[spec.shape for spec in model.outputs]}"
            )

    @staticmethod
    def _follows_batch(model: Model) -> bool:
        """True for a model of several batches whose inputs and results begin with it."""
        if not model.gears.batches or any(spec.shape[:1] != (-1,) for spec in model.inputs):
            return False
        least = model.gears.batches[0]
        return all(shape[:1] == (least,) for shape in model.result_shapes(Gear((least,), least)))

    @staticmethod
    def _has_fixed_rows(model: Model) -> bool:
        """True for a model without gears whose inputs are open in their batch alone."""
        return model.is_open and not any(spec.row().is_dynamic for spec in model.inputs)

    def run(self, rows: list[Row]) -> list[list[Array]]:
        """Return the outputs of each row."""
        count = len(self._model.inputs)
        parts = [self._parts(row, count) for row in rows]
        batch = [self._stack([part[index] for part in parts]) for index in range(count)]
        outputs = self._model(*batch)
        if any(output.shape[:1] != (self._fixed or len(rows),) for output in outputs):
            shapes = [output.shape for output in outputs]
            raise ValueError(f"{len(rows)} rows gave results of shapes {shapes}: not one row each")
        return [[output[index] for output in outputs] for index in range(len(rows))]

    def check(self, row: Row) -> None:
        """Raise TypeError or ValueError for a request that would not fit into a batch."""
        parts = self._parts(row, len(self._model.inputs))
        for spec, part in zip(self._model.inputs, parts, strict=True):
            spec.row().check(np.asarray(part), f"the row for {spec.name!r}")

    @staticmethod
    def _parts(row: Row, count: int) -> Sequence[Any]:
        if count == 1:
            return (row[0],) if isinstance(row, tuple) and len(row) == 1 else (row,)
        if not isinstance(row, Sequence) or len(row) != count:
            raise TypeError(f"a request holds {count} arrays, one per input of the model")
        return row

    def _stack(self, rows: list[Any]) -> Array:
        stacked = np.stack(rows)
        if not self._fixed or len(rows) == self._fixed:
            return stacked
        return np.concatenate([stacked, np.zeros_like(stacked, shape=self._rest(stacked))])

    def _rest(self, stacked: Array) -> tuple[int, ...]:
        return (self._fixed - len(stacked), *stacked.shape[1:])
