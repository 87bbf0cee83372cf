"""Check that a store's statistics cover the rows that it has.

A manifest that lacks some of its shards can be consistent in all else. The statistics cover all
rows and state the number of elements, so the count reveals missing shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from robocache.core.ragged import RaggedArray
from robocache.store.dtypes import FLOATS, Array, widened
from robocache.store.errors import StoreError
from robocache.store.manifest import NAME
from robocache.store.rows import StreamRows
from robocache.store.statistics import channels_of
from robocache.store.stream_info import StreamInfo
from robocache.store.value_columns import sample, value_chunks

_CHUNK_BYTES = 4 << 20  # of values, checked at once


def verify_counts(path: str, info: StreamInfo, rows: Iterable[StreamRows]) -> None:
    """Compares the element counts in a stream's statistics with its rows.

    Args:
        path: The store's folder, for messages.
        info: The stream; one without statistics passes.
        rows: All rows of the stream, with values in the types of :data:`dtypes.STORAGE`.

    Raises:
        StoreError: A count differs.
    """
    if info.statistics is None:
        return
    counts = info.statistics.count
    name = f'{Path(path) / NAME}: statistics.streams."{info.name}".count'
    expected = np.zeros(channels_of(info.type_name, info.shape), np.int64)
    if counts.shape != expected.shape:
        raise StoreError(f"{name}: expected {len(expected)} channels, got {len(counts)}")
    for part in rows:
        expected += _finite_elements(info, part)
    wrong = np.flatnonzero(counts != expected)
    if len(wrong):
        channel = wrong[0]
        raise StoreError(
            f"{name}[{channel}]: expected {expected[channel]}, as the rows of the shards say, "
            f"got {counts[channel]}"
        )


def _finite_elements(info: StreamInfo, rows: StreamRows) -> Array:
    """Number of finite elements in valid rows, for each channel."""
    channels = channels_of(info.type_name, info.shape)
    if info.type_name not in FLOATS:
        values, valid = sample(rows.values, rows.valid)
        ragged = isinstance(values, RaggedArray)
        lengths = values.lengths if ragged else np.ones(len(values), np.int64)
        count = int(lengths.sum() if valid is None else lengths[valid].sum())
        return np.full(channels, count * math.prod(info.shape) // channels, np.int64)
    counts = np.zeros(channels, np.int64)
    for items, valid in value_chunks(rows.values, rows.valid, info.row_bytes, _CHUNK_BYTES):
        values = items if valid is None else items[valid]
        finite = np.isfinite(widened(info.type_name, values)).reshape(-1, channels)
        counts += len(finite) if finite.all() else np.count_nonzero(finite, axis=0)
    return counts
