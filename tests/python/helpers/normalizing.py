"""A loader of windows that normalizers and statistics are tested with."""

from __future__ import annotations

from typing import Any

from loader_options import keyed_loader

import robocache as rc

WINDOWS: dict[str, Any] = {
    "joints": [-0.02, 0.0], "action": [0.0, 0.02, 0.04], "state": None, "pose": [0.0],
}  # fmt: skip
MODES: dict[str, Any] = {"joints": "mean_std", "action": "min_max", "state": "quantiles"}


def make(store: rc.EpisodeStore, device: str = "cpu", **options: Any) -> rc.Loader:
    """Not causal: where no row has arrived a loader writes zeros, normalized or not."""
    given = {"delta_timestamps": WINDOWS, "anchor": "state", "shuffle": False, "causal": False}
    given |= options
    return keyed_loader(store, 32, device=device, **given)
