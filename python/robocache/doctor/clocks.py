"""Findings on streams that are stamped by different clocks."""

from __future__ import annotations

from collections.abc import Sequence

from robocache.doctor.finding import Finding, Series, duration
from robocache.readers.clocks import FEW, OTHER_CLOCK_NS, offset_of

APART_NS = 3_600_000_000_000  # from the rows of some streams to those of all others
APART_SPANS = 10  # and in lengths of the longest stream


def two_clocks(streams: Sequence[Series]) -> list[Finding]:
    """Streams whose times are on another clock than their arrival times or other streams."""
    return _far_from_receipt(streams) or _far_from_others(streams)


def _far_from_receipt(streams: Sequence[Series]) -> list[Finding]:
    """Rows that arrived, by their median, seconds or years from their times."""
    far: list[tuple[Series, int]] = []
    for series in streams:
        if series.received is not None:
            offset = offset_of(series.times, series.received)
            if offset is not None and abs(offset.median) > OTHER_CLOCK_NS:
                far.append((series, offset.median))
    if not far:
        return []
    series, away = far[0]
    return [
        Finding(
            "two_clocks",
            "error",
            f"{_are(far)} stamped by another clock than that of their receipt, "
            f"{duration(abs(away))} away: {_listed([one for one, _ in far])}",
            "convert the recording with all rows stamped by when they were received, which is one "
            "clock (convert --stamp received): to a causal loader no row has arrived in time",
            None,
            int(series.times[0]),
            len(far),
            streams=tuple(one.name for one, _ in far),
        )
    ]


def _far_from_others(streams: Sequence[Series]) -> list[Finding]:
    """Streams that are hours or years apart from all others."""
    ordered = sorted(
        (series for series in streams if len(series.times) >= FEW),
        key=lambda series: int(series.times[0]),
    )
    if len(ordered) < 2:
        return []
    longest = max(int(series.times[-1]) - int(series.times[0]) for series in ordered)
    end, best, cut = int(ordered[0].times[-1]), 0, 0
    for number, series in enumerate(ordered[1:], 1):
        silence = int(series.times[0]) - end
        if silence > best:
            best, cut = silence, number
        end = max(end, int(series.times[-1]))
    if best <= max(APART_NS, APART_SPANS * longest):
        return []
    few = min(ordered[:cut], ordered[cut:], key=len)
    return [
        Finding(
            "two_clocks",
            "error",
            f"{_are(few)} stamped by another clock than the others, {duration(best)} away: "
            f"{_listed(few)}",
            "messages: convert --stamp received puts all on one clock; else add the difference to "
            "the times of these streams (clock_offset when aligning), or leave them out",
            None,
            int(few[0].times[0]),
            len(few),
            streams=tuple(one.name for one in few),
        )
    ]


def _are(streams: Sequence[object]) -> str:
    return f"{len(streams):,} streams are" if len(streams) > 1 else "1 stream is"


def _listed(streams: Sequence[Series]) -> str:
    more = f" and {len(streams) - 4} more" if len(streams) > 4 else ""
    return ", ".join(series.name for series in streams[:4]) + more
