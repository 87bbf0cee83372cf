"""Calls with streams of integers or flags, whose rows `previous` and `nearest` copy exactly.

The operator computes with floats and uint8. The streams of other dtypes therefore go through it as
the numbers of their rows, in a call of their own, and the rows are gathered by these numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from robocache.align import ops
from robocache.align import options as _options
from robocache.align.call import StreamArguments, optional_tensors, runs_of, unpack
from robocache.align.call_checks import check_call
from robocache.align.pytorch.combine import round_to
from robocache.align.pytorch.locate import take
from robocache.core import dtypes

# Torch has few operations on unsigned integers, but the signed ones move the same bits.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_STREAM = re.compile(r"streams\[(\d+)\]")


def align(
    native: bool,
    needs_grad: bool,
    tensors: Sequence[Tensor],
    target_times: Tensor,
    streams: Sequence[int],
    options: int,
) -> list[Tensor]:
    """Aligns a call of :func:`robocache.align.ops.align` with at least one copied stream."""
    call = unpack(tensors, target_times, streams, options)
    batch = check_call(call)
    dtype = _options.out_dtype_of(options, call.streams[0].values.dtype)
    shape = [target_times.size(-1)] if batch is None else [batch, target_times.size(-1)]
    for stream in call.streams:
        target_times = target_times.to(torch.promote_types(target_times.dtype, stream.times.dtype))

    columns: dict[int, list[Tensor]] = {}  # of each stream: values, and mask and age where wanted
    computed = [i for i, s in enumerate(call.streams) if s.values.dtype in dtypes.DTYPE_CODES]
    if computed:
        # Beside integers these are floats, or uint8 throughout.
        out_dtype = dtype if dtype in dtypes.DTYPE_CODES else torch.uint8
        parts = [call.streams[i] for i in computed]
        results = _align(native, needs_grad, computed, parts, target_times, options, out_dtype)
        widths = [part.values.size(-1) for part in parts]
        for i, column in zip(computed, _split(results, widths), strict=True):
            columns[i] = [column[0].to(dtype), *column[1:]]
    copied = [i for i in range(len(call.streams)) if i not in computed]
    parts = [_numbered(call.streams[i]) for i in copied]
    results = _align(native, False, copied, parts, target_times, options, torch.float64)
    if not options & _options.IS_FUSION:
        return [_rows(call.streams[0], results[0], dtype).contiguous(), *results[1:]]
    widths = [part.values.size(-1) for part in parts]
    for i, column in zip(copied, _split(results, widths), strict=True):
        columns[i] = [_rows(call.streams[i], column[0], dtype), *column[1:]]
    ordered = [columns[i] for i in range(len(call.streams))]
    return [
        torch.cat([part.expand(*shape, -1) for part in parts], -1)
        for parts in zip(*ordered, strict=True)
    ]


def _align(
    native: bool,
    needs_grad: bool,
    numbers: Sequence[int],
    streams: Sequence[StreamArguments],
    target_times: Tensor,
    options: int,
    out_dtype: torch.dtype,
) -> Sequence[Tensor]:
    """Some streams of a call, which have these numbers in it."""
    tensors = [
        tensor
        for stream in streams
        for tensor in (stream.values, stream.times, *optional_tensors(stream))
    ]
    integers = [integer for stream in streams for integer in stream.packed]
    options &= ~(15 << _options.OUT_DTYPE_SHIFT)
    options |= dtypes.DTYPE_CODES[out_dtype] << _options.OUT_DTYPE_SHIFT
    try:
        return ops.align(native, needs_grad, tensors, target_times, integers, options)
    except (TypeError, ValueError) as error:
        text = _STREAM.sub(lambda name: f"streams[{numbers[int(name[1])]}]", str(error))
        raise type(error)(text) from None


def _split(results: Sequence[Tensor], widths: Sequence[int]) -> list[list[Tensor]]:
    """The results of each stream: its columns of the values, and one of the mask and of the age."""
    split = [results[0].split(list(widths), -1)]
    split += [result.split(1, -1) for result in results[1:]]
    return [list(columns) for columns in zip(*split, strict=True)]


def _numbered(stream: StreamArguments) -> StreamArguments:
    """The stream with a channel for each run: the rows' numbers from 1, as 0 and NaN are literals.

    float64 holds every number of a row.
    """
    runs = runs_of(stream)
    rows = stream.values.size(-2)
    numbers = torch.arange(1, rows + 1, dtype=torch.float64, device=stream.values.device)
    packed = list(stream.packed)
    if stream.layout is not None:
        packed[-2 * len(runs) :] = [integer for method, _ in runs for integer in (method, 1)]
    return stream._replace(
        values=numbers.unsqueeze(-1).expand(*stream.values.shape[:-1], len(runs)), packed=packed
    )


def _rows(stream: StreamArguments, numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows with these numbers, [B,T,runs] or [T,runs], in the dtype of the result."""
    values = stream.values
    if values.size(-2) == 0:
        values = values.new_zeros([*values.shape[:-2], 1, values.size(-1)])
    values = values.view(_SIGNED.get(values.dtype, values.dtype))
    parts = []
    start = 0
    for run, (_, width) in enumerate(runs_of(stream)):
        number = numbers[..., run]
        is_row = number > 0
        row = torch.where(is_row, number - 1, 0).to(torch.int64)
        part = take(values.narrow(-1, start, width), row, 1)
        part = part.masked_fill(~is_row.unsqueeze(-1), 0).view(stream.values.dtype)
        if dtype == torch.uint8:
            part = part.to(torch.float32)  # exact for what uint8 holds, and saturates like floats
        part = round_to(part, dtype)
        if dtype.is_floating_point:
            part = part.masked_fill(number.isnan().unsqueeze(-1), math.nan)
        parts.append(part)
        start += width
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
