"""The compiled operators of transforms: fake kernels, autograd, calls.

They take tensors of one shape, [N,...]; forms of rotation are numbers of robocache::RotationForm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache.core import errors, library
from robocache.transform.checks import WIDTHS

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_convert_rotation(x: Tensor, source_form: int, target_form: int) -> Tensor:
    return x.new_empty([x.size(0), WIDTHS[target_form]])


def _fake_convert_rotation_backward(
    grad: Tensor, x: Tensor, source_form: int, target_form: int
) -> Tensor:
    return x.new_empty(x.shape)


def _fake_convert_pose(poses: Tensor, anchor: Tensor, form: int, inverse: bool) -> Tensor:
    return poses.new_empty(poses.shape)


def _fake_convert_pose_backward(
    grad: Tensor,
    poses: Tensor,
    anchor: Tensor,
    form: int,
    inverse: bool,
    needs_grad_poses: bool,
    needs_grad_anchor: bool,
) -> list[Tensor]:
    gradients = [poses.new_empty(poses.shape)] if needs_grad_poses else []
    if needs_grad_anchor:
        gradients.append(poses.new_empty([poses.size(0), poses.size(2)]))
    return gradients


def _fake_convert_delta(
    x: Tensor, start: Tensor, times: Tensor | None, duration: float, inverse: bool
) -> Tensor:
    return x.new_empty(x.shape)


def _fake_convert_delta_backward(
    grad: Tensor, times: Tensor | None, duration: float, inverse: bool
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


# ---- autograd: applied only where a gradient is needed, as in the operators of alignment ---------


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, source_form: int, target_form: int) -> Any:
        ctx.save_for_backward(x)
        ctx.forms = (source_form, target_form)
        return _convert_rotation(x, source_form, target_form)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grad)
        return _Rotation.first_order(ctx, grad)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return _called(_convert_rotation_backward, grad, x, *ctx.forms), None, None


class _Pose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, poses: Tensor, anchor: Tensor, form: int, inverse: bool) -> Any:
        ctx.save_for_backward(poses, anchor)
        ctx.constants = (form, inverse)
        return _convert_pose(poses, anchor, form, inverse)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grad)
        return _Pose.first_order(ctx, grad)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        poses, anchor = ctx.saved_tensors
        needed = ctx.needs_input_grad[:2]
        arguments = (grad, poses, anchor, *ctx.constants, *needed)
        gradients = iter(_called(_convert_pose_backward, *arguments))
        return (*[next(gradients) if is_needed else None for is_needed in needed], None, None)


class _Delta(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, times: Tensor | None, duration: float, inverse: bool
    ) -> Any:
        ctx.save_for_backward(times)
        ctx.constants = (duration, inverse)
        return _convert_delta(x, start, times, duration, inverse)

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


def convert_rotation(x: Tensor, source_form: int, target_form: int) -> Tensor:
    """Converts [N,width] to [N,width]; differentiable."""
    needs_grad = x.requires_grad and torch.is_grad_enabled()
    operator = _Rotation.apply if needs_grad else _convert_rotation
    result: Tensor = _called(operator, x, source_form, target_form)
    return result


def convert_pose(poses: Tensor, anchor: Tensor, form: int, inverse: bool) -> Tensor:
    """Converts [N,K,P] by [N,P] to [N,K,P]; differentiable by both."""
    needs_grad = (poses.requires_grad or anchor.requires_grad) and torch.is_grad_enabled()
    operator = _Pose.apply if needs_grad else _convert_pose
    result: Tensor = _called(operator, poses, anchor, form, inverse)
    return result


def convert_delta(
    x: Tensor, start: Tensor, times: Tensor | None, duration: float, inverse: bool
) -> Tensor:
    """Converts [N,K,D] by [N,D] to [N,K,D]; differentiable by both."""
    needs_grad = (x.requires_grad or start.requires_grad) and torch.is_grad_enabled()
    operator = _Delta.apply if needs_grad else _convert_delta
    result: Tensor = _called(operator, x, start, times, duration, inverse)
    return result


def _called(operator: Any, *arguments: Any) -> Any:
    try:
        return operator(*arguments)
    except (RuntimeError, ValueError) as error:
        errors.raise_translated(error, operator, arguments, {"x": 0})
