"""`Image`: the user's record of how the images of a window are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, TypeAlias

import torch

from robocache.core.display import cut, short
from robocache.core.tables import html_table, text_table
from robocache.image.spec import ResizeFilter, ResizeMode
from robocache.normalization.formulas import NormalizationMode

ImageNormalization: TypeAlias = (
    NormalizationMode
    | Literal["imagenet", "minus_one_to_one"]
    | tuple[Sequence[float], Sequence[float]]
)

_HEADER = ("option", "value")


@dataclass(frozen=True, repr=False)
class Image:
    """How the images of a window are made: crop, resize, layout, type and normalization.

    The batch has them made in one pass, to the same bits on a CPU and a GPU, and so has the robot:
    the policy spec has all of it. docs/images.md defines each option.

    The options `channels_first`, `dtype` and `normalize` take the place of those of
    :class:`Window`. The loader validates them, since most depend on the stream; its messages name
    the option and the stream: ``image['front'].crop: expected ..., got ...``.

    Example:
        >>> image = rc.Image(resize=(224, 224), mode="pad", dtype=torch.bfloat16)
        >>> loader = rc.Loader("robot.store", 256, {"front": rc.Window([0.0], image=image)})
    """

    resize: tuple[int, int] | None = None
    """(height, width) of the output, 1 to 4096. None: those of the crop, or of the source."""
    _: KW_ONLY
    mode: ResizeMode = "stretch"
    """How the image fills an output of another aspect ratio. ``"stretch"``: each side is scaled by
    itself. ``"pad"``: the whole image, centered, with black at two sides. ``"crop"``: the centered
    part that fills the output."""
    crop: tuple[int, int] | tuple[int, int, int, int] | None = None
    """The rectangle of the source that is used, in pixels: (top, left, height, width), or a
    centered (height, width). None: the whole image."""
    filter: ResizeFilter | None = None
    """``"bilinear"``, antialiased; ``"nearest"``; or ``"masked"``: bilinear over pixels that are
    finite and not 0, for depth. None: bilinear for uint8, nearest for other types."""
    channels_first: bool = True
    """Whether the batch has [C,h,w]; [1,h,w] of rows [H,W]. False: [h,w,C], or [h,w]."""
    dtype: torch.dtype | None = None
    """The type of the values: uint8, float16, bfloat16, float32 or the stream's. None: float32 with
    `channels_first`, else the stream's. Floats that are made of bytes are from 0 to 1."""
    normalize: ImageNormalization | None = None
    """``"imagenet"``; ``"minus_one_to_one"``; (mean, std), a number for each channel, of values
    from 0 to 1; or a mode of :func:`normalization`, by the statistics of the store."""

    def __repr__(self) -> str:
        given = [
            f"{field.name}={short(value)}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"Image({', '.join(given)})"

    def __str__(self) -> str:
        return text_table(_HEADER, self._rows(), (0, 1))

    def _repr_html_(self) -> str:
        return html_table(_HEADER, self._rows(), (0, 1), "Image")

    def _rows(self) -> list[tuple[str, str]]:
        defaults: dict[str, Any] = {
            "resize": "the source's size",
            "crop": "the whole image",
            "filter": "bilinear; nearest for other types than uint8",
            "dtype": "float32" if self.channels_first else "the stream's",
            "normalize": "none",
        }
        rows = []
        for field in fields(self):
            value = getattr(self, field.name)
            text = defaults[field.name] if value is None else str(value)
            rows.append((field.name, cut(text)))
        return rows
