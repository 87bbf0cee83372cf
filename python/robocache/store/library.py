"""ctypes bindings of the C++ store's C API (bindings/c/store.cpp), without torch."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core import library as _library
from robocache.core.library import Status
from robocache.store.errors import StoreError

FILE_NAME = "librobocache_store.so"
MAX_SUBSETS = 64  # of an episode: the bits of a 64-bit integer


class Shard(ctypes.Structure):
    """A mapped file."""

    _fields_ = (
        ("data", c_void_p),
        ("bytes", c_int64),
        ("first_episode", c_int64),
        ("episodes", c_int64),
    )


class EpisodeMetadata(ctypes.Structure):
    """Metadata of an episode; `task` and `subsets` are the manifest's indices."""

    _fields_ = (
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("length", c_int64),
        ("task", c_int64),
        ("source", c_void_p),
        ("source_bytes", c_int64),
        ("subset_count", c_int64),
        ("subsets", c_int64 * MAX_SUBSETS),
    )


class Rows(ctypes.Structure):
    """Location of rows of a stream: byte offsets in a shard's file, -1 for an absent column."""

    _fields_ = (
        ("shard", c_int64),
        ("rows", c_int64),
        ("values", c_int64),
        ("items", c_int64),  # the first size of `values`: `rows`, unless the stream is ragged
        ("times", c_int64),
        ("received", c_int64),
        ("valid", c_int64),
        ("row_offsets", c_int64),
        ("entries", c_int64),
        ("entry_count", c_int64),
        ("entry_offsets", c_int64),
        ("scan_bits", c_int64),
    )


@functools.cache
def load() -> ctypes.CDLL:
    """Loads the library, once per process.

    Raises:
        ImportError: The library is missing or does not load.
    """
    path = _library.find(FILE_NAME)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"robocache: {path} does not load: {error}") from None
    structures = {"Shard": Shard, "Episode": EpisodeMetadata, "Rows": Rows}
    _library.check_layout(library, "robocache_store_layout", structures)
    library.robocache_store_error.argtypes = []
    library.robocache_store_error.restype = c_char_p
    library.robocache_store_close.argtypes = [c_void_p]
    library.robocache_store_close.restype = None
    library.robocache_store_manifest.argtypes = [c_void_p, POINTER(c_int64)]
    library.robocache_store_manifest.restype = c_void_p
    library.robocache_store_episodes.argtypes = [c_void_p]
    library.robocache_store_episodes.restype = c_int64
    library.robocache_store_count_bytes.argtypes = [c_void_p, c_int64, c_int64, c_void_p]
    library.robocache_store_count_bytes.restype = None
    library.robocache_store_crc32.argtypes = [c_void_p, c_int64, c_uint32]
    library.robocache_store_crc32.restype = c_uint32
    moments = [c_void_p, c_int64, c_int64, *5 * [c_void_p]]
    with_status: dict[str, list[Any]] = {
        "moments_f32": moments,
        "moments_f64": moments,
        "open": [c_char_p, POINTER(c_void_p)],
        "shard": [c_void_p, c_int64, POINTER(Shard)],
        "stream_rows": [c_void_p, c_int64, POINTER(c_int64)],
        "episode": [c_void_p, c_int64, POINTER(EpisodeMetadata)],
        "columns": [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p],
        "rows": [c_void_p, c_int64, c_int64, POINTER(Rows)],
        "shard_rows": [c_void_p, c_int64, c_int64, POINTER(Rows)],
        "verify_shard": [c_void_p, c_int64],
        "verify_statistics": [c_void_p],
    }
    functions = {f"robocache_store_{name}": arguments for name, arguments in with_status.items()}
    functions["robocache_policy_spec_windows"] = [c_char_p, c_int64, c_char_p, POINTER(c_char_p)]
    functions["robocache_windows_check"] = [c_char_p, c_int64]
    functions["robocache_window_group_check"] = [c_char_p, c_int64, c_char_p]
    library.robocache_window_fields.argtypes = []
    library.robocache_window_fields.restype = c_char_p
    for name, arguments in functions.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int
        function.errcheck = _check
    return library


def count_bytes(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Histogram [C, 256]: the count of each byte value in each channel of rows [n, C]."""
    rows = np.ascontiguousarray(rows)
    histogram = np.zeros((rows.shape[1], 256), np.int64)
    count = load().robocache_store_count_bytes
    count(rows.ctypes.data, *rows.shape, histogram.ctypes.data)
    return histogram


def policy_spec_windows(text: bytes, name: str) -> list[dict[str, Any]]:
    """The streams of a policy spec of any version, with the fields of a WindowSpec.

    Raises:
        ValueError: `<name>: <field>: expected ..., got ...`.
    """
    windows = c_char_p()
    load().robocache_policy_spec_windows(text, len(text), os.fsencode(name), byref(windows))
    parsed: list[dict[str, Any]] = json.loads(windows.value or b"{}")["windows"]
    return parsed


def check_windows(windows: Sequence[Mapping[str, Any]]) -> None:
    """Validates the fields of a batch's windows with the C++ validator of plans and policy specs.

    Raises:
        TypeError, ValueError: `<field>['<stream>']: expected ..., got ...`.
    """
    text = _windows_json(windows)
    load().robocache_windows_check(text, len(text))


def check_group(windows: Sequence[Mapping[str, Any]], name: str) -> None:
    """Validates that windows can be concatenated: vectors of one type, at the same offsets.

    Raises:
        ValueError: `<name>: expected ..., got ...`.
    """
    text = _windows_json(windows)
    load().robocache_window_group_check(text, len(text), name.encode(errors="surrogatepass"))


def _windows_json(windows: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({"windows": windows}).encode(errors="surrogatepass")


def window_fields() -> dict[str, Any]:
    """The library's table of a WindowSpec's fields: a window with the defaults, and the schema."""
    fields = json.loads(load().robocache_window_fields())
    return {"defaults": fields["windows"][0], "schema": fields["schema"]}


def moments(rows: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Count, mean, sum of squared deviations, minimum and maximum of finite elements, by channel.

    Args:
        rows: [n, C] with n of at least 1; float32, or a type that float64 represents.

    Returns:
        Five arrays [C], the first int64, the others float64. The minimum and the maximum of a
        channel without finite elements are infinite.
    """
    kind = np.float32 if rows.dtype == np.float32 else np.float64
    rows = np.ascontiguousarray(rows, kind)
    count = np.empty(rows.shape[1], np.int64)
    others = tuple(np.empty(rows.shape[1]) for _ in range(4))
    library = load()
    function = (
        library.robocache_store_moments_f32
        if kind is np.float32
        else library.robocache_store_moments_f64
    )
    results = (each.ctypes.data for each in (count, *others))
    function(rows.ctypes.data, *rows.shape, *results)
    return count, *others


def crc32(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """CRC-32 as `zlib.crc32` computes it; the library's is faster."""
    view = np.frombuffer(data, np.uint8)
    value: int = load().robocache_store_crc32(view.ctypes.data, len(view), before)
    return value


def _check(status: int, function: object, arguments: object) -> None:
    """Raises the exception that a status stands for, with the library's message."""
    if status == Status.OK:
        return
    message = load().robocache_store_error()
    _library.raise_failure(status, message, {Status.STORE_ERROR: StoreError})


class _Handle:
    """Owner of an open C++ store, which closes when the last reference to this object goes."""

    def __init__(self, path: str) -> None:
        pointer = c_void_p()
        library = load()
        library.robocache_store_open(os.fsencode(path), byref(pointer))
        self.pointer = pointer
        # Not at interpreter exit: arrays that are still alive then view the mapped files.
        weakref.finalize(self, library.robocache_store_close, pointer).atexit = False


def _open(path: str) -> _Handle:
    """Opens a store; retries if a writer replaced the manifest and its files in the meantime."""
    while True:
        before = _manifest_state(path)
        try:
            return _Handle(path)
        except StoreError:
            if _manifest_state(path) == before:
                raise


def _manifest_state(path: str) -> tuple[int, ...] | None:
    """Identity of the manifest's file on disk; None if the file is missing."""
    try:
        status = Path(path, "manifest.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class _Map:
    """NumPy's array interface of a mapped file, read-only. Arrays from it keep the store open."""

    def __init__(self, handle: _Handle, shard: Shard) -> None:
        self.handle = handle
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (shard.bytes,),
            "data": (shard.data, True),
        }


class OpenStore:
    """An open episode store: Python methods for the functions of the C API."""

    def __init__(self, path: str) -> None:
        if "\0" in path:  # C strings end there
            raise StoreError(f"path: expected the folder of an episode store, got {path!r}")
        self._library = load()
        self._handle = _open(path)
        self._maps: dict[int, NDArray[np.uint8]] = {}
        self.episodes: int = self._library.robocache_store_episodes(self._handle.pointer)

    def manifest(self) -> bytes:
        """Text of the manifest."""
        size = c_int64()
        text = self._library.robocache_store_manifest(self._handle.pointer, byref(size))
        return ctypes.string_at(text, size.value)

    def count_rows(self, stream: int) -> int:
        """Number of rows of a stream in all episodes."""
        rows = c_int64()
        self._library.robocache_store_stream_rows(self._handle.pointer, stream, byref(rows))
        return rows.value

    def episode(self, index: int) -> EpisodeMetadata:
        """Metadata of an episode."""
        metadata = EpisodeMetadata()
        self._library.robocache_store_episode(self._handle.pointer, index, byref(metadata))
        return metadata

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """Lengths, starts, ends and tasks of all episodes."""
        columns = tuple(np.empty(self.episodes, np.int64) for _ in range(4))
        pointers = (column.ctypes.data for column in columns)
        self._library.robocache_store_columns(self._handle.pointer, *pointers)
        for column in columns:
            column.flags.writeable = False
        return columns

    def rows(self, episode: int, stream: int) -> Rows:
        """Location of an episode's rows of a stream."""
        rows = Rows()
        self._library.robocache_store_rows(self._handle.pointer, episode, stream, byref(rows))
        return rows

    def shard_rows(self, shard: int, stream: int) -> Rows:
        """Location of all rows of a stream in a shard."""
        rows = Rows()
        self._library.robocache_store_shard_rows(self._handle.pointer, shard, stream, byref(rows))
        return rows

    def file(self, shard: int) -> NDArray[np.uint8]:
        """The bytes of a shard, mapped."""
        file = self._maps.get(shard)
        if file is None:
            mapped = Shard()
            self._library.robocache_store_shard(self._handle.pointer, shard, byref(mapped))
            file = self._maps.setdefault(shard, np.asarray(_Map(self._handle, mapped)))
        return file

    def verify_shard(self, shard: int) -> None:
        """Reads and validates a whole shard."""
        self._library.robocache_store_verify_shard(self._handle.pointer, shard)

    def verify_statistics(self) -> None:
        """Reads the file of the statistics, if the store has one, and compares its checksum."""
        self._library.robocache_store_verify_statistics(self._handle.pointer)
