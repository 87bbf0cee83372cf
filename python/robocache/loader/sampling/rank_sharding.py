"""Partitions episodes across ranks by size (``replicate=False``)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robocache.loader.memory.file_rows import find_rows
from robocache.store.episode_store import EpisodeStore


class RankShard(NamedTuple):
    """The episodes and anchors of one rank."""

    episodes: NDArray[np.int64]  # [E] their indices in the store
    anchors: NDArray[Any]  # [A] of anchors.ANCHOR, which count these episodes
    samples: int  # of an epoch, on every rank: as many as the rank with the fewest has


def shard_episodes(
    store: EpisodeStore,
    episodes: NDArray[np.int64],
    anchors: NDArray[Any],
    streams: Iterable[str],
    rank: int,
    ranks: int,
) -> RankShard:
    """The share of a rank; the same for it on whichever rank it is computed.

    Args:
        store: The store.
        episodes: [E], those that all ranks have together.
        anchors: [A] of anchors.ANCHOR, in all of them.
        streams: What is loaded of them.
        rank: Whose share.
        ranks: How many there are.

    Raises:
        ValueError: Some rank would have no samples.
    """
    sizes = np.zeros(len(episodes), np.int64)
    for name in streams:
        rows = find_rows(store, name, episodes)
        sizes += np.diff(rows.offsets) * (rows.info.row_bytes + 8)
    holders = deal(sizes, ranks)
    samples = np.bincount(holders[anchors["episode"]], minlength=ranks)
    poorest = int(samples.argmin())
    if samples[poorest] == 0:
        raise ValueError(
            f"replicate: expected samples for each of {ranks} ranks with False, got none for rank "
            f"{poorest} of {len(episodes)} episodes; with True ranks share out samples"
        )
    is_own = holders == rank
    own = anchors[is_own[anchors["episode"]]]
    own["episode"] = (np.cumsum(is_own) - 1)[own["episode"]]
    return RankShard(episodes[is_own], own, int(samples[poorest]))


def deal(sizes: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    """Shares out episodes by size: the largest first, each to the rank that has least by then.

    That is the rule of the longest processing time (Graham, "Bounds on multiprocessing timing
    anomalies", 1969): no rank gets more than 4/3 of what the best sharing would give it. Among
    equals the first comes first.

    Args:
        sizes: [E] bytes.
        ranks: How many share them.

    Returns:
        [E], the rank that has each.
    """
    holders = np.zeros(len(sizes), np.int64)
    loads = [(0, rank) for rank in range(ranks)]
    for episode in np.argsort(-sizes, kind="stable"):
        load, rank = loads[0]
        holders[episode] = rank
        heapq.heapreplace(loads, (load + int(sizes[episode]), rank))
    return holders
