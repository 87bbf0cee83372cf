"""Decompression of untrusted bytes up to a stated size, whatever they would become."""

from __future__ import annotations

import bz2
import io
from collections.abc import Callable, Iterator
from typing import IO, Any

from robocache.readers.recording import require

_STEP = 1 << 20  # bytes that are decompressed at a time, to count them
ZSTD_HEAD = 18
"""Bytes of a zstd frame that state its decompressed size, where it states it."""


def bz2_bytes(data: bytes, most: int) -> bytes:
    """The bytes that bz2 streams hold.

    Raises:
        ValueError: If they are more than `most`, or cut off.
        OSError: If they are damaged.
    """
    parts: list[bytes] = []
    left = most
    while data:
        stream = bz2.BZ2Decompressor()
        parts.append(stream.decompress(data, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise ValueError(f"bz2 data of more than {most:,} bytes")
        if not stream.eof:
            raise ValueError("bz2 data that are cut off")
        data = stream.unused_data
    return b"".join(parts)


def lz4_bytes(data: bytes, most: int) -> bytes:
    """The bytes that an lz4 frame holds.

    Raises:
        ValueError: If they are more than `most`, or cut off.
        RuntimeError: If they are damaged.
    """
    stream = require("lz4.frame", "lz4", "ros").LZ4FrameDecompressor()
    found: bytes = stream.decompress(data, most + 1)
    if len(found) > most:
        raise ValueError(f"lz4 data of more than {most:,} bytes")
    if not stream.eof:
        raise ValueError("lz4 data that are cut off")
    return found


def zstd_bytes(data: bytes, most: int) -> bytes:
    """The bytes that zstd frames hold.

    Raises:
        ValueError: If they are more than `most`, or damaged.
    """
    found = bytearray()
    for part in zstd_parts(io.BytesIO(data)):
        found += part
        if len(found) > most:
            raise ValueError(f"zstd data of more than {most:,} bytes")
    return bytes(found)


def zstd_parts(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes that the zstd frames of a file hold, a bounded part at a time.

    Raises:
        ValueError: If they are damaged.
    """
    zstandard = require("zstandard", "zstd", "ros")
    try:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        while part := stream.read(_STEP):
            yield part
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def zstd_size(data: bytes) -> int | None:
    """The decompressed size that a zstd frame states; None if it states none.

    Raises:
        ValueError: If it is not a zstd frame.
    """
    zstandard = require("zstandard", "zstd", "ros")
    try:
        size: int = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    return None if size < 0 else size


BOUNDED: dict[str, Callable[[bytes, int], Any]] = {
    "none": lambda data, most: data,
    "bz2": bz2_bytes,
    "lz4": lz4_bytes,
    "zstd": zstd_bytes,
}
"""By the name of the compression."""
