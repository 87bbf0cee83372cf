"""The compiled operators of transforms: fake kernels, autograd, and how they are reached.

They take arrays of one shape, [N,...], and options as transform/checks.py says.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache.core import errors, library
from robocache.transform.checks import (
    TARGET_SHIFT,
    WANTS_FIRST,
    WANTS_SECOND,
    WIDTHS,
)

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_convert_rotation(x: Tensor, options: int) -> Tensor:
    return x.new_empty([x.size(0), WIDTHS[options >> TARGET_SHIFT & 0xF]])


def _fake_convert_rotation_backward(grad: Tensor, x: Tensor, options: int) -> Tensor:
    return x.new_empty(x.shape)


def _fake_convert_pose(poses: Tensor, anchor: Tensor, options: int) -> Tensor:
    return poses.new_empty(poses.shape)


def _fake_convert_pose_backward(
    grad: Tensor, poses: Tensor, anchor: Tensor, options: int
) -> list[Tensor]:
    gradients = [poses.new_empty(poses.shape)] if options & WANTS_FIRST else []
    if options & WANTS_SECOND:
        gradients.append(poses.new_empty([poses.size(0), poses.size(2)]))
    return gradients


def _fake_convert_delta(
    x: Tensor, start: Tensor, times: Tensor | None, duration: float, options: int
) -> Tensor:
    return x.new_empty(x.shape)


def _fake_convert_delta_backward(
    grad: Tensor, times: Tensor | None, duration: float, options: int
) -> tuple[Tensor, Tensor]:
    return grad.new_empty(grad.shape), grad.new_empty([grad.size(0), grad.size(2)])


# ---- the operators ---------------------------------------------------------------------------

_convert_rotation = library.operator("convert_rotation", _fake_convert_rotation)
_convert_rotation_backward = library.operator(
    "convert_rotation_backward", _fake_convert_rotation_backward
)
_convert_pose = library.operator("convert_pose", _fake_convert_pose)
_convert_pose_backward = library.operator("convert_pose_backward", _fake_convert_pose_backward)
_convert_delta = library.operator("convert_delta", _fake_convert_delta)
_convert_delta_backward = library.operator("convert_delta_backward", _fake_convert_delta_backward)


# ---- autograd: applied only where a gradient is wanted, as in align/ops.py -----------------------


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, options: int) -> Any:
        ctx.save_for_backward(x)
        ctx.options = options
        return _convert_rotation(x, options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grad)
        return _Rotation.first_order(ctx, grad)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return _called(_convert_rotation_backward, grad, x, ctx.options), None


class _Pose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, poses: Tensor, anchor: Tensor, options: int) -> Any:
        ctx.save_for_backward(poses, anchor)
        ctx.options = options
        return _convert_pose(poses, anchor, options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grad)
        return _Pose.first_order(ctx, grad)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        poses, anchor = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:2]
        options = ctx.options
        for is_wanted, flag in zip(wanted, (WANTS_FIRST, WANTS_SECOND), strict=True):
            options |= flag if is_wanted else 0
        made = iter(_called(_convert_pose_backward, grad, poses, anchor, options))
        return (*[next(made) if is_wanted else None for is_wanted in wanted], None)


class _Delta(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, times: Tensor | None, duration: float, options: int
    ) -> Any:
        ctx.save_for_backward(times)
        ctx.constants = (duration, options)
        return _convert_delta(x, start, times, duration, options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if grad.requires_grad:  # the gradient depends on nothing else
            _refuse_second_order(grad)
        return _Delta.first_order(ctx, grad)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (times,) = ctx.saved_tensors
        of_x, of_start = _called(_convert_delta_backward, grad, times, *ctx.constants)
        return of_x, of_start, None, None, None


def _refuse_second_order(grad: Tensor) -> None:
    if torch.is_grad_enabled():
        errors.refuse_second_derivatives(grad)


# ---- calls -----------------------------------------------------------------------------------


def convert_rotation(x: Tensor, options: int) -> Tensor:
    """[N,width] to [N,width], with a gradient where one is wanted."""
    wants = x.requires_grad and torch.is_grad_enabled()
    result: Tensor = _called(_Rotation.apply if wants else _convert_rotation, x, options)
    return result


def convert_pose(poses: Tensor, anchor: Tensor, options: int) -> Tensor:
    """[N,K,P] and [N,P] to [N,K,P], with gradients where they are wanted."""
    wants = (poses.requires_grad or anchor.requires_grad) and torch.is_grad_enabled()
    result: Tensor = _called(_Pose.apply if wants else _convert_pose, poses, anchor, options)
    return result


def convert_delta(
    x: Tensor, start: Tensor, times: Tensor | None, duration: float, options: int
) -> Tensor:
    """[N,K,D] and [N,D] to [N,K,D], with gradients where they are wanted."""
    wants = (x.requires_grad or start.requires_grad) and torch.is_grad_enabled()
    call = _Delta.apply if wants else _convert_delta
    result: Tensor = _called(call, x, start, times, duration, options)
    return result


def _called(operator: Any, *arguments: Any) -> Any:
    try:
        return operator(*arguments)
    except (RuntimeError, ValueError) as error:
        errors.raise_translated(error, operator, arguments, {"x": 0})
