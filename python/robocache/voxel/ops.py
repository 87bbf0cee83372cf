"""The compiled operators of voxelization: calls, fake kernels and autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache.core import dtypes, errors, library
from robocache.voxel import checks, pytorch
from robocache.voxel.options import MAX, MEAN, MIN

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_voxelize_dropped(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    grid_size: Sequence[int],
    geometry: Sequence[float],
    mode: int,
    out_dtype: int,
) -> tuple[Tensor, Tensor]:
    dtype = dtypes.ALL_DTYPES[out_dtype]
    batch = checks.check_grid(points, features, offsets, mode, dtype)
    clouds = [] if batch is None else [batch]
    shape = [*clouds, *grid_size]
    if mode >= MEAN:
        assert features is not None
        shape.insert(len(clouds), features.size(-1))
    return (
        points.new_empty(shape, dtype=dtype),
        points.new_empty(clouds, dtype=torch.int64),
    )


def _fake_voxelize(*arguments: Any) -> Tensor:
    return _fake_voxelize_dropped(*arguments)[0]


def _fake_voxelize_backward(grad: Tensor, points: Tensor, *arguments: Any) -> Tensor:
    features_dtype = dtypes.ALL_DTYPES[arguments[-1]]
    return grad.new_empty([*points.shape[:-1], grad.size(-4)], dtype=features_dtype)


def _fake_voxelize_sparse(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    geometry: Sequence[float],
    mode: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    batch = checks.check_voxels(points, features, offsets)
    clouds = [] if batch is None else [batch]
    voxels = torch.library.get_ctx().new_dynamic_size()
    channels = 0 if features is None else features.size(-1)
    features_dtype = torch.float32 if features is None else features.dtype
    return (
        points.new_empty([voxels, 3], dtype=torch.int32),
        points.new_empty([voxels], dtype=torch.int32),
        points.new_empty([voxels, channels], dtype=features_dtype),
        points.new_empty(points.shape[:-1], dtype=torch.int64),
        points.new_empty([(1 if batch is None else batch) + 1], dtype=torch.int64),
        points.new_empty(clouds, dtype=torch.int64),
    )


def _fake_voxelize_sparse_backward(
    grad: Tensor,
    features: Tensor | None,
    point_to_voxel: Tensor,
    counts: Tensor,
    mode: int,
    features_dtype: int,
) -> Tensor:
    dtype = dtypes.ALL_DTYPES[features_dtype]
    return grad.new_empty([*point_to_voxel.shape, grad.size(-1)], dtype=dtype)


# ---- the operators ---------------------------------------------------------------------------

voxelize = library.operator("voxelize", _fake_voxelize)
voxelize_dropped = library.operator("voxelize_dropped", _fake_voxelize_dropped)
voxelize_sparse = library.operator("voxelize_sparse", _fake_voxelize_sparse)
_voxelize_backward = library.operator("voxelize_backward", _fake_voxelize_backward)
_voxelize_sparse_backward = library.operator(
    "voxelize_sparse_backward", _fake_voxelize_sparse_backward
)


# ---- autograd --------------------------------------------------------------------------------


class _DifferentiableDense(torch.autograd.Function):
    """The operator `voxelize` or `voxelize_dropped` with a gradient to the features."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: Any,
        points: Tensor,
        features: Tensor,
        offsets: Tensor | None,
        grid_size: Sequence[int],
        geometry: Sequence[float],
        mode: int,
        out_dtype: int,
    ) -> Any:
        ctx.save_for_backward(points, _values_for_backward(features, mode), offsets)
        ctx.constants = (grid_size, geometry, mode, dtypes.number_of(features.dtype))
        result = operator(points, features, offsets, grid_size, geometry, mode, out_dtype)
        if isinstance(result, tuple):
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grad)
        return _DifferentiableDense.first_order(ctx, grad, *more)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gradient = _gradient(_voxelize_backward, grad, *ctx.saved_tensors, *ctx.constants)
        return None, None, gradient, None, None, None, None, None


class _DifferentiableSparse(torch.autograd.Function):
    """The operator `voxelize_sparse` with a gradient to the features."""

    @staticmethod
    def forward(
        ctx: Any,
        points: Tensor,
        features: Tensor,
        offsets: Tensor | None,
        geometry: Sequence[float],
        mode: int,
    ) -> Any:
        result = voxelize_sparse(points, features, offsets, geometry, mode)
        coordinates, counts, _, point_to_voxel, voxel_offsets, dropped = result
        ctx.mark_non_differentiable(coordinates, counts, point_to_voxel, voxel_offsets, dropped)
        ctx.save_for_backward(_values_for_backward(features, mode), point_to_voxel, counts)
        ctx.constants = (mode, dtypes.number_of(features.dtype))
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order(grads[2])
        return _DifferentiableSparse.first_order(ctx, *grads)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        gradient = _gradient(_voxelize_sparse_backward, grads[2], *saved, *ctx.constants)
        return None, gradient, None, None, None


def _values_for_backward(features: Tensor, mode: int) -> Tensor | None:
    """The features if the mode's gradient depends on them (max and min), else None."""
    return features if mode in (MAX, MIN) else None


def _refuse_second_order(grad: Tensor) -> None:
    if torch.is_grad_enabled() and grad.requires_grad:
        errors.refuse_second_derivatives(grad)


# ---- calls -----------------------------------------------------------------------------------


def dense(operator: Any, *arguments: Any) -> Any:
    """Calls `voxelize` or `voxelize_dropped`; differentiable with respect to the features."""
    try:
        if _needs_gradient(arguments[1]):
            return _DifferentiableDense.apply(operator, *arguments)
        return operator(*arguments)
    except (RuntimeError, ValueError) as error:
        # Torch refuses some tensors before the operator runs, without naming the argument.
        points, features, offsets, _, _, mode, out_dtype = arguments
        dtype = None if out_dtype == dtypes.OTHER else dtypes.ALL_DTYPES[out_dtype]
        checks.check_grid(points, features, offsets, mode, dtype)
        errors.raise_translated(error, operator, arguments, {"points": 0})


def sparse(*arguments: Any) -> Any:
    """Calls `voxelize_sparse`; differentiable with respect to the features."""
    try:
        if _needs_gradient(arguments[1]):
            return _DifferentiableSparse.apply(*arguments)
        return voxelize_sparse(*arguments)
    except (RuntimeError, ValueError) as error:
        points, features, offsets, geometry, _ = arguments
        checks.check_voxels(points, features, offsets)
        better = errors.translated(error, voxelize_sparse, arguments, {"points": 0})
        if isinstance(better, ValueError) and str(better).startswith("points: "):
            # The pytorch backend names the point whose value is refused.
            pytorch.sparse_index(points, offsets, geometry)
        if better is None:
            raise
        raise better from None


def _needs_gradient(features: Tensor | None) -> bool:
    return features is not None and features.requires_grad and torch.is_grad_enabled()


def _gradient(operator: Any, *arguments: Any) -> Any:
    try:
        return operator(*arguments)
    except (RuntimeError, ValueError) as error:
        errors.raise_translated(error, operator, arguments, {"grad": 0})
