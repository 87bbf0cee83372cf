"""torch.compile, torch.export and torch.library.opcheck of farthest-point sampling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support import Backend, assert_near, assert_same_bits
from torch._dynamo.testing import CompileCounterWithBackend

import robocache as rc

# B, N, n. The first has no two equal, and no 3, which the compiler would take for a rule.
SIZES = [(2, 50, 7), (4, 70, 5), (5, 20, 8)]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_one_graph_for_all_sizes(backend: Backend) -> None:
    """Indices and points, n a constant or a size of another tensor."""

    def call(points: torch.Tensor, like: torch.Tensor) -> Any:
        some = backend.sample_farthest(points, 6, start=1)
        indices, samples = backend.sample_farthest(points, like.shape[0], return_points=True)
        return some, indices, samples * 2

    counter = CompileCounterWithBackend("aot_eager")
    fast = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
    for batch, count, n in SIZES:
        points, like = backend.put(torch.randn(batch, count, 3)), backend.put(torch.zeros(n))
        for got, want in zip(fast(points, like), call(points, like), strict=True):
            assert_same_bits(got, want)
    assert counter.frame_count == 1


def test_ragged_under_validation(backend: Backend) -> None:
    def call(points: torch.Tensor, offsets: torch.Tensor) -> Any:
        return backend.sample_farthest(points, 4, offsets=offsets)

    fast = torch.compile(call, fullgraph=True, backend="aot_eager")
    points = backend.put(torch.randn(60, 3))
    with rc.config(validate=True):
        for ends in ([0, 20, 60], [0, 0, 60]):
            offsets = backend.put(torch.tensor(ends))
            assert_same_bits(fast(points, offsets), call(points, offsets))
        with pytest.raises(Exception, match="offsets: expected P=60 last, got 59"):
            fast(points, backend.put(torch.tensor([0, 20, 59])))


def test_gradient(backend: Backend) -> None:
    """Forward and backward of unprojected points that are sampled, traced as one."""
    intrinsics = backend.put(torch.tensor([[50.0, 0, 4], [0, 50, 3], [0, 0, 1]]))

    def loss(depth: torch.Tensor) -> torch.Tensor:
        points = rc.unproject(depth, intrinsics)
        samples = backend.sample_farthest(points, 5, return_points=True)[1]
        return torch.sum(samples * samples)

    fast = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for shape in ((2, 6, 8), (4, 5, 7)):
        grads = []
        depth = backend.put(torch.rand(shape) + 1)
        for function in (fast, loss):
            leaf = depth.clone().requires_grad_()
            function(leaf).backward()
            assert leaf.grad is not None
            grads.append(leaf.grad)
        assert_near(grads[0], grads[1], 1e-5)


def test_export(backend: Backend) -> None:
    class Sampler(torch.nn.Module):
        def forward(self, points: torch.Tensor) -> Any:
            return backend.sample_farthest(points, 6)

    dynamic = {0: torch.export.Dim("b", min=2, max=64), 1: torch.export.Dim("n", min=2, max=4096)}
    points = backend.put(torch.randn(3, 60, 3))
    exported = torch.export.export(Sampler(), (points,), dynamic_shapes=(dynamic,))
    other = backend.put(torch.randn(5, 40, 3))
    assert_same_bits(exported.module()(other), Sampler()(other))


def test_opcheck(native: Backend) -> None:
    """The schema, the fake kernel and tracing of the operator."""
    points = torch.randn(2, 9, 3)
    samples: list[tuple[Any, ...]] = [
        (points, None, 4, 1),
        (points[0].double(), None, 12, 0),
        (points[0].half(), torch.tensor([0, 4, 4, 9], dtype=torch.int32), 3, 2),
        (points[:0], None, 4, 0),
    ]
    for sample in samples:
        args = tuple(native.put(x) for x in sample)
        torch.library.opcheck(torch.ops.robocache.sample_farthest.default, args)
