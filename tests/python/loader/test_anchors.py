"""Which samples there are: choices of episodes, of anchors, and anchors at a rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
from loader_options import keyed_loader
from loader_reference import Anchor, Window
from loader_stores import write_store
from support import assert_same_bits

import robocache as rc
from robocache.loader.sampling.anchors import tick_anchors

S = 1_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("anchors") / "store", episodes=6)


def anchors_of(store: rc.EpisodeStore, **options: Any) -> list[Anchor]:
    """The anchors of a loader, in order."""
    loader = keyed_loader(store, 8, {"joints": [0.0]}, device="cpu", **options)
    batch = loader.gather(range(len(loader.dataset)))
    columns = [batch[key].tolist() for key in ("episode_index", "frame_index", "timestamp_ns")]
    return [Anchor(*each) for each in zip(*columns, strict=True)]


def rows(store: rc.EpisodeStore, episodes: Sequence[int]) -> list[Anchor]:
    return plain.row_anchors(store, "joints", episodes)


def test_rows_of_a_stream(store: rc.EpisodeStore) -> None:
    assert anchors_of(store) == rows(store, range(6))
    assert anchors_of(store, anchor="camera") == plain.row_anchors(store, "camera")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"episodes": [4, 1]}, [1, 4]),
        ({"episodes": np.array([-1])}, [5]),
        ({"episodes": slice(None, None, 2)}, [0, 2, 4]),
        ({"tasks": "task 1"}, [1, 3, 5]),
        ({"tasks": ["task 0", "task 1"]}, range(6)),
        ({"subset": "val"}, [0, 2, 4]),
        ({"predicate": lambda episode: episode.duration_s > 0.85}, [3, 4, 5]),
        ({"episodes": slice(1, 5), "subset": "train", "predicate": lambda e: e.index != 1}, [3]),
    ],
)
def test_chosen_episodes(
    store: rc.EpisodeStore, options: dict[str, Any], expected: Sequence[int]
) -> None:
    assert anchors_of(store, **options) == rows(store, expected)


def test_splits_are_disjoint_and_whole(store: rc.EpisodeStore) -> None:
    drawn = set()
    for seed in range(20):
        options: dict[str, Any] = {"split_seed": seed}
        train = {a.episode for a in anchors_of(store, split=("train", 0.34), **options)}
        held_out = {a.episode for a in anchors_of(store, split=("validation", 0.34), **options)}
        assert train | held_out == set(range(6)) and len(held_out) == 2 and not train & held_out
        drawn.add(frozenset(held_out))
        # Neither the order's seed nor other choices move an episode to the other part.
        again = (
            anchors_of(store, split=("train", 0.34), seed=seed + 1, episodes=[0, 3], **options)
            if train & {0, 3}
            else []
        )
        assert {a.episode for a in again} == train & {0, 3}
    assert len(drawn) > 5


def test_frames_that_are_left_out(store: rc.EpisodeStore) -> None:
    lengths = [len(episode["joints"]) for episode in store]
    expected = [a for a in rows(store, range(6)) if 3 <= a.frame < lengths[a.episode] - 5]
    assert anchors_of(store, drop_n_first_frames=3, drop_n_last_frames=5) == expected
    # Episodes that are too short have none.
    longest = max(lengths)
    assert anchors_of(store, drop_n_first_frames=longest - 1) == rows(store, range(6))[-1:]


def test_ticks_that_are_left_out(store: rc.EpisodeStore) -> None:
    ticks = anchors_of(store, anchor=30.0)
    counts = [sum(tick.episode == episode for tick in ticks) for episode in range(6)]
    expected = [tick for tick in ticks if 2 <= tick.frame < counts[tick.episode] - 3]
    options = {"drop_n_first_frames": 2, "drop_n_last_frames": 3}
    assert anchors_of(store, anchor=30.0, **options) == expected


@pytest.mark.parametrize("option", ["drop_n_first_frames", "drop_n_last_frames"])
@pytest.mark.parametrize("count", [2**62, 2**63 - 1, 2**63, 2**64, 10**30])
@pytest.mark.parametrize("anchor", ["joints", 100.0])
def test_more_frames_left_out_than_there_are(
    store: rc.EpisodeStore, option: str, count: int, anchor: str | float
) -> None:
    with pytest.raises(ValueError, match=r"^anchor: expected at least 1 anchor, got none: "):
        anchors_of(store, anchor=anchor, **{option: count})


def test_an_episode_longer_than_int64_counts(tmp_path: Path) -> None:
    """It has the rows of every other episode: 2^63 ns are 292 years."""
    times = np.array([-(2**63), -(2**62), 0, 2**62, 2**63 - 1])
    with rc.StoreWriter(tmp_path / "long.store") as writer, writer.episode() as episode:
        episode.add("joints", times, np.arange(5, dtype=np.float32)[:, None])

    def batch(**options: Any) -> dict[str, Any]:
        episodes = rc.Episodes(time_ranges=options.pop("time_ranges", None))
        windows = {"joints": rc.Window(offsets_ns=[0])}
        folder = tmp_path / "long.store"
        return rc.Loader(
            folder, 9, windows, device="cpu", shuffle=False, episodes=episodes, **options
        ).next()

    seconds = [(int(time) + 2**63) * 1e-9 for time in times]
    for anchor, count in (("joints", 5), (1 / seconds[1], 4)):  # ticks: the last is past the end
        found = batch(anchor=anchor)
        np.testing.assert_allclose(found["timestamp"], seconds[:count], rtol=1e-6)
        assert found["joints"][:, 0, 0].tolist() == [0, 1, 2, 3, 4][:count]
    found = batch(time_ranges=[(seconds[1] * 0.99, seconds[3] * 1.01)])
    assert found["joints"][:, 0, 0].tolist() == [1, 2, 3]
    found = batch(time_ranges=[(seconds[3] * 0.99, np.inf)])
    assert found["joints"][:, 0, 0].tolist() == [3, 4]


def test_ranges_of_time(store: rc.EpisodeStore) -> None:
    def within(anchor: Anchor, begin: float, end: float) -> bool:
        after = anchor.time - store[anchor.episode].start_ns
        return round(begin * S) <= after < round(end * S)

    every = rows(store, range(6))
    expected = [a for a in every if within(a, 0.1, 0.2) or within(a, 0.4, 9)]
    assert anchors_of(store, time_ranges=[(0.1, 0.2), (0.4, float("inf"))]) == expected
    expected = [a for a in every if a.episode == 4 and within(a, 0.05, 0.3)]
    assert anchors_of(store, time_ranges={4: [(0.05, 0.3)], 1: []}) == expected
    assert anchors_of(store, episodes=[4], time_ranges={4: [(0.05, 0.3)], 1: [(0, 1)]}) == expected


@pytest.mark.parametrize("rate", [24, 29.97, 30, 1000 / 3])
def test_the_last_tick_of_a_recording_with_whole_nanoseconds(rate: float) -> None:
    start = np.array([1_700_000_000_000_000_000])
    for ticks in range(1, 200):
        times = start + [round(tick * 1e9 / rate) for tick in range(ticks)]
        found = tick_anchors(start, times[-1:], rate, 0, 0)
        assert found["time_ns"].tolist() == times.tolist()


@pytest.mark.parametrize("rate", [30, 7.5, 1000 / 3])
def test_a_rate(store: rc.EpisodeStore, rate: float) -> None:
    expected = [
        Anchor(episode.index, tick, episode.start_ns + round(tick * 1e9 / rate))
        for episode in store
        for tick in range(10_000)
        if episode.start_ns + tick * 1e9 / rate <= episode.end_ns
    ]
    assert anchors_of(store, anchor=rate) == expected
    loader = keyed_loader(
        store, 8, {"joints": [-0.1, 0.0], "action": [0.0]}, anchor=rate, device="cpu"
    )
    indices = list(range(0, len(expected), 7))
    batch = loader.gather(indices)
    for window in (Window("joints", [-S // 10, 0]), Window("action", [0])):
        made = plain.batch(store, window, expected, indices)
        assert_same_bits(batch[window.stream], made.values)
        assert_same_bits(batch[window.stream + "_is_pad"], made.is_pad)
