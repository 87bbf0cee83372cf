"""Transforms under torch.compile, opcheck, torch.func and CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from rotations import poses
from support import Backend, assert_near, assert_same_bits
from torch._dynamo.testing import CompileCounterWithBackend

import robocache as rc

# B, K: no two equal, none of them a width
SIZES = [(2, 11), (5, 13)]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def everything(backend: Backend, x: torch.Tensor, anchor: torch.Tensor) -> tuple[Any, ...]:
    """Every operation, on windows of poses with 6D."""
    relative = backend.relative_pose(x, anchor, "rotation_6d")
    turned = backend.convert_rotation(relative[..., 3:], "rotation_6d", "rotation_vector")
    times = torch.arange(x.size(-2) + 1, device=x.device) * 20_000_000
    velocity = backend.absolute_to_delta(x, anchor, times=times)
    back = backend.delta_to_absolute(velocity, anchor, time_step=0.02)
    return relative, backend.absolute_pose(relative, anchor, "rotation_6d"), turned, velocity, back


def inputs(backend: Backend, batch: int, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = poses("rotation_6d", batch, steps).float(), poses("rotation_6d", batch).float()
    return backend.put(made[0]), backend.put(made[1])


def test_compile(native: Backend) -> None:
    """One graph for all sizes, forward and backward, and eager's numbers."""

    def loss(x: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        return torch.stack([(out * out).sum() for out in everything(native, x, anchor)]).sum()

    counter = CompileCounterWithBackend("aot_eager")
    fast = torch.compile(loss, fullgraph=True, dynamic=True, backend=counter)
    for sizes in SIZES:
        leaves = [x.requires_grad_() for x in inputs(native, *sizes)]
        got, want = (torch.autograd.grad(f(*leaves), leaves) for f in (fast, loss))
        for a, b in zip(got, want, strict=True):
            assert_near(a, b, 1e-5 * (1 + b.abs().max()))
    assert counter.frame_count == 1


def test_opcheck(native: Backend) -> None:
    """Schemas, fake kernels and tracing of the six operators."""

    ops = torch.ops.robocache
    x, anchor = inputs(native, 2, 3)
    vector, six_d = 2, 4  # forms
    rows = x[..., 3:].flatten(0, 1)
    times = native.put(torch.arange(8).view(2, 4))
    calls: list[tuple[Any, ...]] = [
        (ops.convert_rotation, rows, six_d, vector),
        (ops.convert_rotation, rows[:0], six_d, vector),
        (ops.convert_rotation_backward, rows[:, :3], rows, six_d, vector),
        (ops.convert_pose, x, anchor, six_d, False),
        (ops.convert_pose, x.half(), anchor.half(), six_d, True),
        (ops.convert_pose_backward, x, x, anchor, six_d, False, True, False),
        (ops.convert_pose_backward, x, x, anchor, six_d, True, True, True),
        (ops.convert_delta, x, anchor, None, 0.5, False),
        (ops.convert_delta, x, anchor, times, 1.0, True),
        (ops.convert_delta_backward, x, times[0], 1.0, True),
    ]
    for operator, *arguments in calls:
        torch.library.opcheck(operator.default, tuple(arguments))


def test_transforms_of_torch_func(backend: Backend) -> None:
    """`"auto"` goes to pytorch for them."""
    x = backend.put(torch.randn(3, 4))
    jacobians = torch.func.vmap(
        torch.func.jacrev(lambda x: rc.convert_rotation(x, "quaternion_xyzw", "rotation_vector"))
    )(x)
    leaf = x.clone().requires_grad_()
    out = backend.convert_rotation(leaf, "quaternion_xyzw", "rotation_vector")
    for i in range(3):
        (row,) = torch.autograd.grad(out[:, i].sum(), leaf, retain_graph=True)
        assert_near(jacobians[:, i].cpu(), row.cpu(), 1e-5)


# ---- CUDA ----------------------------------------------------------------------------------------


def test_graph(cuda_backend: Backend) -> None:
    """Captured once with its gradient, replayed with other numbers in the same memory."""
    from cuda_calls import capture

    x, anchor = (t.requires_grad_() for t in inputs(cuda_backend, 5, 9))

    def call() -> Any:
        outs = everything(cuda_backend, x, anchor)
        return (*outs, *torch.autograd.grad(sum(out.sum() for out in outs), (x, anchor)))

    captured = capture(call)
    for _ in range(2):
        with torch.no_grad():
            for tensor, new in zip((x, anchor), inputs(cuda_backend, 5, 9), strict=True):
                tensor.copy_(new)
        captured.graph.replay()
        for got, want in zip(captured, call(), strict=True):
            assert_near(got, want, 1e-4 if cuda_backend.backend == "pytorch" else 0)


def test_call_does_not_wait(cuda_backend: Backend) -> None:
    x, anchor = inputs(cuda_backend, 5, 9)
    everything(cuda_backend, x, anchor)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        everything(cuda_backend, x, anchor)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_bits_of_cpu_and_cuda(native: Backend) -> None:
    """Every form and type, many rows."""
    if native.device != "cuda":
        pytest.skip("needs a GPU beside the CPU")
    from rotations import FORMS, rotations

    for dtype in (torch.float32, torch.float64):
        for source in FORMS:
            x = rotations(source, 20_000, dtype=dtype) * 1.7
            for target in FORMS:
                got = native.convert_rotation(x, source, target).cpu()
                want = rc.convert_rotation(x, source, target, backend="cpu")  # type: ignore[arg-type]
                assert_same_bits(got, want, f"{source} to {target}")
