"""Scale and offset of a loader's streams, from `normalize=` and `statistics=`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from robocache.loader.images.options import normalization_mode
from robocache.loader.window import Window
from robocache.loader.window_spec import WindowSpec
from robocache.normalization.formulas import Normalization, NormalizationMode, check_mode
from robocache.normalization.normalizer import Normalizer
from robocache.normalization.parse_statistics import Statistics, of_statistics
from robocache.normalization.window_statistics import WindowStatistics, WindowSummary
from robocache.store.stream_info import StreamInfo, is_image


def merge_modes(windows: Mapping[str, Window], normalize: Any) -> Any:
    """The loader's `normalize` with the modes that windows declare themselves.

    Raises:
        ValueError: `normalize[<stream>]: expected ..., got ...`: a window has its mode twice.
    """
    declared = {key: normalization_mode(window) for key, window in windows.items()}
    modes = {key: mode for key, mode in declared.items() if mode is not None}
    if not modes or not isinstance(normalize, (Mapping, Normalizer, type(None))):
        return normalize
    for key, mode in modes.items():
        if isinstance(normalize, Normalizer):
            raise ValueError(
                f"normalize[{key!r}]: expected None in the window, since the loader's normalize is "
                f"a Normalizer, got {mode!r}"
            )
        if normalize is not None and key in normalize:
            raise ValueError(
                f"normalize[{key!r}]: expected a mode in the window or in the loader's normalize, "
                f"got {mode!r} and {normalize[key]!r}"
            )
    return {**(normalize or {}), **modes}


def modes_of(normalize: Mapping[str, NormalizationMode] | Normalizer | None) -> dict[str, Any]:
    """The mode of each stream that is normalized; None: by the numbers of a Normalizer."""
    if isinstance(normalize, Normalizer):
        return dict.fromkeys(normalize.normalization)
    return dict(normalize or {})


def make_scales(
    streams: Mapping[str, StreamInfo],
    normalize: Mapping[str, NormalizationMode] | Normalizer | None,
    statistics: Mapping[str, Statistics] | None,
) -> dict[str, Normalization]:
    """Scale and offset of the normalized streams, of C channels each.

    Args:
        streams: The streams of the batch.
        normalize: A mode for each normalized stream; or a normalizer.
        statistics: In place of the store's, by stream: a summary as a store has them, a mapping
            with LeRobot's names (mean, std, min, max, q01, q10, q50, q90, q99; count), or scale and
            offset themselves. A mapping has what the mode needs, finite; in a summary NaN is a
            channel without values, which stays as it is. What :func:`compute_stats` gives may have
            streams that are not normalized.

    Raises:
        TypeError, ValueError: `normalize[<stream>]: expected ..., got ...`, and likewise
            `statistics[<stream>]`: it lacks what the mode needs, has other names, or numbers that
            are none of a deviation, a range or a scale.
    """
    if isinstance(normalize, Normalizer):
        if statistics is not None:
            raise ValueError(
                "statistics: expected None where normalize is a Normalizer, which has its numbers, "
                f"got {type(statistics).__name__}"
            )
        _check_keys("normalize", normalize.normalization, streams)
        return {
            key: _of_stored(scale, streams[key]) for key, scale in normalize.normalization.items()
        }
    if normalize is None:
        normalize = {}
    if not isinstance(normalize, Mapping):
        raise TypeError(
            f"normalize: expected a mode for each stream, as in {{'action': 'min_max'}}, "
            f"got {normalize!r}"
        )
    given = {} if statistics is None else statistics
    if not isinstance(given, Mapping):
        hint = " (normalize= takes it)" if isinstance(given, Normalizer) else ""
        raise TypeError(
            f"statistics: expected those of each stream, as in {{'action': {{'min': ..., 'max': "
            f"...}}}}, got {type(given).__name__}{hint}"
        )
    of_windows = isinstance(given, WindowStatistics)
    _check_keys("normalize", normalize, streams)
    if not of_windows:
        _check_keys("statistics", given, streams)
        for key in given:
            if key not in normalize:
                raise ValueError(
                    f"statistics: expected streams that normalize has a mode for, got {key!r}"
                )
    scales = {}
    for key, mode in normalize.items():
        check_mode(f"normalize[{key!r}]: mode", mode)
        if mode == "identity":
            continue
        known = given.get(key, streams[key].statistics)
        if known is None:
            raise ValueError(f"statistics[{key!r}]: expected some, which the store has not")
        scale = of_statistics(key, known, mode)
        scales[key] = _of_stored(scale, streams[key]) if isinstance(known, WindowSummary) else scale
    return scales


def _check_keys(name: str, given: Mapping[str, object], streams: Mapping[str, StreamInfo]) -> None:
    for key in given:
        if key not in streams:
            raise ValueError(f"{name}: expected {', '.join(streams)}, got {key!r}")


def _of_stored(scale: Normalization, info: StreamInfo) -> Normalization:
    """Scale and offset of stored values: of images, of bytes in place of 0 to 1."""
    subtract, multiply = (np.asarray(part, np.float64).reshape(-1) for part in scale)
    if is_image(info):
        subtract, multiply = subtract * 255, multiply / 255
    return Normalization(subtract, multiply)


def spread(name: str, scale: Normalization, shape: tuple[int, ...]) -> Normalization:
    """Scale and offset of each element of a row, from those of channels: all, the last axis, one.

    Raises:
        ValueError: Of another number.
    """
    elements = math.prod(shape)
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


def batch_scales(
    windows: Sequence[WindowSpec],
    concat: Mapping[str, Sequence[str]],
    named: Collection[str],
) -> dict[str, Normalization]:
    """Scale and offset of a loader's batches, by key: of each key that is normalized.

    Args:
        windows: Those of the loader.
        concat: Streams of each concatenated key.
        named: The streams that are normalized.
    """
    by_key = {window.name: window for window in windows}
    grouped = {key for keys in concat.values() for key in keys}
    found = {
        key: _of_batches(by_key[key])
        for key in named
        if by_key[key].normalization is not None and key not in grouped
    }
    for group, keys in concat.items():
        if any(key in named for key in keys):
            parts = [_of_batches(by_key[key]) for key in keys]
            found[group] = Normalization(
                *(np.concatenate([np.atleast_1d(x) for x in p]) for p in zip(*parts, strict=True))
            )
    return found


def _of_batches(window: WindowSpec) -> Normalization:
    """Scale and offset in the layout of a batch, where images are from 0 to 1."""
    if window.normalization is None:
        return Normalization(np.zeros(window.shape), np.ones(window.shape))
    subtract, multiply = window.normalization
    if window.channels_first or window.image is not None:
        if window.dtype == "U8":
            subtract, multiply = subtract / 255, multiply * 255
        if window.channels_first:
            return Normalization(subtract[:, None, None], multiply[:, None, None])
        return Normalization(subtract, multiply)
    return Normalization(subtract.reshape(window.shape), multiply.reshape(window.shape))
