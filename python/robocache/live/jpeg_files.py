"""JPEG files as rows of a LiveAligner's cameras: which values are files, and why one is refused."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robocache.jpeg import library as jpeg_library
from robocache.jpeg.frames import JpegFrames
from robocache.live.arguments import Values, as_array, integers
from robocache.live.library import LiveStatus
from robocache.live.streams import PushStream

File = NDArray[np.uint8]
"""[n]: the bytes of a file."""


def file_of(stream: PushStream, values: Values) -> File | None:
    """The JPEG file that values are; None: they are a row of the stream's shape.

    Files are buffers of bytes, as drivers have them, and 1-D arrays of uint8, for a stream of
    images [H,W,C] of uint8.
    """
    if not stream.is_image:
        return None
    if isinstance(values, (bytes, bytearray, memoryview, array.array)):
        view = memoryview(values)
        if view.ndim != 1 or view.itemsize != 1 or not view.c_contiguous:
            return None
        return np.frombuffer(view, np.uint8) if len(view) else np.empty(0, np.uint8)
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    return None


def files_of(stream: PushStream, values: Values) -> list[File] | None:
    """The JPEG files that values are, as JpegFrames or a list; None: they are rows."""
    if isinstance(values, JpegFrames):
        return [values.files[i] for i in range(len(values))] if stream.is_image else None
    if not isinstance(values, (list, tuple)):
        return None
    files = [file for value in values if (file := file_of(stream, value)) is not None]
    return files if files and len(files) == len(values) else None


class FileRow(NamedTuple):
    """A JPEG file and the arguments of its push."""

    time_ns: int
    file: File
    robot: Any
    valid: bool


def check_files(
    stream: PushStream,
    times: NDArray[np.int64],
    files: Sequence[File],
    robot: int | NDArray[np.int64] | Tensor,
    valid: NDArray[np.bool_] | Tensor | None,
) -> list[FileRow]:
    """The rows of a push of several files; the arguments are those of `LiveAligner.push_many`.

    Raises:
        ValueError, TypeError: Another number of files, robots or flags than of times.
    """
    name, count = stream.spec.name, len(times)
    if len(files) != count:
        raise ValueError(f"{name}: values: expected {count} JPEG files, got {len(files)}")
    if isinstance(robot, (np.ndarray, Tensor)):
        robots = integers("robot", robot, count).tolist()
    else:
        robots = [robot] * count
    flags = np.ones(count, np.bool_) if valid is None else as_array(valid)
    if flags.dtype != np.bool_ or flags.shape != times.shape:
        got = f"{flags.dtype} {list(flags.shape)}"
        raise ValueError(f"{name}: valid: expected bool [N={count}], got {got}")
    rows = zip(times.tolist(), files, robots, flags.tolist(), strict=True)
    return [FileRow(*row) for row in rows]


def check_file(status: int, stream: PushStream, file: File) -> None:
    """Checks the status of a push of a file.

    Raises:
        ValueError: The file was refused; the message says what it is.
    """
    name = f"{stream.spec.name}: values"
    if status == LiveStatus.NOT_JPEG:
        raise ValueError(f"{name}: expected JPEG, got {_kind(file)} ({len(file)} bytes)")
    if status == LiveStatus.DAMAGED_JPEG:
        raise ValueError(f"{name}: expected a whole JPEG, got a damaged one ({len(file)} bytes)")
    frame = jpeg_library.inspect_file(file)
    if status == LiveStatus.ROTATED_JPEG:
        raise ValueError(
            f"{name}: expected an upright JPEG, got one of EXIF orientation {frame['orientation']} "
            "(decode and rotate it, and push the pixels)"
        )
    if status == LiveStatus.WRONG_SIZE:
        height, width, channels = stream.shape
        got = f"{frame['width']}x{frame['height']}x{frame['components']}"
        raise ValueError(f"{name}: expected a JPEG of {width}x{height}x{channels}, got {got}")


def _kind(file: File) -> str:
    status = int(jpeg_library.inspect_file(file)["status"])
    if status == jpeg_library.OK:
        return "one that libjpeg-turbo cannot decode"
    return jpeg_library.describe(status)
