"""`ResidentFrames`: the JPEG frames of a stream in the memory of their tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.loader.frames import library as _library
from robocache.loader.frames.sources import FrameSources, FrameTable
from robocache.loader.memory.pinned import pinned_empty
from robocache.loader.memory.staging import STAGING_BYTES, fill, make_staging


@dataclass(frozen=True)
class ResidentFrames:
    """N frames of a stream, numbered from 1 on, for the decoder of a device."""

    arrays: _library.Arrays
    layout: _library.Layout
    kept: Any  # the owners of the memory that `arrays` has addresses of
    nbytes: Mapping[str, int]
    """Bytes by tier."""


@dataclass(frozen=True)
class MappedFrames:
    """Frames in the store's files, which are staged for a GPU batch by batch."""

    sources: FrameSources
    table: FrameTable

    @property
    def nbytes(self) -> Mapping[str, int]:
        """Bytes by tier."""
        sources = self.sources
        beside = self.table.records.nbytes + sources.files.nbytes + sources.sizes.nbytes
        return {"ram": beside, "disk": sources.file_bytes}


def on_cpu(sources: FrameSources, memory: Tensor | None = None) -> ResidentFrames:
    """Frames for the CPU.

    Args:
        sources: The files.
        memory: A copy of all files, one after the other; None: they are read where they are.
    """
    files, sizes = sources.files, sources.image_sizes
    if memory is not None:
        files = memory.data_ptr() + np.cumsum(sources.sizes) - sources.sizes
    height, width, _ = sources.shape
    arrays = _library.Arrays(first_number=1, count=len(sources))
    arrays.files, arrays.sizes = files.ctypes.data, sizes.ctypes.data
    layout = _library.Layout(width, height, 0, sources.mcus_per_entry, 1)
    # The CPU parses each file again: it needs neither the indices nor their addresses.
    kept = (sources.pieces if memory is None else memory, files, sizes)
    found = Counter({"disk" if memory is None else "ram": sources.file_bytes})
    found["ram"] += files.nbytes + sizes.nbytes
    return ResidentFrames(arrays, layout, kept, found)


def on_gpu(
    sources: FrameSources,
    table: FrameTable,
    device: torch.device,
    is_pinned: bool,
    is_bounded: bool,
) -> ResidentFrames:
    """Frames for a GPU: scans and indices in its memory or in pinned memory.

    Args:
        sources: The files.
        table: Their records.
        device: The GPU.
        is_pinned: Whether scans and indices stay in pinned memory.
        is_bounded: Whether a budget exists, which a pinned staging buffer would exceed.
    """
    scan_bytes, index_bytes = table.value_bytes
    if is_pinned:
        scans, indices = pinned_empty(max(scan_bytes, 16)), pinned_empty(max(index_bytes, 8))
        _extract(sources, table.records, scans)
    else:
        scans = torch.empty(max(scan_bytes, 16), dtype=torch.uint8, device=device)
        indices = torch.empty(max(index_bytes, 8), dtype=torch.uint8, device=device)
        _upload_scans(sources, table, scans, is_bounded)
    fill(indices, sources.entry_parts(), is_bounded)
    records = torch.from_numpy(table.records.view(np.uint8)).view(-1, _library.RECORD_BYTES)
    records = records.to(device)
    tables = torch.from_numpy(table.tables.view(np.int32)).to(device)
    arrays = gpu_arrays(scans, indices, tables, records)
    found = Counter({"pinned" if is_pinned else "gpu": scan_bytes + index_bytes})
    found["gpu"] += records.nbytes + tables.nbytes
    return ResidentFrames(arrays, table.layout, (scans, indices, records, tables), found)


def gpu_arrays(scans: Tensor, indices: Tensor, tables: Tensor, records: Tensor) -> _library.Arrays:
    """The structure of arrays that a GPU reads; scans and indices are bytes."""
    return _library.Arrays(
        first_number=1,
        count=len(records),
        scans=scans.data_ptr(),
        scan_words=scans.nbytes // 4,
        indices=indices.data_ptr(),
        index_size=indices.nbytes // 8,
        tables=tables.data_ptr(),
        table_words=tables.numel(),
        frames=records.data_ptr(),
    )


def _extract(sources: FrameSources, records: NDArray[Any], words: Tensor) -> None:
    """Extracts scans to the places in `words` that their records have, in threads."""
    _library.check(
        _library.load().robocache_extract_scans(
            byref(sources.as_struct()), records.ctypes.data, words.data_ptr()
        )
    )


def _upload_scans(
    sources: FrameSources, table: FrameTable, scans: Tensor, is_bounded: bool
) -> None:
    """Extracts scans to a GPU, through a staging buffer."""
    room = max(min(table.scan_words, STAGING_BYTES // 4), table.largest_scan)  # words
    staging = make_staging(4 * room, is_bounded)
    # Frames without an image have no words: they begin where the next one does.
    begins = np.where(table.records["width"] > 0, table.records["scan"], table.scan_words)
    begins = np.minimum.accumulate(begins[::-1])[::-1].astype(np.int64)
    ends = np.append(begins[1:], table.scan_words)
    begin = 0
    while begin < len(sources):
        first = int(begins[begin])
        end = max(int(np.searchsorted(ends, first + room, side="right")), begin + 1)
        last = int(ends[end - 1])
        records = table.records[begin:end].copy()
        records["scan"] -= first
        _extract(sources.part(begin, end), records, staging)
        scans[4 * first : 4 * last].copy_(staging[: 4 * (last - first)])
        begin = end
