"""Sampling as only a GPU shows it: graphs, streams, memory."""

from __future__ import annotations

import pytest
import torch
from cuda_calls import capture, peak
from support import Backend, assert_same_bits, needs_gpu

import robocache as rc

# One block, a cluster, a grid of blocks for a cloud.
SIZES = [(5, 3000), (3, 20_000), (2, 120_000)]


def random_points(batch: int, count: int) -> torch.Tensor:
    points = torch.randn(batch, count, 3, device="cuda")
    points[:, ::97, 1] = torch.nan
    return points


@pytest.mark.parametrize(("batch", "count"), SIZES)
def test_graph(cuda_backend: Backend, batch: int, count: int) -> None:
    """Captured once, replayed with other points in the same memory."""
    points = random_points(batch, count)
    (indices,) = captured = capture(lambda: cuda_backend.sample_farthest(points, 30))
    for _ in range(3):
        points.copy_(random_points(batch, count))
        captured.graph.replay()
        assert_same_bits(indices, cuda_backend.sample_farthest(points, 30))
        assert_same_bits(indices.cpu(), rc.sample_farthest(points.cpu(), 30))


@needs_gpu
@pytest.mark.parametrize(("batch", "count"), SIZES)
def test_ragged_graph(batch: int, count: int) -> None:
    """Clouds of other sizes in the same memory: no size of a cloud is read on the host."""
    points = random_points(batch, count).flatten(0, 1)
    offsets = torch.arange(batch + 1, device="cuda") * count
    (indices,) = captured = capture(lambda: rc.sample_farthest(points, 20, offsets=offsets))
    for ends in ([], [0], [7, count + 7], [batch * count]):
        if len(ends) >= batch and ends[-1] < batch * count:
            continue  # offsets end at the number of points
        offsets.copy_(torch.tensor(sorted([0, *ends, *[batch * count] * (batch - len(ends))])))
        captured.graph.replay()
        want = rc.sample_farthest(points.cpu(), 20, offsets=offsets.cpu())
        assert_same_bits(indices.cpu(), want)


@needs_gpu
@pytest.mark.parametrize(("batch", "count"), SIZES)
def test_call_does_not_wait(batch: int, count: int) -> None:
    points = random_points(batch, count)
    rc.sample_farthest(points, 9)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        rc.sample_farthest(points, 9)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    event = torch.cuda.Event()
    torch.cuda._sleep(400_000_000)
    event.record()
    rc.sample_farthest(points, 9)
    assert not event.query(), "the call waited for the stream"
    torch.cuda.synchronize()


@needs_gpu
def test_current_stream() -> None:
    points = random_points(3, 20_000)
    want = rc.sample_farthest(points, 30)
    late = torch.zeros_like(points)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # about 0.1 s of the GPU's clock
        late.copy_(points)
        got = rc.sample_farthest(late, 30)
    stream.synchronize()
    assert_same_bits(got, want)


@needs_gpu
def test_concurrent_streams() -> None:
    """Samplings whose blocks wait for each other, on several streams at once."""
    clouds = [random_points(2, count) for count in (120_000, 20_000, 300_000, 3000)]
    want = [rc.sample_farthest(points, 200) for points in clouds]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in clouds]
    for _ in range(5):
        got = []
        for stream, points in zip(streams, clouds, strict=True):
            with torch.cuda.stream(stream):
                got.append(rc.sample_farthest(points, 200))
        torch.cuda.synchronize()
        for a, b in zip(got, want, strict=True):
            assert_same_bits(a, b)


@needs_gpu
def test_memory() -> None:
    """Points of clouds that fit the registers take no memory, of others 4 bytes each."""
    small, large = random_points(64, 20_000), random_points(300, 100_000)
    assert peak(lambda: rc.sample_farthest(small, 100)) <= 2**20
    assert peak(lambda: rc.sample_farthest(large, 2)) <= 4 * 300 * 100_000 + 2**20
