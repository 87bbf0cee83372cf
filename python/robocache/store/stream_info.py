"""Streams of a store as its users see them: :class:`StreamInfo` and statistics."""

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
from robocache.store.dtypes import STORAGE
from robocache.store.manifest import Manifest

MAX_COLORS = 4


@dataclass(frozen=True, repr=False)
class StatisticsSummary(ShortRepr):
    """Numbers of a stream's valid and finite elements, one for each channel.

    An image stream has one for each color, over all pixels. NaN stands for what is not finite, and
    for everything but the count where there are no elements.
    """

    count: NDArray[np.int64]
    """How many elements there are."""
    mean: NDArray[np.float64]
    """Their mean."""
    std: NDArray[np.float64]
    """Their standard deviation, of the population."""
    min: NDArray[np.float64]
    """The smallest."""
    max: NDArray[np.float64]
    """The largest."""
    quantiles: Mapping[float, NDArray[np.float64]]
    """By their rank, 0 to 1."""
    exact_quantiles: bool
    """Whether quantiles are exact, or from a sketch."""


@dataclass(frozen=True, repr=False)
class StreamInfo(ShortRepr):
    """Metadata of a stream of a store."""

    name: str
    """Its name."""
    type_name: str
    """The type of its elements as safetensors names it: "F32"."""
    shape: tuple[int, ...]
    """Shape of one row: () for a number, (H, W, C) for an image."""
    method: MethodName | tuple[tuple[str, int], ...]
    """How alignment combines its rows by default: a method, or runs of channels with one each."""
    units: str | None
    """Units of its values."""
    channels: tuple[str, ...] | None
    """A name for each element of a row."""
    rate: float | None
    """The nominal rate in Hz, where the recording has one."""
    timeline: Literal["time", "rows"]
    """"rows" where its times were made from the rate, and not recorded."""
    source: str | None
    """Where the recording has it, in words."""
    rows: int
    """Rows in all episodes together."""
    statistics: StatisticsSummary | None
    """Statistics of its values, if they were computed."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements.

        Raises:
            ImportError: It is bfloat16, which NumPy has from ml_dtypes alone, and that is missing.
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
        """Bytes of one row's values."""
        return math.prod(self.shape) * STORAGE[self.type_name].itemsize

    def __str__(self) -> str:
        rate = "" if self.rate is None else f" {self.rate:g} Hz"
        return f"{self.name} {self.row_text}{rate}"

    @property
    def row_text(self) -> str:
        """Type and shape of a row: "F32[7]"."""
        return f"{self.type_name}{list(self.shape) or ''}".replace(" ", "")

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
        """A table with a row for each stream."""
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
    """Whether its rows are pictures: bytes [H,W,C] of at most four colors."""
    return info.type_name == "U8" and len(info.shape) == 3 and info.shape[2] <= MAX_COLORS


def stream_infos(manifest: Manifest, rows: list[int]) -> dict[str, StreamInfo]:
    """The streams of a manifest by name, in its order, with the rows that each of them has."""
    summaries = {} if manifest.statistics is None else manifest.statistics.streams
    infos = {}
    for stream, count in zip(manifest.streams, rows, strict=True):
        metadata = stream.metadata
        infos[stream.name] = StreamInfo(
            name=stream.name,
            type_name=stream.dtype,
            shape=stream.shape,
            method=cast("MethodName | tuple[tuple[str, int], ...]", metadata.method),
            units=metadata.units,
            channels=metadata.channels,
            rate=metadata.rate,
            timeline=metadata.timeline or "time",
            source=metadata.source,
            rows=count,
            statistics=summary_of(summaries[stream.name]) if stream.name in summaries else None,
        )
    return infos


def summary_of(summary: Mapping[str, Any]) -> StatisticsSummary:
    """A summary from its numbers as a manifest has them."""

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
