"""`ResidentStream`: a stream of the chosen episodes as tensors, in its tier."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import dtypes
from robocache.loader.frames import resident as _frames
from robocache.loader.frames.resident import MappedFrames, ResidentFrames
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.memory.pinned import pinned_empty
from robocache.loader.memory.staging import fill
from robocache.loader.memory.tiers import Tier


@dataclass(frozen=True)
class ResidentStream:
    """Rows of a stream: N of them, of E episodes."""

    tier: Tier  # of the values; all else is in memory: a GPU's for "gpu" and "pinned"
    # [N, the row's shape...]; on disk, the first piece. Of JPEG frames [N] int64: their numbers,
    # from 1 on.
    values: Tensor
    times: Tensor | None  # [N] int64 ns; None if no window reads them
    offsets: Tensor  # [E+1] int64
    received: Tensor | None  # [N] int64 ns
    valid: Tensor | None  # [N] bool
    # On disk, [E] int64: the offset of each episode's first value from `values`, in elements.
    begins: Tensor | None = None
    frames: ResidentFrames | MappedFrames | None = None  # JPEG frames, in the tier

    @property
    def nbytes(self) -> Mapping[Tier, int]:
        """Bytes of all tensors by tier, including values on disk."""
        parts = (self.times, self.offsets, self.received, self.valid, self.begins)
        sides = sum(part.nbytes for part in parts if part is not None)
        rows = len(self.values) if self.begins is None else int(self.offsets[-1])
        own: Tier = "gpu" if self.offsets.is_cuda else "ram"
        found = Counter[Tier]({own: sides})
        if self.frames is not None:
            found[own] += self.values.nbytes
            found.update(cast("Mapping[Tier, int]", self.frames.nbytes))
            return found
        found[self.tier] += rows * math.prod(self.values.shape[1:]) * self.values.itemsize
        return found


def load(
    rows: FileRows,
    device: torch.device,
    tier: Tier,
    with_times: bool,
    with_received: bool,
    is_bounded: bool,
) -> ResidentStream:
    """Reads rows into a tier; values on disk are not read.

    Args:
        rows: Rows in the store's files.
        device: Where batches are made.
        tier: The tier of the values. Other tensors are on the device, or in plain memory if the
            values are on disk.
        with_times: Whether a window reads times.
        with_received: Whether a window reads arrival times.
        is_bounded: Whether a budget exists, which a pinned staging buffer would exceed.

    Raises:
        StoreError: Values on disk are not aligned to elements.
        torch.OutOfMemoryError: The memory can't be allocated.
    """
    info, count = rows.info, rows.rows
    beside = torch.device("cpu") if tier == "disk" else device

    def beside_values(parts: Iterable[NDArray[Any]], size: int, dtype: torch.dtype) -> Tensor:
        storage = torch.empty(max(count * size, 8), dtype=torch.uint8, device=beside)
        fill(storage, parts, is_bounded)
        return storage[: count * size].view(dtype)

    times = received = valid = begins = None
    if with_times:
        times = beside_values((p.times for p in rows.pieces), 8, torch.int64)
    if with_received and rows.has_received:
        parts = (p.times if p.received is None else p.received for p in rows.pieces)
        received = beside_values(parts, 8, torch.int64)
    if rows.has_valid:
        valid = beside_values(rows.masks(), 1, torch.bool)
    if rows.is_encoded:
        return ResidentStream(
            tier,
            torch.arange(1, count + 1, device=beside),
            times,
            torch.from_numpy(rows.offsets).to(beside),
            received,
            valid,
            frames=_load_frames(rows, device, tier, is_bounded),
        )
    if tier == "disk":
        storage, begins = _mapped(rows), torch.from_numpy(rows.begins())
        count = len(rows.pieces[0]) if rows.pieces else 0
    else:
        size = max(sum(rows.value_bytes(device)), 8)
        if tier == "pinned":
            storage = pinned_empty(size)
        else:
            storage = torch.empty(size, dtype=torch.uint8, device=device)
        fill(storage, (piece.values for piece in rows.pieces), is_bounded)
        storage = storage[: sum(rows.value_bytes(device))]
    return ResidentStream(
        tier,
        storage.view(dtypes.BY_STORED_NAME[info.type_name]).view(count, *info.shape),
        times,
        torch.from_numpy(rows.offsets).to(beside),
        received,
        valid,
        begins,
    )


def _load_frames(
    rows: FileRows, device: torch.device, tier: Tier, is_bounded: bool
) -> ResidentFrames | MappedFrames:
    """JPEG frames in a tier."""
    sources = rows.frames
    if device.type == "cuda":
        if tier == "disk":
            return MappedFrames(sources, rows.frame_table)
        return _frames.on_gpu(sources, rows.frame_table, device, tier == "pinned", is_bounded)
    if tier == "disk":
        return _frames.on_cpu(sources)
    storage = torch.empty(max(sources.file_bytes, 1), dtype=torch.uint8, device="cpu")
    fill(storage, sources.file_parts(), is_bounded)
    return _frames.on_cpu(sources, storage)


class _Bytes:
    """Bytes of a mapped file for NumPy, declared writable.

    Torch warns about arrays that are read-only. The library never writes to these.
    """

    def __init__(self, values: NDArray[Any], kept: object) -> None:
        self.__array_interface__ = {
            "data": (values.ctypes.data, False),
            "shape": (values.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
        self._kept = kept  # as long as the array is there


def _mapped(rows: FileRows) -> Tensor:
    """The values of the first piece, as bytes in the store's file; keeps all pieces mapped."""
    if not rows.pieces:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.from_numpy(np.asarray(_Bytes(rows.pieces[0].values, rows.pieces)))


# ---- checks --------------------------------------------------------------------------------------


def check_room(wanted: dict[str, int], device: torch.device) -> None:
    """Checks that streams fit into the free memory of a device, before any is allocated.

    Args:
        wanted: Bytes by stream.
        device: Their device.

    Raises:
        torch.OutOfMemoryError: They do not fit.
    """
    total, free = sum(wanted.values()), free_bytes(device)
    if free is not None and total > free:
        largest = sorted(wanted, key=lambda name: -wanted[name])
        shares = ", ".join(f"{name} {wanted[name]}" for name in largest)
        raise torch.OutOfMemoryError(
            f"store: expected streams within the {free} bytes of memory that are free on {device}, "
            f"got {total} bytes ({shares}); fewer streams or episodes need less, and a "
            "budget leaves some elsewhere"
        )


def free_bytes(device: torch.device) -> int | None:
    """Free memory of a device in bytes; None: the system does not report it."""
    if device.type == "cuda":
        # Memory that torch's allocator has reserved and does not use is free too.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
