"""Behavior on a GPU only: graphs, streams, devices, memory, and the context after an error."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from cuda_calls import capture, peak
from support import Backend, assert_near, assert_same_bits

import robocache as rc

MIB = 2**20


def inputs(seed_rows: int = 64, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    source = torch.randint(1, 20, (4, seed_rows)).cumsum(-1)
    targets = torch.randint(-5, 10 * seed_rows, (4, 50))
    return torch.randn(4, seed_rows, 12).to(dtype).cuda(), source.cuda(), targets.cuda()


def test_graph(cuda_backend: Backend) -> None:
    """Captured once, replayed with other values, times, lengths and masks in the same memory."""
    values, source, targets = inputs()
    lengths = torch.full((4,), 64, device="cuda")
    valid = torch.ones(4, 64, dtype=torch.bool, device="cuda")
    layout = [("linear", 4), ("slerp_xyzw", 4), ("nearest", 4)]

    def call() -> Any:
        return cuda_backend.resample(
            values,
            source,
            targets,
            method=layout,
            max_gap=15,
            source_lengths=lengths,
            source_valid=valid,
            return_valid=True,
        )

    out, mask = replayable = capture(call)
    graph = replayable.graph
    for _ in range(3):
        for tensor, new in zip((values, source, targets), inputs(), strict=True):
            tensor.copy_(new)
        lengths.random_(0, 65)
        valid.copy_(torch.rand(4, 64, device="cuda") < 0.8)
        graph.replay()
        want, want_mask = call()
        assert_same_bits(mask, want_mask)
        assert_same_bits(out, want)


@pytest.mark.parametrize("method", ["linear", "slerp_wxyz"])
def test_graph_of_gradient(native: Backend, method: str) -> None:
    if native.device != "cuda":
        pytest.skip("CUDA graphs need CUDA")
    values, source, targets = inputs()
    values = values[..., :4].contiguous().requires_grad_()
    out_grad = torch.randn(4, 50, 4, device="cuda")

    def call() -> Any:
        out = native.resample(values, source, targets, method=method)
        return torch.autograd.grad(out, values, out_grad)

    (grad,) = captured = capture(call)
    for _ in range(2):
        with torch.no_grad():
            values.copy_(torch.randn(4, 64, 4, device="cuda"))
        out_grad.normal_()
        captured.graph.replay()
        assert_same_bits(grad, call()[0])


def test_graph_of_fusion(native: Backend) -> None:
    """Streams of every method and two types; replayed on new values, times and targets."""
    if native.device != "cuda":
        pytest.skip("CUDA graphs need CUDA")
    values, source, targets = inputs()
    targets.copy_(targets.sort(-1).values)
    half = values[0].to(torch.bfloat16)
    layout = [("mean", 1), ("sum", values.size(-1) - 1)]
    window = 3 * source.diff().abs().amax().item()
    streams = [
        rc.Stream(values, source),
        rc.Stream(values, source, method=layout, mean_window=window),
        rc.Stream(half, source[0], method="nearest", max_gap=window),
    ]

    def fused() -> Any:
        return rc.fuse(streams, targets, return_valid=True, return_age=True)

    captured = capture(fused)
    for _ in range(3):
        new_values, new_source, new_targets = inputs()
        values.copy_(new_values)
        source.copy_(new_source)
        targets.copy_(new_targets.sort(-1).values)
        captured.graph.replay()
        for got, want in zip(captured, fused(), strict=True):
            assert_same_bits(got, want)


def test_validation_while_capturing_is_an_error(cuda_backend: Backend) -> None:
    values, source, targets = inputs()
    graph = torch.cuda.CUDAGraph()
    with (
        rc.config(validate=True),
        pytest.raises(ValueError, match=r"^validate: expected False"),
        torch.cuda.graph(graph),
    ):
        cuda_backend.resample(values, source, targets)
    torch.cuda.synchronize()
    assert cuda_backend.resample(values, source, targets).isfinite().all()


def test_current_stream(cuda_backend: Backend) -> None:
    """The work is ordered after what the current stream does before, on no other stream."""
    values, source, targets = inputs()
    want = cuda_backend.resample(values, source, targets)
    late = torch.zeros_like(values)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # about 0.1 s of the GPU's clock
        late.copy_(values)
        out = cuda_backend.resample(late, source, targets)
    stream.synchronize()
    assert_same_bits(out, want)


def test_call_does_not_wait(cuda_backend: Backend) -> None:
    """A call returns while the stream is still busy with earlier work: it does not synchronize."""
    values, source, targets = inputs()
    cuda_backend.resample(values, source, targets, return_valid=True)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        cuda_backend.resample(values, source, targets, return_valid=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    event = torch.cuda.Event()
    torch.cuda._sleep(400_000_000)
    event.record()
    cuda_backend.resample(values, source, targets, return_valid=True)
    assert not event.query(), "the call waited for the stream"
    torch.cuda.synchronize()


def test_other_device(cuda_backend: Backend) -> None:
    """Data on the second GPU while the first is current: computed there, current stays."""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    values, source, targets = inputs()
    want = cuda_backend.resample(values, source, targets)
    on_other = [t.to("cuda:1").clone() for t in (values, source, targets)]
    leaf = on_other[0].requires_grad_()
    out = cuda_backend.resample(leaf, *on_other[1:])
    assert out.device == torch.device("cuda:1") and torch.cuda.current_device() == 0
    assert_same_bits(out.detach().cpu(), want.cpu())
    out.sum().backward()
    assert leaf.grad is not None and leaf.grad.device == torch.device("cuda:1")
    with pytest.raises(
        ValueError, match=re.escape("source_times: expected device cuda:1 like data, got cuda:0")
    ):
        cuda_backend.resample(on_other[0], source, on_other[2])


def test_memory(native: Backend) -> None:
    """A call takes its output and little more: no copy of strided values, times or masks."""
    if native.device != "cuda":
        pytest.skip("GPU memory needs CUDA")
    values = torch.randn(8, 64, 65_536, device="cuda").transpose(1, 2)  # [8,65536,64], 128 MiB
    source = (torch.arange(2 * 65_536, device="cuda").repeat(8, 1))[:, ::2]
    valid = torch.ones(65_536, 8, dtype=torch.bool, device="cuda").t()
    targets = torch.arange(100, device="cuda").expand(8, 100)
    out = 8 * 100 * 64 * 4 + 8 * 100
    for dense in (False, True):
        tensors = [t.contiguous() if dense else t for t in (values, source, targets)]
        mask = valid.contiguous() if dense else valid
        taken = peak(
            lambda t=tensors, m=mask: native.resample(*t, source_valid=m, return_valid=True)
        )
        assert taken <= out + 64 * 1024


def test_memory_of_gradient(native: Backend) -> None:
    """Linear keeps no values alive for its gradient."""
    if native.device != "cuda":
        pytest.skip("GPU memory needs CUDA")
    base = torch.randn(8, 4096, 256, device="cuda").requires_grad_()  # 32 MiB
    times = torch.arange(4096, device="cuda")
    before = torch.cuda.memory_allocated()
    scaled = base * 2
    out = native.resample(scaled, times, times[:16])
    del scaled
    assert torch.cuda.memory_allocated() - before < 4 * MIB
    out.sum().backward()
    assert base.grad is not None


def test_context_survives_errors(cuda_backend: Backend) -> None:
    """Refused calls, and an allocation that fails, leave a working context and no pending error."""
    values, source, targets = inputs()
    for bad in (
        {"source_times": source.float()},
        {"target_times": targets[:3]},
        {"method": "cubic"},
        {"source_lengths": torch.tensor([1])},
    ):
        arguments = {"data": values, "source_times": source, "target_times": targets} | bad
        with pytest.raises((ValueError, TypeError)):
            rc.resample_trajectories(**arguments, backend=cuda_backend.backend)
        torch.cuda.synchronize()
    wide = torch.zeros(1, 1, 1, device="cuda").expand(4, 2, 2**22)
    with pytest.raises(torch.OutOfMemoryError):
        cuda_backend.resample(
            wide, torch.arange(2), torch.zeros(1, dtype=torch.int64).expand(2**24)
        )
    torch.cuda.synchronize()
    out = cuda_backend.resample(values, source, targets)
    assert out.isfinite().all()


def test_same_as_cpu_at_size(cuda_backend: Backend) -> None:
    """A batch of real size: the bits that the CPU's pytorch backend gives."""
    values = torch.randn(64, 500, 40)
    source = torch.randint(1, 2 * 10**7, (64, 500)).cumsum(-1) + 1_700_000_000_000_000_000
    targets = source[:, :1] + torch.randint(-(10**8), 55 * 10**8, (64, 333))
    for method in (
        "linear",
        "previous",
        "nearest",
        [("angle", 12), ("slerp_wxyz", 4), ("linear", 24)],
    ):
        options: dict[str, Any] = {"method": method, "max_gap": 18_000_000, "return_valid": True}
        out, mask = cuda_backend.resample(values, source, targets, **options)
        want, want_mask = rc.resample_trajectories(
            values, source, targets, backend="pytorch", **options
        )
        assert_same_bits(mask.cpu(), want_mask)
        if isinstance(method, str):
            assert_same_bits(out.cpu(), want)
        else:
            assert_same_bits(out[..., 16:].cpu(), want[..., 16:])
            turn = (out[..., :12].cpu() - want[..., :12]).abs()
            turn = torch.minimum(turn, (2 * torch.pi - turn).abs())
            assert_near(turn, torch.zeros_like(turn), 8 * 2.0**-23, "angle")
            sign = (out[..., 12:16].cpu() * want[..., 12:16]).sum(-1, keepdim=True).sign()
            assert_near(out[..., 12:16].cpu() * sign, want[..., 12:16], 4 * 2.0**-23, "slerp")
