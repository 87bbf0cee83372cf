"""Gradients of voxelization: by finite differences, a reference, ties, the same bits twice."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import voxel_reference
from hypothesis import given
from hypothesis import strategies as st
from strategies import strided
from support import FLOATS, Backend, assert_near, assert_same_bits, find_backends

import robocache as rc

MODES = ("mean", "sum", "max", "min")
GRID = (2, 3, 2)


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"torch seed: {torch.seed()}")  # shown where a test fails


def scene(kind: str) -> tuple[torch.Tensor, torch.Tensor | None, list[int]]:
    """Points, some of them outside of the grid, offsets, and the shape of the clouds."""
    shape = {"batch": [2, 9], "ragged": [17], "one": [12]}[kind]
    points = torch.rand(*shape, 3) * torch.tensor([1.3, 1.8, 1.2]) - torch.tensor([0.6, 0.9, 0.6])
    points[..., 3, 1] = math.nan
    return points, torch.tensor([0, 8, 8, 17]) if kind == "ragged" else None, shape


def reduced(backend: Backend, form: str, kind: str, mode: str) -> Any:
    """A function of the features that voxelizes one scene."""
    points, offsets, shape = scene(kind)

    def call(features: torch.Tensor) -> Any:
        if form == "dense":
            return backend.voxelize(
                points, GRID, 0.5, mode=mode, features=features, offsets=offsets
            )
        return backend.voxelize_sparse(
            points, 0.5, reduce=mode, features=features, offsets=offsets
        ).features

    return call, shape


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["batch", "ragged", "one"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_gradcheck(backend: Backend, form: str, kind: str, mode: str) -> None:
    call, shape = reduced(backend, form, kind, mode)
    features = torch.randn(*shape, 3, dtype=torch.float64, device=backend.device)
    # The pytorch backend adds in any order on CUDA.
    tolerance = 1e-9 if backend.name == "pytorch-cuda" else 0.0
    assert torch.autograd.gradcheck(call, (features.requires_grad_(),), nondet_tol=tolerance)


@given(st.data())
def test_against_the_reference(data: st.DataObject) -> None:
    """Few distinct features, so that there are ties, NaN among them; gradients of any strides."""
    mode = data.draw(st.sampled_from(MODES))
    dtype = data.draw(st.sampled_from(FLOATS))
    count, channels = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 3))
    ends = data.draw(st.lists(st.integers(0, count), max_size=2).map(sorted))
    offsets = torch.tensor([0, *ends, count])
    coordinates = st.sampled_from([0.25, 0.75, 0.75, 1.25, math.nan])
    points = torch.tensor(
        data.draw(st.lists(st.tuples(*[coordinates] * 3), min_size=count, max_size=count))
    ).reshape(count, 3)
    numbers = st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.0, math.inf, -math.inf, math.nan])
    size = count * channels
    features = torch.tensor(data.draw(st.lists(numbers, min_size=size, max_size=size)), dtype=dtype)
    features = data.draw(strided(features.reshape(count, channels)))

    expected = voxel_reference.voxelize_sparse(points, 1.0, offsets=offsets)
    assignment, coordinates_of = expected["point_to_voxel"], expected["coordinates"]
    starts = expected["offsets"]
    assert assignment is not None and coordinates_of is not None and starts is not None
    voxels = coordinates_of.shape[0]
    compute = voxel_reference.compute_dtype(features, dtype)
    grad = torch.randint(-8, 9, (voxels, channels)).to(compute)
    want = voxel_reference.gradient(features, mode, assignment, grad)

    # A dense grid, cloud after cloud, that contains every voxel, has equal gradients.
    cloud = torch.searchsorted(starts, torch.arange(voxels), right=True) - 1
    dense = torch.zeros(offsets.numel() - 1, channels, 2, 2, 2, dtype=dtype)
    x, y, z = coordinates_of.long().unbind(-1)
    dense[cloud, :, x, y, z] = grad.to(dtype)
    for backend in find_backends()[0]:
        for form in ("sparse", "dense"):
            leaf = backend.put(features).detach().requires_grad_()
            options: dict[str, Any] = {"features": leaf, "offsets": offsets}
            if form == "sparse":
                out = backend.voxelize_sparse(points, 1.0, reduce=mode, **options).features
                out_grad = grad.to(dtype)
            else:
                out = backend.voxelize(
                    points, (2, 2, 2), 1.0, origin=(0, 0, 0), mode=mode, **options
                )
                out_grad = dense
            assert out is not None
            (got,) = torch.autograd.grad(out, leaf, backend.put(data.draw(strided(out_grad))))
            assert_same_bits(got.cpu(), want, f"{backend.name}: {form} {mode}")


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_ties_go_to_the_lowest_index(backend: Backend, form: str, mode: str) -> None:
    points = torch.full((6, 3), 0.25)
    features = torch.tensor(
        [[1.0, 0.0, 2.0], [3.0, 0.0, math.nan], [3.0, -0.0, math.nan]] * 2, device=backend.device
    )
    features = (features if mode == "max" else -features).requires_grad_()
    if form == "dense":
        out = backend.voxelize(points, (1, 1, 1), 1, mode=mode, features=features)
    else:
        out = backend.voxelize_sparse(points, 1, reduce=mode, features=features).features
    out = out.flatten()
    assert out[0].abs() == 3 and out[1] == 0 and out[2].isnan()
    (grad,) = torch.autograd.grad(out, features, torch.tensor([5.0, 6.0, 7.0]).to(out))
    want = torch.zeros(6, 3)
    want[1, 0], want[0, 1], want[1, 2] = 5, 6, 7
    assert_same_bits(grad.cpu(), want)


@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_types_of_features_and_output(
    backend: Backend, mode: str, dtype: torch.dtype, out_dtype: torch.dtype
) -> None:
    """The gradient has the features' type whatever the output's; by numbers exact in all."""
    points = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [2.0, 0.0, 0.0], [0.7, 0.8, 0.9]])
    features = torch.tensor([[1.0], [3.0], [9.0], [2.0]], dtype=dtype, device=backend.device)
    features.requires_grad_()
    out = backend.voxelize(
        points, (1, 1, 1), 1, origin=(0, 0, 0), mode=mode, features=features, out_dtype=out_dtype
    )
    assert out.dtype == out_dtype and out.item() == {"mean": 2, "sum": 6, "max": 3, "min": 1}[mode]
    out.backward(torch.full_like(out, 6))
    assert features.grad is not None and features.grad.dtype == dtype
    expected = {"mean": [2, 2, 0, 2], "sum": [6, 6, 0, 6], "max": [0, 6, 0, 0], "min": [6, 0, 0, 0]}
    assert features.grad.flatten().tolist() == expected[mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_deterministic(native: Backend, form: str, mode: str) -> None:
    """Many points in few voxels: the same bits on every run, forwards and backwards."""
    points = torch.rand(3, 20_000, 3) * 1.2 - 0.6
    features = torch.randn(3, 20_000, 4)
    results = []
    for _ in range(4):
        leaf = native.put(features).clone().requires_grad_()
        if form == "dense":
            out = native.voxelize(points, (3, 3, 3), 1 / 3, mode=mode, features=leaf)
        else:
            out = native.voxelize_sparse(points, 1 / 3, reduce=mode, features=leaf).features
        (grad,) = torch.autograd.grad((out * out).sum(), leaf)
        results.append((out.detach().cpu(), grad.cpu()))
    for out, grad in results[1:]:
        assert_same_bits(out, results[0][0])
        assert_same_bits(grad, results[0][1])


def test_who_requires_a_gradient(backend: Backend) -> None:
    points = torch.rand(5, 3)
    leaf = torch.zeros(5, 1, device=backend.device, requires_grad=True)
    options: dict[str, Any] = {"mode": "mean", "features": leaf}
    grid, dropped = backend.voxelize(points, (1, 1, 1), 1, **options, return_dropped=True)
    assert grid.requires_grad and not dropped.requires_grad
    voxels = backend.voxelize_sparse(points, 1, features=leaf)
    assert [t is not None and t.requires_grad for t in voxels] == [False, False, True] + [False] * 3
    with torch.no_grad():
        assert not backend.voxelize(points, (1, 1, 1), 1, **options).requires_grad
    options["out_dtype"] = torch.uint8  # an integer output has no gradient
    assert not backend.voxelize(points, (1, 1, 1), 1, **options).requires_grad
    pixels = torch.zeros(5, 1, dtype=torch.uint8, device=backend.device)
    options = {"mode": "mean", "features": pixels, "out_dtype": torch.float32}
    assert not backend.voxelize(points, (1, 1, 1), 1, **options).requires_grad


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
@pytest.mark.parametrize("mode", MODES)
def test_empty(backend: Backend, shape: tuple[int, int], mode: str) -> None:
    """No cloud, no point, no channel, all points dropped."""
    points = torch.full((*shape, 3), math.inf)
    for channels in (0, 2):
        leaf = torch.zeros(*shape, channels, device=backend.device, requires_grad=True)
        grid = backend.voxelize(points, (1, 2, 1), 1, mode=mode, features=leaf)
        voxels = backend.voxelize_sparse(points, 1, reduce=mode, features=leaf)
        assert grid.shape == (shape[0], channels, 1, 2, 1) and grid.eq(0).all()
        assert voxels.features is not None and voxels.features.shape == (0, channels)
        for out in (grid, voxels.features):
            (grad,) = torch.autograd.grad(out.sum(), leaf)
            assert grad.shape == leaf.shape and grad.eq(0).all()


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_derivatives_that_only_pytorch_has(backend: Backend, form: str) -> None:
    """Second and forward derivatives: right on pytorch, refused elsewhere, never a silent zero."""
    features = torch.randn(12, 3, dtype=torch.float64, device=backend.device)
    call, _ = reduced(backend, form, "one", "mean")

    def energy(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = call(x)
        return (out * out * out).sum()

    def forward_mode() -> torch.Tensor:
        tangent: torch.Tensor = torch.func.jvp(energy, (features,), (features,))[1]
        return tangent

    def hessian() -> torch.Tensor:
        matrix: torch.Tensor = torch.autograd.functional.hessian(energy, features)
        return matrix

    if backend.backend == "pytorch":
        leaf = features.clone().requires_grad_()
        (grad,) = torch.autograd.grad(energy(leaf), leaf)
        assert_near(forward_mode(), (grad * features).sum(), 1e-9)
        assert hessian().shape == (12, 3, 12, 3) and hessian().abs().sum() > 0
        return
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for torch\.func's"):
        forward_mode()
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for second derivatives"):
        hessian()


def test_vmap_takes_the_pytorch_backend(native: Backend) -> None:
    """Left to choose, the front takes the backend that can."""
    points = native.put(torch.rand(3, 7, 3) - 0.5)
    features = native.put(torch.rand(3, 7, 2))

    def one(p: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        return rc.voxelize_point_cloud(p, (2, 2, 2), 0.5, mode="max", features=f)

    mapped = torch.func.vmap(one)(points, features)
    assert_same_bits(mapped, one(points, features))
