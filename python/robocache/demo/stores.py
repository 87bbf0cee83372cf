"""The demo's recordings as episode stores: written, opened again, and read back."""

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import robocache as rc
from robocache.core.names import Method
from robocache.demo.alignment import PLANS
from robocache.demo.recording import Recording, Stream

SOURCE = "robocache demo"
QUALITY = 95  # of camera frames, which stores hold as JPEG
TASK = "pick the block up and place it"
UNITS = {"joints": "rad", "force": "N", "gripper": "mm", "action": "rad"}


def write_store(made: Recording, folder: Path) -> Path:
    """Writes a store of one episode, in place of an earlier run's; returns its folder."""
    methods = {plan.name: plan.method for plan in PLANS}
    return write_episodes([made], methods, folder / "recording.store", SOURCE)


def write_episodes(
    episodes: Sequence[object], methods: Mapping[str, Method], path: Path, source: str
) -> Path:
    """Writes a store, in place of one of the same source.

    Args:
        episodes: Objects with a Stream for each name in `methods`.
        methods: How each stream is aligned.
        path: The store's folder.
        source: Where episodes come from.

    Raises:
        ValueError: There is a store of another source.
    """
    if (path / "manifest.json").is_file():
        if any(episode.source != source for episode in rc.EpisodeStore(path).episodes):
            raise ValueError(f"{path}: expected the store of an earlier demo, got another one")
        shutil.rmtree(path)
    with rc.StoreWriter(path) as writer:
        for name, method in methods.items():
            writer.declare(name, method=method, units=UNITS.get(name))
        for made in episodes:
            with writer.episode(task=TASK, source=source) as episode:
                for name in methods:
                    stream: Stream = getattr(made, name)
                    values: Any = stream.values
                    if values.ndim == 4:  # frames of a camera
                        values = rc.JpegFrames.encode(values, QUALITY, full_chroma=True)
                    episode.add(name, stream.times, values, received=stream.received)
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
