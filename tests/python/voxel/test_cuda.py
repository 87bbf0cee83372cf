"""Voxelization as only a GPU shows it: graphs, streams, memory, and the context after an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cuda_calls import capture, peak
from support import CUDA, Backend, assert_near, assert_same_bits, find_backends

import robocache as rc

GRID = (32, 24, 16)
MIB = 2**20


def inputs(count: int = 5000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Points of which some are outside and some NaN, features, offsets of four clouds."""
    points = torch.randn(count, 3)
    points[::97, 1] = torch.nan
    ends = torch.randint(0, count + 1, (3,)).sort().values.tolist()
    return points.cuda(), torch.randn(count, 5).cuda(), torch.tensor([0, *ends, count]).cuda()


@pytest.mark.parametrize("mode", ["occupancy", "count", "mean", "max"])
def test_graph(cuda_backend: Backend, mode: str) -> None:
    """Captured once, replayed with other points, features and offsets in the same memory."""
    points, features, offsets = inputs()
    options: dict[str, Any] = {"mode": mode, "offsets": offsets, "return_dropped": True}
    if mode in ("mean", "max"):
        options["features"] = features

    def call() -> Any:
        return cuda_backend.voxelize(points, GRID, 0.1, **options)

    grid, dropped = captured = capture(call)
    for _ in range(3):
        for tensor, new in zip((points, features, offsets), inputs(), strict=True):
            tensor.copy_(new)
        captured.graph.replay()
        want, want_dropped = call()
        assert_same_bits(dropped, want_dropped)
        assert_near(grid, want, 1e-4 if cuda_backend.backend == "pytorch" else 0)


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_graph_of_gradient(native: Backend, mode: str) -> None:
    if native.device != "cuda":
        pytest.skip("CUDA graphs need CUDA")
    points, features, _ = inputs()
    features.requires_grad_()
    out_grad = torch.randn(5, *GRID, device="cuda")

    def call() -> Any:
        grid = native.voxelize(points, GRID, 0.1, mode=mode, features=features)
        return torch.autograd.grad(grid, features, out_grad)

    (grad,) = captured = capture(call)
    for _ in range(2):
        with torch.no_grad():
            features.normal_()
        points.normal_()
        out_grad.normal_()
        captured.graph.replay()
        assert_same_bits(grad, call()[0])


def test_validation_while_capturing_is_an_error(cuda_backend: Backend) -> None:
    points, _, offsets = inputs()
    graph = torch.cuda.CUDAGraph()
    with (
        rc.config(validate=True),
        pytest.raises(ValueError, match=r"^validate: expected False"),
        torch.cuda.graph(graph),
    ):
        cuda_backend.voxelize(points, GRID, 0.1, offsets=offsets)
    torch.cuda.synchronize()
    assert cuda_backend.voxelize(points, GRID, 0.1, offsets=offsets).isfinite().all()


def test_current_stream(cuda_backend: Backend) -> None:
    """The work is ordered after what the current stream does before, on no other stream."""
    points, features, _ = inputs()
    want = cuda_backend.voxelize(points, GRID, 0.1, mode="max", features=features)
    want_voxels = cuda_backend.voxelize_sparse(points, 0.1, reduce="max", features=features)
    late = torch.zeros_like(points)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # about 0.1 s of the GPU's clock
        late.copy_(points)
        grid = cuda_backend.voxelize(late, GRID, 0.1, mode="max", features=features)
        voxels = cuda_backend.voxelize_sparse(late, 0.1, reduce="max", features=features)
    stream.synchronize()
    assert_same_bits(grid, want)
    for got, expected in zip(voxels, want_voxels, strict=True):
        assert got is not None and expected is not None
        assert_same_bits(got, expected)


@pytest.mark.parametrize("mode", ["occupancy", "count", "sum", "min"])
def test_dense_call_does_not_wait(cuda_backend: Backend, mode: str) -> None:
    """A call returns while the stream is still busy with earlier work: it does not synchronize."""
    points, features, offsets = inputs()
    options: dict[str, Any] = {"mode": mode, "offsets": offsets, "return_dropped": True}
    if mode in ("sum", "min"):
        options["features"] = features
    cuda_backend.voxelize(points, GRID, 0.1, **options)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        cuda_backend.voxelize(points, GRID, 0.1, **options)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    event = torch.cuda.Event()
    torch.cuda._sleep(400_000_000)
    event.record()
    cuda_backend.voxelize(points, GRID, 0.1, **options)
    assert not event.query(), "the call waited for the stream"
    torch.cuda.synchronize()


def test_other_device(cuda_backend: Backend) -> None:
    """Points on the second GPU while the first is current: computed there, current stays."""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    points, features, offsets = (t.to("cuda:1") for t in inputs())
    features.requires_grad_()
    options: dict[str, Any] = {"features": features, "offsets": offsets}
    grid = cuda_backend.voxelize(points, GRID, 0.1, mode="max", **options)
    voxels = cuda_backend.voxelize_sparse(points, 0.1, **options)
    assert grid.device == voxels.counts.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    grid.sum().backward()
    assert features.grad is not None and features.grad.device == torch.device("cuda:1")


def test_memory(native: Backend) -> None:
    """Occupancy and count take their grid and little more: no copy of strided points."""
    if native.device != "cuda":
        pytest.skip("GPU memory needs CUDA")
    points = torch.rand(3, 2**22, device="cuda").t()  # 48 MiB
    size = 128**3
    for mode, width in (("occupancy", 4), ("count", 4)):
        taken = peak(lambda m=mode: native.voxelize(points, (128, 128, 128), 0.01, mode=m))
        assert taken <= size * width + MIB


def test_memory_of_gradient(native: Backend) -> None:
    """Mean and sum keep no features alive for their gradient."""
    if native.device != "cuda":
        pytest.skip("GPU memory needs CUDA")
    points = torch.rand(2**18, 3, device="cuda")
    base = torch.randn(2**18, 32, device="cuda").requires_grad_()  # 32 MiB
    for mode in ("mean", "sum"):
        before = torch.cuda.memory_allocated()
        scaled = base * 2
        grid = native.voxelize(points, (8, 8, 8), 1, mode=mode, features=scaled)
        del scaled
        assert torch.cuda.memory_allocated() - before < 4 * MIB
        grid.sum().backward()


def test_context_survives_errors(cuda_backend: Backend) -> None:
    """Refused calls, and an allocation that fails, leave a working context and no pending error."""
    points, features, offsets = inputs()
    far = points.clone()
    far[7] = 1e30
    for bad in ({"voxel_size": 0}, {"offsets": offsets.float()}, {"points": far}):
        arguments: dict[str, Any] = {"points": points, "voxel_size": 0.1} | bad
        with pytest.raises((ValueError, TypeError)):
            rc.voxelize_sparse(**arguments, backend=cuda_backend.backend)
        torch.cuda.synchronize()
    # Less than all memory, and more than is free.
    held = torch.empty(int(0.6 * torch.cuda.mem_get_info()[0]), dtype=torch.uint8, device="cuda")
    cells = int(0.8 * torch.cuda.get_device_properties(0).total_memory) // 2**20
    with pytest.raises(torch.OutOfMemoryError):
        cuda_backend.voxelize(points, (cells, 2**10, 2**10), 0.1, out_dtype=torch.uint8)
    del held
    torch.cuda.synchronize()
    assert cuda_backend.voxelize(points, GRID, 0.1, mode="sum", features=features).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["occupancy", "count", "mean", "sum", "max", "min"])
def test_same_bits_as_on_the_cpu(mode: str, dtype: torch.dtype) -> None:
    """Clouds of real size, many of whose points lie on faces: the bits that the CPU gives."""
    if CUDA not in find_backends()[0]:
        pytest.skip(find_backends()[1].get("cuda", "not tested here"))
    points = torch.randn(4, 100_000, 3, dtype=dtype)
    points[:, ::3] = (points[:, ::3] * 10).round() * 0.1
    options: dict[str, Any] = {"mode": mode, "return_dropped": True}
    if mode not in ("occupancy", "count"):
        options["features"] = torch.randn(4, 100_000, 4)
    grid, dropped = CUDA.voxelize(points, (64, 64, 64), 0.1, **options)
    want, want_dropped = rc.voxelize_point_cloud(
        points, (64, 64, 64), 0.1, backend="cpu", **options
    )
    assert_same_bits(dropped.cpu(), want_dropped)
    assert_same_bits(grid.cpu(), want)
    if mode in ("occupancy", "count"):
        return
    options = {"reduce": mode, "features": options["features"]}
    voxels = CUDA.voxelize_sparse(points, 0.1, **options)
    for got, expected in zip(
        voxels, rc.voxelize_sparse(points, 0.1, backend="cpu", **options), strict=True
    ):
        assert got is not None and expected is not None
        assert_same_bits(got.cpu(), expected)
