"""The anchors of the chosen episodes, one for each sample.

An anchor is the reference of a sample: a row of a stream, or a tick of a fixed rate.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.core.checks import check_integer, nanoseconds_of, number_text, to_float
from robocache.loader.sampling.episodes import Ranges
from robocache.store.episode_store import EpisodeStore

ANCHOR = np.dtype([("episode", "<i4"), ("frame", "<i4"), ("time_ns", "<i8")])
"""An anchor's 16 bytes: a row of the chosen episodes, the anchor's number in it, its time."""

Array: TypeAlias = NDArray[Any]


def parse_anchor(
    store: EpisodeStore, anchor: object, streams: Iterable[str]
) -> tuple[str | None, float | None]:
    """The stream whose rows are anchors, or their rate in Hz; the other is None.

    Args:
        store: The store.
        anchor: A stream, a rate, or None: the first stream of the batch.
        streams: Those of the batch.

    Raises:
        TypeError, ValueError: `anchor: expected ..., got ...`.
    """
    if anchor is None:
        return next(iter(streams)), None
    if isinstance(anchor, str):
        if anchor not in store.streams:
            known = ", ".join(store.streams)
            raise ValueError(f"anchor: expected a stream of the store ({known}), got {anchor!r}")
        return anchor, None
    if not isinstance(anchor, numbers.Real) or isinstance(anchor, bool):
        kind = type(anchor).__name__
        raise TypeError(f"anchor: expected a stream's name or a rate (Hz), got {kind}")
    if not 0 < to_float(anchor) < math.inf:
        got = number_text(anchor)
        raise ValueError(f"anchor: expected a finite rate above 0 (Hz), got {got}")
    return None, float(anchor)


# ---- anchors -------------------------------------------------------------------------------------


def row_anchors(
    times: NDArray[np.int64], offsets: NDArray[np.int64], first: int, last: int
) -> Array:
    """An anchor for each row of a stream.

    Args:
        times: [N] ns, of all chosen episodes.
        offsets: [E+1]: episode e has the rows offsets[e] to offsets[e+1] - 1.
        first: So many rows at the start of each episode are left out.
        last: So many at its end.

    Returns:
        [A] of :data:`ANCHOR`.
    """
    lengths = np.diff(offsets)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    frame = np.arange(len(times)) - offsets[episode]
    kept = (frame >= first) & (frame < lengths[episode] - last)
    return _anchors(episode[kept], frame[kept], times[kept])


def tick_anchors(
    starts: NDArray[np.int64], ends: NDArray[np.int64], rate: float, first: int, last: int
) -> Array:
    """An anchor at each tick of a rate in Hz, from an episode's start to its end [E], both ns.

    Raises:
        ValueError: More ticks in an episode than anchors are counted with.
    """
    period = min(1e9 / rate, 2.0**64)  # which no episode is longer than
    # A tick is a whole number of ns, the nearest: one that is less than half past the end is there.
    # Of times further apart than int64 goes, differences are right without a sign.
    lengths = (ends - starts).view(np.uint64).astype(np.float64)
    ticks = np.ceil((lengths + 0.5) / period)
    _check_frames(float(ticks.max(initial=0.0)))
    counts = ticks.astype(np.int64)
    episode = np.repeat(np.arange(len(starts)), counts)
    begins = np.cumsum(counts) - counts
    tick = np.arange(len(episode)) - begins[episode]
    kept = (tick >= first) & (tick < counts[episode] - last)
    episode, tick = episode[kept], tick[kept]
    after = np.rint(tick * period).astype(np.uint64).view(np.int64)
    return _anchors(episode, tick, starts[episode] + after)


def _check_frames(count: float) -> None:
    if count > 2**31:
        raise ValueError(f"anchor: expected at most 2^31 in an episode, got {count:.12g}")


def _anchors(episode: Array, frame: Array, time_ns: Array) -> Array:
    _check_frames(float(frame.max(initial=-1)) + 1)
    anchors = np.empty(len(episode), ANCHOR)
    anchors["episode"], anchors["frame"], anchors["time_ns"] = episode, frame, time_ns
    return anchors


def in_ranges(
    anchors: Array,
    ranges: Ranges | Mapping[int, Ranges],
    episodes: NDArray[np.int64],
    starts: NDArray[np.int64],
    count: int,
) -> Array:
    """Selects the anchors that lie in one of several ranges of time.

    Args:
        anchors: [A] of :data:`ANCHOR`.
        ranges: (begin, end) in seconds from an episode's start, the end left out: of all episodes,
            or by the episode's index in the store; episodes that it does not have are left out.
        episodes: [E], the indices of the chosen ones.
        starts: [E] ns.
        count: Episodes of the store.

    Raises:
        TypeError, ValueError: Something else, or a range that ends before it begins.
    """
    # Unsigned: an episode may last longer than int64 counts, and nothing is before its start.
    after = (anchors["time_ns"] - starts[anchors["episode"]]).view(np.uint64)
    kept = np.zeros(len(anchors), np.bool_)
    if not isinstance(ranges, Mapping):
        for begin, end in _ranges_ns("time_ranges", ranges):
            kept |= (begin <= after) & (after < end)
        return anchors[kept]
    row_of = {int(index): row for row, index in enumerate(episodes)}
    bounds = np.searchsorted(anchors["episode"], np.arange(len(episodes) + 1))
    for index, of_episode in ranges.items():
        parsed = _ranges_ns(f"time_ranges[{index!r}]", of_episode)
        row = row_of.get(check_integer("time_ranges", index, 0, count - 1))
        if row is None:
            continue  # other options leave it out
        part = slice(bounds[row], bounds[row + 1])
        for begin, end in parsed:
            kept[part] |= (begin <= after[part]) & (after[part] < end)
    return anchors[kept]


def _ranges_ns(name: str, ranges: object) -> list[tuple[float, float]]:
    if isinstance(ranges, (str, bytes)) or not isinstance(ranges, Sequence):
        raise TypeError(f"{name}: expected a list of (begin, end) in seconds, got {ranges!r}")
    found = []
    for each in ranges:
        is_pair = isinstance(each, (tuple, list)) and len(each) == 2
        if not is_pair or not all(isinstance(x, numbers.Real) for x in each):
            raise TypeError(f"{name}: expected (begin, end) in seconds, got {each!r}")
        begin, end = (to_float(x) for x in each)
        if not begin <= end:
            raise ValueError(f"{name}: expected an end that is not before its begin, got {each!r}")
        found.append((_nanoseconds(begin), _nanoseconds(end)))
    return found


def _nanoseconds(seconds: float) -> float:
    return nanoseconds_of(seconds) if math.isfinite(seconds * 1e9) else seconds * 1e9
