"""Gradients: against finite differences, against float64, the same bits on every run."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support import FLOATS, Backend, assert_near, assert_same_bits

import robocache as rc

METHODS = ("linear", "previous", "nearest", "slerp_xyzw", "slerp_wxyz", "angle")
LAYOUT = [("linear", 2), ("slerp_wxyz", 4), ("nearest", 1), ("angle", 2), ("previous", 1)]


def rows_for(method: Any, batch: list[int], rows: int, like: str = "cpu") -> torch.Tensor:
    """Smooth float64 values: no quaternions at right angles, no angles half a turn apart."""
    layout = [(method, 4)] if isinstance(method, str) else method
    parts = []
    for name, width in layout:
        part = torch.randn([*batch, rows, width], dtype=torch.float64)
        if name.startswith("slerp"):
            part = torch.tensor([0.5, -0.4, 0.6, 0.5], dtype=torch.float64) + 0.15 * part
        elif name == "angle":
            # Steps of up to 1 rad across the seam at pi, each a bit away from it.
            part = 3.3 + 0.6 * torch.tanh(part)
        parts.append(part)
    return torch.cat(parts, -1).to(like)


def gradcheck(backend: Backend, data: torch.Tensor, *times: torch.Tensor, **options: Any) -> None:
    """Literal NaNs count as the zeros of nan_to_num: finite differences know no others."""
    leaf = data.detach().to(backend.device).requires_grad_()
    moved = [t.to(backend.device) for t in times]
    assert torch.autograd.gradcheck(
        lambda x: backend.resample(x, *moved, **options).nan_to_num(), (leaf,), nondet_tol=0.0
    )


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"torch seed: {torch.seed()}")  # shown where a test fails


@pytest.mark.parametrize("method", [*METHODS, LAYOUT], ids=[*METHODS, "layout"])
@pytest.mark.parametrize("outside", ["hold", "zero", "extrapolate"])
def test_gradcheck(backend: Backend, method: Any, outside: str) -> None:
    data = rows_for(method, [2], 5)
    channels = data.size(-1)
    source = torch.tensor([[0, 10, 20, 30, 40], [0, 3, 3, 25, 60]])
    targets = torch.tensor([[-7, 0, 4, 15, 21, 40, 49], [-1, 0, 1, 3, 11, 44, 77]])
    gradcheck(
        backend,
        data,
        source,
        targets,
        method=method,
        outside=outside,
        tolerance=1,
        subtract=torch.linspace(-1, 1, channels, dtype=torch.float64),
        multiply=torch.linspace(0.5, 2, channels, dtype=torch.float64),
    )


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck_shared_and_ragged(backend: Backend, method: str) -> None:
    """Shared values take the gradients of every batch row; lengths, 0 too, and NaN targets."""
    gradcheck(
        backend,
        rows_for(method, [], 4),
        torch.tensor([0.0, 1.0, 2.0, 3.5], dtype=torch.float64),
        torch.tensor([[0.4, 0.9, math.nan, 9.0], [0.0, 2.7, 3.0, -1.0], [0.5, 0.6, 0.7, 0.8]]),
        method=method,
        source_lengths=torch.tensor([3, 4, 0]),
        outside="extrapolate",
    )


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck_unbatched(backend: Backend, method: str) -> None:
    times = torch.tensor([0, 10, 20])
    gradcheck(
        backend,
        rows_for(method, [], 3),
        times,
        torch.tensor([3, 10, 19, 19, 25, -4]),
        method=method,
        source_valid=torch.tensor([True, False, True]),
        max_gap=5,
    )


@pytest.mark.parametrize("dtype", FLOATS[:3])
@pytest.mark.parametrize("method", [*METHODS, LAYOUT], ids=[*METHODS, "layout"])
def test_low_precision(backend: Backend, method: Any, dtype: torch.dtype) -> None:
    """Values of less than 64 bits: the float64 gradient at the same values, rounded."""
    data = rows_for(method, [3], 6).to(dtype)
    source = torch.arange(6) * 10
    targets = torch.tensor([-3, 0, 2, 5, 7, 11, 28, 28, 33, 49, 50, 55])
    grads = {}
    shape = (3, 12, data.size(-1))
    out_grad = torch.randint(-4, 5, shape).double()
    for name, values in (("low", data), ("exact", data.double())):
        leaf = values.to(backend.device).requires_grad_()
        out = backend.resample(leaf, source, targets, method=method)
        assert out.dtype == values.dtype
        out.backward(out_grad.to(backend.device, out.dtype))
        assert leaf.grad is not None and leaf.grad.dtype == values.dtype
        grads[name] = leaf.grad.cpu()
    size = grads["exact"].abs().amax()
    assert_near(grads["low"], grads["exact"], float(size * torch.finfo(dtype).eps + size * 1e-5))


@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_types_of_values_and_output(
    backend: Backend, dtype: torch.dtype, out_dtype: torch.dtype
) -> None:
    """The gradient has the values' type whatever the output's; by numbers exact in all of them."""
    leaf = torch.tensor(
        [[1.0], [2.0], [4.0]], dtype=dtype, device=backend.device, requires_grad=True
    )
    out = backend.resample(
        leaf,
        torch.tensor([0, 4, 8]),
        torch.tensor([-1, 1, 4, 6, 9]),
        out_dtype=out_dtype,
        subtract=torch.tensor([9.0]),
        multiply=torch.tensor([2.0]),
    )
    assert out.dtype == out_dtype
    out.backward(torch.tensor([[1.0], [4.0], [2.0], [8.0], [16.0]], device=backend.device).to(out))
    assert leaf.grad is not None and leaf.grad.dtype == dtype
    # Row 0: 1 held, 3/4 of 4. Row 1: 1/4 of 4, 2, half of 8. Row 2: half of 8, 16 held. Twice.
    assert leaf.grad.flatten().tolist() == [8.0, 14.0, 40.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_summed_in_the_compute_type(backend: Backend, dtype: torch.dtype) -> None:
    """5000 ones: a sum kept in a half type would have stopped at 2048 or 256."""
    leaf = torch.zeros(2, 1, dtype=dtype, device=backend.device, requires_grad=True)
    out = backend.resample(leaf, torch.tensor([0, 9]), torch.ones(5000).long(), method="previous")
    out.backward(torch.ones_like(out))
    assert leaf.grad is not None
    assert_same_bits(leaf.grad.cpu(), torch.tensor([[5000.0], [0.0]]).to(dtype))


def test_no_gradient_where_no_row_is_used(backend: Backend) -> None:
    """Literals, empty episodes and NaN targets pass no gradient, and no NaN either."""
    for outside in ("zero", "nan"):
        leaf = torch.tensor([[1.0], [2.0]], device=backend.device, requires_grad=True)
        out = backend.resample(
            leaf,
            torch.tensor([0.0, 1.0]),
            torch.tensor([-1.0, math.nan, 2.0, 0.25]),
            outside=outside,
            source_lengths=torch.tensor([2, 0]),
        )
        out.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.flatten().tolist() == [0.75, 0.25]


@pytest.mark.parametrize("method", ["slerp_xyzw", "slerp_wxyz"])
def test_zero_quaternion_has_no_gradient(backend: Backend, method: str) -> None:
    leaf = torch.tensor(
        [[0.0, 0, 0, 0], [0, 0, 0, 2], [0, 0, 0, 2]], device=backend.device, requires_grad=True
    )
    out = backend.resample(leaf, torch.tensor([0, 10, 20]), torch.tensor([0, 5, -3]), method=method)
    (out * torch.tensor([1.0, 2, 3, 4], device=backend.device)).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.eq(0).all()


def test_special_neighbors_do_not_poison(backend: Backend) -> None:
    """The gradient of linear depends on times alone: NaN and infinite values do not reach it."""
    leaf = torch.tensor(
        [[1.0], [math.nan], [math.inf], [4.0]], device=backend.device, requires_grad=True
    )
    out = backend.resample(leaf, torch.arange(4) * 4, torch.tensor([0, 1, 6, 12]))
    out.backward(torch.ones_like(out))
    assert leaf.grad is not None
    assert leaf.grad.flatten().tolist() == [1.75, 0.75, 0.5, 1.0]


def test_gradients_of_other_strides(backend: Backend) -> None:
    """An expanded and a transposed gradient, values of any strides, an output that takes a mask."""
    base = torch.randn(7, 5, 3).to(backend.device)
    source, targets = torch.arange(5) * 10, torch.tensor([3, 17, 17, 44])
    weights = torch.randn(7, 3, 4).to(backend.device)
    grads = []
    for layout in ("contiguous", "strided"):
        leaf = base.clone().requires_grad_()
        values = leaf
        if layout == "strided":
            values = leaf.transpose(0, 2).contiguous().transpose(0, 2)
        out, valid = backend.resample(values, source, targets, return_valid=True)
        assert not valid.requires_grad
        if layout == "contiguous":
            loss = (out * weights.transpose(1, 2).contiguous()).sum() + out.sum()
        else:
            loss = (out.transpose(1, 2) * weights).sum() + out.sum()
        (grad,) = torch.autograd.grad(loss, leaf)
        grads.append(grad)
    assert_near(grads[1].cpu(), grads[0].cpu(), 1e-6)
    (expanded,) = torch.autograd.grad(
        backend.resample(base.requires_grad_(), source, targets).sum(), base
    )
    (dense,) = torch.autograd.grad(
        backend.resample(base, source, targets), base, torch.ones(7, 4, 3, device=base.device)
    )
    assert_same_bits(expanded.cpu(), dense.cpu())


@pytest.mark.parametrize("method", ["linear", "previous", "slerp_xyzw", "angle"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_deterministic(native: Backend, method: str, dtype: torch.dtype) -> None:
    """Many targets on few rows, some shared by the batch: the same bits on every run."""
    for batch in ([], [5]):
        data = rows_for(method, batch, 9).to(native.device, dtype)
        source = torch.arange(9) * 1000
        targets = torch.randint(-500, 8500, (5, 4000))
        targets[:, :2500] = torch.randint(3000, 4000, (5, 2500))  # one pair of rows takes most
        out_grad = torch.randn(5, 4000, 4).to(native.device, dtype)
        grads = []
        for _ in range(4):
            leaf = data.clone().requires_grad_()
            native.resample(leaf, source, targets, method=method).backward(out_grad)
            assert leaf.grad is not None
            grads.append(leaf.grad.cpu())
        for again in grads[1:]:
            assert_same_bits(again, grads[0])


def test_no_grad_mode_and_integers(backend: Backend) -> None:
    times = torch.tensor([0, 1])
    leaf = torch.zeros(2, 1, device=backend.device, requires_grad=True)
    assert backend.resample(leaf, times, times).requires_grad
    with torch.no_grad():
        assert not backend.resample(leaf, times, times).requires_grad
    pixels = torch.zeros(2, 1, dtype=torch.uint8, device=backend.device)
    assert not backend.resample(pixels, times, times, out_dtype=torch.float32).requires_grad


def test_gradient_of_uint8_output(backend: Backend) -> None:
    """An integer output has no gradient."""
    leaf = torch.zeros(2, 1, device=backend.device, requires_grad=True)
    times = torch.tensor([0, 1])
    assert not backend.resample(leaf, times, times, out_dtype=torch.uint8).requires_grad


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_empty(backend: Backend, shape: tuple[int, int, int]) -> None:
    leaf = torch.zeros(shape, device=backend.device, requires_grad=True)
    for count in (0, 2):
        out = backend.resample(leaf, torch.arange(shape[1]), torch.arange(count))
        assert out.shape == (shape[0], count, shape[2])
        (grad,) = torch.autograd.grad(out.sum(), leaf)
        assert grad.shape == shape and grad.eq(1 if count and shape[1] == 0 else grad).all()


@pytest.mark.parametrize("method", ["linear", "slerp_xyzw"])
def test_derivatives_that_only_pytorch_has(backend: Backend, method: str) -> None:
    """Second and forward derivatives: right on pytorch, refused elsewhere, never a silent zero."""
    data = torch.randn(5, 4, dtype=torch.float64, device=backend.device)
    times = torch.arange(5, device=backend.device)
    targets = torch.tensor([0, 3], device=backend.device)

    def energy(values: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = backend.resample(values, 10 * times, 7 * targets, method=method)
        return (out * out * out).sum()

    def forward_mode() -> torch.Tensor:
        tangent: torch.Tensor = torch.func.jvp(energy, (data,), (data,))[1]
        return tangent

    def hessian() -> torch.Tensor:
        matrix: torch.Tensor = torch.autograd.functional.hessian(energy, data)
        return matrix

    if backend.backend == "pytorch":
        leaf = data.clone().requires_grad_()
        (grad,) = torch.autograd.grad(energy(leaf), leaf)
        assert_near(forward_mode(), (grad * data).sum(), 1e-9)
        assert hessian().shape == (5, 4, 5, 4) and hessian().abs().sum() > 0
        return
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for torch\.func's"):
        forward_mode()
    with pytest.raises(ValueError, match=r"^backend: expected 'pytorch' for second derivatives"):
        hessian()
    # Left to choose, the front takes the backend that has them.
    batch = torch.randn(3, 5, 4, dtype=torch.float64, device=backend.device, requires_grad=True)
    mapped = torch.func.vmap(lambda values: rc.resample_trajectories(values, times, times))(batch)
    mapped.sum().backward()
    assert batch.grad is not None and batch.grad.eq(1).all()


def test_wide_layout(backend: Backend) -> None:
    """Runs that begin beyond 2^31 channels, on a row that is one byte in memory."""
    width = 2**31
    data = torch.ones(1, 1, dtype=torch.uint8, device=backend.device).expand(1, width + 4)
    times = torch.zeros(1, dtype=torch.int64, device=backend.device)
    with pytest.raises(ValueError, match=r"^method: expected runs that sum to D=2147483652"):
        backend.resample(data, times, times, method=[("linear", width), ("previous", 5)])
    out = backend.resample(data, times, times[:0], method=[("linear", width), ("previous", 4)])
    assert out.shape == (0, width + 4)
