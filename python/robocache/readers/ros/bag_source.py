"""The interface of a source of messages, and ROS 1 and ROS 2 bags, which rosbags reads."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robocache.core.extras import require
from robocache.readers.decompress import BOUNDED, zstd_bytes, zstd_parts
from robocache.readers.errors import RecordingError, head, reading
from robocache.readers.limits import check_resident, check_total, max_resident
from robocache.readers.recording import Method
from robocache.readers.ros.mcap_chunks import Chunk, check_chunks, chunks_of
from robocache.readers.ros.sqlite_tables import checked_reader, connect

ROS1_MAGIC = b"#ROSBAG V"
SQLITE_MAGIC = b"SQLite format 3\0"

ROS1 = "a ROS 1 bag"
ROS2 = "a ROS 2 bag"


@dataclass(frozen=True)
class Channel:
    """A topic with the type of its messages."""

    topic: str
    kind: str
    """The type's name, such as ``sensor_msgs/msg/Imu``."""
    encoding: str
    """Encoding of the messages: ``ros1``, ``cdr``, ``json``, or another that is not read."""
    schema_encoding: str
    """Encoding of the definition: ``ros1msg``, ``ros2msg``, ``ros2idl``; empty without one."""
    schema: str
    """The definition of the type, with those of the types that it uses."""
    handle: Any = None
    """The source's own handle."""
    method: Method | None = None
    """How alignment combines its numbers, if the file states it."""
    count: int | None = None
    """The number of its messages, if the file states it."""


class Source(ABC):
    """An opened file or folder of messages."""

    channels: list[Channel]
    knows_sending = False
    """Whether times of sending are recorded."""

    @abstractmethod
    def messages(self, channels: Sequence[Channel]) -> Iterator[tuple[Channel, int, int, bytes]]:
        """The messages of some channels: channel, times of receipt and sending (ns), bytes.

        The time of sending is that of receipt if the file does not record it.

        Raises:
            RecordingError: For what cannot be read.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes the file."""


class RosbagsSource(Source):
    """A bag that rosbags reads: ROS 1, a ROS 2 folder, or a single db3 file."""

    def __init__(self, path: Path, what: str, reader: Any, encoding: str, limit: int) -> None:
        """Opens a bag.

        Args:
            path: Its file or folder.
            what: The kind of bag, for messages.
            reader: A reader of rosbags that is not open yet.
            encoding: Of its messages.
            limit: `ReadOptions.memory_limit`.
        """
        self.path = path
        self._limit = limit
        self._what = what
        self._reader = reader
        with reading(path, what):
            reader.open()
            try:
                self._is_packed = _bound_storage(reader, limit)
            except BaseException:
                reader.close()
                raise
            self.channels = [_channel(c, encoding) for c in reader.connections]

    def messages(self, channels: Sequence[Channel]) -> Iterator[tuple[Channel, int, int, bytes]]:
        """As `Source.messages`."""
        if not channels:  # to rosbags, none would mean all
            return
        # By identity: a connection of rosbags contains lists, so it is not hashable.
        of = {id(channel.handle): channel for channel in channels}
        handles = [channel.handle for channel in channels]
        with reading(self.path, self._what):
            for handle, received, data in self._reader.messages(handles):
                channel = of.get(id(handle)) or _same(channels, handle)
                if self._is_packed:
                    data = zstd_bytes(data, max_resident(len(data), self._limit))
                yield channel, received, received, data

    def close(self) -> None:
        """Closes the bag."""
        self._reader.close()


def _same(channels: Sequence[Channel], handle: Any) -> Channel:
    """The channel of a connection that rosbags has recreated."""
    return next(c for c in channels if c.handle.id == handle.id)


def _channel(connection: Any, encoding: str) -> Channel:
    schema_encoding = {1: "ros2msg", 2: "ros2idl"}.get(connection.msgdef.format.value, "")
    return Channel(
        connection.topic,
        connection.msgtype,
        encoding,
        schema_encoding,
        connection.msgdef.data,
        connection,
        count=connection.msgcount,
    )


def _bound_storage(reader: Any, limit: int) -> bool:
    """Checks the decompressed sizes of the files of an opened ROS 2 bag.

    Returns:
        Whether its messages are compressed one by one; the caller must then decompress them.
    """
    inner = getattr(reader, "storage", None)
    for storage in getattr(inner, "storages", [inner]):
        chunks = [
            Chunk(
                chunk.chunk_start_offset,
                chunk.message_start_time,
                chunk.message_end_time,
                chunk.compression,
                chunk.chunk_start_offset + _MCAP_CHUNK_HEAD + len(chunk.compression),
                chunk.compressed_size,
                chunk.uncompressed_size,
            )
            for chunk in getattr(storage, "chunks", ())
        ]
        if chunks:
            check_chunks(Path(storage.path), chunks, limit)
        elif str(getattr(storage, "path", "")).endswith(".mcap"):
            with Path(storage.path).open("rb") as file:
                check_chunks(Path(storage.path), chunks_of(file), limit)
    is_packed = getattr(getattr(inner, "metadata", None), "compression_mode", None) == "message"
    if is_packed:
        assert inner is not None
        inner.metadata = inner.metadata._replace(compression_mode=None)
    return is_packed


_MCAP_CHUNK_HEAD = 9 + 40  # bytes before the compressed data, without the compression's name


def _ros1_reader(path: Path, limit: int) -> Any:
    """A reader of rosbags that decompresses a chunk up to its stated size, and reads each once."""
    module = require("rosbags.rosbag1", "ROS 1 bags", "ros").reader
    seen: set[int] = set()

    class Reader(module.Reader):  # type: ignore[misc,name-defined]
        """rosbags' reader, bounded."""

        def read_chunk_info(self) -> Any:
            info = super().read_chunk_info()
            if info.pos in seen:
                raise ValueError(f"chunk at byte {info.pos:,} twice in the index")
            seen.add(info.pos)
            return info

        def read_chunk(self) -> Any:
            begin = self.bio.tell()
            header = module.Header.read(self.bio, module.RecordType.CHUNK)
            size = header.get_uint32("size")
            compression = header.get_string("compression")
            self.bio.seek(begin)
            chunk = super().read_chunk()
            check_resident(f"{path}, chunk at byte {begin:,}", size, chunk.datasize, limit)
            if compression not in BOUNDED:
                return chunk
            unpack = BOUNDED[compression]
            return chunk._replace(decompressor=lambda data: unpack(data, size))

    return Reader(path)


def open_ros1(path: Path, limit: int) -> Source:
    """A ROS 1 bag, version 2.0; `limit` is `ReadOptions.memory_limit`."""
    with reading(path, ROS1):
        reader = _ros1_reader(path, limit)
    return RosbagsSource(path, ROS1, reader, "ros1", limit)


def open_ros2(path: Path, limit: int) -> Source:
    """A ROS 2 bag: its folder, or a db3 file of it alone; `limit` is `ReadOptions.memory_limit`."""
    for file in [f for f in path.iterdir() if f.is_file()] if path.is_dir() else [path]:
        # SQLite's error for an unreadable file is less specific.
        with reading(file, ROS2), file.open("rb") as stream:
            if file.suffix == ".zstd":  # which rosbags decompresses to a temporary file
                stored, grown = file.stat().st_size, 0
                for part in zstd_parts(stream):
                    grown += len(part)
                    check_total(str(file), grown, stored, limit)
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            # Its messages would be missing: the database is opened without its write-ahead log.
            raise RecordingError(
                f"{file}: expected a database that was closed, got one with messages in {log.name} "
                f"(sqlite3 {file.name} 'PRAGMA wal_checkpoint(TRUNCATE)' moves them in)"
            )
    if path.is_dir():
        reader = require("rosbags.rosbag2", "ROS 2 bags", "ros").Reader(path)
        folder = reader.storage
        folder.STORAGE_PLUGINS = {**folder.STORAGE_PLUGINS, "sqlite3": checked_reader(path)}
    else:
        reader = checked_reader(path)(path)
    return RosbagsSource(path, ROS2, reader, "cdr", limit)


def is_ros1(path: Path) -> bool:
    """Whether a file is a ROS 1 bag."""
    return head(path).startswith(ROS1_MAGIC)


def is_ros2(path: Path) -> bool:
    """Whether a folder is a ROS 2 bag, or a file one of its databases."""
    if path.is_dir():
        metadata = path / "metadata.yaml"
        if not metadata.is_file():
            return False
        with metadata.open("rb") as file:
            return b"rosbag2_bagfile_information" in file.read(4096)
    if not head(path).startswith(SQLITE_MAGIC):
        return False
    try:
        with closing(connect(path)) as database:
            names = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:
        # A damaged database is recognized by its name.
        return path.suffix == ".db3"
    return {"messages", "topics"} <= names
