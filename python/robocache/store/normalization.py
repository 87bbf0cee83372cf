"""Scale and offset of each channel from a stream's statistics."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.store.stream_info import StatisticsSummary

NormalizationMode: TypeAlias = Literal["mean_std", "min_max", "quantiles", "quantile10", "identity"]
MODES = ("mean_std", "min_max", "quantiles", "quantile10", "identity")
_RANKS = {"quantiles": (0.01, 0.99), "quantile10": (0.1, 0.9)}
_EPSILON = 1e-8  # LeRobot's


class Normalization(NamedTuple):
    """`y = (x - subtract) * multiply`, as alignment and the loader take it: [C] float64 each."""

    subtract: NDArray[np.float64]
    multiply: NDArray[np.float64]


def normalization(statistics: StatisticsSummary, mode: NormalizationMode) -> Normalization:
    """How a stream is normalised, by the formulas of LeRobot's normalisation modes.

    - "mean_std": `(x - mean) / (std + 1e-8)`.
    - "min_max": `2 * (x - min) / (max - min) - 1`, which is from -1 to 1.
    - "quantiles": the same with the quantiles 0.01 and 0.99, so that outliers go beyond.
    - "quantile10": the same with the quantiles 0.1 and 0.9.
    - "identity": x.

    A channel without a spread (all values, or both quantiles, are equal, or the deviation is 0) is
    only shifted to 0: `multiply` is 1 there. LeRobot divides by 1e-8, which makes 1e8 of a rounding
    error. A channel without any finite value stays as it is.

    Args:
        statistics: `store.statistics[stream]`, of C channels. Of images, C is the number of
            colours: the last axis.
        mode: One of the above.

    Raises:
        ValueError: `mode` is another, or the store has no such quantiles.

    Example:
        >>> subtract, multiply = rc.normalization(store.statistics["action"], "min_max")
        >>> y = (store[0]["action"].values - subtract) * multiply
    """
    check_mode("mode", mode)
    if mode == "identity":
        return Normalization(np.zeros(len(statistics.mean)), np.ones(len(statistics.mean)))
    if mode == "mean_std":
        subtract = statistics.mean
        # The deviation of equal values may be a rounding error; who gives one may give no range.
        is_constant = (statistics.min == statistics.max) | (statistics.std == 0)
        multiply = 1 / (statistics.std + _EPSILON)
    else:
        low, high = statistics.min, statistics.max
        if mode in _RANKS:
            low, high = (_quantile(statistics, rank) for rank in _RANKS[mode])
        subtract = low / 2 + high / 2  # the sum may not be finite
        is_constant = low == high
        with np.errstate(divide="ignore"):
            multiply = 1 / (high / 2 - low / 2)
    multiply = np.where(is_constant, 1, multiply)
    is_known = np.isfinite(subtract) & np.isfinite(multiply)
    return Normalization(np.where(is_known, subtract, 0), np.where(is_known, multiply, 1))


def check_mode(name: str, mode: object) -> None:
    """That a mode is one of :data:`MODES`.

    Raises:
        ValueError: `<name>: expected ..., got ...`.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"{name}: expected {', '.join(MODES[:-1])} or {MODES[-1]}, got {mode!r}")


def _quantile(statistics: StatisticsSummary, rank: float) -> NDArray[Any]:
    if rank not in statistics.quantiles:
        known = ", ".join(map(str, statistics.quantiles)) or "none"
        raise ValueError(f"statistics.quantiles: expected {rank} among them, got {known}")
    return statistics.quantiles[rank]
