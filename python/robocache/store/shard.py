"""Writing one shard: whole episodes, gathered stream by stream, then one safetensors file.

    data of the file   | 8-byte types | 4-byte types | 2-byte types | 1-byte types |
                         a/times        a/values       ...            a/valid
                         a/offsets      episode/task                  episode/source
                         episode/...

So every tensor lies at a multiple of its element size, with no hole between two.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from robocache.store.dtypes import STORAGE
from robocache.store.episode import MAX_SUBSETS, EpisodeWriter, Rows
from robocache.store.files import NewFile
from robocache.store.source_state import KEY, RecordingState, to_text
from robocache.store.spool import Bytes, Column, Kept, Memory, Reader, Spool
from robocache.store.statistics import StreamStatistics
from robocache.store.streams import StreamEntry, Streams, check_name, make_metadata

SPOOL_BYTES = 192 << 20
_CHUNK_BYTES = 1 << 20  # in which finished columns are read again; it should stay in the cache


@dataclass(frozen=True)
class ShardFile:
    """A finished file of a shard that is no part of the store yet.

    Attributes:
        file: Its temporary name in the store's folder.
        bytes: Its size.
        header_crc32: CRC-32 of its header, with the 8 bytes before it.
        crc32: Of the whole file.
    """

    file: str
    bytes: int
    header_crc32: int
    crc32: int

    @property
    def manifest_fields(self) -> dict[str, Any]:
        """Size and checksums as the manifest has them."""
        checksums = {"header_crc32": self.header_crc32, "crc32": self.crc32}
        return {"bytes": self.bytes, **{name: f"{x:08x}" for name, x in checksums.items()}}


@dataclass(frozen=True)
class Shard(ShardFile):
    """A finished shard that no store has yet. Small, and can be pickled.

    Attributes:
        episodes: How many it holds.
        streams: What it holds of each stream.
        tasks: The names behind the numbers in it.
        subsets: The same for subsets.
        statistics: Of each stream.
        sources: Of each episode, where it comes from; none for a shard of another store.
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
    """Gathers episodes for one shard. It needs no lock: many may write in a store's folder at once.

    A process that is killed leaves nothing of it but files that the next writer of the store
    removes. That is why the StoreWriter which is to commit the shard opens the store first, and
    keeps it open until then.

    Args:
        folder: The store's, which has to exist.
        streams: What is known of streams already; by default nothing.
        spool_bytes: Rows that take more memory than this wait on the disk, in `folder`.

    Example:
        >>> with ShardWriter("recordings.store") as shard:
        ...     with shard.episode(task="pick", source="demo.hdf5#demo_3") as episode:
        ...         episode.add("action", times_ns, actions)
        ...     record = shard.close()  # to be given to StoreWriter.commit_shard
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
        self._memory = Memory(spool_bytes)  # of finished episodes, and of the one being written
        self._spool = Spool(self._folder, self._memory)
        self._spools: list[Spool] = []  # of episodes, where rows of theirs lie in the file
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
        """Whether it has whole episodes only; it can't be closed otherwise."""

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
        """How many are finished."""
        return len(self._sources)

    @property
    def bytes(self) -> int:
        """Bytes of the rows of finished episodes: nearly the size of the file."""
        return sum(
            column.bytes for rows in self._streams.values() for column in rows.columns.values()
        )

    def declare(self, stream: str, **metadata: Any) -> None:
        """Says what is known of a stream; as :meth:`StoreWriter.declare`."""
        self._known.declare(check_name(stream), make_metadata(stream, **metadata))

    def episode(
        self, task: str | None = None, source: str = "", subsets: Iterable[str] = ()
    ) -> EpisodeWriter:
        """A new episode; as :meth:`StoreWriter.episode`."""
        return self.new_episode(self.keep, task, source, subsets)

    def new_episode(
        self,
        keep: Callable[[EpisodeWriter], None],
        task: str | None,
        source: str,
        subsets: Iterable[str],
        recording: RecordingState | None = None,
    ) -> EpisodeWriter:
        """A new episode that ends by a call of `keep`; `recording` is what it was read from."""
        self._check_open()
        spool = Spool(self._folder, self._memory)
        return EpisodeWriter(spool, self._known, keep, task, source, subsets, recording)

    def has_room_for(self, subsets: Iterable[str]) -> bool:
        """Whether there are numbers left for these subsets."""
        return len({*self._subset_names, *subsets}) <= MAX_SUBSETS

    def keep(self, episode: EpisodeWriter) -> None:
        """Takes a finished episode, and owns its spool then.

        Raises:
            ValueError: A stream of it does not fit what this shard knows by now, or there are more
                than 64 subsets.
            OSError: The disk is full, or the like. The shard is as it was.
        """
        self._check_open()
        if not self.has_room_for(episode.subsets):
            raise ValueError(f"subsets: expected at most {MAX_SUBSETS} in a shard, got more")
        streams = dict(self._streams)
        changes: list[tuple[Rows, dict[str, Column], Rows]] = []
        pairs: list[tuple[Column, Bytes | Kept | Column]] = []
        for name, new in episode.streams.items():
            entry = self._known.fit(name, new.entry.dtype, new.entry.shape)
            if name not in streams:
                streams[name] = Rows(entry, self._spool)
            ours = streams[name]
            columns, more = ours.plan(
                self._spool,
                new.rows,
                new.columns["values"],
                new.columns["times"],
                new.columns.get("received"),
                new.columns.get("valid"),
            )
            changes.append((ours, columns, new))
            pairs += more
        self.is_whole = False  # should Ctrl-C come between here and the end
        try:
            self._spool.add(pairs)
        except OSError:
            self.is_whole = True
            raise
        for ours, columns, new in changes:
            ours.columns = columns
            ours.rows += new.rows
            self._known.keep(self._known.fit(new.entry.name, new.entry.dtype, new.entry.shape))
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
        """Writes the shard to the disk, under a temporary name.

        Raises:
            ValueError: There is no episode in it.
            OSError: The disk is full, or the like. Nothing is left behind, and the episodes are
                still here: with room made, `close` may be called again.
        """
        self._check_open()
        if not self.episodes:
            raise ValueError("shard: expected at least 1 episode, got none")
        if not self.is_whole:
            raise ValueError("shard: expected whole episodes, got one that was interrupted")
        statistics = {
            name: StreamStatistics(rows.entry.dtype, rows.entry.shape)
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
            tuple(self._known.entries[name] for name in self._streams),
            tuple(self._tasks),
            tuple(self._subset_names),
            statistics,
            tuple(self._sources),
        )
        self.discard()
        return shard

    def discard(self) -> None:
        """Drops all episodes."""
        self._is_open = False
        self._streams.clear()
        for spool in (self._spool, *self._spools):
            spool.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("shard: expected one that is open, got one that was closed")

    def _tensors(self, statistics: dict[str, StreamStatistics]) -> Iterator[_Tensor]:
        """All tensors; as the chunks of values are read, the statistics are made."""
        e = self.episodes
        for name, rows in self._streams.items():
            n = rows.rows
            entry = rows.entry
            values = _values(rows, statistics[name])
            yield _Tensor(f"{name}/values", entry.dtype, (n, *entry.shape), values)
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


def _values(rows: Rows, statistics: StreamStatistics) -> Iterator[Bytes]:
    entry = rows.entry
    n = max(1, _CHUNK_BYTES // entry.row_bytes)
    valid = Reader(rows.columns["valid"]) if "valid" in rows.columns else None
    for chunk in rows.columns["values"].chunks(n * entry.row_bytes):
        values = np.frombuffer(chunk, STORAGE[entry.dtype]).reshape(-1, *entry.shape)
        flags = None if valid is None else np.frombuffer(valid.take(len(values)), np.bool_)
        statistics.update(values, flags)
        yield chunk


def _header(tensors: Iterable[_Tensor], recordings: Sequence[RecordingState | None]) -> bytes:
    """The length of the header and the header; data begin on 64 bytes."""
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


def header_bytes(entries: Mapping[str, object], begin: int = 0) -> bytes:
    """A shard's header and, before it, its length.

    Args:
        entries: Its JSON: tensors by name.
        begin: Data begin at a byte that differs from this one by a multiple of 64.
    """
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * ((begin - 8 - len(text)) % 64)
    return struct.pack("<Q", len(text)) + text
