"""Streams to align: of arrays, of an episode of a store, of recordings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.ragged import RaggedArray
from robocache.doctor.finding import Times
from robocache.readers import (
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    find_reader,
    find_recordings,
    open_recording,
)
from robocache.readers.merged_recording import open_merged
from robocache.store.episode_store import EpisodeStore
from robocache.store.manifest import is_store
from robocache.store.rows import Episode

Method = str | Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Source:
    """Rows and metadata of one stream."""

    times: Times
    """[S] ns, ascending."""
    values: Any
    """[S, the row's shape...], or a RaggedArray of S rows"""
    valid: NDArray[np.bool_] | None = None
    method: Method | None = None
    channels: tuple[str, ...] | None = None

    @property
    def is_image(self) -> bool:
        """Whether its rows are pictures."""
        return not self.is_ragged and self.values.dtype == np.uint8 and bool(self.values.ndim == 4)

    @property
    def is_ragged(self) -> bool:
        """Whether its rows have different lengths, which no table can hold."""
        return isinstance(self.values, RaggedArray)


def sources_of(source: Any, episode: int, options: ReadOptions) -> dict[str, Source]:
    """The streams of any source that :func:`robocache.align` takes.

    Raises:
        ValueError: For an episode that is not there; as readers and stores raise it.
        TypeError: For something else.
    """
    if isinstance(source, Mapping):
        return {str(name): _of_arrays(str(name), rows) for name, rows in source.items()}
    if isinstance(source, Episode):
        return _of_episode(source)
    if isinstance(source, Recording):
        return _of_recording(source, episode)
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if not isinstance(source, Sequence) or not all(
        isinstance(path, (str, os.PathLike)) for path in source
    ):
        raise TypeError(
            "source: expected a path, several, an episode of a store, a recording or a dict of "
            f"(values, times), got {type(source).__name__}"
        )
    if len(source) == 1 and is_store(source[0]):
        store = EpisodeStore(source[0])
        return _of_episode(store[_index(store.path, episode, len(store))])
    for path in source:
        if is_store(path):
            raise ValueError(f"{path}: expected recordings of one take, got an episode store")
    paths = [_one(path) for path in source]
    opened = open_recording(paths[0], options) if len(paths) == 1 else open_merged(paths, options)
    with opened as recording:
        return _of_recording(recording, episode)


def _one(path: str | os.PathLike[str]) -> Path:
    if find_reader(path) is None:
        found = find_recordings(path)
        if len(found) > 1:
            raise RecordingError(
                f"{path}: expected one recording, got a folder with {len(found):,}, such as "
                f"{found[0]} (name the files of one take)"
            )
        return found[0] if found else Path(path)
    return Path(path)


def _index(path: object, episode: int, count: int) -> int:
    if not -count <= episode < count:
        raise ValueError(f"episode: expected one of the {count:,} of {path}, got {episode}")
    return episode


def _of_arrays(name: str, rows: Any) -> Source:
    if isinstance(rows, (tuple, list)) and len(rows) == 2:
        values, times, valid, method = np.asarray(rows[0]), np.asarray(rows[1]), None, None
    elif all(hasattr(rows, part) for part in ("values", "times", "valid", "method")):
        values, times = np.asarray(rows.values), np.asarray(rows.times)
        valid = None if rows.valid is None else np.asarray(rows.valid)
        method = rows.method
    else:
        raise TypeError(
            f"source[{name}]: expected (values, times) or rows, got {type(rows).__name__}"
        )
    if times.dtype.kind == "f":
        scaled = times.astype(np.float64) * 1e9
        if not (good := np.abs(scaled) < 2.0**63).all():
            row = int(np.argmin(good))
            raise ValueError(
                f"source[{name}].times: expected seconds within 292 years of 1970, "
                f"got {times.flat[row]} at row {row} (nanoseconds are integers)"
            )
        times = np.rint(scaled).astype(np.int64)
    elif times.dtype.kind not in "iu":
        raise TypeError(f"source[{name}].times: expected ns or seconds, got {times.dtype}")
    if times.ndim != 1 or len(times) != len(np.atleast_1d(values)):
        raise ValueError(
            f"source[{name}].times: expected [S] times for values {list(values.shape)}, "
            f"got {list(times.shape)}"
        )
    times = times.astype(np.int64)
    if (back := times[1:] < times[:-1]).any():
        row = int(np.argmax(back)) + 1
        raise ValueError(
            f"source[{name}].times: expected ascending times, "
            f"got {times[row]} after {times[row - 1]} ns at row {row}"
        )
    return Source(times, values, valid, method)


def _of_episode(episode: Episode) -> dict[str, Source]:
    found = {}
    for name in episode.streams:
        rows, info = episode[name], episode.stream_info(name)
        found[name] = Source(rows.times, rows.values, rows.valid, rows.method, info.channels)
    return found


def _of_recording(recording: Recording, episode: int) -> dict[str, Source]:
    episodes = recording.episodes()
    chosen = episodes[_index(recording.path, episode, len(episodes))]
    parts: dict[str, list[Rows]] = {}
    for rows in chosen.read():
        parts.setdefault(rows.stream, []).append(rows)
    found = {}
    for name, chunks in parts.items():
        valid = None
        if any(rows.valid is not None for rows in chunks):
            valid = np.concatenate(
                [np.ones(len(r.times), bool) if r.valid is None else r.valid for r in chunks]
            )
        metadata = recording.streams.get(name)
        found[name] = Source(
            np.concatenate([rows.times for rows in chunks]),
            np.concatenate([rows.values for rows in chunks]),
            valid,
            None if metadata is None else metadata.method,
            None if metadata is None else metadata.channels,
        )
    return found
