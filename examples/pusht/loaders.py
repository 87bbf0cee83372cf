"""Four loaders of equal batches: RoboCache, LeRobot, robomimic, and plain torch.

A sample has a row of an episode as its anchor: the last two states, and sixteen actions from the
previous row on. Rows outside the episode repeat its first or last row, and are masked in the loss.
A batch is on the device, normalized to [-1, 1]: "state" [B,2,5], "action" [B,16,2] float32,
"is_pad" [B,16] bool.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import robocache as rc

Batch = dict[str, Tensor]

STATES, ACTIONS = 2, 16  # steps in a sample


@dataclass(frozen=True)
class Data:
    """The training data."""

    store: rc.EpisodeStore
    rate: float  # rows per second
    train: Sequence[int]  # episodes
    validation: Sequence[int]
    folder: Path  # for the same episodes in other formats
    device: torch.device

    def windows(self) -> dict[str, list[float]]:
        """Offsets in seconds, as LeRobot has them."""
        return {
            "state": [(k - STATES + 1) / self.rate for k in range(STATES)],
            "action": [(k - 1) / self.rate for k in range(ACTIONS)],
        }

    def scales(self) -> dict[str, tuple[Tensor, Tensor]]:
        """The offset (`subtract`) and the scale (`multiply`) of each stream."""
        found = {}
        for key in ("state", "action"):
            scale = rc.normalization(self.store.statistics[key], "min_max")
            subtract, multiply = torch.tensor(np.stack(scale)).float().to(self.device)
            found[key] = (subtract, multiply)
        return found


def split(store: rc.EpisodeStore) -> tuple[list[int], list[int]]:
    """Episodes for training, and every tenth for validation."""
    whole = range(len(store))
    return [e for e in whole if e % 10 != 9], [e for e in whole if e % 10 == 9]


def validation_batch(data: Data) -> Batch:
    """All samples of the validation episodes, for every loader."""
    loader = robocache_loader(data, data.validation, batch_size=1, seed=0)
    return pick(loader.gather(range(len(loader.dataset))))


# RoboCache ----------------------------------------------------------------------------------------


def robocache_loader(data: Data, episodes: Sequence[int], batch_size: int, seed: int) -> rc.Loader:
    """A loader with the episodes on its device: one launch per batch, no workers."""
    return rc.Loader(
        data.store,
        batch_size,
        {
            key: rc.Window(offsets, timeline="rows", normalize="min_max")
            for key, offsets in data.windows().items()
        },
        episodes=episodes,
        seed=seed,
        drop_last=True,
        device=data.device,
    )


def pick(batch: Batch) -> Batch:
    return {key: batch[name] for key, name in
            (("state", "state"), ("action", "action"), ("is_pad", "action_is_pad"))}  # fmt: skip


class FromRobocache(Iterator[Batch]):
    """Batches of an rc.Loader, whose state a checkpoint saves."""

    def __init__(self, data: Data, batch_size: int, seed: int, workers: int) -> None:
        self.loader = robocache_loader(data, data.train, batch_size, seed)

    def __next__(self) -> Batch:
        return pick(self.loader.next())


# The others ---------------------------------------------------------------------------------------


class Windows(Dataset[Batch]):
    """The usual Dataset: slices samples from episodes in memory."""

    def __init__(self, data: Data) -> None:
        self.episodes = [
            {key: torch.tensor(data.store[e][key].values) for key in ("state", "action")}
            for e in data.train
        ]
        self.anchors = [
            (e, row) for e, rows in enumerate(self.episodes) for row in range(len(rows["state"]))
        ]

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, index: int) -> Batch:
        number, row = self.anchors[index]
        episode = self.episodes[number]
        last = len(episode["action"]) - 1
        states = torch.arange(row - STATES + 1, row + 1).clamp(0, last)
        actions = torch.arange(row - 1, row - 1 + ACTIONS)
        return {
            "state": episode["state"][states],
            "action": episode["action"][actions.clamp(0, last)],
            "is_pad": (actions < 0) | (actions > last),
        }


def from_torch(data: Data, batch_size: int, seed: int, workers: int) -> Iterator[Batch]:
    batches = load(Windows(data), batch_size, seed, workers, data.device)
    return prepare(batches, data, lambda batch: batch)


def from_lerobot(data: Data, batch_size: int, seed: int, workers: int) -> Iterator[Batch]:
    """The episodes as a LeRobot v3.0 dataset, read by LeRobot."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = data.folder / "pusht-lerobot"
    shutil.rmtree(root, ignore_errors=True)
    rc.export_lerobot(data.store, root, data.rate, streams=["state", "action"])
    dataset = LeRobotDataset("made/here", root, list(data.train), delta_timestamps=data.windows())
    return prepare(load(dataset, batch_size, seed, workers, data.device), data, pick)


def from_robomimic(data: Data, batch_size: int, seed: int, workers: int) -> Iterator[Batch]:
    """The episodes as demonstrations in HDF5, read by robomimic, which keeps them in memory."""
    import h5py
    from robomimic.utils.dataset import SequenceDataset

    path = data.folder / "pusht-robomimic.hdf5"
    with h5py.File(path, "w") as file:
        for number in data.train:
            demo = file.create_group(f"data/demo_{number}")
            demo["obs/state"] = data.store[number]["state"].values
            demo["actions"] = data.store[number]["action"].values
            demo.attrs["num_samples"] = len(demo["actions"])
    with redirect_stdout(None), redirect_stderr(StringIO()):  # it prints, with its own bars
        dataset = SequenceDataset(
            str(path),
            obs_keys=("state",),
            dataset_keys=("actions",),
            frame_stack=STATES,
            seq_length=ACTIONS - STATES + 1,  # after the stacked frames
            get_pad_mask=True,
            load_next_obs=False,
            hdf5_cache_mode="all",
        )

    def found(batch: Any) -> Batch:
        state, is_pad = batch["obs"]["state"][:, :STATES], ~batch["pad_mask"][..., 0].bool()
        return {"state": state, "action": batch["actions"], "is_pad": is_pad}

    return prepare(load(dataset, batch_size, seed, workers, data.device), data, found)


def load(
    dataset: Any, batch_size: int, seed: int, workers: int, device: torch.device
) -> Iterator[Any]:
    """Endless batches of torch's DataLoader, as it is usually configured."""
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(seed),
    )
    while True:
        yield from loader


def prepare(batches: Iterator[Any], data: Data, found: Callable[[Any], Batch]) -> Iterator[Batch]:
    """Copies batches to the device, and normalizes them there."""
    scales = data.scales()
    for loaded in batches:
        batch = {
            key: value.to(data.device, non_blocking=True) for key, value in found(loaded).items()
        }
        for key, (subtract, multiply) in scales.items():
            batch[key] = (batch[key].float() - subtract) * multiply
        yield batch


LOADERS: dict[str, Callable[[Data, int, int, int], Iterator[Batch]]] = {
    "robocache": FromRobocache,
    "torch": from_torch,
    "lerobot": from_lerobot,
    "robomimic": from_robomimic,
}


def default_workers(device: torch.device) -> int:
    """None on a CPU, which trains with all cores; with a GPU all cores but one, at most 8."""
    cores = len(os.sched_getaffinity(0))
    return 0 if device.type == "cpu" else min(8, max(1, cores - 1))
