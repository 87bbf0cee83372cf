"""The base of the CSV and Parquet readers: a column of times, and streams of columns.

A row in which all columns of a stream are empty is not a row of that stream, so streams of
different rates can share a file.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError, refuse_duplicates
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Method,
    Recording,
    SingleEpisode,
    StreamMetadata,
    require_rate,
)
from robocache.readers.rows import Rows, Times, chunks, row_times, sort_rows
from robocache.readers.tables.arrow import (
    array_of,
    is_list,
    is_numeric,
    numbers_of,
    one_array,
)
from robocache.readers.tables.column_groups import Group, Kind, group
from robocache.readers.tables.time_column import describe_time

WHOLE_BYTES = 256 << 20
"""Files up to this size are read whole, so that rows that are out of order can be sorted."""

UNIT_ROWS = 1000
"""The number of first rows that decide whether four columns have norm 1."""

_NORM_TOLERANCE = 0.02  # of the median norm; norms of two decimals are off by up to 0.01


class Table(Recording):
    """A file of one episode."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        require("pyarrow", self.format, "parquet")
        self.groups: list[Group] = []
        self._arrange(self._schema())

    def _arrange(self, schema: Any) -> None:
        """Determines the time column and groups the other columns into streams."""
        path, options = self.path, self.options
        refuse_duplicates(path, "columns", schema.names)
        if self._is_empty():
            return
        self.time = describe_time(path, schema, options, self._time_sample(schema))
        self.rate = require_rate(path, None, options) if self.time is None else None
        names = [n for n in schema.names if self.time is None or n != self.time.column]
        kinds: dict[str, Kind] = {}
        self.notes.clear()
        for name in names:
            if name.strip() and is_numeric(schema.field(name).type):
                kinds[name] = self._kind(schema.field(name))
            else:
                self.notes[f"columns that are not numbers left out ({name or 'no name'})"] = 1
        groups = group(kinds, self._are_unit)
        refuse_duplicates(path, "streams", [one.stream for one in groups])
        if not groups:
            raise RecordingError(
                f"{path}: expected columns of numbers beside the time, got "
                + (f"others ({', '.join(names)})" if names else "none")
            )
        wanted = options.select(one.stream for one in groups)
        self.groups = [one for one in groups if one.stream in wanted]
        self.streams.clear()
        for one in self.groups:
            self.streams[one.stream] = StreamMetadata(
                method=one.method,
                units=one.units,
                channels=one.channels,
                rate=self.rate,
                timeline="rows" if self.time is None else "time",
                source=f"column{'s' * (len(one.columns) > 1)} {', '.join(one.columns)}",
            )
            if one.is_guess:
                self.notes[_guess(one)] = 1

    def _kind(self, field: Any) -> Kind:
        types = require("pyarrow", self.format, "parquet").types
        if is_list(field.type):
            return "list"
        if types.is_boolean(field.type):
            return "flag"
        is_exact = field.type.bit_width == 64 and types.is_integer(field.type)
        return "integer" if is_exact and self._is_beyond_float64(field.name) else "number"

    def _are_unit(self, columns: Sequence[str]) -> bool | None:
        """Whether four columns have norm 1 in the first rows; None if no row has a usable norm."""
        values = self._first_rows(columns)
        norms = np.linalg.norm(values, axis=1)
        norms = norms[np.isfinite(norms) & (norms > 0)]
        return bool(abs(np.median(norms) - 1) < _NORM_TOLERANCE) if len(norms) else None

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode of the file, if it has rows."""
        if self._is_empty():
            self.notes["episodes without rows, skipped"] = 1
            return []
        return [SingleEpisode(self.read)]

    def read(self) -> Iterator[Rows]:
        """The rows of the one episode; chunks of streams interleave."""
        first = 0
        latest: int | None = None
        for batch in self._batches():
            times = self._times(batch, first)
            if len(times):
                if latest is not None and times.min() < latest:
                    raise RecordingError(
                        f"{self.path}: expected ascending times in a file above "
                        f"{WHOLE_BYTES >> 20} MiB, got an earlier one after row {first}"
                    )
                latest = int(times.max())
            for one in self.groups:
                rows = self._rows(one, batch, times)
                yield from chunks(sort_rows(rows, self.notes))
            first += len(times)

    def _times(self, batch: Any, first: int) -> Times:
        if self.time is None:
            assert self.rate is not None
            return row_times(first, batch.num_rows, self.rate)
        return self.time.read(self.path, batch[self.time.column], first)

    def _rows(self, one: Group, batch: Any, times: Times) -> Rows:
        columns = [one_array(batch[name]) for name in one.columns]
        empty = np.logical_and.reduce([_nulls(column) for column in columns])
        if empty.any():
            filled = np.flatnonzero(~empty)
            indices = require("pyarrow", self.format, "parquet").array(filled)
            columns = [column.take(indices) for column in columns]
            times = times[filled]
        arrays: list[NDArray[Any]] = []
        for name, column in zip(one.columns, columns, strict=True):
            values = array_of(column, f"{self.path}, column {name}")
            assert values is not None  # of a type that is_numeric
            arrays.append(values)
        if one.channels is None:
            return Rows(one.stream, times, arrays[0])
        return Rows(one.stream, times, np.stack(arrays, axis=1))

    @abstractmethod
    def _schema(self) -> Any:
        """The file's columns, a pyarrow.Schema."""

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """The file's rows as tables (pyarrow.Table); one table for a small file."""

    @abstractmethod
    def _is_empty(self) -> bool:
        """Whether the file has no rows."""

    @abstractmethod
    def _is_beyond_float64(self, column: str) -> bool:
        """Whether a column of 64-bit integers may have a value that float64 cannot represent."""

    @abstractmethod
    def _first_rows(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """[n, columns] of about the first `UNIT_ROWS` rows; NaN for missing values."""

    @abstractmethod
    def _time_sample(self, schema: Any) -> str:
        """One of the first times as text, the longest if they are text; empty if types suffice."""


def first_rows(rows: Any, columns: Sequence[str]) -> NDArray[np.float64]:
    """[n, columns] of an Arrow table of numbers; NaN for missing values."""
    arrays = [numbers_of(one_array(rows[name])) for name in columns]
    return np.stack(arrays, axis=1).astype(np.float64)


def _guess(one: Group) -> str:
    """A note on grouped columns: ``columns qx, qy, qz, qw read as stream q``."""
    shown = [name.strip() for name in one.columns]
    if len(shown) > 4:
        shown = [f"{shown[0]} to {shown[-1]}"]
    return f"columns {', '.join(shown)} read as stream {one.stream} ({_method_text(one.method)})"


def _method_text(method: Method | None) -> str:
    if method is None or isinstance(method, str):
        return method or "linear"
    return ", ".join(f"{channels} {name}" for name, channels in method)


def _nulls(column: Any) -> NDArray[np.bool_]:
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls
