"""Counters of a LiveAligner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from robocache.core.display import ByName, counted, cut
from robocache.core.tables import text_table
from robocache.live.library import STATS

_NEVER = -(2**63)  # the newest time of a stream without rows
_BLOCK = 6  # streams side by side in a table: a line of names fits a screen


@dataclass(frozen=True)
class LiveStats:
    """Counters of a stream since the construction of the aligner.

    Every pushed row is in the ring or in the buffer, or is counted as `overwritten`, `too_late`,
    `future`, `outdated` or `forgotten`.
    """

    pushed: int
    """Rows that were put in the ring."""
    overwritten: int
    """Oldest rows of a full ring, which newer ones replaced before a query took them."""
    refused: int
    """JPEG files in error: damaged, of another size, rotated by their EXIF data, or not JPEG."""
    taken: int
    """Rows that queries took from the ring."""
    clock_back: int
    """Rows stamped before the row that arrived just before them."""
    late: int
    """Rows stamped before the newest row of the buffer, and inserted in order."""
    too_late: int
    """Rows dropped because they were stamped before all rows of a full buffer."""
    repeated: int
    """Rows with the timestamp of a row in the buffer; the buffer keeps both."""
    early: int
    """Rows stamped later than the query, and kept in the buffer."""
    future: int
    """Rows dropped because they were stamped more than `max_future_s` after the query."""
    outdated: int
    """Oldest rows that newer ones replaced in the buffer, as in normal operation."""
    forgotten: int
    """Rows that :meth:`LiveAligner.reset` deleted."""
    held: int
    """Rows in the buffer."""
    newest_ns: int | None
    """The latest timestamp in the buffer, in ns; None: the buffer is empty."""
    short_windows: int
    """Queries whose window reached back to rows that had been overwritten or dropped: queries came
    too rarely, or the buffer is too small."""
    period_ns: int | None
    """Streams by rows with a nominal rate: the mean time between recent rows in the last query, in
    ns; of several robots the longest. None: fewer than 9 rows."""
    wrong_rate: int
    """Queries in which that time differed from that of the nominal rate by more than 15%."""


def total_stats(counters: Sequence[Mapping[str, int]]) -> LiveStats:
    """The counters of a stream over its robots, from those of the library for each robot."""
    sums: dict[str, Any] = {name: sum(of[name] for of in counters) for name in STATS}
    newest = max(of["newest_ns"] for of in counters)
    period = max(of["period_ns"] for of in counters)
    sums["newest_ns"] = None if newest == _NEVER else newest
    sums["period_ns"] = None if period < 0 else period
    return LiveStats(**sums)


class StatsByStream(ByName[LiveStats]):
    """The counters of each stream: ``print`` shows a table, a column for each stream."""

    def _blocks(self) -> list[str]:
        """Tables of a few streams each."""
        names, tables = list(self), []
        for begin in range(0, len(names), _BLOCK):
            block = names[begin : begin + _BLOCK]
            rows = []
            for field in fields(LiveStats):
                values = [getattr(self[name], field.name) for name in block]
                # Counts have separators, and a time is written as programs take it.
                form = "" if field.name.endswith("_ns") else ","
                rows.append([field.name, *["none" if x is None else f"{x:{form}}" for x in values]])
            tables.append(text_table(["", *[cut(name, 24) for name in block]], rows, (0,)))
        return tables

    def __str__(self) -> str:
        return "\n\n".join(self._blocks()) or super().__repr__()

    def __repr__(self) -> str:
        more = len(self) - _BLOCK
        if more <= 0:
            return str(self)
        return f"{self._blocks()[0]}\nand {counted(more, 'more stream')} (print shows all)"
