"""NPZ files of one recording: arrays with one row per time, and arrays of times.

The times of an array ``imu`` are ``imu_times`` (or ``imu/times``, ``imu_t``, ``imu_timestamps``,
with an optional unit); arrays without such times share ``times``, ``timestamps`` or ``t``. Arrays
are read in parts, not at once.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers import images
from robocache.readers.encoded_images import (
    first_file,
    frame_bytes,
    image_rows,
    is_encoded,
    left_out,
    may_be_files,
    unpadded,
)
from robocache.readers.errors import RecordingError, head, reading
from robocache.readers.limits import check_resident
from robocache.readers.numpy_arrays import SUFFIX, array_headers, names_in, read_header
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Reader,
    Recording,
    SingleEpisode,
    StreamMetadata,
    require_rate,
)
from robocache.readers.rows import (
    Rows,
    Times,
    chunks,
    is_storable,
    native,
    row_times,
    rows_per_chunk,
    sort_rows,
)
from robocache.readers.tables.column_names import is_time_name
from robocache.readers.tables.time_column import scale_times, unit_of_times

FORMAT = "NPZ"


class Npz(Recording):
    """A file of one episode."""

    format = FORMAT

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        with reading(path, "an NPZ file"), zipfile.ZipFile(path) as file:
            self._arrays = array_headers(path, file, options.memory_limit)
        if options.time_column is not None and options.time_column not in self._arrays:
            raise RecordingError(
                f"{path}: expected an array of times {options.time_column}, "
                f"got {', '.join(self._arrays) or 'none'}"
            )
        own = self._find_own_clocks()
        taken = {clock[0] for clock in own.values() if clock}
        shared = options.time_column or next(
            (n for n in self._arrays if n not in taken and is_time_name(n)), None
        )
        # The array of each array's times, and the part of its name that may say its unit.
        self._clocks: dict[str, tuple[str, str] | None] = {
            name: own[name] or (None if shared is None else (shared, shared))
            for name in self._arrays
            if name not in taken and name != shared
        }
        if shared is not None and all(own[name] for name in self._clocks):
            self.notes[f"arrays of times that no other array has left out ({shared})"] = 1
        self._holds_files: dict[str, bool] = {}
        self._frame_bytes: dict[str, int] = {}
        for name in options.select(self._clocks):
            self._add_stream(name)

    def _find_own_clocks(self) -> dict[str, tuple[str, str] | None]:
        """For each array, the first array of its times, and the suffix of that array's name."""
        found: dict[str, tuple[str, str] | None] = dict.fromkeys(self._arrays)
        for other in self._arrays:  # imu_times, imu/t_ns
            for mark in re.finditer(r"[_/.]", other):
                name, rest = other[: mark.start()], other[mark.end() :]
                if name in found and found[name] is None and is_time_name(rest):
                    found[name] = other, rest
        return found

    def _add_stream(self, name: str) -> None:
        array = self._arrays[name]
        clock = (self._clocks[name] or (None,))[0]
        self._holds_files[name] = has_files = self._has_files(name)
        if not is_storable(array.dtype) and not has_files:
            may_hold = may_be_files(array.dtype, array.shape)
            self.notes[left_out("arrays", array.dtype, may_hold, name)] = 1
            return
        if not array.shape:
            self.notes[f"arrays of a single number left out ({name})"] = 1
            return
        if clock is not None and self._arrays[clock].shape != array.shape[:1]:
            raise RecordingError(
                f"{self.path}: expected {array.shape[0]} times in {clock}, as {name} has rows, "
                f"got {list(self._arrays[clock].shape)}"
            )
        is_image = images.is_image(array.shape[1:], array.dtype) or has_files
        if is_image and not self.options.images:
            images.leave_out(name, self.notes)
            return
        self.streams[name] = StreamMetadata(
            method="previous" if is_image else None,
            rate=None if clock else require_rate(self.path, None, self.options),
            timeline="time" if clock else "rows",
            source=f"array {name}" + (f", times in {clock}" if clock else ""),
        )

    def _has_files(self, name: str) -> bool:
        """Whether the rows of an array are files of images."""
        array = self._arrays[name]
        if 0 in array.shape or not may_be_files(array.dtype, array.shape):
            return False
        with reading(self.path, "an NPZ file"), zipfile.ZipFile(self.path) as file:
            first = first_file(self._files(file, name))
        if not is_encoded(first):
            return False
        self._frame_bytes[name] = frame_bytes(first, self.options)
        return True

    def _files(self, file: zipfile.ZipFile, name: str) -> Iterator[bytes]:
        """The files in the rows of an array."""
        return (unpadded(row) for _, part in self._parts(file, name) for row in part)

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode of the file, if it has rows."""
        if any(self._arrays[name].shape[0] for name in self.streams):
            return [SingleEpisode(self.read)]
        self.notes["episodes without rows, skipped"] = 1
        return []

    def image_bytes(self) -> int:
        """Bytes of the decoded images, by the headers of the arrays."""
        arrays = [self._arrays[name] for name in self.streams]
        return sum(
            array.shape[0] * images.fitted_bytes(array.shape[1:], 1, self.options)
            for array in arrays
            if images.is_image(array.shape[1:], array.dtype)
        ) + sum(
            self._arrays[name].shape[0] * self._frame_bytes[name]
            for name in self.streams
            if self._holds_files[name]
        )

    def read(self) -> Iterator[Rows]:
        """The rows of the one episode, one array after another."""
        path = self.path
        with reading(path, "an NPZ file"), zipfile.ZipFile(path) as file:
            for name in self.streams:
                times = self._times(file, name)
                parts = self._parts(file, name)
                if (times[1:] < times[:-1]).any():  # sorting needs the whole array
                    self._check_resident(name, self._arrays[name].bytes)
                    values = np.concatenate([part for _, part in parts])
                    rows = sort_rows(Rows(name, times, values), self.notes)
                    times, parts = rows.times, iter([(0, rows.values)])
                if self._holds_files[name]:
                    files = (unpadded(row) for _, part in parts for row in part)
                    yield from self._images(name, times, files)
                    continue
                for a, part in parts:
                    if images.is_image(part.shape[1:], part.dtype):
                        part = images.fit_all(part, self.options)
                    yield from chunks(Rows(name, times[a : a + len(part)], part))

    def _images(self, name: str, times: Times, files: Iterable[bytes]) -> Iterator[Rows]:
        """The rows of an array whose rows are files of images."""
        path = self.path
        yield from image_rows(
            name, times, files, lambda row: f"{path}, row {row} of {name}", path, self.notes,
            self.options,
        )  # fmt: skip

    def _times(self, file: zipfile.ZipFile, name: str) -> Times:
        """[n] nanoseconds of an array's rows."""
        found = self._clocks[name]
        if found is None:
            rate = require_rate(self.path, None, self.options)
            rows = self._arrays[name].shape[0]
            self._check_resident(name, 8 * rows)
            return row_times(0, rows, rate)
        clock, called = found
        self._check_resident(clock, self._arrays[clock].bytes)
        values = np.concatenate([part for _, part in self._parts(file, clock)] or [np.empty(0)])
        if values.dtype.kind == "M":
            return _dates(values, f"{self.path}, {clock}")
        if values.dtype.kind not in "iuf":
            raise RecordingError(f"{self.path}: expected numbers in {clock}, got {values.dtype}")
        are_whole = values.dtype.kind != "f"
        largest = abs(int(values[0])) if are_whole and len(values) else 0
        unit = unit_of_times(called, self.options, largest, are_whole)
        if unit is None:
            raise RecordingError(
                f"{self.path}: expected the unit of the integers in {clock}, got none "
                "(--time-unit says it, or a name such as times_ns)"
            )
        return scale_times(values, unit, f"{self.path}, {clock}")

    def _check_resident(self, name: str, size: int) -> None:
        """Raises if `size` bytes of an array exceed what `limits` allow in memory at once."""
        stored = self._arrays[name].stored
        check_resident(f"{self.path}, array {name}", size, stored, self.options.memory_limit)

    def _parts(self, file: zipfile.ZipFile, name: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """An array in parts of bounded size: the first row of each part, and its rows."""
        array = self._arrays[name]
        with file.open(f"{name}{SUFFIX}") as stream:
            read_header(stream, array.stored)
            row_bytes = array.row_bytes
            step = rows_per_chunk(row_bytes) if array.in_rows else array.shape[0]
            self._check_resident(name, row_bytes * min(step, array.shape[0]))
            for a in range(0, array.shape[0], max(1, step)):
                count = min(step, array.shape[0] - a)
                data = stream.read(count * row_bytes)
                shape = (count, *array.shape[1:])
                order: Any = "C" if array.in_rows else "F"
                yield a, native(np.frombuffer(data, array.dtype).reshape(shape, order=order))


def _dates(values: NDArray[Any], where: str) -> Times:
    """[n] nanoseconds of an array of datetime64."""
    if np.isnat(values).any():
        row = int(np.flatnonzero(np.isnat(values))[0])
        raise RecordingError(f"{where}: expected a time in every row, got none in row {row}")
    seconds = values.astype("datetime64[s]").astype(np.int64)
    if seconds.size and max(-int(seconds.min()), int(seconds.max())) >= 2**63 // 10**9:
        raise RecordingError(
            f"{where}: expected times within 292 years of 1970, got "
            f"{values.min()} to {values.max()}"
        )
    return values.astype("datetime64[ns]").astype(np.int64)


def recognizes(path: Path) -> bool:
    """Whether a file is a zip file of NumPy arrays; a damaged or empty file, by its suffix."""
    names = names_in(path)
    if not names:
        return head(path, 2) == b"PK" and path.suffix.lower() == ".npz"
    return all(name.endswith(SUFFIX) for name in names)


READER = Reader(FORMAT, "images", "an .npz file of arrays", recognizes, Npz, (".npz",))
