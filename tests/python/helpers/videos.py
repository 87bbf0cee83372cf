"""Videos for tests, whose frames say their number."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from robocache.readers import ReadOptions
from robocache.readers.rows import row_times
from robocache.readers.video import video_rows

PERIOD = 1_000_000_000 // 30
TOLERANCE = PERIOD // 4


def picture(number: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """A frame that says its number: one black or white block a bit."""
    bits = [(number >> bit) & 1 for bit in range(8)]
    row = np.repeat(np.array(bits, np.uint8) * 255, width // 8)
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()


def number_of(frame: NDArray[np.uint8]) -> int:
    """The number that `picture` drew, also after a lossy codec and a change of size."""
    blocks = frame.mean((0, 2)).reshape(8, -1).mean(1)
    return sum(1 << bit for bit in range(8) if blocks[bit] > 127)


def write_video(
    path: Path,
    shown: list[int],
    codec: str = "libx264",
    base: Fraction = Fraction(1, 15360),
    options: dict[str, str] | None = None,
) -> Path:
    """Frame k is `picture(k)`, shown at shown[k] units of `base`."""
    av = pytest.importorskip("av", reason="videos need av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.time_base = base
        stream.codec_context.time_base = base
        stream.options = options or {}
        for number, pts in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts, frame.time_base = pts, base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def numbers(path: Path, shown: NDArray[np.int64], options: ReadOptions | None = None) -> list[int]:
    """The numbers of the frames that rows shown at these nanoseconds get."""
    rows = row_times(0, len(shown), 30)
    options = options or ReadOptions()
    found: list[int] = []
    for part in video_rows("camera", path, rows, shown, TOLERANCE, options):
        np.testing.assert_array_equal(part.times, rows[len(found) : len(found) + len(part.times)])
        found += [number_of(frame) for frame in part.values]
    return found
