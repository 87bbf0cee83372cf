"""The pytorch backend of sampling: the same indices by plain torch, on any device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from robocache.points.checks import check_sampling


def sample_farthest(points: Tensor, offsets: Tensor | None, n: int, start: int) -> Tensor:
    """Samples n points of each cloud by farthest-point sampling, [B,n] or [n].

    With offsets it waits for the device once, since the size of the largest cloud is a value.
    """
    if torch.compiler.is_compiling() or points.is_meta:
        indices: Tensor = _compiled_sampling(points, offsets, n, start)
        return indices
    batch = check_sampling(points, offsets, start)
    compute = torch.float64 if points.dtype == torch.float64 else torch.float32
    if offsets is None:
        clouds = points.to(compute).reshape(1 if batch is None else batch, points.size(-2), 3)
        exists = torch.ones(clouds.shape[:2], dtype=torch.bool, device=points.device)
        first = torch.zeros(clouds.size(0), dtype=torch.int64, device=points.device)
    else:
        row, exists, first = _padded(offsets.long().clamp(0, points.size(0)), points.size(0))
        clouds = points.to(compute)[row]
    sampled = _sample(clouds, exists, n, start)
    sampled = torch.where(sampled >= 0, sampled + first.unsqueeze(-1), sampled)
    return sampled[0] if batch is None else sampled


def _padded(offsets: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of each cloud and whether they exist, [B,N] of the largest cloud; the first, [B]."""
    first, sizes = offsets[:-1], offsets.diff()
    largest = int(sizes.max()) if count > 0 and sizes.numel() > 0 else 0
    number = torch.arange(max(0, largest), device=offsets.device)
    exists = number < sizes.unsqueeze(-1)
    return torch.where(exists, first.unsqueeze(-1) + number, 0), exists, first


def _sample(clouds: Tensor, exists: Tensor, n: int, start: int) -> Tensor:
    """Samples clouds [B,N,3], [B,n] int64; -1 in clouds without finite points."""
    B, N = exists.shape
    if B == 0 or N == 0:
        return torch.full((B, n), -1, dtype=torch.int64, device=clouds.device)
    exists = exists & clouds.isfinite().all(-1)
    clouds = torch.where(exists.unsqueeze(-1), clouds, 0.0)
    distances = torch.where(exists, math.inf, -1.0).to(clouds.dtype)
    sample = distances.argmax(1)  # the first of equals, as below
    if start < N:
        sample = torch.where(exists[:, start], start, sample)
    has_points = exists.any(1)
    cloud = torch.arange(B, device=clouds.device)
    samples = [torch.where(has_points, sample, -1)]
    while len(samples) < n:
        difference = clouds - clouds[cloud, sample].unsqueeze(1)
        squared = difference * difference
        squared = squared[..., 0] + squared[..., 1] + squared[..., 2]
        distances = torch.minimum(distances, squared)
        sample = distances.argmax(1)
        samples.append(torch.where(has_points, sample, -1))
    return torch.stack(samples, 1)


# Compiled code would unroll the loop over samples, and might contract operations.
@torch.library.custom_op("robocache::pytorch_sample_farthest", mutates_args=())
def _compiled_sampling(points: Tensor, offsets: Tensor | None, n: int, start: int) -> Tensor:
    return sample_farthest(points, offsets, n, start)


@_compiled_sampling.register_fake
def _(points: Tensor, offsets: Tensor | None, n: int, start: int) -> Tensor:
    batch = check_sampling(points, offsets, start)
    return points.new_empty([*([] if batch is None else [batch]), n], dtype=torch.int64)
