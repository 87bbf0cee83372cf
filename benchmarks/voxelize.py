"""Benchmark cases of robocache.voxelize_point_cloud and voxelize_sparse, and what users run now.

Points are spread evenly over the cells of the grid and a little beyond it, none so near a face that
the peers' float32 would put it on the other side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

import robocache as rc
from clock import Call, Inputs
from harness import Case
from robocache.core.names import Backend, VoxelMode

# B, N: clouds and points of each; cells along each axis
DENSE_SHAPES = [(4, 100_000, 128), (1, 500_000, 128)]
SIZE = 0.1
CHANNELS = 4
SPARSE_POINTS = 250_000
SPARSE_CELLS = (64, 64, 16)  # about 4 points each: a LiDAR's scan in voxels of 10 cm
CLOUD_POINTS = 500_000  # without features, as Open3D's VoxelGrid takes them

DIGIT_BITS = 8  # of a radix sort's pass
KEY_BYTES = INDEX_BYTES = 4


# ---- inputs: points [B,N,3] or [P,3], features [..., C] ------------------------------------------


def spread(shape: tuple[int, ...], cells: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Points over the cells of a grid centered on zero, and two more on either side."""
    like: dict[str, Any] = {"generator": generator, "device": generator.device}
    axes = []
    for n in cells:
        cell = torch.randint(-2, n + 2, shape, **like)
        within = 0.05 + 0.9 * torch.rand(shape, **like)
        axes.append((cell + within - n / 2) * SIZE)
    return torch.stack(axes, -1)


def make_points(
    shape: tuple[int, ...], cells: tuple[int, ...], channels: int, generator: torch.Generator
) -> Inputs:
    points = spread(shape, cells, generator)
    if channels == 0:
        return (points,)
    features = torch.randn(*shape, channels, generator=generator, device=generator.device)
    return points, features


# ---- dense peers: -> [B,X,Y,Z] or [B,C,X,Y,Z] ----------------------------------------------------


def flat_cells(points: Tensor, n: int) -> Tensor:
    """[B,N]: the cell of each point in a grid of n cells an axis; n**3 for points outside."""
    cell = torch.floor((points + n * SIZE / 2) / SIZE).long()
    inside = ((cell >= 0) & (cell < n)).all(-1)
    flat = (cell[..., 0] * n + cell[..., 1]) * n + cell[..., 2]
    return torch.where(inside, flat, n**3)


def as_grid(rows: Tensor, n: int) -> Tensor:
    """[..., cells and one more] without the last as a grid: a view."""
    return rows[..., : n**3].view(*rows.shape[:-1], n, n, n)


def occupancy_by_scatter(n: int, points: Tensor) -> Tensor:
    grid = points.new_zeros(points.shape[0], n**3 + 1)
    return as_grid(grid.scatter_(1, flat_cells(points, n), 1.0), n)


def occupancy_by_scatter_add(n: int, points: Tensor) -> Tensor:
    index = flat_cells(points, n)
    grid = points.new_zeros(points.shape[0], n**3 + 1)
    grid.scatter_add_(1, index, points.new_ones(index.shape))
    return as_grid(grid.clamp_(max=1), n)


def count_by_scatter_add(n: int, points: Tensor) -> Tensor:
    index = flat_cells(points, n)
    grid = torch.zeros(points.shape[0], n**3 + 1, dtype=torch.int32, device=points.device)
    ones = torch.ones(index.shape, dtype=torch.int32, device=points.device)
    return as_grid(grid.scatter_add_(1, index, ones), n)


def mean_by_scatter_add(n: int, points: Tensor, features: Tensor) -> Tensor:
    index = flat_cells(points, n)
    B, _, C = features.shape
    count = points.new_zeros(B, 1, n**3 + 1)
    count.scatter_add_(2, index.unsqueeze(1), points.new_ones(B, 1, index.shape[1]))
    grid = features.new_zeros(B, C, n**3 + 1)
    grid.scatter_add_(2, index.unsqueeze(1).expand(-1, C, -1), features.transpose(1, 2))
    return as_grid(grid.div_(count.clamp_(min=1)), n)


def mean_by_scatter_reduce(n: int, points: Tensor, features: Tensor) -> Tensor:
    index = flat_cells(points, n)
    B, _, C = features.shape
    grid = features.new_zeros(B, C, n**3 + 1)
    index = index.unsqueeze(1).expand(-1, C, -1)
    grid.scatter_reduce_(2, index, features.transpose(1, 2), "mean", include_self=False)
    return as_grid(grid, n)


DENSE_PEERS: Mapping[str, Mapping[str, Call]] = {
    "occupancy": {"scatter": occupancy_by_scatter, "scatter_add": occupancy_by_scatter_add},
    "count": {"scatter_add": count_by_scatter_add},
    "mean": {"scatter_add": mean_by_scatter_add, "scatter_reduce": mean_by_scatter_reduce},
}


# ---- sparse peers: -> features [V,C], or without any coordinates [V,3] ---------------------------


def keys_of(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One number a cell, in order of (x, y, z); and how to undo it."""
    cell = torch.floor(points / SIZE).long()
    lowest = cell.amin(0)
    cell -= lowest
    extent = cell.amax(0) + 1
    return (cell[:, 0] * extent[1] + cell[:, 1]) * extent[2] + cell[:, 2], lowest, extent


def mean_by_unique(points: Tensor, features: Tensor) -> Tensor:
    key, _, _ = keys_of(points)
    found, voxel = torch.unique(key, return_inverse=True)
    return mean_of_voxels(found.shape[0], voxel, features)


def mean_by_unique_rows(points: Tensor, features: Tensor) -> Tensor:
    found, voxel = torch.unique(torch.floor(points / SIZE).int(), dim=0, return_inverse=True)
    return mean_of_voxels(found.shape[0], voxel, features)


def mean_of_voxels(voxels: int, voxel: Tensor, features: Tensor) -> Tensor:
    out = features.new_zeros(voxels, features.shape[1])
    index = voxel.unsqueeze(-1).expand(-1, features.shape[1])
    return out.scatter_reduce_(0, index, features, "mean", include_self=False)


def cells_by_unique(points: Tensor) -> Tensor:
    key, lowest, extent = keys_of(points)
    key = torch.unique(key)
    xy = key // extent[2]
    cell = torch.stack([xy // extent[1], xy % extent[1], key % extent[2]], -1)
    return (cell + lowest).int()


def cells_by_unique_rows(points: Tensor) -> Tensor:
    found: Tensor = torch.unique(torch.floor(points / SIZE).int(), dim=0)
    return found


class Open3dGrid:
    """Open3D's VoxelGrid of points that are in its own container already."""

    def __init__(self, open3d: Any) -> None:
        self.open3d = open3d
        self.clouds: dict[int, Any] = {}

    def __call__(self, points: Tensor) -> Any:
        cloud = self.clouds.get(points.data_ptr())
        if cloud is None:
            rows = self.open3d.utility.Vector3dVector(points.double().numpy())
            cloud = self.clouds[points.data_ptr()] = self.open3d.geometry.PointCloud(rows)
        # From a corner that is one of the cells', so that its cells are these.
        low, high = [-100 * SIZE] * 3, [100 * SIZE] * 3
        return self.open3d.geometry.VoxelGrid.create_from_point_cloud_within_bounds(
            cloud, SIZE, low, high
        )


def open3d_peers() -> dict[str, Call]:
    try:
        import open3d
    except ImportError:
        return {}
    return {"Open3D": Open3dGrid(open3d)}


def cells_of(output: Any) -> Tensor:
    """The coordinates that a call found, [V,3] in order, whatever it returned."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, rc.SparseVoxels):
        return output.coordinates
    found = torch.tensor([voxel.grid_index.tolist() for voxel in output.get_voxels()])
    cells: Tensor = torch.unique(found - 100, dim=0).int()
    return cells


# ---- cases ---------------------------------------------------------------------------------------


def sort_bytes(keys: int, inputs: Inputs) -> int:
    """Bytes that sorting points by cell moves: keys and indices, read and written once a pass."""
    passes = math.ceil(math.log2(keys + 1) / DIGIT_BITS)
    rows = inputs[0].numel() // 3
    return rows * (KEY_BYTES + INDEX_BYTES) * (1 + 2 * passes)


def dense_bytes(cells: int, channels: int, inputs: Inputs) -> int:
    """Points and features once, the grid once."""
    grid = inputs[0].shape[0] * cells * max(channels, 1) * 4
    return sum(tensor.nbytes for tensor in inputs) + grid


def sparse_bytes(inputs: Inputs) -> int:
    """Points and features once, and once all that is returned."""
    voxels = rc.voxelize_sparse(inputs[0], SIZE)
    channels = 0 if len(inputs) == 1 else inputs[1].shape[1]
    per_voxel = voxels.coordinates.element_size() * 3 + 4 + 4 * channels
    returned = voxels.counts.shape[0] * per_voxel + voxels.point_to_voxel.nbytes
    return sum(tensor.nbytes for tensor in inputs) + returned


def dense_case(shape: tuple[int, int, int], mode: VoxelMode, backend: Backend) -> Case:
    B, N, n = shape
    channels = CHANNELS if mode == "mean" else 0
    eager: dict[str, Call] = {name: partial(peer, n) for name, peer in DENSE_PEERS[mode].items()}

    def robocache(points: Tensor, features: Tensor | None = None) -> Tensor:
        return rc.voxelize_point_cloud(
            points, (n, n, n), SIZE, mode=mode, features=features, backend=backend
        )

    output = {"occupancy": "float32", "count": "int32"}.get(mode, f"float32, {channels} channels")
    return Case(
        operation="voxelize",
        shape=f"{B}x{N} -> {n}^3",
        variant=f"{mode}, {output}",
        footprint=B * N * (3 + channels) * 4 + B * n**3 * max(channels, 1) * 4,
        make_inputs=partial(make_points, (B, N), (n, n, n), channels),
        bytes_moved=partial(dense_bytes, n**3, channels),
        sort_bytes=partial(sort_bytes, B * n**3) if mode == "mean" else None,
        robocache=robocache,
        eager=eager,
        compiled=eager,
        rtol=1e-5,
        atol=1e-5,
    )


def sparse_case(count: int, has_features: bool, device: torch.device, backend: Backend) -> Case:
    channels = CHANNELS if has_features else 0
    eager: dict[str, Call]
    if has_features:
        eager = {"unique": mean_by_unique, "unique of rows": mean_by_unique_rows}
    else:
        eager = {"unique": cells_by_unique, "unique of rows": cells_by_unique_rows}
        if device.type == "cpu":
            eager |= open3d_peers()

    def robocache(points: Tensor, features: Tensor | None = None) -> Any:
        voxels = rc.voxelize_sparse(points, SIZE, features=features, backend=backend)
        return voxels if features is None else voxels.features

    return Case(
        operation="voxelize sparse",
        shape=f"{count}",
        variant=f"mean of {channels} channels, float32" if has_features else "no features",
        footprint=count * (3 + 2 * channels + 6) * 4,
        make_inputs=partial(make_points, (count,), SPARSE_CELLS, channels),
        bytes_moved=sparse_bytes,
        sort_bytes=partial(sort_bytes, math.prod(n + 4 for n in SPARSE_CELLS)),
        robocache=robocache,
        eager=eager,
        compiled={},
        rtol=1e-5,
        atol=1e-5,
        waits=True,
        to_tensor=cells_of,
    )


def cases(
    device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: Backend
) -> list[Case]:
    """float32 whatever the other operations' types."""
    declared = [
        dense_case(shape, mode, backend)
        for mode in ("occupancy", "count", "mean")
        for shape in (DENSE_SHAPES[-1:] if quick else DENSE_SHAPES)
    ]
    declared.append(sparse_case(SPARSE_POINTS, True, device, backend))
    declared.append(sparse_case(CLOUD_POINTS, False, device, backend))
    return declared
