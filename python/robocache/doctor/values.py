"""Findings on the values of one stream of one episode."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from robocache.doctor.finding import (
    Finding,
    Floats,
    Series,
    hand_command,
    real_rows,
    repair_command,
    row_ranges,
    runs_of,
    times_word,
)
from robocache.doctor.motion import ABRUPT_SHARE, stuck
from robocache.doctor.quaternions import not_unit, quaternion_linear, sign_flip

SPIKE_ROWS = 50  # fewest rows that define a usual step
SPIKE_STEPS = 10  # times the 95th percentile of steps
SPIKE_REST = 1e-4  # of a channel's range: a usual step of less is rest
SPIKE_SHARE = 0.01  # of rows; more frequent jumps are normal for the stream
SATURATED_SHARE = 0.05  # of rows at the very end of a channel's range
SATURATED_VISITS = 3  # of that end, one after the other: a rest in one place is one visit
SATURATED_LEVELS = 20  # different values that the channel has besides
NEAR_SHARE = 1e-3  # of a channel's range; closer to its end, the channel rests there
GRIPPER = re.compile(r"grip|finger|hand|thumb|jaw|claw|suction")
GRIPPER_END = 0.05  # of its range; within this of an end, it is open or closed
GRIPPER_SHARE = 0.8  # fraction of such rows
WRAP_SHARE = 0.9  # of a turn: a jump of this size or more is a wrap
HALF_WRAP = 0.4  # of a turn; a jump between this and a wrap is no wrap
WRAP_STEPS = 3  # usual steps that a wrap may be off a turn
WRAP_REST = 0.05  # of a turn, the same where the channel rests as a rule
SPEED = re.compile(r"vel|speed|gyro|omega|rate|twist|acc|force|torque|effort|wrench|current")
MOST_CHANNELS = 256  # wider streams (scans, embeddings) are not examined by channel


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
        "alignment takes them as data, and they spread into what is made from them: "
        f"{repair_command('not_finite')} marks these rows as not valid; or leave the stream out",
        series.name,
        int(times[rows[0]]),
        len(rows),
        rows=row_ranges(series, rows),
    )


def spike(series: Series) -> Finding | None:
    """Single rows far outside of all others, in a channel that moves: a bit flip, a lost packet."""
    times, values = real_rows(series)
    if series.is_image or values.dtype.kind != "f" or len(values) < SPIKE_ROWS:
        return None
    if not _narrow(series):
        return None
    bad = np.zeros(len(values), bool)
    channels = []
    is_likely = False  # speeds and forces can jump for one row
    for channel in range(values.shape[1]):
        column = values[:, channel].astype(np.float64)
        finite = np.flatnonzero(np.isfinite(column))  # the others are not_finite
        rows = finite[_spikes(column[finite])]
        if len(rows):
            bad[rows] = True
            channels.append(channel)
            is_likely |= not SPEED.search(f"{series.name} {series.channel(channel)}".lower())
    rows = np.flatnonzero(bad)
    if len(rows) == 0:
        return None
    return Finding(
        "spike",
        "warning" if is_likely else "info",
        f"{len(rows):,} of {len(values):,} rows stand alone, far outside of all others, in "
        f"{series.channels(channels)}",
        f"readings that were never measured: {repair_command('spike')} marks them as not valid"
        if is_likely
        else f"nothing for an impact; if nothing was hit, {hand_command(series, rows)} marks "
        "readings as not valid",
        series.name,
        int(times[rows[0]]),
        len(rows),
        rows=row_ranges(series, rows) if is_likely else (),
    )


def _spikes(column: Floats) -> NDArray[np.intp]:
    """The rows of a channel that leave the range of all others by its width, for one row."""
    nothing = np.empty(0, np.intp)
    if len(np.unique(column)) <= SATURATED_LEVELS:
        return nothing
    steps = np.abs(np.diff(column))
    # A channel that is usually at rest may be pushed once.
    if np.median(steps) <= SPIKE_REST * float(
        np.quantile(column, 0.99) - np.quantile(column, 0.01)
    ):
        return nothing
    out = np.flatnonzero((steps[:-1] > 0) & (steps[1:] > 0)) + 1
    back = np.abs(column[out + 1] - column[out - 1])
    near = np.minimum(steps[out - 1], steps[out])
    out = out[near > np.maximum(SPIKE_STEPS * float(np.quantile(steps, 0.95)), 4 * back)]
    if len(out) == 0 or len(out) > SPIKE_SHARE * len(column):
        return nothing
    others = np.delete(column, out)
    low, high = float(others.min()), float(others.max())
    beyond = np.maximum(column[out] - high, low - column[out])
    found: NDArray[np.intp] = out[beyond > high - low]
    return found


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
        is_gripper = _is_gripper(series, channel, finite)
        for limit in (finite.min(), finite.max()):
            at_end = column == limit
            entries = np.flatnonzero(at_end[1:] & ~at_end[:-1])
            if at_end.mean() < SATURATED_SHARE or len(entries) + at_end[0] < SATURATED_VISITS:
                continue
            # A channel that comes to rest at the end of its range gets there slowly.
            if np.median(steps[entries]) > max(ABRUPT_SHARE * usual, NEAR_SHARE * np.ptp(finite)):
                # Channels at rest at zero, and grippers, are expected at a limit.
                meant = bool(is_gripper or limit == 0)
                found.append((meant, channel, float(limit), float(at_end.mean()), at_end))
    if not found:
        return None
    meant = all(one[0] for one in found)
    found = [one for one in found if one[0] == meant]
    _, channel, limit, share, _ = max(found, key=lambda one: one[3])
    channels = sorted({one[1] for one in found})
    rows = np.flatnonzero(np.logical_or.reduce([one[4] for one in found]))
    return Finding(
        "saturated",
        "info" if meant else "warning",
        f"{series.channels(channels)} run{'s' * (len(channels) == 1)} into a limit: "
        f"{series.channel(channel)} is {limit:g} in {100 * share:.0f} % of rows",
        "nothing for a gripper at its end or a command of zero; min_max scaling fits such channels"
        if meant
        else "the true values may be beyond the limit: widen the sensor's range or the command's "
        "clip; quantile normalization suits such channels better than minimum and maximum, and "
        f"{repair_command('saturated')} marks these rows as not valid",
        series.name,
        int(times[rows[0]]),
        len(found),
        rows=() if meant else row_ranges(series, rows),
    )


def _is_gripper(series: Series, channel: int, finite: Floats) -> bool:
    """Whether a channel opens and closes something, by its name or since it is at its ends."""
    if GRIPPER.search(f"{series.name} {series.channel(channel)}".lower()):
        return True
    span = GRIPPER_END * float(np.ptp(finite))
    low, high = finite <= finite.min() + span, finite >= finite.max() - span
    both = min(float(low.mean()), float(high.mean()))
    return both > SATURATED_SHARE and float((low | high).mean()) > GRIPPER_SHARE


def angle_wrap(series: Series) -> Finding | None:
    """Channels of method linear that jump by a turn."""
    times, values = real_rows(series)
    if series.is_image or values.dtype.kind != "f" or len(values) < 3 or not _narrow(series):
        return None
    degrees = (series.metadata.units or "").lower() in ("deg", "degree", "degrees", "°")
    turn = 360.0 if degrees else 2 * np.pi
    count, first, channels = 0, len(values), []
    for method, begin, end in runs_of(series):
        for channel in range(begin, end) if method in ("linear", "mean") else ():
            column = values[:, channel].astype(np.float64)
            # Only a channel within one turn can wrap; speeds and positions can jump at will.
            finite = column[np.isfinite(column)]
            if len(finite) < 3 or np.ptp(finite) > 1.001 * turn or abs(finite).max() > 1.001 * turn:
                continue
            steps = np.abs(np.diff(column))
            jumps = np.flatnonzero(steps >= WRAP_SHARE * turn)
            usual = float(np.nanquantile(steps, 0.9))
            if len(jumps) == 0 or usual > 0.1 * turn or _is_speed(series, channel):
                continue
            # A wrap leaves from one end of the turn and arrives at the other, as far as it goes in
            # a step; and an angle has no jumps of half a turn.
            rest = np.abs(steps[jumps] - turn)
            halves = np.count_nonzero((steps > HALF_WRAP * turn) & (steps < WRAP_SHARE * turn))
            if np.median(rest) > max(WRAP_STEPS * usual, WRAP_REST * turn) or halves > len(jumps):
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


def _is_speed(series: Series, channel: int) -> bool:
    """Whether a channel is not an angle, by its unit or its name."""
    units = (series.metadata.units or "").lower()
    if units:
        return not units.startswith(("rad", "deg", "°")) or "/s" in units or "s^-1" in units
    return bool(SPEED.search(f"{series.name} {series.channel(channel)}".lower()))


def _narrow(series: Series) -> bool:
    return len(series.values) > 0 and series.values.shape[1] <= MOST_CHANNELS


VALUE_CHECKS = (
    not_finite,
    spike,
    stuck,
    saturated,
    not_unit,
    sign_flip,
    quaternion_linear,
    angle_wrap,
)
