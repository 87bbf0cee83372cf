"""Rows of a stream, as readers return them: chunks of bounded size, in order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.errors import RecordingError

CHUNK_BYTES = 32 << 20
"""The intended limit of a chunk of rows, bytes; a single row may be larger."""

Times = NDArray[np.int64]


@dataclass
class Rows:
    """A chunk: consecutive rows of one stream of one episode."""

    stream: str
    times: Times
    """[n] nanoseconds. Ascending through all chunks of a stream; equal times are kept."""
    values: Any
    """[n, ...]: bool, an integer or a floating type; images are uint8 [n,H,W,C], or JpegFrames."""
    received: Times | None = None
    """[n] nanoseconds: when the recorder received each row."""
    valid: NDArray[np.bool_] | None = None
    """[n]: which rows are real."""

    def pick(self, rows: slice | NDArray[np.intp]) -> Rows:
        """A subset of the rows, by a slice or row indices."""
        return Rows(
            self.stream,
            self.times[rows],
            self.values[rows],
            None if self.received is None else self.received[rows],
            None if self.valid is None else self.valid[rows],
        )


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether a stream can have this type: bool, integers, floats of 2 to 8 bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def native(values: NDArray[Any]) -> NDArray[Any]:
    """Converts values to the native byte order."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def row_times(first: int, count: int, rate: float) -> Times:
    """[count] nanoseconds of the rows from `first` on, at `rate` rows per second from 0.

    Raises:
        RecordingError: If the last time does not fit int64.
    """
    if count and (first + count - 1) * 1e9 / rate >= 2.0**63:
        raise RecordingError(
            f"expected times within 292 years, got row {first + count - 1} at {rate:g} rows per "
            "second"
        )
    return np.rint(np.arange(first, first + count, dtype=np.float64) * 1e9 / rate).astype(np.int64)


def rows_per_chunk(row_bytes: int) -> int:
    """The number of rows of `row_bytes` bytes in a chunk; at least 1."""
    return max(1, CHUNK_BYTES // max(1, row_bytes))


def chunks(rows: Rows) -> Iterator[Rows]:
    """Splits rows into chunks of bounded size, which are views."""
    count = len(rows.times)
    step = rows_per_chunk(rows.values.nbytes // max(1, count))
    for a in range(0, count, step):
        yield rows.pick(slice(a, a + step))


def sort_rows(rows: Rows, notes: Counter[str]) -> Rows:
    """Sorts a stream's rows by time, stably; `notes` counts the rows that were out of order.

    A time of zero after a later time is a stamp that the recorder never set: such rows are left
    out, and counted.
    """
    is_unset = (rows.times == 0) & (np.maximum.accumulate(rows.times) > 0)
    unset = int(np.count_nonzero(is_unset))
    if unset:
        notes[f"rows of {rows.stream} stamped zero, left out"] += unset
        rows = rows.pick(np.flatnonzero(~is_unset))
    # Compared, not subtracted: times may be further apart than int64 holds.
    back = int(np.count_nonzero(rows.times[1:] < rows.times[:-1]))
    if back == 0:
        return rows
    notes[f"rows of {rows.stream} earlier than the row before them, sorted by time"] += back
    return rows.pick(np.argsort(rows.times, kind="stable"))
