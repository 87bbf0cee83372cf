"""A loader whose rows are in several tiers, and what its budget must be at least."""

from __future__ import annotations

import re
from typing import Any

import pytest
from loader_options import keyed_loader

import robocache as rc

OPTIONS: dict[str, Any] = {
    "batch_size": 24,
    "seed": 5,
    "delta_timestamps": {
        "joints": [-0.05, -0.01, 0.0],
        "camera": [-0.05, 0.0],
        "pose": [0.0, 0.02],
        "force": [0.0],
        "gripper": None,
        "counter": None,
        "action": [0.0, 0.02, 0.04],
        "state": [0.0, 0.02, 0.04],
        "half": None,
    },
    "timeline": "time",
    "concat": {"obs": ["action", "state"]},
    "normalize": {"joints": "mean_std"},
    "channels_first": True,
    "with_age": True,
}


def least(store: rc.EpisodeStore, tier: str, **options: Any) -> int:
    """The smallest budget of a tier, as the error for one byte names it."""
    with pytest.raises(ValueError, match=rf"^budget\['{tier}'\]: expected at least ") as caught:
        keyed_loader(store, **OPTIONS | options)
    found = re.search(r"at least (\d+) bytes", str(caught.value))
    assert found is not None
    return int(found[1])
