"""Comparing all samples of a loader with the plain reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loader_reference as plain
import numpy as np
import torch
from loader_reference import Window
from support import assert_near, assert_same_bits

import robocache as rc

S = 1_000_000_000
PAST = [-0.05, -0.0123, 0.0]
FUTURE = [i * 0.013 for i in range(20)]


def ns(seconds: Sequence[float]) -> list[int]:
    return [round(s * S) for s in seconds]


def scale_of(store: rc.EpisodeStore, key: str, mode: Any) -> dict[str, Any]:
    subtract, multiply = rc.normalization(store.statistics[key], mode)
    return {"subtract": subtract, "multiply": multiply}


def to_cpu(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value.cpu() for key, value in batch.items()}


def check(
    store: rc.EpisodeStore,
    loader: rc.Loader,
    windows: dict[str, Window],
    anchors: Sequence[plain.Anchor],
    atol: float = 0.0,
) -> None:
    """Every sample of a loader, gathered in some order, against the reference."""
    count = len(loader.dataset)
    assert count == len(anchors)
    indices = np.random.default_rng(1).permutation(count)[:200]
    batch = to_cpu(loader.gather(indices))
    for key, window in windows.items():
        expected = plain.batch(store, window, anchors, indices.tolist())
        if atol:
            assert_near(batch[key], expected.values, atol, key)
        else:
            assert_same_bits(batch[key], expected.values, key)
        assert_same_bits(batch[key + "_is_pad"], expected.is_pad, f"{key}_is_pad")
        if key + "_age" in batch:
            assert_same_bits(batch[key + "_age"], expected.age, f"{key}_age")
