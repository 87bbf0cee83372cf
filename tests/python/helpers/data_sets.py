"""Small data sets of two episodes each: LeRobot's, robomimic's and a replay buffer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import robocache as rc

LENGTHS = (3, 2)


def write_lerobot(folder: Path) -> Path:
    """Two episodes at 10 Hz: a row counts 10 times its episode, and its frame."""
    with rc.StoreWriter(folder / "source") as writer:
        for number, n in enumerate(LENGTHS):
            times = np.arange(n, dtype=np.int64) * 100_000_000
            with writer.episode(("push", "pull")[number], f"made#{number}") as episode:
                frame = np.arange(n)[:, None]
                episode.add("state", times, (10 * number + frame + [0, 100]).astype(np.float32))
                episode.add("count", times, (10 * number + frame).astype(np.int16))
                episode.add("camera", times, np.full((n, 8, 9, 3), 51, np.uint8))
    rc.export_lerobot(folder / "source", folder / "set", 10, video=False)
    return folder / "set"


def write_demonstrations(folder: Path) -> Path:
    """Two demonstrations, the second in the subset "train"."""
    import h5py

    path = folder / "demos.hdf5"
    with h5py.File(path, "w") as file:
        for number, n in enumerate(LENGTHS):
            demo = file.create_group(f"data/demo_{number}")
            demo["actions"] = 10.0 * number + np.arange(n)[:, None]
            demo["dones"] = np.arange(n) == n - 1
            demo["obs/arm"] = (10.0 * number + np.arange(n)[:, None]).astype(np.float32)
            demo["next_obs/arm"] = (10.0 * number + np.arange(1, n + 1)[:, None]).astype("f4")
        file["mask/train"] = np.array([b"demo_1"])
    return path


def write_buffer(folder: Path) -> Path:
    """Actions 0 to 4."""
    import zarr

    path = folder / "set.zarr"
    group = zarr.open_group(str(path), mode="w")
    group["data/action"] = np.arange(5, dtype=np.float32)[:, None]
    group["meta/episode_ends"] = np.cumsum(LENGTHS)
    return path
