"""Options of LeRobot's and torch's loaders that a Loader has not: each error names what it has."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch.utils.data._utils.fetch import _IterableDatasetFetcher

# The first calls `iter` of a data set, the second starts its generator.
_FETCHER_CODE = (_IterableDatasetFetcher.__init__.__code__, _IterableDatasetFetcher.fetch.__code__)
_ORDER = "shuffle= and seed= decide the order of samples, episodes= which"
_WORKERS = "a launch on the device makes a whole batch, and no worker processes are needed"
_PREFETCH = "a budget= that leaves rows outside the GPU makes batches ahead by itself"
_ON_DEVICE = "batches are made on device="
_VIDEO = "videos are decoded once, when the data set is converted to a store"
_WINDOW = "it is an option of a window: windows={'state': rc.Window([0.0], %s=...)}"
_EPISODES = "it is an option of rc.Episodes: episodes=rc.Episodes(%s=...)"
_LOCAL = "the data set is a folder here: hf download --repo-type dataset downloads one"

ADVICE = {
    # of torch.utils.data.DataLoader
    "dataset": "the store is the first argument",
    "num_workers": _WORKERS,
    "sampler": _ORDER,
    "batch_sampler": _ORDER,
    "collate_fn": "transforms=[function] changes whole batches",
    "pin_memory": _ON_DEVICE,
    "pin_memory_device": _ON_DEVICE,
    "timeout": _WORKERS,
    "worker_init_fn": _WORKERS,
    "multiprocessing_context": _WORKERS,
    "generator": "seed= decides the order of samples and seeds the generator of transforms=",
    "prefetch_factor": _PREFETCH,
    "persistent_workers": _WORKERS,
    "in_order": _WORKERS,
    # of LeRobotDataset
    "repo_id": _LOCAL,
    "root": "the data set's folder is the first argument",
    "image_transforms": "transforms=[function] changes whole batches on the device",
    "delta_indices": "windows= has offsets in seconds",
    "revision": _LOCAL,
    "force_cache_sync": _LOCAL,
    "download_videos": _LOCAL,
    "video_backend": _VIDEO,
    "batch_encoding_size": "the loader records nothing",
    "vcodec": "the loader records nothing",
    "tolerance_s": _WINDOW % "tolerance_s",
    "streaming": "budget= keeps what has no room on the device in the store's files",
    # of rc.Window and rc.Episodes
    **{
        name: _WINDOW % name
        for name in (
            "offsets_ns", "timeline", "method", "outside", "max_gap_s", "mean_window_s",
            "latency_s", "causal", "relative_to", "dtype", "channels_first",
        )
    },
    **{
        name: _EPISODES % name
        for name in (
            "tasks", "subset", "predicate", "split", "split_seed", "time_ranges",
            "drop_n_first_frames", "drop_n_last_frames", "replicate",
        )
    },
    "images": "rc.Window(channels_first=True) gives floats [C,H,W]",
    "relative": "rc.Window(relative_to='state') subtracts another stream's value",
    "delta_ns": "rc.Window(offsets_ns=[...]) has nanoseconds",
    "rate": "anchor= takes a stream or a rate in Hz",
}  # fmt: skip
"""By option, what to use in its place."""

_OF_LOADERS = "it is an option of each of the loaders: rc.Loader(..., %s=...)"

MIXTURE_ADVICE = ADVICE | {
    **{
        name: _OF_LOADERS % name
        for name in (
            "windows", "delta_timestamps", "anchor", "episodes", "normalize", "statistics",
            "with_age", "device",
        )
    },
    "store": "loaders= has a loader of each store",
    "shuffle": "samples are drawn at random: weights= and seed= decide which",
    "sampler": "samples are drawn at random: weights= and seed= decide which",
    "batch_sampler": "samples are drawn at random: weights= and seed= decide which",
    "budget": "all streams of a mixture live on its device",
    "prefetch_factor": "all streams of a mixture live on its device",
    "streaming": "all streams of a mixture live on its device",
    "pin_memory": "batches are made on the loaders' device",
    "pin_memory_device": "batches are made on the loaders' device",
    "dataset": "loaders are the first argument",
    "root": "loaders are the first argument",
}  # fmt: skip
"""By option, what to use in place of an option of ``rc.Loader.mixture``."""


def refuse_foreign(
    loader: Callable[..., Any],
    options: Iterable[str],
    called: str = "rc.Loader",
    advice: Mapping[str, str] = ADVICE,
) -> None:
    """Refuses options that a loader does not have.

    Args:
        loader: Its class, or the function that makes it.
        options: Names that a caller used.
        called: The name of `loader` in the message.
        advice: By option, what to use in its place.

    Raises:
        TypeError: The loader lacks one; the message names what to use in its place.
    """
    known = [key for key in inspect.signature(loader).parameters if key != "foreign"]
    for name in options:
        if name in known:
            continue
        hint = advice.get(name)
        if hint is None:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}=?" if close else f"help({called}) lists all"
        raise TypeError(f"{name}: expected an option of {called}, got {name!r} ({hint})")


def refuse_decided(by: str, options: Iterable[str], decided: Iterable[str]) -> None:
    """Refuses options of a loader that a data set decides.

    Args:
        by: The function that decides.
        options: Names that a caller used.
        decided: Names of the options that it decides.

    Raises:
        TypeError: `<option>: expected ..., got ...`.
    """
    for name in decided:
        if name in options:
            raise TypeError(f"{name}: expected none ({by} decides it), got one")


def refuse_data_loader() -> None:
    """Refuses to be iterated over by a torch DataLoader that puts batches together.

    Such a DataLoader would take batches for samples and give `[8, 8, ...]`. The
    only call that it makes of a data set is `iter`, so this searches the callers for its fetcher.

    Raises:
        ValueError: A caller is such a DataLoader.
    """
    frame = sys._getframe(1)
    while frame is not None:
        # The locals of other frames stay untouched: a look at them keeps what they hold alive.
        if frame.f_code in _FETCHER_CODE and frame.f_locals["self"].auto_collation:
            raise ValueError(
                "batch_size: expected None of a DataLoader around a Loader, whose items are whole "
                "batches, got a size (DataLoader(loader, batch_size=None), or iterate over the "
                "loader itself; rc.Loader(batch_size=) is how many samples a batch has)"
            )
        frame = frame.f_back  # type: ignore[assignment]
