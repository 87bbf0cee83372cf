"""First attempts of users of torch's and LeRobot's loaders: they work, or the error helps."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store
from torch.utils.data import DataLoader, IterableDataset

import robocache as rc
from robocache.loader.foreign_options import (
    ADVICE,
    EPISODES_OPTIONS,
    LOADER_OPTIONS,
    SPEC_OPTIONS,
    WINDOW_OPTIONS,
    refuse_foreign,
)

# The parameters of LeRobotDataset.__init__ in LeRobot 0.3.3 and 0.4.4.
LEROBOT = (
    "repo_id", "root", "episodes", "image_transforms", "delta_timestamps", "tolerance_s",
    "revision", "force_cache_sync", "download_videos", "video_backend", "batch_encoding_size",
    "vcodec",
)  # fmt: skip
WHOLE_BATCHES = (
    "batch_size: expected None of a DataLoader around a Loader, whose items are whole batches, got "
    "a size (DataLoader(loader, batch_size=None), or iterate over the loader itself; "
    "rc.Loader(batch_size=) is how many samples a batch has)"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("foreign") / "store", episodes=2)


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    return rc.Loader(store, 8, {"joints": [-0.05, 0.0]}, device="cpu", **options)


# ---- in a DataLoader -----------------------------------------------------------------------------


class Around(IterableDataset[Any]):
    """A data set around a loader, as accelerate and users write them."""

    def __init__(self, loader: rc.Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Any:
        yield from self.loader


def test_a_data_loader_of_whole_batches(store: rc.EpisodeStore) -> None:
    expected = [batch["index"].tolist() for batch in make(store)]
    for dataset in (make(store), Around(make(store))):
        wrapped = DataLoader(dataset, batch_size=None)
        assert [batch["index"].tolist() for batch in wrapped] == expected
    assert len(expected[0]) == 8


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("wrap", [lambda loader: loader, Around], ids=["loader", "wrapped"])
def test_a_data_loader_that_joins_batches(store: rc.EpisodeStore, size: int, wrap: Any) -> None:
    """It gave [8, 8, ...] without a word."""
    with pytest.raises(ValueError, match=rf"^{re.escape(WHOLE_BATCHES)}$"):
        next(iter(DataLoader(wrap(make(store)), batch_size=size)))


def test_a_data_loader_that_joins_batches_in_workers(store: rc.EpisodeStore) -> None:
    with pytest.raises(ValueError, match=re.escape(WHOLE_BATCHES)):
        next(iter(DataLoader(make(store), batch_size=8, num_workers=2)))


def test_within_another_data_loader(store: rc.EpisodeStore) -> None:
    """A map-style data set whose samples take from a loader of their own is left alone."""
    loader = make(store)

    class Samples(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return next(iter(loader))["joints"][0]

    assert next(iter(DataLoader(Samples(), batch_size=2))).shape == (2, 2, 7)


# ---- options -------------------------------------------------------------------------------------


def test_iterating_keeps_nothing_of_the_caller_alive(store: rc.EpisodeStore) -> None:
    """A look at a caller's locals would hold them until the caller returns (before Python 3.13)."""
    loader = make(store)
    held = torch.zeros(3)
    gone = [weakref.ref(loader), weakref.ref(held)]
    for batch in loader:
        gone.append(weakref.ref(batch["joints"]))
    del loader, held, batch
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)


def test_every_option_of_others_has_an_answer() -> None:
    ours = set(inspect.signature(rc.Loader).parameters) | {"self"}
    for name in (*inspect.signature(DataLoader.__init__).parameters, *LEROBOT):
        assert name in ours or name in ADVICE, name
    assert not ours & set(ADVICE)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num_workers", "a launch on the device makes a whole batch, and no worker processes are "
                        "needed"),
        ("image_transforms", "augment=[rc.ColorJitter(...), ...] has random steps of images"),
        ("pin_memory", "batches are made on device="),
        ("sampler", "shuffle= and seed= decide the order of samples, episodes= which"),
        ("collate_fn", "transforms=[function] changes whole batches"),
        ("repo_id", "the data set is a folder here: hf download --repo-type dataset downloads one"),
        ("batchsize", "did you mean batch_size=?"),
        ("max_gap_s", "it is an option of a window: windows={'state': rc.Window([0.0], "
                      "max_gap_s=...)}"),
        ("split", "it is an option of rc.Episodes: episodes=rc.Episodes(split=...)"),
        ("rate", "anchor= takes a stream or a rate in Hz"),
        ("relative", "rc.Window(relative_to='state') subtracts another stream's value"),
        ("delta_ns", "rc.Window(offsets_ns=[...]) has nanoseconds"),
        ("zzz", "help(rc.Loader) lists all"),
    ],
)  # fmt: skip
def test_options_of_others(store: rc.EpisodeStore, name: str, hint: str) -> None:
    message = rf"^{re.escape(f'{name}: expected an option of rc.Loader, got {name!r} ({hint})')}$"
    with pytest.raises(TypeError, match=message):
        make(store, **{name: 4})
    absent = Path("absent")
    constructors: list[Any] = [
        lambda **given: rc.Loader.from_lerobot(absent, batch_size=1, **given),
        lambda **given: rc.Loader.from_robomimic(absent, 2, batch_size=1, **given),
        lambda **given: rc.Loader.from_diffusion_policy(absent, 2, batch_size=1, **given),
    ]
    for constructor in constructors:  # before anything is opened or converted
        with pytest.raises(TypeError, match=message):
            constructor(**{name: 4})


def test_images_are_an_option_of_from_lerobot_alone(store: rc.EpisodeStore) -> None:
    message = (
        "images: expected an option of rc.Loader, got 'images' (rc.Window(channels_first=True) "
        "gives floats [C,H,W])"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        make(store, images="float")


def test_options_that_a_loader_has() -> None:
    refuse_foreign(rc.Loader, ["seed", "device", "budget"])


MISSPELLED: list[tuple[Any, str, str, str]] = [
    (rc.Window, "rc.Window", "max_gap", "did you mean max_gap_s=?"),
    (rc.Window, "rc.Window", "batch_size", "it is an option of rc.Loader"),
    (rc.Window, "rc.Window", "subset", "it is an option of rc.Episodes"),
    (rc.Window, "rc.Window", "delta_timestamps", "offsets= has seconds"),
    (rc.Window, "rc.Window", "zzz", "help(rc.Window) lists all"),
    (rc.Relative, "rc.Relative", "chanels", "did you mean channels=?"),
    (rc.Episodes, "rc.Episodes", "task", "did you mean tasks=?"),
    (rc.Episodes, "rc.Episodes", "shuffle", "it is an option of rc.Loader"),
    (rc.Episodes, "rc.Episodes", "causal", "it is an option of rc.Window"),
    (rc.Episodes, "rc.Episodes", "seed",
     "split_seed= decides what split= draws; seed= of rc.Loader the order"),
    (rc.Loader, "rc.Loader", "bach_size", "did you mean batch_size=?"),
    (rc.Loader.mixture, "rc.Loader.mixture", "weigths", "did you mean weights=?"),
    (rc.Loader.mixture, "rc.Loader.mixture", "shuffle",
     "samples are drawn at random: weights= and seed= decide which"),
    (rc.Loader.mixture, "rc.Loader.mixture", "windows",
     "it is an option of each of the loaders: rc.Loader(..., windows=...)"),
    (rc.Loader.from_spec, "rc.Loader.from_spec", "sed", "did you mean seed=?"),
    (rc.Loader.from_spec, "rc.Loader.from_spec", "normalize", "the spec decides it"),
    (rc.Loader.from_spec, "rc.Loader.from_spec", "split",
     "it is an option of rc.Episodes: episodes=rc.Episodes(split=...)"),
]  # fmt: skip


@pytest.mark.parametrize(("constructor", "name", "option", "hint"), MISSPELLED)
def test_misspelled_options(constructor: Any, name: str, option: str, hint: str) -> None:
    message = f"{option}: expected an option of {name}, got {option!r} ({hint})"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        constructor(**{option: 1})


@pytest.mark.parametrize(
    ("constructor", "name"),
    [
        (rc.Loader, "Loader.__init__"),
        (rc.Loader.mixture, "Loader.mixture"),
        (rc.Loader.from_spec, "Loader.from_spec"),
    ],
)
def test_messages_of_python_have_the_public_name(constructor: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{re.escape(name)}\(\) missing \d required"):
        constructor()


def test_hints_know_all_options() -> None:
    def names(constructor: Any) -> set[str]:
        return set(inspect.signature(constructor).parameters)

    loader, window, episodes = names(rc.Loader), names(rc.Window), names(rc.Episodes)
    assert set(LOADER_OPTIONS) >= loader - window - episodes - set(SPEC_OPTIONS)
    assert set(LOADER_OPTIONS) | set(SPEC_OPTIONS) <= loader
    assert set(SPEC_OPTIONS) == loader - names(rc.Loader.from_spec)
    assert set(WINDOW_OPTIONS) == window - loader - {"offsets"}
    assert set(EPISODES_OPTIONS) == episodes - loader - {"indices"}


def test_records_with_hints_are_records(store: rc.EpisodeStore) -> None:
    window = rc.Window([0.0], max_gap_s=0.5)
    assert replace(window, causal=False) == rc.Window([0.0], max_gap_s=0.5, causal=False)
    assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window
    assert list(inspect.signature(rc.Episodes).parameters)[:2] == ["indices", "tasks"]


# ---- indices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, "action", slice(0, 2)], ids=repr)
def test_a_loader_has_no_index(store: rc.EpisodeStore, index: Any) -> None:
    message = (
        "Loader: expected no index (loader.dataset[0] is sample 0, loader.gather([0, 7]) a batch "
        f"of samples, loader.next() the next batch, loader.store[0] an episode), got {index!r}"
    )
    with pytest.raises(TypeError, match=rf"^{re.escape(message)}$"):
        make(store)[index]


def test_a_stream_of_a_store(store: rc.EpisodeStore) -> None:
    message = (
        "episode: expected an index or a slice, got 'action' (store.streams['action'] describes "
        "the stream, store[0]['action'] has its rows of episode 0, store.stream_rows('action') "
        "all rows)"
    )
    some: Any
    for some in (store, store.episodes, store[:1]):
        with pytest.raises(TypeError, match=rf"^{re.escape(message)}$"):
            some["action"]
    unknown = (
        "episode: expected an index or a slice, got 'actoin' (store.streams has streams by name)"
    )
    with pytest.raises(TypeError, match=rf"^{re.escape(unknown)}$"):
        some["actoin"]
    with pytest.raises(TypeError, match=r"^episode: expected an index or a slice, got 1\.5$"):
        some[1.5]
    assert store[np.int64(1)].index == 1
