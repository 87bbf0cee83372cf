"""torch.compile, torch.export and torch.library.opcheck of voxelization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support import Backend, assert_near, assert_same_bits
from torch._dynamo.testing import CompileCounterWithBackend

import robocache as rc
from robocache.core import dtypes

# B, N, C. The first has no two equal, and no 3, which the compiler would take for a rule.
SIZES = [(2, 50, 7), (3, 70, 5), (4, 20, 8), (2, 110, 4)]
GRID = (
    6,
    7,
    5,
)  # cells of 0.2, written out: a float in a variable is symbolic at first, which costs a try


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    # How many voxels there are is in the data: torch traces that where it is told to.
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield
    torch.compiler.reset()


def inputs(backend: Backend, batch: int, count: int, channels: int) -> tuple[torch.Tensor, ...]:
    points, features = torch.rand(batch, count, 3) - 0.5, torch.randn(batch, count, channels)
    return backend.put(points), backend.put(features)


def compiled(
    function: Callable[..., Any], how: str = "aot_eager", dynamic: bool | None = True
) -> tuple[Callable[..., Any], CompileCounterWithBackend]:
    counter = CompileCounterWithBackend(how)
    return torch.compile(function, fullgraph=True, dynamic=dynamic, backend=counter), counter


@pytest.mark.parametrize("mode", ["occupancy", "count", "mean", "max"])
def test_dense(backend: Backend, mode: str) -> None:
    """One graph for all sizes, and eager's numbers."""

    def call(points: torch.Tensor, features: torch.Tensor) -> Any:
        options = {} if mode in ("occupancy", "count") else {"features": features}
        return backend.voxelize(points, GRID, 0.2, mode=mode, **options, return_dropped=True)

    fast, counter = compiled(call)
    for sizes in SIZES:
        tensors = inputs(backend, *sizes)
        got, want = fast(*tensors), call(*tensors)
        assert_same_bits(got[1], want[1])
        assert_near(got[0], want[0], 1e-5 if backend.backend == "pytorch" else 0)
    assert counter.frame_count == 1


@pytest.mark.parametrize("has_features", [True, False])
def test_sparse(backend: Backend, has_features: bool) -> None:
    """One graph for all sizes, with work after it on voxels whose number is unknown."""

    def call(points: torch.Tensor, features: torch.Tensor) -> Any:
        voxels = backend.voxelize_sparse(points, 0.2, features=features if has_features else None)
        centers = (voxels.coordinates.float() + 0.5) * 0.2
        return (*voxels[:2], *([voxels.features] if has_features else []), *voxels[3:], centers)

    fast, counter = compiled(call)
    for sizes in SIZES:
        tensors = inputs(backend, *sizes)
        for got, want in zip(fast(*tensors), call(*tensors), strict=True):
            assert got.dtype == want.dtype
            assert_near(got, want, 1e-5)
    assert counter.frame_count == 1


def test_ragged_under_validation(backend: Backend) -> None:
    """Compiled code looks at offsets too, where it is asked to."""

    def call(points: torch.Tensor, offsets: torch.Tensor) -> Any:
        voxels = backend.voxelize_sparse(points, 0.2, offsets=offsets)
        return backend.voxelize(points, GRID, 0.2, offsets=offsets), voxels.counts

    fast, _ = compiled(call, dynamic=None)
    points = backend.put(torch.rand(60, 3) - 0.5)
    with rc.config(validate=True):
        for ends in ([0, 20, 60], [0, 0, 7, 60]):
            offsets = backend.put(torch.tensor(ends))
            for got, want in zip(fast(points, offsets), call(points, offsets), strict=True):
                assert_same_bits(got, want)
        with pytest.raises(Exception, match="offsets: expected P=60 last, got 59"):
            fast(points, backend.put(torch.tensor([0, 20, 59])))


@pytest.mark.parametrize("mode", ["mean", "max"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_gradient(backend: Backend, form: str, mode: str) -> None:
    """Forward and backward traced as one, with changing sizes."""

    def loss(points: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        if form == "dense":
            out = backend.voxelize(points, GRID, 0.2, mode=mode, features=features)
        else:
            out = backend.voxelize_sparse(points, 0.2, reduce=mode, features=features).features
        return torch.sum(out * out)

    fast, counter = compiled(loss)
    for sizes in SIZES[:3]:
        points, features = inputs(backend, *sizes)
        grads = []
        for function in (fast, loss):
            leaf = features.clone().requires_grad_()
            function(points, leaf).backward()
            assert leaf.grad is not None
            grads.append(leaf.grad)
        assert_near(grads[0], grads[1], 1e-4)
    assert counter.frame_count == 1


def test_inductor(native: Backend) -> None:
    """The default compiler, with arithmetic around the operation."""

    def call(points: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        options = {"mode": "mean", "features": features * 2}
        out: torch.Tensor = native.voxelize(points + 0.5, GRID, 0.2, **options) + 1
        return out

    fast = torch.compile(call, fullgraph=True, dynamic=True)
    for sizes in SIZES[:2]:
        points, features = inputs(native, *sizes)
        assert_near(fast(points, features), call(points, features), 1e-5)
        leaf = features.clone().requires_grad_()
        (got,) = torch.autograd.grad(fast(points, leaf).sum(), leaf)
        (want,) = torch.autograd.grad(call(points, leaf).sum(), leaf)
        assert_near(got, want, 1e-5)


def test_export(backend: Backend) -> None:
    """torch.export with dynamic sizes."""

    class Grid(torch.nn.Module):
        def forward(self, points: torch.Tensor, features: torch.Tensor) -> Any:
            options = {"mode": "max", "features": features, "return_dropped": True}
            return backend.voxelize(points, GRID, 0.2, **options)

    batch, count, channels = (torch.export.Dim(name, min=2, max=4096) for name in "bnc")
    exported = torch.export.export(
        Grid(),
        inputs(backend, 3, 60, 4),
        dynamic_shapes=({0: batch, 1: count}, {0: batch, 1: count, 2: channels}),
    )
    tensors = inputs(backend, *SIZES[1])
    for got, want in zip(exported.module()(*tensors), Grid()(*tensors), strict=True):
        assert_same_bits(got, want)


def test_opcheck(native: Backend) -> None:
    """Schemas, fake kernels and tracing of the five operators."""

    ops = torch.ops.robocache
    geometry = [0.2, 0.15, 0.25, -0.5, -0.5, -0.5]
    occupancy, count, mean, maximum = 0, 1, 2, 4
    float32, float64, int32 = map(dtypes.number_of, (torch.float32, torch.float64, torch.int32))
    points = torch.rand(2, 9, 3) - 0.5
    ragged, offsets = torch.rand(9, 3, dtype=torch.float64), torch.tensor([0, 4, 4, 9])
    features = torch.rand(2, 9, 5)
    dense: list[tuple[Any, ...]] = [
        (points, None, None, [2, 3, 4], geometry, occupancy, float32),
        (points[0].half(), None, None, [2, 3, 4], geometry, count, int32),
        (points, features, None, [2, 3, 4], geometry, mean, float32),
        (ragged, features[0].bfloat16(), offsets, [1, 1, 4], geometry, maximum, float64),
        (points[:0], features[:0], None, [2, 3, 4], geometry, mean, float32),
    ]
    for sample in dense:
        args = tuple(native.put(x) for x in sample)
        torch.library.opcheck(ops.voxelize.default, args)
        torch.library.opcheck(ops.voxelize_dropped.default, args)
    grad = torch.rand(2, 5, 2, 3, 4)
    backward: list[tuple[Any, ...]] = [
        (grad, points, None, None, [2, 3, 4], geometry, mean, float32),
        (grad, points, features, None, [2, 3, 4], geometry, maximum, float32),
        (grad[0], points[0], features[0], None, [2, 3, 4], geometry, maximum, float32),
    ]
    for sample in backward:
        torch.library.opcheck(ops.voxelize_backward.default, tuple(native.put(x) for x in sample))

    sparse: list[tuple[Any, ...]] = [
        (points, None, None, geometry, mean),
        (points, features, None, geometry, mean),
        (ragged, features[0], offsets.int(), geometry, maximum),
        (points[0], features[0], None, geometry, mean),
    ]
    for sample in sparse:
        args = tuple(native.put(x) for x in sample)
        torch.library.opcheck(ops.voxelize_sparse.default, args)
    args = tuple(native.put(x) for x in sparse[1])
    _, counts, reduced, point_to_voxel, _, _ = ops.voxelize_sparse(*args)
    for values, mode in ((None, mean), (args[1], maximum)):
        torch.library.opcheck(
            ops.voxelize_sparse_backward.default,
            (torch.ones_like(reduced), values, point_to_voxel, counts, mode, float32),
        )
