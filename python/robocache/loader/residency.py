"""A store's streams as tensors on a device: all chosen episodes, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.loader.windows import SUMMED, TORCH_DTYPES, Window
from robocache.store.dtypes import STORAGE
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import StreamRows
from robocache.store.stream_info import StreamInfo

_STAGING_BYTES = 1 << 26  # of pinned memory, on the way to a GPU
_SAMPLED_ROWS = 1 << 20


@dataclass(frozen=True)
class ResidentStream:
    """Rows of a stream on a device: N of them, of E episodes."""

    values: Tensor  # [N, the row's shape...]
    times: Tensor | None  # [N] int64 ns; None where nobody asks for them
    offsets: Tensor  # [E+1] int64
    received: Tensor | None  # [N] int64 ns
    valid: Tensor | None  # [N] bool

    @property
    def nbytes(self) -> int:
        """Of all of them."""
        parts = (self.values, self.times, self.offsets, self.received, self.valid)
        return sum(part.nbytes for part in parts if part is not None)


@dataclass(frozen=True)
class FileRows:
    """The same rows where they are: in pieces of the store's files."""

    info: StreamInfo
    offsets: NDArray[np.int64]  # [E+1]
    pieces: Sequence[StreamRows]  # values of bfloat16 as uint16

    @property
    def rows(self) -> int:
        """N."""
        return int(self.offsets[-1])

    @property
    def has_received(self) -> bool:
        """Whether any piece says when rows arrived."""
        return any(piece.received is not None for piece in self.pieces)

    @property
    def has_valid(self) -> bool:
        """Whether any piece says which rows are real."""
        return any(piece.valid is not None for piece in self.pieces)

    def bytes(self, with_times: bool, with_received: bool) -> int:
        """Of a :class:`ResidentStream`."""
        a_row = self.info.row_bytes + self.has_valid + 8 * with_times
        return (a_row + 8 * (self.has_received and with_received)) * self.rows + self.offsets.nbytes

    def times(self) -> NDArray[np.int64]:
        """Of all rows, [N]."""
        return _joined((piece.times for piece in self.pieces), np.int64)

    def received(self) -> NDArray[np.int64]:
        """When all rows arrived, [N]; at their times where a piece does not say."""
        parts = (p.times if p.received is None else p.received for p in self.pieces)
        return _joined(parts, np.int64)

    def typical_period(self) -> float:
        """The median of the times between neighbours of an episode, in ns; NaN without any.

        Of the first million rows, which is enough to tell.
        """
        parts, count = [], 0
        for piece in self.pieces:
            parts.append(piece.times[: _SAMPLED_ROWS - count])
            count += len(parts[-1])
        steps = np.diff(_joined(parts, np.int64))[self.neighbours(count)]
        return float(np.median(steps)) if len(steps) else math.nan

    def neighbours(self, count: int) -> NDArray[np.bool_]:
        """Which of the first `count` rows but the first are of the episode of the row before."""
        is_within = np.ones(max(count - 1, 0), np.bool_)
        starts = self.offsets[1:-1]
        is_within[starts[(starts > 0) & (starts < count)] - 1] = False
        return is_within


def find_rows(store: EpisodeStore, name: str, episodes: NDArray[np.int64]) -> FileRows:
    """Where the rows of a stream are that some episodes have; reads nothing.

    Raises:
        StoreError: A shard contradicts itself.
    """
    info = store.streams[name]
    lengths, pieces = store.pieces(name, episodes, STORAGE[info.type_name])
    return FileRows(info, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), pieces)


def load(
    rows: FileRows, device: torch.device, with_times: bool, with_received: bool
) -> ResidentStream:
    """Reads rows onto a device; times, and when rows arrived, where they are needed."""
    info, count = rows.info, rows.rows
    dtype = TORCH_DTYPES[info.type_name]
    values = _load(count, info.row_bytes, (p.values for p in rows.pieces), device)
    times = received = valid = None
    if with_times:
        times = _load(count, 8, (p.times for p in rows.pieces), device).view(torch.int64)
    if with_received and rows.has_received:
        parts = (p.times if p.received is None else p.received for p in rows.pieces)
        received = _load(count, 8, parts, device).view(torch.int64)
    if rows.has_valid:
        masks = (np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in rows.pieces)
        valid = _load(count, 1, masks, device).view(torch.bool)
    return ResidentStream(
        values.view(dtype).view(count, *info.shape),
        times,
        torch.from_numpy(rows.offsets).to(device),
        received,
        valid,
    )


def _load(
    count: int, row_bytes: int, pieces: Iterable[NDArray[Any]], device: torch.device
) -> Tensor:
    """Bytes [count * row_bytes] of arrays, one after the other."""
    storage = torch.empty(max(count * row_bytes, 8), dtype=torch.uint8, device=device)
    staging = None
    if device.type != "cpu":
        staging = torch.empty(min(len(storage), _STAGING_BYTES), dtype=torch.uint8).pin_memory()
    begin = 0
    for piece in pieces:
        source = piece.reshape(-1).view(np.uint8)
        if staging is None:
            np.copyto(storage[begin : begin + len(source)].numpy(), source)
        else:
            for at in range(0, len(source), len(staging)):
                part = source[at : at + len(staging)]
                np.copyto(staging[: len(part)].numpy(), part)
                storage[begin + at : begin + at + len(part)].copy_(staging[: len(part)])
        begin += len(source)
    return storage[: count * row_bytes]


def _joined(parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


# ---- checks --------------------------------------------------------------------------------------


def check_room(wanted: dict[str, int], device: torch.device) -> None:
    """That streams fit into the memory that is free on a device, before any is allocated.

    Args:
        wanted: Bytes by stream.
        device: Where they are to live.

    Raises:
        torch.OutOfMemoryError: They do not.
    """
    total, free = sum(wanted.values()), free_bytes(device)
    if free is not None and total > free:
        largest = sorted(wanted, key=lambda name: -wanted[name])
        shares = ", ".join(f"{name} {wanted[name]}" for name in largest)
        raise torch.OutOfMemoryError(
            f"store: expected streams within the {free} bytes of memory that are free on {device}, "
            f"got {total} bytes ({shares}); fewer streams or episodes need less"
        )


def free_bytes(device: torch.device) -> int | None:
    """Memory that can be had on a device; None where nobody knows."""
    if device.type == "cuda":
        # What torch has taken and does not use is free too.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def check_times(rows: FileRows) -> None:
    """That times ascend within each episode, as a search for rows needs it.

    Raises:
        ValueError: A row is earlier than the one before it.
    """
    early = _first_early(rows, lambda piece: piece.times)
    if early is not None:
        raise ValueError(
            f"times: {rows.info.name}: expected times that ascend in each episode, got "
            f"{_place(rows, early)} with an earlier time than the row before it"
        )


def check_arrivals(rows: FileRows) -> None:
    """That rows arrived in the order of their times, as a causal window needs it.

    Raises:
        ValueError: A row came before the one before it.
    """
    if not rows.has_received:
        return
    early = _first_early(rows, lambda p: p.times if p.received is None else p.received)
    if early is not None:
        raise ValueError(
            f"causal: {rows.info.name}: expected rows that were received in the order of their "
            f"times, got {_place(rows, early)} before the row before it; causal=False looks at "
            f"times alone, and a store without `received` can have a latency_s"
        )


def _first_early(rows: FileRows, times_of: Callable[[StreamRows], NDArray[np.int64]]) -> int | None:
    """The first row whose time is below that of the row before it in its episode."""
    before = 0
    for piece in rows.pieces:  # of whole episodes, so that no pair is cut in two
        times = times_of(piece)
        early = np.flatnonzero(times[1:] < times[:-1]) + before + 1
        early = early[~np.isin(early, rows.offsets)]  # the first row of an episode follows none
        if len(early):
            return int(early[0])
        before += len(times)
    return None


def _place(rows: FileRows, row: int) -> str:
    episode = int(np.searchsorted(rows.offsets, row, side="right")) - 1
    return f"row {row - int(rows.offsets[episode])} of episode {episode} (of those chosen)"


def with_tolerance(window: Window, rows: FileRows) -> Window:
    """A window by time, with the default tolerance where the user gave none, if rows allow it.

    Raises:
        ValueError: The user's is half the time between rows or more: any target would lie within
            it of some row.
    """
    is_summed = all(method in SUMMED for method, _ in window.layout)
    if is_summed or window.tolerance_ns == 0:  # sums and means know none
        return window
    period = rows.typical_period()
    if not 2 * window.tolerance_ns >= period > 0:
        return window
    if window.is_default_tolerance:
        return replace(window, tolerance_ns=0)
    raise ValueError(
        f"tolerance_s: {rows.info.name}: expected less than half of the {period * 1e-9:g} s "
        f"between its rows, got {window.tolerance_ns * 1e-9:g} (a row so near to a target is the "
        "answer alone; max_gap_s is what limits gaps)"
    )


def check_rows(rows: FileRows, anchor: FileRows, episodes: NDArray[np.int64]) -> None:
    """That rows can be counted from those of the anchor: each episode has as many, or none.

    Raises:
        ValueError: Some episode has others.
    """
    ours, theirs = np.diff(rows.offsets), np.diff(anchor.offsets)
    differs = (ours != theirs) & (ours != 0)
    if differs.any():
        e = int(np.flatnonzero(differs)[0])
        raise ValueError(
            f"timeline: {rows.info.name}: expected as many rows in every episode as the anchor "
            f"{anchor.info.name} has, got {ours[e]} in place of {theirs[e]} in episode "
            f"{episodes[e]}; timeline='time' finds rows by their times"
        )
