"""Selects the part of an episode to draw: a time range, the channels that vary most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robocache.doctor.episode_data import EpisodeData
from robocache.doctor.finding import Series

MOST_ROWS = 10_000  # sampled to measure how much a channel varies
MOST_STREAMS = 24  # whose values are drawn


def cut(streams: Sequence[Series], begin: int, end: int) -> list[Series]:
    """Cuts streams to the rows from `begin` to `end` ns, both inclusive; drops empty streams."""
    parts = []
    for series in streams:
        first, last = _rows(series, begin, end)
        if first < last:
            received, valid = series.received, series.valid
            part = replace(
                series,
                times=series.times[first:last],
                values=series.values[first:last],
                received=None if received is None else received[first:last],
                valid=None if valid is None else valid[first:last],
            )
            parts.append(part)
    return parts


class EpisodePart:
    """A time range of an episode; rows of frames are counted from the range's begin."""

    def __init__(
        self, episode: EpisodeData, streams: Sequence[Series], begin: int, end: int
    ) -> None:
        self.source, self.task = episode.source, episode.task
        self._episode = episode
        self._streams = streams
        self._begin, self._end = begin, end

    def load(self) -> list[Series]:
        """The streams that have rows in the range."""
        return cut(self._streams, self._begin, self._end)

    def frames(self, stream: str, rows: Sequence[int]) -> NDArray[np.uint8] | None:
        """Rows [n,H,W,C] of an image stream; None if they are not available."""
        (series,) = (series for series in self._streams if series.name == stream)
        first, _ = _rows(series, self._begin, self._end)
        return self._episode.frames(stream, [first + row for row in rows])


def _rows(series: Series, begin: int, end: int) -> tuple[int, int]:
    """The first row in a range, and the one after the last; times that go back end it early."""
    inside = np.flatnonzero((series.times >= begin) & (series.times <= end))
    return (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)


def deviations(series: Series) -> NDArray[np.float64]:
    """The standard deviation of each channel's finite values."""
    step = max(1, len(series.values) // MOST_ROWS)
    values = series.values[::step].astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    known = np.isfinite(values).any(axis=0)
    found = np.zeros(values.shape[1])
    if known.any():
        found[known] = np.nanstd(values[:, known], axis=0)
    return found


def most_varying(series: Series, most: int) -> list[int]:
    """At most `most` channels, those that vary most, in their order."""
    if series.values.shape[1] <= most:
        return list(range(series.values.shape[1]))
    chosen = np.argsort(-deviations(series), kind="stable")[:most]
    return sorted(int(channel) for channel in chosen)


def moves(series: Series) -> bool:
    """Whether any channel changes."""
    return bool((deviations(series) > 0).any())


def moving(streams: Sequence[Series]) -> list[Series]:
    """The streams whose values are drawn: of many, the first that move, and images."""
    if len(streams) <= MOST_STREAMS:
        return list(streams)
    found = [series for series in streams if series.is_image or moves(series)]
    return (found or list(streams))[:MOST_STREAMS]


def channels_left_out(
    drawn: Sequence[Series], streams: Sequence[Series], most_channels: int
) -> list[str]:
    """Says how many of the streams, and of the channels of each, are drawn."""
    words = []
    if len(drawn) < len(streams):
        move = any(series.is_image or moves(series) for series in drawn)
        which = "those that move" if move else "none of which moves"
        words.append(f"values of {len(drawn)} of {len(streams)} streams, {which}")
    for series in drawn:
        count = series.values.shape[1]
        if not series.is_image and count > most_channels:
            words.append(f"{most_channels} of {count:,} channels of {series.name}, which vary most")
    return words
