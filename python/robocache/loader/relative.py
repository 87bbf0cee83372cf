"""Windows that are relative to another stream's value at the anchor: what users say, checked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from robocache.core import dtypes
from robocache.core.display import ShortRepr
from robocache.loader.window_spec import RelativeTo, WindowSpec
from robocache.loader.windows import MAX_WINDOWS, SLERPS

_MAX_CHANNELS = 4096  # of a stream that others are relative to


@dataclass(frozen=True, repr=False)
class Relative(ShortRepr):
    """Makes a stream relative to another stream's value at the anchor.

    Of D elements of a row, in row-major order, each has subtracted from it the element of the other
    stream with its own number, or with that which `channels` says. ``docs/loader.md`` has the rest.

    Example:
        >>> # The joints' targets relative to the joints; the gripper's stays as it is.
        >>> rc.Relative("observation.state", mask=[True] * 6 + [False])
    """

    to: str
    """The other stream."""
    mask: Sequence[bool] | None = None
    """[D]: which elements are relative; None: all."""
    channels: Sequence[int | None] | None = None
    """[D]: the other stream's element for each; None in place of a number: it is not relative."""


def check_relative(relative: object, streams: Sequence[str]) -> dict[str, Relative]:
    """Validates `relative`; returns the relations by key.

    Args:
        relative: As :class:`robocache.Loader` takes it.
        streams: Those of the batch.

    Raises:
        TypeError, ValueError: `relative: expected ..., got ...`.
    """
    if relative is None:
        return {}
    if not isinstance(relative, Mapping):
        raise TypeError(
            "relative: expected what each stream is relative to, as in {'action': 'state'}, got "
            f"{type(relative).__name__}"
        )
    known = ", ".join(streams)
    found = {}
    for key, given in relative.items():
        if key not in streams:
            raise ValueError(f"relative: expected streams of the batch ({known}), got {key!r}")
        to = given.to if isinstance(given, Relative) else given
        if not isinstance(to, str):
            kind = type(to).__name__
            raise TypeError(
                f"relative[{key!r}]: expected a stream's name, or a rc.Relative of one, got {kind}"
            )
        if to not in streams:
            raise ValueError(
                f"relative[{key!r}]: expected one of the batch ({known}) to be relative to, got "
                f"{to!r}"
            )
        if to == key:
            raise ValueError(f"relative[{key!r}]: expected another stream, got {to!r}")
        if to in relative:
            raise ValueError(
                f"relative[{key!r}]: expected a stream that is not relative itself, got {to!r}"
            )
        found[key] = given if isinstance(given, Relative) else Relative(to)
    return found


def check_statistics(
    relative: Mapping[str, Relative], normalize: object, statistics: object
) -> None:
    """That relative values are not normalized by the store's statistics, which are of others.

    Raises:
        ValueError: `statistics[<stream>]: expected ..., got ...`.
    """
    modes = normalize if isinstance(normalize, Mapping) else {}
    given = statistics if isinstance(statistics, Mapping) else {}
    for key in relative:
        if modes.get(key, "identity") != "identity" and key not in given:
            raise ValueError(
                f"statistics[{key!r}]: expected those of the relative values, which the store does "
                "not know (rc.compute_stats of the same loader without normalize gives them), got "
                "none"
            )


def make_relative(
    windows: Sequence[WindowSpec],
    relative: Mapping[str, Relative],
    is_causal: Callable[[str], bool],
) -> list[WindowSpec]:
    """The windows, those that are relative with the columns that are subtracted.

    Args:
        windows: All of a batch.
        relative: The reference of each stream that has one.
        is_causal: The option `causal` of a stream.

    Raises:
        TypeError, ValueError: `relative[<stream>]: expected ..., got ...`: types, widths or methods
            do not fit; or the windows are more than a launch takes.
    """
    by_key = {window.name: window for window in windows}
    found = []
    for window in windows:
        given = relative.get(window.name)
        if given is not None:
            of = by_key[given.to]
            _check_types(window, of)
            columns = _columns(window, of, given)
            _check_methods(window, of, columns)
            to = RelativeTo(given.to, columns, is_causal(given.to))
            window = replace(window, relative_to=to)
        found.append(window)
    if len(windows) + len(relative) > MAX_WINDOWS:
        raise ValueError(
            f"relative: expected at most {MAX_WINDOWS} streams in a batch, relative ones counted "
            f"twice, got {len(windows)} and {len(relative)} relative ones"
        )
    return found


def _refuse(key: str, expected: str, got: object) -> NoReturn:
    raise ValueError(f"relative[{key!r}]: expected {expected}, got {got}")


def _check_types(window: WindowSpec, of: WindowSpec) -> None:
    key = window.name
    for one in (window, of):
        name = dtypes.dtype_name(one.torch_dtype)
        if one.is_copied:
            _refuse(key, "streams of floats or uint8", f"{name} of {one.name!r}")
        if one.channels_first:
            _refuse(key, "streams without images='float'", repr(one.name))
    if not window.torch_out_dtype.is_floating_point:
        name = dtypes.dtype_name(window.torch_out_dtype)
        raise TypeError(f"dtype: {key}: expected floats of a relative stream, got {name}")
    if of.elements > _MAX_CHANNELS:
        _refuse(
            key,
            f"rows of at most {_MAX_CHANNELS} elements to be relative to",
            f"{of.elements} of {of.name!r}",
        )


def _columns(window: WindowSpec, of: WindowSpec, given: Relative) -> tuple[int, ...]:
    """The other stream's element for each of a row; -1: none."""
    key, count = window.name, window.elements
    mask = _given(f"relative[{key!r}].mask", given.mask, count, [True] * count)
    for i, is_relative in enumerate(mask):
        if type(is_relative) is not bool:
            kind = type(is_relative).__name__
            raise TypeError(f"relative[{key!r}].mask[{i}]: expected a bool, got {kind}")
    if given.mask is None and given.channels is None and count != of.elements:
        _refuse(
            key,
            f"{count} elements in rows of {of.name!r}, as in its own (mask= leaves some out, "
            "channels= says which belong together)",
            of.elements,
        )
    name = f"relative[{key!r}].channels"
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
