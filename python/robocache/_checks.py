"""Checks of tensors.

`check_tensors` is for the pytorch backend and the fake kernels: the compiled operators make the
same checks in the same order with the same messages. For each tensor: dtype, then rank and shape,
then device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from robocache import _options

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TIMES = (torch.int64, torch.float32, torch.float64)
MAX_RUNS = 256


def check_type(name: str, argument: object) -> None:
    if not isinstance(argument, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(argument).__name__}")


def check_device(name: str, tensor: Tensor, first: Tensor, first_name: str) -> None:
    if tensor.device != first.device:
        raise ValueError(
            f"{name}: expected device {first.device} like {first_name}, got {tensor.device}"
        )


def refuse_dtype(name: str, expected: str, got: Tensor) -> NoReturn:
    raise TypeError(f"{name}: expected {expected}, got {_options.dtype_name(got.dtype)}")


def refuse_shape(name: str, expected: str, got: Tensor) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {shape_text(got.shape)}")


def refuse_gradient(name: str, to: str = "data") -> NoReturn:
    raise ValueError(
        f"{name}: expected no requires_grad (gradients flow to {to} only), got requires_grad=True"
    )


def shape_text(numbers: Sequence[int]) -> str:
    return "[" + ",".join(map(str, numbers)) + "]"


# ---- resampling ------------------------------------------------------------------------------


def check_scale(name: str, argument: Tensor) -> None:
    check_type(name, argument)
    if argument.requires_grad:
        refuse_gradient(name)


def check_tensors(
    values: Tensor,
    source_times: Tensor,
    target_times: Tensor,
    source_lengths: Tensor | None,
    source_valid: Tensor | None,
    subtract: Tensor | None,
    multiply: Tensor | None,
    layout: Sequence[int] | None,
    options: int,
) -> int | None:
    """Raises ValueError or TypeError for what does not fit; returns B, None where nothing has it.

    B comes from the first argument that has it; an argument without B is shared by the batch.
    """
    if values.dtype not in _options.DTYPES:
        refuse_dtype("data", "float16, bfloat16, float32, float64 or uint8", values)
    if values.dim() not in (2, 3):
        refuse_shape("data", "[B,S,D] or [S,D]", values)
    batch = values.size(0) if values.dim() == 3 else None
    rows, channels = values.size(-2), values.size(-1)

    if source_times.dtype not in TIMES:
        refuse_dtype("source_times", "int64, float32 or float64", source_times)
    batch = _check_rows("source_times", source_times, batch, rows)
    check_device("source_times", source_times, values, "data")

    if target_times.dtype not in TIMES:
        refuse_dtype("target_times", "int64, float32 or float64", target_times)
    if source_times.dtype.is_floating_point != target_times.dtype.is_floating_point:
        kind = "float32 or float64" if source_times.dtype.is_floating_point else "int64"
        refuse_dtype("target_times", f"{kind} like source_times", target_times)
    if target_times.dim() not in (1, 2):
        refuse_shape("target_times", "[B,T] or [T]", target_times)
    if target_times.dim() == 2:
        if batch is not None and target_times.size(0) != batch:
            refuse_shape("target_times", f"[B={batch},T]", target_times)
        batch = target_times.size(0)
    check_device("target_times", target_times, values, "data")

    if source_lengths is not None:
        if source_lengths.dtype not in (torch.int64, torch.int32):
            refuse_dtype("source_lengths", "int64 or int32", source_lengths)
        if source_lengths.dim() > 1:
            refuse_shape("source_lengths", "[B] or []", source_lengths)
        if source_lengths.dim() == 1:
            if batch is not None and source_lengths.size(0) != batch:
                refuse_shape("source_lengths", f"[B={batch}]", source_lengths)
            batch = source_lengths.size(0)
        check_device("source_lengths", source_lengths, values, "data")

    if source_valid is not None:
        if source_valid.dtype != torch.bool:
            refuse_dtype("source_valid", "bool", source_valid)
        batch = _check_rows("source_valid", source_valid, batch, rows)
        check_device("source_valid", source_valid, values, "data")

    for name, tensor in (("subtract", subtract), ("multiply", multiply)):
        if tensor is not None:
            if tensor.dtype not in FLOATS:
                refuse_dtype(name, "float16, bfloat16, float32 or float64", tensor)
            if tensor.dim() != 1 or tensor.size(0) != channels:
                refuse_shape(name, f"[D={channels}]", tensor)
            check_device(name, tensor, values, "data")

    _check_layout(layout, options, channels)
    out_dtype = _options.out_dtype_of(options, values.dtype)
    if out_dtype == torch.uint8 and _options.outside_of(options) == _options.NAN:
        raise ValueError("outside: expected hold, zero or extrapolate for uint8 output, got 'nan'")
    return batch


def _check_rows(name: str, tensor: Tensor, batch: int | None, rows: int) -> int | None:
    """`tensor` must be [B,S] or [S]; returns B as far as it is known then."""
    if tensor.dim() not in (1, 2):
        refuse_shape(name, "[B,S] or [S]", tensor)
    if tensor.dim() == 1:
        if tensor.size(0) != rows:
            refuse_shape(name, f"[S={rows}]", tensor)
        return batch
    if tensor.size(1) != rows or (batch is not None and tensor.size(0) != batch):
        refuse_shape(name, f"[B,S={rows}]" if batch is None else f"[B={batch},S={rows}]", tensor)
    return tensor.size(0)


def _check_layout(layout: Sequence[int] | None, options: int, channels: int) -> None:
    runs = list(_options.runs(layout, options, channels))
    for method, width in runs:
        if method in _options.SLERPS and width != 4:
            raise ValueError(
                f"method: expected a run of 4 channels for {_options.METHOD_NAMES[method]}, "
                f"got {width}"
            )
    total = sum(width for _, width in runs)
    if total != channels:
        raise ValueError(f"method: expected runs that sum to D={channels}, got {total}")
    # Neighbours of one method are one run; every quaternion is its own.
    count = sum(
        method in _options.SLERPS or i == 0 or method != runs[i - 1][0]
        for i, (method, _) in enumerate(runs)
    )
    if count > MAX_RUNS:
        raise ValueError(f"method: expected at most {MAX_RUNS} runs, got more")
