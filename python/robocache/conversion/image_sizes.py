"""Estimates how large images become in each form, from a few frames of a recording."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robocache.jpeg.frames import JpegFrames
from robocache.jpeg.library import MCUS_PER_ENTRY
from robocache.readers import ReadOptions, Rows, open_recording
from robocache.readers.image_encoding import AUTO, ImageEncoding

FRAMES = 4
"""Frames that are measured of each stream."""
_SECONDS, _BYTES = 2.0, 48 << 20  # of a recording, after which reading for the estimate ends
_BEST = ImageEncoding("jpeg", 95)


@dataclass
class _Sampled:
    """Bytes of a frame in each form, with the index of JPEG; summed over streams."""

    raw: float = 0
    keep: float = 0
    jpeg: float = 0
    chosen: float = 0
    has_files: bool = False


def image_sizes(paths: Iterable[str], options: ReadOptions, total: int) -> dict[str, int]:
    """Bytes of all images by form: "raw", "keep" if the recordings have JPEG, and "jpeg:95".

    The first of these and the form of `options` are always there where images can be read.

    Args:
        paths: Recordings; the estimate takes the first that has images.
        options: Of the conversion.
        total: Bytes of all decoded images.
    """
    if not total:
        return {}
    sizes = {"raw": total}
    for path in paths:
        sampled = _sample(path, options)
        if sampled.raw:
            parts = {"keep": sampled.keep} if sampled.has_files else {}
            parts["jpeg:95"] = sampled.jpeg
            if options.encoding.kind == "jpeg":
                parts[str(options.encoding)] = sampled.chosen
            sizes |= {form: round(total * part / sampled.raw) for form, part in parts.items()}
            break
    return sizes


def form_of(options: ReadOptions, sizes: dict[str, int]) -> str:
    """The form that a conversion stores, a key of :func:`image_sizes`."""
    if options.encoding.kind == "jpeg":
        return str(options.encoding)
    return "keep" if options.keeps_files and "keep" in sizes else "raw"


def _sample(path: str, options: ReadOptions) -> _Sampled:
    sampled, seen = _Sampled(), set[str]()
    begin, size = 0.0, 0
    try:
        with closing(_first_episode(path, replace(options, encoding=AUTO))) as chunks:
            for rows in chunks:
                begin = begin or time.monotonic()  # without the time of imports
                size += rows.values.nbytes
                if rows.stream not in seen:
                    seen.add(rows.stream)
                    _add(sampled, rows.values, options.encoding)
                is_long = time.monotonic() - begin > _SECONDS or size > _BYTES
                if is_long and (sampled.raw or size > 8 * _BYTES):
                    break
    except Exception:  # the conversion reports what cannot be read
        return _Sampled()
    return sampled


def _first_episode(path: str, options: ReadOptions) -> Generator[Rows, None, None]:
    """The rows of a recording's first episode; none without episodes."""
    with open_recording(path, options) as recording:
        for episode in recording.episodes()[:1]:
            yield from episode.read()


def _add(sampled: _Sampled, values: Any, chosen: ImageEncoding) -> None:
    """Adds the frames of a stream."""
    rows = np.unique(np.linspace(0, len(values) - 1, FRAMES).astype(int))
    some = values[rows]
    if isinstance(some, JpegFrames):
        sampled.has_files = True
        pixels = np.asarray(some)
        sampled.keep += _frame_bytes(some)
    elif values.ndim == 4 and values.dtype == np.uint8 and values.shape[3] in (1, 3):
        pixels = some
        sampled.keep += pixels.nbytes / len(rows)
    else:
        return
    sampled.raw += pixels.nbytes / len(rows)
    sampled.jpeg += _frame_bytes(_BEST.encoded(pixels))
    if chosen.kind == "jpeg":
        sampled.chosen += _frame_bytes(chosen.encoded(pixels))


def _frame_bytes(frames: JpegFrames) -> float:
    """Mean bytes of a frame and its index."""
    return (frames.nbytes + frames.indexed(MCUS_PER_ENTRY)[0].entries.items.nbytes) / len(frames)
