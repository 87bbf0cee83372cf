"""Rows of a stream in the files of a store, which are mapped and not read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.core import dtypes
from robocache.loader.frames.decoder import STREAM_BYTES
from robocache.loader.frames.sources import FrameSources, FrameTable
from robocache.store.dtypes import STORAGE
from robocache.store.episode_store import EpisodeStore
from robocache.store.errors import StoreError
from robocache.store.rows import StreamRows
from robocache.store.stream_info import StreamInfo

_SAMPLED_ROWS = 1 << 20


@dataclass(frozen=True)
class FileRows:
    """Rows of a stream, N of E episodes, in pieces of the store's mapped files."""

    info: StreamInfo
    offsets: NDArray[np.int64]  # [E+1]
    pieces: Sequence[StreamRows]  # values of bfloat16 as uint16

    @property
    def rows(self) -> int:
        """N."""
        return int(self.offsets[-1])

    @property
    def has_received(self) -> bool:
        """Whether any piece has arrival times."""
        return any(piece.received is not None for piece in self.pieces)

    @property
    def has_valid(self) -> bool:
        """Whether any piece has flags of validity."""
        return any(piece.valid is not None for piece in self.pieces)

    @property
    def is_encoded(self) -> bool:
        """Whether the rows are JPEG frames."""
        return self.info.encoding is not None

    @cached_property
    def frames(self) -> FrameSources:
        """The files of JPEG frames."""
        return FrameSources.of_pieces(
            [piece.values for piece in self.pieces], self.info.shape, self.info.mcus_per_entry or 1
        )

    @cached_property
    def frame_table(self) -> FrameTable:
        """The records and tables of JPEG frames for a GPU, from their headers.

        Raises:
            ValueError: The frames differ in chroma sampling.
        """
        return FrameTable.of(self.frames, self.info.name)

    def value_bytes(self, device: torch.device) -> tuple[int, ...]:
        """Bytes of each tensor of the values of all rows, for batches on a device."""
        if not self.is_encoded:
            return (self.info.row_bytes * self.rows,)
        return self.frame_table.value_bytes if device.type == "cuda" else (self.frames.file_bytes,)

    def read_bytes(self, device: torch.device) -> float:
        """Bytes of values that a row is made of, on average."""
        if not self.is_encoded:
            return self.info.row_bytes
        return sum(self.value_bytes(device)) / max(self.rows, 1)

    def side_bytes(
        self, with_times: bool, with_received: bool, device: torch.device
    ) -> tuple[int, ...]:
        """Bytes of each other tensor of a :class:`ResidentStream`, except `begins`."""
        times = with_times + (with_received and self.has_received)
        found = [self.offsets.nbytes, *[8 * self.rows] * times, *[self.rows] * self.has_valid]
        if self.is_encoded and device.type == "cuda":  # numbers, records, tables
            table = self.frame_table
            found += [8 * self.rows, table.records.nbytes, table.tables.nbytes, STREAM_BYTES]
        elif self.is_encoded:  # numbers, addresses, sizes, and the offsets of files and indices
            found += [8 * self.rows] * 5 + [STREAM_BYTES]
        return tuple(found)

    def begins(self) -> NDArray[np.int64]:
        """Offsets of each episode's first value from the first piece, [E] in elements.

        They may be negative. The offset of an episode without rows is arbitrary.

        Raises:
            StoreError: An offset is not a whole number of elements.
        """
        if not self.pieces:
            return np.zeros(len(self.offsets) - 1, np.int64)
        firsts = np.cumsum([0, *(len(piece) for piece in self.pieces[:-1])])
        addresses = np.array([piece.values.ctypes.data for piece in self.pieces], np.int64)
        size = dtypes.BY_STORED_NAME[self.info.type_name].itemsize
        if (addresses % size).any():
            raise StoreError(
                f"{self.info.name}: expected values at multiples of {size} bytes in the store's "
                f"files, got some {(addresses % size).max()} bytes behind one"
            )
        rows = self.offsets[:-1]
        piece = np.searchsorted(firsts, rows, side="right") - 1
        found: NDArray[np.int64] = addresses[piece] - addresses[0]
        found += (rows - firsts[piece]) * self.info.row_bytes
        return found // size

    def times(self) -> NDArray[np.int64]:
        """Times of all rows, [N] int64 ns."""
        return _joined((piece.times for piece in self.pieces), np.int64)

    def received(self) -> NDArray[np.int64]:
        """Arrival times of all rows, [N] int64 ns; in pieces without them, the rows' times."""
        parts = (p.times if p.received is None else p.received for p in self.pieces)
        return _joined(parts, np.int64)

    def masks(self) -> Iterator[NDArray[np.bool_]]:
        """Flags of validity, piece by piece."""
        return (np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in self.pieces)

    def valid(self) -> NDArray[np.bool_]:
        """Flags of validity of all rows, [N]."""
        return _joined(self.masks(), np.bool_)

    def of_episodes(self, episodes: NDArray[np.int64]) -> FileRows:
        """The rows of some episodes: ascending indices into `offsets`."""
        ends = np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64)
        begins = self.offsets[episodes]
        lengths = self.offsets[episodes + 1] - begins
        place = np.searchsorted(ends, begins, side="right")
        pieces = []
        for begin, length, number in zip(
            begins.tolist(), lengths.tolist(), place.tolist(), strict=True
        ):
            if length > 0:
                piece = self.pieces[number]
                first = begin - int(ends[number]) + len(piece)
                pieces.append(piece[first : first + length])
        return FileRows(self.info, np.concatenate([[0], np.cumsum(lengths)]), pieces)

    @cached_property
    def typical_period(self) -> float:
        """The median time between neighboring rows of an episode, in ns; NaN without any."""
        steps = self._sampled_steps
        return float(np.median(steps)) if len(steps) else math.nan

    @cached_property
    def typical_interval(self) -> float:
        """The median time between neighboring timestamps of an episode, in ns; NaN without any.

        It differs from the period if rows repeat a timestamp.
        """
        steps = self._sampled_steps[self._sampled_steps > 0]
        return float(np.median(steps)) if len(steps) else math.nan

    @cached_property
    def _sampled_steps(self) -> NDArray[np.int64]:
        """The times between neighboring rows, of the first million rows."""
        parts, count = [], 0
        for piece in self.pieces:
            parts.append(piece.times[: _SAMPLED_ROWS - count])
            count += len(parts[-1])
        steps: NDArray[np.int64] = np.diff(_joined(parts, np.int64))[self.neighbors(count)]
        return steps

    def neighbors(self, count: int) -> NDArray[np.bool_]:
        """[count - 1]: whether rows 1 to count - 1 are of the same episode as the row before."""
        is_within = np.ones(max(count - 1, 0), np.bool_)
        starts = self.offsets[1:-1]
        is_within[starts[(starts > 0) & (starts < count)] - 1] = False
        return is_within


def find_rows(store: EpisodeStore, name: str, episodes: NDArray[np.int64]) -> FileRows:
    """Locates the rows of a stream in some episodes, without reading them.

    Raises:
        StoreError: A shard contradicts itself.
    """
    info = store.streams[name]
    lengths, pieces = store.pieces(name, episodes, STORAGE[info.type_name])
    return FileRows(info, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pieces)


def _joined(parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)
