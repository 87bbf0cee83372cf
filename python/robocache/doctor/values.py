"""Findings on the values of one stream of one episode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.doctor.finding import (
    Finding,
    Floats,
    Series,
    duration,
    real_rows,
    runs_of,
    times_word,
)

STUCK_ROWS = 10  # equal rows in a stream whose rows differ as a rule
ALIVE_SHARE = 0.9  # of its other rows; not so a command that holds, or a thing that is pushed
MOVING_SHARE = 0.8  # of all its rows; below that it may well be something that rests
STUCK_ODDS = 1e-3  # how often such a run may come about by chance in a recording
SATURATED_SHARE = 0.05  # of rows at the very end of a channel's range
SATURATED_VISITS = 3  # of that end, one after the other: a rest in one place is one visit
SATURATED_LEVELS = 20  # different values that the channel has besides
ABRUPT_SHARE = 0.3  # of a usual step: what moves less is coming to rest
NEAR_SHARE = 1e-3  # of a channel's range: what is nearer to its end is at rest there
NORM_OFF = 0.01  # of a quaternion, from 1
LOOKS_UNIT = 1e-3  # four channels whose norms are so near 1 all along are a quaternion
WRAP_SHARE = 0.9  # of a turn: a jump of this size or more is a wrap
MOST_CHANNELS = 256  # wider streams (scans, embeddings) are not looked at channel by channel


def not_finite(series: Series) -> Finding | None:
    """NaN or infinity."""
    times, values = real_rows(series)
    if values.dtype.kind != "f":
        return None
    bad = ~np.isfinite(values)
    rows = np.flatnonzero(bad.any(axis=1))
    if len(rows) == 0:
        return None
    channels = np.flatnonzero(bad.any(axis=0)).tolist()
    what = "NaN" if np.isnan(values).any() else "infinity"
    return Finding(
        "not_finite",
        "warning",
        f"{len(rows):,} of {len(values):,} rows have {what}, in {series.channels(channels)}",
        "mark such rows as not valid, or leave the channels out: alignment takes them as data, "
        "and they spread into what is made from them",
        series.name,
        int(times[rows[0]]),
        len(rows),
    )


def stuck(series: Series) -> Finding | None:
    """Equal rows, one after the other, in a stream that was moving before and has moved on after.

    What comes to rest slows down first, and starts slowly; a sensor that hangs does neither.
    """
    times, values = real_rows(series)
    if len(values) <= STUCK_ROWS:
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
    # At the limit of every channel it is clipped: `saturated` tells that.
    runs = runs[(before > least) & (after > least) & ~at_limit.all(axis=1)]
    if len(runs) == 0:
        return None
    longest = runs[np.argmax(lengths[runs])]
    first = edges[longest]
    length = duration(float(times[first + lengths[longest] - 1] - times[first]))
    what = "the picture stands still" if series.is_image else "all channels stand still"
    return Finding(
        "stuck",
        "warning" if moved.mean() >= MOVING_SHARE else "info",
        f"{what} {times_word(len(runs))}, longest for {lengths[longest]:,} rows ({length}), in a "
        f"stream that changes in {100 * share:.0f} % of its other rows",
        "a sensor or driver that repeats its last reading: mark those rows as not valid; what a "
        "simulation has at rest is as it should be",
        series.name,
        int(times[edges[runs[0]]]),
        len(runs),
    )


def _step_sizes(values: NDArray[Any]) -> Floats:
    """How far each row is from the one before it: [n-1], channels by their own usual steps."""
    steps = np.abs(np.diff(values.astype(np.float64), axis=0))
    scale = np.nanmean(np.where(np.isfinite(steps), steps, np.nan), axis=0)
    sizes: Floats = np.nansum(steps / np.where(scale > 0, scale, 1), axis=1)
    return sizes


def saturated(series: Series) -> Finding | None:
    """Channels that run into the very same end of their range again and again: clipped."""
    times, values = real_rows(series)
    if series.is_image or values.dtype.kind != "f" or not _narrow(series):
        return None
    found = []
    for channel in range(values.shape[1]):
        column = values[:, channel].astype(np.float64)
        finite = column[np.isfinite(column)]
        if len(np.unique(finite)) <= SATURATED_LEVELS:
            continue
        steps = np.abs(np.diff(column))
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
        for limit in (finite.min(), finite.max()):
            at_end = column == limit
            entries = np.flatnonzero(at_end[1:] & ~at_end[:-1])
            if at_end.mean() < SATURATED_SHARE or len(entries) + at_end[0] < SATURATED_VISITS:
                continue
            # What rests at the end of its range gets there slowly.
            if np.median(steps[entries]) > max(ABRUPT_SHARE * usual, NEAR_SHARE * np.ptp(finite)):
                found.append((channel, float(limit), float(at_end.mean()), at_end.argmax()))
    if not found:
        return None
    channel, limit, share, _ = max(found, key=lambda one: one[2])
    channels = sorted({one[0] for one in found})
    return Finding(
        "saturated",
        "warning",
        f"{series.channels(channels)} run{'s' * (len(channels) == 1)} into a limit: "
        f"{series.channel(channel)} is {limit:g} in {100 * share:.0f} % of rows",
        "the true values may be beyond the limit: widen the sensor's range or the command's clip; "
        "quantile normalisation suits such channels better than minimum and maximum",
        series.name,
        int(times[min(int(one[3]) for one in found)]),
        len(found),
    )


def not_unit(series: Series) -> Finding | None:
    """Quaternions whose norm is not 1."""
    times, values = real_rows(series)
    worst, first, count = 0.0, None, 0
    for start in _declared_quaternions(series):
        norms = np.linalg.norm(values[:, start : start + 4].astype(np.float64), axis=1)
        off = np.where(np.isfinite(norms), np.abs(norms - 1), 0.0)
        rows = np.flatnonzero(off > NORM_OFF)
        if len(rows):
            count += len(rows)
            worst = max(worst, float(off.max()))
            first = rows[0] if first is None else min(first, rows[0])
    if first is None:
        return None
    return Finding(
        "not_unit",
        "warning",
        f"{count:,} quaternions are off norm 1, by up to {worst:.2g}",
        "slerp normalises its result, but a zero quaternion gives an invalid row; see whether the "
        "channels are in the order of the method (x y z w or w x y z) and all belong to it",
        series.name,
        int(times[first]),
        count,
    )


def sign_flip(series: Series) -> Finding | None:
    """Neighbouring quaternions of opposite sign: the same turn, the numbers far apart."""
    times, values = real_rows(series)
    declared = list(_declared_quaternions(series))
    undeclared = list(_likely_quaternions(series))
    for starts, is_declared in ((undeclared, False), (declared, True)):
        rows = np.concatenate([_flips(values[:, s : s + 4]) for s in starts] or [np.empty(0, int)])
        if len(rows) == 0:
            continue
        advice = (
            "nothing for slerp, which takes the short way; a network that reads the numbers wants "
            "one sign throughout"
            if is_declared
            else "give these four channels the method slerp_xyzw or slerp_wxyz: linear goes "
            "through zero between such rows"
        )
        return Finding(
            "sign_flip",
            "info" if is_declared else "warning",
            f"the quaternion changes its sign {times_word(len(rows))}",
            advice,
            series.name,
            int(times[rows.min() + 1]),
            len(rows),
        )
    return None


def angle_wrap(series: Series) -> Finding | None:
    """Channels of method linear that jump by a turn."""
    times, values = real_rows(series)
    if series.is_image or values.dtype.kind != "f" or len(values) < 3 or not _narrow(series):
        return None
    degrees = (series.facts.units or "").lower() in ("deg", "degree", "degrees", "°")
    turn = 360.0 if degrees else 2 * np.pi
    count, first, channels = 0, len(values), []
    for method, begin, end in runs_of(series):
        for channel in range(begin, end) if method in ("linear", "mean") else ():
            column = values[:, channel].astype(np.float64)
            # Only what stays within a turn can wrap; a speed or a position may jump as it likes.
            finite = column[np.isfinite(column)]
            if len(finite) < 3 or np.ptp(finite) > 1.001 * turn or abs(finite).max() > 1.001 * turn:
                continue
            steps = np.abs(np.diff(column))
            jumps = np.flatnonzero(steps >= WRAP_SHARE * turn)
            usual = float(np.nanquantile(steps, 0.9))
            if len(jumps) == 0 or usual > 0.1 * turn:
                continue
            channels.append(channel)
            count += len(jumps)
            first = min(first, int(jumps[0]))
    if not channels:
        return None
    return Finding(
        "angle_wrap",
        "warning",
        f"{series.channels(channels)} jump{'s' * (len(channels) == 1)} by a whole turn "
        f"{times_word(count)}",
        "give them the method 'angle': linear sweeps through zero between such rows",
        series.name,
        int(times[first + 1]),
        count,
    )


def _narrow(series: Series) -> bool:
    return len(series.values) > 0 and series.values.shape[1] <= MOST_CHANNELS


def _declared_quaternions(series: Series) -> Iterator[int]:
    """The first channel of each."""
    for method, begin, end in runs_of(series):
        if method.startswith("slerp") and len(series.values) > 0:
            yield from range(begin, end, 4)


def _likely_quaternions(series: Series) -> Iterator[int]:
    """The first channel of each four that are named or shaped like one, and have norm 1."""
    if series.values.dtype.kind != "f" or len(series.values) < 2:
        return
    names = [name.lower() for name in series.facts.channels or ()]
    for method, begin, end in runs_of(series):
        if method not in ("linear", "mean"):
            continue
        whole = (begin, end) == (0, series.values.shape[1]) and end == 4
        for start in [begin] if whole else range(begin, end - 3):
            four = [name[-1:] for name in names[start : start + 4]]
            if not whole and four not in (list("xyzw"), list("wxyz")):
                continue
            norms = np.linalg.norm(series.values[:, start : start + 4].astype(np.float64), axis=1)
            if bool(np.all(np.abs(norms - 1) < LOOKS_UNIT)):
                yield start


def _flips(quaternions: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows [F] whose next row points the other way."""
    dots = np.einsum("ij,ij->i", quaternions[1:], quaternions[:-1], dtype=np.float64)
    return np.flatnonzero(dots < 0)


VALUE_CHECKS = (not_finite, stuck, saturated, not_unit, sign_flip, angle_wrap)
