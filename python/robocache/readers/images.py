"""Images of recordings: decoding stills, and fitting frames to one size.

Pillow decodes stills: its wheels carry every codec, it is released four times a year, it decodes
and resizes without holding the interpreter, and its resizing filters grow with the reduction, so
that nothing aliases. :mod:`.video` decodes video.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.core.threads import thread_pool
from robocache.jpeg import library as jpeg_library
from robocache.readers.errors import RecordingError
from robocache.readers.options import ReadOptions

Pixels = NDArray[Any]
"""[H,W,C]: uint8 of 1 (gray), 3 (RGB), 4 (RGBA) or more channels; or another type, as depth."""

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")
"""The formats that Pillow may decode. It knows others that run programs (Ghostscript, for EPS)."""

_ORIENTATION = 0x0112  # the tag of EXIF

SMALLEST = 8
"""The least height and width of an image; smaller arrays [H,W,C] are streams of numbers."""


def pool() -> ThreadPoolExecutor:
    """The thread pool that decodes and resizes."""
    return thread_pool("images")


def is_image(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether rows of this shape and type are images: uint8 [H,W,C], C of 1, 3 or 4."""
    return (
        dtype == np.uint8
        and len(shape) == 3
        and min(shape[:2]) >= SMALLEST
        and shape[2] in (1, 3, 4)
    )


def leave_out(stream: str, notes: Counter[str]) -> None:
    """Adds a note on a stream of images that `ReadOptions.images` leaves out."""
    notes[f"streams of images left out ({stream})"] = 1


def decode(data: bytes, name: str) -> Pixels:
    """The pixels of an encoded image, turned upright if its EXIF data say how.

    They are uint8 [H,W,C], or uint16 [H,W,1] for 16 bits of gray.

    Args:
        data: A file of one of `FORMATS`.
        name: What the image is, for errors: ``file.parquet, row 3 of observation.image``.

    Raises:
        RecordingError: If it is not an image, or cut short.
        MissingLibrary: Without Pillow.
    """
    image_module = require("PIL.Image", "images", "images")
    try:
        with image_module.open(io.BytesIO(data), formats=FORMATS) as opened:
            image = opened
            if opened.getexif().get(_ORIENTATION, jpeg_library.UPRIGHT) != jpeg_library.UPRIGHT:
                image = require("PIL.ImageOps", "images", "images").exif_transpose(opened)
            if image.mode in ("I;16", "I;16B", "I;16L", "I"):
                wide = np.asarray(image)
                if wide.size and (wide.min() < 0 or wide.max() > np.iinfo(np.uint16).max):
                    raise ValueError(f"pixels from {wide.min()} to {wide.max()}, beyond 16 bits")
                pixels = wide.astype(np.uint16)
            elif image.mode == "F":
                raise ValueError("floating pixels, which a stream of numbers would hold")
            elif image.mode in ("L", "1"):
                pixels = np.asarray(image.convert("L"))
            elif image.mode in ("RGBA", "LA", "PA"):
                pixels = np.asarray(image.convert("RGBA"))
            else:
                pixels = np.asarray(image.convert("RGB"))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises anything for damaged bytes
        got = f"{len(data):,} bytes that begin with {data[:8]!r}" if data else "no bytes"
        if data:
            status = jpeg_library.inspect_file(np.frombuffer(data, np.uint8))["status"]
            if status in jpeg_library.UNREADABLE:
                got = jpeg_library.describe(status)
        if not isinstance(error, image_module.UnidentifiedImageError):  # which names an object
            got += f": {error}"
        raise RecordingError(
            f"{name}: expected an image ({', '.join(FORMATS)}), got {got}"
        ) from error
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def fit(pixels: Pixels, options: ReadOptions) -> Pixels:
    """An image at the size that `options` ask for, contiguous.

    uint8 is filtered (Pillow's bilinear filter, whose support grows with the reduction, as
    torchvision's and LeRobot's resizing with antialiasing); other types, such as depth, take the
    nearest pixel, since the mean of near and far is neither.

    Args:
        pixels: [H,W,C], see `Pixels`.
        options: `resize` and `fit`: ``"pad"`` keeps all of the image in the middle of black
            borders, ``"crop"`` fills the frame and cuts off what is left, equally on both sides,
            ``"stretch"`` changes the aspect.

    Returns:
        [height, width, C] of the same type.
    """
    if options.resize is None or options.resize == (pixels.shape[1], pixels.shape[0]):
        return np.ascontiguousarray(pixels)
    width, height = options.resize
    box, inner = _place((pixels.shape[1], pixels.shape[0]), (width, height), options.fit)
    if pixels.dtype == np.uint8:
        whole = pixels.shape[2] in (3, 4)
        planes = [pixels] if whole else [pixels[:, :, c] for c in range(pixels.shape[2])]
        scaled = np.dstack([_scale(plane, box, inner) for plane in planes])
    else:
        columns = box[0] + (np.arange(inner[0]) + 0.5) * (box[2] - box[0]) / inner[0]
        rows = box[1] + (np.arange(inner[1]) + 0.5) * (box[3] - box[1]) / inner[1]
        scaled = pixels[rows.astype(np.intp)[:, None], columns.astype(np.intp)]
    if inner == (width, height):
        return np.ascontiguousarray(scaled)
    out = np.zeros((height, width, pixels.shape[2]), pixels.dtype)
    top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
    out[top : top + inner[1], left : left + inner[0]] = scaled
    return out


def fitted_bytes(shape: Sequence[int], itemsize: int, options: ReadOptions) -> int:
    """Bytes of an image [H,W,C], with elements of `itemsize` bytes, at the size of `options`."""
    height, width, channels = shape
    if options.resize is not None:
        width, height = options.resize
    return height * width * channels * itemsize


def fit_all(frames: NDArray[Any], options: ReadOptions) -> NDArray[Any]:
    """`fit` for frames [n,H,W,C], on all cores."""
    if options.resize is None or options.resize == (frames.shape[2], frames.shape[1]):
        return frames
    width, height = options.resize
    out = np.empty((len(frames), height, width, frames.shape[3]), frames.dtype)
    for row, pixels in enumerate(pool().map(lambda frame: fit(frame, options), frames)):
        out[row] = pixels
    return out


def _scale(plane: Pixels, box: tuple[float, float, float, float], size: tuple[int, int]) -> Pixels:
    image_module = require("PIL.Image", "images", "images")
    image = image_module.fromarray(np.ascontiguousarray(plane))
    return np.asarray(image.resize(size, image_module.Resampling.BILINEAR, box=box))


def _place(
    source: tuple[int, int], target: tuple[int, int], how: str
) -> tuple[tuple[float, float, float, float], tuple[int, int]]:
    """The box of the source (left, top, right, bottom), and its size in the target, in pixels.

    Sizes are (width, height).
    """
    whole = (0.0, 0.0, float(source[0]), float(source[1]))
    across, down = target[0] / source[0], target[1] / source[1]
    if how == "stretch":
        return whole, target
    if how == "pad":
        scale = min(across, down)
        inner = (max(1, round(source[0] * scale)), max(1, round(source[1] * scale)))
        return whole, inner
    scale = max(across, down)
    width, height = target[0] / scale, target[1] / scale
    left, top = (source[0] - width) / 2, (source[1] - height) / 2
    return (left, top, left + width, top + height), target
