"""Columns of a stream's values: of arrays, of ragged rows, of JPEG frames.

    array         values [n, *shape]
    ragged rows   values [items, *shape], row_lengths [n]
    JPEG frames   values [bytes], row_lengths [n], entries [K], entry_lengths [n], scan_bits [n]

A shard stores lengths as offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.ragged import RaggedArray, flags_of_items
from robocache.jpeg import library as jpeg_library
from robocache.jpeg.frames import JpegFrames
from robocache.jpeg.library import MCUS_PER_ENTRY
from robocache.store.dtypes import Array, stored
from robocache.store.streams import Encoding, StreamEntry

_SAMPLED_FRAMES = 32
_LEAST_STEP, _LARGEST_STEP = 16, 64


def value_columns(
    name: str, values: object, n: int, valid: NDArray[np.bool_] | None
) -> tuple[StreamEntry, dict[str, Array]]:
    """The stream that n rows of these values belong to, without metadata, and their columns.

    Raises:
        TypeError: The element type is not supported.
        ValueError: There are not n rows; a row that is valid is no baseline JPEG of the frames'
            shape.
    """
    if isinstance(values, JpegFrames):
        return _frame_columns(name, values, n, valid)
    if isinstance(values, RaggedArray):
        _expect_rows(name, len(values), n, "ragged rows")
        dtype, items = stored(f"{name}.values", values.items)
        entry = StreamEntry(name, dtype, items.shape[1:], is_ragged=True)
        return entry, {"values": items, "row_lengths": values.lengths.astype("<i8")}
    dtype, rows = stored(f"{name}.values", values)
    if rows.ndim == 0 or len(rows) != n:
        raise ValueError(f"{name}.values: expected [{n}, ...], got {list(rows.shape)}")
    return StreamEntry(name, dtype, rows.shape[1:]), {"values": rows}


def entry_of(name: str, values: object) -> StreamEntry:
    """The stream that rows of these values belong to, without metadata.

    Raises:
        TypeError: The element type is not supported.
    """
    if isinstance(values, JpegFrames):
        return _entry_of_frames(name, values)
    if isinstance(values, RaggedArray):
        dtype, items = stored(f"{name}.values", values.items[:0])
        return StreamEntry(name, dtype, items.shape[1:], is_ragged=True)
    dtype, rows = stored(f"{name}.values", np.asarray(values)[:0])
    return StreamEntry(name, dtype, rows.shape[1:])


def _entry_of_frames(name: str, frames: JpegFrames) -> StreamEntry:
    encoding = Encoding("jpeg", frames.frame_shape, MCUS_PER_ENTRY)
    return StreamEntry(name, "U8", (), is_ragged=True, encoding=encoding)


def _frame_columns(
    name: str, frames: JpegFrames, n: int, valid: NDArray[np.bool_] | None
) -> tuple[StreamEntry, dict[str, Array]]:
    _expect_rows(name, len(frames), n, "frames")
    indices, statuses = frames.indexed(MCUS_PER_ENTRY)
    lacks_index = (statuses != jpeg_library.OK) & (statuses != jpeg_library.DAMAGED)
    if valid is not None:
        lacks_index &= valid
    if lacks_index.any():
        row = int(np.argmax(lacks_index))
        height, width, channels = frames.frame_shape
        raise ValueError(
            f"{name}.values[{row}]: expected a baseline JPEG of {width}x{height}x{channels}, got "
            f"{jpeg_library.describe(int(statuses[row]))} (`valid` marks rows without an image, "
            "JpegFrames.encode takes pixels)"
        )
    columns: dict[str, Array] = {
        "values": frames.files.items,
        "row_lengths": frames.files.lengths.astype("<i8"),
        "entries": indices.entries.items.astype("<u8"),
        "entry_lengths": indices.entries.lengths.astype("<i8"),
        "scan_bits": indices.scan_bits.astype("<u4"),
    }
    return _entry_of_frames(name, frames), columns


def _expect_rows(name: str, count: int, n: int, what: str) -> None:
    if count != n:
        raise ValueError(f"{name}.values: expected {n} rows, got {count} {what}")


def sampling_step(frames: int) -> int:
    """The step between the JPEG frames of a shard's stream that are decoded for statistics.

    Decoding all would take most of a conversion. It is one frame in 16 of up to 512, and one in 64
    of 2,048 and more; of a number between, 32 frames.
    """
    return min(max(frames // _SAMPLED_FRAMES, _LEAST_STEP), _LARGEST_STEP)


def sample(values: Any, valid: NDArray[np.bool_] | None) -> tuple[Any, NDArray[np.bool_] | None]:
    """The rows of a shard that statistics count, and their flags: of JPEG frames not all."""
    if not isinstance(values, JpegFrames):
        return values, valid
    step = sampling_step(len(values))
    return values[::step], None if valid is None else valid[::step]


def value_chunks(
    values: Any, valid: NDArray[np.bool_] | None, row_bytes: int, chunk_bytes: int
) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_] | None]]:
    """Yields what statistics count, in chunks: rows, items of ragged rows, or sampled frames.

    Args:
        values: [N, *shape], a RaggedArray or JpegFrames of the N rows of a shard.
        valid: [N], or None.
        row_bytes: Size of a row, decoded; of an item of a ragged row.
        chunk_bytes: Size of a chunk.

    Yields:
        Values, and the flag of the row of each.
    """
    values, valid = sample(values, valid)
    items = values.items if isinstance(values, RaggedArray) else values
    step = max(1, chunk_bytes // row_bytes)
    for begin in range(0, len(items), step):
        end = min(begin + step, len(items))
        part = valid
        if valid is not None and isinstance(values, RaggedArray):
            part = flags_of_items(valid, values.offsets, begin, end)
        elif valid is not None:
            part = valid[begin:end]
        yield np.asarray(items[begin:end]), part
