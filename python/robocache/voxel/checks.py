"""Checks of point clouds, which all backends share.

`check_grid`, `check_voxels` and, for all operations on points, `check_cloud` check each tensor's
layout, dtype, shape and device; `validated` checks the values of offsets.
"""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import Tensor

from robocache.align import validation
from robocache.core import dtypes
from robocache.core.tensor_checks import (
    FLOATS,
    check_dense,
    check_device,
    refuse_dtype,
    refuse_shape,
)
from robocache.voxel import options as _voxel_options
from robocache.voxel.options import OCCUPANCY

MAX_COUNT = 2**31 - 1  # points that an int32 can count


def check_grid(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    mode: int,
    out_dtype: torch.dtype | None,
) -> int | None:
    """Checks the tensors of a dense voxelization; returns B, None for a single cloud.

    Raises:
        ValueError, TypeError: `<argument>: expected ..., got ...`.
    """
    batch = check_cloud(points, features, offsets)
    if mode != OCCUPANCY and _voxel_options.out_dtype_of(out_dtype, features) != torch.int64:
        _check_count(points, repr(_voxel_options.MODE_NAMES[mode]))
    return batch


def check_voxels(points: Tensor, features: Tensor | None, offsets: Tensor | None) -> int | None:
    """Checks the tensors of a sparse voxelization; returns B, None for a single cloud."""
    batch = check_cloud(points, features, offsets)
    _check_count(points, "sparse voxels")
    return batch


def check_cloud(points: Tensor, features: Tensor | None, offsets: Tensor | None) -> int | None:
    """Checks the tensors of point clouds; returns B, None for a single cloud."""
    check_dense("points", points)
    if points.dtype not in FLOATS:
        refuse_dtype("points", "float16, bfloat16, float32 or float64", points)
    if offsets is not None:
        if points.dim() != 2 or points.size(1) != 3:
            refuse_shape("points", "[P,3] with offsets", points)
        check_dense("offsets", offsets)
        if offsets.dtype not in (torch.int64, torch.int32):
            refuse_dtype("offsets", "int64 or int32", offsets)
        if offsets.dim() != 1 or offsets.size(0) == 0:
            refuse_shape("offsets", "[B+1]", offsets)
        check_device("offsets", offsets, points, "points")
    elif points.dim() not in (2, 3) or points.size(-1) != 3:
        refuse_shape("points", "[B,N,3] or [P,3]", points)
    if features is not None:
        check_dense("features", features)
        if features.dtype not in dtypes.DTYPES:
            refuse_dtype("features", "float16, bfloat16, float32, float64 or uint8", features)
        if features.dim() != points.dim() or features.shape[:-1] != points.shape[:-1]:
            of_points = f"P={points.size(0)}"
            if points.dim() == 3:
                of_points = f"B={points.size(0)},N={points.size(1)}"
            refuse_shape("features", f"[{of_points},C]", features)
        check_device("features", features, points, "points")
    if offsets is not None:
        return offsets.size(0) - 1
    return points.size(0) if points.dim() == 3 else None


def _check_count(points: Tensor, purpose: str) -> None:
    count = points.numel() // 3
    if count > MAX_COUNT:
        raise ValueError(f"points: expected at most {MAX_COUNT} points for {purpose}, got {count}")


# ---- config(validate=True) -------------------------------------------------------------------


def validated(offsets: Tensor, points: Tensor) -> Tensor:
    """Returns `offsets` after checking that they start at 0, do not descend and end at P."""
    if torch.compiler.is_compiling():
        copy: Tensor = _validated_copy(offsets, points.size(0))
        return copy
    _check_offsets(offsets, points.size(0))
    return offsets


# Compiled code cannot branch on values, but can call an operator that does, as in
# align/validation.py.
@torch.library.custom_op("robocache::validated_offsets", mutates_args=())
def _validated_copy(offsets: Tensor, points: int) -> Tensor:
    _check_offsets(offsets, points)
    return offsets.clone()


@_validated_copy.register_fake
def _(offsets: Tensor, points: int) -> Tensor:
    return torch.empty_like(offsets)


def _check_offsets(offsets: Tensor, points: int) -> None:
    """Checks the values of offsets; synchronizes with the device once."""
    if offsets.is_meta:  # there are no values
        return
    validation.refuse_while_capturing(offsets)
    bounds: list[int] = offsets.tolist()
    if bounds[0] != 0:
        _refuse_offsets("0 first", str(bounds[0]))
    for b in range(1, len(bounds)):
        if bounds[b] < bounds[b - 1]:
            _refuse_offsets("ascending offsets", f"{bounds[b]} after {bounds[b - 1]} at [{b}]")
    if bounds[-1] != points:
        _refuse_offsets(f"P={points} last", str(bounds[-1]))


def _refuse_offsets(expected: str, got: str) -> NoReturn:
    raise ValueError(f"offsets: expected {expected}, got {got}")
