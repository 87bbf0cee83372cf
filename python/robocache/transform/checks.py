"""Checks of a transform's arguments, the same on every backend, and the shapes operators take."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

import torch
from torch import Tensor

from robocache.core.dtypes import dtype_name
from robocache.core.tensor_checks import (
    FLOATS,
    check_dense,
    check_device,
    check_type,
    refuse_dtype,
    refuse_gradient,
    refuse_shape,
)

# The numbers of robocache::RotationForm
XYZW, WXYZ, VECTOR, MATRIX, SIX_D = range(5)
FORMS = {
    "quaternion_xyzw": XYZW,
    "quaternion_wxyz": WXYZ,
    "rotation_vector": VECTOR,
    "matrix": MATRIX,
    "rotation_6d": SIX_D,
}
WIDTHS = (4, 4, 3, 9, 6)

_FLOAT_NAMES = "float16, bfloat16, float32 or float64"


def form_code(name: str, form: object) -> int:
    """Returns the number of a form of rotation.

    Raises:
        ValueError: `<name>: expected quaternion_xyzw, ..., got ...`.
    """
    code = FORMS.get(form) if isinstance(form, str) else None
    if code is None:
        *first, last = FORMS
        raise ValueError(f"{name}: expected {', '.join(first)} or {last}, got {form!r}")
    return code


def check_rotation(name: str, x: Tensor, form: int) -> None:
    """Checks that `x` is [..., numbers of the form]."""
    _check_floats(name, x)
    if x.dim() < 1 or x.size(-1) != WIDTHS[form]:
        refuse_shape(name, f"[...,{WIDTHS[form]}]", x)


def check_poses(poses: Tensor, anchor: Tensor, form: int) -> None:
    """Checks that `poses` is [...,K,P] and `anchor` [...,P] or [P]."""
    width = 3 + WIDTHS[form]
    _check_floats("poses", poses)
    if poses.dim() < 2 or poses.size(-1) != width:
        refuse_shape("poses", f"[...,K,P={width}]", poses)
    check_shared("anchor", anchor, poses, "poses", f"P={width}")


def check_steps(name: str, x: Tensor) -> None:
    """Checks that `x` is [...,K,D]."""
    _check_floats(name, x)
    if x.dim() < 2:
        refuse_shape(name, "[...,K,D]", x)


def check_shared(name: str, row: Tensor, x: Tensor, x_name: str, width: str) -> None:
    """Checks that `row` has one row per window of `x`, [...,width], or one for all, [width]."""
    _check_floats(name, row)
    if row.dtype != x.dtype:
        refuse_dtype(name, f"{dtype_name(x.dtype)} like {x_name}", row)
    lead = x.shape[:-2]
    if row.dim() < 1 or row.size(-1) != x.size(-1) or row.shape[:-1] not in (lead, ()):
        windows = "".join(f"{size}," for size in lead)
        either = f"[{windows}{width}] or [{width}]" if lead else f"[{width}]"
        refuse_shape(name, either, row)
    check_device(name, row, x, x_name)


def check_timing(time_step: object, times: Tensor | None, x: Tensor, x_name: str) -> float:
    """Returns the duration of a step; 1 where deltas are differences, and with `times`.

    Raises:
        TypeError, ValueError: `time_step: expected ..., got ...`, `times: expected ..., got ...`.
    """
    if times is not None:
        check_type("times", times)
        check_dense("times", times)
        if time_step is not None:
            raise ValueError(f"time_step: expected None with times, got {time_step!r}")
        if times.requires_grad:
            refuse_gradient("times", f"{x_name} and start")
        if times.dtype not in (torch.int64, torch.float32, torch.float64):
            refuse_dtype("times", "int64, float32 or float64", times)
        lead, rows = x.shape[:-2], x.size(-2) + 1
        if times.dim() < 1 or times.size(-1) != rows or times.shape[:-1] not in (lead, ()):
            windows = "".join(f"{size}," for size in lead)
            either = f"[{windows}K+1={rows}] or [K+1={rows}]" if lead else f"[K+1={rows}]"
            refuse_shape("times", either, times)
        check_device("times", times, x, x_name)
        return 1.0
    return check_time_step(time_step)


def check_time_step(time_step: object) -> float:
    """Returns the seconds of a step; 1 for None.

    Raises:
        TypeError, ValueError: `time_step: expected ..., got ...`.
    """
    if time_step is None:
        return 1.0
    if not isinstance(time_step, numbers.Real) or isinstance(time_step, bool):
        kind = type(time_step).__name__
        raise TypeError(f"time_step: expected a number of seconds, got {kind}")
    try:
        seconds = float(time_step)
    except OverflowError:
        seconds = math.inf
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"time_step: expected a positive finite number of seconds, got {seconds:.9g}"
        )
    return seconds


def check_mask(mask: Tensor | None, x: Tensor, x_name: str) -> None:
    """Checks that `mask` is [D] bool."""
    if mask is None:
        return
    check_type("mask", mask)
    check_dense("mask", mask)
    if mask.dtype != torch.bool:
        refuse_dtype("mask", "bool", mask)
    if mask.shape != x.shape[-1:]:
        refuse_shape("mask", f"[D={x.size(-1)}]", mask)
    check_device("mask", mask, x, x_name)


def _check_floats(name: str, x: Tensor) -> None:
    check_type(name, x)
    check_dense(name, x)
    if x.dtype not in FLOATS:
        refuse_dtype(name, _FLOAT_NAMES, x)


# ---- shapes as operators take them -----------------------------------------------------------


def as_windows(x: Tensor) -> Tensor:
    """[...,K,D] as [N,K,D]."""
    if x.dim() == 3:
        return x
    return x.unsqueeze(0) if x.dim() == 2 else x.flatten(0, -3)


def as_rows(row: Tensor, windows: int) -> Tensor:
    """[...,D] or [D] as [N,D]."""
    if row.dim() == 1:
        return row.expand(windows, -1)
    return row if row.dim() == 2 else row.flatten(0, -2)


def as_before(x: Tensor, lead: Sequence[int]) -> Tensor:
    """[N,...] as [*lead,...]."""
    return x if len(lead) == 1 else x.view([*lead, *x.shape[1:]])
