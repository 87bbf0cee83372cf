"""Warnings about the streams of a LiveAligner's query. One function: the text of each."""

from __future__ import annotations


def describe(name: str, status: str, rows: tuple[int, int], has_overwritten: bool) -> str:
    """The problem of a stream whose status is "two_clocks" or "rows_lost", and the way out.

    Args:
        name: The stream.
        status: Its status.
        rows: The capacity (buffer, ring) of the stream.
        has_overwritten: Whether its ring has overwritten rows.
    """
    buffer, ring = rows
    if status == "two_clocks":
        return (
            "the last rows are stamped further from now than max_future_s: by another clock (stamp "
            "rows and query with one clock, or query at the newest row of a stream)"
        )
    if has_overwritten:
        return (
            f"the window reaches back to rows that were overwritten: more than {ring} rows were "
            "pushed between two queries (query more often, state the longest time between queries "
            f"as query_every_s, or set ring_rows={{{name!r}: {2 * ring}}})"
        )
    return (
        f"the window reaches back to rows that were discarded: the buffer has {buffer} rows (set "
        f"buffer_rows={{{name!r}: {2 * buffer}}})"
    )
