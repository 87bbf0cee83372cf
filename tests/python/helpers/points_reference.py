"""Farthest-point sampling and unprojection as loops over NumPy numbers, which share no code with
the library."""

from __future__ import annotations

import itertools

import numpy as np
import torch


def sample_farthest(
    points: torch.Tensor, n: int, offsets: torch.Tensor | None = None, start: int = 0
) -> torch.Tensor:
    if offsets is not None:
        bounds = offsets.tolist()
        clouds = [points[a:b] for a, b in itertools.pairwise(bounds)]
        firsts = bounds[:-1]
    else:
        clouds = list(points) if points.dim() == 3 else [points]
        firsts = [0] * len(clouds)
    rows = [
        [i if i < 0 else first + i for i in _sample_cloud(cloud, n, start)]
        for cloud, first in zip(clouds, firsts, strict=True)
    ]
    indices = torch.tensor(rows, dtype=torch.int64).reshape(-1, n)
    return indices[0] if offsets is None and points.dim() == 2 else indices


def _sample_cloud(cloud: torch.Tensor, n: int, start: int) -> list[int]:
    compute = torch.float64 if cloud.dtype == torch.float64 else torch.float32
    x = cloud.to(compute).numpy()
    finite = np.isfinite(x).all(1)
    if not finite.any():
        return [-1] * n
    rest = np.full(len(x), np.inf, x.dtype)
    first = int(finite.argmax())
    samples = [start if start < len(x) and finite[start] else first]
    with np.errstate(all="ignore"):
        while len(samples) < n:
            d = x - x[samples[-1]]
            rest = np.minimum(rest, d[:, 0] * d[:, 0] + d[:, 1] * d[:, 1] + d[:, 2] * d[:, 2])
            farthest = max(np.flatnonzero(finite), key=lambda i: (rest[i], -i))
            samples.append(int(farthest))
    return samples


def unproject(
    depth: np.ndarray, intrinsics: np.ndarray, pose: np.ndarray | None, scale: float
) -> np.ndarray:
    """The points of one image [H,W], in float64."""
    H, W = depth.shape
    intrinsics = intrinsics.astype(np.float64)
    points = np.full((H * W, 3), np.nan)
    for v in range(H):
        for u in range(W):
            z = float(depth[v, u]) * scale
            if not 0 < z < np.inf:
                continue
            x = (u - intrinsics[0, 2]) / intrinsics[0, 0] * z
            y = (v - intrinsics[1, 2]) / intrinsics[1, 1] * z
            point = np.array([x, y, z])
            points[v * W + u] = point if pose is None else pose[:3, :3] @ point + pose[:3, 3]
    return points
