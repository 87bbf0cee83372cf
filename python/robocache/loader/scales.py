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
            with LeRobot's names (mean, std, min, max, q01, q10, q50, q90, q99), or scale and offset
            themselves.

    Raises:
        TypeError, ValueError: `normalize[<stream>]: expected ..., got ...`.
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
        if isinstance(known, Mapping):
            known = _summary(f"statistics[{key!r}]", known)
        if not isinstance(known, (Normalization, StatisticsSummary)):
            raise TypeError(
                f"statistics[{key!r}]: expected a mapping of mean, std, min, max and so on, or a "
                f"Normalization, got {type(known).__name__}"
            )
        try:
            scale = known if isinstance(known, Normalization) else normalization(known, mode)
        except ValueError as error:
            raise ValueError(f"normalize[{key!r}]: {error}") from None
        scales[key] = Normalization(*(np.asarray(x, np.float64).reshape(-1) for x in scale))
    return scales


def _summary(name: str, given: Mapping[str, Any]) -> StatisticsSummary:
    """Statistics as LeRobot keeps them, where images have [C,1,1]; what is missing is NaN."""
    found = {key: _vector(f"{name}[{key!r}]", value) for key, value in given.items()}
    known = ("mean", "std", "min", "max", *_QUANTILES)
    sizes = {len(found[key]) for key in known if key in found}
    if len(sizes) != 1:
        raise ValueError(f"{name}: expected some of {', '.join(known)}, all of a length")
    nothing = np.full(sizes.pop(), np.nan)
    return StatisticsSummary(
        count=np.zeros(len(nothing), np.int64),
        mean=found.get("mean", nothing),
        std=found.get("std", nothing),
        min=found.get("min", nothing),
        max=found.get("max", nothing),
        quantiles={rank: found[key] for key, rank in _QUANTILES.items() if key in found},
        exact_quantiles=False,
    )


def _vector(name: str, value: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(value, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected numbers, got {value!r}") from None


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
