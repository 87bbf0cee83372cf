"""JPEG files for tests: of every kind that recordings have."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


def scene(number: int, height: int = 40, width: int = 56, channels: int = 3) -> Pixels:
    """A frame with edges and noise, different for each number."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[:height, :width]
    ramp = np.stack([x * 4, y * 5, (x + y) * 2], axis=2)[:, :, :channels]
    frame = ramp + rng.integers(0, 30, ramp.shape)
    frame[number % height :: 7, 3:20] = 255
    return frame.clip(0, 255).astype(np.uint8)


def encoded(pixels: Pixels, kind: str = "JPEG", mode: str | None = None, **options: Any) -> bytes:
    """An image file of a format that Pillow writes."""
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    file = io.BytesIO()
    image = image_module.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image = image if mode is None else image.convert(mode)
    image.save(file, kind, **({"quality": 90} if kind == "JPEG" else {}) | options)
    return file.getvalue()


def turned(pixels: Pixels, orientation: int = 6) -> bytes:
    """A JPEG that EXIF data turn."""
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    exif = image_module.Exif()
    exif[0x0112] = orientation
    return encoded(pixels, exif=exif)


def by_pillow(file: bytes) -> Pixels:
    """The pixels, upright."""
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image_module.open(io.BytesIO(file)))
    pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
