"""`FrameSources`: the JPEG files of a stream in memory or in mapped files, and their indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import byref, c_void_p
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.ragged import RaggedArray
from robocache.jpeg.frames import FrameIndices, JpegFrames
from robocache.loader.frames import library as _library

Counts = NDArray[np.int64]
RECORD = np.dtype(_library.Record)


@dataclass(frozen=True)
class FrameSources:
    """The files of N frames, in memory that this keeps; addresses are of host memory."""

    shape: tuple[int, int, int]  # (H, W, C) of a decoded frame
    mcus_per_entry: int
    files: Counts  # [N] addresses
    sizes: Counts  # [N] bytes
    entries: Counts  # [N] addresses
    entry_counts: Counts  # [N]; 0: the frame has no index
    scan_bits: NDArray[np.uint32]  # [N]
    pieces: Sequence[JpegFrames]  # the same frames, which own the memory

    @classmethod
    def of_pieces(
        cls, pieces: Sequence[JpegFrames], shape: tuple[int, ...], mcus_per_entry: int
    ) -> FrameSources:
        """The frames of a store's mapped files, piece by piece; all of them have indices."""
        height, width, channels = shape
        files = [frames.files for frames in pieces]
        indices = [_indices(frames) for frames in pieces]
        entries = [each.entries for each in indices]
        return cls(
            (height, width, channels),
            mcus_per_entry,
            _joined([_addresses(each) for each in files]),
            _joined([each.lengths for each in files]),
            _joined([_addresses(each) for each in entries]),
            _joined([each.lengths for each in entries]),
            np.concatenate([np.empty(0, np.uint32), *(each.scan_bits for each in indices)]),
            pieces,
        )

    def __len__(self) -> int:
        return len(self.files)

    @property
    def file_bytes(self) -> int:
        """Bytes of all files."""
        return int(self.sizes.sum())

    def file_parts(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes of all files, piece by piece."""
        return (frames.files.items for frames in self.pieces)

    def entry_parts(self) -> Iterator[NDArray[np.uint64]]:
        """The entries of all indices, piece by piece."""
        return (_indices(frames).entries.items for frames in self.pieces)

    @property
    def image_sizes(self) -> Counts:
        """[N] the size of each file; 0 for frames without an index, which no device decodes."""
        found: Counts = self.sizes * (self.entry_counts > 0)
        return found

    def as_struct(self) -> _library.Sources:
        """The structure of the library, valid as long as this is."""
        return _library.Sources(
            self.files.ctypes.data,
            self.sizes.ctypes.data,
            self.entries.ctypes.data,
            self.entry_counts.ctypes.data,
            self.scan_bits.ctypes.data,
            len(self),
        )

    def part(self, begin: int, end: int) -> FrameSources:
        """Some of the frames, for calls of the library."""
        rows = slice(begin, end)
        return replace(
            self,
            files=self.files[rows],
            sizes=self.sizes[rows],
            entries=self.entries[rows],
            entry_counts=self.entry_counts[rows],
            scan_bits=self.scan_bits[rows],
        )


@dataclass(frozen=True)
class FrameTable:
    """The records and tables that a GPU needs of frames, from the headers of their files."""

    layout: _library.Layout
    records: NDArray[Any]  # [N] of RECORD
    tables: NDArray[np.uint32]
    scan_words: int  # of 4 bytes, of all frames
    index_size: int  # entries of 8 bytes, of all frames
    largest_scan: int  # words of a frame
    largest_index: int  # entries of a frame

    @classmethod
    def of(cls, sources: FrameSources, name: str) -> FrameTable:
        """Reads the headers of files, in threads.

        Args:
            sources: The files.
            name: The stream's name in messages.

        Raises:
            ValueError: The frames differ in chroma sampling.
        """
        height, width, _ = sources.shape
        layout = _library.Layout(width, height, 0, sources.mcus_per_entry, 1)
        sizes, table = _library.Sizes(), c_void_p()
        try:
            _library.check(
                _library.load().robocache_frame_table_open(
                    byref(sources.as_struct()), byref(layout), byref(sizes), byref(table)
                )
            )
        except ValueError as error:
            raise ValueError(
                f"{name}: {error} (`robocache convert --images jpeg:95` encodes all frames alike)"
            ) from None
        records = np.empty(len(sources), RECORD)
        tables = np.empty(sizes.table_words, np.uint32)
        _library.load().robocache_frame_table_take(table, records.ctypes.data, tables.ctypes.data)
        return cls(
            sizes.layout,
            records,
            tables,
            sizes.scan_words,
            sizes.index_size,
            sizes.largest_scan,
            sizes.largest_index,
        )

    @property
    def value_bytes(self) -> tuple[int, int]:
        """Bytes of the arrays of scans and of indices."""
        return 4 * self.scan_words, 8 * self.index_size


def _indices(frames: JpegFrames) -> FrameIndices:
    assert frames.indices is not None  # those of a store have them
    return frames.indices


def _addresses(rows: RaggedArray) -> Counts:
    """[N] the address of each row's first item."""
    items = rows.items
    found: Counts = items.ctypes.data + rows.offsets[:-1] * items.itemsize
    return found


def _joined(parts: Sequence[Counts]) -> Counts:
    return np.concatenate([np.empty(0, np.int64), *parts])
