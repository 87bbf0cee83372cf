"""`manifest.json`: the list of a store's streams, tasks and shards, with a checksum.

    {"format": "robocache-store", "version": 1,      <- 2 with streams of ragged rows
     "streams": [...], "tasks": [...], "subsets": [...], "shards": [...], "statistics": ...
    ,"crc32":"xxxxxxxx"}                <- the CRC-32 of all bytes before the comma

docs/store.md describes every field.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robocache.jpeg.encoded import EncodedFrames
from robocache.store.library import OpenStore
from robocache.store.streams import Encoding, StreamEntry, StreamMetadata

NAME = "manifest.json"
FORMAT = "robocache-store"
VERSION = 1
VERSION_OF_RAGGED_ROWS = 2
"""The version of a manifest with ragged streams; others stay of version 1."""
MOST_BYTES = 256 << 20
"""Maximum size of a manifest; enough for millions of tasks."""


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has a store's manifest."""
    return (Path(path) / NAME).is_file()


@dataclass(frozen=True)
class ShardEntry:
    """A shard of a store.

    Attributes:
        file: Name of the file in the store's folder.
        bytes: Size of the file.
        header_crc32: CRC-32 of the header and the 8 bytes before it, as 8 hex digits.
        crc32: CRC-32 of the whole file, as 8 hex digits.
        episodes: Number of episodes.
        tasks: For each index of a task in the shard, its index in the manifest.
        subsets: For each index of a subset in the shard, its index in the manifest.
    """

    file: str
    bytes: int
    header_crc32: str
    crc32: str
    episodes: int
    tasks: tuple[int, ...]
    subsets: tuple[int, ...]


@dataclass(frozen=True)
class StatisticsEntry:
    """The statistics of a store.

    Attributes:
        file: Name of the file with the state, to which statistics of new shards are merged.
        bytes: Size of the file.
        crc32: CRC-32 of the whole file, as 8 hex digits.
        streams: The summary of each stream as JSON values; a stream may be absent.
    """

    file: str
    bytes: int
    crc32: str
    streams: dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """The contents of `manifest.json`."""

    streams: tuple[StreamEntry, ...] = ()
    tasks: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    shards: tuple[ShardEntry, ...] = ()
    statistics: StatisticsEntry | None = None

    @property
    def version(self) -> int:
        """The format's version: the lowest that has what the streams need."""
        is_ragged = any(stream.is_ragged for stream in self.streams)
        return VERSION_OF_RAGGED_ROWS if is_ragged else VERSION

    def to_bytes(self) -> bytes:
        """The text of the file."""
        statistics = "null"
        if self.statistics is not None:
            entry = vars(self.statistics)
            fields = [f"{_json(key)}: {_json(entry[key])}" for key in ("file", "bytes", "crc32")]
            streams = [f"{_json(name)}: {_json(s)}" for name, s in entry["streams"].items()]
            fields.append(f'"streams": {_lines(streams, "{}")}')
            statistics = "{" + ", ".join(fields) + "}"
        body = "\n ".join(
            [
                f'{{"format": "{FORMAT}", "version": {self.version},',
                f'"streams": {_lines([_json(_stream_json(s)) for s in self.streams])},',
                f'"tasks": {_lines([_json(task) for task in self.tasks])},',
                f'"subsets": {_lines([_json(subset) for subset in self.subsets])},',
                f'"shards": {_lines([_json(vars(shard)) for shard in self.shards])},',
                f'"statistics": {statistics}',
            ]
        ).encode()
        return body + f',"crc32":"{zlib.crc32(body):08x}"}}\n'.encode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _lines(items: Sequence[str], brackets: str = "[]") -> str:
    return brackets[0] + ",\n  ".join(items) + brackets[1]


def _stream_json(stream: StreamEntry) -> dict[str, Any]:
    metadata = stream.metadata
    return {
        "name": stream.name,
        "dtype": stream.dtype,
        "shape": (None, *stream.shape) if stream.is_ragged else stream.shape,
        **({} if stream.encoding is None else {"encoding": _encoding_json(stream)}),
        "method": metadata.method or stream.default_method,
        "units": metadata.units,
        "channels": metadata.channels,
        "rate": metadata.rate,
        "timeline": metadata.timeline or "time",
        "source": metadata.source,
    }


def _encoding_json(stream: StreamEntry) -> dict[str, Any]:
    encoded = {} if stream.encoded is None else {"encoded": vars(stream.encoded)}
    return {**vars(stream.encoding), **encoded}


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of the store in `folder`; the C++ library opens and validates the store.

    Raises:
        StoreError: The folder is no store, is damaged, or has a newer version.
    """
    return parse_manifest(OpenStore(str(folder)).manifest())


def parse_manifest(text: bytes) -> Manifest:
    """Parses the text of a manifest that the C++ library has validated.

    The format's optional members `units`, `channels`, `rate` and `source` of a stream are None
    where the text lacks them.
    """
    root = json.loads(text)
    statistics = root.get("statistics")
    return Manifest(
        tuple(map(_stream, root["streams"])),
        tuple(root["tasks"]),
        tuple(root["subsets"]),
        tuple(
            ShardEntry(
                **{key: shard[key] for key in ("file", "bytes", "header_crc32", "crc32")},
                episodes=shard["episodes"],
                tasks=tuple(shard["tasks"]),
                subsets=tuple(shard["subsets"]),
            )
            for shard in root["shards"]
        ),
        None
        if statistics is None
        else StatisticsEntry(
            **{key: statistics[key] for key in ("file", "bytes", "crc32", "streams")}
        ),
    )


def _stream(stream: dict[str, Any]) -> StreamEntry:
    method, channels, rate = stream["method"], stream.get("channels"), stream.get("rate")
    metadata = StreamMetadata(
        method if isinstance(method, str) else tuple((name, width) for name, width in method),
        stream.get("units"),
        None if channels is None else tuple(channels),
        None if rate is None else float(rate),
        stream["timeline"],
        stream.get("source"),
    )
    shape = tuple(stream["shape"])
    is_ragged = shape[:1] == (None,)
    encoding = encoded = None
    if (stated := stream.get("encoding")) is not None and is_ragged:
        sizes = tuple(stated["shape"])
        encoding = Encoding(stated["name"], sizes, stated["mcus_per_entry"])
        encoded = _encoded(stated.get("encoded"))
    return StreamEntry(
        stream["name"], stream["dtype"], shape[is_ragged:], metadata, is_ragged, encoding, encoded
    )


def _encoded(stated: dict[str, Any] | None) -> EncodedFrames | None:
    if stated is None:
        return None
    psnr, lowest = stated.get("psnr"), stated.get("lowest_psnr")
    return EncodedFrames(
        stated["frames"],
        stated.get("quality"),
        stated.get("chroma"),
        stated["measured"],
        None if psnr is None else float(psnr),
        None if lowest is None else float(lowest),
    )
