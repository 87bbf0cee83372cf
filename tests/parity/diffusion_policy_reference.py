"""The rules of diffusion-policy's ``SequenceSampler`` and validation mask, reimplemented.

diffusion-policy is in no package index, so that a test can't install it. This is its behavior as
its users know it, one row after the other. Where a checkout of the real one is on PYTHONPATH,
test_diffusion_policy.py compares with that too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def windows(ends: Sequence[int], horizon: int, before: int, after: int, chosen: Any) -> list[Any]:
    """The rows of each window, in order: those outside an episode are its first and last."""
    before, after = (min(max(pad, 0), horizon - 1) for pad in (before, after))
    found = []
    for first, end, is_chosen in zip([0, *ends], ends, chosen, strict=False):
        for start in range(first - before, end - horizon + after + 1):
            if is_chosen and end > first:  # without rows the real one fails
                found.append([min(max(start + k, first), end - 1) for k in range(horizon)])
    return found


def items(arrays: Mapping[str, Any], rows: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    return [{key: array[list(window)] for key, array in arrays.items()} for window in rows]


def validation_mask(episodes: int, ratio: float, seed: int) -> Any:
    mask = np.zeros(episodes, bool)
    if ratio > 0:
        count = min(max(1, round(episodes * ratio)), episodes - 1)
        mask[np.random.default_rng(seed).choice(episodes, size=count, replace=False)] = True
    return mask


def at_most(mask: Any, most: int | None, seed: int) -> Any:
    """So many of the chosen episodes."""
    if most is None or mask.sum() <= most:
        return mask
    there = np.flatnonzero(mask)
    kept = np.zeros_like(mask)
    chosen = np.random.default_rng(seed).choice(len(there), size=most, replace=False)
    kept[there[chosen]] = True
    return kept
