"""Masks and ages of a few samples of a loader, computed on the CPU before its rows are loaded."""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.core import dtypes
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.memory.resident_streams import ResidentStream
from robocache.loader.plan import BatchPlan, WindowData, WindowOutput
from robocache.loader.plan_inputs import window_data
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec, reads_arrivals
from robocache.loader.windows import SLERPS
from robocache.store.dtypes import STORAGE

MOST = 1000
"""Samples that a loader looks at."""
_MOST_EPISODES = 100
_CPU = torch.device("cpu")
_MOST_TARGETS = 1 << 22  # of a plan's call


class StepMasks(NamedTuple):
    """A window at A samples, K steps each."""

    is_pad: NDArray[np.bool_]  # [A,K]
    age_ns: NDArray[np.int64] | None  # [A,K]; None: times of rows that are counted do not ascend


class ExaminedSamples:
    """Some samples, and the rows of their episodes but for values, which masks do not depend on.

    Args:
        rows: Of each stream of the batch, by key: all chosen episodes.
        anchors: [A] of `anchors.ANCHOR`: the samples.
        episodes: The table [E,4] of the chosen episodes.
    """

    def __init__(
        self, rows: Mapping[str, FileRows], anchors: NDArray[Any], episodes: NDArray[np.int64]
    ) -> None:
        chosen, place = np.unique(anchors["episode"], return_inverse=True)
        self.anchors = anchors.copy()
        self.anchors["episode"] = place
        self.episodes = np.ascontiguousarray(episodes[chosen])
        self.rows = {key: of.of_episodes(chosen) for key, of in rows.items()}

    def __len__(self) -> int:
        return len(self.anchors)

    def compute_masks(
        self, windows: Sequence[WindowSpec], *, with_valid: bool = True, with_received: bool = True
    ) -> dict[str, StepMasks]:
        """Masks and ages as the loader's batches have them, by key.

        Args:
            windows: Those that are wanted, with what they are relative to.
            with_valid: Whether rows that the store marks as not real are so.
            with_received: Whether rows arrive when the store says, or at their times.
        """
        specs: list[WindowSpec] = []
        data: list[WindowData] = []
        for window in windows:
            narrow, values = self._narrow(window)
            rows = self.rows[window.name]
            offsets = torch.from_numpy(rows.offsets)
            times = received = valid = None
            if not window.by_rows or _ascend(rows):
                times = torch.from_numpy(rows.times())
            if with_received and rows.has_received and reads_arrivals(window, windows):
                received = torch.from_numpy(rows.received())
            if with_valid and rows.has_valid:
                valid = torch.from_numpy(rows.valid())
            resident = ResidentStream("ram", values, times, offsets, received, valid)
            specs.append(narrow)
            data.append(window_data(narrow, resident, _CPU))
        anchors = torch.from_numpy(self.anchors.view(np.int64).reshape(-1, 2))
        order = Order(len(self), 1, 0, False, False, 0, 1)
        plan = BatchPlan(specs, data, anchors, torch.from_numpy(self.episodes), order)
        indices = np.arange(len(self))
        outputs = (WindowOutput * len(specs))()
        masks, kept = {}, []
        for window, spec, of, output in zip(windows, specs, data, outputs, strict=True):
            shape = (len(self), len(window.offsets))
            width = spec.elements
            made = np.empty((*shape, width * spec.torch_out_dtype.itemsize), np.uint8)
            is_pad = np.empty(shape, np.bool_)
            ages = None if of.times is None else np.empty(shape, np.int64)
            kept.append(made)
            output.values, output.row_stride = made.ctypes.data, width
            output.is_pad = is_pad.ctypes.data
            output.age_ns = None if ages is None else ages.ctypes.data
            masks[window.name] = StepMasks(is_pad, ages)
        plan.gather(indices.ctypes.data, len(self), ctypes.addressof(outputs), 0, 0)
        return masks

    def _narrow(self, window: WindowSpec) -> tuple[WindowSpec, torch.Tensor]:
        """A window of the same masks and ages, of one column for each method, and its values.

        Quaternions keep their own values: one of zeros is no rotation, and is padded.
        """
        rows = self.rows[window.name]
        methods = window.methods
        if not window.by_rows and any(method in SLERPS for method in methods):
            parts = [piece.values for piece in rows.pieces]
            stored = STORAGE[rows.info.type_name]
            values = np.concatenate(parts) if parts else np.empty((0, *window.shape), stored)
            tensor = torch.from_numpy(values).view(window.torch_dtype)
            return replace(window, normalization=None), tensor
        relative = window.relative_to
        dtype = torch.uint8 if relative is None else torch.float32
        narrow = replace(
            window,
            dtype=dtypes.STORED_NAMES[dtype],
            out_dtype=dtypes.STORED_NAMES[dtype],
            shape=(len(methods),),
            channels=None,
            encoding=None,
            # By rows, methods have no effect on masks, and a slerp needs its four channels.
            method=tuple(("previous" if window.by_rows else method, 1) for method in methods),
            channels_first=False,
            image=None,
            normalization=None,
            outside="hold",
            relative_to=relative and relative._replace(columns=(-1,) * len(methods)),
        )
        return narrow, torch.ones(1, len(methods), dtype=dtype, device=_CPU).expand(rows.rows, -1)


def spread_evenly(anchors: NDArray[Any], episodes: int) -> NDArray[Any]:
    """At most :data:`MOST` of the anchors, spread evenly over some episodes from first to last.

    These are at most 100, since each costs some microseconds for every stream.

    Args:
        anchors: [A] of `anchors.ANCHOR`, in order of their episodes.
        episodes: How many these are.
    """
    of_episode = anchors["episode"]
    chosen = np.arange(episodes)
    if episodes > _MOST_EPISODES:
        chosen = np.unique(of_episode[_evenly(len(anchors), _MOST_EPISODES)])
    # Not np.searchsorted, which would copy all of them.
    begins = np.array([bisect_left(of_episode, e) for e in chosen.tolist()])
    counts = np.array([bisect_right(of_episode, e) for e in chosen.tolist()]) - begins
    ends = np.cumsum(counts)
    taken = _evenly(int(ends[-1]), MOST)
    place = np.searchsorted(ends, taken, side="right")
    found: NDArray[Any] = anchors[begins[place] + taken - (ends - counts)[place]]
    return found


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of a number of places."""
    places: NDArray[np.int64] = np.linspace(0, count - 1, min(most, count)).round().astype(np.int64)
    return places


def in_chunks(windows: Sequence[WindowSpec], anchors: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """All anchors, so many at a time as fit into a call for some windows."""
    steps = max(len(window.offsets) for window in windows)
    size = max(_MOST_TARGETS // steps, 1)
    for begin in range(0, len(anchors), size):
        yield anchors[begin : begin + size]


def _ascend(rows: FileRows) -> bool:
    times = rows.times()
    early = times[1:] < times[:-1]
    return not (early & rows.neighbors(rows.rows)).any()
