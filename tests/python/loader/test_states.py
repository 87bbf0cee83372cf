"""States and pickles after a store has changed: which ones go on, and what the errors name."""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import assert_same_batch

import robocache as rc

MS = 1_000_000


def append(folder: Path, episodes: int, tasks: str = "pour", subset: str = "train") -> Path:
    """Appends episodes of 10 rows, each a shard of its own."""
    exists = (folder / "manifest.json").exists()
    with rc.StoreWriter(folder, append=exists, shard_bytes=1) as writer:
        for _ in range(episodes):
            with writer.episode(task=tasks, subsets=[subset]) as episode:
                rows = np.arange(10)
                episode.add("joints", rows * 20 * MS, rows[:, None].astype(np.float32))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return append(tmp_path / "robot.store", 4)


def make(folder: Path, episodes: Any = None, **options: Any) -> rc.Loader:
    windows = {"joints": [-0.02, 0.0]}
    return rc.Loader(folder, 3, windows, episodes=episodes, device="cpu", seed=7, **options)


def mix(folders: list[Path], *choices: Any, **options: Any) -> rc.Loader:
    loaders = [make(folder, choice) for folder, choice in zip(folders, choices, strict=True)]
    options = {"weights": [1, 2], "samples": 30} | options
    return rc.Loader.mixture(loaders, batch_size=4, **options)


def check_goes_on(loader: rc.Loader, state: dict[str, int], again: rc.Loader) -> None:
    again.load_state_dict(state)
    for _ in range(3):
        assert_same_batch(again.next(), loader.next())


def refused(loader: rc.Loader, state: dict[str, int]) -> str:
    with pytest.raises(ValueError, match=MESSAGE) as caught:
        loader.load_state_dict(state)
    found = re.match(MESSAGE, str(caught.value))
    assert found is not None
    return found[2]


MESSAGE = r"^state\['(samples|fingerprint)'\]: expected \d+, got \d+ \((.*)\)$"
CHOICES = {
    "indices": [0, 2],
    "slice": slice(0, 4),
    "tasks": rc.Episodes(tasks="pour"),
    "subset": rc.Episodes(subset="train"),
    "predicate": rc.Episodes(predicate=lambda episode: episode.index < 4),
}


# ---- appended episodes ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["indices", "slice", "tasks", "subset", "predicate"])
def test_a_state_goes_on_if_the_chosen_episodes_are_the_old_ones(folder: Path, name: str) -> None:
    loader = make(folder, CHOICES[name])
    loader.next()
    state = loader.state_dict()
    append(folder, 3, "stack", "test")
    check_goes_on(loader, state, make(folder, CHOICES[name]))


def test_a_state_of_a_rank_shard_goes_on(folder: Path) -> None:
    def of_rank() -> rc.Loader:
        return make(folder, rc.Episodes(range(4), replicate=False), rank=1, world_size=2)

    loader = of_rank()
    loader.next()
    state = loader.state_dict()
    append(folder, 3)
    check_goes_on(loader, state, of_rank())


def test_a_pickle_goes_on(folder: Path) -> None:
    loader, mixture = make(folder, range(4)), mix([folder, folder], [0], [1, 2])
    for one in (loader, mixture):
        one.next()
    pickled = pickle.dumps((loader, mixture))
    append(folder, 3)
    for one, again in zip((loader, mixture), pickle.loads(pickled), strict=True):
        for _ in range(3):
            assert_same_batch(again.next(), one.next())


def test_a_state_of_a_mixture_goes_on(folder: Path, tmp_path: Path) -> None:
    folders = [folder, append(tmp_path / "other.store", 3)]
    mixture = mix(folders, range(4), [0, 2])
    mixture.next()
    state = mixture.state_dict()
    for each in folders:
        append(each, 2)
    check_goes_on(mixture, state, mix(folders, range(4), [0, 2]))


def test_appended_episodes_are_named(folder: Path) -> None:
    state, of_split = (make(folder, x).state_dict() for x in (None, rc.Episodes(split=SPLIT)))
    pickled = pickle.dumps(make(folder))
    append(folder, 1)
    one = f"1 episode appended since the state was saved, from shard-00004.safetensors of {folder}"
    leave_out = "rc.Episodes(range(4)) leaves them out"
    assert refused(make(folder), state) == f"{one} on; {leave_out}"
    with pytest.raises(ValueError, match=re.escape(f"({one} on; {leave_out})") + "$"):
        pickle.loads(pickled)
    again = make(folder, rc.Episodes(range(4)))
    again.load_state_dict(state)
    append(folder, 2)
    three = one.replace("1 episode ", "3 episodes ")
    assert refused(make(folder), state) == f"{three} on; {leave_out}"
    hint = "rc.Episodes(split=) draws from all episodes"
    assert refused(make(folder, rc.Episodes(split=SPLIT)), of_split) == f"{three} on; {hint}"


SPLIT = ("train", 0.25)


def test_appended_episodes_of_a_mixture_are_named(folder: Path, tmp_path: Path) -> None:
    folders = [folder, append(tmp_path / "other.store", 3)]
    state = mix(folders, None, None).state_dict()
    append(folders[1], 2)
    hint = (
        "2 episodes appended since the state was saved, from shard-00003.safetensors of "
        f"{folders[1]} on; rc.Episodes(range(3)) leaves them out"
    )
    assert refused(mix(folders, None, None), state) == hint
    mix(folders, None, range(3)).load_state_dict(state)


# ---- changed shards and options ------------------------------------------------------------------


def test_a_changed_shard_is_named(folder: Path) -> None:
    loader = make(folder, [0, 2])
    state, of_all = loader.state_dict(), make(folder).state_dict()
    rc.repair(folder, streams=["joints"], episodes=[3], rows=[(2, 4)], progress=False)
    check_goes_on(loader, state, make(folder, [0, 2]))  # of other shards
    hint = f"shard-00004.safetensors of {folder} has other contents than when the state was saved"
    assert refused(make(folder), of_all) == hint
    rc.repair(folder, streams=["joints"], episodes=[0], rows=[(2, 4)], progress=False)
    several = (
        "another store, or several of its shards changed, or episodes were appended, since the "
        "state was saved"
    )
    assert refused(make(folder), of_all) == several


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({}, {"anchor": 100.0}, "anchor"),
        ({"episodes": [0, 1]}, {"episodes": [1, 2]}, "rc.Episodes(indices=)"),
        ({"episodes": slice(1)}, {"episodes": slice(2)}, "rc.Episodes(indices=)"),
        ({}, {"episodes": rc.Episodes(split=SPLIT)}, "rc.Episodes(split=)"),
        (
            {"episodes": rc.Episodes(split=SPLIT)},
            {"episodes": rc.Episodes(split=SPLIT, split_seed=1)},
            "rc.Episodes(split_seed=)",
        ),
        (
            {},
            {"episodes": rc.Episodes(predicate=lambda episode: episode.index == 1)},
            "rc.Episodes(predicate=)",
        ),
        ({}, {"episodes": rc.Episodes(time_ranges=[(0, 0.1)])}, "rc.Episodes(time_ranges=)"),
        (
            {},
            {"episodes": rc.Episodes(drop_n_first_frames=2)},
            "rc.Episodes(drop_n_first_frames=)",
        ),
        ({}, {"episodes": rc.Episodes(drop_n_last_frames=2)}, "rc.Episodes(drop_n_last_frames=)"),
    ],
)
def test_a_changed_option_is_named(
    folder: Path, before: dict[str, Any], after: dict[str, Any], name: str
) -> None:
    state = make(folder, **before).state_dict()
    append(folder, 1, subset="test")
    hint = f"the state was saved with another value of {name}"
    assert refused(make(folder, **after), state) == hint


def test_names_of_tasks_and_subsets(folder: Path) -> None:
    append(folder, 2, "stack", "test")
    for option, values in {"tasks": ("pour", "stack"), "subset": ("train", "test")}.items():
        state = make(folder, rc.Episodes(**{option: values[0]})).state_dict()
        loader = make(folder, rc.Episodes(**{option: values[1]}))
        hint = f"the state was saved with another value of rc.Episodes({option}=)"
        assert refused(loader, state) == hint


def test_changed_options_of_a_mixture_are_named(folder: Path) -> None:
    def changed(**options: Any) -> str:
        return refused(mix([folder, folder], None, options.pop("second", None), **options), state)

    state = mix([folder, folder], None, None).state_dict()
    another = "the state was saved with another value of "
    assert changed(weights=[1, 3]) == another + "weights"
    assert changed(samples=31) == another + "samples"
    assert changed(second=[0]) == another + "rc.Episodes(indices=) of loaders[1]"
    several = "the state was saved with two or more other options that choose samples"
    assert changed(weights=[1, 3], second=[0]) == several


def test_another_predicate(folder: Path) -> None:
    """A function has no value that a state could keep."""
    state = make(folder, rc.Episodes(predicate=lambda episode: episode.index == 1)).state_dict()
    loader = make(folder, rc.Episodes(predicate=lambda episode: episode.index == 2))
    assert refused(loader, state) == "another store, or other options that choose its samples"


def test_other_options_that_choose_the_same_samples(folder: Path) -> None:
    loader = make(folder, [0, 1, 2, 3])
    state = loader.state_dict()
    for choice in (None, slice(4), np.arange(4), rc.Episodes(tasks=["pour"]), torch.arange(4)):
        make(folder, choice).load_state_dict(state)


# ---- states of version 1 -------------------------------------------------------------------------


def first_fingerprint(loader: rc.Loader) -> int:
    """The fingerprint that version 0.1 wrote: of anchors, episodes and all shards."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(loader._plan.anchors.numpy().tobytes())
    digest.update(loader._plan.episodes.numpy().tobytes())
    digest.update("".join(shard.crc32 for shard in loader.store._shards).encode())
    return int.from_bytes(digest.digest(), "little") >> 1


def first_version(state: dict[str, int], fingerprint: int) -> dict[str, int]:
    kept = {name: x for name, x in state.items() if name not in ("options", "shards")}
    return kept | {"version": 1, "fingerprint": fingerprint}


OF_FIRST = (
    "another store, other options that choose its samples, or episodes appended since: states of "
    "version 1 are of all shards of a store"
)


def test_states_of_version_1(folder: Path) -> None:
    loader = make(folder, [0, 1])
    loader.next()
    state = first_version(loader.state_dict(), first_fingerprint(loader))
    assert sorted(state) == [
        "epoch", "fingerprint", "position", "samples", "seed", "shares", "shuffle", "version",
    ]  # fmt: skip
    check_goes_on(loader, state, make(folder, [0, 1]))
    append(folder, 1)
    assert refused(make(folder, [0, 1]), state) == OF_FIRST


def test_states_of_version_1_of_a_mixture(folder: Path) -> None:
    mixture = mix([folder, folder], [0], [1, 2])
    mixture.next()
    loaders = [make(folder, [0]), make(folder, [1, 2])]
    parts = [first_fingerprint(loader) for loader in loaders]
    thresholds = [2**64 // 3, 2**64]
    digest = hashlib.blake2b(repr((parts, thresholds, 30)).encode(), digest_size=8).digest()
    state = first_version(mixture.state_dict(), int.from_bytes(digest, "little") >> 1)
    check_goes_on(mixture, state, mix([folder, folder], [0], [1, 2]))
    append(folder, 1)
    assert refused(mix([folder, folder], [0], [1, 2]), state) == OF_FIRST


# ---- what is no state ----------------------------------------------------------------------------


def test_values_that_are_no_integers(folder: Path) -> None:
    loader = make(folder)
    state: dict[str, Any] = loader.state_dict()
    for name in state:
        for value, kind in ((np.arange(2), "ndarray"), (1.5, "float"), (None, "NoneType")):
            message = f"state[{name!r}]: expected an int, got {kind}"
            with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
                loader.load_state_dict(state | {name: value})
        message = f"state[{name!r}]: expected 0 or more, got -1"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            loader.load_state_dict(state | {name: -1})
    with pytest.raises(ValueError, match=r"^state\['version'\]: expected 2, got 3$"):
        loader.load_state_dict(state | {"version": 3})
    loader.load_state_dict({name: np.int64(value) for name, value in state.items()})
