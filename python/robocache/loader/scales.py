"""How a loader normalises a stream: in LeRobot's words, with the store's statistics or others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.store.normalization import (
    Normalization,
    NormalizationMode,
    check_mode,
    normalization,
)
from robocache.store.stream_info import StatisticsSummary, StreamInfo

Statistics: TypeAlias = Normalization | StatisticsSummary | Mapping[str, Any]

_QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}  # LeRobot's names
_NAMES = ("mean", "std", "min", "max", *_QUANTILES)
_NEEDED = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
}


def make_scales(
    streams: Mapping[str, StreamInfo],
    normalize: Mapping[str, NormalizationMode] | None,
    statistics: Mapping[str, Statistics] | None,
) -> dict[str, Normalization]:
    """Scale and offset of the streams that are normalised, of C channels each.

    Args:
        streams: Those of the batch.
        normalize: A mode for each that is to be normalised.
        statistics: In place of the store's, by stream: a summary as a store has them, a mapping
            with LeRobot's names (mean, std, min, max, q01, q10, q50, q90, q99; count says nothing),
            or scale and offset themselves. A mapping has what the mode needs, finite; in a summary
            NaN is a channel without values, which stays as it is.

    Raises:
        TypeError, ValueError: `normalize[<stream>]: expected ..., got ...`, and likewise
            `statistics[<stream>]`: it lacks what the mode needs, has other names, or numbers that
            are none of a deviation, a range or a scale.
    """
    if normalize is None:
        normalize = {}
    if not isinstance(normalize, Mapping):
        raise TypeError(
            f"normalize: expected a mode for each stream, as in {{'action': 'min_max'}}, "
            f"got {normalize!r}"
        )
    given = {} if statistics is None else statistics
    if not isinstance(given, Mapping):
        raise TypeError(
            f"statistics: expected those of each stream, as in {{'action': {{'min': ..., 'max': "
            f"...}}}}, got {type(given).__name__}"
        )
    for name, keys in (("normalize", normalize), ("statistics", given)):
        for key in keys:
            if key not in streams:
                raise ValueError(f"{name}: expected {', '.join(streams)}, got {key!r}")
    scales = {}
    for key in given:
        if key not in normalize:
            raise ValueError(
                f"statistics: expected streams that normalize has a mode for, got {key!r}"
            )
    for key, mode in normalize.items():
        check_mode(f"normalize[{key!r}]: mode", mode)
        if mode == "identity":
            continue
        known = given.get(key, streams[key].statistics)
        if known is None:
            raise ValueError(f"statistics[{key!r}]: expected some, which the store has not")
        name = f"statistics[{key!r}]"
        if isinstance(known, Mapping):
            known = _summary(name, known, mode)
        if isinstance(known, Normalization):
            parts = (vector(f"{name}.{p}", x) for p, x in known._asdict().items())
            scales[key] = Normalization(*parts)
            for part, of_channels in scales[key]._asdict().items():
                _check_finite(f"{name}.{part}", of_channels)
            continue
        if not isinstance(known, StatisticsSummary):
            raise TypeError(
                f"{name}: expected a mapping of mean, std, min, max and so on, or a "
                f"Normalization, got {type(known).__name__}"
            )
        _check_summary(name, known)
        try:
            scale = normalization(known, mode)
        except ValueError as error:
            raise ValueError(f"normalize[{key!r}]: {error}") from None
        scales[key] = Normalization(*(np.asarray(x, np.float64).reshape(-1) for x in scale))
    return scales


def _summary(name: str, given: Mapping[str, Any], mode: NormalizationMode) -> StatisticsSummary:
    """Statistics as LeRobot keeps them, where images have [C,1,1]; what is missing is NaN."""
    for key in given:
        if key not in (*_NAMES, "count"):
            raise ValueError(f"{name}: expected {', '.join(_NAMES)} or count, got {key!r}")
    found = {key: vector(f"{name}[{key!r}]", given[key]) for key in _NAMES if key in given}
    needed = _NEEDED[mode]
    if not all(key in found for key in needed):
        raise ValueError(
            f"{name}: expected {' and '.join(needed)} for mode {mode}, got "
            f"{', '.join(found) or 'none'}"
        )
    sizes = {key: len(numbers) for key, numbers in found.items()}
    if len(set(sizes.values())) != 1:
        got = ", ".join(f"{size} of {key}" for key, size in sizes.items())
        raise ValueError(f"{name}: expected a number of each channel in all, got {got}")
    for key in needed:
        _check_finite(f"{name}[{key!r}]", found[key])
    nothing = np.full(len(found[needed[0]]), np.nan)
    return StatisticsSummary(
        count=np.zeros(len(nothing), np.int64),
        mean=found.get("mean", nothing),
        std=found.get("std", nothing),
        min=found.get("min", nothing),
        max=found.get("max", nothing),
        quantiles={rank: found[key] for key, rank in _QUANTILES.items() if key in found},
        exact_quantiles=False,
    )


def _check_summary(name: str, summary: StatisticsSummary) -> None:
    """That deviations are not below 0, nor ends of ranges the wrong way round."""
    negative = np.flatnonzero(np.less(summary.std, 0))
    if len(negative):
        raise ValueError(
            f"{name}: expected a std of 0 or more, got {summary.std[negative[0]]} of channel "
            f"{negative[0]}"
        )
    ranges = [("min", "max", summary.min, summary.max)]
    for low, high in (_NEEDED["quantiles"], _NEEDED["quantile10"]):
        lows, highs = (summary.quantiles.get(_QUANTILES[end]) for end in (low, high))
        if lows is not None and highs is not None:
            ranges.append((low, high, lows, highs))
    for low, high, lows, highs in ranges:
        wrong = np.flatnonzero(np.greater(lows, highs))
        if len(wrong):
            raise ValueError(
                f"{name}: expected {low} at or below {high}, got {lows[wrong[0]]} and "
                f"{highs[wrong[0]]} of channel {wrong[0]}"
            )


def _check_finite(name: str, numbers: NDArray[np.float64]) -> None:
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise ValueError(
            f"{name}: expected finite numbers, got {numbers[wrong[0]]} of channel {wrong[0]}"
        )


def vector(name: str, value: Any) -> NDArray[np.float64]:
    """Numbers of channels, however many axes they have.

    Raises:
        TypeError: `<name>: expected numbers, got ...`: they are something else, texts of numbers
            too.
    """
    try:
        numbers = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy can't see
        numbers = np.empty(1, object)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers, got {value!r}")
    with np.errstate(over="ignore"):  # of a long double: it is infinite then
        return numbers.astype(np.float64).reshape(-1)


def spread(name: str, scale: Normalization, shape: tuple[int, ...]) -> Normalization:
    """Scale and offset of each element of a row, from those of channels: all, the last axis, one.

    Raises:
        ValueError: Of another number.
    """
    elements = int(np.prod(shape, dtype=np.int64))
    channels = len(scale.subtract)
    last = shape[-1] if shape else 1
    if len(scale.multiply) != channels:
        raise ValueError(
            f"{name}: expected as many numbers to multiply with as to subtract, got "
            f"{len(scale.multiply)} and {channels}"
        )
    if channels == elements:
        return scale
    if channels not in (1, last):
        raise ValueError(
            f"{name}: expected {elements} channels for rows of shape {list(shape)}, got {channels}"
        )
    repeats = elements // channels
    return Normalization(np.tile(scale.subtract, repeats), np.tile(scale.multiply, repeats))
