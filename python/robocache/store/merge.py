"""One store of several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
    """Makes a store of the episodes of others, in their order.

    Shards are hard links to those of the sources where both are on one file system (they are never
    changed), and copies elsewhere. Statistics are merged: moments and counts as if all rows had
    been there at once, quantiles within their rank error. All becomes part of the destination in
    one step.

    Args:
        sources: Folders of stores. They are only read; one that is appended to meanwhile counts as
            it was at the start.
        destination: Folder of the new store. It is made where there is none; a store without
            episodes may be there.

    Raises:
        StoreError: A source is no store or damaged (data is read, and so checked, only where it has
            to be copied; ``verify`` checks what was linked), is named twice, or has a stream of
            another type, shape, method, units, channels or timeline than one before it; or there is
            a store already. Nothing is written then.
        OSError: The disk is full, or the like. The destination is as it was then.

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
            for shard in shards:  # where they were not renamed
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
            # A writer has replaced it since.


def _shards(
    folder: Path, manifest: Manifest, statistics: dict[str, StreamStatistics], target: Path
) -> Iterator[Shard]:
    """A source's shards, in the destination under temporary names."""
    for entry in manifest.shards:
        yield Shard(
            _link_or_copy(folder / entry.file, entry, target),
            entry.bytes,
            int(entry.header_crc32, 16),
            int(entry.crc32, 16),
            entry.episodes,
            manifest.streams,
            tuple(manifest.tasks[task] for task in entry.tasks),
            tuple(manifest.subsets[subset] for subset in entry.subsets),
            statistics,
        )
        statistics = {}  # the first shard brings them for all


def _link_or_copy(source: Path, entry: ShardEntry, target: Path) -> str:
    path = temporary_path(target)
    try:
        path.hardlink_to(source)
    except OSError:  # another file system, or one without links
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
