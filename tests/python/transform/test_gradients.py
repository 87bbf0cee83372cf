"""Gradients of transforms: by finite differences, beside autograd's own, the same bits twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from rotations import FORMS, WIDTHS, poses, rotations
from support import FLOATS, Backend, assert_near, assert_same_bits

import robocache as rc

PYTORCH = Backend("pytorch-cpu", "pytorch", "cpu")


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"torch seed: {torch.seed()}")  # shown where a test fails


def gradients(
    backend: Backend, function: Callable[..., Any], *inputs: torch.Tensor
) -> list[torch.Tensor]:
    """Gradients of a weighted sum of the outputs, with equal weights for every backend."""
    leaves = [backend.put(x.clone()).requires_grad_() for x in inputs]
    out = function(*leaves)
    weights = torch.cos(torch.arange(out.numel(), dtype=torch.float64)).view(out.shape)
    grads = torch.autograd.grad((out.double() * weights.to(out.device)).sum(), leaves)
    for grad, x in zip(grads, inputs, strict=True):
        assert grad.dtype == x.dtype and grad.shape == x.shape
    return [grad.cpu() for grad in grads]


def test_gradcheck(native: Backend) -> None:
    """Every pair of forms, of what is no exact rotation either."""
    for source, target in itertools.product(FORMS, FORMS):
        x = native.put(rotations(source, 3) * 1.3 + 0.05).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda x, s=source, t=target: native.convert_rotation(x, s, t), x
        )
    for form, name in itertools.product(FORMS, ("relative_pose", "absolute_pose")):
        x, anchor = (
            native.put(poses(form, *lead) * 1.2 + 0.05).requires_grad_() for lead in ([2, 3], [2])
        )
        call = getattr(native, name)
        assert torch.autograd.gradcheck(lambda x, a, f=form, c=call: c(x, a, f), (x, anchor))


@pytest.mark.parametrize("timing", ["differences", "time_step", "times"])
def test_gradcheck_of_deltas(native: Backend, timing: str) -> None:
    x = native.put(torch.randn(2, 4, 3, dtype=torch.float64)).requires_grad_()
    start = native.put(torch.randn(2, 3, dtype=torch.float64)).requires_grad_()
    options: dict[str, Any] = {}
    if timing == "time_step":
        options["time_step"] = 0.3
    if timing == "times":
        options["times"] = torch.tensor([0, 2, 3, 7, 8]) * 10**8
    for name in ("delta_to_absolute", "absolute_to_delta"):
        call = getattr(native, name)
        assert torch.autograd.gradcheck(lambda x, s, c=call: c(x, s, **options), (x, start))


def test_backends_agree(backend: Backend) -> None:
    """With autograd's gradients of plain torch."""
    for source, target in itertools.product(FORMS, FORMS):
        x = torch.randn(50, WIDTHS[source], dtype=torch.float64)
        got, want = (
            gradients(b, lambda x, b=b, s=source, t=target: b.convert_rotation(x, s, t), x)[0]
            for b in (backend, PYTORCH)
        )
        assert_near(got, want, 1e-9 * (1 + want.abs().max()), f"{source} to {target}")
    for form, name in itertools.product(FORMS, ("relative_pose", "absolute_pose")):
        x, anchor = poses(form, 2, 3, 4), poses(form, 2, 3)
        made = [
            gradients(b, lambda x, a, b=b, n=name, f=form: getattr(b, n)(x, a, f), x, anchor)
            for b in (backend, PYTORCH)
        ]
        for got, want in zip(*made, strict=True):
            assert_near(got, want, 1e-11, f"{name} {form}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_shared_rows_and_half_types(backend: Backend, dtype: torch.dtype) -> None:
    """One anchor of several windows, and one start, gather the gradients of all."""
    eps = torch.finfo(dtype).eps
    x, anchor = poses("rotation_6d", 3, 4), poses("rotation_6d")
    wanted = gradients(PYTORCH, lambda x, a: PYTORCH.relative_pose(x, a, "rotation_6d"), x, anchor)
    got = gradients(
        backend,
        lambda x, a: backend.relative_pose(x, a, "rotation_6d"),
        x.to(dtype),
        anchor.to(dtype),
    )
    for a, b in zip(got, wanted, strict=True):
        assert_near(a, b, 100 * eps)
    deltas, start = torch.randn(3, 4, 5), torch.randn(5)
    wanted = gradients(PYTORCH, PYTORCH.delta_to_absolute, deltas.double(), start.double())
    got = gradients(backend, backend.delta_to_absolute, deltas.to(dtype), start.to(dtype))
    for a, b in zip(got, wanted, strict=True):
        assert_near(a, b, 50 * eps)


SINGULAR = [
    ("rotation_vector", [0.0, 0.0, 0.0]),
    ("rotation_vector", [1e-12, 0.0, -1e-12]),
    ("rotation_vector", [math.pi, 0.0, 0.0]),
    ("rotation_vector", [0.0, 10.0, 0.0]),
    ("quaternion_xyzw", [0.0, 0.0, 0.0, 1.0]),
    ("quaternion_xyzw", [0.0, 0.0, 0.0, -2.0]),
    ("quaternion_xyzw", [0.0, 1.0, 0.0, 0.0]),
    ("matrix", [1.0, 0, 0, 0, 1, 0, 0, 0, 1]),
    ("matrix", [1.0, 0, 0, 0, -1, 0, 0, 0, -1]),
]


@pytest.mark.parametrize(("source", "numbers"), SINGULAR)
def test_where_formulas_have_their_edges(
    backend: Backend, source: str, numbers: list[float]
) -> None:
    """Gradients are finite there, and those of the nearest place beside the edge."""
    x = torch.tensor(numbers, dtype=torch.float64)
    beside = x + 1e-9 * torch.tensor([1.0, 0.3, 0.7, 0.2, 0.5, 0.1, 0.9, 0.4, 0.6])[: len(x)]
    for target in ("matrix", "quaternion_xyzw", "rotation_vector"):
        call = lambda x, t=target: backend.convert_rotation(x, source, t)  # noqa: E731
        (got,), (near,) = gradients(backend, call, x), gradients(backend, call, beside)
        is_edge = bool((call(x) - call(beside)).abs().max() > 1)  # the other of two signs
        assert got.isfinite().all()
        assert_near(got.abs() if is_edge else got, near.abs() if is_edge else near, 1e-7, target)


def test_no_rotation_has_no_gradient(backend: Backend) -> None:
    for source in ("quaternion_wxyz", "matrix", "rotation_6d"):
        for target in FORMS:
            x = torch.zeros(1, WIDTHS[source])
            call = lambda x, s=source, t=target: backend.convert_rotation(x, s, t)  # noqa: E731
            (got,) = gradients(backend, call, x)
            assert (got == 0).all()


def test_same_bits_twice(native: Backend) -> None:
    x, anchor = poses("matrix", 4, 100, dtype=torch.float32), poses("matrix", 4).float()
    call = lambda x, a: native.relative_pose(x, a, "matrix")  # noqa: E731
    made = [gradients(native, call, x, anchor) for _ in range(2)]
    on_cpu = lambda x, a: rc.relative_pose(x, a, "matrix", backend="cpu")  # noqa: E731
    cpu = gradients(PYTORCH, on_cpu, x, anchor)
    for first, second, of_cpu in zip(*made, cpu, strict=True):
        assert_same_bits(first, second)
        assert_same_bits(first, of_cpu)


def test_only_what_is_wanted(native: Backend) -> None:
    """A gradient to the anchor alone, and to the start alone."""
    x, anchor = native.put(poses("rotation_6d", 2, 3)), native.put(poses("rotation_6d", 2))
    out = native.relative_pose(x, anchor.requires_grad_(), "rotation_6d")
    (grad,) = torch.autograd.grad(out.sum(), anchor)
    assert grad.shape == anchor.shape
    start = native.put(torch.randn(2, 4)).requires_grad_()
    out = native.delta_to_absolute(torch.randn(2, 3, 4), start)
    assert torch.autograd.grad(out.sum(), start)[0].cpu().eq(3).all()


def test_second_derivatives(native: Backend) -> None:
    """Only pytorch has them; the native backends refuse."""
    x = native.put(torch.randn(2, 4)).requires_grad_()
    message = r"^backend: expected 'pytorch' for second derivatives"
    out = native.convert_rotation(x, "quaternion_xyzw", "matrix")
    with pytest.raises(ValueError, match=message):
        torch.autograd.grad(out.sum(), x, create_graph=True)
    assert torch.autograd.gradgradcheck(
        lambda x: PYTORCH.convert_rotation(x, "quaternion_xyzw", "rotation_vector"),
        torch.randn(2, 4, dtype=torch.float64).requires_grad_(),
    )
