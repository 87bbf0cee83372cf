"""Findings on quaternions: those that a stream's method declares, and those that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import listed
from robocache.doctor.finding import (
    Finding,
    Floats,
    Series,
    real_rows,
    repair_command,
    row_ranges,
    runs_of,
    times_word,
)

NORM_OFF = 0.01  # of a norm from 1
LOOKS_UNIT = 2e-3  # four channels whose norms are all this near 1 are a quaternion
OFF_AXES = 0.99  # largest component of some row; excludes a flag beside three small numbers
SCALARS_MOVE = 3  # of four streams of one number each, at least these are not all zero
LINEAR = ("linear", "mean")


def not_unit(series: Series) -> Finding | None:
    """Quaternions whose norm is not 1."""
    times, values = real_rows(series)
    worst, count = 0.0, 0
    bad = np.zeros(len(values), bool)
    for start in _declared(series):
        norms = np.linalg.norm(values[:, start : start + 4].astype(np.float64), axis=1)
        off = np.where(np.isfinite(norms), np.abs(norms - 1), 0.0)
        bad |= off > NORM_OFF
        count += int(np.count_nonzero(off > NORM_OFF))
        worst = max(worst, float(off.max()))
    rows = np.flatnonzero(bad)
    if len(rows) == 0:
        return None
    return Finding(
        "not_unit",
        "warning",
        f"{count:,} quaternions are off norm 1, by up to {worst:.2g}",
        "slerp normalizes its result, but a zero quaternion gives an invalid row; see whether the "
        "channels are in the order of the method (x y z w or w x y z) and all belong to it; "
        f"{repair_command('not_unit')} marks these rows as not valid",
        series.name,
        int(times[rows[0]]),
        count,
        rows=row_ranges(series, rows),
    )


def sign_flip(series: Series) -> Finding | None:
    """Neighboring quaternions of opposite sign: the same turn, the numbers far apart."""
    times, values = real_rows(series)
    rows = [_flips(values[:, start : start + 4]) for start in _declared(series)]
    flips = np.concatenate(rows) if rows else np.empty(0, np.int64)
    if len(flips) == 0:
        return None
    return Finding(
        "sign_flip",
        "info",
        f"the quaternion changes its sign {times_word(len(flips))}",
        "nothing for slerp, which takes the short way; a network that reads the numbers wants "
        "one sign throughout",
        series.name,
        int(times[flips.min() + 1]),
        len(flips),
    )


def quaternion_linear(series: Series) -> Finding | None:
    """Four channels that look like a quaternion, and are interpolated linearly."""
    times, values = real_rows(series)
    starts = list(_likely(series, values))
    if not starts:
        return None
    flips = np.concatenate([_flips(values[:, start : start + 4]) for start in starts])
    channels = [channel for start in starts for channel in range(start, start + 4)]
    text = f"{series.channels(channels)} look like a quaternion (norm 1 in every row)"
    if len(starts) > 1:
        text = f"{len(starts)} times four channels look like a quaternion (norm 1 in every row)"
    return Finding(
        "quaternion_linear",
        "warning",
        text
        + " and are interpolated linearly"
        + (f"; the sign changes {times_word(len(flips))}" if len(flips) else ""),
        "give these channels the method slerp_xyzw or slerp_wxyz, by their order: linear leaves "
        "the rotations, and goes through zero where the sign changes",
        series.name,
        int(times[flips.min() + 1 if len(flips) else 0]),
        len(starts),
    )


def quaternion_scalars(streams: Sequence[Series]) -> list[Finding]:
    """Four streams of one number each, one after the other, that look like a quaternion."""
    found = []
    first = 0
    while first + 4 <= len(streams):
        four = streams[first : first + 4]
        if _are_components(four):
            names = [series.name for series in four]
            found.append(
                Finding(
                    "quaternion_linear",
                    "warning",
                    f"streams {listed(names, 4)} look like a quaternion (norm 1 in every row), and "
                    "each is interpolated linearly",
                    "record them as one stream of four channels with the method slerp_xyzw or "
                    "slerp_wxyz (columns of a table: name them qx, qy, qz, qw)",
                    time_ns=int(four[0].times[0]),
                    streams=tuple(names),
                )
            )
            first += 4
        else:
            first += 1
    return found


def _are_components(four: Sequence[Series]) -> bool:
    for series in four:
        is_scalar = series.values.shape[1:] == (1,) and series.values.dtype.kind == "f"
        if not is_scalar or series.is_image or runs_of(series)[0][0] not in LINEAR:
            return False
        if not np.array_equal(series.times, four[0].times):
            return False
    valid = [series.valid for series in four if series.valid is not None]
    values = np.concatenate([series.values for series in four], axis=1)
    if valid:
        values = values[np.logical_and.reduce(valid)]
    return _look_unit(values) and int(values.any(axis=0).sum()) >= SCALARS_MOVE and _turn(values)


def _declared(series: Series) -> Iterator[int]:
    """The first channel of each quaternion by the stream's method."""
    for method, begin, end in runs_of(series):
        if method.startswith("slerp") and len(series.values) > 0:
            yield from range(begin, end, 4)


def _likely(series: Series, values: NDArray[np.generic]) -> Iterator[int]:
    """The first channel of each four that are named or shaped like one, and have norm 1."""
    if series.is_image or values.dtype.kind != "f":
        return
    names = [name.lower() for name in series.metadata.channels or ()]
    for method, begin, end in runs_of(series):
        if method not in LINEAR:
            continue
        whole = (begin, end) == (0, values.shape[1]) and end == 4
        start = begin
        while start + 4 <= end:
            letters = [name[-1:] for name in names[start : start + 4]]
            four = values[:, start : start + 4].astype(np.float64)
            is_named = whole or letters in (list("xyzw"), list("wxyz"))
            if is_named and _look_unit(four) and (_turn(four) or len(_flips(four))):
                yield start
                start += 4
            else:
                start += 1


def _look_unit(values: NDArray[np.generic]) -> bool:
    """Whether four numbers have norm 1 in every row of two or more."""
    norms = np.linalg.norm(values.astype(np.float64), axis=1)
    return len(norms) >= 2 and bool(np.all(np.abs(norms - 1) < LOOKS_UNIT))


def _turn(values: NDArray[np.generic]) -> bool:
    """Whether rows change, and some row is not along an axis."""
    largest = np.abs(values.astype(np.float64)).max(axis=1)
    return bool((values != values[0]).any() and (largest < OFF_AXES).any())


def _flips(quaternions: NDArray[np.generic]) -> NDArray[np.int64]:
    """The rows [F] whose next row has the opposite sign."""
    four: Floats = quaternions.astype(np.float64)
    dots = np.einsum("ij,ij->i", four[1:], four[:-1])
    return np.flatnonzero(dots < 0)
