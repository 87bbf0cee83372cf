"""diffusion-policy's replay buffers as its ``SequenceSampler`` hands them out.

``Loader.from_diffusion_policy``; tests/parity compares index by index.
"""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.core.checks import check_integer
from robocache.core.progress import Update
from robocache.datasets.converted import PathLike, converted, data_set, episode_number, refuse_rate
from robocache.loader.foreign_options import refuse_decided, refuse_foreign
from robocache.loader.loader import Extras, Loader, make_loader
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.relative import check_references
from robocache.loader.sampling.anchors import ANCHOR
from robocache.loader.sampling.episodes import Episodes, as_episodes, with_decided_episodes
from robocache.loader.window import Relative, Window
from robocache.readers import ReadOptions
from robocache.readers.diffusion_policy import READER, ReplayBuffer
from robocache.readers.image_encoding import encoding_of
from robocache.store.episode_store import EpisodeStore

OPTIONS = ReadOptions(rate=1.0)  # a replay buffer has no rate: a step is a second then
STEP_NS = 1_000_000_000


@dataclass(frozen=True)
class _Anchors:
    """Finds anchors as the loader does, but past the end of each episode, or only before it."""

    frames_more: int

    def __call__(
        self,
        store: EpisodeStore,
        episodes: NDArray[np.int64],
        anchor: FileRows | None,
        rate: float | None,
        drop_n_first_frames: object,
        drop_n_last_frames: object,
        time_ranges: object,
    ) -> NDArray[Any]:
        assert anchor is not None
        for name, given, default in (
            ("drop_n_first_frames", drop_n_first_frames, 0),
            ("drop_n_last_frames", drop_n_last_frames, 0),
            ("time_ranges", time_ranges, None),
        ):
            if given != default:
                raise ValueError(
                    f"{name}: expected none, since pad_before and pad_after choose windows here, "
                    f"got {given!r}"
                )
        counts = np.maximum(np.diff(anchor.offsets) + self.frames_more, 0)
        found = np.empty(counts.sum(), ANCHOR)
        if not len(found):
            raise ValueError(
                f"horizon: expected a window in at least 1 of {len(episodes)} episodes, got none"
            )
        found["episode"] = np.repeat(np.arange(len(counts)), counts)
        found["frame"] = np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
        found["time_ns"] = store.episodes.starts_ns[episodes][found["episode"]]
        found["time_ns"] += found["frame"].astype(np.int64) * STEP_NS
        return found


def from_diffusion_policy(
    path: PathLike,
    horizon: int,
    *,
    batch_size: int,
    pad_before: int = 0,
    pad_after: int = 0,
    keys: Sequence[str] | None = None,
    validation: bool = False,
    val_ratio: float = 0.0,
    val_seed: int = 0,
    max_train_episodes: int | None = None,
    relative_to: Mapping[str, str | Relative] | None = None,
    episodes: Episodes | None = None,
    images: bool | str = True,
    store: PathLike | None = None,
    progress: bool | Update = True,
    **options: Any,
) -> Loader:
    """A loader of a diffusion-policy replay buffer, with the items of its ``SequenceSampler``.

    The buffer is converted to a store once. Then `loader.gather([i])` is item i, batched: each
    key is [B,horizon,...]. In an episode of L rows windows begin at every row from
    `-pad_before` to `L - horizon + pad_after`; steps before the first row repeat it, those
    after the last that. `<key>_is_pad` says which. The anchor is step `pad_before`: with
    `n_obs_steps - 1` there, the row of the newest observation.

    Args:
        path: The zarr folder, or zip file.
        horizon: Steps of a window.
        batch_size: Samples of a batch.
        pad_before: How far windows reach before the first row; clipped to 0 and `horizon - 1`.
        pad_after: How far they reach past the last row; clipped likewise.
        keys: Names of arrays; None: all.
        validation: Whether the episodes to validate with are wanted, and not those to train
            with.
        val_ratio: The share of episodes to validate with: `round(val_ratio * episodes)`, at
            least one and not all, drawn by ``numpy.random.default_rng(val_seed).choice``. 0:
            none.
        val_seed: Of that choice.
        max_train_episodes: At most so many episodes to train with, chosen likewise.
        relative_to: By key, the key whose value at the anchor is subtracted, as `relative_to` of
            :class:`Window`.
        episodes: More conditions on episodes; the arguments above decide its `indices`.
        images: Whether to take images; or how the store has them, as :func:`convert` says:
            ``"jpeg:95"`` takes a tenth of the memory, and the batch has nearly the same pixels.
        store: The folder of the store; None: beside the buffer, named after it with
            ``.robocache``, or ``.jpeg-95.robocache`` for ``images="jpeg:95"``. It is made where
            it is not there; of several processes that start together, let one make it first.
        progress: Whether a terminal or a notebook shows a bar of the conversion; or a function,
            called with how many episodes are done, and how many there are.
        options: Of :class:`Loader`: `shuffle`, `seed`, `device`, `normalize` and so on.

    Raises:
        ValueError: An unknown key, a length below 1, or no window at all.
        RecordingError: It is no replay buffer, or can't be read.
        StoreError: The store is damaged, of something else, or older than the buffer.
        MissingLibrary: zarr is not installed.

    Example:
        >>> loader = rc.Loader.from_diffusion_policy(
        ...     "pusht.zarr", 16, pad_before=1, pad_after=7, batch_size=256, val_ratio=0.02
        ... )
        >>> next(iter(loader))["action"].shape
        torch.Size([256, 16, 2])
    """
    refuse_foreign(Loader, options)
    refuse_decided("from_diffusion_policy", options, ("windows", "delta_timestamps"))
    refuse_rate("from_diffusion_policy", options)
    steps = check_integer("horizon", horizon, 1)
    before, after = (
        min(max(check_integer(name, pad, -(2**31)), 0), steps - 1)
        for name, pad in (("pad_before", pad_before), ("pad_after", pad_after))
    )
    found = data_set(path, READER)
    with contextlib.closing(ReplayBuffer(found, OPTIONS)) as buffer:
        count, dtypes = len(buffer.ends), buffer.dtypes
    chosen = validating(count, val_ratio, val_seed)
    if not validation:
        chosen = training(chosen, val_seed, max_train_episodes)
    made = converted(
        found,
        store,
        READER,
        replace(OPTIONS, images=images is not False, encoding=encoding_of(images)),
        progress,
    )
    wanted = list(made.streams) if keys is None else list(keys)
    for key in wanted:
        if key not in made.streams:
            raise ValueError(f"keys: expected some of {', '.join(made.streams)}; got {key!r}")
    indices = [e.index for e in made.episodes if chosen[episode_number(e.source)]]
    references = check_references(relative_to, wanted)
    arguments = {
        "store": made,
        "batch_size": batch_size,
        "windows": {
            key: Window(
                [float(step) for step in range(-before, steps - before)],
                timeline="rows",
                relative_to=references.get(key),
                dtype=torch.float32 if _is_of_bytes(made, key, dtypes) else None,
            )
            for key in wanted
        },
        "episodes": with_decided_episodes(
            as_episodes(episodes), "from_diffusion_policy", indices=indices
        ),
        **options,
    }
    return make_loader(arguments, Extras(find_anchors=_Anchors(before + after - (steps - 1))))


def _is_of_bytes(store: EpisodeStore, key: str, dtypes: Mapping[str, np.dtype[Any]]) -> bool:
    """Whether a stream is bytes that were floats: images."""
    return dtypes[key].kind == "f" and store.streams[key].dtype == np.uint8


def validating(count: int, ratio: float, seed: int) -> NDArray[np.bool_]:
    """[count], which episodes are to validate with.

    Raises:
        ValueError: A ratio below 0 or above 1.
    """
    if not isinstance(ratio, numbers.Real) or not 0 <= float(ratio) <= 1:
        raise ValueError(f"val_ratio: expected a share from 0 to 1, got {ratio!r}")
    chosen = np.zeros(count, np.bool_)
    if ratio > 0:
        held_out = min(max(1, round(count * float(ratio))), count - 1)
        chosen[np.random.default_rng(seed).choice(count, held_out, replace=False)] = True
    return chosen


def training(held_out: NDArray[np.bool_], seed: int, most: int | None) -> NDArray[np.bool_]:
    """[count], which episodes are to train with: those not held out, or `most` of them."""
    chosen = ~held_out
    if most is None or chosen.sum() <= check_integer("max_train_episodes", most, 1):
        return chosen
    there = np.flatnonzero(chosen)
    drawn = np.random.default_rng(seed).choice(len(there), most, replace=False)
    chosen = np.zeros_like(held_out)
    chosen[there[drawn]] = True
    return chosen
