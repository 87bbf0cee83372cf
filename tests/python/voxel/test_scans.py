"""Voxelization of real scans: LiDAR (PLY) and a depth camera's table scene with NaN points (PCD).

Against vectorized NumPy, and against Open3D's VoxelGrid for which cells are occupied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scans
import torch
from support import Backend, assert_same_bits

SIZES = {"lidar": 0.25, "table": 0.01}


def lidar() -> tuple[np.ndarray, np.ndarray]:
    fields = scans.read_ply(scans.need("small_gicp/scans/target.ply"))
    return scans.xyz(fields), fields["scalar_intensity"][:, None]


def table() -> tuple[np.ndarray, np.ndarray]:
    fields = scans.read_pcd(scans.need("pcl/table_scene_mug.pcd"))
    packed = fields["rgb"].view(np.uint32)
    colors = np.stack([packed >> 16 & 255, packed >> 8 & 255, packed & 255], -1)
    return scans.xyz(fields), colors.astype(np.uint8)


SCANS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {"lidar": lidar, "table": table}


@pytest.fixture(scope="module", params=list(SCANS))
def scan(request: pytest.FixtureRequest) -> tuple[str, np.ndarray, np.ndarray]:
    points, features = SCANS[request.param]()
    return request.param, points, features


def test_scans_are_what_they_should_be() -> None:
    points, intensity = lidar()
    assert points.shape[0] > 50_000 and np.isfinite(points).all() and np.isfinite(intensity).all()
    points, colors = table()
    bad = ~np.isfinite(points).all(-1)
    assert points.shape == (640 * 480, 3) and 0 < bad.sum() < 200_000 and colors.std() > 10
    depth = points[~bad, 2]
    assert 0.3 < np.median(depth) < 3, "meters in front of the camera"


def cells_of(points: np.ndarray, size: float, origin: Any = 0.0) -> np.ndarray:
    return np.floor((points.astype(np.float64) - origin) / size)


def test_sparse(backend: Backend, scan: tuple[str, np.ndarray, np.ndarray]) -> None:
    """Voxels, counts, the voxel of every point, and the mean of features, as NumPy has them."""
    name, points, features = scan
    finite = np.isfinite(points).all(-1)
    cells = cells_of(points[finite], SIZES[name]).astype(np.int32)
    want, voxel, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(want), features.shape[1]))
    np.add.at(sums, voxel.ravel(), features[finite].astype(np.float64))
    wide = torch.from_numpy(features.astype(np.float64))
    got = backend.voxelize_sparse(torch.from_numpy(points), SIZES[name], features=wide)
    assert_same_bits(got.coordinates.cpu(), torch.from_numpy(want))
    assert_same_bits(got.counts.cpu(), torch.from_numpy(counts).int())
    assert int(got.dropped) == int((~finite).sum())
    of_points = np.full(len(points), -1)
    of_points[finite] = voxel.ravel()
    assert_same_bits(got.point_to_voxel.cpu(), torch.from_numpy(of_points))
    assert got.features is not None
    mean = got.features.cpu().numpy()
    np.testing.assert_allclose(mean, sums / counts[:, None], rtol=1e-9, atol=1e-9)


def test_dense(backend: Backend, scan: tuple[str, np.ndarray, np.ndarray]) -> None:
    """Counts in a grid that is smaller than the scan."""
    name, points, _ = scan
    size, shape = SIZES[name], (96, 80, 64)
    finite = points[np.isfinite(points).all(-1)]
    origin = np.median(finite, 0).astype(np.float64) - np.array(shape) * size / 2
    cells = cells_of(finite, size, origin)
    inside = ((cells >= 0) & (cells < shape)).all(-1)
    flat = np.ravel_multi_index(tuple(cells[inside].astype(np.int64).T), shape)
    want = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    assert 0.05 < inside.mean() < 1 and want.max() > 1
    grid, dropped = backend.voxelize(
        torch.from_numpy(points), shape, size, origin=origin, mode="count", return_dropped=True
    )
    assert_same_bits(grid.cpu(), torch.from_numpy(want).int())
    assert int(dropped) == len(points) - int(inside.sum())


def test_two_scans_as_a_ragged_batch(backend: Backend) -> None:
    """Both LiDAR scans in one call: what each alone gives."""
    clouds = [
        torch.from_numpy(scans.xyz(scans.read_ply(scans.need(f"small_gicp/scans/{name}.ply"))))
        for name in ("source", "target")
    ]
    offsets = torch.tensor([0, len(clouds[0]), len(clouds[0]) + len(clouds[1])])
    both = backend.voxelize_sparse(torch.cat(clouds), 0.5, offsets=offsets)
    for b, cloud in enumerate(clouds):
        alone = backend.voxelize_sparse(cloud, 0.5)
        rows = slice(int(both.offsets[b]), int(both.offsets[b + 1]))
        assert_same_bits(both.coordinates[rows], alone.coordinates)
        assert_same_bits(both.counts[rows], alone.counts)


def test_open3d_occupies_the_same_cells(
    backend: Backend, scan: tuple[str, np.ndarray, np.ndarray]
) -> None:
    open3d = pytest.importorskip("open3d", reason="Open3D has no wheel for this Python")
    name, points, _ = scan
    finite = points[np.isfinite(points).all(-1)].astype(np.float64)
    low, high = finite.min(0), finite.max(0)
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(finite))
    grid = open3d.geometry.VoxelGrid.create_from_point_cloud_within_bounds(
        cloud, SIZES[name], low, high
    )
    theirs = np.array([voxel.grid_index for voxel in grid.get_voxels()], np.int32)
    theirs = np.unique(theirs, axis=0)
    ours = backend.voxelize_sparse(torch.from_numpy(finite), SIZES[name], origin=low)
    assert_same_bits(ours.coordinates.cpu(), torch.from_numpy(theirs))
    shape = theirs.max(0) + 1
    dense = backend.voxelize(torch.from_numpy(finite), shape, SIZES[name], origin=low)
    assert_same_bits(dense.nonzero().int().cpu(), torch.from_numpy(theirs))
