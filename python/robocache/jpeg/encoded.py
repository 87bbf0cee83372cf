"""`EncodedFrames`: how frames of a JPEG stream were encoded, and their error against pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PEAK = 255.0
FRAMES_PER_MEASUREMENT = 16
"""One frame in so many is decoded again and compared with the pixels that were encoded."""


@dataclass(frozen=True)
class EncodedFrames:
    """The frames of a JPEG stream that RoboCache encoded; it stores others as they were."""

    frames: int
    """Their number."""
    quality: int | None
    """libjpeg's quality, 1 to 100; None if they differ."""
    chroma: str | None
    """Resolution of color: "4:2:0" (half), "4:4:4" (full) or "gray"; None if they differ."""
    measured: int = 0
    """Number of frames that were compared with the pixels that were encoded."""
    psnr: float | None = None
    """PSNR of the measured frames in dB, from the mean of their squared errors; None: no error."""
    lowest_psnr: float | None = None
    """PSNR of the measured frame with the largest error, in dB."""

    def merged(self, other: EncodedFrames | None) -> EncodedFrames:
        """The record of these frames and others."""
        if other is None:
            return self
        measured = self.measured + other.measured
        parts = (self, other)
        error = sum(each.measured * _error(each.psnr) for each in parts) / max(1, measured)
        largest = max(_error(each.lowest_psnr) for each in parts)
        return EncodedFrames(
            self.frames + other.frames,
            self.quality if self.quality == other.quality else None,
            self.chroma if self.chroma == other.chroma else None,
            measured,
            _psnr(error),
            _psnr(largest),
        )

    def __str__(self) -> str:
        quality = "several qualities" if self.quality is None else f"quality {self.quality}"
        text = f"{self.frames:,} frames encoded with {quality}"
        if self.chroma is not None:
            text += f", {self.chroma}"
        if not self.measured:
            return text
        if self.psnr is None or self.lowest_psnr is None:
            return f"{text}, without error in {self.measured:,} of them"
        return (
            f"{text}, PSNR {self.psnr:.1f} dB (lowest {self.lowest_psnr:.1f} dB) over "
            f"{self.measured:,} of them"
        )


def merged(a: EncodedFrames | None, b: EncodedFrames | None) -> EncodedFrames | None:
    """The record of the frames of two records; None if neither has any."""
    return b if a is None else a.merged(b)


def record(
    frames: int, quality: int, channels: int, full_chroma: bool, errors: NDArray[np.float64]
) -> EncodedFrames:
    """The record of encoded frames.

    Args:
        frames: Their number.
        quality: 1 to 100.
        channels: 1 or 3.
        full_chroma: Color at full resolution.
        errors: [n] the mean squared error of each measured frame.
    """
    chroma = "gray" if channels == 1 else "4:4:4" if full_chroma else "4:2:0"
    return EncodedFrames(
        frames,
        quality,
        chroma,
        len(errors),
        _psnr(float(errors.mean()) if len(errors) else 0.0),
        _psnr(float(errors.max(initial=0.0))),
    )


def squared_error(pixels: NDArray[np.uint8], decoded: NDArray[np.uint8]) -> float:
    """The mean squared difference of two images."""
    difference = pixels.astype(np.int16) - decoded
    return float(np.square(difference, dtype=np.int32).mean())


def _error(psnr: float | None) -> float:
    """The mean squared error of a PSNR in dB; None: no error."""
    return 0.0 if psnr is None else _PEAK**2 / 10 ** (psnr / 10)


def _psnr(error: float) -> float | None:
    return None if error == 0 else 10 * math.log10(_PEAK**2 / error)
