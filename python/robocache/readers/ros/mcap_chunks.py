"""Chunks of MCAP files, whose decompressed sizes are checked against the stored bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from robocache.readers.decompress import BOUNDED, ZSTD_HEAD, zstd_size
from robocache.readers.errors import RecordingError
from robocache.readers.limits import check_resident, check_total

_CHUNK = 0x06  # the opcode of the record
_HEAD = struct.Struct("<BQ")  # opcode and length of a record
_SIZES = struct.Struct("<QQQI")  # of a chunk: start, end, bytes decompressed, checksum
_LZ4_GROWTH = 255  # the largest ratio of an lz4 block


@dataclass(frozen=True)
class Chunk:
    """A chunk of messages, by its header in the file."""

    offset: int
    start: int
    end: int
    """The times (ns) of its first and last message."""
    compression: str
    data: int
    """The offset of its compressed bytes."""
    stored: int
    """The number of compressed bytes."""
    size: int
    """The number of decompressed bytes that the header states."""


def chunk_at(file: BinaryIO, offset: int) -> Chunk | None:
    """The chunk whose record begins at an offset; None if there is another record.

    Raises:
        ValueError: If it is cut off.
    """
    file.seek(offset)
    head = file.read(_HEAD.size + _SIZES.size + 4)
    if len(head) < _HEAD.size or head[0] != _CHUNK:
        return None
    try:
        start, end, size, _ = _SIZES.unpack_from(head, _HEAD.size)
        (length,) = struct.unpack_from("<I", head, _HEAD.size + _SIZES.size)
        compression = file.read(min(length, 64)).decode("utf-8", "replace")
        (stored,) = struct.unpack("<Q", file.read(8))
    except struct.error:
        raise ValueError(f"a chunk at byte {offset:,} that is cut off") from None
    return Chunk(offset, start, end, compression, file.tell(), stored, size)


def chunks_of(file: BinaryIO) -> Iterator[Chunk]:
    """The chunks of a file without an index, in order."""
    end, at = file.seek(0, 2), 8
    while at + _HEAD.size <= end:
        file.seek(at)
        opcode, length = _HEAD.unpack(file.read(_HEAD.size))
        if opcode == _CHUNK and (chunk := chunk_at(file, at)) is not None:
            yield chunk
        at += _HEAD.size + length


def check_chunks(path: Path, chunks: Iterable[Chunk], limit: int) -> None:
    """Raises for chunks that decompress to more than `limits` allow.

    Readers hold chunks whose times overlap in memory at once.

    Raises:
        RecordingError: If a chunk, those that overlap in time, or all do; or for one that is listed
            twice.
    """
    found = list(chunks)
    file_bytes = path.stat().st_size
    if len({chunk.offset for chunk in found}) != len(found):
        raise RecordingError(f"{path}: expected each chunk once in the index, got one twice")
    check_total(f"{path}, chunks", sum(chunk.size for chunk in found), file_bytes, limit)
    changes = sorted(
        [(chunk.start, chunk.size) for chunk in found]
        + [(max(chunk.start, chunk.end) + 1, -chunk.size) for chunk in found]
    )
    held = most = 0
    for _, size in changes:
        held += size
        most = max(most, held)
    check_resident(f"{path}, chunks that overlap in time", most, file_bytes, limit)
    with path.open("rb") as file:
        for chunk in found:
            _check_chunk(path, file, chunk, limit)


def _check_chunk(path: Path, file: BinaryIO, chunk: Chunk, limit: int) -> None:
    where = f"{path}, chunk at byte {chunk.offset:,}"
    check_resident(where, chunk.size, chunk.stored, limit)
    file.seek(chunk.data)
    if chunk.compression == "zstd":
        try:
            size = zstd_size(file.read(min(ZSTD_HEAD, chunk.stored)))
        except ValueError:
            size = None  # damaged, or frames of another kind before it
        if size == chunk.size:
            return
    elif chunk.compression != "lz4" or chunk.stored * _LZ4_GROWTH <= limit:
        return
    # The frame states no size, or another: the library would decompress it without a limit.
    file.seek(chunk.data)
    try:
        grown = len(BOUNDED[chunk.compression](file.read(chunk.stored), chunk.size))
    except (ValueError, RuntimeError) as error:
        raise RecordingError(f"{where}: expected {chunk.size:,} bytes, got {error}") from error
    if grown != chunk.size:
        raise RecordingError(f"{where}: expected {chunk.size:,} bytes, got {grown:,}")
