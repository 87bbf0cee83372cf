"""robomimic's demonstrations as its ``SequenceDataset`` hands them out: ``Loader.from_robomimic``.

The rules are those of robomimic 0.3, proved index by index in tests/parity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robocache.core.checks import check_integer
from robocache.core.extras import require
from robocache.core.progress import Update
from robocache.datasets.converted import PathLike, converted, data_set, refuse_rate
from robocache.loader.foreign_options import refuse_decided, refuse_foreign
from robocache.loader.loader import Extras, Loader, make_loader
from robocache.loader.relative import check_references
from robocache.loader.sampling.episodes import Episodes, as_episodes, with_decided_episodes
from robocache.loader.window import Relative, Window
from robocache.readers import ReadOptions
from robocache.readers.hdf5 import READER
from robocache.readers.image_encoding import encoding_of
from robocache.store.episode_store import EpisodeStore

OBS, NEXT = "obs/", "next_obs/"


@dataclass
class _Items:
    """Makes a batch into one that is nested as robomimic's are."""

    with_mask: bool
    goals: dict[str, Tensor]  # [episodes of the store, ...] by key

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        mask = None
        for key, values in batch.items():
            if f"{key}_is_pad" not in batch:
                continue
            if mask is None:
                mask = ~batch[f"{key}_is_pad"].unsqueeze(-1)
            if key.startswith((OBS, NEXT)):
                group, _, name = key.partition("/")
                found.setdefault(group, {})[name] = values
            else:
                found[key] = values.float()
        if self.goals:
            episode = batch["episode_index"]
            self.goals = {key: table.to(episode.device) for key, table in self.goals.items()}
            found["goal_obs"] = {key: table[episode] for key, table in self.goals.items()}
        if self.with_mask:
            found["pad_mask"] = mask
            for group in ("obs", "next_obs"):
                if group in found:
                    found[group]["pad_mask"] = mask
        return found


def from_robomimic(
    path: PathLike,
    seq_length: int = 1,
    frame_stack: int = 1,
    *,
    batch_size: int,
    obs_keys: Sequence[str] | None = None,
    dataset_keys: Sequence[str] | None = None,
    pad_seq_length: bool = True,
    pad_frame_stack: bool = True,
    get_pad_mask: bool = False,
    goal_mode: str | None = None,
    load_next_obs: bool = True,
    filter_by_attribute: str | None = None,
    relative_to: Mapping[str, str | Relative] | None = None,
    episodes: Episodes | Sequence[int] | slice | None = None,
    images: bool | str = True,
    store: PathLike | None = None,
    progress: bool | Update = True,
    **options: Any,
) -> Loader:
    """A loader of robomimic's HDF5, with the items that its ``SequenceDataset`` has.

    The file is converted to a store once. Then `loader.gather([i])` is item i, batched: `obs`
    and `next_obs` are dicts of [B,T,...], each of `dataset_keys` is [B,T,...]; T is
    `frame_stack - 1 + seq_length`, and step `frame_stack - 1` is the current row. Steps before
    the first row of a demonstration repeat it, those after the last repeat that.

    Floats are float32, the type that robomimic trains on, and so are all of `dataset_keys`;
    other observations keep their type (images: uint8 [H,W,C]).

    Args:
        path: The file.
        seq_length: Steps from the current row on.
        frame_stack: Steps up to the current row.
        batch_size: Samples of a batch.
        obs_keys: Names within `obs`; None: all.
        dataset_keys: Names of other datasets; None: all that have a row a step.
        pad_seq_length: Whether windows may reach past the last row.
        pad_frame_stack: Whether windows may reach before the first row.
        get_pad_mask: Adds `pad_mask` [B,T,1], True where a step is real: to the batch and to
            its `obs` and `next_obs`.
        goal_mode: ``"last"`` adds `goal_obs`, a dict of [B,...]: `next_obs` of the last row
            that a window of the demonstration begins at.
        load_next_obs: Whether there are `next_obs`.
        filter_by_attribute: The name of a subset in the file's `mask`.
        relative_to: By key, the key whose value at the anchor is subtracted, as `relative_to` of
            :class:`Window`.
        episodes: The :class:`Episodes` to draw from; the arguments above decide its `subset`,
            `drop_n_first_frames` and `drop_n_last_frames`.
        images: Whether to take images; or how the store has them, as :func:`convert` says:
            ``"jpeg:95"`` takes a tenth of the memory, and the batch has nearly the same pixels.
        store: The folder of the store; None: beside the file, named after it with
            ``.robocache``, or ``.jpeg-95.robocache`` for ``images="jpeg:95"``. It is made where
            it is not there; of several processes that start together, let one make it first.
        progress: Whether a terminal or a notebook shows a bar of the conversion; or a function,
            called with how many episodes are done, and how many there are.
        options: Of :class:`Loader`: `shuffle`, `seed`, `device` and so on. Keys are named as in
            the file there: ``obs/eef_pos``.

    Raises:
        ValueError: An unknown key or subset, lengths below 1, or a demonstration that is
            shorter than windows without padding.
        RecordingError: It is no such file, or can't be read.
        StoreError: The store is damaged, of something else, or older than the file.
        MissingLibrary: h5py is not installed.

    Example:
        >>> loader = rc.Loader.from_robomimic("lift.hdf5", 10, frame_stack=2, batch_size=64)
        >>> batch = next(iter(loader))
        >>> batch["actions"].shape
        torch.Size([64, 11, 7])
    """
    refuse_foreign(Loader, options)
    decided = ("windows", "delta_timestamps", "concat", "with_age")
    refuse_decided("from_robomimic", options, decided)
    refuse_rate("from_robomimic", options)
    stacked = check_integer("frame_stack", frame_stack, 1) - 1
    ahead = check_integer("seq_length", seq_length, 1) - 1
    if goal_mode not in (None, "last"):
        raise ValueError(f"goal_mode: expected last or None, got {goal_mode!r}")
    if goal_mode is not None and not load_next_obs:
        raise ValueError("load_next_obs: expected True for goal_mode='last', got False")
    found = _store(data_set(path, READER), store, load_next_obs, images, progress)
    own = [name for name in found.streams if not name.startswith((OBS, NEXT))]
    observed = [name.removeprefix(OBS) for name in found.streams if name.startswith(OBS)]
    dataset_keys = _known("dataset_keys", dataset_keys, own)
    obs_keys = _known("obs_keys", obs_keys, observed)
    groups = (OBS, NEXT) if load_next_obs else (OBS,)
    keys = [*dataset_keys, *(group + key for group in groups for key in obs_keys)]
    if not keys:
        raise ValueError("obs_keys: expected at least 1 key, there or in dataset_keys, got none")
    dropped = (0 if pad_frame_stack else stacked, 0 if pad_seq_length else ahead)
    _refuse_short(found, filter_by_attribute, 1 + sum(dropped))
    goals = obs_keys if goal_mode == "last" else ()
    references = check_references(relative_to, keys)
    arguments = {
        "store": found,
        "batch_size": batch_size,
        "windows": {
            key: Window(
                _seconds(found, key, range(-stacked, ahead + 1)),
                timeline="rows",
                relative_to=references.get(key),
                dtype=torch.float32 if found.streams[key].dtype.kind == "f" else None,
            )
            for key in keys
        },
        "episodes": with_decided_episodes(
            as_episodes(episodes),
            "from_robomimic",
            subset=filter_by_attribute,
            drop_n_first_frames=dropped[0],
            drop_n_last_frames=dropped[1],
        ),
        **options,
    }
    last_rows = {key: _last_rows(found, NEXT + key, dropped[1]) for key in goals}
    return make_loader(arguments, Extras(finish=_Items(get_pad_mask, last_rows)))


def _store(
    path: Any,
    store: PathLike | None,
    needs_next: bool,
    images: bool | str,
    progress: bool | Update,
) -> EpisodeStore:
    h5py = require("h5py", "HDF5", "hdf5")
    with h5py.File(path, "r") as file:
        demos = file["data"].values() if "data" in file else ()
        has_next = any("next_obs" in demo for demo in demos)
    if needs_next and not has_next:
        raise ValueError(f"load_next_obs: expected False, since {path} has no next_obs, got True")
    topics = ("*", f"{NEXT}*") if has_next else None
    # A step is a second in files without a rate.
    options = ReadOptions(
        rate=1.0, topics=topics, images=images is not False, encoding=encoding_of(images)
    )
    return converted(path, store, READER, options, progress)


def _known(name: str, keys: Sequence[str] | None, there: Sequence[str]) -> list[str]:
    for key in keys or ():
        if key not in there:
            raise ValueError(f"{name}: expected some of {', '.join(there)}; got {key!r}")
    return list(there if keys is None else keys)


def _refuse_short(store: EpisodeStore, subset: str | None, least: int) -> None:
    for episode in store.episodes:
        if (subset is None or subset in episode.subsets) and episode.length < least:
            raise ValueError(
                f"seq_length: expected demonstrations of {least} rows or more, which windows take "
                f"without padding, got {episode.length} in {episode.source}"
            )


def _seconds(store: EpisodeStore, key: str, steps: range) -> list[float]:
    rate = store.streams[key].rate
    assert rate is not None  # the reader gives all of its streams one
    return [step / rate for step in steps]


def _last_rows(store: EpisodeStore, name: str, before_end: int) -> Tensor:
    """[episodes, ...]: of each, the row so many before its last; zeros where there is none."""
    info = store.streams[name]
    rows = np.zeros((len(store), *info.shape), info.dtype)
    for index, episode in enumerate(store.episodes):
        if len(episode[name]) > before_end:
            rows[index] = episode[name].values[-1 - before_end]
    found = torch.from_numpy(rows)
    return found.float() if info.dtype.kind == "f" else found
