"""diffusion-policy's replay buffers: a zarr group of all episodes, one behind the other.

``data`` has arrays of one row a step, ``meta/episode_ends`` the row after the last of each
episode. A folder, or the same in a zip file. There are no times: rows lie 1 / rate apart, and the
rate is not in the file.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers import images
from robocache.readers.decompress import refuse_growth
from robocache.readers.encoded_images import (
    first_file,
    frame_bytes,
    image_rows,
    is_encoded,
    left_out,
    may_be_files,
    unpadded,
)
from robocache.readers.errors import RecordingError, reading
from robocache.readers.limits import check_resident, check_rows, check_streams
from robocache.readers.numpy_arrays import names_in
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Reader,
    Recording,
    StreamMetadata,
    require_rate,
)
from robocache.readers.rows import Rows, is_storable, native, row_times, rows_per_chunk

FORMAT = "diffusion-policy zarr"
ENDS = "meta/episode_ends"

BLOCK_BYTES = 8 << 20
"""Bytes of an array that are read at once: episodes are shorter than zarr's chunks."""


class ReplayBuffer(Recording):
    """An opened replay buffer."""

    format = FORMAT

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        zarr = require("zarr", "zarr", "zarr")
        self._store = None
        try:
            with reading(path, "a zarr group"):
                if path.is_file():
                    self._store = zarr.storage.ZipStore(str(path), mode="r")
                    with zipfile.ZipFile(path) as file:
                        stored = {i.filename: i.compress_size for i in file.infolist()}
                else:
                    files = (file for file in path.rglob("*") if file.is_file())
                    stored = {
                        file.relative_to(path).as_posix(): file.stat().st_size for file in files
                    }
                self._stored = Counter[str]()
                for name, size in stored.items():
                    self._stored["/".join(name.split("/")[:2])] += size
                group = zarr.open_group(self._bounded(zarr), mode="r")
                self._open(group)
        except BaseException:
            self.close()
            raise

    def _bounded(self, zarr: Any) -> Any:
        """The store, whose chunks are measured before codecs decompress them.

        zarr 2 has no such stores; there the sizes of arrays alone are checked.
        """
        wrapper = getattr(zarr.storage, "WrapperStore", None)
        if wrapper is None:
            return self._store or str(self.path)
        path, limit = self.path, self.options.memory_limit

        class BoundedStore(wrapper):  # type: ignore[misc, valid-type]
            """A store that refuses chunks that become too large."""

            async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
                found = await super().get(key, *arguments, **options)
                if found is not None:
                    refuse_growth(f"{path}, chunk {key}", found.to_bytes(), limit)
                return found

        return BoundedStore(self._store or zarr.storage.LocalStore(path, read_only=True))

    def _open(self, group: Any) -> None:
        if "data" not in group or ENDS not in group:
            raise RecordingError(
                f"{self.path}: expected groups data and meta/episode_ends, got none"
            )
        self.ends = self._read_ends(group[ENDS])
        self.rate = require_rate(self.path, None, self.options)
        rows = int(self.ends[-1]) if len(self.ends) else 0
        names = sorted(name for name, _ in group["data"].arrays())
        check_streams(self.path, len(names))
        for name, _ in group["data"].groups():
            self.notes[f"groups within data left out ({name})"] = 1
        self._arrays: dict[str, _Blocks] = {}
        self._holds_files: dict[str, bool] = {}
        self._frame_bytes: dict[str, int] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        """Dtypes of the arrays; those of the streams differ for images of floats."""
        for name in self.options.select(names):
            array = group["data"][name]
            if not (is_storable(array.dtype) or _may_be_files(array)):
                self.notes[left_out("arrays", array.dtype, False, name)] += 1
                continue
            if not array.shape or array.shape[0] < rows:
                raise RecordingError(
                    f"{self.path}: expected {rows} rows in data/{name}, as {ENDS} says, "
                    f"got {list(array.shape)}"
                )
            if array.shape[0] > rows:
                more = array.shape[0] - rows
                self.notes[f"rows after the end of the last episode left out ({name})"] = more
            self._add_stream(name, array)

    def _check(self, name: str, array: Any) -> None:
        """Refuses an array whose codecs run programs, or whose sizes no stored bytes account for.

        Args:
            name: Of the array, below the group.
            array: The array, not read yet.
        """
        where = f"{self.path}, array {name}"
        refuse_pickle(self.path, name, array)
        refuse_nesting(self.path, name, array)
        stored, limit = self._stored[name], self.options.memory_limit
        check_rows(where, array.shape, array.nbytes, stored, limit)
        check_resident(where, math.prod(array.chunks) * array.dtype.itemsize, stored, limit)

    def _add_stream(self, name: str, array: Any) -> None:
        has_files = _may_be_files(array) and self._has_files(name, array)
        if not (has_files or is_storable(array.dtype)):
            self.notes[left_out("arrays", array.dtype, _may_be_files(array), name)] += 1
            return
        is_image = _is_image(array) or has_files
        if is_image and not self.options.images:
            images.leave_out(name, self.notes)
            return
        self._check(f"data/{name}", array)
        self._arrays[name] = _Blocks(array)
        self._holds_files[name] = has_files
        held = min(self._arrays[name].block_bytes, array.nbytes)
        where = f"{self.path}, array data/{name}"
        check_resident(where, held, self._stored[f"data/{name}"], self.options.memory_limit)
        self.dtypes[name] = array.dtype
        # zarr leaves out chunks that hold nothing but the fill value, and a copy may lack others.
        absent = array.nchunks - array.nchunks_initialized
        if absent:
            self.notes[f"chunks absent, read as the array's fill value ({name})"] = absent
        self.streams[name] = StreamMetadata(
            method="previous" if is_image else None,
            rate=self.rate,
            timeline="rows",
            source=f"array data/{name}",
        )

    def _has_files(self, name: str, array: Any) -> bool:
        """Whether the rows of an array are files of images."""
        if 0 in array.shape:
            return False
        self._check(f"data/{name}", array)
        rows = (row for _, part in _Blocks(array).read(0, array.shape[0]) for row in part)
        first = first_file(_file_of(array, row) for row in rows)
        self._frame_bytes[name] = frame_bytes(first, self.options)
        return is_encoded(first)

    def _read_ends(self, array: Any) -> NDArray[np.int64]:
        self._check(ENDS, array)
        if array.ndim != 1 or array.dtype.kind not in "iu":  # objects would be decoded to look
            raise RecordingError(
                f"{self.path}: expected a row of integers in {ENDS}, "
                f"got {array.dtype} {list(array.shape)}"
            )
        ends = np.asarray(array[...]).astype(np.int64)
        if (np.diff(ends, prepend=0) < 0).any():
            raise RecordingError(f"{self.path}: expected ascending rows in {ENDS}, got others")
        return ends

    def episodes(self) -> Sequence[EpisodeReader]:
        """The episodes that have rows."""
        found = []
        first = 0
        for number, end in enumerate(self.ends.tolist()):
            if end > first:
                found.append(_Episode(self, f"episode_{number}", first, end))
            first = end
        if len(found) < len(self.ends):
            self.notes["episodes without rows, skipped"] = len(self.ends) - len(found)
        return found

    def image_bytes(self) -> int:
        """Bytes of the decoded images, by the arrays' shapes; images of floats become uint8."""
        rows = int(self.ends[-1]) if len(self.ends) else 0
        arrays = [blocks.array for blocks in self._arrays.values()]
        frames = [
            images.fitted_bytes(array.shape[1:], 1, self.options)
            for array in arrays
            if _is_image(array)
        ]
        frames += [self._frame_bytes[name] for name, files in self._holds_files.items() if files]
        return rows * sum(frames)

    def close(self) -> None:
        """Closes the zip file, if it is one."""
        if self._store is not None:
            self._store.close()


@dataclass(frozen=True)
class _Episode:
    recording: ReplayBuffer
    key: str
    first: int
    end: int
    task: str | None = None
    subsets: tuple[str, ...] = ()

    def read(self) -> Iterator[Rows]:
        recording = self.recording
        with reading(recording.path, f"{self.key} to be readable"):
            for name, blocks in recording._arrays.items():
                if recording._holds_files[name]:
                    yield from self._images(name, blocks)
                    continue
                for row, values in blocks.read(self.first, self.end):
                    times = row_times(row - self.first, len(values), recording.rate)
                    if _is_image(blocks.array):
                        pixels = self._pixels(name, values)
                        values = images.fit_all(pixels, recording.options)
                    yield Rows(name, times, values)

    def _images(self, name: str, blocks: _Blocks) -> Iterator[Rows]:
        """An array whose rows are files of images."""
        path, first = self.recording.path, self.first
        rows = (row for _, part in blocks.read(first, self.end) for row in part)
        yield from image_rows(
            name,
            row_times(0, self.end - first, self.recording.rate),
            (_file_of(blocks.array, row) for row in rows),
            lambda row: f"{path}, row {first + row} of data/{name}",
            path,
            self.recording.notes,
            self.recording.options,
        )

    def _pixels(self, name: str, values: NDArray[Any]) -> NDArray[np.uint8]:
        """diffusion-policy keeps some images as floats of 0 to 255."""
        if values.dtype == np.uint8:
            return values
        pixels: NDArray[np.uint8] = np.clip(values, 0, 255).astype(np.uint8)
        if not (pixels == values).all():
            raise RecordingError(
                f"{self.recording.path}: expected whole numbers of 0 to 255 in the images {name}, "
                "got others"
            )
        return pixels


class _Blocks:
    """An array that is read a block of whole chunks at a time, once in order."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._chunk = max(1, array.chunks[0])
        row_bytes = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
        self._rows = max(self._chunk, BLOCK_BYTES // max(1, row_bytes))
        if array.dtype == object:  # of variable length: chunks may have any size
            self._rows = self._chunk
        self._step = rows_per_chunk(row_bytes)
        self.block_bytes = self._rows * row_bytes
        """Bytes that are read at once."""
        self._first = 0
        self._block: NDArray[Any] = np.empty((0, *array.shape[1:]), array.dtype)

    def read(self, first: int, end: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Rows `first` to `end` - 1 in order: the number of a row, and rows from there on."""
        while first < end:
            if not self._first <= first < self._first + len(self._block):
                self._first = first - first % self._chunk
                self._block = native(self.array[self._first : self._first + self._rows])
                self._block.flags.writeable = False  # chunks that are handed out are views of it
            a = first - self._first
            part = self._block[a : a + min(end - first, self._step)]
            yield first, part
            first += len(part)


def refuse_pickle(path: Path, name: str, array: Any) -> None:
    """Refuses an array whose chunks zarr would unpickle.

    Raises:
        RecordingError: If it is one.
    """
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in _codecs(array)):
        raise RecordingError(
            f"{path}, array {name}: expected a codec of numbers, got pickle, which runs code"
        )


_FILTERS = frozenset(
    [
        "adler32", "astype", "bitround", "bytes", "categorize", "crc32", "crc32c", "delta",
        "endian", "fixedscaleoffset", "fletcher32", "jenkins_lookup3", "packbits", "quantize",
        "shuffle", "transpose", "vlen-bytes", "vlenbytes",
    ]
)  # fmt: skip
"""Codecs that do not decompress: their results are at most eight times as large."""


_VARIABLE = ("vlen-bytes", "vlenbytes")  # codecs of rows of variable length, of formats 2 and 3


def refuse_nesting(path: Path, name: str, array: Any) -> None:
    """Refuses an array that is compressed twice: `_bounded` measures the outer compression alone.

    Raises:
        RecordingError: If it is.
    """
    names = [each for each in map(_codec_name, _codecs(array)) if each not in _FILTERS]
    if len(names) > 1:
        raise RecordingError(
            f"{path}, array {name}: expected one compression, got {' and '.join(names)}"
        )


def _codec_name(codec: Any) -> str:
    """The name of a codec in lower case: ``zlib``, also for zarr's ``numcodecs.zlib``."""
    given = getattr(codec, "codec_id", None) or getattr(codec, "codec_name", None)
    name = str(given or type(codec).__name__.removesuffix("Codec"))
    return name.rpartition(".")[2].lower()


def _codecs(array: Any) -> list[Any]:
    """The codecs that decode an array's chunks, of zarr's formats 2 and 3."""
    metadata = getattr(array, "metadata", array)
    found = [getattr(metadata, "compressor", None), *(getattr(metadata, "filters", None) or ())]
    for codec in getattr(metadata, "codecs", ()):
        found += getattr(codec, "codecs", [codec])  # those within shards
    return [codec for codec in found if codec is not None]


def _may_be_files(array: Any) -> bool:
    """Whether rows may be files of images: of variable length, or padded with zeros."""
    if array.dtype == object:
        return array.ndim == 1 and any(_codec_name(codec) in _VARIABLE for codec in _codecs(array))
    return may_be_files(array.dtype, array.shape)


def _file_of(array: Any, row: Any) -> bytes:
    if array.dtype != object:
        return unpadded(row)
    return row if isinstance(row, bytes) else b""  # rows of absent chunks are other objects


def _is_image(array: Any) -> bool:
    shape = array.shape[1:]
    if images.is_image(shape, array.dtype):
        return True
    return array.dtype.kind == "f" and len(shape) == 3 and images.is_image(shape, np.dtype("u1"))


def recognizes(path: Path) -> bool:
    """Whether it is a zarr group with ``meta/episode_ends``, in a folder or a zip file."""
    files = (f"{ENDS}/.zarray", f"{ENDS}/zarr.json")
    if path.is_dir():
        return any((path / name).is_file() for name in files)
    return any(name in files for name in names_in(path) or ())


READER = Reader(FORMAT, "zarr", f"a zarr folder or zip file with {ENDS}", recognizes, ReplayBuffer)
