"""The policy spec of a mixture's part: what a robot like that of one data set needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from robocache.loader.contents import Contents
from robocache.loader.make_policy_spec import describe
from robocache.loader.mixture.parts import Agreed
from robocache.loader.outputs import DATASET
from robocache.loader.policy_spec import MixtureSpec
from robocache.loader.window_spec import WindowSpec, by_name
from robocache.store.episode_store import EpisodeStore


class PartWindows(NamedTuple):
    """The windows of a loader of a mixture, without its tables."""

    store: EpisodeStore
    windows: Sequence[WindowSpec]
    names: Mapping[str, str]
    """The stream of each of the mixture's keys that the loader has."""
    anchor: str | None
    rate: float | None
    modes: Mapping[str, str | None]
    first_episode: int
    """Its first episode's index among all of the mixture."""
    episodes: int

    @classmethod
    def of(cls, contents: Contents, keys: Mapping[str, str], first_episode: int) -> PartWindows:
        """The windows of a loader; `keys`: the mixture's key of each stream."""
        return cls(
            contents.store,
            describe(contents.store, contents.windows, contents.plan.episodes),
            {key: name for name, key in keys.items()},
            contents.anchor,
            contents.rate,
            contents.modes,
            first_episode,
            len(contents.plan.episodes),
        )

    @property
    def by_key(self) -> dict[str, WindowSpec]:
        """Its windows by the mixture's keys."""
        found = by_name(self.windows)
        return {key: found[name] for key, name in self.names.items()}


def part_windows(
    number: int,
    parts: Sequence[PartWindows],
    agreed: Agreed,
    concat: Mapping[str, Sequence[str]],
) -> tuple[list[WindowSpec], dict[str, tuple[str, ...]], MixtureSpec]:
    """The windows of a part's policy spec, in the order of the mixture's batch.

    A key that the part lacks has a window of a stream without rows, with the offsets of another
    part.

    Args:
        number: The part's index.
        parts: All parts.
        agreed: The windows of the mixture's batch.
        concat: The mixture's keys of each concatenated key.

    Returns:
        The windows, the streams of each concatenated key, and how the mixture's batches differ from
        the part's rows.
    """
    own = parts[number].by_key
    names = dict(parts[number].names)
    missing = []
    for window in agreed.windows:
        if window.name not in own:
            names[window.name] = name = _free_name(window.name, set(names.values()))
            missing.append(name)
    windows = [
        own[window.name]
        if window.name in own
        else _missing(window, names[window.name], _offsets_of(window.name, number, parts, concat))
        for window in agreed.windows
    ]
    has_index = DATASET not in names
    mixture = MixtureSpec(
        number if has_index else None,
        {name: key for key, name in names.items() if name != key},
        {names[w.name]: w.elements for w in agreed.windows if w.name in agreed.widths},
        tuple(missing),
    )
    groups = {group: tuple(names[key] for key in keys) for group, keys in concat.items()}
    return windows, groups, mixture


def _free_name(key: str, taken: Collection[str]) -> str:
    """A name for a stream that a part lacks: the key, unless a stream of the part has that name."""
    name = key
    while name in taken:
        name += " (missing)"
    return name


def _offsets_of(
    key: str, number: int, parts: Sequence[PartWindows], concat: Mapping[str, Sequence[str]]
) -> WindowSpec:
    """A window with the offsets of a key that a part lacks.

    Those of the streams that the key is concatenated with, which have the same; of another part,
    preferably of one whose window a robot can compute.
    """
    beside = next((keys for keys in concat.values() if key in keys), (key,))
    own = parts[number].by_key
    for member in beside:
        if member in own:
            return own[member]
    found = [
        windows[member]
        for windows in (part.by_key for part in parts)
        for member in beside
        if member in windows
    ]
    return next((window for window in found if not window.reaches_ahead), found[0])


def _missing(window: WindowSpec, name: str, like: WindowSpec) -> WindowSpec:
    """The window of a stream without rows."""
    shape = window.out_shape[1:] if window.has_axis else window.out_shape
    return WindowSpec(
        name=name,
        dtype=window.out_dtype,
        shape=shape,
        timeline=like.timeline,
        offsets=like.offsets,
        has_axis=window.has_axis,
        causal=not like.by_rows and not like.reaches_ahead,
        method="previous",
        out_dtype=window.out_dtype,
    )
