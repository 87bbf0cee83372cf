"""One view of a store or a recording: episodes of :class:`Series`."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robocache.core.matching import choose, stored_names
from robocache.core.ragged import RaggedArray
from robocache.doctor.finding import Metadata, Series
from robocache.jpeg.frames import JpegFrames
from robocache.readers import (
    ReadOptions,
    RecordingError,
    StreamMetadata,
    find_reader,
    find_recordings,
    open_recording,
)
from robocache.store.manifest import is_store

if TYPE_CHECKING:
    from robocache.readers import EpisodeReader, Recording, Rows
    from robocache.store.episode_store import EpisodeStore
    from robocache.store.rows import Episode

PIXELS = 256  # sampled from each image


class EpisodeData(Protocol):
    """An episode, read on request."""

    @property
    def source(self) -> str:
        """Origin of the episode: the recording and the episode's key in it."""

    @property
    def task(self) -> str | None:
        """The robot's task in words, or None."""

    def load(self) -> list[Series]:
        """Reads the streams that have rows in the episode."""

    def frames(self, stream: str, rows: Sequence[int]) -> NDArray[np.uint8] | None:
        """Rows [n,H,W,C] of an image stream; None if they are not available."""


@dataclass(frozen=True)
class Data:
    """An opened store or recording."""

    path: Path
    format: str
    """``"episode store"``, or the name of the recording's format."""
    episodes: Sequence[EpisodeData]
    notes: Counter[str]
    """Notes of the reader on what it left out or changed; reading episodes adds to them."""
    store: EpisodeStore | None


@contextmanager
def open_data(path: str | os.PathLike[str], options: ReadOptions) -> Iterator[Data]:
    """Opens a store, or a recording of any known format.

    For a store only `options.topics` applies.

    Raises:
        ValueError: A pattern of `topics` matches no stream of the store.
        StoreError: The store is damaged.
        RecordingError: The recording can't be read.
        MissingLibrary: The reader needs a library that is not installed.
    """
    if is_store(path):
        from robocache.store.episode_store import EpisodeStore

        store = EpisodeStore(path)
        stored = _StoredEpisodes(store, _chosen(store, options))
        yield Data(Path(path), "episode store", stored, Counter(), store)
        return
    with open_recording(_one_recording(path), options) as recording:
        read = [_RecordedEpisode(recording, episode) for episode in recording.episodes()]
        yield Data(Path(path), recording.format, read, recording.notes, None)


def _one_recording(path: str | os.PathLike[str]) -> Path:
    """The path, or the one recording in a folder.

    Raises:
        RecordingError: If there are several.
    """
    if find_reader(path) is not None:
        return Path(path)
    found = find_recordings(path)
    if len(found) > 1:
        raise RecordingError(
            f"{path}: expected one recording, got a folder with {len(found):,}, such as {found[0]}"
        )
    return found[0] if found else Path(path)  # opening a folder without any raises the error


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def evenly(count: int, most: int) -> list[int]:
    """At most `most` of `count` indices, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return [int(i) for i in np.unique(np.linspace(0, count - 1, most).astype(int))]


_NO_VALUES = np.empty((0, 1))


# ---- stores --------------------------------------------------------------------------------------


def _chosen(store: EpisodeStore, options: ReadOptions) -> frozenset[str]:
    """The selected streams of a store."""
    if options.topics is None:
        return frozenset(store.streams)
    names = stored_names({name: info.source for name, info in store.streams.items()})
    return frozenset(choose(options.topics, names, "topics"))


class _StoredEpisodes(Sequence[EpisodeData]):
    def __init__(self, store: EpisodeStore, streams: frozenset[str]) -> None:
        self._store = store
        self._streams = streams

    def __len__(self) -> int:
        return len(self._store)

    def __getitem__(self, index: Any) -> Any:
        return _StoredEpisode(self._store, self._store.episodes[index], self._streams)


@dataclass(frozen=True)
class _StoredEpisode:
    store: EpisodeStore
    episode: Episode
    streams: frozenset[str]

    @property
    def source(self) -> str:
        return self.episode.source

    @property
    def task(self) -> str | None:
        return self.episode.task

    def load(self) -> list[Series]:
        found = []
        for name in self.episode.streams:
            if name not in self.streams:
                continue
            rows, info = self.episode[name], self.store.streams[name]
            series = Series(name, rows.times, _NO_VALUES, info, rows.received, rows.valid)
            if isinstance(rows.values, RaggedArray):
                found.append(
                    replace(
                        series,
                        values=rows.values.lengths[:, None],
                        shape=(None, *info.shape),
                        ragged_dtype=rows.values.dtype,
                    )
                )
            else:
                values, is_image = flat(rows.values)
                shape = rows.values.shape[1:]
                found.append(replace(series, values=values, shape=shape, is_image=is_image))
        return found

    def frames(self, stream: str, rows: Sequence[int]) -> NDArray[np.uint8] | None:
        values = self.episode[stream].values
        return np.stack([values[row] for row in rows])


# ---- recordings ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RecordedEpisode:
    recording: Recording
    reader: EpisodeReader

    @property
    def source(self) -> str:
        return f"{self.recording.path}#{self.reader.key}"

    @property
    def task(self) -> str | None:
        return self.reader.task

    def load(self) -> list[Series]:
        chunks: dict[str, list[Rows]] = {}
        images: set[str] = set()
        shapes: dict[str, tuple[int, ...]] = {}
        for rows in self.reader.read():
            shapes[rows.stream] = rows.values.shape[1:]
            rows.values, is_image = flat(rows.values)
            if is_image:
                images.add(rows.stream)
                rows.values = rows.values.copy()  # or the whole chunk would stay in memory
            chunks.setdefault(rows.stream, []).append(rows)
        return [self._joined(parts, name in images, shapes[name]) for name, parts in chunks.items()]

    def frames(self, stream: str, rows: Sequence[int]) -> NDArray[np.uint8] | None:
        return None

    def _joined(self, parts: list[Rows], is_image: bool, shape: tuple[int, ...]) -> Series:
        name = parts[0].stream
        metadata: Metadata = self.recording.streams.get(name, StreamMetadata())
        received = valid = None
        if any(rows.received is not None for rows in parts):
            received = np.concatenate(
                [rows.times if rows.received is None else rows.received for rows in parts]
            )
        if any(rows.valid is not None for rows in parts):
            valid = np.concatenate(
                [
                    np.ones(len(rows.times), bool) if rows.valid is None else rows.valid
                    for rows in parts
                ]
            )
        times = np.concatenate([rows.times for rows in parts])
        values = np.concatenate([rows.values for rows in parts])
        return Series(name, times, values, metadata, received, valid, is_image, shape)


def flat(values: NDArray[Any] | JpegFrames) -> tuple[NDArray[Any], bool]:
    """Values [n,...] as [n,D], and whether they are images, of which a few pixels are sampled."""
    if isinstance(values, JpegFrames):
        return values.sampled_bytes(max(1, math.prod(values.frame_shape) // PIXELS)), True
    is_image = values.dtype == np.uint8 and values.ndim == 4
    rows = values.reshape(len(values), -1) if len(values) else np.empty((0, 1), values.dtype)
    if is_image:
        rows = rows[:, :: max(1, rows.shape[1] // PIXELS)]
    return rows, is_image
