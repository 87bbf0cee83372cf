"""Parses what windows are relative to: another stream's value at the anchor."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from robocache.core import dtypes
from robocache.loader.window import Relative, Window
from robocache.loader.window_spec import RelativeTo, WindowSpec
from robocache.loader.windows import MAX_WINDOWS, SLERPS

_MAX_CHANNELS = 4096  # of a stream that others are relative to


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
            _refuse(key, f"a stream of the batch ({known})", f"{to!r} (add it to windows)")
        if to == key:
            _refuse(key, "another stream", repr(to))
        if windows[to].relative_to is not None:
            _refuse(key, "a stream that is not relative itself", repr(to))
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

    Args:
        specs: All of a batch.
        relative: The reference of each stream that has one.
        windows: The user's windows, by key.

    Raises:
        TypeError, ValueError: `relative_to[<stream>]: expected ..., got ...`: types, widths or
            methods do not fit; or the windows are more than a launch takes.
    """
    by_key = {spec.name: spec for spec in specs}
    found = []
    for spec in specs:
        given = relative.get(spec.name)
        if given is not None:
            of = by_key[given.to]
            _check_types(spec, of)
            columns = _columns(spec, of, given)
            _check_methods(spec, of, columns)
            to = RelativeTo(given.to, columns, windows[given.to].causal)
            spec = replace(spec, relative_to=to)
        found.append(spec)
    if len(specs) + len(relative) > MAX_WINDOWS:
        raise ValueError(
            f"windows: expected at most {MAX_WINDOWS} streams in a batch, relative ones counted "
            f"twice, got {len(specs)} and {len(relative)} relative ones"
        )
    return found


def _refuse(key: str, expected: str, got: object) -> NoReturn:
    raise ValueError(f"relative_to[{key!r}]: expected {expected}, got {got}")


def _check_types(window: WindowSpec, of: WindowSpec) -> None:
    key = window.name
    for one in (window, of):
        name = dtypes.dtype_name(one.torch_dtype)
        if one.is_copied:
            _refuse(key, "streams of floats or uint8", f"{name} of {one.name!r}")
        if one.channels_first:
            _refuse(key, "streams without channels_first", repr(one.name))
    if not window.torch_out_dtype.is_floating_point:
        name = dtypes.dtype_name(window.torch_out_dtype)
        raise TypeError(f"dtype[{key!r}]: expected floats of a relative stream, got {name}")
    if of.elements > _MAX_CHANNELS:
        _refuse(
            key,
            f"rows of at most {_MAX_CHANNELS} elements to be relative to",
            f"{of.elements} of {of.name!r}",
        )


def _columns(window: WindowSpec, of: WindowSpec, given: Relative) -> tuple[int, ...]:
    """The other stream's element for each of a row; -1: none."""
    key, count = window.name, window.elements
    mask = _given(f"relative_to[{key!r}].mask", given.mask, count, [True] * count)
    for i, is_relative in enumerate(mask):
        if type(is_relative) is not bool:
            kind = type(is_relative).__name__
            raise TypeError(f"relative_to[{key!r}].mask[{i}]: expected a bool, got {kind}")
    if given.mask is None and given.channels is None and count != of.elements:
        _refuse(
            key,
            f"{count} elements in rows of {of.name!r}, as in its own (mask= leaves some out, "
            "channels= says which belong together)",
            of.elements,
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
        if not 0 <= column < of.elements:
            if given.channels is None:
                expected = f"a mask of the {of.elements} elements of {of.name!r}"
                _refuse(key, expected, f"True for {i}")
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


def _check_methods(window: WindowSpec, of: WindowSpec, columns: Sequence[int]) -> None:
    """That no quaternion's elements are subtracted, nor a sum, which has no value at a time."""
    methods, methods_of = (
        [method for method, width in each.runs for _ in range(width)] for each in (window, of)
    )
    for i, column in enumerate(columns):
        if column < 0:
            continue
        if methods[i] in SLERPS:
            _refuse(window.name, f"none of {methods[i]} (mask= leaves it out)", f"element {i}")
        method = methods_of[column]
        if not of.by_rows and method in (*SLERPS, "sum"):
            _refuse(
                window.name, f"no element of {method} to be relative to", f"{column} of {of.name!r}"
            )
