"""MCAP files as a source of messages, read by the mcap library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robocache.core.extras import require
from robocache.readers.errors import head, reading
from robocache.readers.ros.bag_source import Channel, Source
from robocache.readers.ros.mcap_chunks import Chunk, check_chunks, chunk_at, chunks_of
from robocache.readers.ros.mcap_method import read_method

MAGIC = b"\x89MCAP0\r\n"
MCAP = "an MCAP file"


class McapSource(Source):
    """The messages of an MCAP file."""

    knows_sending = True

    def __init__(self, path: Path, limit: int) -> None:
        """Opens a file; `limit` is `ReadOptions.memory_limit`."""
        self.path = path
        self._library = require("mcap.reader", "MCAP", "ros")
        with reading(path, MCAP):
            self._file = path.open("rb")
        try:
            with reading(path, MCAP):
                self._reader = self._library.make_reader(self._file, validate_crcs=True)
                summary = self._reader.get_summary()
                self._is_indexed = bool(summary and summary.chunk_indexes and summary.channels)
                check_chunks(path, self._chunks(summary), limit)
                found = (
                    [(summary.schemas.get(c.schema_id), c) for c in summary.channels.values()]
                    if self._is_indexed
                    else self._scan_channels()
                )
            statistics = summary.statistics if summary and self._is_indexed else None
            counts = statistics.channel_message_counts if statistics else {}
            self.channels = [
                _channel(schema, channel, counts.get(channel.id)) for schema, channel in found
            ]
        except BaseException:
            self._file.close()
            raise

    def _chunks(self, summary: Any) -> Iterator[Chunk]:
        """The chunks that will be read: those of the index, if the file has a usable one."""
        if not self._is_indexed:
            yield from chunks_of(self._file)
            return
        for index in summary.chunk_indexes:
            chunk = chunk_at(self._file, index.chunk_start_offset)
            if chunk is None:
                raise ValueError(f"no chunk at byte {index.chunk_start_offset:,}, as indexed")
            # The library orders chunks by the times of the index.
            yield replace(chunk, start=index.message_start_time, end=index.message_end_time)

    def _scan_channels(self) -> list[tuple[Any, Any]]:
        """The channels with messages of a file without an index; reads the whole file."""
        found: dict[int, tuple[Any, Any]] = {}
        for schema, channel, _ in self._from_start().iter_messages(log_time_order=False):
            found.setdefault(channel.id, (schema, channel))
        return list(found.values())

    def _from_start(self) -> Any:
        self._file.seek(0)
        return self._library.NonSeekingReader(self._file, validate_crcs=True)

    def messages(self, channels: Sequence[Channel]) -> Iterator[tuple[Channel, int, int, bytes]]:
        """As `Source.messages`."""
        of = {channel.handle: channel for channel in channels}
        topics = {channel.topic for channel in channels}
        reader = self._reader if self._is_indexed else self._from_start()
        with reading(self.path, MCAP):
            # With an index, reading by time loads chunks one after another, and reading in file
            # order would load all of them first. Without an index it is the reverse.
            messages = reader.iter_messages(topics, log_time_order=self._is_indexed)
            for _, recorded, message in messages:
                channel = of.get(recorded.id)
                if channel is not None:
                    sent = message.publish_time or message.log_time
                    yield channel, message.log_time, sent, message.data

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _channel(schema: Any, channel: Any, count: int | None) -> Channel:
    kind = schema.name if schema else ""
    if channel.message_encoding in ("ros1", "cdr"):
        kind = require("rosbags.typesys.msg", "ROS messages", "ros").normalize_msgtype(kind)
    return Channel(
        channel.topic,
        kind,
        channel.message_encoding,
        schema.encoding if schema else "",
        schema.data.decode("utf-8", "replace") if schema else "",
        channel.id,
        read_method(channel.metadata),
        count,
    )


def is_mcap(path: Path) -> bool:
    """Whether a file is an MCAP file."""
    return head(path).startswith(MAGIC)
