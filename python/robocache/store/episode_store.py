"""`EpisodeStore`: a folder of recordings, opened for reading."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ByName, byte_count, counted, cut, listed
from robocache.core.paths import absolute_path, check_path
from robocache.core.tables import MOST_ROWS, html_table
from robocache.store.dtypes import STORAGE
from robocache.store.errors import StoreError
from robocache.store.library import OpenStore
from robocache.store.manifest import is_store, parse_manifest
from robocache.store.rows import Episode, StreamRows, Tables, merged, rows_of, unknown_stream
from robocache.store.stream_info import StatisticsSummary, StreamInfo, StreamTable, stream_infos


class Episodes(Sequence[Episode]):
    """Episodes of a store: `episodes[3]` is one, `episodes[3:7]` a sequence; columns are arrays."""

    def __init__(self, store: EpisodeStore, indices: range) -> None:
        self._store = store
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> Episodes: ...

    def __getitem__(self, index: int | slice) -> Episode | Episodes:
        """Returns one episode for an index, and a sequence of episodes for a slice.

        Raises:
            IndexError: The index is not below the number of episodes.
            TypeError: `index` is neither an integer nor a slice.
        """
        if isinstance(index, slice):
            return Episodes(self._store, self._indices[index])
        try:
            number = self._indices[index]
        except IndexError:
            raise IndexError(f"episode: expected an index below {len(self)}, got {index}") from None
        except TypeError:
            raise TypeError(
                f"episode: expected an index or a slice, got {index!r}"
                + _hint_of_stream(index, self._store.streams)
            ) from None
        return self._store._episode(number)

    def __iter__(self) -> Iterator[Episode]:
        return map(self._store._episode, self._indices)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'episode')} of {self._store.path!r}>"

    def _repr_html_(self) -> str:
        header = ("episode", "rows", "s", "task", "subsets", "source")
        rows = [
            [
                f"{episode.index:,}",
                f"{episode.length:,}",
                f"{episode.duration_s:.3f}",
                cut(episode.task or ""),
                listed(episode.subsets),
                cut(episode.source),
            ]
            for episode in self[:MOST_ROWS]
        ]
        caption = f"{cut(self._store.path)}: {counted(len(self), 'episode')}"
        if len(rows) < len(self):
            caption += f", of which the first {len(rows)} are shown"
        return html_table(header, rows, (3, 4, 5), caption)

    def _column(self, number: int) -> NDArray[np.int64]:
        column = self._store._columns[number]
        if self._indices == range(len(column)):
            return column
        r = self._indices
        return column[np.arange(r.start, r.stop, r.step)]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows of each episode's longest stream."""
        return self._column(0)

    @property
    def starts_ns(self) -> NDArray[np.int64]:
        """The earliest time of each episode, in nanoseconds."""
        return self._column(1)

    @property
    def ends_ns(self) -> NDArray[np.int64]:
        """The latest time of each episode, in nanoseconds."""
        return self._column(2)

    @property
    def task_indices(self) -> NDArray[np.int64]:
        """Each episode's task as an index into `store.tasks`; -1 where it has none."""
        return self._column(3)


def _hint_of_stream(index: object, streams: Mapping[str, StreamInfo]) -> str:
    """The hint of an error for a caller who indexes episodes by the name of a stream."""
    if not isinstance(index, str):
        return ""
    if index not in streams:
        return " (store.streams has streams by name)"
    return (
        f" (store.streams[{index!r}] describes the stream, store[0][{index!r}] has its rows of "
        f"episode 0, store.stream_rows({index!r}) all rows)"
    )


MOST_FILES = 100  # of a folder, that a search for recordings opens


def _refuse_recording(path: str) -> None:
    """Refuses a recording or a folder of recordings; the message says how to convert it.

    Raises:
        StoreError: The path is a recording or a folder of recordings.
    """
    from robocache.readers import find_reader

    source = Path(path)
    try:
        reader = find_reader(source)
        got = f"a recording ({reader.format})" if reader else ""
        if reader is None and source.is_dir() and not is_store(source):
            readers = map(find_reader, sorted(islice(source.iterdir(), MOST_FILES)))
            inside = next(filter(None, readers), None)
            got = f"a folder of recordings ({inside.format})" if inside else ""
    except (ValueError, OSError):
        return
    if got:
        command = f"robocache convert {shlex.quote(path)} {shlex.quote(f'{source.stem}.store')}"
        raise StoreError(
            f"{path}: expected the folder of an episode store, got {got} "
            f"(`{command}` makes a store of it)"
        )


class EpisodeStore(Sequence[Episode]):
    """An episode store, opened for reading by memory map.

    The constructor validates the whole manifest, and the size and header of every file. Arrays are
    views of the mapped files: the system reads data at the first access. An open store does not
    change when a writer appends to its folder. Any number of processes may open a store; a pickled
    or copied store opens its folder again, also from another working directory.

    Args:
        path: The store's folder.

    Raises:
        StoreError: The folder is no store, or a file is damaged; the message names the file.

    Example:
        >>> store = rc.EpisodeStore("demo.store")
        >>> store[3]["action"].values.shape
        (212, 14)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path("path", path, "the folder of an episode store")
        self.path = os.fspath(path)
        """The store's folder, as the caller passed it."""
        self._folder = absolute_path(path)
        try:
            self._store = OpenStore(self.path)
        except StoreError:
            _refuse_recording(self.path)  # raises a clearer error for a recording
            raise
        manifest = parse_manifest(self._store.manifest())
        self._shards = manifest.shards
        streams = stream_infos(manifest, self._store)
        self.streams = StreamTable(streams)
        """Metadata of each stream, by name."""
        self.tasks: tuple[str, ...] = manifest.tasks
        """The tasks of the episodes, in words."""
        self.subsets: tuple[str, ...] = manifest.subsets
        """The names of the subsets of episodes, such as "train" and "val"."""
        numbers = {name: number for number, name in enumerate(streams)}
        self._tables = Tables(self.tasks, self.subsets, numbers)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int64], ...]:
        return self._store.columns()

    def _episode(self, index: int) -> Episode:
        return Episode(self._store, self.streams, self._tables, index)

    @property
    def episodes(self) -> Episodes:
        """All episodes: a sequence with columns such as `.lengths`; its slices have them too."""
        return Episodes(self, range(self._store.episodes))

    @property
    def statistics(self) -> Mapping[str, StatisticsSummary]:
        """Statistics by stream; streams without statistics are left out."""
        known = {name: info.statistics for name, info in self.streams.items()}
        return ByName({name: x for name, x in known.items() if x is not None})

    @property
    def bytes(self) -> int:
        """Total size of the shards, in bytes."""
        return sum(shard.bytes for shard in self._shards)

    def stream_rows(self, name: str) -> Iterator[StreamRows]:
        """Iterates over all rows of a stream, shard by shard, regardless of episodes.

        Each item has the rows of all episodes of a shard, in order. Times ascend within an
        episode only.

        Raises:
            KeyError: The store has no stream of this name.
        """
        number = self._tables.number_of_stream.get(name)
        if number is None:
            raise unknown_stream(self.streams, name)
        info = self.streams[name]
        places = (self._store.shard_rows(shard, number) for shard in range(len(self._shards)))
        return (rows_of(self._store, place, info) for place in places if place.rows > 0)

    def pieces(
        self, name: str, episodes: Iterable[int], dtype: np.dtype[Any] | None = None
    ) -> tuple[NDArray[np.int64], list[StreamRows]]:
        """Rows of a stream in the given episodes; rows that are adjacent in a file are one piece.

        Args:
            name: The stream.
            episodes: Indices of the episodes.
            dtype: NumPy type of the values, as large as the stream's type; None: the stream's type.

        Returns:
            The number of rows of each episode, and the rows of all episodes in order.

        Raises:
            KeyError: The store has no stream of this name.
            StoreError: A shard contradicts itself.
        """
        number = self._tables.number_of_stream.get(name)
        if number is None:
            raise unknown_stream(self.streams, name)
        info = self.streams[name]
        places = [self._store.rows(int(episode), number) for episode in episodes]
        lengths = np.array([place.rows for place in places], np.int64)
        merged_places = merged(places)
        return lengths, [rows_of(self._store, place, info, dtype) for place in merged_places]

    def __len__(self) -> int:
        return self._store.episodes

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> Episodes: ...

    def __getitem__(self, index: int | slice) -> Episode | Episodes:
        """Returns `episodes[index]`."""
        return self.episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    def verify(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Reads every byte, compares the checksums, and validates what the constructor does not.

        That is: the order of times, offsets, flags, the metadata of each episode, and the number
        of elements that the statistics count.

        Args:
            progress: Called after each file with the bytes read so far and the total.

        Raises:
            StoreError: A check failed; the message names the file.
        """
        from robocache.store.verification import verify_counts

        done, total = 0, self.bytes
        for number, shard in enumerate(self._shards):
            self._store.verify_shard(number)
            done += shard.bytes
            if progress is not None:
                progress(done, total)
        self._store.verify_statistics()
        for number, info in enumerate(self.streams.values()):
            places = (self._store.shard_rows(shard, number) for shard in range(len(self._shards)))
            dtype = STORAGE[info.type_name]
            rows = (rows_of(self._store, place, info, dtype) for place in places)
            verify_counts(self.path, info, rows)

    def __reduce__(self) -> tuple[type[EpisodeStore], tuple[str]]:
        return EpisodeStore, (self._folder,)

    def __repr__(self) -> str:
        streams = listed([str(info) for info in self.streams.values()])
        episodes = counted(len(self), "episode")
        return f"EpisodeStore({self.path!r}: {episodes} of {streams or 'no streams'})"

    def __str__(self) -> str:
        return f"{self._words()}\n{self.streams}"

    def _repr_html_(self) -> str:
        return self.streams.html(self._words())

    def _words(self) -> str:
        size = f"{counted(len(self), 'episode')}, {byte_count(self.bytes)}"
        return f"{cut(self.path)}: {size}"
