"""Comparisons on real recordings, if they are present; the table does not count them."""

from __future__ import annotations

import json
from pathlib import Path

import diffusion_policy_reference as reference
import h5py
import numpy as np
import pytest
import test_lerobot
import test_robomimic
import zarr
from comparing import compare
from robomimic.utils.dataset import SequenceDataset

import robocache as rc

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
G1, ISAAC = DATA / "lerobot_v21_g1", DATA / "isaaclab_hdf5" / "dataset.hdf5"
PUSHT = DATA / "pusht_zarr" / "pusht.zarr"


def needs(path: Path) -> pytest.MarkDecorator:
    why = f"../shared/data/{path.relative_to(DATA)}, a real recording, is absent"
    return pytest.mark.skipif(not path.exists(), reason=why)


@needs(G1)
def test_a_humanoid_with_video(tmp_path: Path) -> None:
    """LeRobot v2.1: 26 channels, AV1 of 640x480. Most of its episodes are not there."""
    request = {"root": str(G1), "episodes": [29]}
    items = test_lerobot.ask([request], tmp_path / "asked", str(test_lerobot.OLDER))[0]
    assert not isinstance(items, str), items
    length = json.loads((G1 / "meta/episodes.jsonl").read_text().splitlines()[29])["length"]
    loader = rc.Loader.from_lerobot(
        G1, batch_size=1, episodes=[29], store=tmp_path / "store", device="cpu"
    )
    assert len(loader.dataset) == len(items) == length
    for a in range(0, length, 32):
        some = range(a, min(a + 32, length))
        compare(None, "G1", loader.gather(some), items[some.start : some.stop])


@needs(ISAAC)
def test_demonstrations_of_isaac_lab(tmp_path: Path) -> None:
    with h5py.File(ISAAC) as file:
        observed = list(file["data/demo_0/obs"])
    options = {"frame_stack": 2, "seq_length": 10, "get_pad_mask": True, "load_next_obs": False}
    dataset = SequenceDataset(str(ISAAC), observed, ("actions",), hdf5_cache_mode="all", **options)
    items = [test_robomimic.as_trained(dataset[i]) for i in range(len(dataset))]
    loader = rc.Loader.from_robomimic(
        ISAAC, batch_size=1, dataset_keys=["actions"], store=tmp_path / "store", device="cpu",
        **options,
    )  # fmt: skip
    assert len(loader.dataset) == len(items)
    compare(None, "Isaac Lab", loader.gather(range(len(items))), items)


@needs(PUSHT)
def test_pusht(tmp_path: Path) -> None:
    """The windows that its diffusion policy trains on."""
    group = zarr.open_group(str(PUSHT), mode="r")
    arrays = {name: array[...] for name, array in group["data"].arrays()}
    ends = group["meta/episode_ends"][...]
    held_out = reference.validation_mask(len(ends), 0.02, 42)
    loader = rc.Loader.from_diffusion_policy(
        PUSHT, 16, pad_before=1, pad_after=7, batch_size=1, val_ratio=0.02, val_seed=42,
        store=tmp_path / "store", device="cpu",
    )  # fmt: skip
    rows = np.array(reference.windows(ends.tolist(), 16, 1, 7, ~held_out))
    assert len(loader.dataset) == len(rows)
    batch = loader.gather(range(len(rows)))
    for key, array in arrays.items():
        np.testing.assert_array_equal(batch[key].numpy(), array[rows])
