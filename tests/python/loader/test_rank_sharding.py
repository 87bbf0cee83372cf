"""A store that is split over ranks: who holds what, in which order, and going on."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loader_options import keyed_loader
from loader_stores import write_store
from support import assert_same_bits, needs_gpu

import robocache as rc
from robocache.loader.sampling.rank_sharding import deal
from robocache.loader.sampling.sampler import Order


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("shares") / "store", episodes=7)


def make(store: rc.EpisodeStore, rank: int, ranks: int, **options: Any) -> rc.Loader:
    options = {"device": "cpu", "batch_size": 4, "seed": 5} | options
    deltas = {"action": [0.0, 0.02], "joints": [-0.05, 0.0]}
    ranked = {"rank": rank, "world_size": ranks, "replicate": False}
    return keyed_loader(store, delta_timestamps=deltas, timeline="time", **options, **ranked)


def places(batch: dict[str, torch.Tensor]) -> list[tuple[int, int]]:
    return list(zip(batch["episode_index"].tolist(), batch["frame_index"].tolist(), strict=True))


def all_of(loader: rc.Loader) -> set[tuple[int, int]]:
    return set(places(loader.gather(range(len(loader.dataset)))))


# ---- who holds what ------------------------------------------------------------------------------


def test_deal() -> None:
    """The largest first, to whom has least; the first of equals."""
    assert deal(np.array([1, 5, 3, 3, 2]), 2).tolist() == [1, 0, 1, 1, 0]
    assert deal(np.array([7, 7, 7]), 2).tolist() == [0, 1, 0]
    assert deal(np.array([4]), 3).tolist() == [0]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60), st.integers(1, 9))
def test_deals_are_fair(sizes: list[int], ranks: int) -> None:
    holders = deal(np.array(sizes), ranks)
    loads = [sum(s for s, h in zip(sizes, holders, strict=True) if h == r) for r in range(ranks)]
    assert sum(loads) == sum(sizes) and holders.min() >= 0 and holders.max() < ranks
    # The rank that has most had least before its last episode, which is no larger than the others.
    assert max(loads) <= sum(sizes) / ranks + max(sizes)


def test_times_count_with_narrow_rows(tmp_path: Path) -> None:
    """An episode's size is that of its values and of its times, here of 4 and 8 bytes a row."""
    with rc.StoreWriter(tmp_path / "s") as writer:
        for index, (narrow, wide) in enumerate(((90, 0), (40, 12), (0, 16))):
            with writer.episode(source=str(index)) as episode:
                for name, rows, width in (("narrow", narrow, 1), ("wide", wide, 20)):
                    if rows:
                        values = np.zeros((rows, width), np.float32)
                        episode.add(name, np.arange(rows) * 10_000_000, values)
    windows = {"narrow": [0.0], "wide": [0.0]}
    shares = [
        keyed_loader(
            tmp_path / "s", 1, windows, anchor=50.0, device="cpu", rank=rank, world_size=2,
            replicate=False, timeline="time",
        )
        for rank in range(2)
    ]  # fmt: skip
    # 1,080, 1,536 and 1,408 bytes; without the times 360, 1,120 and 1,280.
    assert [{episode for episode, _ in all_of(share)} for share in shares] == [{1}, {0, 2}]


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_shares_are_disjoint_and_cover_the_store(
    store: rc.EpisodeStore, device: str, ranks: int
) -> None:
    whole = all_of(make(store, 0, 1, device=device))
    shares = [make(store, rank, ranks, device=device) for rank in range(ranks)]
    found = [all_of(share) for share in shares]
    assert sum(map(len, found)) == len(whole) and set().union(*found) == whole
    episodes = [{episode for episode, _ in share} for share in found]
    assert sum(map(len, episodes)) == len(store), "episodes are whole"
    tier = "gpu" if device == "cuda" else "ram"
    held = [share.stats().resident_bytes[tier] for share in shares]
    alone = make(store, 0, 1, device=device).stats().resident_bytes[tier]
    assert sum(held) < alone + 1000 * ranks and max(held) < alone


def test_shares_are_of_the_chosen_episodes(store: rc.EpisodeStore) -> None:
    chosen = {"episodes": [1, 3, 4], "anchor": 30.0, "drop_n_first_frames": 2}
    whole = all_of(make(store, 0, 1, **chosen))
    found = [all_of(make(store, rank, 2, **chosen)) for rank in range(2)]
    assert set().union(*found) == whole and not found[0] & found[1]


# ---- in which order ------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_epochs(store: rc.EpisodeStore, device: str, shuffle: bool, drop_last: bool) -> None:
    """As many batches on every rank, of the same sizes; each sample at most once an epoch."""
    options: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "device": device}
    loaders = [make(store, rank, 3, **options) for rank in range(3)]
    fewest = min(len(loader.dataset) for loader in loaders)
    assert {len(loader.dataset) for loader in loaders} != {fewest}, "of different sizes"
    seen: list[list[list[int]]] = []
    for rank, loader in enumerate(loaders):
        order = Order(fewest, 4, 5, shuffle, drop_last, share=rank, shares=3)
        expected = plain.draw(
            fewest, 4, seed=order.key, shuffle=shuffle, drop_last=drop_last,
            anchors=len(loader.dataset),
        )  # fmt: skip
        for epoch in range(2):
            batches = [batch["index"].tolist() for batch in loader]
            assert batches == [d.indices for d in islice(expected, len(loader))], epoch
        seen.append(batches)
        flat = [i for batch in batches for i in batch]
        assert len(set(flat)) == len(flat) == (fewest // 4 * 4 if drop_last else fewest)
    assert len({tuple(map(len, batches)) for batches in seen}) == 1
    assert len({len(loader) for loader in loaders}) == 1


def test_what_an_epoch_leaves_out_is_drawn_anew(store: rc.EpisodeStore) -> None:
    loaders = [make(store, rank, 3) for rank in range(3)]
    richest = max(loaders, key=lambda loader: len(loader.dataset))
    seen = {i for _ in range(30) for batch in richest for i in batch["index"].tolist()}
    assert seen == set(range(len(richest.dataset)))


def test_ranks_draw_their_own_noise(store: rc.EpisodeStore) -> None:
    def noise(batch: Any, generator: torch.Generator) -> Any:
        return {**batch, "noise": torch.rand(3, generator=generator)}

    loaders = [make(store, rank, 2, transforms=[noise]) for rank in range(2)]
    a, b = (loader.next()["noise"] for loader in loaders)
    assert not torch.equal(a, b)


def test_one_rank_has_the_usual_order(store: rc.EpisodeStore) -> None:
    split, whole = make(store, 0, 1), make(store, 0, 1)
    whole = keyed_loader(store, 4, {"action": [0.0]}, timeline="time", seed=5, device="cpu")
    assert [b["index"].tolist() for b in split] == [b["index"].tolist() for b in whole]


def test_samples_are_those_of_a_whole_store(store: rc.EpisodeStore, device: str) -> None:
    whole = make(store, 0, 1, device=device)
    numbers = {place: i for i, place in enumerate(places(whole.gather(range(len(whole.dataset)))))}
    for rank in range(2):
        batch = make(store, rank, 2, device=device).next()
        expected = whole.gather([numbers[place] for place in places(batch)])
        for key in set(batch) - {"index"}:
            assert_same_bits(batch[key].cpu(), expected[key].cpu(), key)


def test_with_a_budget(store: rc.EpisodeStore) -> None:
    """Rows outside a rank's budget come from its files, with the same bits."""
    for rank in range(2):
        loader = make(store, rank, 2)
        held = loader.stats().resident_bytes["ram"]
        low = make(store, rank, 2, budget={"ram": int(0.7 * held)})
        for _ in range(len(loader) + 2):
            expected, got = loader.next(), low.next()
            for key, value in expected.items():
                assert_same_bits(got[key], value, key)
        assert low.stats().hit_shares["disk"] > 0
        assert low.state_dict() == loader.state_dict()


@needs_gpu
def test_a_graph(store: rc.EpisodeStore) -> None:
    options: dict[str, Any] = {"device": "cuda", "drop_last": True}
    expected = make(store, 1, 2, **options)
    loader = make(store, 1, 2, reuse_buffers=True, **options)
    graph = torch.cuda.CUDAGraph()
    loader.next()
    with torch.cuda.graph(graph):
        batch = loader.next()
    expected.next()
    for _ in range(2 * len(loader)):
        graph.replay()
        assert batch["index"].tolist() == expected.next()["index"].tolist()


# ---- going on ------------------------------------------------------------------------------------


def test_resumed(store: rc.EpisodeStore, device: str) -> None:
    """The state of one rank is that of all."""
    whole = [make(store, rank, 3, device=device) for rank in range(3)]
    for loader in whole:
        for _ in range(len(loader) + 2):
            loader.next()
    states = [loader.state_dict() for loader in whole]
    assert states[0] == states[1] == states[2]
    for rank, loader in enumerate(whole):
        resumed = make(store, rank, 3, device=device)
        resumed.load_state_dict(states[0])
        for _ in range(len(loader)):
            expected, got = loader.next(), resumed.next()
            for key, value in expected.items():
                assert_same_bits(got[key].cpu(), value.cpu(), key)


def test_a_state_of_another_number_of_ranks_is_refused(store: rc.EpisodeStore) -> None:
    state = make(store, 0, 2).state_dict()
    reason = r" \(a store that is split over ranks, by replicate=False, goes on with as many\)$"
    with pytest.raises(ValueError, match=r"^state\['shares'\]: expected 3, got 2" + reason):
        make(store, 0, 3).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['shares'\]: expected 1, got 2" + reason):
        make(store, 0, 1).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]: expected "):
        make(store, 0, 2, episodes=range(6)).load_state_dict(
            state | {"samples": make(store, 0, 2, episodes=range(6)).state_dict()["samples"]}
        )


# ---- mixtures ------------------------------------------------------------------------------------


def mix(
    store: rc.EpisodeStore, rank: int, ranks: int, mixed_as: tuple[int, int] | None = None
) -> rc.Loader:
    parts = [make(store, rank, ranks, episodes=chosen) for chosen in (range(4), range(4, 7))]
    rank, ranks = mixed_as or (rank, ranks)
    return rc.Loader.mixture(parts, [1, 2], 100, 10, rank=rank, world_size=ranks)


def test_mixtures_of_shares(store: rc.EpisodeStore) -> None:
    """Each rank draws from what it holds; the state of one is that of all."""
    loaders = [mix(store, rank, 2) for rank in range(2)]
    seen = [{place for batch in loader for place in places(batch)} for loader in loaders]
    assert len(loaders[0]) == len(loaders[1]) == 5 and not seen[0] & seen[1]
    loaders[1].load_state_dict(loaders[0].state_dict())
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]: expected "):
        mix(store, 0, 3).load_state_dict(loaders[0].state_dict())
    with pytest.raises(
        ValueError,
        match=r"^loaders\[0\]: expected a store that is split like the mixture's rank 0 of 1, got "
        r"one of rank 1 of 2 \(with rc.Episodes\(replicate=False\), give the loader and the "
        r"mixture the same rank= and world_size=\)$",
    ):
        mix(store, 1, 2, mixed_as=(0, 1))


# ---- errors --------------------------------------------------------------------------------------


def test_errors(store: rc.EpisodeStore, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"^replicate: expected samples for each of 9 ranks with False, got none for rank 7 "
        r"of 7 episodes; with True ranks share out samples$",
    ):
        make(store, 0, 9)
    with pytest.raises(TypeError, match=r"^replicate: expected a bool, got int$"):
        keyed_loader(store, 4, {"action": [0.0]}, device="cpu", replicate=0)  # type: ignore[arg-type]
    fewest = min(len(make(store, rank, 3).dataset) for rank in range(3))
    with pytest.raises(
        ValueError,
        match=rf"^batch_size: expected at most {fewest} with drop_last=True, {fewest} samples for "
        rf"the rank with the fewest, got {fewest + 1}$",
    ):
        make(store, 0, 3, batch_size=fewest + 1, drop_last=True)
