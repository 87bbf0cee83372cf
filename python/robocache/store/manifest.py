"""`manifest.json`: what a store holds, and the checksum of that text.

    {"format": "robocache-store", "version": 1,
     "streams": [...], "tasks": [...], "subsets": [...], "shards": [...], "statistics": ...
    ,"crc32":"xxxxxxxx"}                <- the CRC-32 of all bytes before the comma

docs/store.md describes every field.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from robocache.store.dtypes import STORAGE
from robocache.store.errors import StoreError
from robocache.store.files import SHARD, STATISTICS
from robocache.store.streams import StreamEntry, StreamFacts, check_name, make_facts

NAME = "manifest.json"
FORMAT = "robocache-store"
VERSION = 1
_SUFFIX_BYTES = len(b',"crc32":"00000000"}\n')

T = TypeVar("T")


@dataclass(frozen=True)
class ShardEntry:
    """A shard of a store.

    Attributes:
        file: Its name in the store's folder.
        bytes: Its size.
        header_crc32: CRC-32 of its header, with the 8 bytes before it, as 8 hex digits.
        crc32: Of the whole file.
        episodes: How many it holds.
        tasks: For each number of a task in the shard, the number in the manifest.
        subsets: The same for subsets.
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
        file: Name of the file that holds the state from which they go on.
        bytes: Its size.
        crc32: Of the whole file.
        streams: For each stream its numbers, as JSON has them.
    """

    file: str
    bytes: int
    crc32: str
    streams: dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says."""

    streams: tuple[StreamEntry, ...] = ()
    tasks: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()
    shards: tuple[ShardEntry, ...] = ()
    statistics: StatisticsEntry | None = None

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
                f'{{"format": "{FORMAT}", "version": {VERSION},',
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
    facts = stream.facts
    return {
        "name": stream.name,
        "dtype": stream.dtype,
        "shape": stream.shape,
        "method": facts.method or stream.default_method,
        "units": facts.units,
        "channels": facts.channels,
        "rate": facts.rate,
        "timeline": facts.timeline or "time",
        "source": facts.source,
    }


# ---- reading -----------------------------------------------------------------------------------


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the store in `folder`.

    Raises:
        FileNotFoundError: There is none.
        StoreError: It is not a manifest, altered, of a newer version, or says what can't be.
    """
    path = folder / NAME
    return parse_manifest(path.read_bytes(), path)


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """The manifest that `data` is; `path` is for errors.

    Raises:
        StoreError: As :func:`read_manifest` does.
    """
    body, suffix = data[:-_SUFFIX_BYTES], data[-_SUFFIX_BYTES:]
    if suffix != f',"crc32":"{zlib.crc32(body):08x}"}}\n'.encode():
        raise StoreError(
            f"{path}: expected a manifest that ends with the checksum of its text, "
            f"got {len(data)} bytes ending with {data[-30:]!r}"
        )
    try:
        root = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: expected JSON, got {error}") from None
    return _manifest(_Node(root, str(path)))


@dataclass(frozen=True)
class _Node:
    """A value in the JSON, and where it is: `manifest.json: shards[3].bytes`."""

    value: Any
    where: str

    def error(self, expected: str) -> StoreError:
        return StoreError(f"{self.where}: expected {expected}, got {self.value!r:.80}")

    def at(self, key: str) -> _Node:
        if not isinstance(self.value, dict):
            raise self.error("an object")
        name = f"{self.where}.{key}" if ": " in self.where else f"{self.where}: {key}"
        if key not in self.value:
            raise StoreError(f"{name}: expected a value, got none")
        return _Node(self.value[key], name)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.error("a string")
        return self.value

    def count(self, limit: int = 2**63) -> int:
        if type(self.value) is not int or not 0 <= self.value < limit:
            raise self.error(f"an integer from 0 to {limit - 1}")
        return self.value

    def crc32(self) -> str:
        text = self.text()
        if len(text) != 8 or set(text) - set("0123456789abcdef"):
            raise self.error("8 hex digits")
        return text

    def each(self, parse: Callable[[_Node], T]) -> tuple[T, ...]:
        if not isinstance(self.value, list):
            raise self.error("a list")
        return tuple(parse(_Node(v, f"{self.where}[{i}]")) for i, v in enumerate(self.value))

    def distinct(self, items: Sequence[object]) -> None:
        if len(set(items)) != len(items):
            raise StoreError(f"{self.where}: expected no name twice, got {list(items)!r:.80}")


def _manifest(root: _Node) -> Manifest:
    if root.at("format").value != FORMAT:
        raise root.at("format").error(repr(FORMAT))
    version = root.at("version")
    if version.count() != VERSION:
        raise version.error(f"version {VERSION}, the one that this robocache reads")
    streams = root.at("streams").each(_stream)
    tasks = root.at("tasks").each(_Node.text)
    subsets = root.at("subsets").each(_Node.text)
    shards = root.at("shards").each(lambda node: _shard(node, len(tasks), len(subsets)))
    root.at("streams").distinct([stream.name for stream in streams])
    root.at("tasks").distinct(tasks)
    root.at("subsets").distinct(subsets)
    root.at("shards").distinct([shard.file for shard in shards])
    statistics = root.at("statistics")
    return Manifest(
        streams,
        tasks,
        subsets,
        shards,
        None if statistics.value is None else _statistics(statistics),
    )


def _stream(node: _Node) -> StreamEntry:
    dtype = node.at("dtype")
    if dtype.value not in STORAGE:
        raise dtype.error(f"one of {', '.join(STORAGE)}")
    shape = node.at("shape").each(_Node.count)
    if 0 in shape:
        raise node.at("shape").error("sizes of at least 1")
    facts = ("method", "units", "channels", "rate", "timeline", "source")
    try:
        entry = StreamEntry(check_name(node.at("name").value), dtype.value, shape)
        said: StreamFacts = make_facts(entry.name, **{fact: node.at(fact).value for fact in facts})
        return replace(entry, facts=StreamFacts()).with_facts(said)
    except StoreError:
        raise
    except (TypeError, ValueError) as error:
        raise StoreError(f"{node.where}: {error}") from None


def _shard(node: _Node, tasks: int, subsets: int) -> ShardEntry:
    file = node.at("file")
    if not SHARD.fullmatch(file.text()):
        raise file.error("a name like shard-00000.safetensors")
    return ShardEntry(
        file.text(),
        node.at("bytes").count(),
        node.at("header_crc32").crc32(),
        node.at("crc32").crc32(),
        node.at("episodes").count(),
        node.at("tasks").each(lambda index: index.count(tasks)),
        node.at("subsets").each(lambda index: index.count(subsets)),
    )


def _statistics(node: _Node) -> StatisticsEntry:
    file = node.at("file")
    if not STATISTICS.fullmatch(file.text()):
        raise file.error("a name like statistics-00000.safetensors")
    streams = node.at("streams")
    if not isinstance(streams.value, dict):
        raise streams.error("an object")
    return StatisticsEntry(
        file.text(), node.at("bytes").count(), node.at("crc32").crc32(), streams.value
    )
