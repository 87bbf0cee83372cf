"""Gradients of means, sums and fused streams: finite differences, by hand, the same bits twice."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import FLOATS, Backend, assert_near, assert_same_bits

import robocache as rc

LAYOUT = [("mean", 2), ("sum", 1), ("linear", 1), ("slerp_xyzw", 4)]


def rows(*shape: int) -> torch.Tensor:
    values = torch.randn(shape, dtype=torch.float64)
    if shape[-1] >= 8:  # quaternions that are not at right angles
        values[..., 4:8] = torch.tensor([0.5, -0.4, 0.6, 0.5]) + 0.15 * values[..., 4:8]
    return values


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"torch seed: {torch.seed()}")  # shown where a test fails


@pytest.mark.parametrize("outside", ["hold", "zero", "extrapolate"])
@pytest.mark.parametrize("method", ["mean", "sum", LAYOUT], ids=["mean", "sum", "layout"])
def test_gradcheck_of_windows(backend: Backend, method: Any, outside: str) -> None:
    """Windows with rows, without, with invalid ones; shared values; lengths, NaN targets."""
    targets = torch.tensor([[-7, 0, 4, math.nan, 21, 40, 49], [-1, 0, 1, 3, 11, 44, 77]])
    valid = torch.tensor([[True, True, False, True, True], [True, False, True, True, False]])
    width = 8 if method is LAYOUT else 3
    options: dict[str, Any] = {
        "method": method,
        "outside": outside,
        "mean_window": None if method == "sum" else 13.0,
        "tolerance": 1.0,
        "multiply": torch.linspace(0.5, 2, width, dtype=torch.float64),
    }
    source = torch.tensor([[0.0, 10, 20, 30, 40], [0, 3, 3, 25, 60]], dtype=torch.float64)
    for shape in ([2, 5, width], [5, width]):
        leaf = rows(*shape).to(backend.device).requires_grad_()
        for more in ({}, {"source_valid": valid, "source_lengths": torch.tensor([4, 5])}):
            assert torch.autograd.gradcheck(
                lambda x, more=more: backend.resample(
                    x, source, targets, **options, **more
                ).nan_to_num(),
                (leaf,),
                nondet_tol=0.0,
            )


def test_gradcheck_of_streams(backend: Backend) -> None:
    """Every stream gets its own, the batch may come from another one, and a mask has none."""
    leaves = [
        rows(5, 3).to(backend.device).requires_grad_(),
        rows(2, 4, 8).to(backend.device).requires_grad_(),
        rows(6, 1).to(backend.device).requires_grad_(),
    ]
    targets = torch.tensor([-1, 4, 10, 26, 41])

    def fused(*values: torch.Tensor) -> Any:
        streams = [
            rc.Stream(values[0], torch.arange(5) * 10, clock_offset=2, method="sum"),
            rc.Stream(values[1], torch.arange(4) * 12, mean_window=15, method=LAYOUT),
            rc.Stream(values[2], torch.arange(6) * 7, max_gap=3),
        ]
        return backend.fuse(streams, targets, return_valid=True, outside="extrapolate")[0]

    assert torch.autograd.gradcheck(fused, leaves, nondet_tol=0.0)
    # One alone: the others are left out.
    plain = [leaf.detach() for leaf in leaves]
    for i, leaf in enumerate(leaves):
        mixed = [*plain[:i], leaf, *plain[i + 1 :]]
        (grad,) = torch.autograd.grad(fused(*mixed).square().sum(), leaf)
        (want,) = torch.autograd.grad(fused(*leaves).square().sum(), leaf)
        assert_same_bits(grad, want)


def test_by_hand(backend: Backend) -> None:
    """1/count to each valid row of a mean, 1 to each of a sum."""
    leaf = torch.zeros(5, 2, device=backend.device, requires_grad=True)
    out = backend.resample(
        leaf,
        torch.tensor([0, 10, 20, 30, 40]),
        torch.tensor([10, 25]),
        method=[("mean", 1), ("sum", 1)],
        mean_window=20,
        source_valid=torch.tensor([True, False, True, True, True]),
    )
    out.backward(torch.tensor([[8.0, 1.0], [2.0, 4.0]], device=backend.device))
    assert leaf.grad is not None
    # Rows 0 and 2 for the target at 10; 2 and 3 for that at 25. Sums: row 0; row 2.
    assert leaf.grad[:, 0].tolist() == [4, 0, 5, 1, 0]
    assert leaf.grad[:, 1].tolist() == [1, 0, 4, 0, 0]


def test_nan_elsewhere_does_not_poison(backend: Backend) -> None:
    leaf = torch.tensor(
        [[1.0], [math.nan], [math.inf], [4.0]], device=backend.device, requires_grad=True
    )
    for method, window, want in (("mean", 6, [1.0, 0, 0, 1]), ("sum", None, [1.0, 1, 1, 1])):
        out = backend.resample(
            leaf, torch.arange(4) * 10, torch.tensor([0, 30]), method=method, mean_window=window
        )
        (grad,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
        assert grad.flatten().tolist() == want


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_low_precision(backend: Backend, dtype: torch.dtype) -> None:
    """The float64 gradient at the same values, rounded; of streams of two types."""
    source, targets = torch.arange(60), torch.arange(3, 58, 9)
    grads = []
    weights = torch.randint(-4, 5, (7, 4)).double()
    exact = rows(60, 3)
    for kind in (dtype, torch.float64):
        leaf = exact.to(dtype).to(kind).to(backend.device).requires_grad_()
        other = torch.zeros(60, 1, dtype=torch.float32, device=backend.device)
        layout = [("mean", 1), ("sum", 1), ("linear", 1)]
        streams = [rc.Stream(leaf, source, method=layout, mean_window=7), rc.Stream(other, source)]
        out = backend.fuse(streams, targets)
        out.backward(weights.to(out))
        assert leaf.grad is not None and leaf.grad.dtype == kind
        grads.append(leaf.grad.cpu().double())
    assert_near(grads[0], grads[1], 5 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(("method", "window"), [("mean", 5000), ("sum", None)])
def test_deterministic(native: Backend, method: str, window: int | None) -> None:
    """Overlapping windows on shared rows: the same bits on every run."""
    source = torch.arange(300) * 100
    targets = torch.randint(0, 30_000, (5, 2000)).sort(-1).values
    out_grad = torch.randn(5, 2000, 4).to(native.device)
    values = torch.randn(300, 4)
    grads = []
    for _ in range(4):
        leaf = values.to(native.device).requires_grad_()
        out = native.resample(leaf, source, targets, method=method, mean_window=window)
        out.backward(out_grad)
        assert leaf.grad is not None
        grads.append(leaf.grad.cpu())
    for again in grads[1:]:
        assert_same_bits(again, grads[0])


def test_native_is_pytorch(native: Backend) -> None:
    """Many targets, many windows: the two agree within rounding."""
    source = torch.rand(3, 200, dtype=torch.float64).cumsum(-1)
    targets = (torch.rand(3, 500, dtype=torch.float64) * 110).sort(-1).values
    values = torch.randn(3, 200, 5, dtype=torch.float64)
    weights = torch.randn(3, 500, 5, dtype=torch.float64)
    grads = []
    for backend in (native, Backend("pytorch", "pytorch", native.device)):
        leaf = values.to(native.device).requires_grad_()
        layout = [("mean", 2), ("sum", 2), ("linear", 1)]
        out = backend.resample(leaf, source, targets, method=layout, mean_window=3.0)
        out.backward(backend.put(weights))
        assert leaf.grad is not None
        grads.append(leaf.grad.cpu())
    assert_near(grads[0], grads[1], 1e-11)


def test_second_derivatives(backend: Backend) -> None:
    """Means and sums are linear in the values; native backends refuse second derivatives."""
    leaf = rows(6, 2).to(backend.device).requires_grad_()
    times = torch.arange(6) * 10
    stream = rc.Stream(leaf, times, method=[("mean", 1), ("sum", 1)], mean_window=21)
    if backend.backend == "pytorch":
        assert torch.autograd.gradgradcheck(
            lambda x: backend.fuse(
                [rc.Stream(x, times, method="mean", mean_window=21)], times
            ).square(),
            (leaf,),
        )
        return
    out = backend.fuse([stream], times).square().sum()
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for second derivatives"):
        torch.autograd.grad(out, leaf, create_graph=True)
    # The second of two streams varies. All but `x` is on its device before torch.func traces.
    first = backend.stream(torch.zeros(2, 1), times[:2])
    times = backend.put(times)
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for torch\.func's"):
        torch.func.jvp(
            lambda x: backend.fuse([first, rc.Stream(x, times)], times),
            (leaf.detach(),),
            (leaf.detach(),),
        )
