"""ctypes bindings of the JPEG functions in the store's library (bindings/c/jpeg.cpp)."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from robocache.core import library as _library

Bytes = NDArray[np.uint8]

FILE_NAME = "librobocache_store.so"
"""The library that has these functions; robocache.store.library checks its version."""
MCUS_PER_ENTRY = 1
"""Minimum coded units per entry of an index: one for each thread of a GPU."""
OK, DAMAGED = 0, 1
"""Statuses of frames that have an index; `DAMAGED` is a frame that is cut short."""
UNREADABLE = (8, 9)
"""Statuses of lossless files and of samples other than 8 bits, which no common decoder reads."""
OTHER_SHAPE = 255
"""The status of a frame whose size or number of colors is not the stream's."""
NOT_UPRIGHT = 254
"""The status of a frame that has an index, and EXIF data that turn or mirror it."""
UPRIGHT = 1
"""The orientation in EXIF data of an image that is not turned or mirrored."""
LARGEST_SIDE = 4096
"""The largest width and height of a frame: kMaxJpegSide."""


FRAME = np.dtype(
    [
        ("width", "<i4"),
        ("height", "<i4"),
        ("components", "<i4"),
        ("orientation", "<i4"),
        ("index_size", "<i8"),
        ("status", "<i4"),
        ("quality", "<i2"),
        ("sampling", "<i2"),
    ]
)
"""Properties of a frame by its header.

`index_size` is the number of elements of its index, `quality` that of libjpeg's tables (0: it has
others), `sampling` a number of `SAMPLINGS`.
"""

SAMPLINGS = ("4:0:0", "4:4:4", "4:2:2", "4:4:0", "4:2:0")
"""Chroma samplings, in the order of the library's numbers; 4:0:0 is gray."""


@functools.cache
def _load() -> ctypes.CDLL:
    path = _library.find(FILE_NAME)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"robocache: {path} does not load: {error}") from None
    functions = {
        "describe": [c_int],
        "inspect": [c_void_p, c_void_p, c_int64, c_int32, c_void_p],
        "index": [
            c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p, c_void_p,
        ],
        "rewrite": [c_void_p, c_int64, POINTER(c_void_p), POINTER(c_int64)],
        "decode": [c_void_p, c_int64, c_int32, c_int32, c_int32, c_void_p],
        "encode": [
            c_void_p, c_int32, c_int32, c_int32, c_int32, c_int,
            POINTER(c_void_p), POINTER(c_int64),
        ],
        "encode_planes": [
            c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int32, c_int32, c_int, c_int32,
            POINTER(c_void_p), POINTER(c_int64),
        ],
    }  # fmt: skip
    for name, arguments in functions.items():
        function = getattr(library, f"robocache_jpeg_{name}")
        function.argtypes = arguments
        function.restype = c_int
    library.robocache_jpeg_describe.restype = c_char_p
    return library


def describe(status: int) -> str:
    """A status in words, which follow "expected baseline JPEG, got "."""
    if status == OTHER_SHAPE:
        return "a frame of another size"
    if status == NOT_UPRIGHT:
        return "a frame that its EXIF orientation turns or mirrors"
    text: bytes = _load().robocache_jpeg_describe(status)
    return text.decode()


def inspect(items: Bytes, offsets: NDArray[np.int64], every: int = 1) -> NDArray[np.void]:
    """Parses the headers of files: FRAME [N].

    Args:
        items: The bytes of N files, one behind the other.
        offsets: [N+1], where each begins, relative to the first.
        every: MCUs for each entry of an index.
    """
    frames = np.zeros(len(offsets) - 1, FRAME)
    _checked(
        _load().robocache_jpeg_inspect(
            items.ctypes.data, offsets.ctypes.data, len(frames), every, frames.ctypes.data
        )
    )
    return frames


def inspect_file(data: Bytes) -> np.void:
    """Parses the header of one file: a FRAME, of status `NOT_UPRIGHT` if EXIF data turn it."""
    frame: np.void = inspect(data, np.array([0, len(data)], np.int64))[0]
    if frame["status"] == OK and frame["orientation"] != UPRIGHT:
        frame["status"] = NOT_UPRIGHT
    return frame


def index(
    items: Bytes,
    offsets: NDArray[np.int64],
    every: int,
    entries: NDArray[np.uint64],
    entry_offsets: NDArray[np.int64],
    scan_bits: NDArray[np.uint32],
    statuses: NDArray[np.int32],
) -> None:
    """Computes the indices of files into `entries`; files of no entries are left out.

    Args:
        items: As for :func:`inspect`.
        offsets: As for :func:`inspect`.
        every: MCUs for each entry.
        entries: The indices, one behind the other; unspecified where the status is neither `OK` nor
            `DAMAGED`.
        entry_offsets: [N+1], where each index begins, relative to the first; its size is the
            `index_size` of FRAME.
        scan_bits: [N], set to the bits of each frame's plain scan.
        statuses: [N], set to each frame's status.
    """
    _checked(
        _load().robocache_jpeg_index(
            items.ctypes.data, offsets.ctypes.data, len(statuses), every, entries.ctypes.data,
            entry_offsets.ctypes.data, scan_bits.ctypes.data, statuses.ctypes.data,
        )
    )  # fmt: skip


def rewrite(data: Bytes) -> bytes | None:
    """A baseline JPEG with the pixels of a progressive, arithmetic-coded or multi-scan one.

    None for a file that is damaged, or of another kind.
    """
    file, size = c_void_p(), c_int64()
    status = _load().robocache_jpeg_rewrite(data.ctypes.data, len(data), byref(file), byref(size))
    return ctypes.string_at(file, size.value) if _checked(status) == OK else None


def decode(data: Bytes, out: Bytes) -> int:
    """Decodes a frame into [H,W,C] bytes, contiguous, and returns its status.

    The pixels of a frame without an image are zeros.
    """
    height, width, channels = out.shape
    return _checked(
        _load().robocache_jpeg_decode(
            data.ctypes.data, len(data), height, width, channels, out.ctypes.data
        )
    )


def encode(pixels: Bytes, quality: int, full_chroma: bool) -> bytes:
    """Encodes [H,W,C] bytes, contiguous, of 1 or 3 channels."""
    height, width, channels = pixels.shape
    data, size = c_void_p(), c_int64()
    status = _load().robocache_jpeg_encode(
        pixels.ctypes.data, height, width, channels, quality, full_chroma, byref(data), byref(size)
    )
    if _checked(status) != OK:
        raise ValueError(f"pixels: {describe(status)}")
    return ctypes.string_at(data, size.value)


def encode_planes(
    planes: tuple[int, int, int],
    strides: tuple[int, int],
    shape: tuple[int, int],
    is_full_range: bool,
    quality: int,
) -> bytes:
    """Encodes a frame of video of the BT.601 matrix as JPEG with 4:2:0 sampling.

    Args:
        planes: Addresses of luma, Cb and Cr; Cb and Cr have half the resolution, rounded up.
        strides: Bytes from one row to the next, of luma and of Cb and Cr.
        shape: Height and width.
        is_full_range: Whether luma is 0 to 255; else 16 to 235.
        quality: 1 to 100.
    """
    data, size = c_void_p(), c_int64()
    status = _load().robocache_jpeg_encode_planes(
        *planes, *strides, *shape, is_full_range, quality, byref(data), byref(size)
    )
    if _checked(status) != OK:
        raise ValueError(f"planes: {describe(status)}")
    return ctypes.string_at(data, size.value)


def _checked(status: int) -> int:
    if status < 0:
        raise MemoryError("out of memory")
    return status
