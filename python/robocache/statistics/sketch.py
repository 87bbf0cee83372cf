"""A sketch of quantiles: KLL, with lots that are the same every time.

It holds values in levels; one of level l stands for 2**l of those that came. A level that is full
is sorted, and every other value of it goes one level up, the first or the second by lot: an error
of mean 0 for the rank of any x. Levels are the smaller the lower they are (Karnin, Lang, Liberty:
Optimal Quantile Approximation in Streams, 2016). Sketches merge level by level, and keep their rank
error when they do.

    level 2   ........................    at most 2048 values at the top
    level 1   ................            2/3 of that
    level 0   ..........                  and so on

Lots are drawn from the number of values so far, by a hash: the same values in the same order always
give the same quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

_TOP_VALUES, _LEAST_VALUES = 2048, 16  # of a level at most, which is a rank error of 0.0014


class Sketch:
    """A sketch of channels with the same number of values.

    Args:
        levels: [C, n] each, in which a value of `levels[l]` stands for 2**l. The arrays are never
            changed. An empty sketch takes the number of channels of what is added first.
    """

    def __init__(self, levels: Sequence[Array] = ()) -> None:
        self.levels = list(levels)

    @property
    def sizes(self) -> list[int]:
        """The number of values per channel of each level."""
        return [level.shape[1] for level in self.levels]

    def add(self, level: int, values: Array) -> None:
        """Adds values [C, n] of a level."""
        self._put(level, values)
        self._compress()

    def merge(self, other: Sketch) -> None:
        """Adds the values of another sketch of the same channels."""
        for level, values in enumerate(other.levels):
            self._put(level, values)
        self._compress()

    def split(self) -> list[Sketch]:
        """Splits the sketch into one for each channel."""
        channels = len(self.levels[0]) if self.levels else 0
        return [Sketch([level[c : c + 1] for level in self.levels]) for c in range(channels)]

    def quantiles(self, ranks: Sequence[float]) -> Array:
        """The quantiles [ranks, C] at ranks from 0 to 1, float64; NaN for an empty sketch."""
        values = np.concatenate(self.levels, axis=1)
        if not values.size:
            return np.full((len(ranks), len(values)), np.nan)
        order = np.argsort(values, kind="stable")
        weights = np.repeat(1 << np.arange(len(self.levels)), self.sizes)
        until = weights[order].cumsum(axis=1)
        places = [np.searchsorted(each, np.asarray(ranks) * each[-1]) for each in until]
        chosen = np.take_along_axis(order, np.stack(places).clip(max=len(weights) - 1), axis=1)
        found: Array = np.take_along_axis(values, chosen, axis=1).T.astype(np.float64)
        return found

    def _put(self, level: int, values: Array) -> None:
        while len(self.levels) <= level:
            self.levels.append(values[:, :0])
        if values.shape[1]:
            self.levels[level] = np.concatenate([self.levels[level], values], axis=1)

    def _compress(self) -> None:
        level = 0
        while level < len(self.levels):
            values = self.levels[level]
            room = int(_TOP_VALUES * (2 / 3) ** (len(self.levels) - 1 - level))
            if values.shape[1] > max(room, _LEAST_VALUES):
                values = np.sort(values)
                single = values.shape[1] % 2  # stays where it is
                count = sum(size << i for i, size in enumerate(self.sizes))
                lot = int(hashed(np.array([count * 64 + level]))[0]) & 1
                self.levels[level] = values[:, :single]
                self._put(level + 1, values[:, single + lot :: 2])
            level += 1


def hashed(numbers: Array) -> Array:
    """Numbers without a pattern: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = (x ^ (x >> np.uint64(31))) >> np.uint64(1)
    return mixed.astype(np.int64)
