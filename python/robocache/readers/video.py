"""Video of recordings: assigns frames to rows by presentation time.

Decoded by PyAV, whose wheels carry FFmpeg with H.264, H.265, AV1 and VP9. A frame belongs to a row
if its presentation time is the row's: counting frames instead goes wrong wherever one is missing,
doubled or out of order, and at every seek. `matched_by_number` is for recordings whose rows and
frames are one to one and whose times differ.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.extras import require
from robocache.core.ragged import RaggedArray
from robocache.core.threads import cores
from robocache.jpeg import library as jpeg_library
from robocache.jpeg.encoded import FRAMES_PER_MEASUREMENT, record, squared_error
from robocache.jpeg.frames import JpegFrames
from robocache.readers.errors import RecordingError, reading
from robocache.readers.image_encoding import ImageEncoding
from robocache.readers.images import Pixels, fit, pool
from robocache.readers.options import ReadOptions
from robocache.readers.rows import Rows, Times, rows_per_chunk

_ONLY_FILES = {
    "protocol_whitelist": "file",
    "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi",
}
"""FFmpeg's options against files that name others: playlists, and addresses on the network."""


_BT601 = (2, 5, 6)  # AVColorSpace: unspecified, which FFmpeg takes for BT.601, and its two names
_FULL_RANGE = 2  # AVColorRange


def video_rows(
    stream: str, path: Path, times: Times, shown: Times, tolerance: int, options: ReadOptions
) -> Iterator[Rows]:
    """The rows of a stream that is a video, in chunks of bounded size: pixels, or JPEG frames.

    Decoding, conversion to RGB, resizing and encoding take all cores.

    Args:
        stream: Its name.
        path: The video; its first video track is read.
        times: [n] nanoseconds: the rows' times.
        shown: [n] nanoseconds, ascending: when each row's frame is shown, in the video's time.
        tolerance: Nanoseconds that a frame may be shown before or after. Under half of the time
            from one frame to the next, so that no neighbor fits.
        options: `resize`, `fit` and `encoding`.

    Raises:
        RecordingError: If the video cannot be read, or has no frame for a row.
        MissingLibrary: Without PyAV.
    """
    pending: deque[Future[_Encoded | None]] = deque()
    encoded: list[_Encoded] = []

    def finish(most: int) -> None:
        while len(pending) > most:
            file = pending.popleft().result()
            if file is not None:
                encoded.append(file)

    before = None
    is_encoded = options.encoding.kind == "jpeg"
    for row, frame in _matched(path, shown, tolerance):
        if row == 0:
            shape = _fitted(frame, options, path).shape
            step = rows_per_chunk(math.prod(shape))
        if row % step == 0 and not is_encoded:
            values = np.empty((min(step, len(times) - row), *shape), np.uint8)
        # Frames wait decoded, at many times the size of small results: so only few may wait. Rows
        # may share a frame, and PyAV must not convert one in two threads at once.
        finish(0 if frame is before else 2 * cores())
        if is_encoded:
            is_measured = row % step % FRAMES_PER_MEASUREMENT == 0
            pending.append(pool().submit(_encode, frame, shape, is_measured, options, path))
        else:
            pending.append(pool().submit(_write, frame, values[row % step], options, path))
        before = frame
        if (row + 1) % step == 0 or row + 1 == len(times):
            finish(0)
            found = _frames(encoded, shape, options.encoding) if is_encoded else values
            encoded.clear()
            yield Rows(stream, times[row // step * step : row + 1], found)


def frame_times(path: Path) -> Times:
    """When each frame of a video is shown, in ascending nanoseconds; without decoding it.

    Raises:
        RecordingError: If the video cannot be read.
        MissingLibrary: Without PyAV.
    """
    with _track(path) as (container, track):
        unit = track.time_base * 1_000_000_000  # an exact fraction
        shown = [
            round(packet.pts * unit)
            for packet in container.demux(track)
            if packet.pts is not None and not packet.is_discard
        ]
    return np.sort(np.array(shown, np.int64))


def matched_by_number(shown: Times, frames: Times, tolerance: int) -> Times | None:
    """The frames' times, where rows lack frames at their times and are as many as the frames.

    Args:
        shown: [n] nanoseconds, ascending: when each row's frame should be shown.
        frames: [m] nanoseconds, ascending: when the frames of the rows' episode are shown.
        tolerance: Nanoseconds that a frame may be shown before or after.

    Returns:
        `frames`, or None where each row has a frame at its time or where m is not n.
    """
    if len(frames) != len(shown) or len(shown) == 0:
        return None
    after = np.searchsorted(frames, shown).clip(max=len(frames) - 1)
    before = (after - 1).clip(min=0)
    away = np.minimum(np.abs(frames[after] - shown), np.abs(frames[before] - shown))
    return frames if (away > tolerance).any() else None


def _reading(path: Path) -> contextlib.AbstractContextManager[None]:
    return reading(path, "a video")


def _fitted(frame: Any, options: ReadOptions, path: Path) -> Pixels:
    with _reading(path):
        return fit(frame.to_ndarray(format="rgb24"), options)


def _write(frame: Any, out: Pixels, options: ReadOptions, path: Path) -> None:
    pixels = _fitted(frame, options, path)
    _expect_shape(pixels.shape, out.shape, path)
    out[...] = pixels


def _expect_shape(shape: tuple[int, ...], expected: tuple[int, ...], path: Path) -> None:
    if shape != expected:
        raise RecordingError(
            f"{path}: expected frames of one size, got {expected[1]}x{expected[0]} and "
            f"{shape[1]}x{shape[0]} (resize makes them one)"
        )


@dataclass(frozen=True)
class _Encoded:
    """A frame as JPEG, and its mean squared error if it was measured."""

    file: bytes
    error: float | None


def _encode(
    frame: Any, shape: tuple[int, ...], is_measured: bool, options: ReadOptions, path: Path
) -> _Encoded:
    """Encodes a frame; from its planes where it keeps its size, since RGB takes longer to make."""
    encoding = options.encoding
    height, width, channels = shape
    file = None
    if _has_planes(frame, options):
        _expect_shape((frame.height, frame.width, 3), shape, path)
        luma, cb, cr = frame.planes
        with _reading(path):
            file = jpeg_library.encode_planes(
                (luma.buffer_ptr, cb.buffer_ptr, cr.buffer_ptr),
                (luma.line_size, cb.line_size),
                (height, width),
                frame.format.name == "yuvj420p" or int(frame.color_range) == _FULL_RANGE,
                encoding.quality,
            )
    if file is not None and not is_measured:
        return _Encoded(file, None)
    pixels = _fitted(frame, options, path)
    if file is None:
        _expect_shape(pixels.shape, shape, path)
        file = jpeg_library.encode(pixels, encoding.quality, encoding.full_chroma)
    if not is_measured:
        return _Encoded(file, None)
    decoded = np.empty((height, width, channels), np.uint8)
    jpeg_library.decode(np.frombuffer(file, np.uint8), decoded)
    return _Encoded(file, squared_error(pixels, decoded))


def _has_planes(frame: Any, options: ReadOptions) -> bool:
    """Whether the planes of a frame are those of a JPEG, up to the range of values."""
    return (
        options.resize in (None, (frame.width, frame.height))
        and not options.encoding.full_chroma
        and frame.format.name in ("yuv420p", "yuvj420p")
        and int(frame.colorspace) in _BT601
        and min(plane.line_size for plane in frame.planes) > 0  # rows from the top
    )


def _frames(encoded: list[_Encoded], shape: tuple[int, ...], encoding: ImageEncoding) -> JpegFrames:
    """Encoded frames, with the record of their errors."""
    files = RaggedArray.from_rows([np.frombuffer(each.file, np.uint8) for each in encoded])
    frames = JpegFrames(files, shape)
    errors = np.array([each.error for each in encoded if each.error is not None])
    frames.encoded = record(len(encoded), encoding.quality, shape[2], encoding.full_chroma, errors)
    return frames


def _matched(path: Path, shown: Times, tolerance: int) -> Iterator[tuple[int, Any]]:
    """Each row with its frame, every row once and in order."""
    if len(shown) == 0:
        return
    frames = _decode(path, int(shown[0]))
    frame, time = next(frames, (None, None))
    if time is None or time > shown[0] + tolerance:
        # The index of key frames is wrong, or the video begins late.
        frames = _decode(path, None)
        frame, time = next(frames, (None, None))
    before = None
    for row, wanted in enumerate(shown.tolist()):
        while time is not None and time < wanted - tolerance:
            before = time
            frame, time = next(frames, (None, None))
        if time is None or time > wanted + tolerance:
            found = [f"{t / 1e9:.6f} s" for t in (before, time) if t is not None]
            raise RecordingError(
                f"{path}: expected a frame at {wanted / 1e9:.6f} s (row {row}), "
                f"got {' and '.join(found) or 'no frames'}{'' if time is not None else ', the end'}"
                " (--no-images, or images=False, leaves videos out)"
            )
        yield row, frame


@contextlib.contextmanager
def _track(path: Path) -> Iterator[tuple[Any, Any]]:
    """An opened video and its first track."""
    av = require("av", "video", "video")
    with _reading(path), av.open(str(path.absolute()), options=_ONLY_FILES) as container:
        if not container.streams.video:
            raise RecordingError(f"{path}: expected a video, got a file without a video track")
        yield container, container.streams.video[0]


def _decode(path: Path, start: int | None) -> Iterator[tuple[Any, int]]:
    """Frames in order, each with when it is shown (ns); from a key frame at or before `start`."""
    with _track(path) as (container, track):
        track.thread_type = "AUTO"
        unit = track.time_base * 1_000_000_000  # an exact fraction
        if start:
            container.seek(int(start / unit), stream=track)
        for frame in container.decode(track):
            if frame.pts is None:
                raise RecordingError(
                    f"{path}: expected frames with presentation times, got one without"
                )
            time = round(frame.pts * unit)
            if frame.is_corrupt:  # FFmpeg makes up what it cannot decode
                raise RecordingError(
                    f"{path}: expected a video, got a damaged frame at {time / 1e9:.6f} s"
                )
            yield frame, time
