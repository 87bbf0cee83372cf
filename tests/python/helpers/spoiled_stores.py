"""A small store to be spoiled, and what reading it says then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stores import HandEpisode, HandStore

import robocache as rc

SHARD = "shard-00000.safetensors"
INTEGER = "a whole number from 0 to 9223372036854775807"


def episodes() -> list[HandEpisode]:
    action = (np.array([1, 2, 3]), np.arange(12, dtype=np.float32).reshape(3, 4))
    flag = (np.array([1, 4]), np.array([True, False]), np.array([2, 5]), np.array([True, True]))
    return [
        HandEpisode({"action": action, "flag": flag}, task=0, subsets=1, source="a#1"),
        HandEpisode({"action": action}, source="a#2"),
    ]


def small_store(folder: Path) -> HandStore:
    """One shard of them."""
    return HandStore(folder).write([episodes()], tasks=["pick", "place"], subsets=["train"])


def problem(folder: Path, verify: bool = False) -> str:
    """The error of opening, of accessing everything, or of verifying; without the folder's name."""
    with pytest.raises(rc.StoreError) as caught:
        look_at_all_of(folder, verify)
    return str(caught.value).replace(str(folder), "ST")


def look_at_all_of(folder: Path, verify: bool) -> None:
    opened = rc.EpisodeStore(folder)
    for episode in opened:
        repr(episode)
        for name in opened.streams:
            episode[name].values.copy()
            episode[name].times.copy()
    len(opened.episodes.lengths)
    if verify:
        opened.verify()
