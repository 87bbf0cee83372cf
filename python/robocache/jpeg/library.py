"""ctypes bindings of the JPEG functions in the store's library (bindings/c/jpeg.cpp)."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint32, c_void_p

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
OTHER_SHAPE = 255
"""The status of a frame whose size or number of colors is not the stream's."""


class Frame(ctypes.Structure):
    """Properties of a frame; `index_size` is the number of elements of its index."""

    _fields_ = (
        ("width", c_int32),
        ("height", c_int32),
        ("components", c_int32),
        ("orientation", c_int32),
        ("index_size", c_int64),
    )


@functools.cache
def _load() -> ctypes.CDLL:
    path = _library.find(FILE_NAME)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"robocache: {path} does not load: {error}") from None
    functions = {
        "describe": [c_int],
        "has_image": [c_int],
        "inspect": [c_void_p, c_int64, c_int32, POINTER(Frame)],
        "index": [c_void_p, c_int64, c_int32, c_void_p, c_int64, POINTER(c_uint32)],
        "decode": [c_void_p, c_int64, c_int32, c_int32, c_int32, c_void_p],
        "encode": [
            c_void_p, c_int32, c_int32, c_int32, c_int32, c_int,
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
    text: bytes = _load().robocache_jpeg_describe(status)
    return text.decode()


def has_image(status: int) -> bool:
    """Whether a frame of this status can be decoded."""
    return bool(_load().robocache_jpeg_has_image(status))


def inspect(data: Bytes, mcus_per_entry: int = 1) -> tuple[int, Frame]:
    """The status of a frame's header, and the properties of the frame."""
    frame = Frame()
    status = _load().robocache_jpeg_inspect(
        data.ctypes.data, len(data), mcus_per_entry, byref(frame)
    )
    return _checked(status), frame


def index(
    data: Bytes, mcus_per_entry: int, shape: tuple[int, int, int]
) -> tuple[int, NDArray[np.uint64], int]:
    """The status of a frame [H,W,C], its index, and the bits of its plain scan.

    A frame without an index, or of another shape (`OTHER_SHAPE`), has no entries.
    """
    none = np.empty(0, np.uint64)
    status, frame = inspect(data, mcus_per_entry)
    if status == OK and (frame.height, frame.width, frame.components) != shape:
        status = OTHER_SHAPE
    if status != OK:
        return status, none, 0
    entries, bits = np.empty(frame.index_size, np.uint64), c_uint32()
    status = _load().robocache_jpeg_index(
        data.ctypes.data, len(data), mcus_per_entry, entries.ctypes.data, len(entries), byref(bits)
    )
    has_index = _checked(status) in (OK, DAMAGED)
    return status, entries if has_index else none, bits.value if has_index else 0


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


def _checked(status: int) -> int:
    if status < 0:
        raise MemoryError("out of memory")
    return status
