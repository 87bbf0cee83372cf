"""Statistics of streams, computed in one pass over the rows and merged over shards and stores.

The moments of chunks are merged by Chan's formula (Chan, Golub, LeVeque: Updating Formulae and
a Pairwise Algorithm for Computing Sample Variances, 1979). A type with few values, such as that of
images, has a histogram, from which all statistics are exact; :mod:`robocache.statistics.quantiles`
computes the quantiles of other types.
"""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robocache.statistics.quantiles import QUANTILES, Quantiles
from robocache.store.dtypes import Array, widened
from robocache.store.errors import StoreError
from robocache.store.files import read_chunks
from robocache.store.library import count_bytes, moments
from robocache.store.manifest import NAME, Manifest

MAX_CHANNELS = 1024
"""Maximum channels of a stream; larger rows have statistics per color or for all elements."""
_MAX_COLORS = 4
_HISTOGRAMS = {"BOOL": (0, 2), "U8": (0, 256), "I8": (-128, 256)}  # (lowest value, bins)
_WIDE_HISTOGRAMS = {"U16": (0, 1 << 16), "I16": (-(1 << 15), 1 << 16)}
_MOST_STATE_BYTES = 128 << 20  # of a stream's state; sketches of 1024 channels take up to 60 MB
_BLOCK = 1 << 15  # elements per bincount, which copies them to 64-bit integers: fits in the cache


def channels_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Number of channels of a stream's statistics.

    Usually one per element of a row. Images (rows of bytes with two axes or more) and rows of more
    than 1024 elements have one per entry of the last axis if that axis has at most 4 entries
    (colors, or coordinates of points), and otherwise one for all elements.
    """
    elements = math.prod(shape)
    is_image = dtype == "U8" and len(shape) >= 2
    if elements <= MAX_CHANNELS and not is_image:
        return elements
    return shape[-1] if len(shape) >= 2 and shape[-1] <= _MAX_COLORS else 1


class StreamStatistics:
    """Statistics of the finite elements in the valid rows of one stream.

    Args:
        dtype: safetensors' name of the stream's type.
        shape: Shape of a row.

    Attributes:
        channels: C, from :func:`channels_of`.

    Example:
        >>> statistics = StreamStatistics("F32", (7,))
        >>> statistics.update(actions)
        >>> statistics.summary()["mean"]
    """

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.channels = channels_of(dtype, shape)
        is_pooled = self.channels != math.prod(shape)
        span = _HISTOGRAMS.get(dtype) or (_WIDE_HISTOGRAMS.get(dtype) if is_pooled else None)
        self._lowest = span[0] if span else 0
        self._histogram = np.zeros((self.channels, span[1]), np.int64) if span else None
        self._count = np.zeros(self.channels, np.int64)
        self._mean = np.zeros(self.channels)
        self._squares = np.zeros(self.channels)  # sums of squared differences from the mean
        self._min = np.full(self.channels, np.inf)
        self._max = np.full(self.channels, -np.inf)
        kind = np.dtype(np.float32 if dtype in ("F16", "BF16", "F32") else np.float64)
        self._quantiles = Quantiles(self.channels, kind)

    def update(self, values: Array, valid: Array | None = None) -> None:
        """Adds rows.

        Args:
            values: [n, *shape] in the stored type: bfloat16 as uint16.
            valid: [n] bool: the rows to count; None: all.
        """
        if valid is not None and not valid.all():
            values = values[valid]
        rows = values.reshape(-1, self.channels)
        if not len(rows):
            return
        if self._histogram is not None:
            _count_values(self._histogram, rows, self._lowest)
            return
        rows = widened(self.dtype, rows)
        self._add_moments(*moments(rows))
        self._quantiles.update(rows)

    def merged(self, other: StreamStatistics) -> StreamStatistics:
        """Statistics of this object's and the other's rows together.

        Raises:
            ValueError: The streams differ in type or shape.
        """
        if (self.dtype, self.shape) != (other.dtype, other.shape):
            raise ValueError(
                f"other: expected {self.dtype} rows of shape {list(self.shape)}, "
                f"got {other.dtype} rows of shape {list(other.shape)}"
            )
        result = copy.copy(self)
        if self._histogram is not None and other._histogram is not None:
            result._histogram = self._histogram + other._histogram
            return result
        result._add_moments(other._count, other._mean, other._squares, other._min, other._max)
        result._quantiles = self._quantiles.merged(other._quantiles)
        return result

    def _add_moments(
        self, count: Array, mean: Array, squares: Array, lowest: Array, highest: Array
    ) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            total = self._count + count
            share = count / np.maximum(total, 1)
            difference = mean - self._mean
            self._mean = self._mean + difference * share
            self._squares = self._squares + squares + difference**2 * (self._count * share)
        self._count = total
        self._min = np.minimum(self._min, lowest)
        self._max = np.maximum(self._max, highest)

    # ---- results -------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The statistics in the manifest's form: lists over channels, None for non-finite numbers.

        `std` is that of the population (divided by the count). Exact quantiles are interpolated
        as `numpy.quantile` does; beyond :data:`quantiles.EXACT_ROWS` rows quantiles have a rank
        error of :data:`quantiles.RANK_ERROR`.
        """
        if self._histogram is not None:
            count, mean, squares, lowest, highest = _histogram_moments(
                self._histogram, self._lowest
            )
            quantiles = _histogram_quantiles(self._histogram, self._lowest)
        else:
            count, mean, squares = self._count, self._mean, self._squares
            lowest, highest = self._min, self._max
            quantiles = self._quantiles.at(QUANTILES)
        some = count > 0
        with np.errstate(invalid="ignore"):
            std = np.sqrt(squares / np.maximum(count, 1))
        return {
            "count": count.tolist(),
            "mean": _numbers(np.where(some, mean, np.nan)),
            "std": _numbers(np.where(some, std, np.nan)),
            "min": _numbers(lowest),
            "max": _numbers(highest),
            "quantiles": {
                str(rank): _numbers(row) for rank, row in zip(QUANTILES, quantiles, strict=True)
            },
            "exact_quantiles": self._histogram is not None or self._quantiles.is_exact,
        }

    def to_tensors(self) -> dict[str, Array]:
        """The state, from which :meth:`from_tensors` restores the statistics."""
        if self._histogram is not None:
            return {"histogram": self._histogram}
        return {
            "count": self._count,
            "mean": self._mean,
            "squares": self._squares,
            "min": self._min,
            "max": self._max,
            **self._quantiles.to_tensors(),
        }

    @staticmethod
    def from_tensors(
        dtype: str, shape: tuple[int, ...], tensors: Mapping[str, Array]
    ) -> StreamStatistics:
        """Restores statistics from their state.

        Raises:
            ValueError: `<tensor>: expected ..., got ...`: the tensors do not fit the stream.
        """
        result = StreamStatistics(dtype, shape)
        if result._histogram is not None:
            result._histogram = _state(tensors, "histogram", np.int64, result._histogram.shape)
            return result
        c = (result.channels,)
        result._count = _state(tensors, "count", np.int64, c)
        result._mean = _state(tensors, "mean", np.float64, c)
        result._squares = _state(tensors, "squares", np.float64, c)
        result._min = _state(tensors, "min", np.float64, c)
        result._max = _state(tensors, "max", np.float64, c)
        result._quantiles = Quantiles.from_tensors(
            result.channels, result._quantiles.dtype, tensors
        )
        return result


# ---- the file of a store ------------------------------------------------------------------------


def state_bytes(statistics: Mapping[str, StreamStatistics]) -> bytes:
    """Encodes the state of each stream as a safetensors file of tensors `<stream>/<tensor>`."""
    from safetensors.numpy import save

    tensors = {
        f"{stream}/{name}": np.ascontiguousarray(tensor)
        for stream, each in statistics.items()
        for name, tensor in each.to_tensors().items()
    }
    return save(tensors)


def read_state(folder: Path, manifest: Manifest) -> dict[str, StreamStatistics]:
    """Reads the statistics of a store's streams from the file that its manifest names.

    Raises:
        OSError: The file is missing or can't be read.
        StoreError: The file was altered, is larger than the state of its streams can be, or the
            manifest has episodes without statistics.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    entry = manifest.statistics
    if entry is None:
        if manifest.shards:
            raise StoreError(f"{folder / NAME}: statistics: expected those of its rows, got null")
        return {}
    path = folder / entry.file
    most = _MOST_STATE_BYTES * (1 + len(manifest.streams))
    if entry.bytes > most:
        raise StoreError(
            f"{folder / NAME}: statistics.bytes: expected at most {most} for "
            f"{len(manifest.streams)} streams, got {entry.bytes}"
        )
    data = b"".join(read_chunks(path, entry.bytes, entry.bytes))
    crc32 = f"{zlib.crc32(data):08x}"
    if crc32 != entry.crc32:
        raise StoreError(
            f"{path}: expected crc32 {entry.crc32}, as the manifest says, got {crc32}: the "
            "file was altered"
        )
    tensors: dict[str, dict[str, Array]] = {}
    try:
        for key, tensor in load(data).items():
            stream, _, name = key.rpartition("/")
            tensors.setdefault(stream, {})[name] = tensor
        return {
            stream.name: StreamStatistics.from_tensors(
                stream.dtype, stream.values_shape, tensors[stream.name]
            )
            for stream in manifest.streams
        }
    except (SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"{path}: expected the state of statistics, got {error!r}") from None


def _state(tensors: Mapping[str, Array], name: str, dtype: type, shape: tuple[int, ...]) -> Array:
    tensor = tensors.get(name)
    if tensor is None or tensor.dtype != dtype or tensor.shape != shape:
        got = "none" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
        raise ValueError(f"{name}: expected {np.dtype(dtype)} {list(shape)}, got {got}")
    return tensor


def _numbers(values: Array) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


# ---- histograms --------------------------------------------------------------------------------


def _count_values(histogram: Array, rows: Array, lowest: int) -> None:
    """Adds rows [n, C] to a histogram [C, bins]."""
    bins = histogram.shape[1]
    if rows.dtype.kind == "i":  # map to unsigned integers of the same size, in the same order
        rows = (rows ^ np.array(lowest, rows.dtype)).view(f"u{rows.dtype.itemsize}")
    elif rows.dtype == np.bool_:
        rows = rows.view(np.uint8)
    if rows.dtype == np.uint8:
        histogram += count_bytes(rows)[:, :bins]
        return
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        for channel in range(len(histogram)):
            histogram[channel] += np.bincount(block[:, channel], minlength=bins)


def _histogram_moments(histogram: Array, lowest: int) -> tuple[Array, Array, Array, Array, Array]:
    bins = np.arange(histogram.shape[1], dtype=np.float64) + lowest
    count = histogram.sum(axis=1)
    mean = (histogram * bins).sum(axis=1) / np.maximum(count, 1)
    squares = (histogram * (bins - mean[:, None]) ** 2).sum(axis=1)
    least = np.where(histogram > 0, bins, np.inf).min(axis=1)
    greatest = np.where(histogram > 0, bins, -np.inf).max(axis=1)
    return count, mean, squares, least, greatest


def _histogram_quantiles(histogram: Array, lowest: int) -> Array:
    """[quantiles, C], interpolated as numpy.quantile does by default."""
    quantiles = np.full((len(QUANTILES), len(histogram)), np.nan)
    for channel, counts in enumerate(histogram):
        until = counts.cumsum()
        if not until[-1]:
            continue
        place = np.asarray(QUANTILES) * (until[-1] - 1)
        before = np.floor(place)
        low = np.searchsorted(until, before, side="right")
        high = np.searchsorted(until, before + 1, side="right")  # of one value: not used, 0 times
        quantiles[:, channel] = lowest + low + (high - low) * (place - before)
    return quantiles
