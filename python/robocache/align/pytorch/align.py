"""The operator `align` in plain torch.

Shapes: B episodes, S source rows, T targets, D channels of a stream. What is [B,...] here may lack
its B, which is shared by the batch then. Gradients are autograd's own, summed in whatever order
torch does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from robocache.align import options as _options
from robocache.align.call import Call, StreamArguments, out_dtype_of, runs_of
from robocache.align.call_checks import check_call
from robocache.align.options import (
    ANGLE,
    EXTRAPOLATE,
    LINEAR,
    MEAN,
    NAN,
    NEAREST,
    PREVIOUS,
    SUM,
    ZERO,
)
from robocache.align.pytorch.combine import round_to, slerp, window_sum, wrap
from robocache.align.pytorch.locate import (
    Episodes,
    Pair,
    Rows,
    Window,
    all_valid,
    at_most,
    episodes,
    extrapolation,
    find,
    interpolation,
    take,
    window_around,
    window_since,
)
from robocache.core import dtypes


class _Located(NamedTuple):
    """Rows, weights and masks of a stream's targets, which depend only on times."""

    episode: Episodes
    rows: Rows
    pair: Pair  # what slerp and angle combine
    linear: Pair  # what linear does: it may be extrapolated
    around: Window | None  # the rows of a mean
    since: Window | None  # the rows of a sum


class _Part(NamedTuple):
    """Results of a run, before subtract and multiply."""

    values: Tensor  # [B,T,channels of the run]
    valid: Tensor  # [B,T], but for what is valid nowhere: an empty episode, a NaN target
    newest: Tensor  # [B,T]: the latest row that was used
    outside: Tensor  # [B,T]: where a literal `outside` is written


def align(call: Call) -> list[Tensor]:
    """Values [B,T,sum of D], and where they are wanted the mask and the age [B,T,streams].

    Differentiable by the values.
    """
    batch = check_call(call)
    out_dtype = out_dtype_of(call)
    time_dtype = call.target_times.dtype
    for stream in call.streams:
        time_dtype = torch.promote_types(time_dtype, stream.times.dtype)

    shape = [] if batch is None else [batch]
    shape.append(call.target_times.size(-1))
    values, valid, age = [], [], []
    for stream in call.streams:
        stream_values, stream_valid, stream_age = _align_stream(
            stream, call, shape, time_dtype, out_dtype
        )
        values.append(stream_values)
        valid.append(stream_valid.expand(shape))
        if stream_age is not None:
            age.append(stream_age.expand(shape))
    results = [values[0].contiguous() if len(values) == 1 else torch.cat(values, -1)]
    if call.return_valid:
        results.append(torch.stack(valid, -1))
    if age:
        results.append(torch.stack(age, -1))
    return results


def _align_stream(
    stream: StreamArguments,
    call: Call,
    shape: list[int],
    time_dtype: torch.dtype,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Values [*shape,D], mask, and age if it is wanted; `shape` is [B,T]."""
    outside = _options.OUTSIDES[call.outside]
    compute = dtypes.compute_dtype(stream.values.dtype, out_dtype)
    values, source_valid = stream.values, stream.valid
    source_times, lengths = stream.times, stream.lengths
    if values.size(-2) == 0:  # a row for the gathers to point at; it does not exist either
        values = F.pad(values, (0, 0, 0, 1))
        source_times = F.pad(source_times, (0, 1))
        source_valid = None if source_valid is None else F.pad(source_valid, (0, 1))
        lengths = torch.zeros((), dtype=torch.int64, device=values.device)
    if values.requires_grad:  # gradients are summed in the compute type
        values = values.to(compute)

    episode = episodes(source_times, call.target_times, lengths, stream.clock_offset, time_dtype)
    located = _locate(episode, stream, source_valid, compute, outside)
    rows = located.rows
    parts: list[Tensor] = []
    valid = ~(rows.empty | rows.nan)
    newest: Tensor | None = None
    start = 0
    for method, width in runs_of(stream):
        channels = values.narrow(-1, start, width)  # [B,S,width]
        part = _combine(method, channels, located, stream, source_valid, compute)
        parts.append(_finish(part, stream, start, outside, located).expand(*shape, -1))
        start += width
        valid = valid & part.valid
        newest = part.newest if newest is None else torch.maximum(newest, part.newest)
    result = parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    age = None
    if call.return_age:
        assert newest is not None  # there is a run
        age = episode.targets - take(episode.times, newest, 0)
        # Equal times have the age +0, whatever the signs of their zeros.
        age = torch.where(rows.empty | rows.nan | (age == 0), 0, age)
    return round_to(result, out_dtype), valid, age


def _locate(
    episode: Episodes,
    stream: StreamArguments,
    source_valid: Tensor | None,
    compute: torch.dtype,
    outside: int,
) -> _Located:
    rows = find(episode, stream.tolerance)
    pair = interpolation(rows, compute)
    methods = [method for method, _ in runs_of(stream)]
    around = since = None
    if MEAN in methods:
        assert stream.mean_window is not None  # as checked
        around = window_around(episode, stream.mean_window, source_valid)
    if SUM in methods:
        since = window_since(rows, source_valid)
    linear = extrapolation(pair, rows, episode) if outside == EXTRAPOLATE else pair
    return _Located(episode, rows, pair, linear, around, since)


# ---- runs ------------------------------------------------------------------------------------


def _combine(
    method: int,
    channels: Tensor,
    located: _Located,
    stream: StreamArguments,
    source_valid: Tensor | None,
    compute: torch.dtype,
) -> _Part:
    if method == MEAN:
        return _mean(channels, located, stream, source_valid, compute)
    if method == SUM:
        return _sum(channels, located, source_valid, compute)
    rows = located.rows
    if method == PREVIOUS:
        row = torch.where(rows.hit, rows.nearest, rows.lo)
        return _from_one(channels, row, rows.from_lo, located, stream, source_valid, compute)
    if method == NEAREST:
        row = rows.nearest
        return _from_one(channels, row, rows.to_nearest, located, stream, source_valid, compute)
    return _from_two(method, channels, located, stream, source_valid, compute)


def _from_one(
    channels: Tensor,
    row: Tensor,
    distance: Tensor,
    located: _Located,
    stream: StreamArguments,
    source_valid: Tensor | None,
    compute: torch.dtype,
) -> _Part:
    values = take(channels, row, 1).to(compute)
    valid = _mask(located.rows, all_valid(source_valid, row), distance, stream)
    return _Part(values, valid, row, located.rows.before | located.rows.after)


def _from_two(
    method: int,
    channels: Tensor,
    located: _Located,
    stream: StreamArguments,
    source_valid: Tensor | None,
    compute: torch.dtype,
) -> _Part:
    rows = located.rows
    pair = located.linear if method == LINEAR else located.pair
    x = take(channels, pair.a, 1).to(compute)
    y = take(channels, pair.b, 1).to(compute)
    weight, alone = pair.weight.unsqueeze(-1), pair.alone.unsqueeze(-1)
    rows_are_valid = all_valid(source_valid, located.pair.a, located.pair.b)
    valid = _mask(rows, rows_are_valid, rows.gap, stream)
    if method in _options.SLERPS:
        values, is_rotation = slerp(x, y, weight, alone)
        valid = valid & is_rotation
    elif method == ANGLE:
        values = wrap(torch.where(alone, x, x + weight * wrap(y - x)))
    else:
        values = torch.where(alone, x, x + weight * (y - x))
    newest = torch.where(pair.alone, pair.a, pair.b)
    return _Part(values, valid, newest, rows.before | rows.after)


def _mask(
    rows: Rows, rows_are_valid: Tensor | None, distance: Tensor, stream: StreamArguments
) -> Tensor:
    valid = ~(rows.before | rows.after)
    if rows_are_valid is not None:
        valid = valid & rows_are_valid
    if stream.max_gap is not None:
        valid = valid & (rows.hit | at_most(distance, stream.max_gap))
    return valid


def _mean(
    channels: Tensor,
    located: _Located,
    stream: StreamArguments,
    source_valid: Tensor | None,
    compute: torch.dtype,
) -> _Part:
    """The mean of the window's valid rows; as linear where it has none; held outside."""
    rows, window = located.rows, located.around
    assert window is not None
    otherwise = _from_two(
        LINEAR, channels, located._replace(linear=located.pair), stream, source_valid, compute
    )
    total = window_sum(channels.to(compute), window, source_valid)
    count = window.valid_count.clamp(min=1).to(compute).unsqueeze(-1)
    has_rows = (window.valid_count > 0) & rows.inside & ~rows.nan
    return _Part(
        torch.where(has_rows.unsqueeze(-1), total / count, otherwise.values),
        rows.inside & (has_rows | otherwise.valid),
        torch.where(has_rows, window.last_valid, otherwise.newest),
        ~rows.inside,
    )


def _sum(
    channels: Tensor, located: _Located, source_valid: Tensor | None, compute: torch.dtype
) -> _Part:
    """The sum of the valid rows since the previous target; held outside."""
    rows, window = located.rows, located.since
    assert window is not None
    held = take(channels, located.pair.a, 1).to(compute)
    total = window_sum(channels.to(compute), window, source_valid)
    all_are_valid = window.valid_count == window.end - window.first
    used = torch.where(window.last_valid >= 0, window.last_valid, rows.lo)
    return _Part(
        torch.where(rows.inside.unsqueeze(-1), total, held),
        rows.inside & all_are_valid,
        torch.where(rows.inside, used, located.pair.a),
        ~rows.inside,
    )


def _finish(
    part: _Part, stream: StreamArguments, start: int, outside: int, located: _Located
) -> Tensor:
    """Subtract, multiply, and the literals, the one of most precedence last."""
    values = part.values
    width = values.size(-1)
    if stream.subtract is not None:
        values = values - stream.subtract.narrow(0, start, width).to(values.dtype)
    if stream.multiply is not None:
        values = values * stream.multiply.narrow(0, start, width).to(values.dtype)
    if outside in (ZERO, NAN):
        values = _fill(values, part.outside, 0.0 if outside == ZERO else math.nan)
    if located.episode.targets.is_floating_point():
        values = _fill(values, located.rows.nan, math.nan)
    return _fill(values, located.rows.empty, 0.0)


def _fill(values: Tensor, mask: Tensor, value: float) -> Tensor:
    return values.masked_fill(mask.unsqueeze(-1), value)
