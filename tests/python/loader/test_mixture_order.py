"""The order of mixtures against the plain reference: by weight, by rank, and resumed."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from itertools import islice
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_mixtures import KEYS, arm, counts, humanoid, indices, mix, small
from loader_stores import write_humanoid, write_store
from support import assert_same_bits

import robocache as rc
from robocache.loader.mixture.parts import check_weights, make_thresholds


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture")
    return write_store(folder / "arm", episodes=3, seed=1), write_humanoid(folder / "humanoid")


# ---- what is drawn -------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
def test_epochs_are_the_references(stores: Any, device: str, drop_last: bool) -> None:
    mixture = mix(stores, device, seed=2**64 - 1, drop_last=drop_last)
    drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(mixture))
    drawn = plain.draw(100, 8, seed=2**64 - 1, drop_last=drop_last, mixture=drawing)
    assert len(mixture) == (12 if drop_last else 13)
    for _ in range(2):
        assert [indices(b) for b in mixture] == [
            d.indices for d in islice(drawn, len(mixture))
        ]  # fmt: skip


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 2**70) | st.floats(0, 1e300), min_size=1, max_size=6).filter(any),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**62),
    st.integers(1, 2**62),
)
def test_any_weights(
    stores: Any, weights: list[float], seed: int, epoch: int, samples: int
) -> None:
    loaders = [small(stores[0]), small(stores[0], episodes=[1])] * 3
    mixture = rc.Loader.mixture(loaders[: len(weights)], weights, samples, 64, seed=seed)
    state = mixture.state_dict()
    mixture.load_state_dict(state | {"epoch": epoch, "position": samples // 2})
    drawing = plain.Mixture([Fraction(w) for w in weights], counts(mixture))
    drawn = plain.draw(samples, 64, seed=seed, epoch=epoch, position=samples // 2, mixture=drawing)
    for _ in range(2):
        assert indices(mixture.next()) == next(drawn).indices


def test_parts_come_by_weight(stores: Any) -> None:
    """Counts are binomial: five deviations off is a chance of one in a million."""
    weights = [0.5, 0, 1.5, 3]
    loaders = [
        small(stores[0]),
        small(stores[1]),
        small(stores[1]),
        small(stores[0], tasks="task 1"),
    ]
    samples = 50_000
    mixture = rc.Loader.mixture(loaders, weights, samples, samples)
    batch = mixture.next()
    seen = np.bincount(batch["dataset_index"].numpy(), minlength=4)
    for n, weight in zip(seen, weights, strict=True):
        p = weight / 5
        assert abs(n - samples * p) <= 5 * np.sqrt(samples * p * (1 - p))
    for part, n in zip(mixture.parts, seen, strict=True):
        if n == 0:
            continue
        of_anchor = np.bincount(batch["index"].numpy())[part.indices.start : part.indices.stop]
        mean = n / len(part.indices)
        chi2 = float(((of_anchor - mean) ** 2 / mean).sum())
        degrees = len(part.indices) - 1
        assert abs(chi2 - degrees) < 5 * np.sqrt(2 * degrees)


@pytest.mark.parametrize("none", [0, 1, 2])
def test_no_weight_is_never_drawn(stores: Any, none: int) -> None:
    weights = [1e-3, 5, 5]
    weights[none] = 0
    mixture = rc.Loader.mixture([small(stores[0])] * 3, weights, 2000, 2000)
    assert none not in mixture.next()["dataset_index"].tolist()
    assert mixture.gather(mixture.parts[none].indices)["dataset_index"].unique().tolist() == [none]


@given(st.lists(st.fractions(0, 10) | st.floats(0, 1e9), min_size=1, max_size=20).filter(any))
def test_thresholds_are_exact(weights: list[Any]) -> None:
    shares = check_weights(weights, len(weights))
    assert sum(shares) == 1
    thresholds = make_thresholds(shares)
    exact = [Fraction(w) for w in weights]
    for m, threshold in enumerate(thresholds):
        assert threshold == 2**64 * sum(exact[: m + 1]) // sum(exact)
    assert thresholds[-1] == 2**64 and not any(weights[len(thresholds) :])


def test_weights_of_any_kind() -> None:
    third = [Fraction(1, 3), Fraction(2, 3)]
    for weights in ([1, 2], (0.5, 1.0), np.array([3, 6], np.uint8), torch.tensor([0.25, 0.5]),
                    [np.float32(2), np.int64(4)], third):  # fmt: skip
        assert check_weights(weights, 2) == third
    if np.isfinite(np.longdouble("1e4000")):  # where it is wider than float64
        large, small = check_weights([np.longdouble("1e4000"), 1], 2)
        assert large + small == 1 and 0 < small < Fraction(1, 10**3999)


# ---- ranks and states ----------------------------------------------------------------------------


def test_ranks_take_places_in_turn(stores: Any, device: str) -> None:
    whole = [i for batch in mix(stores, device, batch_size=100) for i in indices(batch)]
    taken: dict[int, int] = {}
    for rank in range(3):
        part = mix(stores, device, rank=rank, world_size=3)
        drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(part))
        drawn = plain.draw(100, 8, rank=rank, ranks=3, mixture=drawing)
        place = rank
        for batch in part:
            assert indices(batch) == next(drawn).indices
            for index in indices(batch):
                assert place not in taken
                taken[place] = index
                place += 3
    assert [taken[place] for place in sorted(taken)] == whole and sorted(taken) == list(range(100))


def test_resumed_on_other_ranks(stores: Any, device: str) -> None:
    """The global order stays, and with the same global batch the batches are the same bits."""
    one = mix(stores, device, seed=3)
    for _ in range(4):
        one.next()
    state = json.loads(json.dumps(one.state_dict()))
    assert all(type(value) is int for value in state.values())
    parts = [mix(stores, device, seed=3, batch_size=4, rank=r, world_size=2) for r in range(2)]
    for part in parts:
        part.load_state_dict(state)
    for _ in range(3):
        expected, (a, b) = one.next(), (part.next() for part in parts)
        for key in expected:
            together = torch.stack([a[key], b[key]], 1).flatten(0, 1)
            assert_same_bits(together.cpu(), expected[key].cpu(), key)


def test_pickles(stores: Any, device: str) -> None:
    mixture = mix(stores, device, concat={"obs": ["joints"]}, name="two")
    mixture.next()
    other = pickle.loads(pickle.dumps(mixture))
    assert str(other) == str(mixture) and other.name == "two"
    for _ in range(2):
        expected, got = mixture.next(), other.next()
        for key, values in expected.items():
            assert_same_bits(got[key].cpu(), values.cpu(), key)


def test_set_epoch(stores: Any, device: str) -> None:
    mixture = mix(stores, device)
    mixture.set_epoch(5)
    drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(mixture))
    assert indices(mixture.next()) == next(plain.draw(100, 8, epoch=5, mixture=drawing)).indices


def test_states_of_others_are_refused(stores: Any) -> None:
    state = mix(stores, "cpu").state_dict()
    mix(stores, "cpu", weights=[2, 5]).load_state_dict(state)  # the same shares
    mix(stores, "cpu", batch_size=3, drop_last=True).load_state_dict(state)
    for options in ({"weights": [2, 4]}, {"weights": [0, 1]}):
        with pytest.raises(
            ValueError,
            match=r"^state\['fingerprint'\]: expected \d+, got \d+ \(th",
        ):
            mix(stores, "cpu", **options).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['samples'\]: expected 99, got 100 \(the state"):
        mix(stores, "cpu", samples=99).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['shuffle'\]|^state\['samples'\]"):
        arm(stores[0], "cpu").load_state_dict(state)
    swapped = rc.Loader.mixture(
        [humanoid(stores[1], "cpu"), arm(stores[0], "cpu")], [2.5, 1], 100, 8, keys=KEYS[::-1]
    )
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]"):
        swapped.load_state_dict(state)
