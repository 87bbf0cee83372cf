"""Findings on motion: stuck sensors, and streams that never move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import listed
from robocache.doctor.finding import (
    Finding,
    Floats,
    Series,
    duration,
    hand_command,
    real_rows,
    repair_command,
    row_ranges,
    times_word,
)

STUCK_ROWS = 10  # equal rows in a stream whose rows usually differ
ALIVE_SHARE = 0.9  # fraction of its other rows that differ, unlike held commands
MOVING_SHARE = 0.8  # fraction of all its rows; below, the stream may be at rest
STUCK_ODDS = 1e-3  # probability of such a run by chance in a recording
ABRUPT_SHARE = 0.3  # of a usual step; smaller steps mean coming to rest
ZERO_SHARE = 1e-6  # of a channel's largest value; smaller values count as zero
STILL_ROWS = 20  # fewest rows from which a stream can be said never to move


def stuck(series: Series) -> Finding | None:
    """A run of equal rows in a stream that moves before and after the run.

    What comes to rest slows down first, and starts slowly; a sensor that hangs does neither.
    """
    times, values = real_rows(series)
    if series.is_ragged or len(values) <= STUCK_ROWS:
        return None
    moved = np.any(values[1:] != values[:-1], axis=1)
    edges = np.flatnonzero(np.concatenate([[True], moved, [True]]))
    lengths = np.diff(edges)  # rows of each run of equal ones
    brief = lengths < STUCK_ROWS
    share = float(brief.sum()) / max(1, int(lengths[brief].sum()))  # of rows that are new
    if brief.sum() < STUCK_ROWS or share < ALIVE_SHARE:
        return None
    # The chance that some run of a recording is this long, if rows repeated independently.
    chance = len(values) * (1 - share) ** (lengths.astype(np.float64) - 1)
    runs = np.flatnonzero((lengths >= STUCK_ROWS) & (chance < STUCK_ODDS) & (edges[:-1] > 0))
    if len(runs) == 0:
        return None
    sizes = _step_sizes(values)
    least = ABRUPT_SHARE * float(np.median(sizes[moved]))
    begins, ends = edges[runs], edges[runs] + lengths[runs]
    before = np.array([np.median(sizes[max(0, begin - 3) : begin]) for begin in begins])
    after = np.array([sizes[end - 1] if end < len(values) else np.inf for end in ends])
    at_limit = (values[begins] == values.min(axis=0)) | (values[begins] == values.max(axis=0))
    # At the limit of every channel the stream is clipped: `saturated` reports that.
    is_abrupt = (before > least) & (after > least) & ~at_limit.all(axis=1)
    # All zero, except channels at a limit (an open gripper): nothing moves or is commanded.
    at_rest = (at_limit | _is_zero(values[begins], values)).all(axis=1) & (not series.is_image)
    resting = not (is_abrupt & ~at_rest).any()
    runs = runs[is_abrupt & (at_rest == resting)]
    if len(runs) == 0:
        return None
    longest = runs[np.argmax(lengths[runs])]
    first = edges[longest]
    length = duration(float(times[first + lengths[longest] - 1] - times[first]))
    what = "the picture stands still" if series.is_image else "all channels stand still"
    is_likely = not resting and moved.mean() >= MOVING_SHARE
    rows = np.concatenate([np.arange(edges[run] + 1, edges[run] + lengths[run]) for run in runs])
    return Finding(
        "stuck",
        "warning" if is_likely else "info",
        f"{what} {times_word(len(runs))}, longest for {lengths[longest]:,} rows ({length}), in a "
        f"stream that changes in {100 * share:.0f} % of its other rows",
        f"a sensor or driver that repeats its last reading: {repair_command('stuck')} marks the "
        "repeated rows as not valid; or leave the stream out"
        if is_likely
        else "nothing for what is at rest; if it is a sensor that hangs, "
        f"{hand_command(series, rows)} marks readings as not valid",
        series.name,
        int(times[edges[runs[0]]]),
        len(runs),
        rows=row_ranges(series, rows) if is_likely else (),
    )


def _step_sizes(values: NDArray[Any]) -> Floats:
    """The distance of each row to the row before, [n-1], in usual steps of each channel."""
    steps = np.abs(np.diff(values.astype(np.float64), axis=0))
    scale = np.nanmean(np.where(np.isfinite(steps), steps, np.nan), axis=0)
    sizes: Floats = np.nansum(steps / np.where(scale > 0, scale, 1), axis=1)
    return sizes


def settle(found: Sequence[Finding], streams: Sequence[Series]) -> list[Finding]:
    """The findings, without stuck sensors of a robot at rest.

    It rests while another stream that moves at other times (a speed) is zero throughout, and while
    all that moves at other times stands still with it.
    """
    by_name = {series.name: series for series in streams}
    moving = [
        series for series in streams if not (series.is_image or series.is_ragged) and _moves(series)
    ]
    return [
        _settled(finding, by_name[finding.stream], moving)
        if finding.kind == "stuck" and finding.severity == "warning" and finding.stream
        else finding
        for finding in found
    ]


def _settled(finding: Finding, series: Series, moving: Sequence[Series]) -> Finding:
    if series.is_image:
        return finding
    spans = [
        (int(series.times[begin - 1]), int(series.times[end - 1])) for begin, end in finding.rows
    ]
    kept = [
        (begin, end)
        for (begin, end), span in zip(finding.rows, spans, strict=True)
        if not _rests(series, moving, *span)
    ]
    if len(kept) == len(finding.rows):
        return finding
    if kept:
        return replace(finding, rows=tuple(kept))
    return replace(
        finding,
        severity="info",
        text=f"{finding.text}, while the robot is at rest",
        advice="nothing: other streams show that nothing moves then",
        rows=(),
    )


def _rests(series: Series, moving: Sequence[Series], begin: int, end: int) -> bool:
    """Whether the robot rests from `begin` to `end`, judged by its other streams."""
    others = []
    for other in moving:
        if other.name == series.name or np.array_equal(other.values, series.values):
            continue
        lo, hi = np.searchsorted(other.times, [begin, end], "left")
        if hi + 1 - lo >= STUCK_ROWS:
            others.append((other.values, int(lo), int(hi) + 1))
    if any(_is_zero(values[lo:hi], values).all() for values, lo, hi in others):
        return True
    still = [(values[lo:hi] == values[lo]).all() for values, lo, hi in others]
    return len(still) > 0 and all(still)


def _is_zero(rows: NDArray[Any], values: NDArray[Any]) -> NDArray[np.bool_]:
    """Elements of rows [n,D] that are zero, up to rounding, in a stream of values [N,D]."""
    most = np.nanmax(np.where(np.isfinite(values), np.abs(values), np.nan), axis=0)
    zero: NDArray[np.bool_] = np.abs(rows) <= ZERO_SHARE * most
    return zero


def _moves(series: Series) -> bool:
    """Whether most rows of numbers differ from the row before."""
    values = series.values
    if values.dtype.kind != "f" or len(values) < STILL_ROWS or (np.diff(series.times) < 0).any():
        return False
    return bool(np.any(values[1:] != values[:-1], axis=1).mean() > 0.5)


def never_moves(names: Sequence[str]) -> list[Finding]:
    """Streams of numbers that have one value in all rows of all episodes."""
    if not names:
        return []
    what = f"{len(names):,} streams never move" if len(names) > 1 else "never moves"
    return [
        Finding(
            "never_moves",
            "warning",
            f"{what}: {listed(names, 4)}" if len(names) > 1 else what,
            "a sensor that is not connected, or a part that was not used: leave such streams out "
            "of training",
            names[0] if len(names) == 1 else None,
            count=len(names),
            streams=tuple(names) if len(names) > 1 else (),
        )
    ]
