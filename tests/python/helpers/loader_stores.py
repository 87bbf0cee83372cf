"""Generated stores for tests of the loader: streams of many rates and types, some with holes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import robocache as rc

START = 1_700_000_000_000_000_000
MS = 1_000_000
SECONDS = 0.5  # of the shortest episode


def write_store(folder: Path, episodes: int = 5, seed: int = 0, **options: Any) -> rc.EpisodeStore:
    """A store in several shards.

    By time: joints (100 Hz, some rows not real), pose (a quaternion), force (float64, 400 Hz),
    camera (30 Hz, images that arrive late; episode 2 has none), gripper (bool), counter (int64),
    depth (bfloat16). By rows, at the rows of action (50 Hz): action, state, step.
    """
    rng = np.random.default_rng(seed)
    with rc.StoreWriter(folder, shard_bytes=60_000, **options) as writer:
        for name in ("action", "state", "step"):
            writer.declare(name, rate=50, timeline="rows")
        writer.declare("pose", method="slerp_xyzw")
        for e in range(episodes):
            start = START + e * 10**12
            seconds = SECONDS * (1 + 0.3 * e)
            subset = "train" if e % 2 else "val"
            with writer.episode(task=f"task {e % 2}", source=f"r{e}", subsets=[subset]) as episode:
                add_streams(episode, rng, start, seconds, with_camera=e != 2)
    return rc.EpisodeStore(folder)


def add_streams(
    episode: Any, rng: np.random.Generator, start: int, seconds: float, with_camera: bool
) -> None:
    joints = jittered(rng, start, seconds, 100)
    values = rng.normal(size=(len(joints), 7)).astype(np.float32)
    episode.add("joints", joints, values, valid=rng.random(len(joints)) > 0.1)
    pose = jittered(rng, start, seconds, 50)
    episode.add("pose", pose, rng.normal(size=(len(pose), 4)).astype(np.float32))
    force = jittered(rng, start, seconds, 400)
    episode.add("force", force, rng.normal(size=(len(force), 3)))
    if with_camera:
        frames = jittered(rng, start, seconds, 30)
        pictures = rng.integers(0, 256, (len(frames), 4, 6, 3), np.uint8)
        arrivals = np.maximum.accumulate(frames + rng.integers(0, 60 * MS, len(frames)))
        episode.add("camera", frames, pictures, received=arrivals)
    gripper = jittered(rng, start, seconds, 20)
    episode.add("gripper", gripper, rng.random(len(gripper)) > 0.5)
    counter = jittered(rng, start, seconds, 20)
    episode.add("counter", counter, rng.integers(-(2**62), 2**62, (len(counter), 2)))
    rows = start + np.arange(round(seconds * 50)) * 20 * MS
    episode.add("action", rows, rng.normal(size=(len(rows), 5)).astype(np.float32))
    episode.add("state", rows, rng.normal(size=(len(rows), 3)).astype(np.float32))
    episode.add("step", rows, np.arange(len(rows), dtype=np.int32))


def jittered(rng: np.random.Generator, start: int, seconds: float, rate: float) -> np.ndarray:
    """Times [n] ns that ascend: a rate with a third of a period of jitter, and a hole."""
    period = 1e9 / rate
    ticks = np.arange(round(seconds * rate)) * period
    ticks = ticks + rng.uniform(0, period / 3, len(ticks))
    hole = (ticks > 0.3 * seconds * 1e9) & (ticks < 0.4 * seconds * 1e9)
    return start + ticks[~hole].astype(np.int64)


def write_humanoid(folder: Path, episodes: int = 3) -> rc.EpisodeStore:
    """Beside write_store's: wider actions and narrower joints at other rates, other names.

    qpos (60 Hz, 5 of float64), action (by rows, 25 Hz, 9 wide), counter (int64, 3 wide), camera
    (15 Hz, on time), gripper (bool).
    """
    rng = np.random.default_rng(17)
    with rc.StoreWriter(folder, shard_bytes=60_000) as writer:
        writer.declare("action", rate=25, timeline="rows")
        for e in range(episodes):
            start, seconds = START + e * 10**11, 0.4 + 0.2 * e
            with writer.episode(task=f"walk {e}") as episode:
                qpos = jittered(rng, start, seconds, 60)
                episode.add("qpos", qpos, rng.normal(size=(len(qpos), 5)))
                rows = start + np.arange(round(seconds * 25)) * 40 * MS
                episode.add("action", rows, rng.normal(size=(len(rows), 9)).astype(np.float32))
                counter = jittered(rng, start, seconds, 25)
                episode.add("counter", counter, rng.integers(-9, 9, (len(counter), 3)))
                frames = jittered(rng, start, seconds, 15)
                episode.add(
                    "camera", frames, rng.integers(0, 256, (len(frames), 4, 6, 3), np.uint8)
                )
                episode.add("gripper", frames, rng.random(len(frames)) > 0.5)
    return rc.EpisodeStore(folder)
