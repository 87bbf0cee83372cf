"""From target times to the rows that they are made from: what depends on times alone.

Shapes: B episodes, S source rows, T targets. What is [B,...] here may lack its B, which is shared
by the batch then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from robocache.align import options

_SIGN = options.MIN_INT64  # the sign bit of an int64


class Episodes(NamedTuple):
    """The times of a stream and of the targets, in one type and by one clock."""

    times: Tensor  # [B,S], contiguous
    targets: Tensor  # [B,T], with the B of the times; contiguous
    lengths: Tensor  # [B,1] or []: the rows that exist


class Rows(NamedTuple):
    """Where the targets fall among the rows of their episode; all [B,T]."""

    not_after: Tensor  # the rows at or before the target
    lo: Tensor  # the last row at or before the target, clamped to a row
    hi: Tensor  # the row after it, clamped to a row
    nearest: Tensor  # the closer of the two; a tie takes lo
    hit: Tensor  # the nearest row is as close as the tolerance: it alone is the answer
    before: Tensor  # before the first row, no hit
    after: Tensor  # after the last row, no hit
    inside: Tensor  # from the first row to the last, whatever the tolerance
    from_lo: Tensor  # time from lo to the target
    to_nearest: Tensor  # time between the target and the nearest row
    gap: Tensor  # time from lo to hi
    empty: Tensor  # the episode has no rows
    nan: Tensor  # the target is NaN


class Pair(NamedTuple):
    """The two rows that a value is interpolated from; all [B,T]."""

    a: Tensor
    b: Tensor
    weight: Tensor  # of b, in the compute type
    alone: Tensor  # row a alone is the answer: a hit, a held row


class Window(NamedTuple):
    """The rows that a target's mean or sum is made from: those of [first, end) that are valid."""

    first: Tensor  # [B,T]
    end: Tensor  # [B,T]; first where there are none
    valid_count: Tensor  # [B,T]
    last_valid: Tensor  # [B,T]; -1 where there is none


def episodes(
    times: Tensor,
    targets: Tensor,
    lengths: Tensor | None,
    clock_offset: float,
    dtype: torch.dtype,
) -> Episodes:
    """The rows of each batch row of a stream, as far as time goes."""
    times, targets = times.to(dtype), targets.to(dtype)
    if clock_offset != 0:
        if dtype == torch.int64:
            targets = _minus(targets, int(clock_offset))
        else:
            times = times + seconds(clock_offset, times)
    rows = times.size(-1)
    if lengths is None:
        lengths = torch.full((), rows, dtype=torch.int64, device=times.device)
    else:
        lengths = lengths.to(torch.int64).clamp(0, rows)
        if lengths.dim() == 1:
            lengths = lengths.unsqueeze(-1)
        # Rows that do not exist come after every target, so that the search stays a search.
        last = math.inf if dtype.is_floating_point else options.MAX_INT64
        exists = torch.arange(rows, device=times.device) < lengths
        times = torch.where(exists, times, last)
    if times.dim() == 2 and targets.dim() == 1:
        targets = targets.expand(times.size(0), -1)
    return Episodes(times.contiguous(), targets.contiguous(), lengths)


def find(episode: Episodes, tolerance: float) -> Rows:
    """The rows around each target."""
    times, targets, lengths = episode
    # The number of rows at or before the target; of equal times the last row becomes lo.
    count = torch.searchsorted(times, targets, right=True)
    count = torch.minimum(count, lengths)
    has_lo, has_hi = count > 0, count < lengths
    lo = (count - 1).clamp(min=0)
    hi = torch.minimum(count, lengths - 1).clamp(min=0)
    time_lo, time_hi = take(times, lo, 0), take(times, hi, 0)
    from_lo, to_hi = targets - time_lo, time_hi - targets

    hi_is_nearer = has_hi & (~has_lo | _less(to_hi, from_lo))
    at_lo = has_lo & (time_lo == targets)
    hit = at_lo
    if tolerance != 0:
        hit = hit | (has_lo & at_most(from_lo, tolerance)) | (has_hi & at_most(to_hi, tolerance))
    return Rows(
        not_after=count,
        lo=lo,
        hi=hi,
        nearest=torch.where(hi_is_nearer, hi, lo),
        hit=hit,
        before=~has_lo & ~hit,
        after=has_lo & ~has_hi & ~hit,
        inside=has_lo & (has_hi | at_lo),
        from_lo=from_lo,
        to_nearest=torch.where(hi_is_nearer, to_hi, from_lo),
        gap=time_hi - time_lo,
        empty=lengths == 0,
        nan=targets.isnan(),
    )


def interpolation(rows: Rows, compute: torch.dtype) -> Pair:
    """Rows and weight of linear interpolation."""
    alone = rows.hit | rows.before | rows.after | rows.nan
    a = torch.where(rows.hit, rows.nearest, rows.lo)
    b = torch.where(alone, a, rows.hi)
    weight = _as_float(rows.from_lo, compute) / _as_float(rows.gap, compute)
    # A weight that is not used must be finite still, or its product with a gradient of 0 is NaN.
    return Pair(a, b, torch.where(alone, 0.0, weight), alone)


def extrapolation(pair: Pair, rows: Rows, episode: Episodes) -> Pair:
    """`pair`, but outside the recording the first or last two rows, where their times differ."""
    times, targets, lengths = episode
    a = torch.where(rows.before, 0, lengths - 2).clamp(min=0)
    b = torch.minimum(a + 1, lengths - 1).clamp(min=0)
    time_a, time_b = take(times, a, 0), take(times, b, 0)
    stretched = (rows.before | rows.after) & ~rows.nan & (time_a < time_b)
    from_a = torch.where(rows.before, time_a - targets, targets - time_a)
    compute = pair.weight.dtype
    weight = _as_float(from_a, compute) / _as_float(time_b - time_a, compute)
    return Pair(
        a=torch.where(stretched, a, pair.a),
        b=torch.where(stretched, b, pair.b),
        weight=torch.where(stretched, torch.where(rows.before, -weight, weight), pair.weight),
        alone=pair.alone & ~stretched,
    )


# ---- windows of rows -----------------------------------------------------------------------------


def window_around(episode: Episodes, mean_window: float, valid: Tensor | None) -> Window:
    """The rows within half of the window of each target, both ends included."""
    times, targets, _ = episode
    if times.dtype == torch.int64:
        half = torch.full((), int(mean_window) // 2, dtype=torch.int64, device=times.device)
    else:
        half = seconds(mean_window, times) / 2

    def is_too_early(time: Tensor) -> Tensor:
        return (time < targets) & _less(half, targets - time)

    def is_not_too_late(time: Tensor) -> Tensor:
        return (time <= targets) | ~_less(half, time - targets)

    first = _count_rows(episode, is_too_early)
    return _window(first, _count_rows(episode, is_not_too_late), valid)


def window_since(rows: Rows, valid: Tensor | None) -> Window:
    """The rows after the previous target that is not NaN, up to each target."""
    count = rows.not_after
    at = torch.arange(count.size(-1), device=count.device).expand_as(count)
    known = torch.where(rows.nan, -1, at)
    previous = F.pad(known, (1, 0), value=-1)[..., :-1]
    if previous.size(-1) > 0:
        previous = previous.cummax(-1).values
    since = count.gather(-1, previous.clamp(min=0))
    first = torch.where(previous < 0, 0, since)
    return _window(first, torch.where(rows.nan, first, count), valid)


def _window(first: Tensor, end: Tensor, valid: Tensor | None) -> Window:
    end = torch.maximum(first, end)
    if valid is None:
        return Window(first, end, end - first, torch.where(first < end, end - 1, -1))
    before = F.pad(valid.cumsum(-1), (1, 0))  # [B,S+1]: the valid rows before each
    row = torch.arange(valid.size(-1), device=valid.device)
    last = F.pad(torch.where(valid, row, -1).cummax(-1).values, (1, 0), value=-1)
    last_valid = take(last, end, 0)
    return Window(
        first,
        end,
        take(before, end, 0) - take(before, first, 0),
        torch.where(last_valid >= first, last_valid, -1),
    )


def _count_rows(episode: Episodes, holds: Callable[[Tensor], Tensor]) -> Tensor:
    """How many of the first rows have a time that `holds`, [B,T]: it may turn false but once."""
    times, targets, lengths = episode
    count = torch.zeros_like(targets, dtype=torch.int64)
    for bit in reversed(range(bits_of(times.size(-1)))):
        more = count + (1 << bit)
        row = (more - 1).clamp(max=times.size(-1) - 1)
        count = torch.where((more <= lengths) & holds(take(times, row, 0)), more, count)
    return count


def bits_of(number: int) -> int:
    """How many bits a number has. torch.compile guards on that, and not on the number itself."""
    bits = 0
    while (1 << bits) <= number:
        bits += 1
    return bits


# ---- rows of tensors -----------------------------------------------------------------------------


def take(x: Tensor, rows: Tensor, channel_dims: int) -> Tensor:
    """The rows [B,T] or [T] of x [B,S,...] or [S,...], which has so many dimensions after S."""
    if x.dim() == 1 + channel_dims:
        return x[rows]
    if rows.dim() == 1:
        return x[:, rows]
    return x[torch.arange(x.size(0), device=x.device).unsqueeze(-1), rows]


def all_valid(source_valid: Tensor | None, *rows: Tensor) -> Tensor | None:
    """Whether all of some rows are real; None where every row is."""
    if source_valid is None:
        return None
    valid = take(source_valid, rows[0], 0)
    for more in rows[1:]:
        valid = valid & take(source_valid, more, 0)
    return valid


# ---- distances in time -----------------------------------------------------------------------
# A distance of int64 times is their difference modulo 2^64, read as unsigned: exact over the whole
# range of int64. Torch has little arithmetic for uint64, so the bits stay in an int64.


def _less(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.is_floating_point:
        return x < y
    return (x ^ _SIGN) < (y ^ _SIGN)


def at_most(x: Tensor, duration: float) -> Tensor:
    """Whether a distance is no longer than a duration."""
    if x.dtype.is_floating_point:
        return x <= seconds(duration, x)
    return (x ^ _SIGN) <= (int(duration) ^ _SIGN)


def seconds(number: float, like: Tensor) -> Tensor:
    """A duration in the floating type of the times."""
    # torch refuses a number that its type cannot hold; rounded to the type it is infinity.
    if abs(number) > torch.finfo(like.dtype).max:
        number = math.copysign(math.inf, number)
    return torch.full((), number, dtype=like.dtype, device=like.device)


def _minus(times: Tensor, offset: int) -> Tensor:
    """The times less an offset, saturated at the ends of int64."""
    difference = times - offset  # modulo 2^64
    if offset > 0:
        return torch.where(difference > times, options.MIN_INT64, difference)
    return torch.where(difference < times, options.MAX_INT64, difference)


def _as_float(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A distance in a floating type, rounded once to nearest even."""
    if x.dtype.is_floating_point:
        return x.to(dtype)
    # From 2^63 on, half of it with the bit that falls off kept, so that no tie is made or lost.
    half = ((x >> 1) & options.MAX_INT64) | (x & 1)
    return torch.where(x >= 0, x.to(dtype), half.to(dtype) * 2)
