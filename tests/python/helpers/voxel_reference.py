"""A plain sequential voxelization in NumPy: what the design says, one point at a time.

It shares nothing with the library. Cells are worked in float64; features are combined in the
compute type, one rounded operation after the other, in the order of the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import reference
import torch

Cell = tuple[int, int, int]


class Clouds:
    """The points of several clouds, or of one, as plain rows."""

    def __init__(
        self,
        points: torch.Tensor,
        features: torch.Tensor | None,
        offsets: torch.Tensor | None,
        compute: torch.dtype,
    ) -> None:
        self.is_batched = points.dim() == 3 or offsets is not None
        if points.dim() == 3:
            self.batch = points.shape[0]
            self.cloud = [b for b in range(self.batch) for _ in range(points.shape[1])]
        elif offsets is not None:
            bounds = offsets.tolist()
            self.batch = len(bounds) - 1
            self.cloud = [b for b in range(self.batch) for _ in range(bounds[b], bounds[b + 1])]
        else:
            self.batch = 1
            self.cloud = [0] * points.shape[0]
        self.points = points.reshape(-1, 3).double().numpy()
        self.channels = 0 if features is None else features.shape[-1]
        self.features = None
        if features is not None:
            self.features = features.flatten(0, -2).to(compute).numpy()


def steps_from_origin(
    point: Any, voxel_size: Sequence[float], origin: Sequence[float]
) -> list[float]:
    """(p - origin) / size, each operation rounded to float64."""
    with np.errstate(all="ignore"):
        return [
            float((np.float64(x) - np.float64(o)) / np.float64(s))
            for x, o, s in zip(point, origin, voxel_size, strict=True)
        ]


def cell_of(steps: Sequence[float]) -> Cell:
    x, y, z = (math.floor(step) for step in steps)
    return x, y, z


def three(voxel_size: float | Sequence[float]) -> list[float]:
    return [voxel_size] * 3 if isinstance(voxel_size, (int, float)) else list(voxel_size)


def combined(rows: list[Any], mode: str, channels: int, compute: torch.dtype) -> Any:
    """[C] in the compute type of the rows of one voxel, in the order of the points."""
    scalar = np.float64 if compute == torch.float64 else np.float32
    out = np.zeros(channels, scalar)
    with np.errstate(all="ignore"):
        for c in range(channels):
            values = [row[c] for row in rows]
            if mode in ("mean", "sum"):
                total = scalar(0)
                for value in values:
                    total = scalar(total + value)
                out[c] = total if mode == "sum" else total / scalar(len(values))
            else:
                out[c] = values[winner(values, mode)]
    return out


def winner(values: list[Any], mode: str) -> int:
    """Which of them max or min takes: the first NaN, else the first of the best."""
    for i, value in enumerate(values):
        if value != value:
            return i
    best = max(values) if mode == "max" else min(values)
    return next(i for i, value in enumerate(values) if value == best)


def compute_dtype(features: torch.Tensor | None, out: torch.dtype) -> torch.dtype:
    return reference.compute_dtype(torch.float32 if features is None else features.dtype, out)


def voxelize(
    points: torch.Tensor,
    grid_size: Sequence[int],
    voxel_size: float | Sequence[float],
    *,
    origin: Sequence[float] | None = None,
    mode: str = "occupancy",
    features: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The accepted roundings of the grid (see `reference.rounded`), and the dropped points."""
    if out_dtype is None:
        defaults = {"occupancy": torch.float32, "count": torch.int32}
        out_dtype = defaults[mode] if features is None else features.dtype
    sizes = three(voxel_size)
    if origin is None:
        origin = [-(n * s) / 2 for n, s in zip(grid_size, sizes, strict=True)]
    compute = compute_dtype(features, out_dtype)
    clouds = Clouds(points, features, offsets, compute)
    voxels: dict[tuple[int, Cell], list[int]] = {}
    dropped = torch.zeros(clouds.batch, dtype=torch.int64)
    for i, b in enumerate(clouds.cloud):
        steps = steps_from_origin(clouds.points[i], sizes, origin)
        if all(0 <= s < n for s, n in zip(steps, grid_size, strict=True)):
            voxels.setdefault((b, cell_of(steps)), []).append(i)
        else:
            dropped[b] += 1

    if clouds.features is None:
        grid = torch.zeros([clouds.batch, *grid_size], dtype=torch.float64)
        for (b, (x, y, z)), members in voxels.items():
            grid[b, x, y, z] = 1 if mode == "occupancy" else len(members)
        accepted = [grid.to(out_dtype)]
    else:
        grid = torch.zeros([clouds.batch, clouds.channels, *grid_size], dtype=compute)
        for (b, (x, y, z)), members in voxels.items():
            rows = [clouds.features[i] for i in members]
            row = combined(rows, mode, clouds.channels, compute)
            grid[b, :, x, y, z] = torch.from_numpy(row)
        accepted = reference.rounded(grid, out_dtype)
    if not clouds.is_batched:
        return [a[0] for a in accepted], dropped[0]
    return accepted, dropped


def voxelize_sparse(
    points: torch.Tensor,
    voxel_size: float | Sequence[float],
    *,
    origin: Sequence[float] = (0, 0, 0),
    features: torch.Tensor | None = None,
    reduce: str = "mean",
    offsets: torch.Tensor | None = None,
) -> dict[str, torch.Tensor | None]:
    """The fields of SparseVoxels."""
    out_dtype = torch.float32 if features is None else features.dtype
    compute = compute_dtype(features, out_dtype)
    clouds = Clouds(points, features, offsets, compute)
    sizes = three(voxel_size)
    voxels: dict[tuple[int, Cell], list[int]] = {}
    dropped = torch.zeros(clouds.batch, dtype=torch.int64)
    for i, b in enumerate(clouds.cloud):
        if not np.isfinite(clouds.points[i]).all():
            dropped[b] += 1
            continue
        steps = steps_from_origin(clouds.points[i], sizes, origin)
        voxels.setdefault((b, cell_of(steps)), []).append(i)

    order = sorted(voxels)
    point_to_voxel = torch.full([len(clouds.cloud)], -1, dtype=torch.int64)
    for v, key in enumerate(order):
        point_to_voxel[voxels[key]] = v
    reduced = None
    if clouds.features is not None:
        rows = np.zeros((len(order), clouds.channels), clouds.features.dtype)
        for v, key in enumerate(order):
            members = [clouds.features[i] for i in voxels[key]]
            rows[v] = combined(members, reduce, clouds.channels, compute)
        (reduced,) = reference.rounded(torch.from_numpy(rows), out_dtype)
    ends = [sum(key[0] < b for key in order) for b in range(clouds.batch + 1)]
    return {
        "coordinates": torch.tensor([key[1] for key in order], dtype=torch.int32).reshape(-1, 3),
        "counts": torch.tensor([len(voxels[key]) for key in order], dtype=torch.int32),
        "features": reduced,
        "point_to_voxel": point_to_voxel.reshape(points.shape[:-1]),
        "offsets": torch.tensor(ends),
        "dropped": dropped if clouds.is_batched else dropped[0],
    }


def gradient(
    features: torch.Tensor,
    mode: str,
    point_to_voxel: torch.Tensor,
    grad_of_voxels: torch.Tensor,
) -> torch.Tensor:
    """The gradient of the features from the voxels' [V,C], in the compute type; CPU tensors."""
    channels = features.shape[-1]
    rows = features.flatten(0, -2)
    of_points = point_to_voxel.reshape(-1).tolist()
    out = torch.zeros(rows.shape, dtype=grad_of_voxels.dtype)
    for v in range(grad_of_voxels.shape[0]):
        members = [i for i, voxel in enumerate(of_points) if voxel == v]
        for c in range(channels):
            if mode in ("mean", "sum"):
                share = grad_of_voxels[v, c] / (len(members) if mode == "mean" else 1)
                out[members, c] = share
            elif members:
                values = [rows[i, c].item() for i in members]
                out[members[winner(values, mode)], c] = grad_of_voxels[v, c]
    return out.to(features.dtype).reshape(features.shape)
