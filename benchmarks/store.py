"""Benchmark cases of robocache.EpisodeStore: opening one of many episodes, and reading a stream.

Files are in the system's page cache: what is measured is the way through the store, not a disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import robocache as rc
from clock import Call, Inputs
from harness import Case

OPEN_EPISODES = 100_000
SHARDS = 400  # of 256 MB, where an episode has 1 MB
# episodes, rows of each, float32 channels: much data in each episode; an arm's usual episodes
READ_SHAPES = [(128, 2000, 256), (5000, 500, 14)]
MS = 1_000_000

# Memory that opening adds to a process that has loaded the library.
MEMORY_PROGRAM = """
import sys
import robocache as rc
from robocache.store import library

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

library.load()
before = resident()
store = rc.EpisodeStore(sys.argv[1])
print(resident() - before)
"""


class Recording:
    """A store with one stream, "action", and its values as the files have them."""

    def __init__(self, episodes: int, rows: int, channels: int) -> None:
        self.episodes = episodes
        self.rows = rows
        self.channels = channels
        self._folder = tempfile.TemporaryDirectory(prefix="robocache-bench-")
        self.path = Path(self._folder.name) / "store"

    @property
    def bytes(self) -> int:
        return self.episodes * self.rows * self.channels * 4

    def write(self, generator: torch.Generator) -> Inputs:
        """Writes it, once; the inputs are no tensors."""
        if not self.path.exists():
            times = np.arange(self.rows, dtype=np.int64) * 10 * MS
            shape = (self.rows, self.channels)
            with rc.StoreWriter(self.path) as writer:
                for i in range(self.episodes):
                    values = torch.rand(shape, generator=generator).numpy()
                    with writer.episode(source=f"recording.hdf5#demo_{i}") as episode:
                        episode.add("action", times, values)
        return ()

    @cached_property
    def store(self) -> rc.EpisodeStore:
        return rc.EpisodeStore(self.path)

    @cached_property
    def mapped(self) -> list[np.ndarray[Any, Any]]:
        """The values of each shard, by NumPy's own memory map."""
        arrays: list[np.ndarray[Any, Any]] = []
        for shard in shards_of(self.path):
            begin = 8 + int.from_bytes(shard.read_bytes()[:8], "little")
            header = json.loads(shard.read_bytes()[8:begin])
            values = header["action/values"]
            offset = begin + values["data_offsets"][0]
            arrays.append(np.memmap(shard, np.float32, "r", offset, tuple(values["shape"])))
        return arrays

    def empty(self) -> np.ndarray[Any, Any]:
        return np.empty((self.episodes * self.rows, self.channels), np.float32)

    def read_episodes(self) -> Tensor:
        """Every episode's rows, one after the other into one array."""
        out, begin = self.empty(), 0
        for episode in self.store:
            values = episode["action"].values
            out[begin : begin + len(values)] = values
            begin += len(values)
        return torch.from_numpy(out)

    def read_stream(self) -> Tensor:
        """Every row, read by shard instead of by episode."""
        out, begin = self.empty(), 0
        for rows in self.store.stream_rows("action"):
            out[begin : begin + len(rows)] = rows.values
            begin += len(rows)
        return torch.from_numpy(out)

    def copy_mapped(self) -> Tensor:
        """Every row, in one copy for each file."""
        out, begin = self.empty(), 0
        for values in self.mapped:
            out[begin : begin + len(values)] = values
            begin += len(values)
        return torch.from_numpy(out)


class ManyEpisodes(Recording):
    """A store of several identical shards."""

    def write(self, generator: torch.Generator) -> Inputs:
        if not self.path.exists():
            part = Recording(self.episodes // SHARDS, self.rows, self.channels)
            part.write(generator)
            copies = [self.path.with_name(f"part-{i}") for i in range(SHARDS)]
            for copy in copies:
                shutil.copytree(part.path, copy, copy_function=os.link)
            rc.merge_stores(copies, self.path)
        return ()

    def open_store(self) -> Tensor:
        return torch.tensor([len(rc.EpisodeStore(self.path))], dtype=torch.int32)

    def open_by_hand(self) -> Tensor:
        """The manifest by json, and the header of each shard by the safetensors package."""
        from safetensors import safe_open

        manifest = json.loads((self.path / "manifest.json").read_bytes())
        count = 0
        for shard in manifest["shards"]:
            with safe_open(self.path / shard["file"], "numpy") as tensors:
                count += tensors.get_slice("episode/length").get_shape()[0]
        return torch.tensor([count], dtype=torch.int32)

    def memory(self) -> int:
        """Bytes that opening it adds to a process."""
        command = [sys.executable, "-c", MEMORY_PROGRAM, str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout)


def shards_of(path: Path) -> list[Path]:
    return sorted(path.glob("shard-*.safetensors"))


def cases(device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: str) -> list[Case]:
    """The store is read on the CPU, whatever the types."""
    del dtypes, backend
    if device.type != "cpu":
        return []
    many = ManyEpisodes(OPEN_EPISODES // (10 if quick else 1), 20, 14)
    opening = Case(
        operation="store",
        shape=f"{many.episodes} episodes",
        variant="open",
        footprint=1,
        make_inputs=many.write,
        bytes_moved=lambda _: 1,
        robocache=many.open_store,
        eager={"json and safetensors": many.open_by_hand},
        compiled={},
        rtol=0,
        atol=0,
        memory=many.memory,
    )
    readings = []
    for shape in READ_SHAPES:
        recording = Recording(*shape)
        readings.append(reading(recording, "read a stream", recording.read_stream))
        readings.append(reading(recording, "read each episode", recording.read_episodes))
    return [opening, *readings]


def reading(recording: Recording, variant: str, read: Call) -> Case:
    peers: Mapping[str, Any] = {"one copy of the map": recording.copy_mapped}
    return Case(
        operation="store",
        shape=f"{recording.episodes} x {recording.rows} x {recording.channels}",
        variant=f"{variant}, float32",
        footprint=2 * recording.bytes,
        make_inputs=recording.write,
        bytes_moved=lambda _: 2 * recording.bytes,
        robocache=read,
        eager=peers,
        compiled={},
        rtol=0,
        atol=0,
    )
