"""ctypes bindings of the frames of batches: bindings/torch/frames.cpp."""

from __future__ import annotations

import ctypes
import functools
from ctypes import (
    POINTER,
    byref,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from robocache.core import library as _library
from robocache.loader.plan import raise_failure


class Record(ctypes.Structure):
    """A frame as a GPU decodes it, `robocache::JpegFrame`; positions count elements of arrays."""

    _fields_ = (
        ("scan", c_uint64),
        ("index", c_uint64),
        ("tables", c_uint32),
        ("scan_bits", c_uint32),
        ("width", c_uint16),  # 0: there is no image
        ("height", c_uint16),
        ("restart_interval", c_uint16),
        ("every", c_uint16),
        ("sampling", c_uint8),
        ("reserved", c_uint8 * 7),
    )


RECORD_BYTES = ctypes.sizeof(Record)


class Sources(ctypes.Structure):
    """Files and their indices in host memory; addresses of arrays [count]."""

    _fields_ = (
        ("files", c_void_p),
        ("sizes", c_void_p),
        ("entries", c_void_p),
        ("entry_counts", c_void_p),
        ("scan_bits", c_void_p),
        ("count", c_int64),
    )


class Layout(ctypes.Structure):
    """The properties that the frames of a stream share."""

    _fields_ = (
        ("width", c_int32),
        ("height", c_int32),
        ("sampling", c_int32),
        ("every", c_int32),
        ("largest_tables", c_int32),
    )


class Sizes(ctypes.Structure):
    """The layout of frames, and the sizes of their arrays, in elements."""

    _fields_ = (
        ("layout", Layout),
        ("scan_words", c_int64),
        ("index_size", c_int64),
        ("table_words", c_int64),
        ("largest_scan", c_int64),
        ("largest_index", c_int64),
    )


class Arrays(ctypes.Structure):
    """The arrays of a stream's frames: on CUDA those up to `frames`, on the CPU the last two."""

    _fields_ = (
        ("first_number", c_int64),
        ("count", c_int64),
        ("scans", c_void_p),
        ("scan_words", c_int64),
        ("indices", c_void_p),
        ("index_size", c_int64),
        ("tables", c_void_p),
        ("table_words", c_int64),
        ("frames", c_void_p),
        ("files", c_void_p),
        ("sizes", c_void_p),
    )


class Pixels(ctypes.Structure):
    """The elements that decoded bytes become; the library sets the last two."""

    _fields_ = (
        ("dtype", c_int32),
        ("channels_first", c_int32),
        ("channels", c_int32),
        ("is_identity", c_int32),
        ("is_linear", c_int32),
    )


class Stage(ctypes.Structure):
    """Pinned memory for the frames of a batch."""

    _fields_ = (
        ("scans", c_void_p),
        ("scan_words", c_int64),
        ("indices", c_void_p),
        ("index_size", c_int64),
        ("frames", c_void_p),
        ("numbers", c_void_p),
        ("capacity", c_int64),
    )


class Output(ctypes.Structure):
    """Where frames of a batch are written."""

    _fields_ = (
        ("numbers", c_void_p),
        ("count", c_int64),
        ("values", c_void_p),
        ("is_pad", c_void_p),
        ("first_stream", c_int32),
        ("stream_count", c_int32),
    )


class Group(ctypes.Structure):
    """Outputs that one launch decodes."""

    _fields_ = (("layout", Layout), ("pixels", Pixels), ("output_count", c_int32))


@functools.cache
def load() -> ctypes.CDLL:
    """The library, with the types of the functions of frames."""
    library = _library.load()
    structures = {
        "FrameRecord": Record,
        "FrameSources": Sources,
        "FrameLayout": Layout,
        "FrameSizes": Sizes,
        "FrameArrays": Arrays,
        "FramePixels": Pixels,
        "FrameStage": Stage,
        "FrameOutput": Output,
        "FrameGroup": Group,
    }
    _library.check_layout(library, "robocache_frames_layout", structures)
    functions: dict[str, tuple[Any, list[Any]]] = {
        "frame_stream_bytes": (c_int64, []),
        "frame_table_open": (
            c_int,
            [POINTER(Sources), POINTER(Layout), POINTER(Sizes), POINTER(c_void_p)],
        ),
        "frame_table_take": (None, [c_void_p, c_void_p, c_void_p]),
        "extract_scans": (c_int, [POINTER(Sources), c_void_p, c_void_p]),
        "stage_frames": (c_int, [POINTER(Sources), c_void_p, c_void_p, c_int64, POINTER(Stage)]),
        "frame_stream": (
            c_int,
            [POINTER(Arrays), c_void_p, c_void_p, c_void_p, POINTER(Pixels), c_void_p],
        ),
        "frames_workspace": (c_int, [POINTER(Layout), c_int64, c_int32, POINTER(c_int64)]),
        "decode_frames": (
            c_int,
            [
                c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_void_p, c_int64, c_int32,
                c_void_p,
            ],
        ),
    }  # fmt: skip
    for name, (result, arguments) in functions.items():
        function = getattr(library, f"robocache_{name}")
        function.argtypes = arguments
        function.restype = result
    return library


def workspace_bytes(layout: Layout, count: int, is_cuda: bool) -> int:
    """Bytes of the workspace to decode `count` frames."""
    found = c_int64()
    check(load().robocache_frames_workspace(byref(layout), count, is_cuda, byref(found)))
    return found.value


def check(status: int) -> None:
    """Raises the error of a call that failed."""
    if status:
        raise_failure(status)
