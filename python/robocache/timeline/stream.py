"""`AlignedStream`: a stream of an aligned table, which all writers of tables share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ShortRepr
from robocache.doctor.finding import Series, Times
from robocache.readers.recording import StreamMetadata
from robocache.timeline.sources import Source


@dataclass(frozen=True, eq=False, repr=False)
class AlignedStream(ShortRepr):
    """A stream at T targets."""

    values: NDArray[Any]
    """[T, the row's shape...]: where not valid, floats are NaN, and other types hold some row."""
    valid: NDArray[np.bool_]
    """[T]: which values are valid."""
    age: Times
    """[T] ns: the target's time minus that of the newest row that the value is computed from."""
    method: str | Sequence[tuple[str, int]]
    """How it was aligned."""
    channels: tuple[str, ...] | None
    """The name of each element of a row; None: unknown."""
    rows: Source
    """The rows from which it was computed."""

    @property
    def is_image(self) -> bool:
        """Whether its values are pictures."""
        return self.values.dtype == np.uint8 and self.values.ndim == 4

    def columns(self, name: str) -> list[str]:
        """The names of its columns: ``name.channel``, ``name.0``, or ``name`` of one number."""
        shape = self.values.shape[1:]
        if self.channels is not None:
            return [f"{name}.{channel}" for channel in self.channels]
        if math.prod(shape) == 1:
            return [name]
        return [f"{name}.{'.'.join(map(str, index))}" for index in np.ndindex(*shape)]

    def series(self, name: str, times: Times) -> tuple[Series, Series]:
        """The stream at its targets, and its rows, as :mod:`robocache.view` draws them."""
        method = self.method if isinstance(self.method, str) else tuple(self.method)
        metadata = StreamMetadata(method, channels=self.channels)
        shape = self.values.shape
        rows = self.rows
        aligned = Series(
            name, times, self.values.reshape(len(times), -1), metadata, None, self.valid,
            self.is_image, shape,
        )  # fmt: skip
        values = rows.values.reshape(len(rows.times), -1)
        return aligned, Series(name, rows.times, values, metadata, None, rows.valid, self.is_image)
