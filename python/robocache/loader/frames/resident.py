"""`ResidentFrames`: the JPEG frames of a stream in the memory of their tier."""

from __future__ import annotations

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

_STAGING_BYTES = 1 << 26


@dataclass(frozen=True)
class ResidentFrames:
    """N frames of a stream, numbered from 1 on, for the decoder of a device."""

    arrays: _library.Arrays
    layout: _library.Layout
    kept: Any  # the owners of the memory that `arrays` has addresses of
    nbytes: Mapping[str, int]
    """Bytes by tier, without files on disk."""
    mean_bytes: float
    """Bytes that decoding a frame reads, on average."""
    sources: FrameSources | None = None  # of frames on disk for a GPU: what is staged,
    table: FrameTable | None = None  # and how


def on_cpu(sources: FrameSources) -> ResidentFrames:
    """Frames for the CPU, in the memory of their sources."""
    sizes = sources.image_sizes
    height, width, _ = sources.shape
    arrays = _library.Arrays(first_number=1, count=len(sources))
    arrays.files, arrays.sizes = sources.files.ctypes.data, sizes.ctypes.data
    layout = _library.Layout(width, height, 0, sources.mcus_per_entry, 1)
    nbytes = {"ram": sources.files.nbytes + sizes.nbytes}
    mean = sources.file_bytes / max(len(sources), 1)
    # The CPU parses each file again: it needs neither the indices nor their addresses.
    return ResidentFrames(arrays, layout, (sources.kept, sources.files, sizes), nbytes, mean)


def on_gpu(
    sources: FrameSources, table: FrameTable, device: torch.device, is_pinned: bool, limited: bool
) -> ResidentFrames:
    """Frames for a GPU: scans and indices in its memory or in pinned memory.

    Args:
        sources: The files.
        table: Their records.
        device: The GPU.
        is_pinned: Whether scans and indices stay in pinned memory.
        limited: Whether a budget exists, which a pinned staging buffer would exceed.
    """
    scan_bytes, index_bytes = table.value_bytes
    if is_pinned:
        scans, indices = pinned_empty(max(scan_bytes, 16)), pinned_empty(max(index_bytes, 8))
        _extract(sources, table.records, scans)
    else:
        scans = torch.empty(max(scan_bytes, 16), dtype=torch.uint8, device=device)
        indices = torch.empty(max(index_bytes, 8), dtype=torch.uint8, device=device)
        _upload_scans(sources, table, scans, limited)
    begin = 0
    for frames in sources.kept:
        entries = frames.indices.entries.items.view(np.uint8)
        indices[begin : begin + len(entries)].copy_(torch.from_numpy(entries.copy()))
        begin += len(entries)
    records = torch.from_numpy(table.records).to(device)
    tables = tables_on(table, device)
    arrays = gpu_arrays(scans, indices, tables, records)
    tier = "pinned" if is_pinned else "gpu"
    nbytes = {tier: scan_bytes + index_bytes}
    nbytes["gpu"] = nbytes.get("gpu", 0) + records.nbytes + tables.nbytes
    kept = (scans, indices, records, tables)
    mean = (scan_bytes + index_bytes) / max(len(sources), 1)
    return ResidentFrames(arrays, table.layout, kept, nbytes, mean)


def on_disk(sources: FrameSources, table: FrameTable) -> ResidentFrames:
    """Frames in the store's files, which are staged for a GPU batch by batch."""
    scan_bytes, index_bytes = table.value_bytes
    nbytes = {"ram": table.records.nbytes + sources.files.nbytes + sources.sizes.nbytes}
    mean = (scan_bytes + index_bytes) / max(len(sources), 1)
    arrays = _library.Arrays(first_number=1, count=len(sources))
    return ResidentFrames(arrays, table.layout, (sources, table), nbytes, mean, sources, table)


def tables_on(table: FrameTable, device: torch.device) -> Tensor:
    """The tables of frames, on a device."""
    return torch.from_numpy(table.tables.view(np.int32)).to(device)


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


def _extract(sources: FrameSources, records: NDArray[np.uint8], words: Tensor) -> None:
    """Extracts scans to the places in `words` that their records have, in threads."""
    _library.check(
        _library.load().robocache_extract_scans(
            byref(sources.as_struct()), records.ctypes.data, words.data_ptr()
        )
    )


def _upload_scans(sources: FrameSources, table: FrameTable, scans: Tensor, limited: bool) -> None:
    """Extracts scans to a GPU, through a staging buffer."""
    size = max(min(4 * table.scan_words, _STAGING_BYTES), 4 * table.largest_scan)
    staging = torch.empty(size, dtype=torch.uint8, device="cpu")
    if not limited and size:
        staging = staging.pin_memory()
    begins = table.scan_begins
    # Frames without an image have no words: their begin is that of the next.
    begins = np.minimum.accumulate(
        np.where(_has_image(table.records), begins, table.scan_words)[::-1]
    )[::-1]
    begin = 0
    while begin < len(sources):
        first = int(begins[begin])
        end = int(np.searchsorted(begins, first + size // 4, side="right")) - 1
        end = len(sources) if table.scan_words - first <= size // 4 else max(end, begin + 1)
        last = table.scan_words if end == len(sources) else int(begins[end])
        records = table.records[begin:end].copy()
        records.reshape(-1, 5, 8)[:, 0].view(np.int64)[:] -= first
        _extract(sources.part(begin, end), records, staging)
        count = 4 * (last - first)
        scans[4 * first : 4 * last].copy_(staging[:count])
        begin = end


def _has_image(records: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """[N] whether frames have an image: a width, at byte 24 of a record."""
    found: NDArray[np.bool_] = records[:, 24:26].view(np.uint16)[:, 0] > 0
    return found
