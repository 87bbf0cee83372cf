"""JPEG files as rows of a LiveAligner's cameras: which values are files, and why one is refused."""

from __future__ import annotations

import array

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robocache.jpeg import library as jpeg_library
from robocache.jpeg.frames import JpegFrames
from robocache.live.arguments import Values
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


def files_of(stream: PushStream, values: Values, count: int) -> list[File] | None:
    """The JPEG files of `count` rows, which are JpegFrames or a list; None: values are rows.

    Raises:
        ValueError: The number of files is another.
    """
    if isinstance(values, JpegFrames):
        if not stream.is_image:
            return None
        files = [values.files[i] for i in range(len(values))]
    elif isinstance(values, (list, tuple)):
        files = [file for value in values if (file := file_of(stream, value)) is not None]
        if not files or len(files) != len(values):
            return None
    else:
        return None
    if len(files) != count:
        name = f"{stream.spec.name}: values"
        raise ValueError(f"{name}: expected {count} JPEG files, got {len(files)}")
    return files


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
