"""Reads any range of rows of a Parquet file in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.errors import RecordingError, reading
from robocache.readers.tables.arrow import array_of, one_array, open_parquet

_READAHEAD_BYTES = 8 << 20
"""Bytes of small, adjacent row groups that are read at once."""


class _Span:
    """Adjacent row groups that were read at once, and their columns as arrays."""

    def __init__(self, first: int, table: Any) -> None:
        self.first = first
        self.table = table
        self._arrays: dict[str, NDArray[Any] | None] = {}
        self._uneven: set[str] = set()

    def array(self, name: str, first: int, stop: int, path: Path) -> NDArray[Any] | None:
        """Rows `first` to `stop` - 1 of the file's column, converted by :func:`array_of`."""
        a, b = first - self.first, stop - self.first
        where = f"{path}, column {name}"
        if name not in self._arrays and name not in self._uneven:
            try:
                self._arrays[name] = array_of(self.table[name], where)
            except RecordingError:  # rows outside of the range may be the cause
                self._uneven.add(name)
        if name in self._uneven:
            return array_of(self.table[name].slice(a, b - a), where)
        array = self._arrays[name]
        return None if array is None else array[a:b]


class ParquetRows:
    """Rows of an opened Parquet file; it caches the row groups that were read last."""

    def __init__(self, path: Path, limit: int) -> None:
        """Opens a file; `limit` is `ReadOptions.memory_limit`.

        Raises:
            RecordingError: If it is not Parquet, or cannot be read.
        """
        self.path = path
        self._file = open_parquet(path, "a Parquet file", limit)
        metadata = self._file.metadata
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        counts = np.array([group.num_rows for group in groups], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(counts)])  # a row group's first row
        self._sizes = np.array([group.total_byte_size for group in groups], np.int64)
        # The row groups that were read last, by columns.
        self._spans: dict[tuple[str, ...], _Span] = {}
        self._runs: dict[str, NDArray[Any]] = {}
        self._checked: set[str] = set()  # columns that occur once in the schema

    @property
    def schema(self) -> Any:
        """The file's columns, a pyarrow.Schema."""
        return self._file.schema_arrow

    def __len__(self) -> int:
        return int(self._starts[-1])

    def close(self) -> None:
        """Closes the file."""
        self._spans.clear()
        self._file.close()

    def read(self, columns: Sequence[str], first: int, stop: int) -> dict[str, NDArray[Any] | None]:
        """Columns of the rows from `first` to `stop` - 1, converted by :func:`array_of`.

        Raises:
            RecordingError: As `array_of`, and for a damaged file or a missing column.
        """
        self._check(columns)
        span = self._span(tuple(columns), first, stop)
        return {name: span.array(name, first, stop, self.path) for name in columns}

    def groups(self, column: str, first: int, stop: int) -> Iterator[tuple[int, Any]]:
        """A column of the rows by row group: the offset from `first`, and a pyarrow.Array."""
        self._check([column])
        row = first
        while row < stop:
            end = min(stop, int(self._starts[self._group_of(row) + 1]))
            span = self._span((column,), row, end)
            yield row - first, one_array(span.table[column].slice(row - span.first, end - row))
            row = end

    def run_of(self, column: str, value: int) -> tuple[int, int]:
        """The range of rows in which a column of integers equals `value`: begin and end.

        Raises:
            RecordingError: If a row within the range has another value.
        """
        if column not in self._runs:
            self._check([column])
            with self._reading():
                numbers = array_of(self._file.read([column])[column], f"{self.path}, {column}")
            if numbers is None or numbers.ndim != 1:
                raise RecordingError(f"{self.path}: expected numbers in {column}, got others")
            self._runs[column] = numbers
        rows = np.flatnonzero(self._runs[column] == value)
        if len(rows) == 0:
            return 0, 0
        if rows[-1] - rows[0] + 1 != len(rows):
            raise RecordingError(
                f"{self.path}: expected the rows of {column} {value} side by side, "
                f"got others between them"
            )
        return int(rows[0]), int(rows[-1]) + 1

    def _group_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def _span(self, columns: tuple[str, ...], first: int, stop: int) -> _Span:
        """The row groups that contain the rows from `first` to `stop` - 1.

        It reads ahead the row groups that follow: larger reads of Parquet are faster, and callers
        ask for neighboring rows next.
        """
        cached = self._spans.get(columns)
        if cached is not None:
            is_inside = cached.first <= first and stop <= cached.first + len(cached.table)
            if is_inside:
                return cached
        group = self._group_of(first)
        end = self._group_of(stop - 1) + 1
        limit = _READAHEAD_BYTES - int(self._sizes[group:end].sum())
        while end < len(self._sizes) and self._sizes[end] <= limit:
            limit -= int(self._sizes[end])
            end += 1
        self._spans.pop(columns, None)  # before the next is read, so that memory holds only one
        with self._reading():
            table = self._file.read_row_groups(range(group, end), list(columns))
        table = table.combine_chunks()  # slicing many chunks searches all of them
        self._spans[columns] = _Span(int(self._starts[group]), table)
        return self._spans[columns]

    def _check(self, columns: Sequence[str]) -> None:
        if self._checked.issuperset(columns):
            return
        for name in columns:
            count = self.schema.names.count(name)
            if count != 1:
                raise RecordingError(
                    f"{self.path}: expected one column {name}, got {count or 'none'}"
                )
        self._checked.update(columns)

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return reading(self.path, "a Parquet file")
