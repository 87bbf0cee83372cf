"""Checks the tensors of a call: layout, dtype, rank, shape and device.

The pytorch backend, the fake kernel and `config(validate=True)` run `check_call` before a call; the
cpu and cuda backends run it after their operator has failed, so that all report the same error
first, in the same words.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robocache.align import options
from robocache.align.call import Call, StreamArguments, name_of, out_dtype_of, runs_of
from robocache.core import dtypes
from robocache.core.dtypes import dtype_name
from robocache.core.tensor_checks import (
    FLOATS,
    check_dense,
    check_device,
    refuse_dtype,
    refuse_shape,
)

TIMES = (torch.int64, torch.float32, torch.float64)
VALUES = "float16, bfloat16, float32, float64, an integer dtype or bool"
MAX_RUNS = 256
MAX_RUNS_IN_ALL = 512


def check_call(call: Call) -> int | None:
    """Checks the tensors of a parsed call; returns B, None if no argument has this dimension.

    The first argument with the dimension determines B; all episodes share arguments without it.

    Raises:
        ValueError, TypeError: `<argument>: expected ..., got ...`.
    """
    batch: int | None = None
    runs = 0
    for i, stream in enumerate(call.streams):
        batch = _check_stream(stream, call, batch, is_first=i == 0)
        runs += _check_runs(stream)
    if runs > MAX_RUNS_IN_ALL:
        raise ValueError(f"streams: expected at most {MAX_RUNS_IN_ALL} runs in all, got {runs}")
    out_dtype = out_dtype_of(call)
    if not out_dtype.is_floating_point and call.outside == "nan":
        raise ValueError(
            f"outside: expected hold, zero or extrapolate for {dtype_name(out_dtype)} output, "
            "got 'nan'"
        )
    return batch


def _check_stream(
    stream: StreamArguments, call: Call, batch: int | None, is_first: bool
) -> int | None:
    """Checks a stream; returns B, None if no argument up to here has this dimension."""
    first = call.streams[0]
    first_name = name_of(first, "values")

    name, values = name_of(stream, "values"), stream.values
    check_dense(name, values)
    if values.dtype not in dtypes.NUMBERS:
        refuse_dtype(name, VALUES, values)
    if values.dim() not in (2, 3):
        refuse_shape(name, "[B,S,D] or [S,D]", values)
    if values.dim() == 3:
        if batch is not None and values.size(0) != batch:
            refuse_shape(name, f"[B={batch},S,D]", values)
        batch = values.size(0)
    rows, channels = values.size(-2), values.size(-1)
    check_device(name, values, first.values, first_name)

    name, times = name_of(stream, "times"), stream.times
    check_dense(name, times)
    if times.dtype not in TIMES:
        refuse_dtype(name, "int64, float32 or float64", times)
    if times.dtype.is_floating_point != first.times.dtype.is_floating_point:
        kind = "float32 or float64" if first.times.dtype.is_floating_point else "int64"
        refuse_dtype(name, f"{kind} like {name_of(first, 'times')}", times)
    batch = _check_rows(name, times, batch, rows)
    check_device(name, times, first.values, first_name)

    if is_first:
        batch = _check_target_times(call, batch)

    if stream.lengths is not None:
        name, lengths = name_of(stream, "lengths"), stream.lengths
        check_dense(name, lengths)
        if lengths.dtype not in (torch.int64, torch.int32):
            refuse_dtype(name, "int64 or int32", lengths)
        if lengths.dim() > 1:
            refuse_shape(name, "[B] or []", lengths)
        if lengths.dim() == 1:
            if batch is not None and lengths.size(0) != batch:
                refuse_shape(name, f"[B={batch}]", lengths)
            batch = lengths.size(0)
        check_device(name, lengths, first.values, first_name)

    if stream.valid is not None:
        name, valid = name_of(stream, "valid"), stream.valid
        check_dense(name, valid)
        if valid.dtype != torch.bool:
            refuse_dtype(name, "bool", valid)
        batch = _check_rows(name, valid, batch, rows)
        check_device(name, valid, first.values, first_name)

    for part, scale in (("subtract", stream.subtract), ("multiply", stream.multiply)):
        if scale is not None:
            name = name_of(stream, part)
            check_dense(name, scale)
            if scale.dtype not in FLOATS:
                refuse_dtype(name, "float16, bfloat16, float32 or float64", scale)
            if values.dtype in dtypes.COPIED_DTYPES:
                raise ValueError(
                    f"{name}: expected None for {dtype_name(values.dtype)} values, which are "
                    "copied, got a tensor (pass floating values)"
                )
            if scale.dim() != 1 or scale.size(0) != channels:
                refuse_shape(name, f"[D={channels}]", scale)
            check_device(name, scale, first.values, first_name)
    return batch


def _check_target_times(call: Call, batch: int | None) -> int | None:
    targets, source_times = call.target_times, call.streams[0].times
    check_dense("target_times", targets)
    if targets.dtype not in TIMES:
        refuse_dtype("target_times", "int64, float32 or float64", targets)
    if source_times.dtype.is_floating_point != targets.dtype.is_floating_point:
        kind = "float32 or float64" if source_times.dtype.is_floating_point else "int64"
        refuse_dtype("target_times", f"{kind} like {name_of(call.streams[0], 'times')}", targets)
    if targets.dim() not in (1, 2):
        refuse_shape("target_times", "[B,T] or [T]", targets)
    if targets.dim() == 2:
        if batch is not None and targets.size(0) != batch:
            refuse_shape("target_times", f"[B={batch},T]", targets)
        batch = targets.size(0)
    first = call.streams[0]
    check_device("target_times", targets, first.values, name_of(first, "values"))
    return batch


def _check_rows(name: str, tensor: Tensor, batch: int | None, rows: int) -> int | None:
    """Checks a tensor [B,S] or [S]; returns B, None if no argument up to here has it."""
    if tensor.dim() not in (1, 2):
        refuse_shape(name, "[B,S] or [S]", tensor)
    if tensor.dim() == 1:
        if tensor.size(0) != rows:
            refuse_shape(name, f"[S={rows}]", tensor)
        return batch
    if tensor.size(1) != rows or (batch is not None and tensor.size(0) != batch):
        refuse_shape(name, f"[B,S={rows}]" if batch is None else f"[B={batch},S={rows}]", tensor)
    return tensor.size(0)


def _check_runs(stream: StreamArguments) -> int:
    """Checks the runs; returns their number, adjacent runs of one method, except slerp, as one."""
    name, channels = name_of(stream, "method"), stream.values.size(-1)
    runs = runs_of(stream)
    for method, width in runs:
        if stream.values.dtype in dtypes.COPIED_DTYPES and method not in options.COPIES:
            raise ValueError(
                f"{name}: expected previous or nearest for {dtype_name(stream.values.dtype)} "
                f"values, got {options.METHOD_NAMES[method]!r}"
            )
        if method in options.SLERPS and width != 4:
            raise ValueError(
                f"{name}: expected a run of 4 channels for {options.METHOD_NAMES[method]}, "
                f"got {width}"
            )
    total = sum(width for _, width in runs)
    if total != channels:
        raise ValueError(f"{name}: expected runs that sum to D={channels}, got {total}")
    count = sum(
        method in options.SLERPS or i == 0 or method != runs[i - 1][0]
        for i, (method, _) in enumerate(runs)
    )
    if count > MAX_RUNS:
        raise ValueError(f"{name}: expected at most {MAX_RUNS} runs, got {count}")
    name = name_of(stream, "mean_window")
    has_mean = any(method == options.MEAN for method, _ in runs)
    if has_mean and stream.mean_window is None:
        raise ValueError(f"{name}: expected a duration for method 'mean', got None")
    if stream.mean_window is not None and not has_mean:
        raise ValueError(f"{name}: expected None without a run of method 'mean', got a duration")
    return count
