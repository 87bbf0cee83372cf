"""`LoaderSummary`: what a loader's batches hold, stream by stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robocache.core.display import cut, method_text
from robocache.core.tables import html_table, offsets_text, text_table
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.padding_samples import StepMasks
from robocache.loader.window_spec import WindowSpec

_MOST_LINES = 20  # of `repr`
_HEADER = ("key", "Hz", "offsets", "method", "padded", "age, ms: median", "largest")


@dataclass(frozen=True)
class StreamSummary:
    """A stream of a loader: its window, and what the loader saw of it at some of its samples."""

    key: str
    """Its key in a batch."""
    rate_hz: float | None
    """Rows per second: of neighboring rows, by the median; by rows, the nominal rate. None: the
    stream has too few rows to tell."""
    offsets: str
    """The window's offsets, in words."""
    method: str
    """The method; a layout has one for each run of channels."""
    padded: float
    """The share of steps where ``<key>_is_pad`` is True."""
    age_median_ms: float | None
    """The median of ``<key>_age`` over steps that are not padded; None: there are none, or no
    times."""
    age_max_ms: float | None
    """The largest such age."""
    dataset_index: int | None = None
    """In a mixture, the number of the stream's loader."""
    images: str | None = None
    """How images are made of the stream's frames; None: frames are as they are."""


@dataclass(frozen=True, repr=False)
class LoaderSummary:
    """The result of :meth:`Loader.summary`: ``print`` shows a table, a notebook an HTML one."""

    streams: Sequence[StreamSummary]
    """In the order of the batch; of a mixture, loader by loader."""
    samples: int
    """Samples of the loader."""
    looked_at: int
    """How many of them shares and ages are of: they are spread evenly over the loader's samples."""

    @property
    def caption(self) -> str:
        """The number of samples behind shares and ages."""
        of = f" of {self.samples:,}" if self.looked_at < self.samples else ""
        return f"padded, age: of {self.looked_at:,}{of} sample{'s' * (self.samples != 1)}"

    def _table(self, most: int | None = None) -> tuple[list[str], list[list[str]], tuple[int, ...]]:
        header = list(_HEADER)
        left: tuple[int, ...] = (0, 2, 3)
        rows = [
            [
                cut(stream.key, 48),
                _number(stream.rate_hz),
                stream.offsets,
                stream.method,
                f"{stream.padded:.1%}",
                _number(stream.age_median_ms),
                _number(stream.age_max_ms),
            ]
            for stream in self.streams[:most]
        ]
        if any(stream.images is not None for stream in self.streams):
            header.append("images")
            left = (*left, len(header) - 1)
            for row, stream in zip(rows, self.streams, strict=False):
                row.append(stream.images or "")
        if any(stream.dataset_index is not None for stream in self.streams):
            header.insert(0, "loader")
            left = tuple(i + 1 for i in left)
            for row, stream in zip(rows, self.streams, strict=False):
                row.insert(0, str(stream.dataset_index))
        return header, rows, left

    def __str__(self) -> str:
        return f"{text_table(*self._table())}\n{self.caption}"

    def __repr__(self) -> str:
        left = len(self.streams) - _MOST_LINES
        if left <= 0:
            return str(self)
        table = text_table(*self._table(_MOST_LINES))
        return f"{table}\nand {left} more (print shows all)\n{self.caption}"

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, title: str = "") -> str:
        """The table, with a title before its caption."""
        return html_table(*self._table(), f"{title}; {self.caption}" if title else self.caption)


def summarize(
    window: WindowSpec, rows: FileRows, sampled: FileRows, masks: StepMasks
) -> StreamSummary:
    """The summary of one window of a loader.

    Args:
        window: The window.
        rows: All rows of its stream in the chosen episodes.
        sampled: Those of the episodes that the loader looked at.
        masks: The window at the samples that the loader looked at.
    """
    ages = np.empty(0) if masks.age_ns is None else masks.age_ns[~masks.is_pad] * 1e-6
    return StreamSummary(
        key=window.name,
        rate_hz=_rate(window, rows, sampled),
        offsets=offsets_text(window.offsets, window.by_rows, window.has_axis),
        method=_method_text(window),
        padded=float(masks.is_pad.mean()),
        age_median_ms=float(np.median(ages)) if len(ages) else None,
        age_max_ms=float(ages.max()) if len(ages) else None,
        images=_images_text(window),
    )


def mixture_summary(
    parts: Sequence[LoaderSummary], names: Sequence[dict[str, str]], samples: int
) -> LoaderSummary:
    """The summary of a mixture: those of its loaders, with the mixture's names of their keys."""
    streams = [
        replace(stream, key=new[stream.key], dataset_index=i)
        for i, (part, new) in enumerate(zip(parts, names, strict=True))
        for stream in part.streams
    ]
    return LoaderSummary(streams, samples, sum(part.looked_at for part in parts))


def period_of(rows: FileRows, sampled: FileRows) -> float:
    """The time between rows in ns: the median; or the mean, where most rows repeat a stamp.

    NaN: there are too few rows to tell.
    """
    if rows.typical_period != 0:  # NaN too
        return rows.typical_period
    steps = np.diff(sampled.times())[sampled.neighbors(sampled.rows)]
    return float(steps.mean()) if len(steps) else math.nan


def _rate(window: WindowSpec, rows: FileRows, sampled: FileRows) -> float | None:
    period = math.nan if window.by_rows else period_of(rows, sampled)
    return 1e9 / period if period > 0 else rows.info.rate


def _method_text(window: WindowSpec) -> str:
    if window.by_rows:
        return "rows"
    return method_text(window.method)


def _images_text(window: WindowSpec) -> str | None:
    """The geometry of a window's images: "480 x 640 to 224 x 224, pad"."""
    image = window.image
    if image is None:
        return None
    height, width = window.shape[:2]
    size = image.output_size(height, width)
    parts = [f"{height} x {width} to {size[0]} x {size[1]}"]
    if image.mode != "stretch":
        parts.append(image.mode)
    if image.filter != "bilinear":
        parts.append(image.filter)
    if image.crop is not None:
        parts.append(f"of {image.crop[2]} x {image.crop[3]}")
    if image.center != 1:
        parts.append(f"center {image.center:g}")
    return ", ".join(parts)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
