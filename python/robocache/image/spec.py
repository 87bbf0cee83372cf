"""`ImageSpec`: the geometry of a window's images, with the fields of `robocache::ImageSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

ResizeMode: TypeAlias = Literal["stretch", "pad", "crop"]
ResizeFilter: TypeAlias = Literal["bilinear", "nearest", "masked"]
RESIZE_MODES: tuple[ResizeMode, ...] = get_args(ResizeMode)
RESIZE_FILTERS: tuple[ResizeFilter, ...] = get_args(ResizeFilter)

MAX_SIDE = 4096
"""The largest height and width of an output, in pixels."""


class ImageSpec(NamedTuple):
    """The deterministic geometry of a window's images."""

    size: tuple[int, int] | None = None
    """(height, width) of the output; None: of the crop."""
    mode: ResizeMode = "stretch"
    """How the source rectangle fills an output of another aspect ratio."""
    filter: ResizeFilter = "bilinear"
    """How source pixels combine into an output pixel."""
    crop: tuple[int, int, int, int] | None = None
    """(top, left, height, width) of the source rectangle; None: the whole image."""
    center: float = 1.0
    """The share of the output's height and width, at its center, that is enlarged to fill it."""

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of the output, for source images of a size."""
        if self.size is not None:
            return self.size
        return (height, width) if self.crop is None else self.crop[2:]

    def to_fields(self) -> dict[str, Any]:
        """Its fields as JSON holds them."""
        size, crop = (values and list(values) for values in (self.size, self.crop))
        return self._asdict() | {"size": size, "crop": crop}

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> ImageSpec:
        """The record of fields that the library has validated."""
        size, crop = (given[name] and tuple(given[name]) for name in ("size", "crop"))
        return cls(**dict(given) | {"size": size, "crop": crop, "center": float(given["center"])})
