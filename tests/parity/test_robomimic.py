"""rc.Loader.from_robomimic beside robomimic's SequenceDataset, item by item."""

from __future__ import annotations

import itertools
from importlib import metadata
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from comparing import compare
from robomimic.utils.dataset import SequenceDataset

import robocache as rc

LENGTHS = {"demo_10": 4, "demo_2": 11, "demo_0": 7, "demo_1": 4}
OBS = ("eef_pos", "object", "camera", "touch")
OTHERS = ("actions", "rewards", "dones")
LIBRARY = f"robomimic {metadata.version('robomimic')}"


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Demonstrations of many types, whose last next_obs is in no obs."""
    path = tmp_path_factory.mktemp("robomimic") / "demos.hdf5"
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as out:
        for name, n in LENGTHS.items():
            demo = out.create_group(f"data/{name}")
            demo.attrs["num_samples"] = n
            demo["actions"] = random.normal(size=(n, 7))
            demo["rewards"] = random.normal(size=n)
            demo["dones"] = (np.arange(n) == n - 1).astype(np.int64)
            seen = {
                "eef_pos": random.normal(size=(n + 1, 3)),
                "object": random.normal(size=(n + 1, 2, 5)).astype(np.float32),
                "camera": random.integers(0, 256, (n + 1, 12, 8, 3), np.uint8),
                "touch": random.integers(-9, 9, (n + 1, 2)).astype(np.int32),
            }
            for key, values in seen.items():
                demo[f"obs/{key}"], demo[f"next_obs/{key}"] = values[:-1], values[1:]
        out["mask/train"] = np.array([b"demo_0", b"demo_10"])
    return path


def items_of(file: Path, **options: Any) -> list[dict[str, Any]]:
    """All items; floats as robomimic trains on them, float32."""
    dataset = SequenceDataset(
        str(file), OBS, OTHERS, hdf5_cache_mode="all", **{"load_next_obs": True, **options}
    )
    return [as_trained(dataset[i]) for i in range(len(dataset))]


def as_trained(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: as_trained(value) for key, value in item.items()}
    values = torch.from_numpy(np.ascontiguousarray(item))
    return values.float() if values.is_floating_point() else values


@pytest.mark.parametrize("goal_mode", [None, "last"])
@pytest.mark.parametrize(("pads_stack", "pads_end"), [*itertools.product([True, False], repeat=2)])
@pytest.mark.parametrize(("frame_stack", "seq_length"), [(1, 1), (3, 1), (1, 4), (2, 3), (9, 20)])
def test_items(
    file: Path, frame_stack: int, seq_length: int, pads_stack: bool, pads_end: bool, goal_mode: Any
) -> None:
    least = 1 + (0 if pads_stack else frame_stack - 1) + (0 if pads_end else seq_length - 1)
    options = {
        "frame_stack": frame_stack, "seq_length": seq_length, "pad_frame_stack": pads_stack,
        "pad_seq_length": pads_end, "get_pad_mask": True, "goal_mode": goal_mode,
    }  # fmt: skip
    if least > min(LENGTHS.values()):
        with pytest.raises(AssertionError):
            items_of(file, **options)
        with pytest.raises(ValueError, match=f"^seq_length: expected demonstrations of {least} "):
            rc.Loader.from_robomimic(file, batch_size=1, **options)
        return
    items = items_of(file, **options)
    loader = rc.Loader.from_robomimic(file, batch_size=1, device="cpu", **options)
    assert len(loader.dataset) == len(items)
    batch = loader.gather(range(len(items)))
    if goal_mode is not None:  # robomimic has a mask of the goal too, which is always true
        for item in items:
            assert bool(item["goal_obs"].pop("pad_mask"))
    compare(LIBRARY, "HDF5", batch, items)


@pytest.mark.parametrize("load_next_obs", [True, False])
def test_a_subset(file: Path, load_next_obs: bool) -> None:
    options = {"filter_by_attribute": "train", "load_next_obs": load_next_obs, "seq_length": 3}
    items = items_of(file, **options)
    loader = rc.Loader.from_robomimic(file, batch_size=1, device="cpu", **options)
    assert len(loader.dataset) == len(items) == LENGTHS["demo_0"] + LENGTHS["demo_10"]
    compare(LIBRARY, "HDF5", loader.gather(range(len(items))), items)
