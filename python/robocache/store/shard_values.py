"""Tensors of a stream's values in a shard; writing them updates the stream's statistics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.core.ragged import RaggedArray, flags_of_items
from robocache.jpeg.frames import JpegFrames
from robocache.store.dtypes import STORAGE
from robocache.store.episode import Rows
from robocache.store.spool import Bytes, RandomReader, Reader
from robocache.store.statistics import StreamStatistics
from robocache.store.streams import Encoding
from robocache.store.value_columns import sampling_step

_CHUNK_BYTES = 1 << 20  # of a column, read at once for the file; small enough for the CPU's cache
_DECODED_BYTES = 32 << 20  # of frames decoded at once

Tensor: TypeAlias = tuple[str, tuple[int, ...], Iterable[Bytes]]
"""Type, shape and data."""
Offsets: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def value_tensors(rows: Rows, statistics: StreamStatistics) -> dict[str, Tensor]:
    """The tensors of a stream's values by name, without that of the stream.

    Reading the chunks of "values" updates `statistics`.
    """
    entry, n = rows.entry, rows.rows
    if not entry.is_ragged:
        return {"values": (entry.dtype, (n, *entry.shape), _rows(rows, statistics))}
    offsets = _offsets(rows, "row_lengths")
    items = int(offsets[-1])
    tensors: dict[str, Tensor] = {}
    if entry.encoding is None:
        values = _items(rows, offsets, statistics)
    else:
        values = _files(rows, entry.encoding, offsets, statistics)
        entry_offsets = _offsets(rows, "entry_lengths")
        entries = rows.columns["entries"].chunks(_CHUNK_BYTES)
        tensors["entries"] = ("U64", (int(entry_offsets[-1]),), entries)
        tensors["entry_offsets"] = ("I64", (n + 1,), [entry_offsets.tobytes()])
        tensors["scan_bits"] = ("U32", (n,), rows.columns["scan_bits"].chunks(_CHUNK_BYTES))
    tensors["values"] = (entry.dtype, (items, *entry.shape), values)
    tensors["row_offsets"] = ("I64", (n + 1,), [offsets.tobytes()])
    return tensors


def _offsets(rows: Rows, lengths: str) -> Offsets:
    """[N+1] the offsets of rows whose lengths are in a column."""
    offsets = np.zeros(rows.rows + 1, "<i8")
    data = Reader(rows.columns[lengths]).take(8 * rows.rows)
    np.cumsum(np.frombuffer(data, "<i8"), out=offsets[1:])
    return offsets


def _flags(rows: Rows) -> Flags | None:
    """[N] whether each row is valid; None if all are."""
    if "valid" not in rows.columns:
        return None
    return np.frombuffer(Reader(rows.columns["valid"]).take(rows.rows), np.bool_)


def _rows(rows: Rows, statistics: StreamStatistics) -> Iterator[Bytes]:
    """Rows of one shape, in chunks of whole rows."""
    entry = rows.entry
    n = max(1, _CHUNK_BYTES // entry.row_bytes)
    valid = Reader(rows.columns["valid"]) if "valid" in rows.columns else None
    for chunk in rows.columns["values"].chunks(n * entry.row_bytes):
        values = np.frombuffer(chunk, STORAGE[entry.dtype]).reshape(-1, *entry.shape)
        flags = None if valid is None else np.frombuffer(valid.take(len(values)), np.bool_)
        statistics.update(values, flags)
        yield chunk


def _items(rows: Rows, offsets: Offsets, statistics: StreamStatistics) -> Iterator[Bytes]:
    """Items of ragged rows, in chunks of whole items, which may end within a row."""
    entry = rows.entry
    n = max(1, _CHUNK_BYTES // entry.row_bytes)
    valid = _flags(rows)
    begin = 0
    for chunk in rows.columns["values"].chunks(n * entry.row_bytes):
        items = np.frombuffer(chunk, STORAGE[entry.dtype]).reshape(-1, *entry.shape)
        end = begin + len(items)
        statistics.update(
            items, None if valid is None else flags_of_items(valid, offsets, begin, end)
        )
        begin = end
        yield chunk


def _files(
    rows: Rows, encoding: Encoding, offsets: Offsets, statistics: StreamStatistics
) -> Iterator[Bytes]:
    """Files of frames, some of which are decoded for the statistics."""
    sampled = np.arange(0, rows.rows, sampling_step(rows.rows))
    valid = _flags(rows)
    if valid is not None:
        sampled = sampled[valid[sampled]]
    reader = RandomReader(rows.columns["values"])
    step = max(1, _DECODED_BYTES // math.prod(encoding.shape))
    for begin in range(0, len(sampled), step):
        files = [
            np.frombuffer(reader.read(int(offsets[row]), int(offsets[row + 1])), np.uint8)
            for row in sampled[begin : begin + step]
        ]
        statistics.update(JpegFrames(RaggedArray.from_rows(files), encoding.shape).decode()[0])
    yield from rows.columns["values"].chunks(_CHUNK_BYTES)
