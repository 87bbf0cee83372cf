"""Public metadata of a store's streams: :class:`StreamInfo` and :class:`StatisticsSummary`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ByName, ShortRepr, cut, method_text, short
from robocache.core.names import MethodName
from robocache.core.tables import html_table, text_table
from robocache.jpeg.encoded import EncodedFrames
from robocache.store.dtypes import STORAGE
from robocache.store.library import OpenStore
from robocache.store.manifest import Manifest

MAX_COLORS = 4


@dataclass(frozen=True, repr=False)
class StatisticsSummary(ShortRepr):
    """Statistics of the finite elements in a stream's valid rows: arrays with a number per channel.

    The channels of an image stream are its colors; each number is over all pixels. NaN stands for
    a statistic that is not finite, and for all but the count of a channel without elements.
    """

    count: NDArray[np.int64]
    """Number of elements."""
    mean: NDArray[np.float64]
    """Mean."""
    std: NDArray[np.float64]
    """Standard deviation of the population."""
    min: NDArray[np.float64]
    """Minimum."""
    max: NDArray[np.float64]
    """Maximum."""
    quantiles: Mapping[float, NDArray[np.float64]]
    """Quantiles by rank, 0 to 1."""
    exact_quantiles: bool
    """Whether quantiles are exact, or from a sketch."""


@dataclass(frozen=True, repr=False)
class StreamInfo(ShortRepr):
    """Metadata of a stream of a store."""

    name: str
    """Name of the stream."""
    type_name: str
    """Element type, by its safetensors name: "F32"."""
    shape: tuple[int, ...]
    """Shape of one row: () for a number, (H, W, C) for an image; of one item of a ragged row."""
    method: MethodName | tuple[tuple[str, int], ...]
    """How alignment combines rows by default: a method, or a layout of (method, channels) pairs."""
    units: str | None
    """Units of the values."""
    channels: tuple[str, ...] | None
    """A name for each element of a row."""
    rate: float | None
    """The nominal rate in Hz, if the recording states one."""
    timeline: Literal["time", "rows"]
    """"time" for recorded times, "rows" for times computed from the rate."""
    source: str | None
    """Location of the stream in the recording, in words, such as "topic /imu"."""
    rows: int
    """Total number of rows in all episodes."""
    statistics: StatisticsSummary | None
    """Statistics of the values, if they were computed."""
    is_ragged: bool = False
    """Whether rows have different numbers of items: a row is [n, *shape]."""
    encoding: Literal["jpeg"] | None = None
    """How the images of the stream are stored; `shape` is that of a decoded row."""
    mcus_per_entry: int | None = None
    """Minimum coded units per entry of the index of an encoded image: robocache/jpeg.h."""
    encoded: EncodedFrames | None = None
    """The frames that this library encoded, with their PSNR; None if none were."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type in NumPy.

        Raises:
            ImportError: The type is bfloat16, which NumPy has from ml_dtypes only, and ml_dtypes
                is missing.
        """
        if self.type_name != "BF16":
            return STORAGE[self.type_name]
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            raise ImportError(
                f"{self.name}: a bfloat16 stream needs ml_dtypes in NumPy: pip install ml_dtypes"
            ) from None
        dtype: np.dtype[Any] = np.dtype(bfloat16)
        return dtype

    @property
    def row_bytes(self) -> int:
        """Size of one row's values, in bytes; of one item of a ragged row."""
        return math.prod(self.shape) * STORAGE[self.type_name].itemsize

    def __str__(self) -> str:
        rate = "" if self.rate is None else f" {self.rate:g} Hz"
        return f"{self.name} {self.row_text}{rate}"

    @property
    def row_text(self) -> str:
        """Type and shape of a row: "F32[7]", "F32[*,3]" of ragged rows of points."""
        if self.encoding is not None:
            return f"{self.encoding.upper()}[{','.join(map(str, self.shape))}]"
        sizes = ["*"] * self.is_ragged + [str(size) for size in self.shape]
        return f"{self.type_name}[{','.join(sizes)}]" if sizes else self.type_name

    def _repr_html_(self) -> str:
        rows = [
            [field.name, cut(value if isinstance(value, str) else short(value))]
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        ]
        return html_table(("field", "value"), rows, (0, 1))


_HEADER = ("stream", "row", "method", "Hz", "units", "rows", "statistics")
_LEFT = (0, 1, 2, 4, 6)


class StreamTable(ByName[StreamInfo]):
    """The streams of a store: ``store.streams["action"]`` is one; ``print`` shows a table."""

    def __str__(self) -> str:
        return text_table(_HEADER, self._rows(), _LEFT)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, caption: str = "") -> str:
        """An HTML table with a row for each stream."""
        return html_table(_HEADER, self._rows(), _LEFT, caption)

    def _rows(self) -> list[list[str]]:
        return [
            [
                cut(name),
                info.row_text,
                method_text(info.method),
                "" if info.rate is None else f"{info.rate:g}",
                cut(info.units or ""),
                f"{info.rows:,}",
                "" if info.statistics is None else "yes",
            ]
            for name, info in self.items()
        ]


def is_image(info: StreamInfo) -> bool:
    """Whether the stream's rows are images: bytes [H, W, C] of at most four colors."""
    is_raster = len(info.shape) == 3 and info.shape[2] <= MAX_COLORS
    return info.type_name == "U8" and is_raster and not info.is_ragged


def stream_infos(manifest: Manifest, store: OpenStore) -> dict[str, StreamInfo]:
    """The streams of a store and its manifest by name, in the manifest's order."""
    summaries = {} if manifest.statistics is None else manifest.statistics.streams
    infos = {}
    for number, stream in enumerate(manifest.streams):
        metadata = stream.metadata
        infos[stream.name] = StreamInfo(
            name=stream.name,
            type_name=stream.dtype,
            shape=stream.values_shape,
            method=cast("MethodName | tuple[tuple[str, int], ...]", metadata.method),
            units=metadata.units,
            channels=metadata.channels,
            rate=metadata.rate,
            timeline=metadata.timeline or "time",
            source=metadata.source,
            rows=store.count_rows(number),
            statistics=summary_of(summaries[stream.name]) if stream.name in summaries else None,
            is_ragged=stream.is_ragged and stream.encoding is None,
            encoding=cast("Literal['jpeg'] | None", stream.encoding and stream.encoding.name),
            mcus_per_entry=None if stream.encoding is None else stream.encoding.mcus_per_entry,
            encoded=stream.encoded,
        )
    return infos


def summary_of(summary: Mapping[str, Any]) -> StatisticsSummary:
    """Converts a summary from the manifest's JSON values."""

    def floats(numbers: list[float | None]) -> NDArray[np.float64]:
        return np.array(numbers, np.float64)  # None becomes NaN

    return StatisticsSummary(
        count=np.array(summary["count"], np.int64),
        mean=floats(summary["mean"]),
        std=floats(summary["std"]),
        min=floats(summary["min"]),
        max=floats(summary["max"]),
        quantiles={float(rank): floats(x) for rank, x in summary["quantiles"].items()},
        exact_quantiles=summary["exact_quantiles"],
    )
