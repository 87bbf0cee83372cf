"""User-supplied statistics: a store's summaries, LeRobot's names, or scale and offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.normalization.formulas import (
    Normalization,
    NormalizationMode,
    Preset,
    check_mode,
    normalization,
)
from robocache.store.stream_info import StatisticsSummary

Statistics: TypeAlias = Normalization | StatisticsSummary | Mapping[str, Any]

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}  # LeRobot's names
NAMES = ("mean", "std", "min", "max", *QUANTILES)
_NEEDED = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
    "identity": (),
}


def of_statistics(
    key: str, given: Statistics, mode: NormalizationMode, preset: Preset = "robocache"
) -> Normalization:
    """Computes the scale and offset [C] of a key from user-supplied statistics.

    Raises:
        TypeError, ValueError: `normalize[<key>]: expected ..., got ...` for the mode, or
            `statistics[<key>]: ...` for statistics that the mode requires and are missing, unknown
            names, or numbers that are not a valid deviation, range or scale.
    """
    check_mode(f"normalize[{key!r}]: mode", mode, preset)
    name = f"statistics[{key!r}]"
    if isinstance(given, Normalization):
        parts = (vector(f"{name}.{p}", x) for p, x in given._asdict().items())
        scale = Normalization(*parts)
        for part, of_channels in scale._asdict().items():
            check_finite(f"{name}.{part}", of_channels)
        return scale
    if isinstance(given, StatisticsSummary) and mode != "identity" and not np.any(given.count):
        raise ValueError(
            f"{name}: expected some values, got a count of 0: there are no rows, or every step of "
            "its windows is padded"
        )
    if isinstance(given, Mapping):
        given = _summary(name, given, mode)
    if not isinstance(given, StatisticsSummary):
        raise TypeError(
            f"{name}: expected a mapping of mean, std, min, max and so on, or a Normalization, "
            f"got {type(given).__name__}"
        )
    _check_summary(name, given)
    try:
        scale = normalization(given, mode, preset)
    except ValueError as error:
        raise ValueError(f"normalize[{key!r}]: {error}") from None
    return Normalization(*(np.asarray(x, np.float64).reshape(-1) for x in scale))


def _summary(name: str, given: Mapping[str, Any], mode: NormalizationMode) -> StatisticsSummary:
    """The summary of a mapping with LeRobot's names ([C,1,1] for images); NaN where missing."""
    for key in given:
        if key not in (*NAMES, "count"):
            raise ValueError(f"{name}: expected {', '.join(NAMES)} or count, got {key!r}")
    found = {key: vector(f"{name}[{key!r}]", given[key]) for key in NAMES if key in given}
    needed = _NEEDED[mode]
    if not found or not all(key in found for key in needed):
        raise ValueError(
            f"{name}: expected {' and '.join(needed or NAMES)} for mode {mode}, got "
            f"{', '.join(found) or 'none'}"
        )
    sizes = {key: len(numbers) for key, numbers in found.items()}
    if len(set(sizes.values())) != 1:
        got = ", ".join(f"{size} of {key}" for key, size in sizes.items())
        raise ValueError(f"{name}: expected a number of each channel in all, got {got}")
    for key in needed:
        check_finite(f"{name}[{key!r}]", found[key])
    nothing = np.full(next(iter(sizes.values())), np.nan)
    return StatisticsSummary(
        count=_count(name, given, len(nothing)),
        mean=found.get("mean", nothing),
        std=found.get("std", nothing),
        min=found.get("min", nothing),
        max=found.get("max", nothing),
        quantiles={rank: found[key] for key, rank in QUANTILES.items() if key in found},
        exact_quantiles=False,
    )


def _count(name: str, given: Mapping[str, Any], channels: int) -> NDArray[np.int64]:
    """The number of values of each channel, 0 if missing; LeRobot has one number for all."""
    count = vector(f"{name}['count']", given.get("count", 0))
    if len(count) not in (1, channels):
        raise ValueError(f"{name}['count']: expected 1 number or {channels}, got {len(count)}")
    check_finite(f"{name}['count']", count)
    return np.broadcast_to(count.astype(np.int64), channels)


def _check_summary(name: str, summary: StatisticsSummary) -> None:
    """Checks that deviations are not negative, and that ranges do not descend."""
    negative = np.flatnonzero(np.less(summary.std, 0))
    if len(negative):
        raise ValueError(
            f"{name}: expected a std of 0 or more, got {summary.std[negative[0]]} of channel "
            f"{negative[0]}"
        )
    ranges = [("min", "max", summary.min, summary.max)]
    for low, high in (_NEEDED["quantiles"], _NEEDED["quantile10"]):
        lows, highs = (summary.quantiles.get(QUANTILES[end]) for end in (low, high))
        if lows is not None and highs is not None:
            ranges.append((low, high, lows, highs))
    for low, high, lows, highs in ranges:
        wrong = np.flatnonzero(np.greater(lows, highs))
        if len(wrong):
            raise ValueError(
                f"{name}: expected {low} at or below {high}, got {lows[wrong[0]]} and "
                f"{highs[wrong[0]]} of channel {wrong[0]}"
            )


def check_finite(name: str, numbers: NDArray[np.float64]) -> None:
    """Checks that the numbers of all channels are finite.

    Raises:
        ValueError: `<name>: expected finite numbers, got ...`.
    """
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise ValueError(
            f"{name}: expected finite numbers, got {numbers.flat[wrong[0]]} of channel {wrong[0]}"
        )


def vector(name: str, value: Any) -> NDArray[np.float64]:
    """Flattens the numbers of channels, of any shape, to a float64 vector.

    Raises:
        TypeError: `<name>: expected numbers, got ...`: other values, including numbers as text.
    """
    return array(name, value).reshape(-1)


def array(name: str, value: Any) -> NDArray[np.float64]:
    """Numbers as a float64 array with all of their axes."""
    try:
        numbers = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that is not on the CPU
        numbers = np.empty(1, object)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers, got {value!r}")
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite
        return numbers.astype(np.float64)
