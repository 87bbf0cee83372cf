"""`Loader` and mixtures are two ways to build one `BatchSource`, and share no other code."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc
from robocache.loader.batch_source import BatchSource
from robocache.loader.mixture.mixture import Mixture

SPECIAL = ("__iter__", "__len__", "__reduce__")
BEHAVIOR = {name for name in vars(BatchSource) if not name.startswith("_") or name in SPECIAL}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("sources") / "store", episodes=3)


def loader(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    return rc.Loader(store, 4, {"joints": [-0.02, 0.0]}, device="cpu", **options)


def test_they_are_batch_sources_and_neither_is_the_other() -> None:
    assert rc.Loader.__bases__ == Mixture.__bases__ == (BatchSource,)
    assert {"next", "gather", "state_dict", "load_state_dict", "set_epoch", "stats"} <= BEHAVIOR


@pytest.mark.parametrize("kind", [rc.Loader, Mixture])
def test_neither_changes_how_batches_are_made(kind: type) -> None:
    assert not BEHAVIOR & set(vars(kind))


def test_a_pickle_has_the_recipe_and_the_state(store: rc.EpisodeStore) -> None:
    mixture = rc.Loader.mixture([loader(store), loader(store, episodes=[0])], [1, 3], 12, 4)
    for source in (loader(store), mixture):
        source.next()
        rebuilt = pickle.loads(pickle.dumps(source))
        assert type(rebuilt) is type(source)
        assert rebuilt.state_dict() == source.state_dict()
        assert_same_batch(rebuilt.next(), source.next())


def test_a_mixture_refuses_what_a_loader_of_one_store_does(store: rc.EpisodeStore) -> None:
    mixture = rc.Loader.mixture([loader(store)], [1], 12, 4)
    messages = {
        "loader: expected a loader of one store, got a mixture (each of its loaders has a "
        "normalizer)": [mixture.normalizer, lambda: rc.Normalizer.from_loader(mixture)],
        "loader: expected a loader of one store, got a mixture (each of its loaders has "
        "statistics)": [
            lambda: rc.compute_stats(mixture)  # type: ignore[arg-type]
        ],
        "loaders[0]: expected a loader of one store, got a mixture (its loaders can be mixed with "
        "the others)": [lambda: rc.Loader.mixture([mixture], [1], 12, 4)],
    }
    for message, calls in messages.items():
        for call in calls:
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                call()


def test_the_normalizer_of_a_loader(store: rc.EpisodeStore) -> None:
    one = loader(store, normalize={"joints": "min_max"})
    assert one.normalizer().normalization.keys() == {"joints"}
    assert rc.Normalizer.from_loader(one).normalization.keys() == {"joints"}


def test_a_transform_returns_the_batch(store: rc.EpisodeStore) -> None:
    def forgets(batch: Any, generator: Any) -> None:
        batch["joints"] *= 2

    message = "transforms: expected a function that returns the batch, a dict, got NoneType of "
    with pytest.raises(TypeError, match=f"^{re.escape(message + repr(forgets))}$"):
        loader(store, transforms=[forgets]).next()
