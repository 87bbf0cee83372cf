"""Changes of a manifest at a commit: declarations of streams, and an added shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from robocache.store.errors import StoreError
from robocache.store.library import MAX_SUBSETS
from robocache.store.manifest import Manifest, ShardEntry
from robocache.store.shard import Shard
from robocache.store.streams import StreamEntry, StreamMetadata, declared, joined


def with_declarations(
    streams: Iterable[StreamEntry], declarations: Mapping[str, StreamMetadata]
) -> tuple[StreamEntry, ...]:
    """Replaces the metadata of streams by the fields that a user declared."""
    return tuple(
        declared(stream, declarations[stream.name]) if stream.name in declarations else stream
        for stream in streams
    )


def with_shard(
    manifest: Manifest, shard: Shard, declarations: Mapping[str, StreamMetadata], folder: Path
) -> Manifest:
    """Adds a shard to a manifest, and merges its streams, tasks and subsets.

    Args:
        manifest: The manifest before the commit.
        shard: The finished shard.
        declarations: Declared metadata by stream.
        folder: The store's folder, for messages.

    Raises:
        StoreError: A stream differs from the store's, or the shard has more than 64 subsets.
    """
    streams = {stream.name: stream for stream in with_declarations(manifest.streams, declarations)}
    where = f"{folder / shard.file}"
    for stream in shard.streams:
        known = streams.get(stream.name)
        streams[stream.name] = stream if known is None else joined(known, stream, where)
    tasks = _numbered((*manifest.tasks, *shard.tasks))
    subsets = _numbered((*manifest.subsets, *shard.subsets))
    if len(shard.subsets) > MAX_SUBSETS:
        raise StoreError(f"{where}: expected at most {MAX_SUBSETS} subsets in a shard")
    entry = ShardEntry(
        file=f"shard-{next_number(entry.file for entry in manifest.shards):05d}.safetensors",
        **shard.manifest_fields,
        episodes=shard.episodes,
        tasks=tuple(tasks[task] for task in shard.tasks),
        subsets=tuple(subsets[subset] for subset in shard.subsets),
    )
    return replace(
        manifest,
        streams=with_declarations(streams.values(), declarations),
        tasks=tuple(tasks),
        subsets=tuple(subsets),
        shards=(*manifest.shards, entry),
    )


def next_number(files: Iterable[str]) -> int:
    """The number for the next file: 1 above the greatest; `shard-00007.safetensors` has 7."""
    return max((int(file.split("-")[1].split(".")[0]) for file in files), default=-1) + 1


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """The index of each name among the distinct names."""
    return {name: i for i, name in enumerate(dict.fromkeys(names))}
