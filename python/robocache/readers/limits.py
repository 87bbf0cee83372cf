"""Limits on memory and time that a recording may ask for, whatever sizes it states.

A recording states sizes: of arrays, of rows, of what compressed bytes become. Nothing is allocated
for a stated size before these functions compared it with the bytes that exist. The rules are here
alone, and `ReadOptions.memory_limit` raises them all.
"""

from __future__ import annotations

from robocache.readers.errors import RecordingError

MEMORY_LIMIT = 4 << 30
"""The default of `ReadOptions.memory_limit`, bytes."""

MAX_EXPANSION = 1100
"""How many times larger than its stored bytes a part may be: deflate, the most common compression,
reaches 1,032."""

MAX_STREAMS = 10_000
"""Streams of one recording: robots have some hundred, and every one costs time and memory."""


def max_resident(stored: int, limit: int) -> int:
    """Bytes that a part of a recording may take in memory at once.

    Args:
        stored: Its bytes on disk; 0 where it has none.
        limit: `ReadOptions.memory_limit`.

    Returns:
        `stored` where that is more than the limit; else up to the limit, but not more than the
        larger of 1/16 of the limit and `MAX_EXPANSION` times `stored`.
    """
    return max(stored, min(limit, max(limit // 16, MAX_EXPANSION * stored)))


def max_total(stored: int, limit: int) -> int:
    """Bytes that all rows of a stream or file may amount to, read one part after the other."""
    return max(limit, MAX_EXPANSION * stored)


def check_resident(where: str, size: int, stored: int, limit: int) -> None:
    """Refuses a part that would take too much memory.

    Args:
        where: File and field: ``a.npz, array imu``.
        size: The bytes that it would take.
        stored: See `max_resident`.
        limit: See `max_resident`.

    Raises:
        RecordingError: If it does.
    """
    _check(where, "at once", size, max_resident(stored, limit), stored)


def check_total(where: str, size: int, stored: int, limit: int) -> None:
    """Refuses rows whose stated size no stored bytes account for; arguments as `check_resident`.

    Raises:
        RecordingError: If there are too many.
    """
    _check(where, "in all", size, max_total(stored, limit), stored)


def _check(where: str, how: str, size: int, most: int, stored: int) -> None:
    if size > most:
        raise RecordingError(
            f"{where}: expected at most {most:,} bytes {how} for {stored:,} stored bytes, "
            f"got {size:,} (memory_limit, or --memory-limit, allows more)"
        )


def check_streams(path: object, count: int) -> None:
    """Refuses a recording of too many streams.

    Raises:
        RecordingError: If there are more than `MAX_STREAMS`.
    """
    if count > MAX_STREAMS:
        raise RecordingError(f"{path}: expected at most {MAX_STREAMS:,} streams, got {count:,}")
