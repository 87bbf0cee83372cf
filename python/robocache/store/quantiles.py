"""Quantiles in one pass: all rows while they are few, a KLL sketch of each channel beyond.

Sketches are those of the datasketches library (Karnin, Lang, Liberty: Optimal Quantile
Approximation in Streams, 2016). They merge, and keep their rank error when they do.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robocache.store.dtypes import Array

QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)

EXACT_ROWS = 1 << 16
"""Quantiles of so many rows are exact; of fewer where rows have more than 16 channels."""
_EXACT_ELEMENTS = 1 << 20  # what a store keeps of each stream: 4 or 8 MiB

RANK_ERROR = 0.003
"""How far the rank of any quantile beyond that is from the wanted one: 99 of 100 stay below it."""
_SKETCH_SIZE = 2048  # by itself a rank error of 0.0014

# A sketch takes 30 ns a value, much more than all else that is done with it. Beyond so many rows it
# gets one row of two, beyond twice as many one of four, and so on.
_THINNED_ROWS = 1 << 17
_BATCH_ROWS = 1 << 14  # sampled rows that go into a sketch together


def exact_rows(channels: int) -> int:
    """How many rows of so many channels have exact quantiles."""
    return min(EXACT_ROWS, _EXACT_ELEMENTS // channels)


class Quantiles:
    """Quantiles of each channel of rows, leaving out what is not finite.

    Args:
        channels: C.
        dtype: Of the rows: float32, or float64, which holds all types but the integers of 64 bits.
    """

    def __init__(self, channels: int, dtype: np.dtype[Any]) -> None:
        self.channels = channels
        self.dtype = dtype
        self.rows = 0
        self._kept: list[Array] = []  # while they are few
        self._sketches: list[Any] = []  # C of them, from then on
        self._sampled: list[Array] = []  # rows that are on their way into sketches
        self._level = 0  # each of which stands for 2 ** level rows

    @property
    def is_exact(self) -> bool:
        """Whether all rows are there."""
        return not self._sketches

    def update(self, rows: Array) -> None:
        """Adds rows [n, C]; they are copied.

        Raises:
            ImportError: These are too many to keep, and the datasketches library is missing.
        """
        if self.is_exact:
            if self.rows + len(rows) <= exact_rows(self.channels):
                self._kept.append(rows.astype(self.dtype))
                self.rows += len(rows)
                return
            self._start_sketches()
        while len(rows):
            level = (self.rows // _THINNED_ROWS).bit_length()
            n = min(len(rows), (_THINNED_ROWS << level) - self.rows)
            self._sample(rows[:n], level)
            self.rows += n
            rows = rows[n:]

    def merged(self, other: Quantiles) -> Quantiles:
        """Quantiles of the rows of both."""
        total = self.rows + other.rows
        result = self.copy()
        if self.is_exact and other.is_exact and total <= exact_rows(self.channels):
            result._kept += other._kept
        else:
            other = other.copy()
            for side in (result, other):
                side._start_sketches()
                side._flush()
            for mine, theirs in zip(result._sketches, other._sketches, strict=True):
                mine.merge(theirs)
        result.rows = total
        return result

    def copy(self) -> Quantiles:
        """One that changes by itself."""
        result = copy.copy(self)
        result._kept, result._sampled = list(self._kept), list(self._sampled)
        result._sketches = [copy.copy(sketch) for sketch in self._sketches]
        return result

    def at(self, ranks: Sequence[float]) -> Array:
        """The quantiles [len(ranks), C] as float64; NaN for a channel without finite values.

        Exact ones are interpolated as `numpy.quantile` does by default.
        """
        found = np.full((len(ranks), self.channels), np.nan)
        if self.is_exact:
            kept = self._rows()
            for channel in range(self.channels):
                values = kept[:, channel]
                values = values[np.isfinite(values)].astype(np.float64)
                if len(values):
                    with np.errstate(over="ignore", invalid="ignore"):
                        found[:, channel] = np.quantile(values, ranks)
            return found
        self._flush()
        for channel, sketch in enumerate(self._sketches):
            if not sketch.is_empty():
                found[:, channel] = sketch.get_quantiles(list(ranks))
        return found

    # ---- as tensors ----------------------------------------------------------------------------

    def to_tensors(self) -> dict[str, Array]:
        """The state: `rows` [n, C], or `sketches` [bytes] with `sketch_offsets` [C+1]."""
        if self.is_exact:
            return {"rows": self._rows()}
        self._flush()
        parts = [sketch.serialize() for sketch in self._sketches]
        return {
            "sketches": np.frombuffer(b"".join(parts), np.uint8),
            "sketch_offsets": np.cumsum([0, *map(len, parts)], dtype=np.int64),
            "sketch_rows": np.array([self.rows], np.int64),
        }

    @staticmethod
    def from_tensors(
        channels: int, dtype: np.dtype[Any], tensors: Mapping[str, Array]
    ) -> Quantiles:
        """The same from its state."""
        result = Quantiles(channels, dtype)
        if "rows" in tensors:
            rows = tensors["rows"]
            if rows.shape[1:] != (channels,) or len(rows) > exact_rows(channels):
                raise ValueError(f"rows: expected [n,{channels}], got {list(rows.shape)}")
            result._kept, result.rows = [rows.astype(dtype)], len(rows)
            return result
        offsets = tensors["sketch_offsets"]
        if offsets.shape != (channels + 1,):
            raise ValueError(f"sketch_offsets: expected [{channels + 1}], got {offsets.shape}")
        data = tensors["sketches"].tobytes()
        kind = _kind(dtype)
        result._sketches = [
            kind.deserialize(data[begin:end]) for begin, end in itertools.pairwise(offsets)
        ]
        result.rows = int(tensors["sketch_rows"][0])
        return result

    # ---- sketches ------------------------------------------------------------------------------

    def _rows(self) -> Array:
        if not self._kept:
            return np.empty((0, self.channels), self.dtype)
        if len(self._kept) > 1:
            self._kept = [np.concatenate(self._kept)]
        return self._kept[0]

    def _start_sketches(self) -> None:
        if self.is_exact:
            self._sketches = self._empty_sketches()
            _feed(self._sketches, self._rows())
            self._kept = []

    def _empty_sketches(self) -> list[Any]:
        return [_kind(self.dtype)(_SKETCH_SIZE) for _ in range(self.channels)]

    def _sample(self, rows: Array, level: int) -> None:
        """One row of each 2 ** level, a random one: rows of a robot may well have a period."""
        if level != self._level:
            self._flush()
            self._level = level
        if level:
            groups = np.arange(self.rows >> level, (self.rows + len(rows) - 1 >> level) + 1)
            chosen = (groups << level) + _hash(groups) % (1 << level) - self.rows
            rows = rows[chosen[(chosen >= 0) & (chosen < len(rows))]]
        self._sampled.append(rows.astype(self.dtype))
        if sum(map(len, self._sampled)) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._sampled:
            return
        rows = np.concatenate(self._sampled)
        self._sampled = []
        if self._level == 0:
            _feed(self._sketches, rows)
            return
        sketches = self._empty_sketches()
        _feed(sketches, rows)
        for mine, sampled in zip(self._sketches, sketches, strict=True):
            if not sampled.is_empty():
                for _ in range(self._level):  # merged with itself, all weights double
                    sampled.merge(copy.copy(sampled))
                mine.merge(sampled)


def _kind(dtype: np.dtype[Any]) -> Any:
    try:
        import datasketches
    except ImportError:
        raise ImportError(
            f"statistics of more than {EXACT_ROWS} rows, or {_EXACT_ELEMENTS} numbers, of a stream "
            "need datasketches: pip install datasketches (which compiles it on Python 3.14)"
        ) from None

    is_double = dtype == np.float64
    return datasketches.kll_doubles_sketch if is_double else datasketches.kll_floats_sketch


def _feed(sketches: list[Any], rows: Array) -> None:
    for channel, sketch in enumerate(sketches):
        values = rows[:, channel]
        # Sketches take values in ascending order 1.6 times as fast as others.
        sketch.update(np.sort(values[np.isfinite(values)]))


def _hash(numbers: Array) -> Array:
    """Numbers without a pattern: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014)."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = (x ^ (x >> np.uint64(31))) >> np.uint64(1)
    return mixed.astype(np.int64)
