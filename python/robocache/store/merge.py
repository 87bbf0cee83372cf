"""`merge_stores`: joins the episodes of several stores in a new store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from robocache.store.errors import StoreError
from robocache.store.files import NewFile, expect_regular, read_chunks, temporary_path
from robocache.store.manifest import NAME, Manifest, ShardEntry, read_manifest
from robocache.store.shard import Shard
from robocache.store.statistics import StreamStatistics, read_state
from robocache.store.streams import StreamEntry, joined
from robocache.store.writer import StoreWriter

_CHUNK_BYTES = 4 << 20


def merge_stores(
    sources: Iterable[str | os.PathLike[str]], destination: str | os.PathLike[str]
) -> None:
    """Creates a store with the episodes of other stores, in the order of `sources`.

    Shards are hard links to the sources' shards on the same file system (no writer changes a
    shard's file), and copies on another. Statistics are merged: counts and moments equal those of
    one pass over all rows, quantiles stay within their rank error. One atomic commit adds all
    shards to the destination.

    Args:
        sources: Folders of stores, which are only read. Episodes appended to a source during the
            merge are left out.
        destination: Folder of the new store. It is created if missing, and may hold a store without
            episodes.

    Raises:
        StoreError: A source is no store, is damaged or is listed twice; a stream differs in type,
            shape, method, units, channels or timeline from that of an earlier source; or the
            destination has episodes. Nothing is written. (Only copied shards are read and compared
            with their checksums; :meth:`EpisodeStore.verify` checks linked ones.)
        OSError: A write failed, for example because the disk is full. The destination is unchanged.

    Example:
        >>> rc.merge_stores(["monday.store", "tuesday.store"], "week.store")
    """
    folders = [Path(source) for source in sources]
    target = Path(destination)
    _check_distinct([*folders, target])
    stores = [_open(folder) for folder in folders]
    streams: dict[str, StreamEntry] = {}
    for folder, (manifest, _) in zip(folders, stores, strict=True):
        for stream in manifest.streams:
            known = streams.get(stream.name)
            streams[stream.name] = stream if known is None else joined(known, stream, str(folder))
    if (target / NAME).exists() and read_manifest(target).shards:
        raise StoreError(f"{target}: expected no store there, got one with episodes")
    with StoreWriter(target, append=True) as writer:
        shards: list[Shard] = []
        try:
            for folder, (manifest, statistics) in zip(folders, stores, strict=True):
                shards += _shards(folder, manifest, statistics, target)
            writer.commit_shards(shards)
        finally:
            for shard in shards:  # still present if the commit failed
                (target / shard.file).unlink(missing_ok=True)


def _check_distinct(folders: list[Path]) -> None:
    seen = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise StoreError(f"{folder}: expected each store once, got it twice")
        seen.add(folder.resolve())


def _open(folder: Path) -> tuple[Manifest, dict[str, StreamStatistics]]:
    while True:
        manifest = read_manifest(folder)
        try:
            return manifest, read_state(folder, manifest)
        except FileNotFoundError:
            if read_manifest(folder) == manifest:
                raise
            # A writer replaced the manifest and the state after the first read: read both again.


def _shards(
    folder: Path, manifest: Manifest, statistics: dict[str, StreamStatistics], target: Path
) -> Iterator[Shard]:
    """Links or copies a source's shards to the destination, under temporary names."""
    streams = manifest.streams
    for entry in manifest.shards:
        yield Shard(
            _link_or_copy(folder / entry.file, entry, target),
            entry.bytes,
            int(entry.header_crc32, 16),
            int(entry.crc32, 16),
            entry.episodes,
            streams,
            tuple(manifest.tasks[task] for task in entry.tasks),
            tuple(manifest.subsets[subset] for subset in entry.subsets),
            statistics,
        )
        # Statistics and records of the first shard cover all shards of the source.
        statistics = {}
        streams = tuple(replace(stream, encoded=None) for stream in streams)


def _link_or_copy(source: Path, entry: ShardEntry, target: Path) -> str:
    path = temporary_path(target)
    try:
        path.hardlink_to(source)
    except OSError:  # another file system, or one without hard links
        return _copy(source, entry, target)
    try:
        expect_regular(path, entry.bytes)
    except BaseException:
        path.unlink()
        raise
    return path.name


def _copy(source: Path, entry: ShardEntry, target: Path) -> str:
    file = NewFile(target)
    try:
        for chunk in read_chunks(source, entry.bytes, _CHUNK_BYTES):
            file.write(chunk)
        file.finish()
        got = f"{file.crc32:08x}"
        if got != entry.crc32:
            raise StoreError(f"{source}: expected checksum {entry.crc32}, got {got}")
    except BaseException:
        file.discard()
        raise
    return file.path.name
