"""Checks of sampling that all backends share."""

from __future__ import annotations

from torch import Tensor

from robocache.voxel.checks import check_cloud


def check_sampling(points: Tensor, offsets: Tensor | None, start: int) -> int | None:
    """Checks the tensors of a sampling and its first index; returns B, None for a single cloud.

    Raises:
        ValueError, TypeError: `<argument>: expected ..., got ...`.
    """
    batch = check_cloud(points, None, offsets)
    if offsets is None and start > 0 and start >= points.size(-2):
        raise ValueError(f"start: expected an index below N={points.size(-2)}, got {start}")
    return batch
