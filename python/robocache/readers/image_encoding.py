"""How images are stored: raw, as the recording's JPEG files, or encoded as JPEG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from robocache.jpeg.frames import JpegFrames

_KINDS: tuple[Literal["auto", "raw", "keep"], ...] = ("auto", "raw", "keep")
_TEXT = re.compile(r"jpeg:(\d{1,3})(:444)?")


@dataclass(frozen=True)
class ImageEncoding:
    """How images are stored; its text is an option of conversions."""

    kind: Literal["auto", "raw", "keep", "jpeg"] = "raw"
    """The form of images in the store.

    "auto": JPEG of the recording as it is where that changes no pixel, and others as pixels.
    "raw": Pixels.
    "keep": As "auto", but JPEG that cannot be kept is encoded again.
    "jpeg": All as JPEG of `quality`.
    """
    quality: int = 95
    """1 to 100, of JPEG that is encoded."""
    full_chroma: bool = False
    """Whether encoded JPEG has color at full resolution (4:4:4) in place of half (4:2:0)."""

    @classmethod
    def parse(cls, text: str) -> ImageEncoding:
        """Parses "auto", "raw", "keep", "jpeg:95" or "jpeg:95:444".

        Raises:
            ValueError: The text is another.
        """
        for kind in _KINDS:
            if text == kind:
                return cls(kind)
        match = _TEXT.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= 100:
            raise ValueError(
                f"images: expected auto, raw, keep, jpeg:QUALITY or jpeg:QUALITY:444, QUALITY from "
                f"1 to 100, got {text!r}"
            )
        return cls("jpeg", int(match[1]), match[2] is not None)

    def __str__(self) -> str:
        if self.kind != "jpeg":
            return self.kind
        return f"jpeg:{self.quality}" + ":444" * self.full_chroma

    def encoded(self, values: Any) -> Any:
        """Rows of images [n,H,W,C], C of 1 or 3, as JpegFrames, if images are stored so."""
        is_image = (
            isinstance(values, np.ndarray)
            and values.dtype == np.uint8
            and values.ndim == 4
            and values.shape[3] in (1, 3)
            and len(values) > 0
        )
        if self.kind != "jpeg" or not is_image:
            return values
        return JpegFrames.encode(values, self.quality, full_chroma=self.full_chroma)


RAW = ImageEncoding()
"""All images as pixels."""
AUTO = ImageEncoding("auto")
"""The default of conversions."""


def encoding_of(images: bool | str) -> ImageEncoding:
    """How a user's option `images` stores images; a bool: whether there are any, as `AUTO`.

    Raises:
        TypeError, ValueError: `images: expected ..., got ...`.
    """
    if isinstance(images, bool):
        return AUTO
    if not isinstance(images, str):
        raise TypeError(f"images: expected a bool or a str, got {type(images).__name__}")
    return ImageEncoding.parse(images)
