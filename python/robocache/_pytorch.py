"""The pytorch backend: all of the meaning in plain torch, on any device; also the reference.

Shapes: B episodes, S source rows, T targets, D channels. What is [B,...] here may lack its B, which
is shared by the batch then. Gradients are autograd's own, summed in whatever order torch does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from robocache import _checks, _options
from robocache._options import ANGLE, EXTRAPOLATE, LINEAR, NAN, NEAREST, PREVIOUS, ZERO

_MIN_INT64 = -(2**63)
_PI_FLOAT32 = 13176795 / 2**22  # pi rounded to float32


class _Rows(NamedTuple):
    """Where the targets fall among the rows of their episode; all [B,T]."""

    lo: Tensor  # the last row at or before the target, clamped to a row
    hi: Tensor  # the row after it, clamped to a row
    nearest: Tensor  # the closer of the two; a tie takes lo
    hit: Tensor  # the nearest row is as close as the tolerance: it alone is the answer
    before: Tensor  # before the first row, no hit
    after: Tensor  # after the last row, no hit
    from_lo: Tensor  # time from lo to the target
    to_nearest: Tensor  # time between the target and the nearest row
    gap: Tensor  # time from lo to hi
    empty: Tensor  # the episode has no rows
    nan: Tensor  # the target is NaN


class _Pair(NamedTuple):
    """The two rows that a value is interpolated from; all [B,T]."""

    a: Tensor
    b: Tensor
    weight: Tensor  # of b, in the compute type
    alone: Tensor  # row a alone is the answer: a hit, a held row


def resample(*arguments: Any) -> Tensor:
    """As the operator of this name; differentiable with respect to the values."""
    return resample_valid(*arguments)[0]


def resample_valid(
    values: Tensor,
    source_times: Tensor,
    target_times: Tensor,
    source_lengths: Tensor | None,
    source_valid: Tensor | None,
    subtract: Tensor | None,
    multiply: Tensor | None,
    layout: Sequence[int] | None,
    options: int,
    max_gap_ns: int,
    tolerance_ns: int,
    max_gap_s: float,
    tolerance_s: float,
) -> tuple[Tensor, Tensor]:
    """As the operator of this name; differentiable with respect to the values."""
    batch = _checks.check_tensors(
        values,
        source_times,
        target_times,
        source_lengths,
        source_valid,
        subtract,
        multiply,
        layout,
        options,
    )
    outside = _options.outside_of(options)
    out_dtype = _options.out_dtype_of(options, values.dtype)
    compute = _options.compute_dtype(values.dtype, out_dtype)

    if values.size(-2) == 0:  # a row for the gathers to point at; it does not exist either
        values = F.pad(values, (0, 0, 0, 1))
        source_times = F.pad(source_times, (0, 1))
        source_valid = None if source_valid is None else F.pad(source_valid, (0, 1))
        source_lengths = torch.zeros((), dtype=torch.int64, device=values.device)
    if values.requires_grad:  # gradients are summed in the compute type
        values = values.to(compute)

    source_times, target_times, lengths = _episodes(source_times, target_times, source_lengths)
    rows = _find(source_times, target_times, lengths, tolerance_ns, tolerance_s)
    pair = _interpolation(rows, compute)
    linear_pair = pair
    if outside == EXTRAPOLATE:
        linear_pair = _extrapolation(pair, rows, source_times, target_times, lengths)

    valid = ~(rows.before | rows.after | rows.empty | rows.nan)
    has_max_gap = max_gap_ns >= 0 or max_gap_s >= 0
    parts = []
    start = 0
    for method, width in _options.runs(layout, options, values.size(-1)):
        channels = values.narrow(-1, start, width)  # [B,S,width]
        start += width
        if method == PREVIOUS:
            row = torch.where(rows.hit, rows.nearest, rows.lo)
            part = _take(channels, row, 1).to(compute)
            rows_are_valid, distance = _all_valid(source_valid, row), rows.from_lo
        elif method == NEAREST:
            part = _take(channels, rows.nearest, 1).to(compute)
            rows_are_valid, distance = _all_valid(source_valid, rows.nearest), rows.to_nearest
        else:
            a, b, weight, alone = linear_pair if method == LINEAR else pair
            x = _take(channels, a, 1).to(compute)
            y = _take(channels, b, 1).to(compute)
            weight, alone = weight.unsqueeze(-1), alone.unsqueeze(-1)
            rows_are_valid, distance = _all_valid(source_valid, pair.a, pair.b), rows.gap
            if method == LINEAR:
                part = torch.where(alone, x, x + weight * (y - x))
            elif method == ANGLE:
                part = _wrap(torch.where(alone, x, x + weight * _wrap(y - x)))
            else:
                part, is_rotation = _slerp(x, y, weight, alone)
                valid = valid & is_rotation
        parts.append(part)
        if rows_are_valid is not None:
            valid = valid & rows_are_valid
        if has_max_gap:
            valid = valid & (rows.hit | _at_most(distance, max_gap_ns, max_gap_s))

    result = parts[0] if len(parts) == 1 else torch.cat(parts, -1)  # [B,T,D]
    if subtract is not None:
        result = result - subtract.to(compute)
    if multiply is not None:
        result = result * multiply.to(compute)
    # Literals, the one of most precedence last.
    if outside in (ZERO, NAN):
        result = _fill(result, rows.before | rows.after, 0.0 if outside == ZERO else math.nan)
    result = _fill(result, rows.nan, math.nan)
    result = _fill(result, rows.empty, 0.0)
    result = round_to(result, out_dtype)
    if batch is not None:
        result = result.expand(batch, -1, -1)
        valid = valid.expand(batch, -1)
    return result.contiguous(), valid.contiguous()


# ---- which rows ------------------------------------------------------------------------------


def _episodes(
    source_times: Tensor, target_times: Tensor, source_lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Both times in one type, [B,S] and [B,T] or [S] and [B,T] or [T]; lengths as [B,1] or []."""
    dtype = torch.promote_types(source_times.dtype, target_times.dtype)
    source_times, target_times = source_times.to(dtype), target_times.to(dtype)
    rows = source_times.size(-1)
    if source_lengths is None:
        lengths = torch.full((), rows, dtype=torch.int64, device=source_times.device)
    else:
        lengths = source_lengths.to(torch.int64).clamp(0, rows)
        if lengths.dim() == 1:
            lengths = lengths.unsqueeze(-1)
        # Rows that do not exist come after every target, so that the search stays a search.
        last = math.inf if dtype.is_floating_point else _options.MAX_INT64
        exists = torch.arange(rows, device=source_times.device) < lengths
        source_times = torch.where(exists, source_times, last)
    if source_times.dim() == 2 and target_times.dim() == 1:
        target_times = target_times.expand(source_times.size(0), -1)
    return source_times.contiguous(), target_times.contiguous(), lengths


def _find(
    source_times: Tensor,
    target_times: Tensor,
    lengths: Tensor,
    tolerance_ns: int,
    tolerance_s: float,
) -> _Rows:
    # The number of rows at or before the target; of equal times the last row becomes lo.
    count = torch.searchsorted(source_times, target_times, right=True)
    count = torch.minimum(count, lengths)
    has_lo, has_hi = count > 0, count < lengths
    lo = (count - 1).clamp(min=0)
    hi = torch.minimum(count, lengths - 1).clamp(min=0)
    time_lo, time_hi = _take(source_times, lo, 0), _take(source_times, hi, 0)
    from_lo, to_hi = target_times - time_lo, time_hi - target_times

    hi_is_nearer = has_hi & (~has_lo | _less(to_hi, from_lo))
    hit = has_lo & ((time_lo == target_times) | _at_most(from_lo, tolerance_ns, tolerance_s))
    hit = hit | (has_hi & _at_most(to_hi, tolerance_ns, tolerance_s))
    return _Rows(
        lo=lo,
        hi=hi,
        nearest=torch.where(hi_is_nearer, hi, lo),
        hit=hit,
        before=~has_lo & ~hit,
        after=has_lo & ~has_hi & ~hit,
        from_lo=from_lo,
        to_nearest=torch.where(hi_is_nearer, to_hi, from_lo),
        gap=time_hi - time_lo,
        empty=lengths == 0,
        nan=target_times.isnan(),
    )


def _interpolation(rows: _Rows, compute: torch.dtype) -> _Pair:
    alone = rows.hit | rows.before | rows.after | rows.nan
    a = torch.where(rows.hit, rows.nearest, rows.lo)
    b = torch.where(alone, a, rows.hi)
    weight = _as_float(rows.from_lo, compute) / _as_float(rows.gap, compute)
    # A weight that is not used must be finite still, or its product with a gradient of 0 is NaN.
    return _Pair(a, b, torch.where(alone, 0.0, weight), alone)


def _extrapolation(
    pair: _Pair, rows: _Rows, source_times: Tensor, target_times: Tensor, lengths: Tensor
) -> _Pair:
    """`pair`, but outside the recording the first or last two rows, where their times differ."""
    a = torch.where(rows.before, 0, lengths - 2).clamp(min=0)
    b = torch.minimum(a + 1, lengths - 1).clamp(min=0)
    time_a, time_b = _take(source_times, a, 0), _take(source_times, b, 0)
    stretched = (rows.before | rows.after) & ~rows.nan & (time_a < time_b)
    from_a = torch.where(rows.before, time_a - target_times, target_times - time_a)
    compute = pair.weight.dtype
    weight = _as_float(from_a, compute) / _as_float(time_b - time_a, compute)
    return _Pair(
        a=torch.where(stretched, a, pair.a),
        b=torch.where(stretched, b, pair.b),
        weight=torch.where(stretched, torch.where(rows.before, -weight, weight), pair.weight),
        alone=pair.alone & ~stretched,
    )


def _take(x: Tensor, rows: Tensor, channel_dims: int) -> Tensor:
    """The rows [B,T] or [T] of x [B,S,...] or [S,...], which has so many dimensions after S."""
    if x.dim() == 1 + channel_dims:
        return x[rows]
    if rows.dim() == 1:
        return x[:, rows]
    return x[torch.arange(x.size(0), device=x.device).unsqueeze(-1), rows]


def _all_valid(source_valid: Tensor | None, *rows: Tensor) -> Tensor | None:
    if source_valid is None:
        return None
    valid = _take(source_valid, rows[0], 0)
    for more in rows[1:]:
        valid = valid & _take(source_valid, more, 0)
    return valid


# ---- distances in time -----------------------------------------------------------------------
# A distance of int64 times is their difference modulo 2^64, read as unsigned: exact over the whole
# range of int64. Torch has little arithmetic for uint64, so the bits stay in an int64.


def _less(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.is_floating_point:
        return x < y
    return (x ^ _MIN_INT64) < (y ^ _MIN_INT64)


def _at_most(x: Tensor, nanoseconds: int, seconds: float) -> Tensor:
    if x.dtype.is_floating_point:
        # torch refuses a number that its type cannot hold; rounded to the type it is infinity.
        limit = seconds if seconds <= torch.finfo(x.dtype).max else math.inf
        return x <= torch.full((), limit, dtype=x.dtype, device=x.device)
    return (x ^ _MIN_INT64) <= (nanoseconds ^ _MIN_INT64)


def _as_float(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A distance in a floating type, rounded once to nearest even."""
    if x.dtype.is_floating_point:
        return x.to(dtype)
    # From 2^63 on, half of it with the bit that falls off kept, so that no tie is made or lost.
    half = ((x >> 1) & _options.MAX_INT64) | (x & 1)
    return torch.where(x >= 0, x.to(dtype), half.to(dtype) * 2)


# ---- how rows combine ------------------------------------------------------------------------


def _wrap(x: Tensor) -> Tensor:
    """The angle in (-pi, pi] that differs from `x` by whole turns; the slope is 1 everywhere."""
    pi = math.pi if x.dtype == torch.float64 else _PI_FLOAT32
    turn = 2 * pi
    near = torch.where(x > 0, x - turn, x + turn)
    # Far away the turn must be a better one than float32 has, and its multiples exact.
    wide = x.to(torch.float32 if x.device.type == "mps" else torch.float64)
    wide = torch.fmod(wide, 2 * math.pi)
    wide = torch.where(wide > math.pi, wide - 2 * math.pi, wide)
    far = torch.where(wide < -math.pi, wide + 2 * math.pi, wide).to(x.dtype)
    far = torch.where(far <= -pi, far + turn, far)
    wrapped = torch.where((x > -3 * pi) & (x <= 3 * pi), near, far)
    return torch.where((x > -pi) & (x <= pi), x, wrapped)


def _slerp(a: Tensor, b: Tensor, weight: Tensor, alone: Tensor) -> tuple[Tensor, Tensor]:
    """Unit quaternions [B,T,4] on the short arc from a to b, and whether there is one, [B,T].

    A zero quaternion has no direction: zeros, without a gradient.
    """
    is_rotation = (_dot(a, a) != 0) & (_dot(b, b) != 0)
    flip = _dot(a, b) < 0
    a, b = _unit(a), _unit(b)
    b = torch.where(flip, -b, b)
    # Half the chord is the sine of half the angle: exact for small angles, where the dot product
    # is not.
    chord = b - a
    theta = 2 * torch.asin(_length(chord) / 2)
    point = _sine_ratio(1 - weight, theta) * a + _sine_ratio(weight, theta) * b
    result = torch.where(alone, a, _unit(point))
    return torch.where(is_rotation, result, 0.0), is_rotation.squeeze(-1)


def _sine_ratio(u: Tensor, theta: Tensor) -> Tensor:
    """sin(u theta) / sin(theta), by its series where the quotient's slope would cancel."""
    is_small = theta < (3e-3 if theta.dtype == torch.float64 else 0.15)
    far = torch.where(is_small, 1.0, theta)
    quotient = torch.sin(u * far) / torch.sin(far)
    t, v = theta * theta, u * u
    series = 1 / 6 + t * ((7 - 3 * v) / 360 + t * (31 - v * (18 - 3 * v)) / 15120)
    return torch.where(is_small, u + u * (1 - v) * t * series, quotient)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """[B,T,1]; summed in order, as every backend does, so that all agree on its sign."""
    p = a * b
    return ((p[..., 0:1] + p[..., 1:2]) + p[..., 2:3]) + p[..., 3:4]


def _length(q: Tensor) -> Tensor:
    """[B,T,1]; the gradient at zero is zero."""
    square = _dot(q, q)
    is_zero = square == 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, square).sqrt())


def _unit(q: Tensor) -> Tensor:
    """The direction of q; zeros where q is zero."""
    square = _dot(q, q)
    return q / torch.where(square == 0, 1.0, square).sqrt()


# ---- the result ------------------------------------------------------------------------------


def _fill(result: Tensor, mask: Tensor, value: float) -> Tensor:
    return result.masked_fill(mask.unsqueeze(-1), value)


def round_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """To the output's type, to nearest even."""
    if dtype == torch.uint8:
        return x.nan_to_num(nan=0.0).round().clamp(0, 255).to(dtype)
    if dtype in (torch.float16, torch.bfloat16):
        return x.to(torch.float32).to(dtype)  # float64 goes by way of float32
    return x.to(dtype)
