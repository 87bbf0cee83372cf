"""Options that a constructor lacks: each error names the option to use in its place."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

_ORDER = "shuffle= and seed= decide the order of samples, episodes= which"
_WORKERS = "a launch on the device makes a whole batch, and no worker processes are needed"
_PREFETCH = "a budget= that leaves rows outside the GPU makes batches ahead by itself"
_ON_DEVICE = "batches are made on device="
_VIDEO = "videos are decoded once, when the data set is converted to a store"
_WINDOW = "it is an option of a window: windows={'state': rc.Window([0.0], %s=...)}"
_EPISODES = "it is an option of rc.Episodes: episodes=rc.Episodes(%s=...)"
_LOADER = "it is an option of rc.Loader"
_LOCAL = "the data set is a folder here: hf download --repo-type dataset downloads one"

WINDOW_OPTIONS = (
    "offsets_ns", "timeline", "method", "outside", "max_gap_s", "tolerance_s", "mean_window_s",
    "latency_s", "causal", "relative_to", "dtype", "channels_first", "image",
)  # fmt: skip
"""Options of rc.Window that rc.Loader lacks."""
EPISODES_OPTIONS = (
    "tasks", "subset", "predicate", "split", "split_seed", "time_ranges", "drop_n_first_frames",
    "drop_n_last_frames", "replicate",
)  # fmt: skip
"""Options of rc.Episodes that rc.Loader lacks."""
LOADER_OPTIONS = (
    "store", "batch_size", "windows", "anchor", "episodes", "shuffle", "seed", "drop_last",
    "statistics", "concat", "with_age", "device", "budget", "rank", "world_size", "reuse_buffers",
    "augment", "transforms", "name",
)  # fmt: skip
"""Options of rc.Loader that rc.Window and rc.Episodes lack."""
SPEC_OPTIONS = (
    "windows", "delta_timestamps", "anchor", "normalize", "statistics", "concat", "with_age",
    "transforms",
)  # fmt: skip
"""Options of rc.Loader that rc.Loader.from_spec lacks."""

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
    "image_transforms": "augment=[rc.ColorJitter(...), ...] has random steps of images",
    "delta_indices": "windows= has offsets in seconds",
    "revision": _LOCAL,
    "force_cache_sync": _LOCAL,
    "download_videos": _LOCAL,
    "video_backend": _VIDEO,
    "batch_encoding_size": "the loader records nothing",
    "vcodec": "the loader records nothing",
    "streaming": "budget= keeps what has no room on the device in the store's files",
    # of rc.Window and rc.Episodes
    **{name: _WINDOW % name for name in WINDOW_OPTIONS},
    **{name: _EPISODES % name for name in EPISODES_OPTIONS},
    "images": "rc.Window(channels_first=True) gives floats [C,H,W]",
    "resize": "rc.Window(image=rc.Image(resize=(224, 224))) resizes the images of a stream",
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
            "with_age", "device", "augment",
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

_OF_OTHERS = dict.fromkeys(LOADER_OPTIONS, _LOADER)
ADVICE_OF: Mapping[str, Mapping[str, str]] = {
    "rc.Loader": ADVICE,
    "rc.Window": {
        **_OF_OTHERS,
        **dict.fromkeys(EPISODES_OPTIONS, "it is an option of rc.Episodes"),
        "delta_timestamps": "offsets= has seconds",
        "delta_ns": "offsets_ns= has nanoseconds",
        "rate": "offsets= has seconds; anchor= of rc.Loader takes a rate in Hz",
    },
    "rc.Episodes": {
        **_OF_OTHERS,
        **dict.fromkeys(WINDOW_OPTIONS, "it is an option of rc.Window"),
        "episodes": "indices= chooses episodes by their indices",
        "seed": "split_seed= decides what split= draws; seed= of rc.Loader the order",
        "filter": "predicate= takes a function of an rc.Episode",
    },
    "rc.Loader.from_spec": {
        **ADVICE,
        **dict.fromkeys(SPEC_OPTIONS, "the spec decides it"),
    },
    "rc.Loader.mixture": MIXTURE_ADVICE,
}  # fmt: skip
"""By the name of a class or function, and by option, what to use in its place."""


def refuse_foreign(
    loader: Callable[..., Any], options: Iterable[str], name: str = "rc.Loader"
) -> None:
    """Refuses options that a constructor does not have.

    Args:
        loader: The class or function.
        options: Names that a caller used.
        name: The public name of the class or function, in the message.

    Raises:
        TypeError: It lacks one; the message names what to use in its place.
    """
    known = [key for key in inspect.signature(loader).parameters if key != "self"]
    for option in options:
        if option in known:
            continue
        hint = ADVICE_OF.get(name, {}).get(option)
        if hint is None:
            close = difflib.get_close_matches(option, known)
            hint = f"did you mean {close[0]}=?" if close else f"help({name}) lists all"
        raise TypeError(f"{option}: expected an option of {name}, got {option!r} ({hint})")


def with_hints(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator of a function: unknown options are refused as :func:`refuse_foreign` does."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        if function.__name__ != "__init__":
            function.__qualname__ = name.removeprefix("rc.")  # of Python's messages on arguments
        known = frozenset(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*arguments: _P.args, **options: _P.kwargs) -> _R:
            if not known.issuperset(options):
                refuse_foreign(function, options, name)
            return function(*arguments, **options)

        return checked

    return decorate


def class_with_hints(name: str) -> Callable[[type[_T]], type[_T]]:
    """A decorator of a class: :func:`with_hints` for its constructor."""

    def decorate(kind: type[_T]) -> type[_T]:
        constructor: Any = kind.__init__
        type.__setattr__(kind, "__init__", with_hints(name)(constructor))
        return kind

    return decorate


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
