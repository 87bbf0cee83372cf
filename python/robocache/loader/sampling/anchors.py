"""Which samples there are: the episodes that are chosen, and the anchors in them.

An anchor is where a sample stands: a row of a stream, or a tick of a fixed rate.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.align import options
from robocache.loader.sampling.sampler import check_integer
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import Episode

ANCHOR = np.dtype([("episode", "<i4"), ("frame", "<i4"), ("time_ns", "<i8")])
"""An anchor's 16 bytes: a row of the chosen episodes, the anchor's number in it, its time."""

Split: TypeAlias = tuple[Literal["train", "validation"], float]
Ranges: TypeAlias = Sequence[tuple[float, float]]
Array: TypeAlias = NDArray[Any]


# ---- episodes ------------------------------------------------------------------------------------


def choose_episodes(
    store: EpisodeStore,
    episodes: Sequence[int] | slice | None,
    tasks: str | Sequence[str] | None,
    subset: str | None,
    predicate: Callable[[Episode], bool] | None,
    split: Split | None,
    split_seed: object,
) -> NDArray[np.int64]:
    """The indices of the episodes that all of the options choose, in the order of the store.

    Raises:
        TypeError, ValueError: An option names what the store does not have, or none is left.
    """
    chosen = np.ones(len(store), np.bool_)
    if episodes is not None:
        chosen &= _named_episodes(episodes, len(store))
    if tasks is not None:
        chosen &= _of_tasks(store, tasks)
    if split is not None:
        chosen &= _of_split(len(store), split, check_integer("split_seed", split_seed, 0))
    if subset is not None and subset not in store.subsets:
        raise ValueError(f"subset: expected {_one_of(store.subsets)}, got {subset!r}")
    if predicate is not None and not callable(predicate):
        raise TypeError(f"predicate: expected a function of an Episode, got {predicate!r}")
    if subset is not None or predicate is not None:
        for index in np.flatnonzero(chosen):
            episode = store[int(index)]
            chosen[index] = (subset is None or subset in episode.subsets) and (
                predicate is None or bool(predicate(episode))
            )
    found: NDArray[np.int64] = np.flatnonzero(chosen).astype(np.int64)
    if not len(found):
        raise ValueError(
            f"episodes: expected at least 1 that episodes, tasks, subset, predicate and split "
            f"choose, got none of the {len(store)} of {store.path}"
        )
    return found


def _named_episodes(episodes: Sequence[int] | slice, count: int) -> NDArray[np.bool_]:
    chosen = np.zeros(count, np.bool_)
    if isinstance(episodes, slice):
        try:
            chosen[episodes] = True
        except (TypeError, ValueError) as error:  # a step of 0
            raise type(error)(f"episodes: expected a slice of ints, got {episodes}") from None
        return chosen
    indices = np.asarray(episodes)
    if indices.ndim != 1 or (indices.dtype.kind not in "iu" and len(indices)):
        raise TypeError(f"episodes: expected a list of int or a slice, got {episodes!r}")
    for i, index in enumerate(indices.tolist()):
        if not -count <= index < count:
            raise ValueError(f"episodes[{i}]: expected an index below {count}, got {index}")
        if chosen[index]:
            raise ValueError(f"episodes[{i}]: expected each episode once, got {index} again")
        chosen[index] = True
    return chosen


def _of_tasks(store: EpisodeStore, tasks: object) -> NDArray[np.bool_]:
    if isinstance(tasks, str):
        tasks = [tasks]
    if not isinstance(tasks, Sequence) or not all(isinstance(task, str) for task in tasks):
        raise TypeError(f"tasks: expected a name or a list of names, got {tasks!r}")
    numbers_of = {task: number for number, task in enumerate(store.tasks)}
    for task in tasks:
        if task not in numbers_of:
            raise ValueError(f"tasks: expected {_one_of(store.tasks)}, got {task!r}")
    wanted = [numbers_of[task] for task in tasks]
    chosen: NDArray[np.bool_] = np.isin(store.episodes.task_indices, wanted)
    return chosen


def _of_split(count: int, split: object, seed: int) -> NDArray[np.bool_]:
    """One of two parts of the whole store, whatever else is chosen: they never overlap."""
    if not isinstance(split, (tuple, list)) or len(split) != 2:
        raise TypeError(f"split: expected ('train' or 'validation', fraction), got {split!r}")
    part, fraction = split
    if part not in ("train", "validation"):
        raise ValueError(f"split: expected train or validation, got {part!r}")
    if not isinstance(fraction, numbers.Real) or not 0 < options.to_float(fraction) < 1:
        raise ValueError(
            f"split: expected the fraction of episodes to validate with, above 0 and below 1, "
            f"got {fraction!r}"
        )
    if count < 2:
        raise ValueError(f"split: expected a store of 2 episodes or more, got {count}")
    held_out = min(max(1, round(float(fraction) * count)), count - 1)
    chosen = np.full(count, part == "train")
    drawn = np.random.default_rng(seed).permutation(count)[:held_out]
    chosen[drawn] = part == "validation"
    return chosen


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names)) if names else "nothing, since the store has none"


def anchor_stream(store: EpisodeStore, anchor: object, streams: Iterable[str]) -> str:
    """The stream whose rows are anchors; None: the first of the batch.

    Raises:
        ValueError: The store has no such stream.
    """
    if anchor is None:
        return next(iter(streams))
    if not isinstance(anchor, str) or anchor not in store.streams:
        raise ValueError(
            f"anchor: expected a stream of the store ({', '.join(store.streams)}), got {anchor!r}"
        )
    return anchor


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
    after = anchors["time_ns"] - starts[anchors["episode"]]
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
        begin, end = (options.to_float(x) for x in each)
        if not begin <= end:
            raise ValueError(f"{name}: expected an end that is not before its begin, got {each!r}")
        found.append((_nanoseconds(begin), _nanoseconds(end)))
    return found


def _nanoseconds(seconds: float) -> float:
    nanoseconds = seconds * 1e9
    return round(nanoseconds) if math.isfinite(nanoseconds) else nanoseconds


def check_rate(rate: object) -> float:
    """A rate of anchors in Hz.

    Raises:
        TypeError, ValueError: Something else, or not above 0.
    """
    if not isinstance(rate, numbers.Real) or isinstance(rate, bool):
        raise TypeError(f"rate: expected a number (Hz), got {type(rate).__name__}")
    if not 0 < options.to_float(rate) < math.inf:
        got = options.number_text(rate)
        raise ValueError(f"rate: expected a finite number above 0 (Hz), got {got}")
    return float(rate)
