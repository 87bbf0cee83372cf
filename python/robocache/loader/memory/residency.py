"""A store's streams as tensors, in the tier of each: all chosen episodes, one after the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.loader.memory.pinned import pinned_empty
from robocache.loader.memory.tiers import Tier
from robocache.loader.window_spec import TORCH_DTYPES, WindowSpec
from robocache.loader.windows import SUMMED
from robocache.store.dtypes import STORAGE
from robocache.store.episode_store import EpisodeStore
from robocache.store.errors import StoreError
from robocache.store.rows import StreamRows
from robocache.store.stream_info import StreamInfo

_STAGING_BYTES = 1 << 26  # of pinned memory, on the way to a GPU
_SAMPLED_ROWS = 1 << 20


@dataclass(frozen=True)
class ResidentStream:
    """Rows of a stream: N of them, of E episodes."""

    tier: Tier  # of the values; all else is in memory: a GPU's for "gpu" and "pinned"
    values: Tensor  # [N, the row's shape...]; on disk a part of them
    times: Tensor | None  # [N] int64 ns; None where nobody asks for them
    offsets: Tensor  # [E+1] int64
    received: Tensor | None  # [N] int64 ns
    valid: Tensor | None  # [N] bool
    # On disk, [E] int64: where each episode's first row is, in elements from `values` on or back.
    begins: Tensor | None = None

    @property
    def nbytes(self) -> Mapping[Tier, int]:
        """Of all of them, by tier; what stays on disk as well."""
        parts = (self.times, self.offsets, self.received, self.valid, self.begins)
        sides = sum(part.nbytes for part in parts if part is not None)
        rows = len(self.values) if self.begins is None else int(self.offsets[-1])
        found = Counter[Tier]({"gpu" if self.offsets.is_cuda else "ram": sides})
        found[self.tier] += rows * math.prod(self.values.shape[1:]) * self.values.itemsize
        return found


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

    @property
    def value_bytes(self) -> int:
        """Of the values of all rows."""
        return self.info.row_bytes * self.rows

    def side_bytes(self, with_times: bool, with_received: bool) -> tuple[int, ...]:
        """Of each other tensor of a :class:`ResidentStream`, but for `begins`."""
        times = with_times + (with_received and self.has_received)
        return (self.offsets.nbytes, *[8 * self.rows] * times, *[self.rows] * self.has_valid)

    def begins(self) -> NDArray[np.int64]:
        """Where the values of each episode's first row are: [E], in elements from the first piece.

        They may lie before it; where an episode has no rows, the number means nothing.

        Raises:
            StoreError: They lie between elements.
        """
        if not self.pieces:
            return np.zeros(len(self.offsets) - 1, np.int64)
        firsts = np.cumsum([0, *(len(piece) for piece in self.pieces[:-1])])
        addresses = np.array([piece.values.ctypes.data for piece in self.pieces], np.int64)
        size = TORCH_DTYPES[self.info.type_name].itemsize
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
        """Of all rows, [N]."""
        return _joined((piece.times for piece in self.pieces), np.int64)

    def received(self) -> NDArray[np.int64]:
        """When all rows arrived, [N]; at their times where a piece does not say."""
        parts = (p.times if p.received is None else p.received for p in self.pieces)
        return _joined(parts, np.int64)

    def masks(self) -> Iterator[NDArray[np.bool_]]:
        """Which rows of each piece are real."""
        return (np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in self.pieces)

    def valid(self) -> NDArray[np.bool_]:
        """Which rows are real, [N]."""
        return _joined(self.masks(), np.bool_)

    def of_episodes(self, episodes: NDArray[np.int64]) -> FileRows:
        """The rows of some of the episodes, which are counted as in `offsets` and ascend."""
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
        """The median of the times between neighbors of an episode, in ns; NaN without any.

        Of the first million rows, which is enough to tell.
        """
        parts, count = [], 0
        for piece in self.pieces:
            parts.append(piece.times[: _SAMPLED_ROWS - count])
            count += len(parts[-1])
        steps = np.diff(_joined(parts, np.int64))[self.neighbors(count)]
        return float(np.median(steps)) if len(steps) else math.nan

    def neighbors(self, count: int) -> NDArray[np.bool_]:
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
    rows: FileRows,
    device: torch.device,
    tier: Tier,
    with_times: bool,
    with_received: bool,
    is_bounded: bool,
) -> ResidentStream:
    """Reads rows into a tier; what stays on disk is not read.

    Args:
        rows: Where they are.
        device: Where batches are made.
        tier: Of the values. All else is on the device; of values on disk, in plain memory.
        with_times: Whether times are needed.
        with_received: Whether it is needed when rows arrived.
        is_bounded: Whether there is a budget, which pinned memory on the way to a GPU would exceed.

    Raises:
        StoreError: Values that stay on disk lie between elements.
        torch.OutOfMemoryError: The memory can't be had.
    """
    info, count = rows.info, rows.rows
    beside = torch.device("cpu") if tier == "disk" else device

    def beside_values(parts: Iterable[NDArray[Any]], size: int, dtype: torch.dtype) -> Tensor:
        storage = torch.empty(max(count * size, 8), dtype=torch.uint8, device=beside)
        _fill(storage, parts, is_bounded)
        return storage[: count * size].view(dtype)

    times = received = valid = begins = None
    if with_times:
        times = beside_values((p.times for p in rows.pieces), 8, torch.int64)
    if with_received and rows.has_received:
        parts = (p.times if p.received is None else p.received for p in rows.pieces)
        received = beside_values(parts, 8, torch.int64)
    if rows.has_valid:
        valid = beside_values(rows.masks(), 1, torch.bool)
    if tier == "disk":
        storage, begins = _mapped(rows), torch.from_numpy(rows.begins())
        count = len(rows.pieces[0]) if rows.pieces else 0
    else:
        size = max(rows.value_bytes, 8)
        if tier == "pinned":
            storage = pinned_empty(size)
        else:
            storage = torch.empty(size, dtype=torch.uint8, device=device)
        _fill(storage, (p.values for p in rows.pieces), is_bounded)
        storage = storage[: rows.value_bytes]
    return ResidentStream(
        tier,
        storage.view(TORCH_DTYPES[info.type_name]).view(count, *info.shape),
        times,
        torch.from_numpy(rows.offsets).to(beside),
        received,
        valid,
        begins,
    )


def _fill(storage: Tensor, pieces: Iterable[NDArray[Any]], is_bounded: bool) -> None:
    """Writes arrays, one after the other, into bytes."""
    staging = None
    if storage.is_cuda:
        size = min(len(storage), _STAGING_BYTES)
        staging = torch.empty(size, dtype=torch.uint8, device="cpu")
        if not is_bounded:
            staging = staging.pin_memory()
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


class _Bytes:
    """Bytes of a mapped file as NumPy takes them over, without saying that they are read-only.

    Torch knows no such tensors, and warns. Nobody writes to these.
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
            f"got {total} bytes ({shares}); fewer streams or episodes need less, and a "
            "budget leaves some elsewhere"
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


def with_tolerance(window: WindowSpec, rows: FileRows, is_default: bool) -> WindowSpec:
    """A window by time, with the default tolerance where the user gave none, if rows allow it.

    Raises:
        ValueError: The user's is half the time between rows or more: any target would lie within
            it of some row.
    """
    is_summed = all(method in SUMMED for method in window.methods)
    if is_summed or window.tolerance_ns == 0:  # sums and means know none
        return window
    period = rows.typical_period
    if not 2 * window.tolerance_ns >= period > 0:
        return window
    if is_default:
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
