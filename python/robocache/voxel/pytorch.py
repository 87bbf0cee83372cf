"""The pytorch backend of voxelization: plain torch, on any device.

Shapes: B clouds, P points of all of them, C channels. A slot is a cell or a voxel; the additional
slot number `slots` collects the points that are dropped. Autograd computes the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robocache.align import options as _options
from robocache.align.pytorch.combine import round_to
from robocache.core import dtypes
from robocache.core.tensor_checks import shape_text
from robocache.voxel import checks
from robocache.voxel import options as _voxel_options
from robocache.voxel.options import COUNT, MAX, MEAN, OCCUPANCY, SUM

_INT32 = (-(2**31), 2**31 - 1)


class SparseIndex(NamedTuple):
    """The voxels of the points, without features."""

    coordinates: Tensor  # [V,3] int32
    counts: Tensor  # [V] int32
    point_to_voxel: Tensor  # [P] int64
    offsets: Tensor  # [B+1] int64
    dropped: Tensor  # [B] int64


def voxelize(*arguments: Any) -> Tensor:
    """As the operator of this name; differentiable with respect to the features."""
    return voxelize_dropped(*arguments)[0]


def voxelize_dropped(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    grid_size: Sequence[int],
    geometry: Sequence[float],
    mode: int,
    out_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    """As the operator of this name; differentiable with respect to the features."""
    batch = checks.check_grid(points, features, offsets, mode, out_dtype)
    clouds = 1 if batch is None else batch
    out_dtype = _voxel_options.out_dtype_of(out_dtype, features)
    cloud, exists = _cloud_of_point(points, offsets)

    steps = _cells_from_origin(points, geometry)
    inside = exists
    for axis, size in enumerate(grid_size):
        inside = inside & (steps[:, axis] >= 0) & (steps[:, axis] < size)
    slot = cloud
    for axis, size in enumerate(grid_size):  # from 0 on, conversion to an integer is the floor
        slot = slot * size + torch.where(inside, steps[:, axis], 0.0).long()
    cells = math.prod(grid_size)
    slots = clouds * cells
    slot = torch.where(inside, slot, slots)

    if mode == OCCUPANCY:
        empty = torch.zeros(slots + 1, dtype=out_dtype, device=points.device)
        grid = empty.scatter(0, slot, 1)[:slots]
    elif mode == COUNT:
        grid = _count(slot, slots).to(out_dtype)
    else:
        assert features is not None
        counts = _count(slot, slots) if mode == MEAN else None
        grid = _reduced(features, slot, slots, counts, mode, out_dtype)
        grid = grid.view(clouds, cells, features.size(-1)).transpose(1, 2)
    shape = list(grid_size) if mode in (OCCUPANCY, COUNT) else [grid.size(1), *grid_size]
    grid = grid.reshape([clouds, *shape]).contiguous()
    dropped = _count(torch.where(exists & ~inside, cloud, clouds), clouds)
    return (grid[0], dropped[0]) if batch is None else (grid, dropped)


def voxelize_sparse(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    geometry: Sequence[float],
    mode: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As the operator of this name; differentiable with respect to the features."""
    batch = checks.check_voxels(points, features, offsets)
    index = _compiled_index if torch.compiler.is_compiling() else sparse_index
    coordinates, counts, voxel, voxel_offsets, dropped = index(points, offsets, list(geometry))
    slots = counts.size(0)
    if features is None:
        reduced = points.new_empty((slots, 0), dtype=torch.float32)
    else:
        reduced = _reduced(
            features,
            torch.where(voxel < 0, slots, voxel),
            slots,
            counts,
            mode,
            features.dtype,
        )
    voxel = voxel.view(points.shape[:-1])
    return (
        coordinates,
        counts,
        reduced,
        voxel,
        voxel_offsets,
        dropped[0] if batch is None else dropped,
    )


# ---- cells of points -------------------------------------------------------------------------


def _cells_from_origin(points: Tensor, geometry: Sequence[float]) -> Tensor:
    """The distance of each point from the origin in cells, [P,3] float64; its floor is the cell."""
    # Tensors, since on CUDA torch divides by a plain number as a multiplication by its reciprocal;
    # filled on the device, since a copy from the host would wait for the GPU.
    numbers = [torch.full((), x, dtype=torch.float64, device=points.device) for x in geometry]
    size, origin = torch.stack(numbers[:3]), torch.stack(numbers[3:])
    return (points.reshape(-1, 3).double() - origin) / size


def _cloud_of_point(points: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """The cloud of each point, [P] in [0,B), and whether the point is in a cloud, [P] bool."""
    if offsets is not None:
        number = torch.arange(points.size(0), device=points.device)
        cloud = torch.searchsorted(offsets.long().contiguous(), number, right=True) - 1
        exists = (cloud >= 0) & (cloud < offsets.size(0) - 1)
        return torch.where(exists, cloud, 0), exists
    clouds = points.size(0) if points.dim() == 3 else 1
    cloud = torch.arange(clouds, device=points.device).unsqueeze(-1)
    cloud = cloud.expand(-1, points.size(-2)).reshape(-1)
    return cloud, torch.ones_like(cloud, dtype=torch.bool)


def sparse_index(points: Tensor, offsets: Tensor | None, geometry: Sequence[float]) -> SparseIndex:
    """Computes the voxels of the points; waits for the device, since V depends on the values."""
    device = points.device
    if points.is_meta:
        raise ValueError("points: expected values, which decide the number of voxels, got meta")
    cloud, exists = _cloud_of_point(points, offsets)
    clouds = points.size(0) if points.dim() == 3 else 1
    if offsets is not None:
        clouds = offsets.size(0) - 1
    cell = _cells_from_origin(points, geometry).floor()
    kept = exists & points.reshape(-1, 3).isfinite().all(-1)
    dropped = _count(torch.where(exists & ~kept, cloud, clouds), clouds)
    lowest, extent = _box(cell, kept, clouds, lambda i: _point_text(i, cloud, points, offsets))

    key = cloud
    for axis in range(3):
        step = torch.where(kept, cell[:, axis], 0.0).long() - lowest[axis]
        key = key * extent[axis] + step
    keys, voxel_of_kept, counts = torch.unique(
        key[kept], sorted=True, return_inverse=True, return_counts=True
    )
    voxel = torch.full_like(key, -1)
    voxel[kept] = voxel_of_kept
    coordinates = torch.empty((keys.size(0), 3), dtype=torch.int32, device=device)
    for axis in (2, 1, 0):
        coordinates[:, axis] = keys % extent[axis] + lowest[axis]
        keys = keys // extent[axis]
    voxel_offsets = torch.searchsorted(keys, torch.arange(clouds + 1, device=device))
    return SparseIndex(coordinates, counts.int(), voxel, voxel_offsets, dropped)


def _box(
    cell: Tensor, kept: Tensor, clouds: int, name_point: Callable[[int], str]
) -> tuple[list[int], list[int]]:
    """The lowest coordinates of the kept points, and the extent of their bounding box in cells."""
    if cell.size(0) == 0:
        return [0] * 3, [1] * 3
    fits = ((cell >= _INT32[0]) & (cell <= _INT32[1])).all(-1)
    inside = (kept & fits).unsqueeze(-1)
    lowest = torch.where(inside, cell, 2.0**31).amin(0).long()
    highest = torch.where(inside, cell, -(2.0**31)).amax(0).long()
    number = torch.arange(cell.size(0), device=cell.device)
    first_beyond = torch.where(kept & ~fits, number, cell.size(0)).amin(0)
    found: list[int] = torch.cat([lowest, highest, first_beyond.unsqueeze(0)]).tolist()
    if found[6] < cell.size(0):
        at: list[float] = cell[found[6]].tolist()
        axis = [_INT32[0] <= x <= _INT32[1] for x in at].index(False)
        raise ValueError(
            f"points: expected voxel coordinates from {_INT32[0]} to {_INT32[1]} (a larger "
            "voxel_size or an origin nearer the points makes them smaller), "
            f"got {'xyz'[axis]} = {at[axis]:.15g} for {name_point(found[6])}"
        )
    if found[0] > found[3]:  # no point
        return [0] * 3, [1] * 3
    extent = [high - low + 1 for low, high in zip(found[:3], found[3:6], strict=True)]
    if clouds * math.prod(extent) >= _options.MAX_INT64:
        raise ValueError(
            "points: expected fewer than 2^63 - 1 cells in the box around all of them, times B (a "
            "larger voxel_size, no outliers or fewer clouds make it smaller), "
            f"got B={clouds} x {extent[0]} x {extent[1]} x {extent[2]} from {shape_text(found[:3])}"
        )
    return found[:3], extent


def _point_text(number: int, cloud: Tensor, points: Tensor, offsets: Tensor | None) -> str:
    """Names a point by its cloud and its index in the cloud, from its index in all points."""
    if points.dim() == 2 and offsets is None:
        return f"point {number}"
    b = int(cloud[number])
    first = b * points.size(1) if offsets is None else int(offsets[b])
    return f"point {number - first} of cloud {b}"


# Compiled code cannot branch on values, but can call an operator that does.
@torch.library.custom_op("robocache::pytorch_sparse_index", mutates_args=())
def _compiled_index(
    points: Tensor, offsets: Tensor | None, geometry: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    coordinates, counts, voxel, voxel_offsets, dropped = sparse_index(points, offsets, geometry)
    return coordinates, counts, voxel, voxel_offsets, dropped


@_compiled_index.register_fake
def _(
    points: Tensor, offsets: Tensor | None, geometry: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    clouds = points.size(0) if points.dim() == 3 else 1
    if offsets is not None:
        clouds = offsets.size(0) - 1
    voxels = torch.library.get_ctx().new_dynamic_size()
    return (
        points.new_empty((voxels, 3), dtype=torch.int32),
        points.new_empty(voxels, dtype=torch.int32),
        points.new_empty(points.numel() // 3, dtype=torch.int64),
        points.new_empty(clouds + 1, dtype=torch.int64),
        points.new_empty(clouds, dtype=torch.int64),
    )


# ---- values of slots -------------------------------------------------------------------------


def _count(slot: Tensor, slots: int) -> Tensor:
    """The number of points in each slot, [slots] int64."""
    zeros = torch.zeros(slots + 1, dtype=torch.int64, device=slot.device)
    return zeros.scatter_add(0, slot, torch.ones_like(slot))[:slots]


def _reduced(
    features: Tensor,
    slot: Tensor,
    slots: int,
    counts: Tensor | None,
    mode: int,
    out_dtype: torch.dtype,
) -> Tensor:
    """The reduced features of each slot, [slots,C]; zeros in a slot without points."""
    compute = dtypes.compute_dtype(features.dtype, out_dtype)
    rows = features.flatten(0, -2).to(compute)
    if mode in (MEAN, SUM):
        zeros = rows.new_zeros(slots + 1, rows.size(-1))
        reduced = zeros.index_add(0, slot, rows)[:slots]
        if mode == MEAN:
            assert counts is not None
            reduced = reduced / counts.clamp(min=1).to(compute).unsqueeze(-1)
    else:
        # Gathers the row of the winning point, so that the gradient flows to that point alone.
        rows = torch.cat([rows, rows.new_zeros(1, rows.size(-1))])
        reduced = rows.gather(0, _winners(rows[:-1].detach(), slot, slots, mode))
    return round_to(reduced, out_dtype)


def _winners(rows: Tensor, slot: Tensor, slots: int, mode: int) -> Tensor:
    """The index of the point that is a slot's maximum or minimum, [slots,C].

    The first point with a NaN, else the first that attains it; P in a slot without points.
    """
    count, channels = rows.shape
    slot = slot.unsqueeze(-1).expand(-1, channels)
    is_nan = rows.isnan()
    worst, how = (-math.inf, "amax") if mode == MAX else (math.inf, "amin")
    best = rows.new_full((slots + 1, channels), worst)
    best = best.scatter_reduce(0, slot, torch.where(is_nan, worst, rows), how)
    nans = torch.zeros_like(best).scatter_add(0, slot, is_nan.to(rows.dtype))
    wins = torch.where(nans.gather(0, slot) > 0, is_nan, rows == best.gather(0, slot))
    number = torch.arange(count, device=rows.device).unsqueeze(-1)
    winner = torch.full((slots + 1, channels), count, device=rows.device)
    return winner.scatter_reduce(0, slot, torch.where(wins, number, count), "amin")[:slots]
