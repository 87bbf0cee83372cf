"""Benchmark cases of robocache.Loader, and torch code written by hand for the same tensors.

Samples of what policies train on: 2 past steps of a state and 100 steps of an action, both of 14
channels at 50 Hz, from a store of several times the size of a GPU's cache. *rows*: each step is a
row. *jittered, interpolated*: rows are up to 30 % of a period early or late, and steps are evenly
spaced in time. *images*: 2 frames of 96 x 96 x 3 bytes.

A call gathers a batch of random samples, by indices that are on the device. The samples' metadata,
such as their episodes, only robocache writes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import robocache as rc
from clock import Call, Inputs
from harness import Case
from machine import free_bytes

Batch = dict[str, Tensor]

BATCHES = (256, 4096)
STEPS = {"state": range(-1, 1), "action": range(100)}
FRAMES = {"image": range(-1, 1)}
CHANNELS = 14
PICTURE = (96, 96, 3)
PERIOD_NS = 20_000_000
ROWS = 1000  # of an episode
EPISODES, PICTURE_EPISODES = 2000, 8  # 224 MB and 221 MB
NEXT = "rows, in order by next"  # a store of one batch, so that every batch is the same


class Recording:
    """A store with streams of as many rows each, and its rows as torch has them."""

    def __init__(
        self, steps: dict[str, range], episodes: int, is_jittered: bool, rows: int = ROWS
    ) -> None:
        self.steps = steps
        self.episodes = episodes
        self.rows = rows
        self.is_jittered = is_jittered
        self._folder = tempfile.TemporaryDirectory(prefix="robocache-bench-")

    @cached_property
    def store(self) -> rc.EpisodeStore:
        path = Path(self._folder.name) / "store"
        rng = np.random.default_rng(0)
        with rc.StoreWriter(path) as writer:
            for name in self.steps:
                writer.declare(name, rate=1e9 / PERIOD_NS)
            for e in range(self.episodes):
                with writer.episode() as episode:
                    for name in self.steps:
                        times = (np.arange(self.rows) + 2 * e * self.rows) * PERIOD_NS
                        if self.is_jittered:
                            noise = rng.uniform(-0.3, 0.3, self.rows) * PERIOD_NS
                            times = times + noise.astype(np.int64)
                        episode.add(name, times, random_rows(rng, name, self.rows))
        return rc.EpisodeStore(path)

    def on(self, device: torch.device) -> Rows:
        return Rows(self, device)


def random_rows(rng: np.random.Generator, name: str, count: int) -> np.ndarray[Any, Any]:
    if name == "image":
        return rng.integers(0, 256, (count, *PICTURE), np.uint8)
    return rng.random((count, CHANNELS), np.float32)


class Rows:
    """The rows that the peers read, with the episode bounds that they need for each anchor."""

    def __init__(self, recording: Recording, device: torch.device) -> None:
        def joined(name: str, part: str) -> Tensor:
            parts = [getattr(r, part) for r in recording.store.stream_rows(name)]
            return torch.from_numpy(np.concatenate(parts)).to(device)

        names = list(recording.steps)
        self.values = {name: joined(name, "values") for name in names}
        self.times = {name: joined(name, "times") for name in names}
        self.steps = {
            name: torch.tensor(list(steps), device=device)
            for name, steps in recording.steps.items()
        }
        count = recording.rows
        anchor = torch.arange(recording.episodes * count, device=device)
        self.first = anchor // count * count  # of its episode
        self.last = self.first + count - 1
        self.time = self.times[names[0]]


# ---- peers: indices [B] -> the batch -------------------------------------------------------------


def by_rows(rows: Rows, indices: Tensor) -> Batch:
    """The usual code: count rows from the anchor's, clamp them to the episode, index."""
    return clamped(rows, indices, lambda values, row: values[row])


def by_rows_in_order(rows: Rows, indices: Tensor) -> Batch:
    """Windows in order, by index_select of flattened rows."""
    return clamped(rows, indices, select)


def select(values: Tensor, row: Tensor) -> Tensor:
    return values.index_select(0, row.view(-1)).view(*row.shape, *values.shape[1:])


def clamped(rows: Rows, indices: Tensor, take: Callable[[Tensor, Tensor], Tensor]) -> Batch:
    batch = {}
    first, last = rows.first[indices].unsqueeze(1), rows.last[indices].unsqueeze(1)
    for name, steps in rows.steps.items():
        wanted = indices.unsqueeze(1) + steps
        row = torch.minimum(torch.maximum(wanted, first), last)
        batch[name] = take(rows.values[name], row)
        batch[name + "_is_pad"] = row != wanted
    return batch


def by_time(rows: Rows, indices: Tensor) -> Batch:
    """Interpolation: times of all episodes ascend here, so that one search finds the rows."""
    batch = {}
    first, last = rows.first[indices].unsqueeze(1), rows.last[indices].unsqueeze(1)
    for name, steps in rows.steps.items():
        times, values = rows.times[name], rows.values[name]
        target = rows.time[indices].unsqueeze(1) + steps * PERIOD_NS
        after = torch.searchsorted(times, target, right=True)
        hi = torch.minimum(torch.maximum(after, first + 1), last)
        lo = hi - 1
        weight = (target - times[lo]).float() / (times[hi] - times[lo]).float()
        a, b = values[lo], values[hi]
        batch[name] = a + weight.clamp(0, 1).unsqueeze(-1) * (b - a)
        batch[name + "_is_pad"] = (target < times[first]) | (target > times[last])
    return batch


def as_floats(gather: Callable[[Rows, Tensor], Batch], rows: Rows, indices: Tensor) -> Batch:
    """Pictures [H,W,C] of bytes to [C,H,W] from 0 to 1."""
    batch = gather(rows, indices)
    pictures = batch["image"].permute(0, 1, 4, 2, 3)
    return {
        **batch,
        "image": pictures.to(torch.float32, memory_format=torch.contiguous_format) / 255,
    }


# ---- cases ---------------------------------------------------------------------------------------


def flat(steps: dict[str, range], batch: Batch) -> Tensor:
    """The compared values and masks of a batch."""
    parts = [batch[name + ending] for name in steps for ending in ("", "_is_pad")]
    return torch.cat([part.reshape(-1).float() for part in parts])


def bytes_moved(rows: Rows, by_time: bool, item_bytes: int, indices: Tensor) -> int:
    """Each row that is needed, once, with its time where rows are searched; the batch; anchors."""
    total = 0
    for name, steps in rows.steps.items():
        wanted = indices.unsqueeze(1) + steps
        row = wanted.clamp(
            min=rows.first[indices].unsqueeze(1), max=rows.last[indices].unsqueeze(1)
        )
        values = rows.values[name]
        a_row = values[0].nbytes + (8 if by_time else 0)
        total += int(torch.bincount(row.view(-1)).count_nonzero()) * a_row
        total += wanted.numel() * (values[0].numel() * item_bytes + 1)
    return total + indices.numel() * (16 + 8)


class Cases:
    """The cases on one device; stores are written when the first of them is measured."""

    def __init__(self, device: torch.device, quick: bool) -> None:
        episodes = EPISODES // (8 if quick else 1)
        self.device = device
        self.recordings = {
            "rows": Recording(STEPS, episodes, False),
            "jittered, interpolated": Recording(STEPS, episodes, True),
            "images": Recording(FRAMES, PICTURE_EPISODES, False),
            NEXT: Recording(STEPS, 1, False, BATCHES[0]),
        }
        self._rows: dict[str, Rows] = {}
        self._loaders: dict[tuple[str, bool], rc.Loader] = {}

    def rows(self, kind: str) -> Rows:
        if kind not in self._rows:
            self._rows[kind] = self.recordings[kind].on(self.device)
        return self._rows[kind]

    def loader(self, kind: str, is_float: bool) -> rc.Loader:
        if (kind, is_float) not in self._loaders:
            recording = self.recordings[kind]
            self._loaders[kind, is_float] = rc.Loader(
                recording.store,
                256,
                {
                    name: rc.Window(
                        offsets_ns=[PERIOD_NS * k for k in steps],
                        timeline="time" if recording.is_jittered else "rows",
                        tolerance_s=0.0 if recording.is_jittered else 1e-4,  # the peers have none
                        channels_first=is_float and kind == "images",
                    )
                    for name, steps in recording.steps.items()
                },
                shuffle=False,
                device=self.device,
            )
        return self._loaders[kind, is_float]

    def make(self, kind: str, batch: int, is_float: bool = False) -> Case:
        recording = self.recordings[kind]
        steps = recording.steps
        is_image = kind == "images"
        item = 4 if is_float or not is_image else 1
        values = int(np.prod(PICTURE)) if is_image else CHANNELS
        count = sum(map(len, steps.values()))

        def peer(gather: Callable[[Rows, Tensor], Batch], indices: Tensor) -> Batch:
            if is_float:
                return as_floats(gather, self.rows(kind), indices)
            return gather(self.rows(kind), indices)

        def make_inputs(generator: torch.Generator) -> Inputs:
            anchors = recording.episodes * recording.rows
            device = self.device
            if kind == NEXT:
                return (torch.arange(batch, device=device),)
            return (torch.randint(0, anchors, (batch,), generator=generator, device=device),)

        def make(indices: Tensor) -> Batch:
            loader = self.loader(kind, is_float)
            return loader.next() if kind == NEXT else loader.gather(indices)

        peers = {"index": by_rows, "index_select": by_rows_in_order}
        if recording.is_jittered:
            peers = {"searchsorted": by_time}
        calls: dict[str, Call] = {name: partial(peer, gather) for name, gather in peers.items()}
        of_rows = "2 x 96x96x3" if is_image else "(2+100) x 14"
        kind_of_values = "float32" if item == 4 else "uint8"
        return Case(
            operation="loader",
            shape=f"{batch} x {of_rows}",
            variant=f"{kind}, {kind_of_values}",
            footprint=batch * count * values * (item + (1 if is_image else 4)),
            make_inputs=make_inputs,
            bytes_moved=lambda indices: bytes_moved(
                self.rows(kind), recording.is_jittered, item, indices[0]
            ),
            robocache=make,
            eager=calls,
            compiled=calls,
            rtol=0,
            # Interpolation rounds anew; torch on a GPU multiplies by 1 / 255 where it could divide.
            atol=2e-6 if recording.is_jittered else 1e-7 if is_image and item == 4 else 0,
            to_tensor=partial(flat, steps),
        )


def cases(device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: str) -> list[Case]:
    """Cases of float32 rows and of uint8 images, whatever `dtypes` says."""
    del dtypes, backend
    if free_bytes(device) < 8 << 30:
        return []
    made = Cases(device, quick)
    declared = [made.make(kind, B) for kind in ("rows", "jittered, interpolated") for B in BATCHES]
    declared.append(made.make(NEXT, BATCHES[0]))
    declared.append(made.make("images", 256))
    if not quick:
        declared.append(made.make("images", 256, True))
    return declared
