"""Describes a store or a recording: streams, rates, rows, gaps."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robocache.doctor.episode_data import Data, evenly, open_data, size_of
from robocache.doctor.finding import Series, period_ns, usual_ns
from robocache.doctor.times import GAP_PERIODS, gap_rows
from robocache.readers import ReadOptions
from robocache.readers.recording import note_lines
from robocache.store.history import read_markings
from robocache.store.stream_info import StreamInfo

MOST_EPISODES = 100  # measured episodes, evenly spread


@dataclass
class StreamOverview:
    """One stream, in the episodes that were measured."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    """Shape of one row."""
    method: str | list[tuple[str, int]] | None
    """The default method of alignment."""
    units: str | None
    channels: tuple[str, ...] | None
    timeline: str
    """``"time"`` for recorded times, ``"rows"`` for times computed from the rate."""
    nominal_hz: float | None
    """The rate that the recording states."""
    measured_hz: float | None = None
    """The median of the episodes' rates."""
    jitter_ms: float | None = None
    """The standard deviation of the intervals between rows, gaps left out."""
    rows: int = 0
    """Rows in all episodes of a store; else in the measured episodes."""
    episodes: int = 0
    """The number of measured episodes with rows of this stream."""
    gaps: int = 0
    """Intervals of more than 3 usual ones."""
    longest_gap_s: float | None = None
    has_received: bool = False
    """Whether arrival times are recorded."""
    valid: float = 1.0
    """The fraction of valid rows."""
    images: str | None = None
    """How a store has images that are JPEG: files as they were, or encoded, with their PSNR."""


@dataclass
class Overview:
    """The data that `robocache info` prints."""

    path: Path
    format: str
    bytes: int
    episodes: int
    measured: int
    """The number of episodes that were read."""
    duration_s: float
    """Duration of all episodes of a store; else of the measured episodes."""
    tasks: dict[str, int]
    """The number of episodes of each task."""
    streams: list[StreamOverview] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """As `robocache info --json` prints it."""
        return {**asdict(self), "path": str(self.path)}


def overview(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    most: int = MOST_EPISODES,
    progress: Callable[[int, int], None] | None = None,
) -> Overview:
    """Describes a store, or a recording of any known format.

    Args:
        path: The store or recording.
        options: How to read a recording; None: the defaults, without images.
        most: How many episodes to measure, evenly spread over all.
        progress: Called with how many episodes are done, and how many there are.

    Raises:
        StoreError: For a store that is damaged.
        RecordingError: For a recording that can't be read.
        MissingLibrary: If its reader needs a library that is not installed.
    """
    with open_data(path, options or ReadOptions(images=False)) as data:
        chosen = evenly(len(data.episodes), most)
        gathered: dict[str, list[_Measured]] = {}
        streams: dict[str, StreamOverview] = {}
        duration_s = 0.0
        for done, index in enumerate(chosen):
            series = data.episodes[index].load()
            for one in series:
                if one.name not in streams:
                    streams[one.name] = _describe(one)
                gathered.setdefault(one.name, []).append(_measure(one))
            duration_s += _duration_s(series)
            if progress is not None:
                progress(done + 1, len(chosen))
        for name, measured in gathered.items():
            _summarize(streams[name], measured)
        whole = Overview(
            Path(path),
            data.format,
            size_of(Path(path)),
            len(data.episodes),
            len(chosen),
            duration_s,
            _tasks(data),
            list(streams.values()),
            note_lines(data.notes),
        )
        if data.store is not None:
            episodes = data.store.episodes
            whole.duration_s = float(np.sum((episodes.ends_ns - episodes.starts_ns) / 1e9))
            for stream in whole.streams:
                info = data.store.streams[stream.name]
                stream.rows = info.rows
                stream.images = _images_text(info)
            whole.notes += map(str, read_markings(data.path))
    return whole


def _images_text(info: StreamInfo) -> str | None:
    """How a stream has its images, if they are encoded."""
    if info.encoding is None:
        return None
    if info.encoded is None:
        return "JPEG files, not encoded again"
    kept = info.rows - info.encoded.frames
    return f"JPEG: {info.encoded}" + (f"; {kept:,} files not encoded again" if kept > 0 else "")


def _tasks(data: Data) -> dict[str, int]:
    if data.store is None:
        return dict(Counter(episode.task for episode in data.episodes if episode.task))
    indices = data.store.episodes.task_indices
    counts = np.bincount(indices[indices >= 0], minlength=len(data.store.tasks))
    return {task: int(n) for task, n in zip(data.store.tasks, counts, strict=True)}


@dataclass
class _Measured:
    rows: int
    hz: float | None
    jitter_ns: float | None
    gaps: int
    longest_gap_ns: int
    has_received: bool
    valid: int


def _describe(series: Series) -> StreamOverview:
    metadata = series.metadata
    method = metadata.method
    if method is not None and not isinstance(method, str):
        method = list(method)
    return StreamOverview(
        name=series.name,
        dtype=str(series.ragged_dtype or series.values.dtype),
        shape=series.values.shape[1:] if series.shape is None else series.shape,
        method=method,
        units=metadata.units,
        channels=None if metadata.channels is None else tuple(metadata.channels),
        timeline=metadata.timeline,
        nominal_hz=metadata.rate,
    )


def _measure(series: Series) -> _Measured:
    steps = series.steps
    period, usual = period_ns(series.times), usual_ns(series.times)
    gaps = gap_rows(series)
    regular = steps[steps <= GAP_PERIODS * usual]
    return _Measured(
        rows=len(series.times),
        hz=1e9 / period if period > 0 else None,
        jitter_ns=float(np.std(regular)) if len(regular) >= 3 else None,
        gaps=len(gaps),
        longest_gap_ns=int(steps[gaps].max()) if len(gaps) else 0,
        has_received=series.received is not None,
        valid=len(series.times) if series.valid is None else int(series.valid.sum()),
    )


def _summarize(stream: StreamOverview, measured: Sequence[_Measured]) -> None:
    rates = [one.hz for one in measured if one.hz is not None]
    jitters = [one.jitter_ns for one in measured if one.jitter_ns is not None]
    stream.measured_hz = float(np.median(rates)) if rates else None
    stream.jitter_ms = float(np.median(jitters)) / 1e6 if jitters else None
    stream.rows = sum(one.rows for one in measured)
    stream.episodes = sum(one.rows > 0 for one in measured)
    stream.gaps = sum(one.gaps for one in measured)
    longest = max(one.longest_gap_ns for one in measured)
    stream.longest_gap_s = longest / 1e9 if longest else None
    stream.has_received = any(one.has_received for one in measured)
    stream.valid = sum(one.valid for one in measured) / max(1, stream.rows)


def _duration_s(streams: Sequence[Series]) -> float:
    filled = [series.times for series in streams if len(series.times)]
    if not filled:
        return 0.0
    return (max(int(t.max()) for t in filled) - min(int(t.min()) for t in filled)) / 1e9
