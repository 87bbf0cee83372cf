"""The compiled operator of sampling: its call and fake kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from robocache.core import errors, library
from robocache.points.checks import check_sampling


def _fake_sample_farthest(points: Tensor, offsets: Tensor | None, n: int, start: int) -> Tensor:
    batch = check_sampling(points, offsets, start)
    clouds = [] if batch is None else [batch]
    return points.new_empty([*clouds, n], dtype=torch.int64)


_operator = library.operator("sample_farthest", _fake_sample_farthest)


def sample_farthest(points: Tensor, offsets: Tensor | None, n: int, start: int) -> Tensor:
    """Calls the operator `sample_farthest`."""
    try:
        indices: Tensor = _operator(points, offsets, n, start)
        return indices
    except (RuntimeError, ValueError) as error:
        # Torch refuses some tensors before the operator runs, without naming the argument.
        check_sampling(points, offsets, start)
        errors.raise_translated(error, _operator, (points, offsets, n, start), {"points": 0})
