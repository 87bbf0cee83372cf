"""More than 2**31 elements. Each test says what memory it needs, and skips where there is less."""

from __future__ import annotations

import os

import pytest
import torch
from support import CPU, CUDA, Backend, find_backends

GIB = 2**30
WANTED = "ROBOCACHE_TEST_LARGE"


def need(backend: Backend, gib: int) -> None:
    if backend not in find_backends()[0]:
        pytest.skip(f"{backend.name}: {find_backends()[1].get(backend.name, 'not tested here')}")
    if backend.device == "cuda":
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0] / GIB
        if free < gib:
            pytest.skip(f"needs {gib} GiB of free GPU memory, {free:.0f} GiB are free")
    elif WANTED not in os.environ:
        pytest.skip(f"needs {gib} GiB of memory and some seconds: {WANTED}=1 runs it")


def pattern(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """The element at (row, column): small integers, so that every type holds them exactly."""
    return (rows * 7 + columns * 3) % 251


@pytest.mark.large
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16])
@pytest.mark.parametrize("method", ["previous", "linear"])
def test_cuda_values_and_output(dtype: torch.dtype, method: str) -> None:
    """70000 x 32768 elements in and out, checked at rows spread over all of both."""
    need(CUDA, 40)
    rows, channels = 70_000, 32_768
    columns = torch.arange(channels, device="cuda")
    values = torch.empty((rows, channels), dtype=dtype, device="cuda")
    for start in range(0, rows, 1000):
        part = torch.arange(start, start + 1000, device="cuda").unsqueeze(-1)
        values[start : start + 1000] = pattern(part, columns).to(dtype)
    times = torch.arange(rows, device="cuda") * 4
    out, valid = CUDA.resample(values, times, times + 2, method=method, return_valid=True)
    assert values.numel() > 2**31 and out.numel() > 2**31
    assert valid.sum().item() == rows - 1
    row = torch.linspace(0, rows - 2, 997, device="cuda").long()
    a, b = pattern(row[:, None], columns).float(), pattern(row[:, None] + 1, columns).float()
    expected = a if method == "previous" else a + 0.5 * (b - a)
    expected = (expected.round() if dtype == torch.uint8 else expected).to(dtype)
    assert torch.equal(out[row], expected)
    assert torch.equal(out[-1], values[-1])


@pytest.mark.large
def test_cuda_rows() -> None:
    """One episode of more than 2**31 rows."""
    need(CUDA, 50)
    rows = 2**31 + 100
    values = torch.empty((rows, 1), dtype=torch.uint8, device="cuda")
    times = torch.arange(rows, device="cuda")
    step = 2**24
    for start in range(0, rows, step):
        values[start : start + step, 0] = (times[start : start + step] % 251).to(torch.uint8)
    targets = torch.tensor([0, 1, 2**31 - 1, 2**31, 2**31 + 57, rows - 1, rows], device="cuda")
    out, valid = CUDA.resample(values, times, targets, method="previous", return_valid=True)
    assert out[:, 0].tolist() == [t % 251 for t in targets.clamp(max=rows - 1).tolist()]
    assert valid.tolist() == [True] * 6 + [False]


@pytest.mark.large
def test_cuda_targets() -> None:
    """More than 2**31 targets."""
    need(CUDA, 50)
    count = 2**31 + 100
    targets = torch.arange(count, device="cuda")
    values = torch.arange(200, dtype=torch.uint8, device="cuda").unsqueeze(-1)
    times = torch.arange(200, device="cuda") * 2**24
    out = CUDA.resample(values, times, targets, method="previous")
    at = torch.tensor([0, 2**24, 2**31 - 1, 2**31, count - 1], device="cuda")
    assert out[at, 0].tolist() == (at // 2**24).clamp(max=199).tolist()


@pytest.mark.large
def test_cpu_output() -> None:
    """On the CPU the values are one byte, expanded, and only the output takes memory: 2.2 GB."""
    need(CPU, 3)
    rows, channels = 70_000, 32_768
    values = torch.arange(200, dtype=torch.uint8).unsqueeze(-1).expand(200, channels)
    times = torch.arange(200) * 350
    out = CPU.resample(values, times, torch.arange(rows), method="linear")
    assert out.numel() > 2**31
    row = torch.linspace(0, rows - 1, 97).long()
    low = (row // 350).clamp(max=199)
    expected = ((row.double() / 350).clamp(max=199)).round().to(torch.uint8)
    tie = (row % 350 == 175) & (low < 199)
    assert torch.equal(out[row][~tie], expected[~tie, None].expand(-1, channels))


@pytest.mark.large
@pytest.mark.parametrize("where", [CPU, CUDA], ids=lambda b: b.name)
def test_grid_of_many_cells(where: Backend) -> None:
    """2.2 billion cells, marked at both ends."""
    need(where, 4)
    size = 1301
    points = torch.tensor([[0.5, 0.5, 0.5], [1300.5, 1300.5, 1300.5], [1300.5, 1299.5, 7.5]])
    grid = where.voxelize(points, (size,) * 3, 1, origin=(0, 0, 0), out_dtype=torch.uint8)
    assert grid.numel() > 2**31
    assert [int(part.sum()) for part in grid.flatten().split(2**30)] == [1, 0, 2]
    assert grid[1300, 1300, 1300] == grid[1300, 1299, 7] == grid[0, 0, 0] == 1


@pytest.mark.large
def test_cuda_many_points() -> None:
    """More than 2**31 coordinates, and rows of features, of which the last count too."""
    need(CUDA, 60)
    count, cells = 2**31 // 3 + 1000, 512  # points of a cell are reduced one after another
    x = torch.arange(count, device="cuda") % cells
    points = torch.zeros((count, 3), dtype=torch.float16, device="cuda")
    points[:, 0] = x
    points[-7:, 1] = 1
    most = torch.bincount(x[:-7], minlength=cells)
    last = torch.bincount(x[-7:], minlength=cells)
    grid = CUDA.voxelize(points, (cells, 2, 1), 1, origin=(0, 0, 0), mode="count")
    assert torch.equal(grid[:, 0, 0], most.int()) and torch.equal(grid[:, 1, 0], last.int())
    grid, dropped = CUDA.voxelize(points, (cells, 2, 2), 1, origin=(0, 0, 0), return_dropped=True)
    assert torch.equal(grid[:, :, 0] == 1, torch.stack([most, last], 1) > 0)
    assert grid.sum() == cells + 7 and dropped == 0
    voxels = CUDA.voxelize_sparse(points, 1, features=points[:, :2], reduce="max")
    assert torch.equal(voxels.coordinates[:, :2], (grid[:, :, 0] == 1).nonzero().int())
    assert voxels.features is not None
    assert torch.equal(voxels.features, voxels.coordinates[:, :2].half())
    assert torch.equal(voxels.coordinates[voxels.point_to_voxel[-8:], 1].cpu(),
                       torch.tensor([0] + [1] * 7, dtype=torch.int32))  # fmt: skip
