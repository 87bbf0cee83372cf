"""An episode of a store, and the rows of its streams: views of the mapped file."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import counted, cut, listed, method_text, short
from robocache.core.names import MethodName
from robocache.core.ragged import of_checked_offsets
from robocache.core.tables import html_table
from robocache.jpeg.frames import FrameIndices, JpegFrames
from robocache.store.dtypes import STORAGE
from robocache.store.library import EpisodeMetadata, OpenStore, Rows
from robocache.store.stream_info import StreamInfo

_TIME_BYTES = 8


@dataclass(frozen=True, eq=False, repr=False)
class StreamRows:
    """Rows of one stream, in order of their times.

    The arrays are read-only views of the store's mapped files: the system reads data at the first
    access. `rows[a:b]` is a view of a part.
    """

    values: Any
    """An array [N, the row's shape...]; of a ragged stream a :class:`RaggedArray`, of
    encoded images :class:`JpegFrames`, of N rows"""
    times: NDArray[np.int64]
    """[N], nanoseconds"""
    received: NDArray[np.int64] | None
    """[N], arrival time of each row in nanoseconds; None if it was not recorded."""
    valid: NDArray[np.bool_] | None
    """[N], whether each row holds real data; None if all rows do."""
    method: MethodName | tuple[tuple[str, int], ...] = "linear"
    """How alignment combines the rows: the stream's stored method, the default of
    :func:`robocache.fuse`."""

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, rows: slice) -> StreamRows:
        """Returns a view of a part of the rows.

        Raises:
            TypeError: `rows` is no slice.
            ValueError: The step is not positive: times must ascend.
        """
        if not isinstance(rows, slice):
            raise TypeError(
                f"rows: expected a slice, got {type(rows).__name__} (.values, .times take others)"
            )
        if rows.step is not None and rows.step < 0:
            raise ValueError(f"rows: expected a step of 1 or more, got {rows.step}")
        return StreamRows(
            self.values[rows],
            self.times[rows],
            None if self.received is None else self.received[rows],
            None if self.valid is None else self.valid[rows],
            self.method,
        )

    @property
    def rate(self) -> float | None:
        """Mean rate in Hz from the first row to the last, gaps included; None for fewer than 2."""
        if len(self) < 2 or self.times[-1] == self.times[0]:
            return None
        return (len(self) - 1) * 1e9 / (int(self.times[-1]) - int(self.times[0]))

    def __repr__(self) -> str:
        extras = [name for name in ("received", "valid") if getattr(self, name) is not None]
        values = self.values
        is_array = isinstance(values, np.ndarray)
        text = f"{values.dtype}{list(values.shape)}" if is_array else repr(values)
        words = [text, "times", *extras]
        if self.method != "linear":
            words.append(f"method={short(self.method)}")
        return f"StreamRows({', '.join(words)})"


def unknown_stream(streams: Mapping[str, StreamInfo], name: object) -> KeyError:
    """Creates the error for a stream that the store does not have."""
    return KeyError(f"expected a stream of the store ({', '.join(streams)}), got {name!r}")


def rows_of(store: OpenStore, place: Rows, info: StreamInfo, dtype: Any = None) -> StreamRows:
    """Creates views of the rows of a stream at a location.

    Args:
        store: The store.
        place: Location of the rows in a shard.
        info: The stream.
        dtype: NumPy type of the values; None: the stream's type.

    Raises:
        ImportError: The stream is bfloat16, `dtype` is None, and ml_dtypes is missing.
    """
    file, count = store.file(place.shard), place.rows
    dtype = info.dtype if dtype is None else dtype

    def view(offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        if offset < 0:  # the shard lacks the stream
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, file, offset)

    is_encoded = info.encoding is not None
    values = view(place.values, dtype, (place.items, *(() if is_encoded else info.shape)))
    if info.is_ragged or is_encoded:
        # The shard's offsets, of which the first may be above 0; an absent stream has none.
        absolute = view(place.row_offsets, np.int64, (count + 1,)) if count else np.zeros(1, int)
        values = of_checked_offsets(values, absolute - absolute[0])
    if is_encoded:
        entry_offsets = view(place.entry_offsets, np.int64, (count + 1,)) if count else [0]
        indices = FrameIndices(
            of_checked_offsets(
                view(place.entries, np.uint64, (place.entry_count,)),
                np.asarray(entry_offsets) - entry_offsets[0],
            ),
            view(place.scan_bits, np.uint32, (count,)),
            info.mcus_per_entry or 1,
        )
        values = JpegFrames(values, info.shape, indices)
    return StreamRows(
        values,
        view(place.times, np.int64, (count,)),
        None if place.received < 0 else view(place.received, np.int64, (count,)),
        None if place.valid < 0 else view(place.valid, np.bool_, (count,)),
        info.method,
    )


def merged(places: Iterable[Rows]) -> list[Rows]:
    """Merges locations that are adjacent in one file; drops locations without rows."""
    result: list[Rows] = []
    for place in places:
        if place.rows == 0:
            continue
        last = result[-1] if result else None
        if (
            last is not None
            and last.shard == place.shard
            and last.times + last.rows * _TIME_BYTES == place.times
        ):
            last.rows += place.rows  # all columns of a stream have the same order of rows
            last.items += place.items
            last.entry_count += place.entry_count
        else:
            result.append(place)
    return result


class Episode:
    """One episode of a store: its metadata, and the rows of its streams as `episode["action"]`."""

    def __init__(
        self, store: OpenStore, streams: Mapping[str, StreamInfo], tables: Tables, index: int
    ) -> None:
        self._store = store
        self._streams = streams
        self._tables = tables
        self.index = index
        """Index of the episode in the store."""

    @cached_property
    def _metadata(self) -> EpisodeMetadata:
        return self._store.episode(self.index)

    @property
    def length(self) -> int:
        """Number of rows of the longest stream."""
        return int(self._metadata.length)

    @property
    def start_ns(self) -> int:
        """The earliest time of any stream, in nanoseconds."""
        return int(self._metadata.start_ns)

    @property
    def end_ns(self) -> int:
        """The latest time of any stream, in nanoseconds."""
        return int(self._metadata.end_ns)

    @property
    def duration_s(self) -> float:
        """Seconds from the earliest time to the latest."""
        return (self.end_ns - self.start_ns) * 1e-9

    @property
    def task(self) -> str | None:
        """The robot's task in words, or None."""
        number = self._metadata.task
        return None if number < 0 else self._tables.tasks[number]

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets that the episode belongs to, such as "train" and "val"."""
        metadata = self._metadata
        return tuple(self._tables.subsets[n] for n in metadata.subsets[: metadata.subset_count])

    @property
    def source(self) -> str:
        """The recording, and the episode's name in it: "demo.hdf5#demo_3"."""
        return ctypes.string_at(self._metadata.source, self._metadata.source_bytes).decode()

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that have rows in the episode."""
        return tuple(self)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._streams if name in self)

    def __contains__(self, name: object) -> bool:
        number = self._tables.number_of_stream.get(name) if isinstance(name, str) else None
        return number is not None and self._store.rows(self.index, number).rows > 0

    def stream_info(self, name: str) -> StreamInfo:
        """Metadata of a stream of the store.

        Raises:
            KeyError: The store has no stream of this name.
        """
        if name not in self._streams:
            raise unknown_stream(self._streams, name)
        return self._streams[name]

    def align(self, rate: float, **options: Any) -> Any:
        """Aligns the streams on one timeline; :func:`robocache.align` of this episode.

        Returns:
            A :class:`robocache.timeline.aligned.Aligned`.
        """
        import robocache

        return robocache.align(self, rate, **options)

    def __getitem__(self, name: str) -> StreamRows:
        """Rows of a stream; no rows if only other episodes of the store have the stream.

        Raises:
            KeyError: The store has no stream of this name.
            StoreError: The shard contradicts itself.
            ImportError: The stream is bfloat16, and ml_dtypes is missing.
        """
        number = self._tables.number_of_stream.get(name)
        if number is None:
            raise unknown_stream(self._streams, name)
        return rows_of(self._store, self._store.rows(self.index, number), self._streams[name])

    def __repr__(self) -> str:
        return f"Episode({self._words(listed(self.streams))})"

    def _words(self, *more: str) -> str:
        task = [] if self.task is None else [f"task {short(self.task)}"]
        words = [counted(self.length, "row"), f"{self.duration_s:.3f} s", *task, *more]
        source = f"; from {short(self.source)}" if self.source else ""
        return f"{self.index}: {', '.join(words)}{source}"

    def _repr_html_(self) -> str:
        rows = []
        for name in self.streams:
            info = self._streams[name]
            place = self._store.rows(self.index, self._tables.number_of_stream[name])
            views = rows_of(self._store, place, info, STORAGE[info.type_name])
            rate = "" if views.rate is None else f"{views.rate:.4g}"
            valid = "" if views.valid is None else f"{views.valid.mean():.1%}"
            row = [cut(name), info.row_text, method_text(info.method), rate, f"{len(views):,}"]
            rows.append([*row, valid])
        header = ("stream", "row", "method", "Hz", "rows", "valid")
        return html_table(header, rows, (0, 1, 2), f"Episode {self._words()}")

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


@dataclass(frozen=True)
class Tables:
    """Tables that episodes refer to by index."""

    tasks: tuple[str, ...]
    subsets: tuple[str, ...]
    number_of_stream: Mapping[str, int]
