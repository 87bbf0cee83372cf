"""`Episodes`: which episodes, and which of their anchors, a loader draws samples from."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.core.checks import check_bool, check_integer, to_float
from robocache.core.display import cut, short
from robocache.core.tables import html_table, text_table
from robocache.loader.foreign_options import class_with_hints
from robocache.store.episode_store import EpisodeStore
from robocache.store.rows import Episode

Split: TypeAlias = tuple[Literal["train", "validation"], float]
Ranges: TypeAlias = Sequence[tuple[float, float]]

_HEADER = ("option", "value")


@class_with_hints("rc.Episodes")
@dataclass(frozen=True, repr=False)
class Episodes:
    """The episodes of a store that a :class:`Loader` draws from, and the anchors in them.

    An episode is chosen if it satisfies all options. A list of indices or a slice in its place
    is ``Episodes`` with these `indices`.

    Example:
        >>> training = rc.Episodes(split=("train", 0.1), drop_n_last_frames=10)
        >>> loader = rc.Loader("robot.store", 256, {"state": [0.0]}, episodes=training)
    """

    indices: Sequence[int] | slice | None = None
    """Indices in the store, or a slice; None: all. Samples have the order of the store."""
    _: KW_ONLY
    tasks: str | Sequence[str] | None = None
    """Names of tasks, or one."""
    subset: str | None = None
    """The name of a subset of the store."""
    predicate: Callable[[Episode], bool] | None = None
    """Called with each :class:`Episode` that the other options choose."""
    split: Split | None = None
    """``("train", 0.1)`` or ``("validation", 0.1)``: all but a tenth of the store's episodes, or
    that tenth."""
    split_seed: int = 0
    """The seed that draws that tenth. It is not the loader's `seed`, so that both parts stay
    apart."""
    time_ranges: Ranges | Mapping[int, Ranges] | None = None
    """Anchors in these ranges only: (begin, end) in seconds from an episode's start, the end
    excluded, for all episodes or by the episode's index."""
    drop_n_first_frames: int = 0
    """Anchors at the start of each episode that are left out."""
    drop_n_last_frames: int = 0
    """Anchors at the end of each episode that are left out."""
    replicate: bool = True
    """Whether each rank holds all chosen episodes. False: each holds a rank shard of them, by
    bytes, and draws from it alone, in an order of its own."""

    def __repr__(self) -> str:
        given = [f"{name}={short(value)}" for name, value in self._given()]
        return f"Episodes({', '.join(given)})"

    def __str__(self) -> str:
        return text_table(_HEADER, self._rows(), (0, 1))

    def _repr_html_(self) -> str:
        return html_table(_HEADER, self._rows(), (0, 1), "Episodes")

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, cut(short(value))) for name, value in self._given()] or [("indices", "all")]

    def _given(self) -> list[tuple[str, Any]]:
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        return [(field.name, value) for field, value in values if value is not field.default]


def as_episodes(given: Any) -> Episodes:
    """The user's choice of episodes; of indices or a slice, what they stand for.

    Raises:
        TypeError: `replicate: expected a bool, got ...`.
    """
    episodes = given if isinstance(given, Episodes) else Episodes(given)
    check_bool("replicate", episodes.replicate)
    return episodes


def with_decided_episodes(episodes: Episodes, by: str, **decided: Any) -> Episodes:
    """A user's choice with the options that a data set decides.

    Args:
        episodes: The user's choice.
        by: The function that decides.
        decided: The options and their values.

    Raises:
        ValueError: `episodes.<option>: expected ..., got ...`: the user chose one too.
    """
    for option in decided:
        given, default = getattr(episodes, option), getattr(Episodes, option)
        if given is not default and given != default:
            raise ValueError(
                f"episodes.{option}: expected {default!r} ({by} decides it), got {given!r}"
            )
    return replace(episodes, **decided)


def choose_episodes(store: EpisodeStore, chosen: Episodes) -> NDArray[np.int64]:
    """The indices of the episodes that satisfy all options, in the order of the store.

    Raises:
        TypeError, ValueError: An option names what the store does not have, or no episode is left.
    """
    kept = np.ones(len(store), np.bool_)
    if chosen.indices is not None:
        kept &= _at_indices(chosen.indices, len(store))
    if chosen.tasks is not None:
        kept &= _with_tasks(store, chosen.tasks)
    if chosen.split is not None:
        seed = check_integer("split_seed", chosen.split_seed, 0)
        kept &= _in_split(len(store), chosen.split, seed)
    subset, predicate = chosen.subset, chosen.predicate
    if subset is not None and subset not in store.subsets:
        raise ValueError(f"subset: expected {_one_of(store.subsets)}, got {subset!r}")
    if predicate is not None and not callable(predicate):
        raise TypeError(f"predicate: expected a function of an Episode, got {predicate!r}")
    if subset is not None or predicate is not None:
        for index in np.flatnonzero(kept):
            episode = store[int(index)]
            kept[index] = (subset is None or subset in episode.subsets) and (
                predicate is None or bool(predicate(episode))
            )
    found: NDArray[np.int64] = np.flatnonzero(kept).astype(np.int64)
    if not len(found):
        raise ValueError(
            f"episodes: expected at least 1 that indices, tasks, subset, predicate and split "
            f"choose, got none of the {len(store)} of {store.path}"
        )
    return found


def _at_indices(given: Sequence[int] | slice, count: int) -> NDArray[np.bool_]:
    kept = np.zeros(count, np.bool_)
    if isinstance(given, slice):
        try:
            kept[given] = True
        except (TypeError, ValueError) as error:  # a step of 0
            raise type(error)(f"episodes: expected a slice of ints, got {given}") from None
        return kept
    indices = np.asarray(given)
    if indices.ndim != 1 or (indices.dtype.kind not in "iu" and len(indices)):
        raise TypeError(
            f"episodes: expected a list of int, a slice or a rc.Episodes, got {given!r}"
        )
    for i, index in enumerate(indices.tolist()):
        if not -count <= index < count:
            raise ValueError(f"episodes[{i}]: expected an index below {count}, got {index}")
        if kept[index]:
            raise ValueError(f"episodes[{i}]: expected each episode once, got {index} again")
        kept[index] = True
    return kept


def _with_tasks(store: EpisodeStore, tasks: object) -> NDArray[np.bool_]:
    if isinstance(tasks, str):
        tasks = [tasks]
    if not isinstance(tasks, Sequence) or not all(isinstance(task, str) for task in tasks):
        raise TypeError(f"tasks: expected a name or a list of names, got {tasks!r}")
    numbers_of = {task: number for number, task in enumerate(store.tasks)}
    for task in tasks:
        if task not in numbers_of:
            raise ValueError(f"tasks: expected {_one_of(store.tasks)}, got {task!r}")
    wanted = [numbers_of[task] for task in tasks]
    kept: NDArray[np.bool_] = np.isin(store.episodes.task_indices, wanted)
    return kept


def _in_split(count: int, split: object, seed: int) -> NDArray[np.bool_]:
    """One of two parts of the whole store, whatever else is chosen: they never overlap."""
    if not isinstance(split, (tuple, list)) or len(split) != 2:
        raise TypeError(f"split: expected ('train' or 'validation', fraction), got {split!r}")
    part, fraction = split
    if part not in ("train", "validation"):
        raise ValueError(f"split: expected train or validation, got {part!r}")
    if not isinstance(fraction, numbers.Real) or not 0 < to_float(fraction) < 1:
        raise ValueError(
            f"split: expected the fraction of episodes to validate with, above 0 and below 1, "
            f"got {fraction!r}"
        )
    if count < 2:
        raise ValueError(f"split: expected a store of 2 episodes or more, got {count}")
    held_out = min(max(1, round(float(fraction) * count)), count - 1)
    kept = np.full(count, part == "train")
    drawn = np.random.default_rng(seed).permutation(count)[:held_out]
    kept[drawn] = part == "validation"
    return kept


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names)) if names else "nothing, since the store has none"
