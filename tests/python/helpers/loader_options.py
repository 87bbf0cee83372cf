"""Loaders of many windows that share options: one value for all, or a mapping of some."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import robocache as rc
from robocache.loader import loader as _loader
from robocache.store.stream_info import is_image

WINDOW = {field.name for field in fields(rc.Window)} - {"offsets", "normalize"}
EPISODES = {field.name for field in fields(rc.Episodes)} - {"indices"}
OF_TIMES = ("method", "max_gap_s", "latency_s", "causal")


def make_windows(
    store: rc.EpisodeStore, offsets: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, rc.Window]:
    """A window for each stream of a batch.

    Args:
        store: Where the streams are.
        offsets: By key; None, without `offsets_ns`: every stream, at the anchor.
        options: Of :class:`rc.Window`, by key. One value is for all streams that it can be for:
            images, or streams by time.
    """
    offsets_ns = options.pop("offsets_ns", None) or {}
    if offsets is None:
        offsets = {} if offsets_ns else dict.fromkeys(store.streams)
    found = {}
    for key in dict.fromkeys([*offsets, *offsets_ns]):
        given = {"offsets": offsets.get(key)} | (
            {"offsets_ns": offsets_ns[key]} if key in offsets_ns else {}
        )
        for name, option in options.items():
            if not isinstance(option, Mapping):
                if _fits(store, key, name, options):
                    given[name] = option
            elif key in option:
                given[name] = option[key]
        found[key] = rc.Window(**given)
    return found


def _fits(store: rc.EpisodeStore, key: str, name: str, options: Mapping[str, Any]) -> bool:
    info = store.streams.get(key)
    if info is not None and name == "mean_window_s":
        method = options.get("method")
        of_key = method.get(key) if isinstance(method, Mapping) else method
        return "mean" in str(of_key or info.method)
    if info is None or name not in ("channels_first", *OF_TIMES):
        return True
    if name == "channels_first":
        return is_image(info)
    timeline = options.get("timeline")
    of_key = timeline.get(key) if isinstance(timeline, Mapping) else timeline
    return (of_key or info.timeline) != "rows"


def keyed_arguments(
    store: rc.EpisodeStore | str | os.PathLike[str],
    batch_size: int,
    offsets: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Arguments of :class:`rc.Loader`, of options of windows that are by key.

    Args:
        store: The store.
        batch_size: As of the loader.
        offsets: As :func:`make_windows` takes them; also by LeRobot's name.
        options: Of :class:`rc.Window`, by key; of :class:`rc.Episodes`; and of the loader.
    """
    if not isinstance(store, rc.EpisodeStore):
        store = rc.EpisodeStore(store)
    offsets = options.pop("delta_timestamps", offsets)
    of_windows = {name: options.pop(name) for name in WINDOW & set(options)}
    of_episodes = {name: options.pop(name) for name in EPISODES & set(options)}
    if of_episodes:
        options["episodes"] = rc.Episodes(options.pop("episodes", None), **of_episodes)
    windows = make_windows(store, offsets, **of_windows)
    return {"store": store, "batch_size": batch_size, "windows": windows, **options}


def keyed_loader(
    *arguments: Any, is_quiet: bool = False, finish: Any = None, **options: Any
) -> rc.Loader:
    """A loader of :func:`keyed_arguments`, without warnings where it `is_quiet`."""
    extras = _loader.Extras(is_quiet=is_quiet, finish=finish)
    return _loader.make_loader(keyed_arguments(*arguments, **options), extras)
