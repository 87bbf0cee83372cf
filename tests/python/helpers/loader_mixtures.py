"""Loaders of two robots, the same as parts of the plain reference, and mixtures of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import loader_reference as plain
import torch
from loader_options import keyed_loader
from loader_reference import Part, Window
from loader_stores import MS
from loader_windows import scale_of
from support import assert_same_bits

import robocache as rc

KEYS: list[dict[str, str]] = [{}, {"qpos": "joints"}]


def arm(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    """Joints 7 wide at 100 Hz, actions 5 wide at 50 Hz, pictures, counters 2 wide."""
    deltas = {"joints": [-0.02, 0.0], "action": [0.0, 0.02, 0.04], "camera": [0.0], "counter": None}
    given: dict[str, Any] = {"with_age": True, "normalize": {"action": "min_max"}} | options
    return keyed_loader(store, 4, deltas, anchor="action", device=device, **given)


def part_of_arm(store: rc.EpisodeStore) -> Part:
    windows = {
        "joints": Window("joints", [-20 * MS, 0]),
        "action": Window("action", [0, 1, 2], by_rows=True, **scale_of(store, "action", "min_max")),
        "camera": Window("camera", [0]),
        "counter": Window("counter", [0]),
    }
    return Part(store, windows, plain.row_anchors(store, "action"))


def humanoid(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    """Joints 5 wide at 60 Hz, called qpos; actions 9 wide at 25 Hz, counters 3 wide, a gripper."""
    deltas = {"qpos": [-0.05, 0.0], "action": [0.0, 0.04, 0.08], "counter": None, "gripper": [0.1]}
    given: dict[str, Any] = {"with_age": True, "normalize": {"qpos": "mean_std"}} | options
    types = {"qpos": torch.float32}
    return keyed_loader(store, 4, deltas, anchor="action", dtype=types, device=device, **given)


def part_of_humanoid(store: rc.EpisodeStore) -> Part:
    scale = scale_of(store, "qpos", "mean_std")
    windows = {
        "joints": Window("qpos", [-50 * MS, 0], dtype=torch.float32, **scale),
        "action": Window("action", [0, 1, 2], by_rows=True),
        "counter": Window("counter", [0]),
        "gripper": Window("gripper", [100 * MS]),
    }
    return Part(store, windows, plain.row_anchors(store, "action"))


def mix(stores: Sequence[rc.EpisodeStore], device: str, **options: Any) -> Any:
    loaders = [arm(stores[0], device), humanoid(stores[1], device)]
    given: dict[str, Any] = {"weights": [1, 2.5], "samples": 100, "batch_size": 8} | options
    return rc.Loader.mixture(loaders, keys=KEYS, **given)


def small(store: rc.EpisodeStore, device: str = "cpu", **options: Any) -> rc.Loader:
    """A loader of one key, that is made quickly."""
    return keyed_loader(store, 4, {"action": None}, device=device, **options)


def counts(mixture: Any) -> list[int]:
    return [len(part.indices) for part in mixture.parts]


def indices(batch: dict[str, torch.Tensor]) -> list[int]:
    return [int(i) for i in batch["index"].tolist()]


def check(batch: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """That a batch has all that the reference has, but for masks of widths that do not differ."""
    for key, values in expected.items():
        if key.endswith("_dim_is_pad") and key not in batch:
            continue
        values = values.reshape(batch[key].shape)  # without the axis of one step
        assert_same_bits(batch[key].cpu(), values, key)
