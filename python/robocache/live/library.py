"""Calls the C++ LiveAligner through its flat C API, bindings/torch/live.cpp."""

from __future__ import annotations

import ctypes
import enum
import functools
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.core import dtypes, torch_private
from robocache.core import library as _library
from robocache.core.library import Status


class LiveStatus(enum.IntEnum):
    """The status of a call: robocache::LiveStatus."""

    OK = 0
    WRONG_RATE = 1
    ROWS_LOST = 2
    STALE = 3
    NO_ROWS = 4
    TWO_CLOCKS = 5  # the last status of a query that wrote its output
    UNKNOWN_STREAM = 6
    UNKNOWN_KEY = 7
    UNKNOWN_ROBOT = 8
    TAKES_NO_ROWS = 9
    WRONG_SIZE = 10
    BAD_POINTER = 11
    NO_QUERY = 12
    NOT_INVERTIBLE = 13
    BUSY = 14
    NO_DEVICE = 15
    DEVICE_ERROR = 16
    WRONG_TYPE = 17
    UNKNOWN_TICKET = 18
    PADDED = 19
    NOT_JPEG = 20
    DAMAGED_JPEG = 21
    ROTATED_JPEG = 22


class _Rows(ctypes.Structure):
    _fields_ = (("buffer_rows", c_int64), ("ring_rows", c_int64))


class _Options(ctypes.Structure):
    _fields_ = (
        ("robots", c_int64),
        ("query_every_ns", c_int64),
        ("max_future_ns", c_int64),
        ("kept_queries", c_int64),
        ("cuda_slots", c_int64),
        ("encode_images", c_int64),
    )


class _Array(ctypes.Structure):
    _fields_ = (
        ("key", c_char_p),
        ("dtype", c_int64),
        ("rank", c_int64),
        ("shape", POINTER(c_int64)),
        ("offset", c_int64),
    )


class _Key(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("rank", c_int64),
        ("aligned_rank", c_int64),
        ("shape", POINTER(c_int64)),
        ("aligned", POINTER(c_int64)),
    )


class _Ticket(ctypes.Structure):
    _fields_ = (("sequence", c_int64), ("now_ns", c_int64))


STATS = (
    "pushed", "overwritten", "refused", "taken", "clock_back", "late", "too_late", "repeated",
    "early", "future", "outdated", "forgotten", "held", "newest_ns", "short_windows",
    "period_ns", "wrong_rate",
)  # fmt: skip


class _Stats(ctypes.Structure):
    _fields_ = tuple((name, c_int64) for name in STATS)


class LiveArray(NamedTuple):
    """An array in the output of a query."""

    key: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int  # bytes from the beginning of the output


class LiveKey(NamedTuple):
    """A key of a batch, including windows that reach into the future."""

    number: int
    shape: tuple[int, ...]  # of a row in batches
    aligned: tuple[int, ...]  # of a row in the result of undo


@functools.cache
def _load() -> ctypes.CDLL:
    library = _library.load()
    functions: dict[str, tuple[Any, list[Any]]] = {
        "open": (
            c_int,
            [c_char_p, c_int64, c_char_p, POINTER(_Options), POINTER(_Rows), POINTER(c_void_p)],
        ),
        "close": (None, [c_void_p]),
        "rows": (None, [c_void_p, c_int64, POINTER(_Rows)]),
        "output_count": (c_int64, [c_void_p]),
        "output_bytes": (c_int64, [c_void_p]),
        "output": (None, [c_void_p, c_int64, POINTER(_Array)]),
        "key_count": (c_int64, [c_void_p]),
        "key": (None, [c_void_p, c_int64, POINTER(_Key)]),
        "push": (c_int32, [c_void_p, c_int64, c_int64, c_void_p, c_int64, c_int64, c_int32]),
        "push_jpeg": (c_int32, [c_void_p, c_int64, c_int64, c_void_p, c_int64, c_int64, c_int32]),
        "push_many": (
            c_int32,
            [c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p],
        ),
        "channel_order": (c_int, [c_void_p, c_int64, POINTER(c_char_p), c_int64, c_void_p]),
        "select": (c_int, [c_void_p, POINTER(c_char_p), c_int64, POINTER(c_void_p)]),
        "close_selection": (None, [c_void_p]),
        "query": (
            c_int32,
            [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p, POINTER(_Ticket)],
        ),
        "query_on_cuda": (
            c_int32,
            [c_void_p, c_int64, c_void_p, c_int64, *[c_void_p] * 3, POINTER(_Ticket)],
        ),
        "wait_on_cuda": (c_int32, [c_void_p]),
        "ready": (c_int32, [c_void_p, c_int64]),
        "status": (c_int32, [c_void_p, c_int64, c_int64]),
        "now": (c_int64, [c_void_p, c_int64]),
        "undo": (c_int32, [c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int32]),
        "reset": (None, [c_void_p, c_int64]),
        "stats": (None, [c_void_p, c_int64, c_int64, POINTER(_Stats)]),
    }
    structures = {
        "Rows": _Rows, "Options": _Options, "Array": _Array, "Key": _Key, "Ticket": _Ticket,
        "Stats": _Stats,
    }  # fmt: skip
    _library.check_layout(library, "robocache_live_layout", structures)
    for name, (result, arguments) in functions.items():
        function = getattr(library, f"robocache_live_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Aligner:
    """A robocache::LiveAligner. Addresses are integers, which this class does not validate.

    Args:
        text: A policy spec, as JSON.
        name: The name of the spec in errors.
        robots: The number of robots.
        query_every_ns: The longest time between two queries.
        max_future_ns: A row stamped later than a query by more than this is dropped.
        kept_queries: The number of last queries whose answers `undo` inverts.
        rows: The capacity (buffer, ring) of each stream of the spec, in rows; 0: the default.
        cuda_slots: The number of copies to the current GPU that may be in flight; 0: no GPU.
        encode_images: Whether raw images are encoded and decoded as in training.

    Raises:
        ValueError, TypeError, RuntimeError: The library's error.
    """

    def __init__(
        self,
        text: bytes,
        name: str,
        robots: int,
        query_every_ns: int,
        max_future_ns: int,
        kept_queries: int,
        rows: Sequence[tuple[int, int]],
        cuda_slots: int,
        encode_images: bool,
    ) -> None:
        library = _load()
        pointer = c_void_p()
        status = library.robocache_live_open(
            text,
            len(text),
            name.encode(errors="replace"),
            byref(
                _Options(
                    robots, query_every_ns, max_future_ns, kept_queries, cuda_slots, encode_images
                )
            ),
            (_Rows * len(rows))(*(_Rows(*of_stream) for of_stream in rows)),
            byref(pointer),
        )
        if status:
            message = library.robocache_error()
            if status == Status.OUT_OF_MEMORY:
                message = (
                    b"robots, buffer_rows: expected memory for all rows that are kept, got none"
                )
            _library.raise_failure(status, message)
        self._pointer = pointer
        self._ticket = _Ticket()  # of the last query
        self._ticket_pointer = byref(self._ticket)
        self._push = library.robocache_live_push
        self._push_jpeg = library.robocache_live_push_jpeg
        self._query = library.robocache_live_query
        self._query_on_cuda = library.robocache_live_query_on_cuda
        self.output_bytes: int = library.robocache_live_output_bytes(pointer)
        self.outputs = tuple(map(self._output, range(library.robocache_live_output_count(pointer))))
        self.keys = dict(map(self._key, range(library.robocache_live_key_count(pointer))))
        # The capacity (buffer, ring) of each stream
        self.rows = [self._rows(stream) for stream in range(len(rows))]
        weakref.finalize(self, library.robocache_live_close, pointer).atexit = False

    def _output(self, index: int) -> LiveArray:
        found = _Array()
        _load().robocache_live_output(self._pointer, index, byref(found))
        shape = tuple(found.shape[axis] for axis in range(found.rank))
        return LiveArray(found.key.decode(), dtypes.ALL_DTYPES[found.dtype], shape, found.offset)

    def _key(self, index: int) -> tuple[str, LiveKey]:
        found = _Key()
        _load().robocache_live_key(self._pointer, index, byref(found))
        shape = tuple(found.shape[axis] for axis in range(found.rank))
        aligned = tuple(found.aligned[axis] for axis in range(found.aligned_rank))
        return found.name.decode(), LiveKey(index, shape, aligned)

    def _rows(self, stream: int) -> tuple[int, int]:
        found = _Rows()
        _load().robocache_live_rows(self._pointer, stream, byref(found))
        return found.buffer_rows, found.ring_rows

    def push(
        self, stream: int, time_ns: int, values: int, size: int, robot: int, is_valid: bool
    ) -> int:
        """Pushes the row of `size` bytes at an address; returns a LiveStatus."""
        status: int = self._push(self._pointer, stream, time_ns, values, size, robot, is_valid)
        return status

    def push_jpeg(
        self, stream: int, time_ns: int, file: int, size: int, robot: int, is_valid: bool
    ) -> int:
        """Pushes the JPEG file of `size` bytes at an address; returns a LiveStatus."""
        status: int = self._push_jpeg(self._pointer, stream, time_ns, file, size, robot, is_valid)
        return status

    def push_many(
        self,
        stream: int,
        count: int,
        times: int,
        values: int,
        row_size: int,
        robot: int,
        robots: int | None,
        valid: int | None,
    ) -> int:
        """Pushes rows up to the first one that is refused; returns its LiveStatus."""
        status: int = _load().robocache_live_push_many(
            self._pointer, stream, count, times, values, row_size, robot, robots, valid
        )
        return status

    def channel_order(self, stream: int, names: Sequence[str], channels: int) -> NDArray[np.int64]:
        """The index among a message's names of each of a stream's channels, [D].

        Raises:
            ValueError: The library's error.
        """
        indices = np.empty(channels, np.int64)
        encoded = (c_char_p * len(names))(*(name.encode(errors="replace") for name in names))
        library = _load()
        status = library.robocache_live_channel_order(
            self._pointer, stream, encoded, len(names), indices.ctypes.data
        )
        if status:
            _library.raise_failure(status, library.robocache_error())
        return indices

    def select(self, keys: Sequence[str]) -> c_void_p:
        """A selection of keys, for queries; it is freed with the aligner.

        Raises:
            ValueError: The library's error.
        """
        library, selection = _load(), c_void_p()
        encoded = (c_char_p * len(keys))(*(key.encode(errors="replace") for key in keys))
        status = library.robocache_live_select(self._pointer, encoded, len(keys), byref(selection))
        if status:
            _library.raise_failure(status, library.robocache_error())
        weakref.finalize(self, library.robocache_live_close_selection, selection).atexit = False
        return selection

    def query(
        self, stream: int, times: int | None, time_ns: int, out: int, selection: c_void_p | None
    ) -> int:
        """Writes windows to an address, of all keys or a selection; returns a LiveStatus."""
        status: int = self._query(
            self._pointer, stream, times, time_ns, out, selection, self._ticket_pointer
        )
        return status

    def query_on_cuda(
        self,
        stream: int,
        times: int | None,
        time_ns: int,
        out: int,
        selection: c_void_p | None,
        device: int,
    ) -> int:
        """Writes windows to an address on a GPU, on its current CUDA stream; returns a LiveStatus.

        Waits while all slots are being copied, on any CUDA stream.
        """
        with torch.cuda.device(device):
            raw = torch_private.cuda_stream(device)
            call = (self._pointer, stream, times, time_ns, out, raw, selection)
            status: int = self._query_on_cuda(*call, self._ticket_pointer)
            if status == LiveStatus.BUSY:
                _load().robocache_live_wait_on_cuda(self._pointer)
                status = self._query_on_cuda(*call, self._ticket_pointer)
        return status

    def ticket(self) -> tuple[int, int]:
        """The sequence number and the time of the last query; 0 and 0 if it wrote nothing."""
        return self._ticket.sequence, self._ticket.now_ns

    def ready(self, robot: int) -> bool:
        """Whether every stream of a robot has been pushed a row; -1: of all robots."""
        return bool(_load().robocache_live_ready(self._pointer, robot))

    def status(self, stream: int, robot: int) -> int:
        """The LiveStatus of a stream in a robot's last query."""
        status: int = _load().robocache_live_status(self._pointer, stream, robot)
        return status

    def now_ns(self, robot: int) -> int:
        """The anchor time of a robot's last query, in ns."""
        now: int = _load().robocache_live_now(self._pointer, robot)
        return now

    def undo(
        self, sequence: int, key: int, values: int, rows: int, out: int, is_float64: bool
    ) -> int:
        """Writes the inverse of transforms and normalization; returns a LiveStatus.

        `sequence` is that of the query's ticket; 0 for a key that is not relative.
        """
        status: int = _load().robocache_live_undo(
            self._pointer, sequence, key, values, rows, out, is_float64
        )
        return status

    def reset(self, robot: int) -> None:
        """Deletes the rows of a robot; -1: of all robots."""
        _load().robocache_live_reset(self._pointer, robot)

    def stats(self, stream: int, robot: int) -> dict[str, int]:
        """The counters of a robot's stream, by the names of STATS."""
        found = _Stats()
        _load().robocache_live_stats(self._pointer, stream, robot, byref(found))
        return {name: getattr(found, name) for name in STATS}
