"""Mixtures that can't be: messages that say what to do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, write_humanoid, write_store

import robocache as rc
from robocache.loader.foreign_options import ADVICE, MIXTURE_ADVICE


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture-errors")
    return write_store(folder / "arm", episodes=2), write_humanoid(folder / "humanoid", episodes=2)


ARM: dict[str, Any] = {"delta_timestamps": {"action": [0.0, 0.02], "state": [0.0, 0.02]}}
HUMANOID: dict[str, Any] = {"delta_timestamps": {"action": [0.0, 0.04]}}


def transform(batch: Any, generator: torch.Generator) -> Any:
    return batch


# Options of the first loader, of the second, and of the mixture.
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], type[Exception], str]] = [
    # ---- loaders
    ({}, {}, {"loaders": []}, ValueError, "loaders: expected at least 1, got none"),
    ({}, {}, {"loaders": 3}, TypeError, "loaders: expected a list of rc.Loader, got int"),
    ({}, {}, {"loaders": ["arm.store"]}, TypeError, "loaders[0]: expected a rc.Loader, got str"),
    ({"with_age": True}, {}, {}, ValueError,
     "loaders[1]: expected with_age=True like loaders[0], got False"),
    ({}, {"transforms": [transform]}, {}, ValueError,
     "loaders[1]: expected a loader without transforms, got one with them (Loader.mixture has "
     "transforms=)"),
    ({"concat": {"obs": ["state"]}}, {}, {}, ValueError,
     "loaders[0]: expected a loader without concat, got one with them (Loader.mixture has "
     "concat=)"),
    ({}, {"budget": {"ram": "1GB"}}, {}, ValueError,
     "loaders[1]: expected a loader without budget, got one with it (all streams of a mixture live "
     "on its device)"),
    ({}, {"finish": dict}, {}, ValueError,
     "loaders[1]: expected a loader with batches of its own, got one with those of another library "
     "(rc.Loader(loader.store, ...) makes one of the same data set)"),
    # ---- weights and samples
    ({}, {}, {"weights": 1}, TypeError, "weights: expected a list of numbers, got 1"),
    ({}, {}, {"weights": "12"}, TypeError, "weights: expected a list of numbers, got '12'"),
    ({}, {}, {"weights": [1, 2, 3]}, ValueError,
     "weights: expected 2, one for each loader, got 3"),
    ({}, {}, {"weights": [1, "2"]}, TypeError, "weights[1]: expected a number, got str"),
    ({}, {}, {"weights": [True, 1]}, TypeError, "weights[0]: expected a number, got bool"),
    ({}, {}, {"weights": [1, -0.5]}, ValueError,
     "weights[1]: expected a finite number, 0 or more, got -0.5"),
    ({}, {}, {"weights": [float("nan"), 1]}, ValueError,
     "weights[0]: expected a finite number, 0 or more, got nan"),
    ({}, {}, {"weights": [1, float("inf")]}, ValueError,
     "weights[1]: expected a finite number, 0 or more, got inf"),
    ({}, {}, {"weights": [0, 0.0]}, ValueError,
     "weights: expected one above 0, got zeros alone"),
    ({}, {}, {"samples": 0}, ValueError, f"samples: expected 1 to {2**62}, got 0"),
    ({}, {}, {"samples": 2**63}, ValueError, f"samples: expected 1 to {2**62}, got {2**63}"),
    ({}, {}, {"samples": 10.0}, TypeError, "samples: expected an int, got float"),
    ({}, {}, {"samples": 3, "rank": 0, "world_size": 4}, ValueError,
     "world_size: expected at most the 3 samples, got 4"),
    ({}, {}, {"samples": 3, "drop_last": True}, ValueError,
     "batch_size: expected at most 3 with drop_last=True, 3 samples and 1 ranks, got 4"),
    ({}, {}, {"drop_last": 1}, TypeError, "drop_last: expected a bool, got int"),
    ({}, {}, {"name": 3}, TypeError, "name: expected a str, got int"),
    # ---- keys
    ({}, {}, {"keys": {"action": "a"}}, TypeError,
     "keys: expected a mapping for each loader, as in [{'qpos': 'state'}, {}], got dict"),
    ({}, {}, {"keys": [{}]}, ValueError, "keys: expected 2, one for each loader, got 1"),
    ({}, {}, {"keys": [{}, None]}, TypeError,
     "keys[1]: expected a mapping, as in {'qpos': 'state'}, got None"),
    ({}, {}, {"keys": [{}, {"qpos": "state"}]}, ValueError,
     "keys[1]: expected action, got 'qpos'"),
    ({}, {}, {"keys": [{}, {"action": 1}]}, TypeError,
     "keys[1]['action']: expected a key, got 1"),
    ({}, {}, {"keys": [{"state": "action"}, {}]}, ValueError,
     "keys[0]: expected a key for each stream, got 'action' of 'action' and of 'state'"),
    ({}, {}, {"keys": [{"state": "action_is_pad"}, {}]}, ValueError,
     "keys: expected keys that are no stream's mask or age, got 'action_is_pad' beside 'action'"),
    ({}, {}, {"keys": [{"state": "action_dim_is_pad"}, {}]}, ValueError,
     "keys: expected keys that are no stream's mask or age, got 'action_dim_is_pad' beside "
     "'action'"),
    # ---- windows
    ({"delta_timestamps": {"action": None}}, {}, {}, ValueError,
     "loaders[1]: action: expected no axis of steps like loaders[0], got 2 steps (a name of its "
     "own in keys= keeps it apart)"),
    ({"delta_timestamps": {"action": [0.0]}}, {}, {}, ValueError,
     "loaders[1]: action: expected 1 steps like loaders[0], got 2 (a name of its own in keys= "
     "keeps it apart)"),
    ({}, {"dtype": torch.bfloat16}, {}, ValueError,
     "loaders[1]: action: expected float32 like loaders[0], got bfloat16 "
     "(rc.Window(dtype=) changes it)"),
    ({"delta_timestamps": {"camera": None}}, {"delta_timestamps": {"camera": None},
      "channels_first": True, "dtype": torch.float32}, {}, ValueError,
     "loaders[1]: camera: expected uint8 like loaders[0], got float32 "
     "(rc.Window(dtype=) changes it)"),
    ({"delta_timestamps": {"camera": None}, "dtype": torch.float32},
     {"delta_timestamps": {"camera": None}, "channels_first": True}, {}, ValueError,
     "loaders[1]: camera: expected rows of shape [4, 6, 3] like loaders[0], got [3, 4, 6] "
     "(rc.Window(image=rc.Image(resize=...)) makes them alike; a name of its own in keys= keeps it "
     "apart)"),
    ({"delta_timestamps": {"gripper": None}}, {"delta_timestamps": {"counter": None}},
     {"keys": [{}, {"counter": "gripper"}]}, ValueError,
     "loaders[1]: gripper: expected bool like loaders[0], got int64 (a name of its own in keys= "
     "keeps it apart)"),
    ({"delta_timestamps": {"camera": [0.0, 0.1]}}, {"dtype": torch.uint8},
     {"keys": [{"camera": "action"}, {}]}, ValueError,
     "loaders[1]: action: expected rows of shape [4, 6, 3] like loaders[0], got [9] "
     "(rc.Window(image=rc.Image(resize=...)) makes them alike; a name of its own in keys= keeps it "
     "apart)"),
    # ---- side by side
    ({}, {}, {"concat": {"obs": ["qpos"]}}, ValueError,
     "concat['obs']: expected streams of the batch (action, state), got 'qpos'"),
    ({}, {}, {"concat": {"dataset_index": ["action"]}}, ValueError,
     "concat: expected keys that the batch has not, got 'dataset_index'"),
    ({}, {}, {"concat": {"action_dim_is_pad": ["action"]}}, ValueError,
     "concat: expected keys that the batch has not, got 'action_dim_is_pad'"),
    ({"delta_timestamps": {"action": [0.0, 0.02], "state": [0.0, 0.04]}}, {},
     {"concat": {"obs": ["action", "state"]}}, ValueError,
     "loaders[0]: concat['obs']: expected the offsets of 'action', got others of 'state'"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two", "options", "kind", "message"), CASES,
                         ids=[case[4][:60] for case in CASES])  # fmt: skip
def test_messages(
    stores: Any,
    one: dict[str, Any],
    two: dict[str, Any],
    options: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    loaders = [
        keyed_loader(stores[0], **({"batch_size": 4, "device": "cpu"} | ARM | one)),
        keyed_loader(stores[1], **({"batch_size": 4, "device": "cpu"} | HUMANOID | two)),
    ]
    arguments = {"loaders": loaders, "weights": [1, 2], "samples": 10, "batch_size": 4} | options
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        rc.Loader.mixture(**arguments)


def test_a_mixture_of_mixtures(stores: Any) -> None:
    loader = rc.Loader(stores[0], 4, {"action": None}, device="cpu")
    mixture = rc.Loader.mixture([loader], [1], 10, 4)
    with pytest.raises(
        ValueError,
        match=r"^loaders\[1\]: expected a loader of one store, got a mixture \(its loaders can be "
        r"mixed with the others\)$",
    ):
        rc.Loader.mixture([loader, mixture], [1, 1], 10, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Loader.mixture() missing 1 required positional argument: 'batch_size'"),
        ({"batch_size": 4, "shuffle": True},
         "shuffle: expected an option of rc.Loader.mixture, got 'shuffle' (samples are drawn at "
         "random: weights= and seed= decide which)"),
        ({"batch_size": 4, "device": "cpu"},
         "device: expected an option of rc.Loader.mixture, got 'device' (it is an option of each "
         "of the loaders: rc.Loader(..., device=...))"),
        ({"batch_size": 4, "num_workers": 2},
         "num_workers: expected an option of rc.Loader.mixture, got 'num_workers' (a launch on the "
         "device makes a whole batch, and no worker processes are needed)"),
        ({"batch_size": 4, "key": [{}]},
         "key: expected an option of rc.Loader.mixture, got 'key' (did you mean keys=?)"),
        ({"batch_size": 4, "flavor": 1},
         "flavor: expected an option of rc.Loader.mixture, got 'flavor' (help(rc.Loader.mixture) "
         "lists all)"),
    ],
)  # fmt: skip
def test_options_that_mixtures_lack(stores: Any, options: dict[str, Any], message: str) -> None:
    """Messages name the function that the user called."""
    loader = rc.Loader(stores[0], 4, {"action": None}, device="cpu")
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        rc.Loader.mixture([loader], [1], 10, **options)


def test_every_option_of_loaders_has_advice() -> None:
    own = set(inspect.signature(rc.Loader.mixture).parameters)
    for name in (*inspect.signature(rc.Loader).parameters, *ADVICE):
        assert name in own or name in MIXTURE_ADVICE, name
    assert not own & set(MIXTURE_ADVICE)


@pytest.mark.parametrize("name", ["store", "normalization", "relative"])
def test_attributes_of_one_store(stores: Any, name: str) -> None:
    mixture = rc.Loader.mixture(
        [rc.Loader(stores[0], 4, {"action": None}, device="cpu")], [1], 10, 4
    )
    message = (
        f"{name}: expected a loader of one store, got a mixture (mixture.parts[i].{name} is that "
        "of its loader i)"
    )
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
        getattr(mixture, name)
    assert not hasattr(mixture, name)
    with pytest.raises(AttributeError, match=r"^'Mixture' object has no attribute 'stores'$"):
        mixture.stores  # noqa: B018


def split(store: rc.EpisodeStore, ranks: int, count: int) -> Any:
    """A mixture of `count` loaders of a split store, and of one of the whole store."""
    own = {"rank": 0, "world_size": ranks}
    loaders = [
        rc.Loader(store, 4, {"action": None}, device="cpu",
                  episodes=rc.Episodes(replicate=False), **own)
        for _ in range(count)
    ] + [rc.Loader(store, 4, {"action": None}, device="cpu")]  # fmt: skip
    return rc.Loader.mixture(loaders, [1] * len(loaders), 10, 4, **own)


@pytest.mark.parametrize("count", [1, 2])
def test_split_stores_go_on_with_as_many_ranks(stores: Any, count: int) -> None:
    state = split(stores[0], 2, count).state_dict()
    split(stores[0], 2, count).load_state_dict(state)
    message = (
        "(the state was saved with another value of world_size (with rc.Episodes(replicate=False) "
        "a mixture goes on with the same number of ranks only))"
    )
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        split(stores[0], 1, count).load_state_dict(state)


def test_split_stores_have_the_ranks_of_the_mixture(stores: Any) -> None:
    loader = rc.Loader(
        stores[0], 4, {"action": None}, device="cpu", rank=1, world_size=2,
        episodes=rc.Episodes(replicate=False),
    )  # fmt: skip
    message = (
        "loaders[0]: expected a store that is split like the mixture's rank 0 of 1, got one of "
        "rank 1 of 2 (with rc.Episodes(replicate=False), give the loader and the mixture the same "
        "rank= and world_size=)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rc.Loader.mixture([loader], [1], 10, 4)


def test_loaders_on_several_devices(stores: Any) -> None:
    loaders = [rc.Loader(stores[0], 4, {"action": None}, device="cpu") for _ in range(2)]
    loaders[1].device = torch.device("cuda", 1)
    with pytest.raises(
        ValueError, match=r"^loaders\[1\]: expected device cpu like loaders\[0\], got cuda:1$"
    ):
        rc.Loader.mixture(loaders, [1, 1], 10, 4)


def test_at_most_64_windows(stores: Any) -> None:
    loaders = [
        rc.Loader(stores[0], 4, {"action": None}, device="cpu"),
        rc.Loader(stores[1], 4, {"action": None}, device="cpu"),
    ] * 25
    # 25 of them are narrower, none beside another such: 50 + 25 + 1.
    with pytest.raises(
        ValueError, match=r"^loaders: expected at most 64 windows in all, got 76: .* 50 loaders, .*"
    ):
        rc.Loader.mixture(loaders, [1] * 50, 10, 4)
    # Side by side their zeros are one stream: 62 + 1 + 1.
    many = loaders[0::2] + loaders[0:12:2] + loaders[1::2] + loaders[1:12:2]
    mixture = rc.Loader.mixture(many, [1] * 62, 500, 500)
    batch = mixture.next()
    assert set(batch["dataset_index"].tolist()) == set(range(62))
    widths = (~batch["action_dim_is_pad"]).sum(1)
    assert torch.equal(widths == 5, batch["dataset_index"] < 31)


def test_rows_that_are_numbers(tmp_path: Path) -> None:
    """Beside vectors: another number of axes."""
    for name, width in (("a", ()), ("b", (1,))):
        with rc.StoreWriter(tmp_path / name) as writer, writer.episode() as episode:
            episode.add("x", np.arange(3) * MS, np.zeros((3, *width), np.float32))
    loaders = [rc.Loader(tmp_path / name, 2, device="cpu") for name in "ab"]
    with pytest.raises(
        ValueError,
        match=r"^loaders\[1\]: x: expected rows of shape \[\] like loaders\[0\], got \[1\] \(a ",
    ):
        rc.Loader.mixture(loaders, [1, 1], 10, 4)
