"""Marking rows of a store as not valid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ShortRepr
from robocache.store.dtypes import STORAGE
from robocache.store.episode_store import EpisodeStore
from robocache.store.history import Marking
from robocache.store.library import OpenStore, Rows
from robocache.store.manifest import parse_manifest
from robocache.store.rewrite import rewrite_shard
from robocache.store.rows import rows_of
from robocache.store.shard import ShardFile
from robocache.store.statistics import StreamStatistics
from robocache.store.stream_info import StreamInfo, stream_infos
from robocache.store.value_columns import value_chunks
from robocache.store.writer import StoreWriter

_CHUNK_BYTES = 1 << 20  # of values per update of the statistics

Flags = NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Mark(ShortRepr):
    """Rows of one stream in one episode, to be marked as not valid."""

    episode: int
    """Index of the episode."""
    stream: str
    rows: tuple[tuple[int, int], ...]
    """Ranges [begin, end), ascending."""
    reason: str
    """The kind of the doctor's finding, or ``by hand``."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(end - begin for begin, end in self.rows)


def new_marks(store: EpisodeStore, marks: Iterable[Mark]) -> list[Mark]:
    """Restricts marks to rows that are still valid, each row once, and drops marks left empty."""
    flags: dict[tuple[int, str], Flags] = {}
    result = []
    for mark in marks:
        key = (mark.episode, mark.stream)
        if key not in flags:
            flags[key] = _flags_of(store, mark)
        valid = flags[key]
        asked = np.zeros(len(valid), bool)
        for begin, end in mark.rows:
            asked[begin:end] = True
        ranges = ranges_of(asked & valid)
        valid &= ~asked
        if ranges:
            result.append(replace(mark, rows=ranges))
    return result


def ranges_of(flags: Flags) -> tuple[tuple[int, int], ...]:
    """The ranges [begin, end) of rows whose flag is set."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return tuple(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _flags_of(store: EpisodeStore, mark: Mark) -> Flags:
    info = store.streams[mark.stream]
    _, parts = store.pieces(mark.stream, [mark.episode], STORAGE[info.type_name])
    flags = [np.ones(len(part), bool) if part.valid is None else part.valid for part in parts]
    return np.concatenate([np.empty(0, bool), *flags])


def mark_rows(
    writer: StoreWriter,
    marks: Sequence[Mark],
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Marks rows as not valid in one atomic commit: readers see all marks or none.

    Rewrites each shard with such rows; its values, times and other columns keep their bytes.
    Recomputes the statistics of the marked streams from their valid rows.

    Args:
        writer: An open writer of the store, which holds its lock.
        marks: Marks from :func:`new_marks`.
        progress: Called after each shard with the bytes rewritten so far and the total.

    Returns:
        The number of rewritten shards.

    Raises:
        StoreError: A shard is damaged. The store is unchanged.
        OSError: A write failed, for example because the disk is full. The store is unchanged.
    """
    folder, shards = writer.path, _Shards(writer.path)
    valid, markings = shards.mark(marks)
    files: dict[str, ShardFile] = {}
    total = sum(shards.entries[shard].bytes for shard in valid)
    done = 0
    try:
        for shard, flags in valid.items():
            entry = shards.entries[shard]
            files[entry.file] = rewrite_shard(folder, entry, flags, markings[shard])
            done += entry.bytes
            if progress is not None:
                progress(done, total)
        names = dict.fromkeys(mark.stream for mark in marks)
        statistics = {name: shards.statistics(name, valid) for name in names}
        writer.replace_shards(files, statistics)
    finally:
        for file in files.values():  # still present if the commit failed
            (folder / file.file).unlink(missing_ok=True)
    return len(files)


class _Shards:
    """The shards of a store that is being marked: their new flags, log entries and statistics."""

    def __init__(self, folder: Path) -> None:
        self._store = OpenStore(str(folder))
        manifest = parse_manifest(self._store.manifest())
        self._streams = stream_infos(manifest, self._store)
        self._numbers = {name: number for number, name in enumerate(self._streams)}
        self.entries = manifest.shards

    def mark(
        self, marks: Sequence[Mark]
    ) -> tuple[dict[int, dict[str, Flags]], dict[int, list[Marking]]]:
        """For each shard with marks: the new flags by stream, and the markings for its log."""
        valid: dict[int, dict[str, Flags]] = {}
        notes: dict[int, dict[tuple[str, str], Marking]] = {}
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for mark in marks:
            info = self._streams[mark.stream]
            place = self._store.rows(mark.episode, self._numbers[mark.stream])
            whole = self._shard_rows(place.shard, info)
            flags = valid.setdefault(place.shard, {})
            if mark.stream not in flags:
                old = rows_of(self._store, whole, info, STORAGE[info.type_name]).valid
                flags[mark.stream] = np.ones(whole.rows, bool) if old is None else old.copy()
            first = (place.times - whole.times) // 8
            for begin, end in mark.rows:
                flags[mark.stream][first + begin : first + end] = False
            note = notes.setdefault(place.shard, {})
            key = (mark.stream, mark.reason)
            known = note.get(key, Marking(now, *key, 0, 0))
            note[key] = known._replace(rows=known.rows + mark.count, episodes=known.episodes + 1)
        return valid, {shard: list(note.values()) for shard, note in notes.items()}

    def statistics(self, name: str, valid: dict[int, dict[str, Flags]]) -> StreamStatistics:
        """Computes the statistics of a stream with the new flags."""
        info = self._streams[name]
        total = StreamStatistics(info.type_name, info.shape)
        for shard in range(len(self.entries)):
            place = self._shard_rows(shard, info)
            if not place.rows:
                continue
            rows = rows_of(self._store, place, info, STORAGE[info.type_name])
            flags = valid.get(shard, {}).get(name, rows.valid)
            of_shard = StreamStatistics(info.type_name, info.shape)
            for values, valid_of in value_chunks(rows.values, flags, info.row_bytes, _CHUNK_BYTES):
                of_shard.update(values, valid_of)
            total = total.merged(of_shard)
        return total

    def _shard_rows(self, shard: int, info: StreamInfo) -> Rows:
        return self._store.shard_rows(shard, self._numbers[info.name])
