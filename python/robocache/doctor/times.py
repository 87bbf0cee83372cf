"""Findings on the times of one stream of one episode."""

from __future__ import annotations

import numpy as np

from robocache.doctor.finding import (
    Finding,
    Series,
    duration,
    hertz,
    period_ns,
    times_word,
    usual_ns,
)
from robocache.readers.rows import row_times

GAP_PERIODS = 3.0  # a longer interval is a gap, in usual intervals
LOST_PERIODS = 1.6  # a longer interval of a steady clock is a lost row
RATE_CHANGE = 1.25  # from one part of the recording to another
RATE_OFF = 0.02  # of the nominal rate
DAY_NS = 86_400_000_000_000
EARLY_SHARE = 0.01  # of rows that arrive before they were recorded


def times_back(series: Series) -> Finding | None:
    """A row is earlier than the one before it."""
    steps = series.steps
    back = np.flatnonzero(steps < 0)
    if len(back) == 0:
        return None
    return Finding(
        "times_back",
        "error",
        f"times go back {times_word(len(back))}, by up to {duration(float(-steps.min()))}",
        "convert it, which sorts the rows of a stream by time; if a clock was set while recording, "
        "cut the recording there",
        series.name,
        int(series.times[back[0] + 1]),
        len(back),
    )


def times_repeat(series: Series) -> Finding | None:
    """Rows that share a time."""
    repeats = np.flatnonzero(series.steps == 0)
    if len(repeats) == 0:
        return None
    return Finding(
        "times_repeat",
        "warning",
        f"{len(repeats):,} of {len(series.times):,} rows have the time of the row before",
        "alignment takes the last row of equal times; if the rows differ, stamp them by when they "
        "were received (convert --stamp received)",
        series.name,
        int(series.times[repeats[0]]),
        len(repeats),
    )


def far_time(series: Series) -> Finding | None:
    """Impossible timestamps: days away from their neighbors, such as a stamp of zero."""
    jumps = np.flatnonzero(np.abs(series.steps) > DAY_NS)
    if len(jumps) == 0:
        return None
    row = int(jumps[0])
    return Finding(
        "far_time",
        "error",
        f"the time jumps by {duration(float(series.steps[row]))} after row {row}",
        "a stamp that was never set (zero), or a clock that was set meanwhile: stamp rows by when "
        "they were received (convert --stamp received), or leave those rows out",
        series.name,
        int(series.times[row + 1]),
        len(jumps),
    )


def gap_rows(series: Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows [G] before a gap; empty for a stream of fewer than 4 rows."""
    if len(series.times) < 4:
        return np.empty(0, np.int64)
    steps = series.steps
    return np.flatnonzero((steps > GAP_PERIODS * usual_ns(series.times)) & (steps <= DAY_NS))


def gap(series: Series) -> Finding | None:
    """No rows for many periods."""
    rows = gap_rows(series)
    if len(rows) == 0:
        return None
    lengths = series.steps[rows]
    usual = usual_ns(series.times)
    return Finding(
        "gap",
        "warning",
        f"silent {times_word(len(rows))} for more than {GAP_PERIODS:g} usual intervals, longest "
        f"{duration(float(lengths.max()))} where {duration(usual)} is usual",
        f"give this stream a max_gap, such as {duration(1.5 * usual)}: the mask then says which "
        "results are real",
        series.name,
        int(series.times[rows[0]]),
        len(rows),
    )


def lost_rows(series: Series) -> Finding | None:
    """Single rows that are missing in a steady clock: dropped frames, lost packets."""
    steps = series.steps.astype(np.float64)
    period = period_ns(series.times)
    if len(steps) < 20 or period <= 0:
        return None
    middle = float(np.median(steps))
    jitter = 1.4826 * float(np.median(np.abs(steps - middle)))
    longer = steps > max(LOST_PERIODS * period, middle + 6 * jitter)
    rows = np.flatnonzero(longer & (steps <= GAP_PERIODS * usual_ns(series.times)))
    # A clock that alternates between intervals lacks no row at the long ones.
    if len(rows) == 0 or len(rows) > 0.1 * len(steps):
        return None
    lost = int(np.sum(np.rint(steps[rows] / period) - 1))
    share = lost / (len(steps) + 1)
    return Finding(
        "lost_rows",
        "warning" if share > 0.01 else "info",
        f"{lost:,} single row{'s seem' if lost != 1 else ' seems'} lost ({100 * share:.2g} %)",
        "nothing where methods interpolate; a max_gap of 1.5 periods marks the results in between",
        series.name,
        int(series.times[rows[0]]),
        lost,
    )


def rate_change(series: Series) -> Finding | None:
    """A part of the recording has another rate."""
    steps = series.steps
    parts = min(16, len(steps) // 16)
    if parts < 3:
        return None
    usual = np.array([period_ns(part) for part in np.array_split(series.times, parts)])
    if (usual <= 0).any():
        return None
    first = usual[0]
    other = np.maximum(usual / first, first / usual) > RATE_CHANGE
    lasting = np.flatnonzero(other[:-1] & other[1:])  # not one part alone, which a gap may bend
    irregular = float(np.quantile(steps, 0.9)) > 2 * float(np.median(steps)) and not (
        usual.max() > 2 * usual.min()
    )
    if len(lasting) == 0 or irregular:
        return None
    part = int(lasting[0])
    row = sum(len(piece) for piece in np.array_split(steps, parts)[:part])
    return Finding(
        "rate_change",
        "warning",
        f"the rate changes from {hertz(first)} to {hertz(float(usual[part + 1]))}",
        "alignment by time copes with it; windows by rows do not: use timeline='time', or cut "
        "the recording",
        series.name,
        int(series.times[row]),
        len(lasting),
    )


def made_from_rate(series: Series) -> bool:
    """Whether a stream's times are computed from its rate, so that no time check applies.

    A "rows" timeline may have recorded times too: LeRobot's timestamps may differ from
    frame_index / fps.
    """
    if series.metadata.timeline != "rows":
        return False
    rate = series.metadata.rate
    if not rate or len(series.times) == 0:
        return True
    made = row_times(0, len(series.times), rate)
    return bool((np.abs(series.times - made) <= 1).all())


def wrong_rate(series: Series) -> Finding | None:
    """The recording states another rate than that of its rows."""
    nominal, period = series.metadata.rate, period_ns(series.times)
    if nominal is None or not nominal > 0 or period <= 0 or len(series.times) < 20:
        return None
    measured = 1e9 / period
    if abs(measured / nominal - 1) <= RATE_OFF:
        return None
    advice = "trust the rows' times; where times were made from the rate, state the rate (--rate)"
    if series.metadata.timeline == "rows":
        advice = (
            f"windows that count rows take each for {duration(1e9 / nominal)}, and it is "
            f"{duration(period)}: timeline='time' goes by the timestamps"
        )
    return Finding(
        "wrong_rate",
        "warning",
        f"said to have {nominal:g} Hz, its rows come at {measured:.4g} Hz",
        advice,
        series.name,
        int(series.times[0]),
    )


def arrives_early(series: Series) -> Finding | None:
    """Rows that arrived before they were recorded: their clock runs ahead."""
    if series.received is None or len(series.times) == 0:
        return None
    early = np.flatnonzero(series.received < series.times)
    if len(early) <= EARLY_SHARE * len(series.times):
        return None
    ahead = float(np.max(series.times - series.received))
    return Finding(
        "arrives_early",
        "warning",
        f"{len(early):,} of {len(series.times):,} rows arrive before they were recorded, by up to "
        f"{duration(ahead)}",
        "the stream's clock is ahead of the recorder's: give it a clock_offset when aligning, or "
        "stamp rows by when they were received (convert --stamp received)",
        series.name,
        int(series.times[early[0]]),
        len(early),
    )


TIME_CHECKS = (
    times_back,
    times_repeat,
    far_time,
    gap,
    lost_rows,
    rate_change,
    wrong_rate,
    arrives_early,
)
