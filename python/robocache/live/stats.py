"""Counters of a LiveAligner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LiveStats:
    """Counters of a stream since the construction of the aligner.

    Every row that was pushed is in the ring, held, or counted as too late, future, outdated or
    forgotten.
    """

    pushed: int
    """Rows that the ring took."""
    dropped_full: int
    """Rows that it had no room for: queries were behind."""
    refused: int
    """Rows of a wrong size."""
    taken: int
    """Rows that queries took out of the ring."""
    clock_back: int
    """Rows stamped before the one that arrived just before."""
    late: int
    """Rows stamped before the newest held, and put in their place."""
    too_late: int
    """Rows stamped before all that are held, of a full buffer: given up."""
    repeated: int
    """Rows stamped like one that is held; both are kept."""
    early: int
    """Rows stamped later than the query's now, and held."""
    future: int
    """Rows stamped so much later that it is a mistake: given up."""
    outdated: int
    """The oldest, given up for newer ones, as is usual."""
    forgotten: int
    """Rows that :meth:`LiveAligner.reset` gave up."""
    held: int
    """Rows that are kept."""
    newest_ns: int | None
    """The latest stamp of these; None: none is held."""
    short_windows: int
    """Queries whose window reached before the oldest row held, others having been given up: the
    buffer is too small."""
