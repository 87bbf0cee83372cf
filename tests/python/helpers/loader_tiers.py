"""A loader whose rows are in several tiers, its smallest budget, and the bytes that it holds."""

from __future__ import annotations

import contextlib
import gc
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
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


def tensor_bytes() -> int:
    """Bytes of all tensors that torch has allocated on the CPU."""
    storages = {}
    for found in gc.get_objects():
        is_tensor = issubclass(type(found), torch.Tensor) and found.layout == torch.strided
        if is_tensor and found.device.type == "cpu":
            storage = found.untyped_storage()
            # NumPy's are not resizable, and what torch traced for other tests has no memory.
            if storage.resizable():
                with contextlib.suppress(RuntimeError):
                    storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def array_bytes() -> int:
    """Bytes of all arrays that NumPy has allocated since tracemalloc was started."""
    of_numpy = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    snapshot = tracemalloc.take_snapshot().filter_traces([of_numpy])
    return sum(trace.size for trace in snapshot.traces)
