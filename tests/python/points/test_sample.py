"""Farthest-point sampling on every backend against the reference, and what its page promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import points_reference
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import FLOATS, Backend, assert_same_bits, find_backends, needs_gpu

import robocache as rc


def random_points(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """Points of which some are equal, on a lattice, NaN or infinite."""
    points = torch.randn(shape, generator=generator, dtype=torch.float64)
    if torch.rand((), generator=generator) < 0.4:
        points = points.round()
    special = torch.rand(shape, generator=generator)
    points[special < 0.02] = math.nan
    points[special > 0.98] = -math.inf
    return points.to(dtype)


@st.composite
def calls(draw: st.DrawFn) -> tuple[torch.Tensor, int, dict[str, Any]]:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(FLOATS))
    n = draw(st.integers(1, 40))
    form = draw(st.sampled_from(["batched", "single", "ragged"]))
    count = draw(st.sampled_from([0, 1, 2, 5, 33, 700]))
    options: dict[str, Any] = {}
    if form == "batched":
        shape: tuple[int, ...] = (draw(st.integers(0, 4)), count, 3)
    else:
        shape = (count, 3)
    points = random_points(generator, shape, dtype)
    if form == "ragged":
        ends = draw(st.lists(st.integers(0, count), max_size=5).map(sorted))
        kind = draw(st.sampled_from([torch.int64, torch.int32]))
        options["offsets"] = torch.tensor([0, *ends, count], dtype=kind)
        options["start"] = draw(st.integers(0, 50))
    else:
        options["start"] = draw(st.integers(0, max(0, count - 1)))
    if draw(st.booleans()):  # strides of any kind
        points = points.mT.contiguous().mT
    if draw(st.booleans()):
        points = torch.cat([points, points], -1)[..., ::2][..., [0, 1, 2]][..., :3]
        points = points.repeat_interleave(2, -2)[..., ::2, :]
    return points, n, options


@given(calls())
def test_reference(call: tuple[torch.Tensor, int, dict[str, Any]]) -> None:
    points, n, options = call
    want = points_reference.sample_farthest(points, n, **options)
    for backend in find_backends()[0]:
        got = backend.sample_farthest(points, n, **options)
        assert got.device.type == backend.device and got.is_contiguous()
        assert_same_bits(got.cpu(), want, backend.name)


def test_repeats(backend: Backend) -> None:
    """A cloud with fewer different points than n, of equal points, of one, of none."""
    line = torch.zeros(2, 3, 3)
    line[0, :, 0] = torch.tensor([0.0, 1.0, 5.0])
    assert backend.sample_farthest(line, 5, start=1).tolist() == [[1, 2, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert backend.sample_farthest(line[0], 3).tolist() == [0, 2, 1]  # n = N: a permutation
    assert backend.sample_farthest(line[:1, :1], 2).tolist() == [[0, 0]]
    assert backend.sample_farthest(line[:, :0], 2).tolist() == [[-1, -1], [-1, -1]]
    assert backend.sample_farthest(line[:0], 2).shape == (0, 2)
    nothing = torch.full((2, 3), math.nan)
    assert backend.sample_farthest(nothing, 2).tolist() == [-1, -1]


def test_ragged_indices_are_rows(backend: Backend) -> None:
    points = torch.randn(60, 3)
    offsets = torch.tensor([0, 0, 25, 60])
    indices = backend.sample_farthest(points, 10, offsets=offsets, start=3).cpu()
    assert indices[0].tolist() == [-1] * 10
    assert indices[1].tolist() == backend.sample_farthest(points[:25], 10, start=3).tolist()
    rest = backend.sample_farthest(points[25:], 10, start=3).cpu() + 25
    assert indices[2].tolist() == rest.tolist()


@pytest.mark.parametrize("form", ["batched", "single", "ragged"])
def test_return_points(backend: Backend, form: str) -> None:
    """The samples' coordinates, zeros without points, and the gradient to the points."""
    points = backend.put(torch.randn(2, 30, 3, dtype=torch.float64))
    options: dict[str, Any] = {"return_points": True}
    if form != "batched":
        points = points.reshape(60, 3)
    if form == "ragged":
        options["offsets"] = torch.tensor([0, 30, 30, 60])
    points.requires_grad_()
    indices, samples = backend.sample_farthest(points, 7, **options)
    rows = points.detach().reshape(60, 3)
    at = indices + (backend.put(torch.tensor([[0], [30]])) if form == "batched" else 0)
    want = torch.where(indices.unsqueeze(-1) >= 0, rows[at.clamp(min=0)], 0.0)
    assert_same_bits(samples.detach(), want)
    assert not indices.requires_grad
    (grad,) = torch.autograd.grad(samples.sum(), points)
    chosen = torch.zeros(60, dtype=torch.float64, device=grad.device)
    chosen[at[indices >= 0]] = 1
    assert_same_bits(grad.reshape(60, 3), chosen.unsqueeze(-1).expand(60, 3).contiguous())


def test_points_of_empty_clouds(backend: Backend) -> None:
    indices, samples = backend.sample_farthest(torch.zeros(2, 0, 3), 4, return_points=True)
    assert indices.tolist() == [[-1] * 4] * 2
    assert_same_bits(samples.cpu(), torch.zeros(2, 4, 3))


def test_many_points(backend: Backend) -> None:
    """Clouds that CUDA samples by one block, clusters and a grid, and the CPU by several threads:
    the samples of the others."""
    generator = torch.Generator().manual_seed(7)
    for count in (5000, 20_000, 70_000, 300_000):
        points = torch.randn(2, count, 3, generator=generator)
        want = rc.sample_farthest(points, 20, backend="cpu")
        assert_same_bits(backend.sample_farthest(points, 20).cpu(), want, f"{count} points")


def test_spread() -> None:
    """Samples cover a square: no point is far from one."""
    grid = torch.cartesian_prod(*[torch.arange(50) / 50.0] * 2)
    points = torch.nn.functional.pad(grid, (0, 1))
    _, samples = rc.sample_farthest(points, 100, return_points=True)
    assert torch.cdist(points, samples).amin(1).max() < 0.1


def test_arrays() -> None:
    points = np.random.default_rng(0).normal(size=(2, 30, 3))
    indices, samples = rc.sample_farthest(points, 5, return_points=True)
    assert isinstance(indices, np.ndarray) and isinstance(samples, np.ndarray)
    want = rc.sample_farthest(torch.from_numpy(points), 5)
    np.testing.assert_array_equal(indices, want.numpy())
    np.testing.assert_array_equal(samples[1], points[1][indices[1]])


@needs_gpu
@pytest.mark.large
def test_cuda_many_coordinates() -> None:
    """One cloud of more than 2**31 coordinates; the last point counts too."""
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("needs 30 GiB of GPU memory")
    points = torch.zeros((2**31 // 3 + 1000, 3), dtype=torch.float16, device="cuda")
    points[-1, 2], points[7, 0] = 4, 2
    assert rc.sample_farthest(points, 4).tolist() == [0, len(points) - 1, 7, 0]
