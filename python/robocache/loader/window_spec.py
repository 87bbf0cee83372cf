"""`WindowSpec`: the one record of a stream's window, with the fields of `robocache::WindowSpec`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from robocache.core import dtypes
from robocache.core.display import ShortRepr, short_repr
from robocache.core.names import Outside
from robocache.image.spec import ImageSpec
from robocache.normalization.formulas import Normalization

Layout: TypeAlias = tuple[tuple[str, int], ...]


class RelativeTo(NamedTuple):
    """The reference of a relative window: its value is subtracted before normalization."""

    stream: str
    """The stream whose value at the anchor is subtracted."""
    columns: tuple[int, ...]
    """[D]: its column for each element of a row; -1: nothing is subtracted."""
    causal: bool = True
    """Whether that value is computed from rows that had arrived by the anchor."""

    def __repr__(self) -> str:
        return short_repr(self)


class ImageEncoding(NamedTuple):
    """The encoding of a stream's images in training."""

    format: Literal["jpeg"]
    """The format of the files."""
    quality: int | None
    """The quality of libjpeg, 1 to 100; None: of another encoder, or frames differ."""
    chroma: Literal["4:0:0", "4:4:4", "4:2:2", "4:4:0", "4:2:0"] | None
    """The chroma sampling; None: frames differ."""


@dataclass(frozen=True, repr=False)
class WindowSpec(ShortRepr):
    """A stream and its window: K offsets from the anchor, rows of D elements.

    The names of the fields are those of a policy spec's streams (version 2, docs/live.md) and of
    `robocache::WindowSpec`; the library validates them, by one table.
    """

    name: str
    """The stream's name, and its key in a batch."""
    dtype: str
    """The type of its rows' elements as safetensors names it: "F32"."""
    shape: tuple[int, ...]
    """Shape of a row: () for a number, (H, W, C) for an image."""
    rate: float | None = None
    """Rows in a second. In a policy spec: the most that a second of the recordings has, or the
    nominal rate where that is more; buffers are sized by it. None: unknown."""
    channels: tuple[str, ...] | None = None
    """A name for each element of a row, as the store has them."""
    units: str | None = None
    """The units of the values, as the store has them."""
    nominal_rate: float | None = None
    """The rate in Hz that the store states."""
    encoding: ImageEncoding | None = None
    """The encoding of images that were JPEG in training; None: they were raw."""
    timeline: Literal["time", "rows"] = "time"
    """Whether offsets are times or count rows."""
    offsets: tuple[int, ...] = (0,)
    """[K], from the anchor: ns, or rows."""
    has_axis: bool = True
    """Whether a batch has an axis of offsets; else K is 1."""
    causal: bool = True
    """Whether rows that had not arrived by the anchor do not exist."""
    method: str | Layout = "linear"
    """How rows combine: a method, or runs of elements with one each."""
    outside: Outside = "hold"
    """The value beyond the first and last row."""
    max_gap_ns: int | None = None
    """Values from rows farther apart are padded; None: no limit."""
    tolerance_ns: int = 0
    """A row this close to a target is copied."""
    mean_window_ns: int | None = None
    """The width of method "mean"."""
    latency_ns: int = 0
    """A row arrives this long after its time, at least."""
    normalization: Normalization | None = None
    """`y = (x - subtract) * multiply`: a number for each of the D elements, for each of the row's
    last axis, or one for all. With `channels_first` or `image`, for each channel."""
    normalize: str | None = None
    """The mode that `normalization` came from; for people."""
    out_dtype: str = "F32"
    """The type that is written, as safetensors names it."""
    channels_first: bool = False
    """Whether an image [H,W,C] is written [C,H,W]; with `image`, [H,W] is written [1,h,w]."""
    image: ImageSpec | None = None
    """The geometry of images; None: frames are as they are."""
    relative_to: RelativeTo | None = None
    """The reference that is subtracted; None: the window is not relative."""

    @property
    def elements(self) -> int:
        """D."""
        return math.prod(self.shape)

    @property
    def torch_dtype(self) -> torch.dtype:
        """`dtype` as torch names it."""
        return dtypes.BY_STORED_NAME[self.dtype]

    @property
    def torch_out_dtype(self) -> torch.dtype:
        """`out_dtype` as torch names it."""
        return dtypes.BY_STORED_NAME[self.out_dtype]

    @property
    def by_rows(self) -> bool:
        """Whether offsets count rows."""
        return self.timeline == "rows"

    @property
    def runs(self) -> Layout:
        """The method of each run of elements, with the run's width."""
        return ((self.method, self.elements),) if isinstance(self.method, str) else self.method

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of its runs, each once."""
        return tuple(dict.fromkeys(method for method, _ in self.runs))

    @property
    def is_copied(self) -> bool:
        """Whether alignment copies its rows as bytes: it computes with five types alone."""
        return self.torch_dtype not in dtypes.DTYPES

    @property
    def reaches_ahead(self) -> bool:
        """Whether an offset lies past the anchor: a robot can't make such a window."""
        return max(self.offsets) > 0

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of a sample's values: [K, ...], or without the axis."""
        row = self.output_row
        return (len(self.offsets), *row) if self.has_axis else row

    @property
    def image_channels(self) -> int:
        """The channels of a row that is an image [H,W] or [H,W,C]."""
        return self.shape[2] if len(self.shape) > 2 else 1

    @property
    def output_row(self) -> tuple[int, ...]:
        """The shape of a step's values in a batch: [h,w,C] or [C,h,w] of an image."""
        if self.image is None and not self.channels_first:
            return self.shape
        size = self.shape[0], self.shape[1]
        if self.image is not None:
            size = self.image.output_size(*size)
        return (self.image_channels, *size) if self.channels_first else (*size, *self.shape[2:])

    @property
    def sample_bytes(self) -> int:
        """Bytes of the rows that a sample's values are computed from, one row an offset."""
        return len(self.offsets) * self.elements * self.torch_dtype.itemsize

    def to_fields(self) -> dict[str, Any]:
        """Its fields as JSON holds them; numbers come back from it exactly."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        scale, relative = self.normalization, self.relative_to
        values["shape"], values["offsets"] = list(self.shape), list(self.offsets)
        values["channels"] = self.channels and list(self.channels)
        if not isinstance(self.method, str):
            values["method"] = [list(run) for run in self.method]
        if scale is not None:
            values["normalization"] = {
                name: np.asarray(numbers, np.float64).tolist()
                for name, numbers in scale._asdict().items()
            }
        values["encoding"] = self.encoding and self.encoding._asdict()
        values["image"] = self.image and self.image.to_fields()
        if relative is not None:
            values["relative_to"] = relative._asdict() | {"columns": list(relative.columns)}
        return values

    def to_json(self) -> str:
        """A JSON object of its fields."""
        return json.dumps(self.to_fields())

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> WindowSpec:
        """The record of fields that the library has validated."""
        scale, relative, method = given["normalization"], given["relative_to"], given["method"]
        encoding, image = given["encoding"], given["image"]
        return cls(
            **dict(given)
            | {
                "shape": tuple(given["shape"]),
                "channels": given["channels"] and tuple(given["channels"]),
                "encoding": encoding and ImageEncoding(**encoding),
                "image": image and ImageSpec.from_fields(image),
                "offsets": tuple(given["offsets"]),
                "method": method if isinstance(method, str) else tuple((m, n) for m, n in method),
                "normalization": scale
                and Normalization(*(np.array(scale[name]) for name in Normalization._fields)),
                "relative_to": relative
                and RelativeTo(relative["stream"], tuple(relative["columns"]), relative["causal"]),
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> WindowSpec:
        """The record of a JSON object that the library has validated."""
        return cls.from_fields(json.loads(text))


def base_window(window: WindowSpec) -> WindowSpec:
    """The window of the source frames of a window with `image`; other windows themselves."""
    if window.image is None:
        return window
    return replace(
        window,
        out_dtype=window.dtype,
        normalization=None,
        normalize=None,
        channels_first=False,
        image=None,
    )


def output_window(window: WindowSpec) -> WindowSpec:
    """The window whose rows are the images of a window with `image`; other windows themselves."""
    if window.image is None:
        return window
    return replace(
        window,
        dtype=window.out_dtype,
        shape=window.output_row,
        encoding=None,
        normalization=None,
        normalize=None,
        channels_first=False,
        image=None,
    )


def fields_without_scales(windows: Iterable[WindowSpec]) -> list[dict[str, Any]]:
    """The fields of windows, for the library's checks; scales, which may be large, left out."""
    return [replace(window, normalization=None).to_fields() for window in windows]


def by_name(windows: Iterable[WindowSpec]) -> dict[str, WindowSpec]:
    """Windows by their names."""
    return {window.name: window for window in windows}


def causal_references(windows: Iterable[WindowSpec]) -> set[str]:
    """The streams whose value at the anchor is subtracted from another, of arrived rows."""
    references = (window.relative_to for window in windows)
    return {of.stream for of in references if of is not None and of.causal}


def reads_times(window: WindowSpec, with_age: bool) -> bool:
    """Whether a batch depends on the times of a window's rows."""
    return with_age or not window.by_rows


def reads_arrivals(window: WindowSpec, windows: Iterable[WindowSpec]) -> bool:
    """Whether a batch depends on when a window's rows arrived.

    Args:
        window: One of `windows`.
        windows: All windows of the batch.
    """
    return window.causal or (not window.by_rows and window.name in causal_references(windows))
