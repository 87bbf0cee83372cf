"""Points that small random clouds do not have: on faces, far away, all in one voxel, many.

Seeds are drawn anew; a failure prints its seed, and ROBOCACHE_TEST_SEED brings it back.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np
import pytest
import torch
from support import Backend, assert_near, assert_same_bits

import robocache as rc

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.fixture
def rng() -> np.random.Generator:
    seed = int(os.environ.get("ROBOCACHE_TEST_SEED", random.SystemRandom().getrandbits(32)))
    print(f"ROBOCACHE_TEST_SEED={seed}")  # shown where the test fails
    return np.random.default_rng(seed)


def cells_of(points: np.ndarray, size: float, origin: Any) -> np.ndarray:
    return np.floor((points.astype(np.float64) - np.asarray(origin, np.float64)) / size)


def counted(cells: np.ndarray, grid_size: tuple[int, ...]) -> tuple[np.ndarray, int]:
    inside = ((cells >= 0) & (cells < grid_size)).all(-1)
    flat = np.ravel_multi_index(tuple(cells[inside].astype(np.int64).T), grid_size)
    return np.bincount(flat, minlength=math.prod(grid_size)).reshape(grid_size), int(
        (~inside).sum()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.1, 0.05, 1 / 3, 0.25, 1.0])
@pytest.mark.parametrize("origin", [0.0, -0.7, 4e6, 500_000.25])
def test_faces(
    backend: Backend, origin: float, size: float, dtype: torch.dtype, rng: np.random.Generator
) -> None:
    """Points on faces of cells, and the numbers next to them, far from zero too."""
    scalar = np.float32 if dtype == torch.float32 else np.float64
    steps = rng.integers(-2, 35, (4000, 3))
    points = (origin + steps * size).astype(scalar)
    for toward in (-np.inf, np.inf):
        points = np.concatenate([points, np.nextafter(points[:4000], scalar(toward))])
    grid_size = (32, 32, 32)
    want, lost = counted(cells_of(points, size, [origin] * 3), grid_size)
    grid, dropped = backend.voxelize(
        torch.from_numpy(points),
        grid_size,
        size,
        origin=[origin] * 3,
        mode="count",
        return_dropped=True,
    )
    assert_same_bits(grid.cpu(), torch.from_numpy(want).int())
    assert int(dropped) == lost
    voxels = backend.voxelize_sparse(torch.from_numpy(points), size, origin=[origin] * 3)
    cells, counts = np.unique(
        cells_of(points, size, [origin] * 3).astype(np.int32), axis=0, return_counts=True
    )
    assert_same_bits(voxels.coordinates.cpu(), torch.from_numpy(cells))
    assert_same_bits(voxels.counts.cpu(), torch.from_numpy(counts).int())


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("count", [1, 3, 4, 1001])
def test_any_address_and_count(
    backend: Backend, start: int, count: int, rng: np.random.Generator
) -> None:
    """Points that begin anywhere in memory, in clouds that begin anywhere among them."""
    points = rng.uniform(-1, 9, (start + count, 3)).astype(np.float32)
    bounds = np.sort(np.concatenate([[0, count], rng.integers(0, count + 1, 2)]))
    want = [
        counted(cells_of(cloud, 1.0, 0.0), (8, 8, 8))
        for cloud in np.split(points[start:], bounds[1:-1])
    ]
    counts = torch.from_numpy(np.stack([cells for cells, _ in want])).int()
    for mode, expected in (("count", counts), ("occupancy", (counts > 0).float())):
        grid, dropped = backend.voxelize(
            backend.put(torch.from_numpy(points))[start:],
            (8, 8, 8),
            1.0,
            origin=(0.0, 0.0, 0.0),
            mode=mode,
            offsets=torch.from_numpy(bounds),
            return_dropped=True,
        )
        assert_same_bits(grid.cpu(), expected)
        assert dropped.tolist() == [lost for _, lost in want]


def test_utm(backend: Backend) -> None:
    """A meter of a UTM zone in float64: cells of 1 cm, 4 million meters from the origin."""
    east, north = 500_000.0, 4_649_776.0
    points = torch.tensor([[east, north, 0.0]], dtype=torch.float64) + torch.tensor(
        [[0.005, 0.005, 0.005], [0.995, 0.005, 0.005], [0.005, 0.995, 0.005]], dtype=torch.float64
    )
    grid = backend.voxelize(points, (100, 100, 1), 0.01, origin=(east, north, 0.0))
    assert grid.nonzero().tolist() == [[0, 0, 0], [0, 99, 0], [99, 0, 0]]
    voxels = backend.voxelize_sparse(points, 0.01)
    assert voxels.coordinates.tolist() == [
        [50_000_000, 464_977_600, 0],
        [50_000_000, 464_977_699, 0],
        [50_000_099, 464_977_600, 0],
    ]


@pytest.mark.parametrize("dtype", FLOATING)
def test_every_type_of_points(backend: Backend, dtype: torch.dtype) -> None:
    points = torch.tensor([[-0.5, 0.25, 0.0], [0.49, -0.01, 0.5], [0.5, 0, 0]], dtype=dtype)
    grid, dropped = backend.voxelize(points, (2, 2, 2), 0.5, mode="count", return_dropped=True)
    want = torch.zeros(2, 2, 2, dtype=torch.int32)
    want[0, 1, 1] = 1
    assert_same_bits(grid.cpu(), want)  # 0.5 is the upper face of the grid: outside
    assert int(dropped) == 2
    assert backend.voxelize_sparse(points, 0.5).coordinates.tolist() == [
        [-1, 0, 0],
        [0, -1, 1],
        [1, 0, 0],
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_not_finite(backend: Backend, axis: int, value: float) -> None:
    points = torch.zeros(2, 3, 3)
    points[1, 1, axis] = value
    features = torch.ones(2, 3, 1)
    grid, dropped = backend.voxelize(points, (2, 2, 2), 1, mode="count", return_dropped=True)
    assert grid[:, 1, 1, 1].tolist() == [3, 2] and dropped.tolist() == [0, 1]
    voxels = backend.voxelize_sparse(points, 1, features=features, reduce="sum")
    assert voxels.point_to_voxel.tolist() == [[0, 0, 0], [1, -1, 1]]
    assert voxels.dropped.tolist() == [0, 1] and voxels.offsets.tolist() == [0, 1, 2]
    assert voxels.features is not None and voxels.features.tolist() == [[3.0], [2.0]]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (1,), (1, 1), (4,)])
def test_few_points_and_none(backend: Backend, shape: tuple[int, ...]) -> None:
    """No cloud, no points, one point, and clouds of which all points are dropped."""
    for fill in (0.5, math.nan):
        points = torch.full((*shape, 3), fill)
        features = torch.full((*shape, 2), 7.0)
        count = math.prod(shape)
        kept = count if fill == 0.5 else 0
        clouds = list(shape[:-1])
        options: dict[str, Any] = {"origin": (0, 0, 0), "return_dropped": True}
        grid, dropped = backend.voxelize(points, (1, 2, 1), 1, **options)
        assert grid.shape == (*clouds, 1, 2, 1) and grid.dtype == torch.float32
        assert dropped.shape == tuple(clouds) and int(dropped.sum()) == count - kept
        assert grid.sum().item() == (math.prod(clouds) if kept else 0)
        for mode in ("mean", "max"):
            grid, _ = backend.voxelize(
                points, (1, 2, 1), 1, mode=mode, features=features, **options
            )
            assert grid.shape == (*clouds, 2, 1, 2, 1)
            assert grid.sum().item() == (14 * math.prod(clouds) if kept else 0)
        voxels = backend.voxelize_sparse(points, 1, features=features)
        found = math.prod(clouds) if kept else 0
        assert voxels.coordinates.tolist() == [[0, 0, 0]] * found
        assert voxels.counts.tolist() == [shape[-1]] * found
        assert voxels.features is not None and voxels.features.shape == (found, 2)
        assert voxels.point_to_voxel.shape == shape
        assert voxels.offsets.shape == ((clouds or [1])[0] + 1,)
        assert voxels.offsets[-1] == found and int(voxels.dropped.sum()) == count - kept
        assert voxels.dropped.shape == tuple(clouds)


def test_no_cloud_by_offsets(backend: Backend) -> None:
    points, offsets = torch.zeros(0, 3), torch.tensor([0])
    grid, dropped = backend.voxelize(points, (2, 2, 2), 1, offsets=offsets, return_dropped=True)
    assert grid.shape == (0, 2, 2, 2) and dropped.shape == (0,)
    voxels = backend.voxelize_sparse(points, 1, offsets=offsets)
    assert voxels.coordinates.shape == (0, 3) and voxels.features is None
    assert voxels.offsets.tolist() == [0] and voxels.dropped.shape == (0,)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ragged_is_cloud_after_cloud(backend: Backend, dtype: torch.dtype) -> None:
    """Clouds by offsets give the voxels of the clouds one by one."""
    lengths = [70, 0, 1, 300, 0]
    points = torch.randn(sum(lengths), 3)
    features = torch.randn(sum(lengths), 3)
    offsets = torch.tensor([sum(lengths[:b]) for b in range(len(lengths) + 1)], dtype=dtype)
    options: dict[str, Any] = {"mode": "max", "return_dropped": True}
    grid, dropped = backend.voxelize(
        points, (4, 5, 6), 0.5, features=features, offsets=offsets, **options
    )
    voxels = backend.voxelize_sparse(points, 0.5, features=features, offsets=offsets, reduce="max")
    for b in range(len(lengths)):
        rows = slice(int(offsets[b]), int(offsets[b + 1]))
        alone, lost = backend.voxelize(
            points[rows], (4, 5, 6), 0.5, features=features[rows], **options
        )
        assert_same_bits(grid[b], alone)
        assert dropped[b] == lost
        one = backend.voxelize_sparse(points[rows], 0.5, features=features[rows], reduce="max")
        mine = slice(int(voxels.offsets[b]), int(voxels.offsets[b + 1]))
        assert one.features is not None and voxels.features is not None
        assert_same_bits(voxels.coordinates[mine], one.coordinates)
        assert_same_bits(voxels.counts[mine], one.counts)
        assert_same_bits(voxels.features[mine], one.features)
        assert_same_bits(voxels.point_to_voxel[rows] - voxels.offsets[b], one.point_to_voxel)


def test_all_in_one_voxel(backend: Backend, rng: np.random.Generator) -> None:
    """A voxel that has every point: long sums, in order, in the compute type."""
    count = 100_000
    features = rng.standard_normal((count, 2)).astype(np.float32)
    total = np.zeros(2, np.float32)
    for row in features:
        total += row
    points = torch.full((count, 3), 0.25)
    grid = backend.voxelize(
        points, (1, 1, 1), 1, mode="sum", features=torch.from_numpy(features)
    ).flatten()
    voxels = backend.voxelize_sparse(points, 1, reduce="sum", features=torch.from_numpy(features))
    assert voxels.features is not None and voxels.counts.tolist() == [count]
    for got in (grid, voxels.features.flatten()):
        if backend.backend == "pytorch":
            assert_near(got.cpu(), torch.from_numpy(total), 0.1)
        else:
            assert_same_bits(got.cpu(), torch.from_numpy(total))


def test_summed_in_the_compute_type(backend: Backend) -> None:
    """5000 ones: a sum kept in a half type would have stopped at 2048 or 256."""
    points = torch.zeros(5000, 3)
    for dtype in (torch.float16, torch.bfloat16):
        ones = torch.ones(5000, 1, dtype=dtype)
        grid = backend.voxelize(points, (1, 1, 1), 1, mode="sum", features=ones)
        assert_same_bits(grid.flatten().cpu(), torch.tensor([5000.0]).to(dtype))
    pixels = torch.full((5000, 1), 3, dtype=torch.uint8)
    options: dict[str, Any] = {"mode": "sum", "features": pixels}
    assert backend.voxelize(points, (1, 1, 1), 1, **options).item() == 255  # saturated
    wide = backend.voxelize(points, (1, 1, 1), 1, out_dtype=torch.float32, **options)
    assert wide.item() == 15_000


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 16, 33, 64])
def test_channels(backend: Backend, channels: int, rng: np.random.Generator) -> None:
    """As many channels as vector loads like, and as they do not."""
    points = rng.uniform(0, 1, (2, 500, 3)).astype(np.float32)
    features = rng.integers(-8, 8, (2, 500, channels)).astype(np.float32)  # sums are exact
    want = np.zeros((2, channels, 3, 3, 3))
    cells = np.floor(points.astype(np.float64) / 0.25)
    for b in range(2):
        for cell, row in zip(cells[b].astype(int), features[b], strict=True):
            if (cell < 3).all():
                want[(b, slice(None), *cell)] += row
    grid = backend.voxelize(
        torch.from_numpy(points),
        (3, 3, 3),
        0.25,
        origin=(0, 0, 0),
        mode="sum",
        features=torch.from_numpy(features),
    )
    assert_same_bits(grid.cpu(), torch.from_numpy(want).float())


def test_wide_grids(backend: Backend, rng: np.random.Generator) -> None:
    """Long thin grids, and one of more cells than points by far."""
    for grid_size in ((1, 1, 300_000), (300_000, 1, 1), (1, 70_000, 3), (160, 150, 140)):
        points = rng.uniform(0, 1, (3000, 3)) * grid_size
        want, _ = counted(np.floor(points), grid_size)
        grid = backend.voxelize(
            torch.from_numpy(points), grid_size, 1, origin=(0, 0, 0), mode="count"
        )
        assert_same_bits(grid.cpu(), torch.from_numpy(want).int())


def test_keys_of_more_than_32_bits(backend: Backend, rng: np.random.Generator) -> None:
    """Sparse voxels spread over a box of 2^62 cells."""
    points = rng.integers(-(2**19), 2**19, (2, 2000, 3)) + 0.5
    points[0, 0], points[1, 0] = -(2**19), 2**19
    cells, counts = [], []
    for cloud in points:
        found, times = np.unique(np.floor(cloud).astype(np.int32), axis=0, return_counts=True)
        cells.append(found)
        counts.append(times)
    voxels = backend.voxelize_sparse(torch.from_numpy(points), 1)
    assert_same_bits(voxels.coordinates.cpu(), torch.from_numpy(np.concatenate(cells)))
    assert_same_bits(voxels.counts.cpu(), torch.from_numpy(np.concatenate(counts)).int())
    assert voxels.offsets.tolist() == [0, len(cells[0]), len(cells[0]) + len(cells[1])]


def test_coordinates_at_the_ends_of_int32(backend: Backend) -> None:
    points = torch.tensor([[-(2.0**31), 0, 0], [2.0**31 - 1, 0, 0]], dtype=torch.float64)
    voxels = backend.voxelize_sparse(points, 1)
    assert voxels.coordinates[:, 0].tolist() == [-(2**31), 2**31 - 1]


def test_inputs_stay_as_they_are(backend: Backend) -> None:
    points = backend.put(torch.randn(50, 3))
    features = backend.put(torch.randn(50, 4))
    offsets = backend.put(torch.tensor([0, 20, 50]))
    copies = [t.clone() for t in (points, features, offsets)]
    options: dict[str, Any] = {"features": features, "offsets": offsets}
    backend.voxelize(points, (4, 4, 4), 0.5, mode="mean", **options)
    backend.voxelize_sparse(points, 0.5, **options)
    for tensor, copy in zip((points, features, offsets), copies, strict=True):
        assert tensor.equal(copy)


def test_threads(native: Backend) -> None:
    """Calls from several threads at once give what one alone gives."""
    from concurrent.futures import ThreadPoolExecutor

    points, features = torch.randn(20_000, 3), torch.randn(20_000, 3)

    def call(_: int) -> torch.Tensor:
        out = native.voxelize(points, (20, 20, 20), 0.2, mode="mean", features=features)
        sparse = native.voxelize_sparse(points, 0.2, features=features).features
        assert sparse is not None
        return torch.cat([out.flatten().cpu(), sparse.flatten().cpu()])

    want = call(0)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(call, range(24)):
            assert_same_bits(result, want)


# ---- what numbers come in ------------------------------------------------------------------------


@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_numbers_in_arrays(backend: Backend, array: Any) -> None:
    """NumPy's arrays and tensors on the CPU are numbers too, of no dimension or three."""
    points = backend.put(torch.tensor([[0.5, 0.5, 0.5]]))
    grid = rc.voxelize_point_cloud(
        points, array([2, 2, 2]), array(0.5), origin=array([0, 0, 0]), mode="count",
        backend=backend.backend,
    )  # fmt: skip
    assert grid[1, 1, 1] == 1
    sizes = array([1.0, 0.25, 1])
    voxels = rc.voxelize_sparse(points, sizes, origin=list(sizes), backend=backend.backend)
    assert voxels.coordinates.tolist() == [[-1, 1, -1]]


def test_numbers_of_numpy(backend: Backend) -> None:
    """NumPy's numbers and arrays are numbers too."""
    points = torch.tensor([[0.5, 0.5, 0.5]])
    grid = backend.voxelize(
        points, np.array([2, 2, 2]), np.float32(0.5), origin=np.zeros(3), mode="count"
    )
    assert grid[1, 1, 1] == 1
    assert backend.voxelize_sparse(points, np.ones(3), origin=[0, np.int64(1), 0]).coordinates[
        0
    ].tolist() == [0, -1, 0]
