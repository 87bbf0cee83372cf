"""Decompression of untrusted bytes up to a limit, which stops decompression bombs."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from robocache.core.extras import require
from robocache.readers.limits import MAX_EXPANSION, check_resident, max_resident

_STEP = 1 << 20  # bytes that are decompressed at a time, to count them
_ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_HEAD = 18
"""Bytes at the start of a zstd frame that contain its decompressed size, if it has one."""


def bz2_bytes(data: bytes, most: int) -> bytes:
    """Decompresses bz2 streams.

    Raises:
        ValueError: If the result is larger than `most`, or the data are cut off.
        OSError: For damaged data.
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
    """Decompresses an lz4 frame.

    Raises:
        ValueError: If the result is larger than `most`, or the data are cut off.
        RuntimeError: For damaged data.
    """
    stream = require("lz4.frame", "lz4", "ros").LZ4FrameDecompressor()
    decompressed: bytes = stream.decompress(data, most + 1)
    if len(decompressed) > most:
        raise ValueError(f"lz4 data of more than {most:,} bytes")
    if not stream.eof:
        raise ValueError("lz4 data that are cut off")
    return decompressed


def zstd_bytes(data: bytes, most: int) -> bytes:
    """Decompresses zstd frames.

    Raises:
        ValueError: If the result is larger than `most`, or the data are damaged.
    """
    decompressed = bytearray()
    for part in zstd_parts(io.BytesIO(data)):
        decompressed += part
        if len(decompressed) > most:
            raise ValueError(f"zstd data of more than {most:,} bytes")
    return bytes(decompressed)


def zstd_parts(file: IO[bytes]) -> Iterator[bytes]:
    """Decompresses the zstd frames of a file, a bounded part at a time.

    Raises:
        ValueError: For damaged data.
    """
    zstandard = require("zstandard", "zstd", "ros")
    try:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        while part := stream.read(_STEP):
            yield part
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def zstd_size(data: bytes) -> int | None:
    """The decompressed size that a zstd frame states (RFC 8878, 3.1.1); None if it states none.

    Raises:
        ValueError: If it is not a zstd frame.
    """
    if not data.startswith(_ZSTD) or len(data) < 5:
        raise ValueError("expected a zstd frame")
    flags = data[4]
    is_single = flags & 0x20 != 0
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    width = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    if width == 0:
        return None
    if len(data) < at + width:
        raise ValueError("expected a zstd frame, got one that is cut off")
    return int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)


BOUNDED: dict[str, Callable[[bytes, int], Any]] = {
    "none": lambda data, most: data,
    "bz2": bz2_bytes,
    "lz4": lz4_bytes,
    "zstd": zstd_bytes,
}
"""Functions that decompress at most a number of bytes, by the name of the compression."""


def refuse_growth(where: str, data: bytes, limit: int) -> None:
    """Raises for compressed data that decompress to more than `limits` allow.

    It precedes libraries that decompress without a limit. The first bytes of the data identify the
    compression (zstd, bz2, xz, lzma, gzip, zlib, Blosc); data of other kinds and damaged data pass.

    Args:
        where: For errors: the file and the part.
        data: The compressed data.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: If the decompressed data are too large.
    """
    most = max_resident(len(data), limit)
    grown = 0
    try:
        if data.startswith(_ZSTD):
            stated = zstd_size(data[:ZSTD_HEAD])
            grown = stated or 0
            is_known = stated is not None or importlib.util.find_spec("zstandard") is None
            parts = iter(()) if is_known else zstd_parts(io.BytesIO(data))
        elif data.startswith(b"BZh"):
            parts = _parts(cast(IO[bytes], bz2.BZ2File(io.BytesIO(data))))
        elif data.startswith((b"\xfd7zXZ", b"\x5d\0\0")):
            parts = _parts(cast(IO[bytes], lzma.LZMAFile(io.BytesIO(data))))  # noqa: SIM115
        elif data.startswith(b"\x1f\x8b") and len(data) * MAX_EXPANSION > limit:
            parts = _parts(cast(IO[bytes], gzip.GzipFile(fileobj=io.BytesIO(data))))
        elif data.startswith(b"\x78") and len(data) * MAX_EXPANSION > limit:
            parts = inflated_parts(data)
        elif is_blosc(data):
            grown, parts = int.from_bytes(data[4:8], "little"), iter(())
        else:
            return
        for part in parts:
            grown += len(part)
            if grown > most:
                break
    except (ValueError, OSError, EOFError, lzma.LZMAError, zlib.error):
        pass  # the library reports what is damaged
    check_resident(where, grown, len(data), limit)


def is_blosc(data: bytes) -> bool:
    """Whether data begin with the header of a Blosc buffer, which states its size in 4 bytes."""
    return len(data) >= 16 and data[0] in (1, 2) and data[12:16] == struct.pack("<I", len(data))


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while part := file.read(_STEP):
        yield part


def inflated_parts(data: bytes) -> Iterator[bytes]:
    """Decompresses zlib's data, a bounded part at a time.

    Raises:
        zlib.error: For damaged data.
    """
    stream = zlib.decompressobj()
    while data and not stream.eof:
        yield stream.decompress(data, _STEP)
        data = stream.unconsumed_tail
