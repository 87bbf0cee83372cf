"""Limits on the memory and time that reading a recording may take.

A recording states sizes: of arrays, of rows, of decompressed data. Readers call these functions,
which compare a stated size with the bytes that are stored, before they allocate memory for it.
`ReadOptions.memory_limit` raises all limits in bytes. Limits on the definitions of messages are in
:mod:`robocache.readers.ros.definition_limits` and :mod:`robocache.readers.ulog`.
"""

from __future__ import annotations

from collections.abc import Sequence

from robocache.readers.errors import RecordingError

MEMORY_LIMIT = 4 << 30
"""The default of `ReadOptions.memory_limit`, bytes."""

MAX_EXPANSION = 1100
"""The largest ratio of the bytes of a part in memory to its stored bytes: deflate, the most common
compression, reaches 1,032."""

MAX_STREAMS = 10_000
"""Streams of a file or a message type: robots have some hundred, and each costs time and memory."""


def max_resident(stored: int, limit: int) -> int:
    """The most bytes that a part of a recording may take in memory at once.

    Args:
        stored: Its bytes on disk; 0 for a part that is not stored.
        limit: `ReadOptions.memory_limit`.

    Returns:
        `stored` where that is more than the limit; else up to the limit, but not more than the
        larger of 1/16 of the limit and `MAX_EXPANSION` times `stored`.
    """
    return max(stored, min(limit, max(limit // 16, MAX_EXPANSION * stored)))


def max_total(stored: int, limit: int) -> int:
    """The most bytes that all rows of a stream or file may have, read one part after the other."""
    return max(limit, MAX_EXPANSION * stored)


def check_resident(where: str, size: int, stored: int, limit: int) -> None:
    """Raises for a part that would take more memory than `max_resident` allows.

    Args:
        where: File and field: ``a.npz, array imu``.
        size: The bytes that it would take in memory.
        stored: See `max_resident`.
        limit: See `max_resident`.

    Raises:
        RecordingError: If `size` is above the limit.
    """
    _check(where, "at once", size, max_resident(stored, limit), stored)


def check_rows(where: str, shape: Sequence[int], size: int, stored: int, limit: int) -> None:
    """`check_total` for an array of rows and their times.

    Args:
        where: See `check_resident`.
        shape: Of the array; an array without axes is one row.
        size: The bytes of the array in memory.
        stored: See `max_resident`.
        limit: See `max_resident`.

    Raises:
        RecordingError: If the rows and their times, of 8 bytes each, are above the limit.
    """
    check_total(where, size + 8 * (shape[0] if shape else 1), stored, limit)


def check_total(where: str, size: int, stored: int, limit: int) -> None:
    """Raises for rows whose total size is above `max_total`; arguments as `check_resident`.

    Raises:
        RecordingError: If `size` is above the limit.
    """
    _check(where, "in all", size, max_total(stored, limit), stored)


def _check(where: str, how: str, size: int, most: int, stored: int) -> None:
    if size > most:
        raise RecordingError(
            f"{where}: expected at most {most:,} bytes {how} for {stored:,} stored bytes, "
            f"got {size:,} (memory_limit, or --memory-limit, allows more)"
        )


def check_streams(path: object, count: int) -> None:
    """Raises for a file or a message type that has too many streams.

    Raises:
        RecordingError: If there are more than `MAX_STREAMS`.
    """
    if count > MAX_STREAMS:
        raise RecordingError(f"{path}: expected at most {MAX_STREAMS:,} streams, got {count:,}")
