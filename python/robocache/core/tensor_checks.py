"""Checks of tensors that operations share, and their error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from robocache.core.dtypes import dtype_name

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_type(name: str, argument: object) -> None:
    """Raises TypeError for an argument that is not a tensor."""
    if not isinstance(argument, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(argument).__name__}")


def refuse_gradient(name: str, to: str = "data") -> NoReturn:
    """Raises ValueError for an argument that must not require a gradient."""
    raise ValueError(
        f"{name}: expected no requires_grad (gradients flow to {to} only), got requires_grad=True"
    )


def check_dense(name: str, tensor: Tensor) -> None:
    """Raises TypeError for a sparse or nested tensor."""
    if tensor.layout != torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise TypeError(f"{name}: expected a dense tensor, got a {kind} one")


def check_device(name: str, tensor: Tensor, first: Tensor, first_name: str) -> None:
    """Raises ValueError for a tensor on another device than the first argument."""
    if tensor.device != first.device:
        raise ValueError(
            f"{name}: expected device {first.device} like {first_name}, got {tensor.device}"
        )


def refuse_dtype(name: str, expected: str, got: Tensor) -> NoReturn:
    """Raises TypeError that names the dtype."""
    raise TypeError(f"{name}: expected {expected}, got {dtype_name(got.dtype)}")


def refuse_shape(name: str, expected: str, got: Tensor) -> NoReturn:
    """Raises ValueError that names the shape."""
    raise ValueError(f"{name}: expected {expected}, got {shape_text(got.shape)}")


def shape_text(numbers: Sequence[int]) -> str:
    """A shape as messages write it: ``[4,100]``."""
    return "[" + ",".join(map(str, numbers)) + "]"
