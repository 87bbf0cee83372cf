"""LeRobot's data sets as it hands them out: ``Loader.from_lerobot``.

The rules are those of ``LeRobotDataset`` (0.4 for v3.0 data sets, 0.3 for v2.1), proved index by
index in tests/parity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robocache.core.progress import Update
from robocache.datasets.converted import PathLike, converted, data_set, episode_number, refuse_rate
from robocache.loader.foreign_options import refuse_decided, refuse_foreign
from robocache.loader.images.options import normalization_mode
from robocache.loader.loader import Extras, Loader, make_loader
from robocache.loader.sampling.episodes import Episodes
from robocache.loader.window import Window
from robocache.loader.window_spec import WindowSpec
from robocache.loader.windows import TOLERANCE_S, as_window, with_decided
from robocache.normalization.formulas import Normalization
from robocache.normalization.parse_statistics import vector
from robocache.readers import ReadOptions, RecordingError
from robocache.readers.errors import reading
from robocache.readers.image_encoding import encoding_of
from robocache.readers.lerobot.index import read_info
from robocache.readers.lerobot.reader import BOOKKEEPING, READER
from robocache.readers.limits import MEMORY_LIMIT
from robocache.readers.tables.arrow import open_parquet
from robocache.store.episode_store import EpisodeStore

Windows = Mapping[str, Window | Sequence[float] | None]


class _Feature(NamedTuple):
    """The conversion of a window to LeRobot's format."""

    is_scalar: bool  # a feature of shape (1,) is a number
    drops_axis: bool  # a video key with one offset has no axis of steps
    is_integer: bool  # of every width: int64
    has_mask: bool


@dataclass(frozen=True)
class _Items:
    """Makes a batch into one with LeRobot's keys, shapes and types."""

    features: dict[str, _Feature]
    tasks: list[str]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, feature in self.features.items():
            values: Tensor = batch[key]
            if feature.drops_axis:
                values = values.squeeze(1)
            if feature.is_scalar:
                values = values.squeeze(-1)
            found[key] = values.long() if feature.is_integer else values
            if feature.has_mask:
                found[f"{key}_is_pad"] = batch[f"{key}_is_pad"]
        number: Tensor = found["task_index"]
        if len(self.tasks) == 1:  # there is nothing to wait for
            found["task"] = self.tasks * len(number)
        else:
            found["task"] = [self.tasks[i] for i in number.flatten().tolist()]
        return found

    def live_windows(self, windows: Sequence[WindowSpec]) -> list[WindowSpec]:
        """The windows of such a batch that a robot can have.

        Left out are LeRobot's own columns, and small integers, which only the batch has as int64.
        """
        found = []
        for window in windows:
            feature = self.features[window.name]
            is_other = feature.is_integer and window.torch_out_dtype != torch.int64
            if window.name in BOOKKEEPING or is_other:
                continue
            shape = () if feature.is_scalar else window.shape
            has_axis = window.has_axis and not feature.drops_axis
            found.append(replace(window, shape=shape, has_axis=has_axis))
        return found


def from_lerobot(
    source: Any,
    delta_timestamps: Windows | None = None,
    *,
    batch_size: int,
    episodes: Episodes | Sequence[int] | None = None,
    tolerance_s: float | None = None,
    images: bool | str = True,
    resize: tuple[int, int] | None = None,
    store: PathLike | None = None,
    progress: bool | Update = True,
    **options: Any,
) -> Loader:
    """A loader of a LeRobot data set, with the items that ``LeRobotDataset`` has.

    The data set (v2.0, v2.1 or v3.0) is converted to a store once. Then `loader.gather([i])` is
    item i of ``LeRobotDataset(root=source, episodes=..., delta_timestamps=...)``, batched:

    - An offset d means `round(d * fps)` rows from the current one (Python's round), clipped to
      the episode; it must lie within `tolerance_s` of a multiple of 1 / fps.
    - `<key>_is_pad` [B,K] is True where it was clipped, for the keys of `delta_timestamps`
      alone. Every other feature is that of the current row, without an axis of steps.
    - A feature of shape (1,) is a number. Floats are float32, integers int64, flags bool;
      images and video float32 [C,H,W] from 0 to 1. A video key with one offset has no axis of
      steps, an image key has.
    - `task` is a list of B strings, by each row's `task_index`. On a GPU it is read back, which
      waits for the batch, where the data set has several tasks.
    - Samples are numbered in the order of the files, after `episodes`; `index` is the row's
      number in the whole data set.

    Text features are left out, and depth that is kept as video.

    Args:
        source: The data set's folder; or a LeRobotDataset, whose `root`, `episodes`,
            `delta_timestamps` and `tolerance_s` hold where they are not given here.
        delta_timestamps: Offsets in seconds for features; or a :class:`Window`, whose
            `timeline`, `tolerance_s`, `channels_first` and `dtype` are LeRobot's; with an `image`,
            images are as it says.
        batch_size: Samples of a batch.
        episodes: LeRobot's numbers of the episodes to take, in any order; or a
            :class:`Episodes`, whose `indices` are such numbers. None: all that are there.
        tolerance_s: How far an offset may be from a multiple of 1 / fps; None: 1e-4.
        images: Whether to take images and video. Without them the low-dimensional features of
            a data set load whose videos are not there. Or how the store has them, as
            :func:`convert` says: ``"jpeg:95"`` takes a tenth of the memory, and the batch has
            nearly the same pixels. True: with the same bits as the data set.
        resize: Width and height of images, which are padded to their aspect as
            :func:`convert` does it; None: as they are.
        store: The folder of the store; None: beside the data set, named after it with
            ``.robocache`` (``.no-images.robocache`` without images, ``.96x96.robocache`` for
            that `resize`, ``.jpeg-95.robocache`` for ``images="jpeg:95"``). It is made where it
            is not there, which takes the time and the room that all images need: a bar and the
            logger ``"robocache"`` say how much. Of several processes that start together, let
            one make it first.
        progress: Whether a terminal or a notebook shows a bar of the conversion; or a function,
            called with how many episodes are done, and how many there are.
        options: Of :class:`Loader`: `shuffle`, `seed`, `device`, `normalize` and so on.
            `statistics` are LeRobot's, ``dataset.meta.stats``: images are from 0 to 1, and what
            `normalize` does not name is left out.

    Raises:
        ValueError: An unknown key or episode, no offsets, or one that is out of tolerance.
        RecordingError: It is no LeRobot data set, or can't be read.
        StoreError: The store is damaged, of something else, or older than the data set.
        MissingLibrary: pyarrow is not installed, or what decodes its images.

    Example:
        >>> loader = rc.Loader.from_lerobot(
        ...     "pusht", {"observation.state": [-0.1, 0], "action": [0, 0.1]}, batch_size=64
        ... )
        >>> batch = next(iter(loader))
        >>> batch["action"].shape, batch["action_is_pad"].shape
        (torch.Size([64, 2, 2]), torch.Size([64, 2]))
    """
    refuse_foreign(Loader, options)
    decided = ("windows", "delta_timestamps", "concat", "with_age")
    refuse_decided("from_lerobot", options, decided)
    refuse_rate("from_lerobot", options)
    if hasattr(source, "root") and hasattr(source, "meta"):
        if getattr(source, "image_transforms", None) is not None:
            raise ValueError(
                "source: expected a LeRobotDataset without image_transforms (augment= has "
                "random steps of images), got one with them"
            )
        episodes = source.episodes if episodes is None else episodes
        delta_timestamps = source.delta_timestamps if delta_timestamps is None else delta_timestamps
        tolerance_s = source.tolerance_s if tolerance_s is None else tolerance_s
        source = source.root
    path = data_set(source, READER)
    info = read_info(path)
    own = tuple(name for name in BOOKKEEPING if name in info.features)
    options_read = ReadOptions(
        topics=("*", *own),
        images=images is not False,
        encoding=encoding_of(images),
        resize=resize,
    )
    found = converted(path, store, READER, options_read, progress)
    kinds = {name: info.features[name]["dtype"] for name in found.streams}
    if not images:  # which a store given by its folder may have all the same
        kinds = {name: kind for name, kind in kinds.items() if kind not in ("image", "video")}
    windows = {name: Window() for name in kinds}
    for key, given in (delta_timestamps or {}).items():
        if key not in windows:
            raise ValueError(
                f"delta_timestamps: expected features of numbers or images "
                f"({', '.join(windows)}), got {key!r}"
            )
        windows[key] = as_window(f"delta_timestamps[{key!r}]", given)
    if (count := _offset_count(windows["task_index"])) > 1:
        raise ValueError(
            f"delta_timestamps['task_index']: expected 1 offset (`task` is that row's), got {count}"
        )
    features = {
        name: _Feature(
            is_scalar=list(info.features[name]["shape"]) == [1],
            drops_axis=kinds[name] == "video" and _offset_count(window) == 1,
            is_integer=kinds[name].startswith(("int", "uint")),
            has_mask=window.has_axis,
        )
        for name, window in windows.items()
    }
    pictures = [name for name, kind in kinds.items() if kind in ("image", "video")]
    statistics, modes = options.get("statistics"), options.get("normalize")
    if isinstance(statistics, Mapping) and isinstance(modes, Mapping | None):
        named = {key for key, window in windows.items() if normalization_mode(window) is not None}
        wanted = {
            key: given for key, given in statistics.items() if key in named.union(modes or ())
        }
        options["statistics"] = _of_bytes(wanted, pictures)
    arguments = {
        "store": found,
        "batch_size": batch_size,
        "windows": {
            key: with_decided(
                key,
                window,
                "from_lerobot",
                timeline="rows",
                tolerance_s=TOLERANCE_S if tolerance_s is None else tolerance_s,
                **_output(window, kinds[key]),
            )
            for key, window in windows.items()
        },
        "episodes": _episodes(found, episodes),
        **options,
    }
    return make_loader(arguments, Extras(finish=_Items(features, read_tasks(path))))


def _output(window: Window, kind: str) -> dict[str, Any]:
    """The options of a window's output that LeRobot decides; not those of its `image`."""
    if window.image is not None:
        return {}
    return {
        "channels_first": kind in ("image", "video"),
        "dtype": torch.float32 if kind.startswith("float") else None,
    }


def _offset_count(window: Window) -> int:
    """Offsets of a window; 0: it has no axis of them."""
    given: Any = window.offsets if window.offsets_ns is None else window.offsets_ns
    return len(given) if isinstance(given, Sequence) else 0


def _of_bytes(statistics: Mapping[str, Any], pictures: Sequence[str]) -> dict[str, Any]:
    """Statistics whose images are from 0 to 1, as those of the bytes that a store has."""
    found = dict(statistics)
    for key in pictures:
        given = found.get(key)
        if isinstance(given, Normalization):
            name = f"statistics[{key!r}]"
            subtract, multiply = (vector(f"{name}.{p}", x) for p, x in given._asdict().items())
            found[key] = Normalization(subtract * 255, multiply / 255)
        elif isinstance(given, Mapping):
            found[key] = {
                name: value
                if name == "count"
                else vector(f"statistics[{key!r}][{name!r}]", value) * 255
                for name, value in given.items()
            }
    return found


def _episodes(store: EpisodeStore, chosen: Episodes | Sequence[int] | None) -> Episodes:
    """A choice by LeRobot's numbers of episodes as one by their indices in the store."""
    episodes = chosen if isinstance(chosen, Episodes) else Episodes(chosen)
    numbers = episodes.indices
    if numbers is None:
        return episodes
    if isinstance(numbers, slice):
        raise TypeError(f"episodes: expected LeRobot's numbers of episodes, got {numbers}")
    there = {episode_number(episode.source): episode.index for episode in store.episodes}
    for number in numbers:
        if number not in there:
            raise ValueError(
                f"episodes: expected numbers of the {len(there)} episodes that are there "
                f"({min(there)} to {max(there)}), got {number!r}"
            )
    return replace(episodes, indices=sorted({there[number] for number in numbers}))


def read_tasks(root: Path) -> list[str]:
    """The data set's tasks, by their index.

    Raises:
        RecordingError: Their table is missing or not what LeRobot writes.
    """
    path = root / "meta" / "tasks.jsonl"
    if path.is_file():
        with reading(path, "LeRobot's list of tasks"):
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
            tasks = {int(line["task_index"]): str(line["task"]) for line in lines}
            if max(tasks, default=0) > path.stat().st_size:
                raise RecordingError(
                    f"{path}: expected task_index counted from 0, got {max(tasks):,}"
                )
        return [tasks.get(index, "") for index in range(max(tasks, default=-1) + 1)]
    path = root / "meta" / "tasks.parquet"
    file = open_parquet(path, "LeRobot's table of tasks", MEMORY_LIMIT)
    with reading(path, "LeRobot's table of tasks"):
        table = file.read()
    names = [name for name in table.column_names if name != "task_index"]
    return [str(task) for task in table[names[-1]].to_pylist()]
