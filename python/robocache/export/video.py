"""Video files that hold the frames of many episodes, one after the other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require

# AV1 as LeRobot encodes it: every second frame is a key frame, so that any frame is found at once.
ENCODERS = {
    "libsvtav1": {"g": "2", "crf": "30"},
    "libx264": {"g": "2", "crf": "23"},
}
NAMES = {"libsvtav1": "av1", "libx264": "h264"}


class VideoFile:
    """A file being encoded; frame k is shown at k/rate seconds.

    Attributes:
        frames: How many were added.
        bytes: Of those that are encoded; the encoder holds some back.
        info: What LeRobot says of a video.

    Raises:
        ValueError: For frames of odd size, which this pixel format does not have.
        MissingLibrary: If PyAV is not installed.
    """

    def __init__(self, path: Path, rate: float, height: int, width: int) -> None:
        if height % 2 or width % 2:
            raise ValueError(
                f"{path.name}: expected frames of even width and height for video, got "
                f"{width}x{height} (--no-video stores images)"
            )
        av = require("av", "video", "export", "writing")
        os.environ.setdefault("SVT_LOG", "1")  # this encoder reports its settings on stderr
        self.frames = 0
        self.bytes = 0
        self._av: Any = av
        path.parent.mkdir(parents=True, exist_ok=True)
        encoder = next(name for name in ENCODERS if name in av.codecs_available)
        self._container = av.open(str(path), "w")
        exact = Fraction(rate).limit_denominator(100_000)
        self._stream = self._container.add_stream(encoder, exact, options=ENCODERS[encoder])
        self._stream.pix_fmt = "yuv420p"
        self._stream.width, self._stream.height = width, height
        self._time_base = 1 / exact
        self.info = {
            "video.height": height,
            "video.width": width,
            "video.codec": NAMES[encoder],
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "video.fps": int(rate) if float(rate).is_integer() else rate,
            "video.channels": 3,
            "has_audio": False,
        }

    def add(self, pictures: NDArray[np.uint8]) -> None:
        """Appends pictures [n,H,W,3]."""
        for picture in pictures:
            frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = self.frames, self._time_base
            self._mux(self._stream.encode(frame))
            self.frames += 1

    def close(self) -> None:
        """Finishes the file."""
        self._mux(self._stream.encode())
        self._container.close()

    def discard(self) -> None:
        """Ends the encoder, which complains on stderr if it is forgotten; the file is not whole."""
        with contextlib.suppress(Exception):
            self._stream.encode()
        with contextlib.suppress(Exception):
            self._container.close()

    def _mux(self, packets: Sequence[Any]) -> None:
        self.bytes += sum(packet.size for packet in packets)
        self._container.mux(packets)
