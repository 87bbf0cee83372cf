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
OPTIONAL = ("source_lengths", "source_valid", "subtract", "multiply")


def check_are_tensors(**arguments: object) -> None:
    for name, argument in arguments.items():
        if not isinstance(argument, Tensor) and not (argument is None and name in OPTIONAL):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(argument).__name__}")


def check_need_no_gradient(**arguments: Tensor | None) -> None:
    for name, argument in arguments.items():
        if argument is not None and argument.requires_grad:
            raise ValueError(
                f"{name}: expected no requires_grad (gradients flow to data only), "
                "got requires_grad=True"
            )


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
        _type("data", "float16, bfloat16, float32, float64 or uint8", values)
    if values.dim() not in (2, 3):
        _value("data", "[B,S,D] or [S,D]", values)
    batch = values.size(0) if values.dim() == 3 else None
    rows, channels = values.size(-2), values.size(-1)

    if source_times.dtype not in TIMES:
        _type("source_times", "int64, float32 or float64", source_times)
    batch = _check_rows("source_times", source_times, batch, rows)
    _check_device("source_times", source_times, values)

    if target_times.dtype not in TIMES:
        _type("target_times", "int64, float32 or float64", target_times)
    if source_times.dtype.is_floating_point != target_times.dtype.is_floating_point:
        kind = "float32 or float64" if source_times.dtype.is_floating_point else "int64"
        _type("target_times", f"{kind} like source_times", target_times)
    if target_times.dim() not in (1, 2):
        _value("target_times", "[B,T] or [T]", target_times)
    if target_times.dim() == 2:
        if batch is not None and target_times.size(0) != batch:
            _value("target_times", f"[B={batch},T]", target_times)
        batch = target_times.size(0)
    _check_device("target_times", target_times, values)

    if source_lengths is not None:
        if source_lengths.dtype not in (torch.int64, torch.int32):
            _type("source_lengths", "int64 or int32", source_lengths)
        if source_lengths.dim() > 1:
            _value("source_lengths", "[B] or []", source_lengths)
        if source_lengths.dim() == 1:
            if batch is not None and source_lengths.size(0) != batch:
                _value("source_lengths", f"[B={batch}]", source_lengths)
            batch = source_lengths.size(0)
        _check_device("source_lengths", source_lengths, values)

    if source_valid is not None:
        if source_valid.dtype != torch.bool:
            _type("source_valid", "bool", source_valid)
        batch = _check_rows("source_valid", source_valid, batch, rows)
        _check_device("source_valid", source_valid, values)

    for name, tensor in (("subtract", subtract), ("multiply", multiply)):
        if tensor is not None:
            if tensor.dtype not in FLOATS:
                _type(name, "float16, bfloat16, float32 or float64", tensor)
            if tensor.dim() != 1 or tensor.size(0) != channels:
                _value(name, f"[D={channels}]", tensor)
            _check_device(name, tensor, values)

    _check_layout(layout, options, channels)
    _check_output(values, subtract, multiply, options)
    return batch


def _check_rows(name: str, tensor: Tensor, batch: int | None, rows: int) -> int | None:
    """`tensor` must be [B,S] or [S]; returns B as far as it is known then."""
    if tensor.dim() not in (1, 2):
        _value(name, "[B,S] or [S]", tensor)
    if tensor.dim() == 1:
        if tensor.size(0) != rows:
            _value(name, f"[S={rows}]", tensor)
        return batch
    if tensor.size(1) != rows or (batch is not None and tensor.size(0) != batch):
        _value(name, f"[B,S={rows}]" if batch is None else f"[B={batch},S={rows}]", tensor)
    return tensor.size(0)


def _check_layout(layout: Sequence[int] | None, options: int, channels: int) -> None:
    runs = _options.runs(layout, options, channels)
    if len(runs) > MAX_RUNS:
        raise ValueError(f"method: expected at most {MAX_RUNS} runs, got {len(runs)}")
    for method, width in runs:
        if layout is not None and width < 1:
            raise ValueError(f"method: expected runs of at least 1 channel, got {width}")
        if method in _options.SLERPS and width != 4:
            raise ValueError(
                f"method: expected a run of 4 channels for {_options.METHOD_NAMES[method]}, "
                f"got {width}"
            )
    total = sum(width for _, width in runs)
    if total != channels:
        raise ValueError(f"method: expected runs that sum to D={channels}, got {total}")


def _check_output(
    values: Tensor, subtract: Tensor | None, multiply: Tensor | None, options: int
) -> None:
    is_given = (options >> _options.OUT_DTYPE_SHIFT) & 15 != 0
    scales = subtract is not None or multiply is not None
    if values.dtype == torch.uint8 and scales and not is_given:
        raise ValueError(
            "out_dtype: expected a dtype with subtract or multiply of uint8 data, got None"
        )
    if (
        _options.out_dtype_of(options, values.dtype) == torch.uint8
        and _options.outside_of(options) == _options.NAN
    ):
        raise ValueError("outside: expected hold, zero or extrapolate for uint8 output, got 'nan'")


def check_values(source_times: Tensor, source_lengths: Tensor | None) -> None:
    """Source times ascend within the lengths, which lie in [0,S]. Synchronises once."""
    rows = source_times.size(-1)
    wrong_time = source_times.isnan()
    wrong_time[..., 1:] |= source_times[..., 1:] < source_times[..., :-1]
    wrong_length = None
    if source_lengths is not None:
        exists = torch.arange(rows, device=source_times.device) < source_lengths.unsqueeze(-1)
        if exists.dim() > source_times.dim():  # shared times: a row exists if it does for any batch
            exists = exists.any(0)
        wrong_time = wrong_time & exists
        wrong_length = (source_lengths < 0) | (source_lengths > rows)
        found = torch.stack([wrong_time.any(), wrong_length.any()]).tolist()
    else:
        found = [wrong_time.any().item(), False]
    if found[0]:
        at = wrong_time.nonzero()[0].tolist()
        got = source_times.expand(wrong_time.shape)[tuple(at)].item()
        if got == got:
            at_before = (*at[:-1], at[-1] - 1)
            before = source_times.expand(wrong_time.shape)[at_before].item()
            raise ValueError(
                f"source_times: expected ascending times, got {_number(got)} after "
                f"{_number(before)} at {_list(at)}"
            )
        raise ValueError(f"source_times: expected ascending times, got nan at {_list(at)}")
    if source_lengths is not None and wrong_length is not None and found[1]:
        at = wrong_length.nonzero()[0].tolist()
        raise ValueError(
            f"source_lengths: expected 0 to S={rows}, got {source_lengths[tuple(at)].item()} "
            f"at {_list(at)}"
        )


def _number(x: float) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)


def _check_device(name: str, tensor: Tensor, values: Tensor) -> None:
    if tensor.device != values.device:
        raise ValueError(f"{name}: expected device {values.device} like data, got {tensor.device}")


def _type(name: str, expected: str, got: Tensor) -> NoReturn:
    raise TypeError(f"{name}: expected {expected}, got {_options.dtype_name(got.dtype)}")


def _value(name: str, expected: str, got: Tensor) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {_list(got.shape)}")


def _list(numbers: Sequence[int]) -> str:
    return "[" + ",".join(map(str, numbers)) + "]"
