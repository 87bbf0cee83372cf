"""Parquet files, and columns of Arrow tables as NumPy arrays."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.recording import RecordingError, reading, require


def array_of(column: Any, name: str) -> NDArray[Any] | None:
    """A column of numbers as [n, ...]; None for one of another kind (text, bytes, structures).

    Lists, lists of lists and so on become further axes, without a copy where Arrow has none to
    make: every row must be of one shape.

    Args:
        column: A pyarrow.Array or pyarrow.ChunkedArray.
        name: For errors: ``file.parquet, column x``.

    Raises:
        RecordingError: For lists of several lengths, and for missing numbers other than floats.
    """
    pa = require("pyarrow", "columns", "lerobot")
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [_empty(pa, column)])
    if isinstance(column.type, pa.ExtensionType):  # such as Array2D of Hugging Face's datasets
        column = column.storage
    shape = [len(column)]
    while pa.types.is_list(column.type) or _is_other_list(pa, column.type):
        if column.null_count:
            raise RecordingError(
                f"{name}: expected a list in every row, got none in {column.null_count:,}"
            )
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
        else:
            lengths = np.diff(column.offsets.to_numpy(zero_copy_only=True))
            width = int(lengths[0]) if len(lengths) else 0
            if len(lengths) and (lengths != width).any():
                raise RecordingError(
                    f"{name}: expected lists of one length, got {width} and "
                    f"{int(lengths[lengths != width][0])}"
                )
        shape.append(width)
        column = column.flatten()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    if column.null_count and not pa.types.is_floating(kind):
        raise RecordingError(
            f"{name}: expected a number in every row, got none in {column.null_count:,}"
        )
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers.reshape(shape)


def _is_other_list(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _empty(pa: Any, column: Any) -> Any:
    return pa.array([], column.type)


class ParquetRows:
    """Rows of an opened Parquet file; reading neighbours does not read their row group again."""

    def __init__(self, path: Path) -> None:
        """Opens a file.

        Raises:
            RecordingError: If it is not Parquet, or cannot be read.
        """
        self._pa = require("pyarrow", "Parquet", "parquet")
        pq = require("pyarrow.parquet", "Parquet", "parquet")
        self.path = path
        with self._reading():
            self._file = pq.ParquetFile(path, memory_map=True)
        metadata = self._file.metadata
        counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._groups: dict[tuple[str, ...], tuple[int, Any]] = {}  # the last read, by columns
        self._runs: dict[str, NDArray[Any]] = {}

    @property
    def schema(self) -> Any:
        """The file's columns, a pyarrow.Schema."""
        return self._file.schema_arrow

    def __len__(self) -> int:
        return int(self._starts[-1])

    def close(self) -> None:
        """Closes the file."""
        self._groups.clear()
        self._file.close()

    def read(self, columns: Sequence[str], first: int, stop: int) -> Any:
        """Columns of the rows from `first` to `stop` - 1, a pyarrow.Table."""
        self._check(columns)
        parts = [
            self._read_group(group, tuple(columns)).slice(a - begin, b - a)
            for group, begin, a, b in self._cut(first, stop)
        ]
        return self._pa.concat_tables(parts) if len(parts) != 1 else parts[0]

    def groups(self, column: str, first: int, stop: int) -> Iterator[tuple[int, Any]]:
        """A column of those rows by row groups: how many came before, and a pyarrow.Array."""
        self._check([column])
        for group, begin, a, b in self._cut(first, stop):
            part = self._read_group(group, (column,))[column].slice(a - begin, b - a)
            yield a - first, part.combine_chunks()

    def run_of(self, column: str, value: int) -> tuple[int, int]:
        """The first row whose column of integers has a value, and the one after the last.

        Raises:
            RecordingError: If rows between them have another value.
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

    def _cut(self, first: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Row groups with rows of [first, stop): group, its first row, first and stop in it."""
        for group, (begin, end) in enumerate(itertools.pairwise(self._starts)):
            a, b = max(first, int(begin)), min(stop, int(end))
            if a < b:
                yield group, int(begin), a, b

    def _read_group(self, group: int, columns: tuple[str, ...]) -> Any:
        kept = self._groups.get(columns)
        if kept is None or kept[0] != group:
            with self._reading():
                kept = (group, self._file.read_row_group(group, list(columns)))
            self._groups[columns] = kept
        return kept[1]

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            count = self.schema.names.count(name)
            if count != 1:
                raise RecordingError(
                    f"{self.path}: expected one column {name}, got {count or 'none'}"
                )

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return reading(self.path, "a Parquet file", self._pa.ArrowException)
