"""Parses what windows are relative to: another stream's value at the anchor."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from robocache.loader.window import Relative, Window
from robocache.loader.window_spec import RelativeTo, WindowSpec


def parse_relative(windows: Mapping[str, Window]) -> dict[str, Relative]:
    """The reference of each window that has one, by key.

    Args:
        windows: All of a batch.

    Raises:
        TypeError, ValueError: `relative_to[<stream>]: expected ..., got ...`.
    """
    known = ", ".join(windows)
    found = {}
    for key, window in windows.items():
        given: Any = window.relative_to
        if given is None:
            continue
        to = given.to if isinstance(given, Relative) else given
        if not isinstance(to, str):
            kind = type(to).__name__
            raise TypeError(
                f"relative_to[{key!r}]: expected a stream's name or a rc.Relative, got {kind}"
            )
        if to not in windows:
            raise ValueError(
                f"relative_to[{key!r}]: expected a stream of the batch ({known}), got {to!r} "
                "(add it to windows)"
            )
        found[key] = given if isinstance(given, Relative) else Relative(to)
    return found


def check_references(relative_to: object, keys: Sequence[str]) -> Mapping[str, Any]:
    """References by key, of functions that make windows themselves.

    Args:
        relative_to: The user's mapping of keys to `relative_to` of :class:`Window`; or None.
        keys: Those of the batch.

    Raises:
        TypeError, ValueError: `relative_to: expected ..., got ...`.
    """
    if relative_to is None:
        return {}
    if not isinstance(relative_to, Mapping):
        raise TypeError(
            "relative_to: expected a reference for each relative key, as in {'action': 'state'}, "
            f"got {type(relative_to).__name__}"
        )
    for key in relative_to:
        if key not in keys:
            raise ValueError(
                f"relative_to: expected keys of the batch ({', '.join(keys)}), got {key!r}"
            )
    return relative_to


def check_statistics(
    relative: Collection[str], modes: Mapping[str, str | None], statistics: object
) -> None:
    """Refuses to normalize relative values by the store's statistics, which are of others.

    Args:
        relative: The keys of relative windows.
        modes: By which mode each window is normalized; None: by a Normalizer.
        statistics: The user's.

    Raises:
        ValueError: `statistics[<stream>]: expected ..., got ...`.
    """
    given = statistics if isinstance(statistics, Mapping) else {}
    for key in relative:
        if modes.get(key) not in (None, "identity") and key not in given:
            raise ValueError(
                f"statistics[{key!r}]: expected those of the relative values, which the store does "
                "not have (rc.compute_stats of the same loader without normalize computes them), "
                "got None"
            )


def make_relative(
    specs: Sequence[WindowSpec], relative: Mapping[str, Relative], windows: Mapping[str, Window]
) -> list[WindowSpec]:
    """The specs, those of relative windows with the columns that are subtracted.

    The library validates the result: which streams, types and methods fit.

    Args:
        specs: All of a batch.
        relative: The reference of each stream that has one.
        windows: The user's windows, by key.

    Raises:
        TypeError, ValueError: `relative_to[<stream>]: expected ..., got ...`: a mask or channels
            do not fit the rows.
    """
    by_key = {spec.name: spec for spec in specs}
    found = []
    for spec in specs:
        given = relative.get(spec.name)
        if given is not None:
            columns = _columns(spec, by_key[given.to], given)
            to = RelativeTo(given.to, columns, windows[given.to].causal)
            spec = replace(spec, relative_to=to)
        found.append(spec)
    return found


def _columns(window: WindowSpec, of: WindowSpec, given: Relative) -> tuple[int, ...]:
    """The other stream's element for each of a row; -1: none."""
    key, count = window.name, window.elements
    mask = _given(f"relative_to[{key!r}].mask", given.mask, count, [True] * count)
    for i, is_relative in enumerate(mask):
        if type(is_relative) is not bool:
            kind = type(is_relative).__name__
            raise TypeError(f"relative_to[{key!r}].mask[{i}]: expected a bool, got {kind}")
    if given.mask is None and given.channels is None and count != of.elements:
        raise ValueError(
            f"relative_to[{key!r}]: expected {count} elements in rows of {of.name!r}, as in its "
            "own (mask= leaves some out, channels= says which belong together), got "
            f"{of.elements}"
        )
    name = f"relative_to[{key!r}].channels"
    channels = _given(name, given.channels, count, list(range(count)))
    found = []
    for i, (channel, is_relative) in enumerate(zip(channels, mask, strict=True)):
        if channel is None or not is_relative:
            found.append(-1)
            continue
        if isinstance(channel, bool) or not hasattr(channel, "__index__"):
            kind = type(channel).__name__
            raise TypeError(f"{name}[{i}]: expected an int or None, got {kind}")
        column = operator.index(channel)
        if given.channels is not None and not 0 <= column < of.elements:
            raise ValueError(
                f"{name}[{i}]: expected 0 to {of.elements - 1} (of {of.name!r}), got {column}"
            )
        found.append(column)
    return tuple(found)


def _given(name: str, values: Any, count: int, otherwise: Sequence[Any]) -> Sequence[Any]:
    """A list of one for each element; tensors and arrays too."""
    if values is None:
        return otherwise
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(f"{name}: expected a list, got {type(values).__name__}")
    if len(values) != count:
        raise ValueError(f"{name}: expected {count}, one for each element, got {len(values)}")
    return values
