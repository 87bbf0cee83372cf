"""`FrameStage`: memory for the frames of a batch on their way from disk to a GPU."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref

import torch
from torch import Tensor

from robocache.loader.frames import library as _library
from robocache.loader.frames.resident import gpu_arrays
from robocache.loader.frames.sources import FrameSources, FrameTable

Empty = Callable[[int], Tensor]
"""Allocates bytes."""


class StageWriter:
    """Fills a stage. It keeps the stage's addresses, and not its memory."""

    def __init__(self, sources: FrameSources, table: FrameTable, stage: _library.Stage) -> None:
        self._sources, self._table, self._stage = sources, table, stage

    def fill(self, numbers: int, count: int) -> None:
        """Copies frames from their files, in threads.

        Args:
            numbers: The address of their numbers, [count] int64.
            count: How many.
        """
        _library.check(
            _library.load().robocache_stage_frames(
                byref(self._sources.as_struct()),
                self._table.records.ctypes.data,
                numbers,
                count,
                byref(self._stage),
            )
        )


class FrameStage:
    """The scans, indices, records and numbers of a batch's frames of one window.

    Args:
        sources: The files of the window's stream.
        table: Their records.
        capacity: Frames of a batch.
        empty: Allocates the memory.

    Attributes:
        writer: Fills it.
    """

    def __init__(
        self, sources: FrameSources, table: FrameTable, capacity: int, empty: Empty
    ) -> None:
        sizes = stage_sizes(table, capacity)
        self.scans, self.indices, self.records, self.numbers = map(empty, sizes)
        stage = _library.Stage(
            self.scans.data_ptr(),
            self.scans.nbytes // 4,
            self.indices.data_ptr(),
            self.indices.nbytes // 8,
            self.records.data_ptr(),
            self.numbers.data_ptr(),
            capacity,
        )
        self.writer = StageWriter(sources, table, stage)

    def move_to(self, device: torch.device) -> None:
        """Copies the frames to a GPU; a stage in pinned memory needs no copy."""
        self.scans, self.indices = self.scans.to(device), self.indices.to(device)
        self.records, self.numbers = self.records.to(device), self.numbers.to(device)

    def arrays(self, tables: Tensor) -> _library.Arrays:
        """The structure of the staged frames.

        Args:
            tables: Those of the stream, in memory that the GPU reads.
        """
        records = self.records.view(-1, _library.RECORD_BYTES)
        return gpu_arrays(self.scans, self.indices, tables, records)


def stage_sizes(table: FrameTable, capacity: int) -> tuple[int, int, int, int]:
    """Bytes of scans, indices, records and numbers of a stage."""
    return (
        max(4 * table.largest_scan * capacity, 16),
        max(8 * table.largest_index * capacity, 8),
        _library.RECORD_BYTES * capacity,
        8 * capacity,
    )
