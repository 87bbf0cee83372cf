"""torch.compile, torch.export and torch.library.opcheck."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from support import Backend, assert_near, assert_same_bits
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._pytree import tree_map_only

import robocache as rc

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def inputs(backend: Backend, batch: int, rows: int, count: int, channels: int) -> Tensors:
    source = torch.rand(batch, rows, dtype=torch.float64).cumsum(-1)
    targets = torch.rand(batch, count, dtype=torch.float64) * rows / 2
    values = torch.randn(batch, rows, channels)
    return backend.put(values), backend.put(source), backend.put(targets)


# No two sizes of the first are equal, which the compiler would take for a rule.
SIZES = [(2, 5, 7, 3), (3, 7, 6, 5), (4, 9, 2, 8), (2, 6, 11, 4)]


def compiled(
    function: Callable[..., Any], how: str = "aot_eager", dynamic: bool | None = True
) -> tuple[Callable[..., Any], CompileCounterWithBackend]:
    counter = CompileCounterWithBackend(how)
    return torch.compile(function, fullgraph=True, dynamic=dynamic, backend=counter), counter


@pytest.mark.parametrize("return_valid", [False, True])
def test_dynamic_shapes(backend: Backend, return_valid: bool) -> None:
    """One graph for all sizes, and eager's bits."""

    def call(*tensors: torch.Tensor) -> Any:
        return backend.resample(*tensors, return_valid=return_valid, max_gap=0.5)

    fast, counter = compiled(call)
    for sizes in SIZES:
        tensors = inputs(backend, *sizes)
        got, want = fast(*tensors), call(*tensors)
        if return_valid:
            assert_same_bits(got[1], want[1])
            got, want = got[0], want[0]
        assert_same_bits(got, want)
    assert counter.frame_count == 1


def test_every_option(backend: Backend) -> None:
    """All arguments at once, with shapes that change after the first call (dynamic=None)."""
    layout = [("linear", 2), ("slerp_xyzw", 4), ("angle", 1), ("mean", 1), ("sum", 1)]

    def call(
        values: torch.Tensor,
        source: torch.Tensor,
        targets: torch.Tensor,
        lengths: torch.Tensor,
        valid: torch.Tensor,
        scale: torch.Tensor,
    ) -> Any:
        return backend.resample(
            values,
            source,
            targets,
            method=layout,
            outside="extrapolate",
            max_gap=1.5,
            tolerance=0.01,
            mean_window=1.2,
            source_lengths=lengths,
            source_valid=valid,
            subtract=scale,
            multiply=scale,
            out_dtype=torch.bfloat16,
            return_valid=True,
        )

    fast, counter = compiled(call, dynamic=None)
    for batch, rows, count, _ in SIZES:
        values, source, targets = inputs(backend, batch, rows, count, 9)
        targets = targets.sort(dim=-1).values
        more = backend.put(
            {
                "lengths": torch.randint(0, rows + 1, (batch,)),
                "valid": torch.rand(batch, rows) < 0.7,
                "scale": torch.rand(9) + 0.5,
            }
        ).values()
        got, want = fast(values, source, targets, *more), call(values, source, targets, *more)
        assert_same_bits(got[1], want[1])
        assert_near(got[0], want[0], 0.05)
    assert counter.frame_count <= 3


@pytest.mark.parametrize("method", ["linear", "slerp_xyzw", "mean"])
def test_gradient(backend: Backend, method: str) -> None:
    """Forward and backward traced as one, with changing sizes."""

    def loss(values: torch.Tensor, source: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        window = 1.5 if method == "mean" else None
        out = backend.resample(values, source, targets, method=method, mean_window=window)
        return torch.sum(out * out)

    fast, counter = compiled(loss)
    for batch, rows, count, _ in SIZES[:3]:
        values, source, targets = inputs(backend, batch, rows, count, 4)
        grads = []
        for function in (fast, loss):
            leaf = values.clone().requires_grad_()
            function(leaf, source, targets).backward()
            assert leaf.grad is not None
            grads.append(leaf.grad)
        assert_near(grads[0], grads[1], 1e-4)
    # In plain torch a mean takes log2(S) steps: another graph from 8 rows on.
    assert counter.frame_count == (2 if method == "mean" and backend.backend == "pytorch" else 1)


def test_config_changes_reach_compiled_code(backend: Backend) -> None:
    """backend="auto" compiled: rc.config is a guard, and a change of it recompiles."""

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        out = rc.resample_trajectories(*tensors)
        assert isinstance(out, torch.Tensor)
        return out

    tensors = inputs(backend, 2, 5, 4, 3)
    fast, counter = compiled(call)
    with rc.config(backend=backend.backend):
        want = call(*tensors)
        assert_same_bits(fast(*tensors), want)
    other = "cuda" if backend.device == "cpu" else "cpu"
    with rc.config(backend=other), pytest.raises(Exception, match="backend: expected"):
        fast(*tensors)
    with rc.config(backend="pytorch"):
        assert_same_bits(fast(*tensors), want)
    with rc.config(backend=backend.backend):
        assert_same_bits(fast(*tensors), want)
    assert counter.frame_count <= 3


def test_durations_are_constants(backend: Backend) -> None:
    """Compiled code takes another duration, in seconds too, at the price of another graph."""

    def call(tensors: Tensors, gap: float, window: float) -> Any:
        options = {"max_gap": gap, "mean_window": window, "tolerance": gap / 8}
        return backend.resample(*tensors, method="mean", return_valid=True, **options)

    tensors = inputs(backend, 2, 9, 7, 3)
    fast, _ = compiled(call)
    for gap, window in ((0.5, 0.75), (0.25, 1e-310), (math.inf, math.inf), (0.0, 5e-324)):
        for got, want in zip(fast(tensors, gap, window), call(tensors, gap, window), strict=True):
            assert_near(got, want, 1e-5)


def test_inductor(native: Backend) -> None:
    """The default compiler, with arithmetic around the operation."""

    def call(values: torch.Tensor, source: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = native.resample(values * 2, source, targets + 0.5) + 1
        return out

    fast = torch.compile(call, fullgraph=True, dynamic=True)
    for sizes in SIZES[:2]:
        tensors = inputs(native, *sizes)
        assert_near(fast(*tensors), call(*tensors), 1e-5)
        leaf = tensors[0].clone().requires_grad_()
        (got,) = torch.autograd.grad(fast(leaf, *tensors[1:]).sum(), leaf)
        (want,) = torch.autograd.grad(call(leaf, *tensors[1:]).sum(), leaf)
        assert_near(got, want, 1e-5)


def test_export(backend: Backend) -> None:
    """torch.export with dynamic sizes."""

    class Align(torch.nn.Module):
        def forward(self, values: torch.Tensor, source: torch.Tensor, targets: torch.Tensor) -> Any:
            return backend.resample(values, source, targets, return_valid=True)

    dim = torch.export.Dim
    batch, rows, count, channels = (dim(name, min=2, max=4096) for name in "bstd")
    exported = torch.export.export(
        Align(),
        inputs(backend, 3, 6, 5, 4),
        dynamic_shapes=(
            {0: batch, 1: rows, 2: channels},
            {0: batch, 1: rows},
            {0: batch, 1: count},
        ),
    )
    tensors = inputs(backend, *SIZES[1])
    for got, want in zip(exported.module()(*tensors), Align()(*tensors), strict=True):
        assert_same_bits(got, want)


def recorded(monkeypatch: pytest.MonkeyPatch, name: str, call: Callable[[], Any]) -> list[Any]:
    """The arguments that a call hands to an operator."""
    from robocache.align import ops as _ops

    operator, seen = getattr(_ops, name), []

    def record(*arguments: Any) -> Any:
        seen.append(tree_map_only(torch.Tensor, torch.Tensor.detach, arguments))
        return operator(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_ops, name, record)
        call()
    assert seen
    return seen


def options_of_many_kinds() -> list[tuple[tuple[torch.Tensor, ...], dict[str, Any]]]:
    """(data, source times, target times) and the options of calls that use all that there is."""
    values = torch.randn(2, 5, 8)
    source, targets = torch.arange(5).repeat(2, 1) * 10, torch.tensor([[3, 12, 44], [0, 7, 99]])
    layout = [("linear", 2), ("slerp_xyzw", 4), ("angle", 1), ("previous", 1)]
    lengths, valid, scale = torch.tensor([4, 0]), torch.ones(2, 5, dtype=torch.bool), torch.rand(8)
    half = values.to(torch.bfloat16).transpose(0, 1).contiguous().transpose(0, 1)
    return [
        ((values, source, targets), {}),
        (
            (values, source[0], targets),
            {
                "method": layout,
                "outside": "zero",
                "max_gap": 20,
                "tolerance": 1,
                "source_lengths": lengths,
                "source_valid": valid,
                "subtract": scale,
                "multiply": scale,
            },
        ),
        (
            (values[0], source[0].double(), targets[0].float()),
            {"method": "previous", "outside": "extrapolate", "max_gap": 0.5, "tolerance": 0.1,
             "source_valid": valid[0]},
        ),
        (
            (half, source, targets),
            {"method": "nearest", "source_lengths": lengths.int(), "multiply": scale.half(),
             "out_dtype": torch.float32},
        ),
        ((values[0], source[0], targets[0]), {"source_lengths": torch.tensor(3)}),
        ((values[:0], source[:0], targets[:0]), {}),
        ((values, source[0], targets), {"method": [("mean", 5), ("sum", 3)], "mean_window": 9,
                                        "source_valid": valid}),
    ]  # fmt: skip


def test_opcheck(native: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemas, fake kernels and tracing of the operators."""
    ops = torch.ops.robocache
    for tensors, options in options_of_many_kinds():
        for return_valid in (False, True):
            call = partial(native.resample, *tensors, **options, return_valid=return_valid)
            for arguments in recorded(monkeypatch, "_align", call):
                torch.library.opcheck(ops.align.default, arguments)

        def loss(tensors: Any = tensors, options: Any = options) -> None:
            leaf = native.put(tensors[0]).detach().requires_grad_()
            native.resample(leaf, *tensors[1:], **options).sum().backward()

        for arguments in recorded(monkeypatch, "_align_backward", loss):
            torch.library.opcheck(ops.align_backward.default, arguments)


# ---- fusion --------------------------------------------------------------------------------------


def streams_of(tensors: Tensors, more: Tensors, scale: torch.Tensor) -> list[rc.Stream]:
    """Streams of several methods, made of two sets of inputs."""
    layout = [("mean", 1), ("sum", 1), ("linear", scale.size(0) - 2)]
    return [
        rc.Stream(tensors[0], tensors[1], method=layout, mean_window=1.5, multiply=scale),
        rc.Stream(more[0][0], more[1][0], method="nearest", max_gap=0.5, clock_offset=0.25),
        rc.Stream(more[0].to(torch.bfloat16), more[1].float(), method="previous"),
    ]


def test_fusion(backend: Backend) -> None:
    """rc.Stream made and fused within compiled code: one graph for all sizes, and eager's bits."""

    def call(tensors: Tensors, more: Tensors, scale: torch.Tensor) -> Any:
        streams = streams_of(tensors, more, scale)
        targets = tensors[2].sort(dim=-1).values
        return rc.fuse(
            streams, targets, return_valid=True, return_age=True, backend=backend.backend
        )

    fast, counter = compiled(call)
    scale = backend.put(torch.rand(13) + 0.5)  # a layout's widths are constants
    for batch, rows, count, channels in SIZES:
        tensors = inputs(backend, batch, rows, count, 13)
        more = inputs(backend, batch, rows + 6, count, channels)
        for got, want in zip(fast(tensors, more, scale), call(tensors, more, scale), strict=True):
            if backend.backend == "pytorch" and got.dtype == torch.float32:
                assert_near(got, want, 1e-5)
            else:
                assert_same_bits(got, want)
    # In plain torch a mean or a sum takes log2(S) steps: another graph from 8 rows on.
    assert counter.frame_count <= (1 if backend.backend != "pytorch" else 4)


def test_gradient_of_fusion(backend: Backend) -> None:
    def loss(tensors: Tensors, more: Tensors, scale: torch.Tensor) -> torch.Tensor:
        streams = streams_of(tensors, more, scale)
        out = rc.fuse(streams, tensors[2].sort(dim=-1).values, backend=backend.backend)
        assert isinstance(out, torch.Tensor)
        return torch.sum(out * out)

    fast, _ = compiled(loss)
    for batch, rows, count, _ in SIZES[:3]:
        tensors = inputs(backend, batch, rows, count, 4)
        more = inputs(backend, batch, rows + 6, count, 3)
        scale = backend.put(torch.rand(4) + 0.5)
        grads = []
        for function in (fast, loss):
            leaves = [tensors[0].clone().requires_grad_(), more[0].clone().requires_grad_()]
            function((leaves[0], *tensors[1:]), (leaves[1], *more[1:]), scale).backward()
            grads.append([leaf.grad for leaf in leaves])
        for got, want in zip(*grads, strict=True):
            assert got is not None and want is not None
            assert_near(got, want, 1e-4)


def test_multimodal(backend: Backend) -> None:
    def call(*tensors: torch.Tensor) -> Any:
        return rc.fuse_multimodal(
            *tensors,
            method=["nearest", [("linear", 3)], "mean"],
            mean_window=0.5,
            max_gap=(None, 0.25, 1.0),
            return_valid=True,
            backend=backend.backend,
        )

    one, two, three = (inputs(backend, 2, 5 + i, 7, 3) for i in range(3))
    tensors = (*one[:2], *two[:2], *three)
    fast, _ = compiled(call)
    for got, want in zip(fast(*tensors), call(*tensors), strict=True):
        assert_near(got, want, 1e-5)


def test_validation_in_compiled_code(backend: Backend) -> None:
    """Under rc.config(validate=True) the check is an operator in the graph."""

    def call(tensors: Tensors) -> Any:
        return backend.resample(*tensors, method="sum")

    values, source, targets = inputs(backend, 2, 9, 7, 3)
    with rc.config(validate=True):
        fast, _ = compiled(call)
        tensors = (values, source, targets.sort(dim=-1).values)
        assert_near(fast(tensors), call(tensors), 1e-5)
        with pytest.raises((ValueError, RuntimeError), match="ascending"):
            fast((values, source.flip(-1), targets))


def test_opcheck_of_fusion(native: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, more = inputs(native, 2, 5, 7, 8), inputs(native, 2, 9, 7, 3)
    streams = streams_of(tensors, more, native.put(torch.rand(8)))
    options = {"return_valid": True, "return_age": True, "outside": "extrapolate"}
    targets = tensors[2].sort(dim=-1).values

    def loss() -> None:
        leaf = rc.Stream(tensors[0].clone().requires_grad_(), tensors[1])
        native.fuse([*streams, leaf], targets)[0].sum().backward()

    call = partial(native.fuse, streams, targets, **options)
    for arguments in recorded(monkeypatch, "_align", call):
        torch.library.opcheck(torch.ops.robocache.align.default, arguments)
    for arguments in recorded(monkeypatch, "_align_backward", loss):
        torch.library.opcheck(torch.ops.robocache.align_backward.default, arguments)
