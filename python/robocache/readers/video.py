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
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.extras import require
from robocache.readers.errors import RecordingError, reading
from robocache.readers.images import Pixels, cores, fit, pool
from robocache.readers.options import ReadOptions
from robocache.readers.rows import Rows, Times, rows_per_chunk

_ONLY_FILES = {
    "protocol_whitelist": "file",
    "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi",
}
"""FFmpeg's options against files that name others: playlists, and addresses on the network."""


def video_rows(
    stream: str, path: Path, times: Times, shown: Times, tolerance: int, options: ReadOptions
) -> Iterator[Rows]:
    """The rows of a stream that is a video, in chunks of bounded size.

    Decoding, conversion to RGB and resizing take all cores.

    Args:
        stream: Its name.
        path: The video; its first video track is read.
        times: [n] nanoseconds: the rows' times.
        shown: [n] nanoseconds, ascending: when each row's frame is shown, in the video's time.
        tolerance: Nanoseconds that a frame may be shown before or after. Under half of the time
            from one frame to the next, so that no neighbor fits.
        options: `resize` and `fit`.

    Raises:
        RecordingError: If the video cannot be read, or has no frame for a row.
        MissingLibrary: Without PyAV.
    """
    pending: deque[Future[None]] = deque()

    def finish(most: int) -> None:
        while len(pending) > most:
            pending.popleft().result()

    before = None
    for row, frame in _matched(path, shown, tolerance):
        if row == 0:
            shape = _fitted(frame, options, path).shape
            step = rows_per_chunk(math.prod(shape))
        if row % step == 0:
            values = np.empty((min(step, len(times) - row), *shape), np.uint8)
        # Frames wait decoded, at many times the size of small results: so only few may wait. Rows
        # may share a frame, and PyAV must not convert one in two threads at once.
        finish(0 if frame is before else 2 * cores())
        pending.append(pool().submit(_write, frame, values[row % step], options, path))
        before = frame
        if (row + 1) % step == 0 or row + 1 == len(times):
            finish(0)
            yield Rows(stream, times[row // step * step : row + 1], values)


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
    if pixels.shape != out.shape:
        raise RecordingError(
            f"{path}: expected frames of one size, got {out.shape[1]}x{out.shape[0]} and "
            f"{pixels.shape[1]}x{pixels.shape[0]} (resize makes them one)"
        )
    out[...] = pixels


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
