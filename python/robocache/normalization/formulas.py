"""Scale and offset of each channel from a stream's statistics, by the formulas of five libraries.

All are `y = (x - subtract) * multiply`; docs/normalization.md has a table. The sources:

- lerobot: huggingface/lerobot 0.4, ``processor/normalize_processor.py``
- openpi: Physical-Intelligence/openpi, ``transforms.py``, Normalize
- robomimic: ARISE-Initiative/robomimic, ``utils/dataset.py``: by mean_std normalize_obs, which its
  observations have (0.3); by min_max action_stats_to_normalization_stats (master), its actions
- diffusion_policy: real-stanford/diffusion_policy, ``model/common/normalizer.py``, LinearNormalizer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import short_repr
from robocache.store.stream_info import StatisticsSummary

NormalizationMode: TypeAlias = Literal["mean_std", "min_max", "quantiles", "quantile10", "identity"]
Preset: TypeAlias = Literal["robocache", "lerobot", "openpi", "robomimic", "diffusion_policy"]
MODES = ("mean_std", "min_max", "quantiles", "quantile10", "identity")
_PRESET_MODES = {
    "robocache": MODES,
    "lerobot": MODES,
    "openpi": ("mean_std", "quantiles", "identity"),
    "robomimic": ("mean_std", "min_max", "identity"),
    "diffusion_policy": ("mean_std", "min_max", "identity"),
}
_RANKS = {"quantiles": (0.01, 0.99), "quantile10": (0.1, 0.9)}

Numbers: TypeAlias = NDArray[np.float64]


class Normalization(NamedTuple):
    """Offset and scale of `y = (x - subtract) * multiply`, [C] float64 each."""

    subtract: NDArray[np.float64]
    multiply: NDArray[np.float64]

    def __repr__(self) -> str:
        return short_repr(self)


def normalization(
    statistics: StatisticsSummary, mode: NormalizationMode, preset: Preset = "robocache"
) -> Normalization:
    """Computes the normalization of a stream from its statistics.

    - "mean_std": `(x - mean) / (std + 1e-8)`.
    - "min_max": `2 * (x - min) / (max - min) - 1`, which is from -1 to 1.
    - "quantiles": as "min_max" with the quantiles 0.01 and 0.99; outliers exceed -1 to 1.
    - "quantile10": as "min_max" with the quantiles 0.1 and 0.9.
    - "identity": x.

    A constant channel (all values or both quantiles are equal, or the deviation is 0) is only
    shifted to 0: its `multiply` is 1. A channel without any finite value is unchanged.

    The other presets have the formulas and modes of the library of that name, also for constant
    channels; see the table in docs/normalization.md.

    Args:
        statistics: `store.statistics[stream]`, of C channels. For images, C is the number of
            colors: the last axis.
        mode: One of the above.
        preset: The library whose formulas apply.

    Raises:
        ValueError: An unknown `mode` or `preset`, a mode that the preset lacks, or statistics
            without the mode's quantiles or the preset's count.

    Example:
        >>> subtract, multiply = rc.normalization(store.statistics["action"], "min_max")
        >>> y = (store[0]["action"].values - subtract) * multiply
    """
    check_mode("mode", mode, check_preset("preset", preset))
    if mode == "identity":
        return Normalization(np.zeros(len(statistics.mean)), np.ones(len(statistics.mean)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if mode == "mean_std":
            subtract, multiply = _by_deviation(statistics, preset)
        else:
            low, high = statistics.min, statistics.max
            if mode in _RANKS:
                low, high = (_quantile(statistics, rank) for rank in _RANKS[mode])
            subtract, multiply = _by_range(low, high, preset)
    is_known = np.isfinite(subtract) & np.isfinite(multiply)
    return Normalization(np.where(is_known, subtract, 0), np.where(is_known, multiply, 1))


def check_preset(name: str, preset: object) -> str:
    """Returns the preset if it is one of the five.

    Raises:
        ValueError: `<name>: expected ..., got ...`.
    """
    if not isinstance(preset, str) or preset not in _PRESET_MODES:
        raise ValueError(f"{name}: expected {_or(list(_PRESET_MODES))}, got {preset!r}")
    return preset


def check_mode(name: str, mode: object, preset: str = "robocache") -> None:
    """Checks that a preset has a mode.

    Raises:
        ValueError: `<name>: expected ..., got ...`.
    """
    modes = _PRESET_MODES[preset]
    if not isinstance(mode, str) or mode not in modes:
        of = "" if modes == MODES else f" of preset {preset}"
        raise ValueError(f"{name}: expected {_or(modes)}{of}, got {mode!r}")


def _by_deviation(statistics: StatisticsSummary, preset: str) -> tuple[Numbers, Numbers]:
    """The normalization to mean 0 and deviation 1."""
    mean, std = statistics.mean, statistics.std
    if preset == "robocache":
        # The computed deviation of equal values may be a rounding error, so the range counts;
        # user-supplied statistics may lack the range.
        is_constant = (statistics.min == statistics.max) | (std == 0)
        return mean, np.where(is_constant, 1, 1 / (std + 1e-8))
    if preset == "diffusion_policy":  # the deviation of a sample, as torch.std
        count = statistics.count
        if np.any((count < 1) & np.isfinite(std)):
            raise ValueError(
                "statistics.count: expected one (the deviation of preset diffusion_policy is that "
                "of a sample), got none"
            )
        std = std * np.sqrt(count / (count - 1))
        return mean, np.where(std < 1e-4, 1, 1 / std)
    return mean, 1 / (std + {"lerobot": 1e-8, "openpi": 1e-6, "robomimic": 1e-3}[preset])


def _by_range(low: Numbers, high: Numbers, preset: str) -> tuple[Numbers, Numbers]:
    """The normalization of `low` to -1 and `high` to 1."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2  # sum and difference may not be finite
    if preset == "robocache":
        return middle, np.where(low == high, 1, 1 / half)
    if preset == "lerobot":
        return _low_to_minus_one(low, low == high, middle, half, 1e-8 / 2)
    if preset == "openpi":
        half = half + 1e-6 / 2
        return _low_to_minus_one(low, low == high, low + half, half, 1e-6 / 2)
    bound = 0.999999 if preset == "robomimic" else 1.0
    is_narrow = high - low < 1e-4
    return np.where(is_narrow, low, middle), np.where(is_narrow, 1, bound / half)


def _low_to_minus_one(
    low: Numbers, is_constant: NDArray[np.bool_], middle: Numbers, half: Numbers, epsilon: float
) -> tuple[Numbers, Numbers]:
    """Maps constant channels to -1, and the inverse maps values near -1 to the constant.

    These are the results of a library that divides `x - low` by an epsilon. Where `low + epsilon`
    rounds to `low` in float32, the next float32 replaces it.
    """
    step = np.maximum(epsilon, np.spacing(np.abs(low).astype(np.float32)))
    above = (low + step).astype(np.float32).astype(np.float64)
    return (
        np.where(is_constant, above, middle),
        np.where(is_constant, 1 / (above - low), 1 / half),
    )


def _quantile(statistics: StatisticsSummary, rank: float) -> NDArray[Any]:
    if rank not in statistics.quantiles:
        known = ", ".join(map(str, statistics.quantiles)) or "none"
        raise ValueError(f"statistics.quantiles: expected {rank} among them, got {known}")
    return statistics.quantiles[rank]


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
