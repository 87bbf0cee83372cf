"""Writer of one shard: collects whole episodes by stream, then writes one safetensors file.

    data of the file   | 8-byte types | 4-byte types | 2-byte types | 1-byte types |
                         a/times        a/values       ...            a/valid
                         a/offsets      episode/task                  episode/source
                         episode/...

In this order every tensor begins at a multiple of its element size, without padding.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from robocache.jpeg.encoded import merged
from robocache.store.dtypes import STORAGE
from robocache.store.episode import EpisodeWriter, Rows
from robocache.store.files import NewFile
from robocache.store.library import MAX_SUBSETS
from robocache.store.shard_header import header_bytes
from robocache.store.shard_values import value_tensors
from robocache.store.source_state import KEY, RecordingState, to_text
from robocache.store.spool import Bytes, Column, Kept, Memory, Spool
from robocache.store.statistics import StreamStatistics
from robocache.store.streams import StreamEntry, Streams, check_name, make_metadata

SPOOL_BYTES = 192 << 20
_CHUNK_BYTES = 1 << 20  # of a column, read at once for the file; small enough for the CPU's cache


@dataclass(frozen=True)
class ShardFile:
    """The finished file of a shard before its commit.

    Attributes:
        file: Temporary name of the file in the store's folder.
        bytes: Size of the file.
        header_crc32: CRC-32 of the header and the 8 bytes before it.
        crc32: CRC-32 of the whole file.
    """

    file: str
    bytes: int
    header_crc32: int
    crc32: int

    @property
    def manifest_fields(self) -> dict[str, Any]:
        """Size and checksums in the manifest's form."""
        checksums = {"header_crc32": self.header_crc32, "crc32": self.crc32}
        return {"bytes": self.bytes, **{name: f"{x:08x}" for name, x in checksums.items()}}


@dataclass(frozen=True)
class Shard(ShardFile):
    """A finished shard before its commit: metadata of its file, small and picklable.

    Attributes:
        episodes: Number of episodes.
        streams: The streams.
        tasks: Names of the tasks, by their index in the shard.
        subsets: Names of the subsets, by their index in the shard.
        statistics: Statistics by stream.
        sources: The source of each episode; empty for a shard of another store.
    """

    episodes: int
    streams: tuple[StreamEntry, ...]
    tasks: tuple[str, ...]
    subsets: tuple[str, ...]
    statistics: dict[str, StreamStatistics]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Iterable[Bytes]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * STORAGE[self.dtype].itemsize


class ShardWriter:
    """Collects episodes for one shard, without a lock: processes can write shards in parallel.

    A killed process leaves temporary files, which the next StoreWriter of the folder removes when
    it opens the store. Therefore open the StoreWriter that commits the shard before the
    ShardWriter, and keep it open until the commit.

    Args:
        folder: The store's folder, which must exist.
        streams: Known streams and declarations; by default none.
        spool_bytes: Memory limit for rows; rows beyond it wait in a file in `folder`.

    Example:
        >>> with ShardWriter("recordings.store") as shard:
        ...     with shard.episode(task="pick", source="demo.hdf5#demo_3") as episode:
        ...         episode.add("action", times_ns, actions)
        ...     record = shard.close()  # pass it to StoreWriter.commit_shard
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        streams: Streams | None = None,
        spool_bytes: int = SPOOL_BYTES,
    ) -> None:
        self._folder = Path(folder)
        self._known = Streams() if streams is None else streams
        self._memory = Memory(spool_bytes)  # shared by finished episodes and the one in progress
        self._spool = Spool(self._folder, self._memory)
        self._spools: list[Spool] = []  # spools of finished episodes with rows on the disk
        self._streams: dict[str, Rows] = {}
        self._lengths: dict[str, list[tuple[int, int]]] = {}  # (episode, rows)
        self._spans: list[tuple[int, int, int]] = []  # (start, end, rows of the longest stream)
        self._tasks: dict[str, int] = {}
        self._task: list[int] = []
        self._subset_names: dict[str, int] = {}
        self._subsets: list[int] = []
        self._sources: list[str] = []
        self._recordings: list[RecordingState | None] = []
        self._is_open = True
        self.is_whole = True
        """Whether it holds whole episodes only; otherwise :meth:`close` is an error."""

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    @property
    def episodes(self) -> int:
        """Number of finished episodes."""
        return len(self._sources)

    @property
    def bytes(self) -> int:
        """Size of the finished episodes' rows in bytes: nearly the size of the file."""
        return sum(
            column.bytes for rows in self._streams.values() for column in rows.columns.values()
        )

    def declare(self, stream: str, **metadata: Any) -> None:
        """Declares metadata of a stream; see :meth:`StoreWriter.declare`."""
        self._known.declare(check_name(stream), make_metadata(stream, **metadata))

    def episode(
        self, task: str | None = None, source: str = "", subsets: Iterable[str] = ()
    ) -> EpisodeWriter:
        """Creates the writer of a new episode; see :meth:`StoreWriter.episode`."""
        return self.new_episode(self.keep, task, source, subsets)

    def new_episode(
        self,
        keep: Callable[[EpisodeWriter], None],
        task: str | None,
        source: str,
        subsets: Iterable[str],
        recording: RecordingState | None = None,
    ) -> EpisodeWriter:
        """Creates the writer of an episode that passes itself to `keep` when it is finished.

        `recording` is the state of the recording that the episode was read from.
        """
        self._check_open()
        spool = Spool(self._folder, self._memory)
        return EpisodeWriter(spool, self._known, keep, task, source, subsets, recording)

    def fits(self, episode: EpisodeWriter, shard_bytes: int) -> bool:
        """Whether an episode fits into a shard of at most `shard_bytes`; the first always does."""
        is_small = self.bytes + episode.bytes <= shard_bytes
        return not self.episodes or (is_small and self._has_room_for(episode.subsets))

    def _has_room_for(self, subsets: Iterable[str]) -> bool:
        """Whether the shard's subsets with these are at most 64."""
        return len({*self._subset_names, *subsets}) <= MAX_SUBSETS

    def keep(self, episode: EpisodeWriter) -> None:
        """Adds a finished episode and takes ownership of its spool.

        Raises:
            ValueError: A stream of the episode does not fit this shard's stream of that name, or
                the shard would have more than 64 subsets.
            OSError: The write failed, for example because the disk is full. The shard is unchanged.
        """
        self._check_open()
        if not self._has_room_for(episode.subsets):
            raise ValueError(f"subsets: expected at most {MAX_SUBSETS} in a shard, got more")
        streams = dict(self._streams)
        changes: list[tuple[Rows, dict[str, Column], Rows]] = []
        pairs: list[tuple[Column, Bytes | Kept | Column]] = []
        for name, new in episode.streams.items():
            entry = self._known.fit(new.entry)
            if name not in streams:
                streams[name] = Rows(entry, self._spool)
            ours = streams[name]
            columns, more = ours.plan(self._spool, new.rows, new.columns)
            changes.append((ours, columns, new))
            pairs += more
        self.is_whole = False  # stays so if Ctrl-C interrupts before the end of this method
        try:
            self._spool.add(pairs)
        except OSError:
            self.is_whole = True
            raise
        for ours, columns, new in changes:
            ours.columns = columns
            ours.rows += new.rows
            ours.encoded = merged(ours.encoded, new.encoded)
            self._known.keep(self._known.fit(new.entry))
            self._lengths.setdefault(new.entry.name, []).append((self.episodes, new.rows))
        self._streams = streams
        self._note(episode)
        self._spool.take_over(episode.spool)
        if episode.spool.is_on_disk:
            self._spools.append(episode.spool)
        self.is_whole = True

    def _note(self, episode: EpisodeWriter) -> None:
        rows = episode.streams.values()
        self._spans.append(
            (min(r.first for r in rows), max(r.last for r in rows), max(r.rows for r in rows))
        )
        task = -1
        if episode.task is not None:
            task = self._tasks.setdefault(episode.task, len(self._tasks))
        self._task.append(task)
        bits = 0
        for subset in episode.subsets:
            bits |= 1 << self._subset_names.setdefault(subset, len(self._subset_names))
        self._subsets.append(bits)
        self._sources.append(episode.source)
        self._recordings.append(episode.recording)

    def close(self) -> Shard:
        """Writes the shard to the disk under a temporary name.

        Raises:
            ValueError: The shard has no episodes, or one whose addition was interrupted.
            OSError: The write failed, for example because the disk is full. The file is removed
                and the episodes are kept: call `close` again once the disk has space.
        """
        self._check_open()
        if not self.episodes:
            raise ValueError("shard: expected at least 1 episode, got none")
        if not self.is_whole:
            raise ValueError("shard: expected whole episodes, got one that was interrupted")
        statistics = {
            name: StreamStatistics(rows.entry.dtype, rows.entry.values_shape)
            for name, rows in self._streams.items()
        }
        tensors = sorted(self._tensors(statistics), key=lambda t: -STORAGE[t.dtype].itemsize)
        header = _header(tensors, self._recordings)
        file = NewFile(self._folder)
        try:
            file.write(header)
            for tensor in tensors:
                for chunk in tensor.chunks:
                    file.write(chunk)
            file.finish()
        except BaseException:
            file.discard()
            raise
        shard = Shard(
            file.path.name,
            file.bytes,
            zlib.crc32(header),
            file.crc32,
            self.episodes,
            tuple(
                replace(self._known.entries[name], encoded=rows.encoded)
                for name, rows in self._streams.items()
            ),
            tuple(self._tasks),
            tuple(self._subset_names),
            statistics,
            tuple(self._sources),
        )
        self.discard()
        return shard

    def discard(self) -> None:
        """Discards all episodes."""
        self._is_open = False
        self._streams.clear()
        for spool in (self._spool, *self._spools):
            spool.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("shard: expected one that is open, got one that was closed")

    def _tensors(self, statistics: dict[str, StreamStatistics]) -> Iterator[_Tensor]:
        """All tensors; reading the chunks of values updates `statistics`."""
        e = self.episodes
        for name, rows in self._streams.items():
            n = rows.rows
            tensors = value_tensors(rows, statistics[name])
            for part, (dtype, shape, chunks) in tensors.items():
                yield _Tensor(f"{name}/{part}", dtype, shape, chunks)
            times = rows.columns["times"].chunks(_CHUNK_BYTES)
            yield _Tensor(f"{name}/times", "I64", (n,), times)
            lengths = np.zeros(e + 1, "<i8")
            for episode, length in self._lengths[name]:
                lengths[episode + 1] = length
            yield _Tensor(f"{name}/offsets", "I64", (e + 1,), [lengths.cumsum().tobytes()])
            for column, dtype in (("received", "I64"), ("valid", "BOOL")):
                if column in rows.columns:
                    chunks = rows.columns[column].chunks(_CHUNK_BYTES)
                    yield _Tensor(f"{name}/{column}", dtype, (n,), chunks)
        spans = np.array(self._spans, "<i8").T
        for name, span in zip(("start_ns", "end_ns", "length"), spans, strict=True):
            yield _Tensor(f"episode/{name}", "I64", (e,), [span.tobytes()])
        yield _Tensor("episode/task", "I32", (e,), [np.array(self._task, "<i4").tobytes()])
        yield _Tensor("episode/subsets", "U64", (e,), [np.array(self._subsets, "<u8").tobytes()])
        sources = [source.encode() for source in self._sources]
        offsets = np.cumsum([0, *map(len, sources)], dtype="<i8")
        yield _Tensor("episode/source_offsets", "I64", (e + 1,), [offsets.tobytes()])
        text = b"".join(sources)
        yield _Tensor("episode/source", "U8", (len(text),), [text])


def _header(tensors: Iterable[_Tensor], recordings: Sequence[RecordingState | None]) -> bytes:
    """The header's length and the header, padded so that the data begin at a multiple of 64."""
    entries: dict[str, object] = {}
    if any(recordings):
        entries["__metadata__"] = {KEY: to_text(recordings)}
    end = 0
    for tensor in tensors:
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [end, end + tensor.bytes],
        }
        end += tensor.bytes
    return header_bytes(entries)
