"""Shared by transforms of batches: values, columns and masks of a batch, and checks of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from robocache.core.names import RotationForm
from robocache.transform.checks import WIDTHS, form_code

# ---- values ------------------------------------------------------------------------------------


def values_of(batch: Mapping[str, Any], key: str) -> Tensor:
    """The tensor of a key of a batch."""
    if not isinstance(batch, Mapping):
        raise TypeError(f"batch: expected a mapping of tensors, got {type(batch).__name__}")
    if key not in batch:
        raise ValueError(
            f"{key}: expected in the batch, got {', '.join(map(str, batch)) or 'nothing'}"
        )
    values = batch[key]
    if not isinstance(values, Tensor):
        raise TypeError(f"{key}: expected a torch.Tensor, got {type(values).__name__}")
    if not values.is_floating_point() or values.dim() < 1:
        dtype = str(values.dtype).removeprefix("torch.")
        raise TypeError(f"{key}: expected floats [...,D], got {dtype} {list(values.shape)}")
    return values


def row_of(batch: Mapping[str, Any], key: str, step: int) -> Tensor:
    """[B,D]: the step of [B,K,D], or [B,D] as it is."""
    values = values_of(batch, key)
    if values.dim() == 2:
        return values
    if values.dim() != 3:
        raise ValueError(f"{key}: expected [B,K,D] or [B,D], got {list(values.shape)}")
    steps = values.size(1)
    if not -steps <= step < steps:
        raise ValueError(f"step: expected one of the {steps} of {key}, got {step}")
    return values[:, step]


def with_steps(key: str, function: Any, x: Tensor, row_key: str, row: Tensor) -> Tensor:
    """`function` of [B,K,D] and [B,D], in the type that holds both, and rounded to that of `x`."""
    if x.dim() not in (2, 3):
        raise ValueError(f"{key}: expected [B,K,D] or [B,D], got {list(x.shape)}")
    if row.shape != (x.size(0), x.size(-1)):
        expected = f"[B={x.size(0)},{x.size(-1)}] like {key}"
        raise ValueError(f"{row_key}: expected {expected}, got {list(row.shape)}")
    common = torch.promote_types(x.dtype, row.dtype)
    steps = x if x.dim() == 3 else x[:, None]
    out: Tensor = function(steps.to(common), row.to(common)).to(x.dtype)
    return out if x.dim() == 3 else out[:, 0]


def columns_of(key: str, x: Tensor, at: int, width: int) -> Tensor:
    """A view of `width` columns of the last axis."""
    if x.size(-1) < at + width:
        raise ValueError(f"{key}: expected [...,{at + width}] or wider, got {list(x.shape)}")
    return x.narrow(-1, at, width)


def replaced(x: Tensor, at: int, width: int, columns: Tensor) -> Tensor:
    """`x` with other numbers for `width` of its columns."""
    if width == x.size(-1):
        return columns
    return torch.cat([x[..., :at], columns, x[..., at + width :]], -1)


def padded_row(batch: Mapping[str, Any], key: str, step: int) -> Tensor | None:
    """[B]: where the reference is not valid; None where the batch does not say it."""
    is_pad = batch.get(f"{key}_is_pad")
    if is_pad is None:
        return None
    padded: Tensor = is_pad if is_pad.dim() == 1 else is_pad[:, step]
    return padded


def also_padded(batch: Mapping[str, Any], key: str, to: str, step: int) -> dict[str, Any]:
    """The mask of `key`, True also where the reference is not valid."""
    name, reference = f"{key}_is_pad", padded_row(batch, to, step)
    if name not in batch or reference is None:
        return {}
    is_pad = batch[name]
    return {name: is_pad | (reference if is_pad.dim() == 1 else reference[:, None])}


def width_of(form: RotationForm) -> int:
    """How many numbers a rotation has in a form."""
    return WIDTHS[form_code("form", form)]


# ---- fields --------------------------------------------------------------------------------------


def check_key(name: str, key: object) -> None:
    """Raises TypeError for a key that is no string."""
    if not isinstance(key, str) or not key:
        raise TypeError(f"{name}: expected the name of a key, got {key!r}")


def check_int(name: str, value: object) -> None:
    """Raises TypeError for a value that is no int."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: expected an int, got {value!r}")


def check_column(name: str, value: int) -> None:
    """Raises ValueError for a column below 0."""
    check_int(name, value)
    if value < 0:
        raise ValueError(f"{name}: expected a column, 0 or more, got {value}")
