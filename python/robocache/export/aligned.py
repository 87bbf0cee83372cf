"""An episode of a store, aligned to one timeline of equal steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.align.fuse import Stream, fuse
from robocache.core.matching import stored_names
from robocache.core.names import Method
from robocache.doctor.finding import Times, duration, usual_ns
from robocache.doctor.times import DAY_NS, GAP_PERIODS
from robocache.readers.ros.topics import is_static
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import Episode, StreamRows

# The types that alignment computes with; it chooses rows of other types and never combines them.
COMBINED = (np.float16, np.float32, np.float64)

TOLERANCE_NS = 100_000  # LeRobot's tolerance_s: of a timestamp from its frame


@dataclass(frozen=True)
class Column:
    """A stream on the timeline of T frames."""

    rows: StreamRows
    values: NDArray[Any] | None
    """[T,...]; None for streams whose rows are copied."""
    chosen: NDArray[np.int64]
    """[T]: the row of each frame, for streams whose rows are copied."""
    across_gaps: NDArray[np.bool_]
    """[T]: frames computed from rows that are far apart or not valid."""

    def frames(self, at_a_time: int) -> Iterator[NDArray[Any]]:
        """The values in pieces [n,...] of at most `at_a_time` frames."""
        for first in range(0, len(self.chosen), at_a_time):
            part = slice(first, first + at_a_time)
            if self.values is not None:
                yield self.values[part]
            else:
                yield self.rows.values[self.chosen[part]]


def held_streams(store: EpisodeStore, names: Sequence[str]) -> list[str]:
    """The streams that are sent once and hold: static transforms, and at most a row an episode.

    None where all streams are such: no other stream says when an episode begins and ends.
    """
    topics = dict(stored_names({name: store.streams[name].source for name in names}))
    held = [
        name
        for name in names
        if is_static(topics[name])
        or all(name not in episode or len(episode[name]) == 1 for episode in store.episodes)
    ]
    return held if len(held) < len(names) else []


def hold(rows: StreamRows, targets: Times) -> Column:
    """The newest row at each target, however old; before the first row the first."""
    chosen = np.maximum(np.searchsorted(rows.times, targets, "right") - 1, 0).astype(np.int64)
    return _chosen(rows, chosen)


def frames_of_rows(episode: Episode, streams: Sequence[str], rate: float) -> Times | None:
    """[T] ns: the times of the frames, if row k of every stream is frame k; else None.

    Each row is within LeRobot's tolerance of its frame's time.
    """
    times = episode[streams[0]].times
    first, length = int(times[0]), int(times[-1]) - int(times[0])
    steps = np.arange(len(times)) * (1e9 / rate)
    if abs(float(steps[-1]) - length) > TOLERANCE_NS:
        return None
    frames: Times = first + np.rint(steps).astype(np.int64)
    for name in streams:
        times = episode[name].times
        if len(times) != len(frames) or np.abs(times - frames).max() > TOLERANCE_NS:
            return None
    return frames


def take(rows: StreamRows) -> Column:
    """The rows as they are, one a frame."""
    return _chosen(rows, np.arange(len(rows)))


def _chosen(rows: StreamRows, chosen: NDArray[np.int64]) -> Column:
    valid = np.ones(len(rows), np.bool_) if rows.valid is None else rows.valid
    return Column(rows, None, chosen, ~valid[chosen])


def without_overlap(episode: Episode, streams: Sequence[str]) -> str:
    """Names the stream that begins last and the one that ends before."""
    last = max(streams, key=lambda name: int(episode[name].times[0]))
    first = min(streams, key=lambda name: int(episode[name].times[-1]))
    apart = int(episode[last].times[0]) - int(episode[first].times[-1])
    return (
        f"expected streams that overlap in time, got {last!r}, which begins {duration(apart)} "
        f"after {first!r} ends (--stream chooses others)"
    )


def timeline(episode: Episode, streams: Sequence[str], rate: float) -> Times:
    """[T] ns: every 1/rate seconds from when all streams have begun until one ends."""
    first = max(int(episode[name].times[0]) for name in streams)
    last = min(int(episode[name].times[-1]) for name in streams)
    if last < first:
        return np.empty(0, np.int64)
    count = int((last - first) * rate / 1e9 + 1e-6) + 1
    steps = np.rint(np.arange(count) * (1e9 / rate)).astype(np.int64)
    targets: Times = first + steps[steps <= last - first]
    return targets


def stream_with_far_time(episode: Episode, streams: Sequence[str]) -> str | None:
    """The first stream with a gap of more than a day within the time of all streams, or None.

    Its cause is a stamp of zero, or a clock that was set (the doctor's ``far_time``): frames in
    the gap would have no data, and could exceed the memory.
    """
    first = max(int(episode[name].times[0]) for name in streams)
    last = min(int(episode[name].times[-1]) for name in streams)
    for name in streams:
        times = episode[name].times
        lo, hi = np.searchsorted(times, first, "right") - 1, np.searchsorted(times, last, "left")
        # Unsigned, since ascending int64 may be further apart than int64 holds.
        if (np.diff(times[lo : hi + 1].view(np.uint64)) > np.uint64(DAY_NS)).any():
            return name
    return None


def align(store: EpisodeStore, episode: Episode, name: str, targets: Times) -> Column:
    """Aligns a stream to the targets by its stored method."""
    rows, info = episode[name], store.streams[name]
    times = torch.from_numpy(np.array(rows.times))
    valid = None if rows.valid is None else torch.from_numpy(np.array(rows.valid))
    at = torch.from_numpy(targets)
    limit = max(1, int(GAP_PERIODS * usual_ns(rows.times)))
    combines = info.dtype in COMBINED and len(info.shape) <= 1
    method: Method = info.method if combines else "previous"
    if not combines and info.method == "nearest":
        method = "nearest"
    # Rows that are only chosen are aligned as their numbers.
    source = np.array(rows.values) if combines else np.arange(len(rows), dtype=np.float64)
    data = torch.from_numpy(source.reshape(len(rows), -1))
    window = int(targets[1] - targets[0]) if len(targets) > 1 else limit
    out, is_real = fuse(
        [
            Stream(
                data,
                times,
                method=method,
                max_gap=limit,
                mean_window=window if _has_mean(method) else None,
                valid=valid,
            )
        ],
        at,
        return_valid=True,
        backend="auto",
    )
    across = ~is_real.numpy()[:, 0]
    if not combines:
        return Column(rows, None, out.numpy()[:, 0].astype(np.int64), across)
    values = out.numpy().reshape(len(targets), *info.shape)
    return Column(rows, values, np.zeros(len(targets), np.int64), across)


def _has_mean(method: Method) -> bool:
    return method == "mean" if isinstance(method, str) else any(n == "mean" for n, _ in method)
