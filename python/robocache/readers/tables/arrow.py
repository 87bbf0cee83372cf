"""Columns of Arrow tables as NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError, reading
from robocache.readers.tables.parquet_sizes import check_row_groups

EXACT = 2**53
"""float64 represents each integer up to this absolute value exactly."""


def array_of(column: Any, name: str) -> NDArray[Any] | None:
    """A column of numbers as [n, ...]; None for another type (text, bytes, structures).

    Nested lists become further axes, without a copy if Arrow stores the numbers contiguously: all
    rows must have the same shape.

    Args:
        column: A pyarrow.Array or pyarrow.ChunkedArray.
        name: For errors: ``file.parquet, column x``.

    Raises:
        RecordingError: For lists of several lengths, and for missing numbers other than floats.
    """
    pa = require("pyarrow", "columns", "lerobot")
    if isinstance(column, pa.ChunkedArray):
        column = one_array(column)
    if isinstance(column.type, pa.ExtensionType):  # such as Array2D of Hugging Face's datasets
        column = column.storage
    shape = [len(column)]
    while is_list(column.type):
        if column.null_count:
            raise RecordingError(
                f"{name}: expected a list in every row, got none in {column.null_count:,}"
            )
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
            begin, end = column.offset * width, (column.offset + len(column)) * width
        else:
            offsets = numbers_of(column.offsets) if len(column) else np.zeros(1, np.int64)
            begin, end = int(offsets[0]), int(offsets[-1])
            lengths = np.diff(offsets)
            width = int(lengths[0]) if len(lengths) else 0
            if len(lengths) and (lengths != width).any():
                raise RecordingError(
                    f"{name}: expected lists of one length, got {width} and "
                    f"{int(lengths[lengths != width][0])}"
                )
        shape.append(width)
        column = column.values.slice(begin, end - begin)
    if not is_number(column.type):
        return None
    if column.null_count and not pa.types.is_floating(column.type):
        raise RecordingError(
            f"{name}: expected a number in every row, got none in {column.null_count:,}"
        )
    return numbers_of(column).reshape(shape)


def numbers_of(column: Any) -> NDArray[Any]:
    """A pyarrow.Array of numbers or flags as [n], a view if possible; NaN for missing floats.

    pyarrow's `to_numpy` imports pandas if it is installed, which takes a second.
    """
    pa = require("pyarrow", "columns", "lerobot")
    kind = column.type
    if column.null_count or pa.types.is_boolean(kind) or not is_number(kind):
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    dtype = np.dtype(kind.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype)
    # Slices of an array share its buffer.
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def is_list(kind: Any) -> bool:
    """Whether rows of an Arrow type are lists."""
    types = require("pyarrow", "columns", "lerobot").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether rows of an Arrow type are numbers or flags."""
    types = require("pyarrow", "columns", "lerobot").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def one_array(column: Any) -> Any:
    """A pyarrow.ChunkedArray as a pyarrow.Array, without a copy if it has one chunk."""
    if not hasattr(column, "num_chunks"):  # a pyarrow.Array
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_numeric(kind: Any) -> bool:
    """Whether rows of an Arrow type are numbers or flags, or lists of them."""
    while is_list(kind):
        kind = kind.value_type
    return is_number(kind)


def is_beyond_float64(column: Any) -> bool:
    """Whether a column of integers has a value that float64 may not represent (see `EXACT`)."""
    numbers = numbers_of(one_array(column).drop_null())
    return len(numbers) > 0 and max(int(numbers.max()), -int(numbers.min())) > EXACT


def open_parquet(path: Path, what: str, limit: int) -> Any:
    """Opens a Parquet file (pyarrow.parquet.ParquetFile) whose row groups fit the limits.

    Args:
        path: The file.
        what: The kind of file, for errors: ``a table of episodes``.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: If it is not Parquet, or a row group, or all of them, take more than
            `limits` allow.
    """
    pq = require("pyarrow.parquet", "Parquet", "parquet")
    with reading(path, what):
        file = pq.ParquetFile(path)
        check_row_groups(path, file, limit)
    return file
