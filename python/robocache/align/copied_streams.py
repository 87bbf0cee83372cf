"""Alignment of integer and bool streams, whose rows `previous` and `nearest` copy exactly.

The operator computes with floats and uint8. For streams of other dtypes a second call of the
operator aligns row numbers in place of the values; the rows are then gathered by these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from robocache.align import ops
from robocache.align import options as _options
from robocache.align.call import Arguments, StreamArguments, out_dtype_of, parse, runs_of
from robocache.align.call_checks import check_call
from robocache.align.pytorch.combine import round_to
from robocache.align.pytorch.locate import take
from robocache.core import dtypes

# Torch has few operations on unsigned integers; signed ones copy the same bits.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def align(native: bool, needs_grad: bool, arguments: Arguments) -> list[Tensor]:
    """Runs a call with at least one copied stream; `ops.align` runs the other calls."""
    call = parse(arguments)
    batch = check_call(call)
    dtype = out_dtype_of(call)
    shape = [call.target_times.size(-1)] if batch is None else [batch, call.target_times.size(-1)]
    target_times = call.target_times
    for stream in call.streams:
        target_times = target_times.to(torch.promote_types(target_times.dtype, stream.times.dtype))
    call = call._replace(target_times=target_times)

    columns: dict[int, list[Tensor]] = {}  # of each stream: values, mask, age
    computed = [i for i, s in enumerate(call.streams) if s.values.dtype in dtypes.DTYPES]
    if computed:
        # Beside integers these are floats, or uint8 throughout.
        out_dtype = dtype if dtype in dtypes.DTYPES else torch.uint8
        parts = [call.streams[i] for i in computed]
        part_call = call._replace(streams=parts, out_dtype=out_dtype)
        results = ops.align(native, needs_grad, part_call)
        widths = [part.values.size(-1) for part in parts]
        for i, column in zip(computed, _split(results, widths), strict=True):
            columns[i] = [column[0].to(dtype), *column[1:]]
    copied = [i for i in range(len(call.streams)) if i not in computed]
    parts = [_numbered(call.streams[i]) for i in copied]
    part_call = call._replace(streams=parts, out_dtype=torch.float64)
    results = ops.align(native, False, part_call)
    if not call.is_fusion:
        return [_rows(call.streams[0], results[0], dtype).contiguous(), *results[1:]]
    widths = [part.values.size(-1) for part in parts]
    for i, column in zip(copied, _split(results, widths), strict=True):
        columns[i] = [_rows(call.streams[i], column[0], dtype), *column[1:]]
    ordered = [columns[i] for i in range(len(call.streams))]
    return [
        torch.cat([part.expand(*shape, -1) for part in parts], -1)
        for parts in zip(*ordered, strict=True)
    ]


def _split(results: Sequence[Tensor], widths: Sequence[int]) -> list[list[Tensor]]:
    """Splits the values, the mask and the age into the columns of each stream."""
    split = [results[0].split(list(widths), -1)]
    split += [result.split(1, -1) for result in results[1:]]
    return [list(columns) for columns in zip(*split, strict=True)]


def _numbered(stream: StreamArguments) -> StreamArguments:
    """The stream with row numbers as values, one channel for each run.

    Numbers begin at 1, since `outside` writes 0 and NaN; float64 represents each exactly.
    """
    runs = runs_of(stream)
    rows = stream.values.size(-2)
    numbers = torch.arange(1, rows + 1, dtype=torch.float64, device=stream.values.device)
    return stream._replace(
        values=numbers.unsqueeze(-1).expand(*stream.values.shape[:-1], len(runs)),
        method=[(_options.METHOD_NAMES[method], 1) for method, _ in runs],
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
            part = part.to(torch.float32)  # exact from 0 to 255; round_to saturates the others
        part = round_to(part, dtype)
        if dtype.is_floating_point:
            part = part.masked_fill(number.isnan().unsqueeze(-1), math.nan)
        parts.append(part)
        start += width
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
