"""The demo's recording as an episode store: written, opened again, and read back."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import robocache as rc
from robocache.demo.aligning import PLANS
from robocache.demo.recording import Recording, Stream

SOURCE = "robocache demo"
UNITS = {"joints": "rad", "force": "N", "gripper": "mm"}


def write_store(made: Recording, folder: Path) -> Path:
    """Writes a store of one episode, in place of an earlier run's; returns its folder."""
    path = folder / "recording.store"
    if (path / "manifest.json").is_file():
        episodes = rc.EpisodeStore(path).episodes
        if any(episode.source != SOURCE for episode in episodes):
            raise ValueError(f"{path}: expected the store of an earlier demo, got another one")
        shutil.rmtree(path)
    with rc.StoreWriter(path) as writer:
        for plan in PLANS:
            writer.declare(plan.name, method=plan.method, units=UNITS.get(plan.name))
        with writer.episode(task="pick the block up and place it", source=SOURCE) as episode:
            for plan in PLANS:
                stream: Stream = getattr(made, plan.name)
                episode.add(plan.name, stream.times, stream.values, received=stream.received)
    return path


def read_back(made: Recording, path: Path) -> Recording:
    """The recording with the streams that the store has."""
    episode = rc.EpisodeStore(path).episodes[0]
    streams: dict[str, Any] = {}
    for plan in PLANS:
        rows = episode[plan.name]
        received = None if rows.received is None else np.array(rows.received)
        # Copies, since torch wants arrays that may be written to.
        streams[plan.name] = Stream(np.array(rows.values), np.array(rows.times), received)
    return dataclasses.replace(made, **streams)
