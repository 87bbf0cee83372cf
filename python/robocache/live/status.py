"""Warnings about the streams of a LiveAligner's query. One function: the text of each."""

from __future__ import annotations

from robocache.live.stats import LiveStats
from robocache.loader.window_spec import WindowSpec

WARNED = ("wrong_rate", "rows_lost", "two_clocks")
"""Statuses that cause a warning, the first time for each stream."""


def describe(stream: WindowSpec, status: str, rows: tuple[int, int], stats: LiveStats) -> str:
    """The problem of a stream whose status is one of `WARNED`, and the way out.

    Args:
        stream: The stream.
        status: Its status.
        rows: The capacity (buffer, ring) of the stream.
        stats: Its counters, of a robot with that status.
    """
    if status == "wrong_rate":
        assert stats.period_ns is not None and stream.nominal_rate is not None
        return (
            f"recent rows are {stats.period_ns / 1e6:.4g} ms apart, but the window counts rows of "
            f"{stream.nominal_rate:.4g} Hz ({1e3 / stream.nominal_rate:.4g} ms), and so spans "
            "another time than in training (push rows at that rate, or train with "
            "rc.Window(timeline='time'))"
        )
    name = stream.name
    buffer, ring = rows
    if status == "two_clocks":
        return (
            "the last rows are stamped further from now than max_future_s: by another clock (stamp "
            "rows and query with one clock, or query at the newest row of a stream)"
        )
    if stats.overwritten:
        return (
            f"the window reaches back to rows that were overwritten: more than {ring} rows were "
            "pushed between two queries (query more often, state the longest time between queries "
            f"as query_every_s, or set ring_rows={{{name!r}: {2 * ring}}})"
        )
    return (
        f"the window reaches back to rows that were discarded: the buffer has {buffer} rows (set "
        f"buffer_rows={{{name!r}: {2 * buffer}}})"
    )
