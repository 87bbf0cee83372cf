"""The order of samples: epochs, ranks, states, against the reference's drawing."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_options import keyed_loader
from loader_stores import write_store
from support import assert_same_bits, needs_gpu

import robocache as rc
from robocache.loader.plan import permute
from robocache.loader.sampling.sampler import Order


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("order") / "store", episodes=2)


def make(store: rc.EpisodeStore, batch_size: int = 8, **options: Any) -> rc.Loader:
    return keyed_loader(store, batch_size, {"action": [0.0, 0.02]}, **options)


def indices(batch: dict[str, torch.Tensor]) -> list[int]:
    return [int(i) for i in batch["index"].tolist()]


# ---- the permutation -----------------------------------------------------------------------------


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**40),
    st.one_of(st.integers(1, 100), st.integers(1, 2**62)),
    st.data(),
)
def test_permutation_is_the_references(seed: int, epoch: int, count: int, data: Any) -> None:
    place = data.draw(st.integers(0, count - 1))
    assert permute(seed, epoch, count, place) == plain.permute(seed, epoch, count, place)


# ---- epochs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_epochs_are_the_references(
    store: rc.EpisodeStore, device: str, shuffle: bool, drop_last: bool
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": 11}
    loader = make(store, 8, device=device, **options)
    count = len(loader.dataset)
    drawn = plain.draw(count, 8, **options)
    for epoch in range(3):
        expected = [d.indices for d in islice(drawn, len(loader))]
        got = [indices(batch) for batch in loader]
        assert got == expected, epoch
        if not drop_last:
            assert sorted(i for batch in got for i in batch) == list(range(count))


def test_next_goes_on_for_ever(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, 8, device=device)
    drawn = plain.draw(len(loader.dataset), 8)
    for _ in range(2 * len(loader) + 3):
        assert indices(loader.next()) == next(drawn).indices


def test_a_broken_loop_goes_on(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, 8, device=device)
    first = [indices(batch) for _, batch in zip(range(2), loader, strict=False)]
    rest = [indices(batch) for batch in loader]
    whole = [d.indices for d in islice(plain.draw(len(loader.dataset), 8), len(loader))]
    assert first == whole[:2] and rest == whole[2:]


def test_a_batch_larger_than_the_epoch(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, 10**6, device=device)
    assert len(loader) == 1
    assert [len(batch["index"]) for batch in loader] == [len(loader.dataset)]


def test_set_epoch(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, 8, device=device, seed=3)
    loader.next()
    loader.set_epoch(0)  # already there: stays
    assert loader.state_dict()["position"] == 8
    loader.set_epoch(5)
    expected = next(plain.draw(len(loader.dataset), 8, seed=3, epoch=5))
    assert indices(loader.next()) == expected.indices


# ---- ranks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_ranks_are_the_references(
    store: rc.EpisodeStore, device: str, ranks: int, drop_last: bool
) -> None:
    options: dict[str, Any] = {"drop_last": drop_last, "seed": 2}
    seen: list[int] = []
    for rank in range(ranks):
        loader = make(store, 4, device=device, rank=rank, world_size=ranks, **options)
        count = len(loader.dataset)
        drawn = plain.draw(count, 4, rank=rank, ranks=ranks, **options)
        batches = [indices(batch) for batch in loader]
        assert batches == [d.indices for d in islice(drawn, len(loader))]
        seen += [i for batch in batches for i in batch]
    assert len(seen) == len(set(seen))
    assert count - len(seen) < (ranks * 4 if drop_last else ranks)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 9), st.booleans(), st.integers(0, 8))
def test_sizes_are_the_references(
    samples: int, batch_size: int, ranks: int, drop_last: bool, rank: int
) -> None:
    order = Order(samples, batch_size, 0, True, drop_last, min(rank, ranks - 1), ranks)
    if samples < order.least:
        return
    drawn = plain.draw(samples, batch_size, drop_last=drop_last, rank=order.rank, ranks=ranks)
    epoch = position = 0
    for _ in range(2 * order.batches):
        expected = next(drawn)
        assert (epoch, position) == (expected.epoch, expected.position)
        assert order.size(position) == len(expected.indices)
        epoch, position = order.after(epoch, position)
    assert (epoch, position) == (2, 0)


# ---- states --------------------------------------------------------------------------------------


def test_resumed_in_the_middle_of_an_epoch(store: rc.EpisodeStore, device: str) -> None:
    whole = make(store, 8, device=device, seed=4)
    batches = [whole.next() for _ in range(3 * len(whole))]
    for stop in (0, 1, 5, len(whole) - 1, len(whole), len(whole) + 2):
        loader = make(store, 8, device=device, seed=4)
        for _ in range(stop):
            loader.next()
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = make(store, 8, device=device, seed=4)
        resumed.load_state_dict(state)
        for expected in batches[stop : stop + 4]:
            got = resumed.next()
            for key, value in expected.items():
                assert_same_bits(got[key].cpu(), value.cpu(), key)


def test_resumed_on_other_ranks(store: rc.EpisodeStore, device: str) -> None:
    """The global order stays, and with the same global batch the batches are the same bits."""
    one = make(store, 8, device=device, seed=4)
    for _ in range(3):
        one.next()
    state = one.state_dict()
    parts = [make(store, 4, device=device, seed=4, rank=r, world_size=2) for r in range(2)]
    for part in parts:
        part.load_state_dict(state)
    for _ in range(2):
        expected, (a, b) = one.next(), (part.next() for part in parts)
        for key in expected:
            together = torch.stack([a[key], b[key]], 1).flatten(0, 1)
            assert_same_bits(together.cpu(), expected[key].cpu(), key)


def test_a_rest_that_is_too_small_for_the_ranks_is_left(store: rc.EpisodeStore) -> None:
    loader = make(store, 8, device="cpu")
    count = len(loader.dataset)
    loader.load_state_dict(loader.state_dict() | {"position": count - 1})
    assert len(indices(loader.next())) == 1
    other = make(store, 8, device="cpu", rank=0, world_size=2)
    other.load_state_dict(loader.state_dict() | {"epoch": 0, "position": count - 1})
    assert other.state_dict()["epoch"] == 1


def test_states_of_others_are_refused(store: rc.EpisodeStore, tmp_path: Any) -> None:
    loader = make(store, 8, device="cpu", seed=1)
    state = loader.state_dict()
    assert all(type(value) is int for value in state.values())
    with pytest.raises(ValueError, match=r"^state\['seed'\]: expected 2, got 1$"):
        make(store, 8, device="cpu", seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['shuffle'\]: expected 0, got 1$"):
        make(store, 8, device="cpu", seed=1, shuffle=False).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['samples'\]: expected 25, got 57 \(the sta"):
        make(store, 8, device="cpu", seed=1, episodes=[0]).load_state_dict(state)
    other = write_store(tmp_path / "other", episodes=2, seed=5)  # whose times of action are these
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]: expected \d+, got \d+ \(shard"):
        make(other, 8, device="cpu", seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: expected version, seed, .*, got none of seed"):
        loader.load_state_dict({k: v for k, v in state.items() if k != "seed"})
    with pytest.raises(TypeError, match=r"^state: expected a dict, got list$"):
        loader.load_state_dict([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^state\['position'\]: expected 0 to"):
        loader.load_state_dict(state | {"position": 10**9})
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]: expected \d+, got 1 \(another"):
        loader.load_state_dict(state | {"fingerprint": 1})
    assert indices(loader.next()) == next(plain.draw(len(loader.dataset), 8, seed=1)).indices


# ---- a graph -------------------------------------------------------------------------------------


@needs_gpu
def test_a_captured_graph_goes_on(store: rc.EpisodeStore) -> None:
    options: dict[str, Any] = {"device": "cuda", "drop_last": True, "seed": 6}
    loader = make(store, 8, reuse_buffers=True, **options)
    expected = [indices(batch) for batch in islice(iter(make(store, 8, **options)), 6)]
    assert indices(loader.next()) == expected[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = loader.next()
    for i in range(1, 4):
        graph.replay()
        assert indices(batch) == expected[i]
    assert loader.state_dict()["position"] == 4 * 8
    assert indices(loader.next()) == expected[4]
    graph.replay()
    assert indices(batch) == expected[5]


@needs_gpu
def test_graphs_that_could_not_go_on_are_refused(store: rc.EpisodeStore) -> None:
    for options, name in (({}, "drop_last"), ({"transforms": [lambda b, g: b]}, "transforms")):
        loader = make(store, 8, device="cuda", reuse_buffers=True, **options)
        loader.next()
        with (
            pytest.raises(RuntimeError, match=f"^{name}: expected .* of a loader in a CUDA graph"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            loader.next()


def test_a_state_after_a_capture_is_the_devices(store: rc.EpisodeStore) -> None:
    """On a CPU the launch that a capture records runs at once, as the graph's replay would."""
    loader = make(store, 8, device="cpu", drop_last=True)
    loader._draw(is_capturing=True)
    assert loader.state_dict()["position"] == 8
    assert loader.stats().batches == 0


def test_a_graph_from_a_position_that_leaves_a_smaller_batch(store: rc.EpisodeStore) -> None:
    count = len(make(store, 8, device="cpu").dataset)
    loader = make(store, count, device="cpu")
    loader._sampler_state.check_capture()
    loader.load_state_dict(loader.state_dict() | {"position": 1})
    with pytest.raises(RuntimeError, match=r"^drop_last: expected True of a loader in a CUDA"):
        loader._sampler_state.check_capture()


@settings(max_examples=20)
@given(st.integers(0, 2**64 - 1))
def test_any_seed(seed: int) -> None:
    order = [permute(seed, 0, 37, place) for place in range(37)]
    assert sorted(order) == list(np.arange(37))
