"""Recordings to convert, and what a store holds of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import robocache as rc

START = 1_700_000_000_000_000_000
MS = 1_000_000


def write_recording(path: Path, seed: int, rows: int = 400, channels: int = 3) -> Path:
    """An NPZ file of one episode: an arm and, at another rate, a force."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        arm=rng.normal(size=(rows, channels)).astype(np.float32),
        arm_times_ns=START + np.arange(rows) * 10 * MS,
        force=rng.normal(size=(3 * rows, 2)),
        force_times_ns=START + np.arange(3 * rows) * 3 * MS,
    )
    return path


def content(path: Path) -> dict[str, Any]:
    """All that a store holds, by its episodes' sources."""
    store = rc.EpisodeStore(path)
    store.verify()
    episodes = {}
    for episode in store:
        streams = {}
        for name in episode.streams:
            rows = episode[name]
            streams[name] = (rows.values.tobytes(), rows.times.tobytes(), rows.values.dtype.str)
        assert episode.source not in episodes, "doubled"
        episodes[episode.source] = (episode.task, episode.subsets, streams)
    statistics = {
        name: (found.count.tolist(), found.min.tolist(), found.max.tolist())
        for name, found in store.statistics.items()
    }
    return {"episodes": list(episodes.items()), "statistics": statistics}


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != ".lock"}


def robocache(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "robocache", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


def spoil(recordings: Path) -> None:
    """The fourth of eight is cut short, and there is a file of no format."""
    os.truncate(recordings / "r3.npz", 3000)
    (recordings / "notes.txt").write_text("nothing")
