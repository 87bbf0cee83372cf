"""NumPy arrays in files and zip archives, checked before memory is allocated for them.

`numpy.load` allocates the size that a header states, unpickles on request, and accepts an archive
as an array. These functions read the header first, and compare its size with the stored bytes.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.errors import RecordingError, head, refuse_duplicates
from robocache.readers.limits import check_resident, check_rows, check_streams

SUFFIX = ".npy"


@dataclass(frozen=True)
class ArrayHeader:
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_rows: bool
    """Whether the array is in C order: the bytes of a row are contiguous in the file."""
    stored: int
    """Bytes of the array in the file, compressed or not."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the array in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def names_in(path: Path) -> list[str] | None:
    """The names of the files in a zip archive; None if it is not an archive, or damaged."""
    if head(path, 2) != b"PK":
        return None
    try:
        with zipfile.ZipFile(path) as file:
            return file.namelist()
    except OSError:
        raise
    except Exception:  # zipfile raises anything for a damaged archive
        return None


def array_headers(path: Path, file: zipfile.ZipFile, limit: int) -> dict[str, ArrayHeader]:
    """The headers of an archive's arrays, whose sizes match their bytes.

    Raises:
        RecordingError: For a size that does not match, a duplicate name, or too many arrays.
    """
    return {name: header for name, header, _ in _members(path, file, limit)}


def _members(
    path: Path, file: zipfile.ZipFile, limit: int
) -> Iterator[tuple[str, ArrayHeader, IO[bytes]]]:
    """The name, the header, and the values of each array, in a stream for the caller to read."""
    members = [info for info in file.infolist() if info.filename.endswith(SUFFIX)]
    check_streams(path, len(members))
    refuse_duplicates(path, "arrays", [info.filename.removesuffix(SUFFIX) for info in members])
    stored = sum(info.compress_size for info in members)
    if stored > path.stat().st_size:
        raise RecordingError(
            f"{path}: expected arrays that lie one behind the other, got {stored:,} bytes of them "
            "in a smaller file"
        )
    for info in members:
        name = info.filename.removesuffix(SUFFIX)
        with file.open(info) as stream:
            header = read_header(stream, info.compress_size)
            if not header.dtype.hasobject:
                got = info.file_size - stream.tell()
                if got != header.bytes:
                    raise RecordingError(
                        f"{path}: expected {header.dtype} {list(header.shape)} in {info.filename}, "
                        f"got {got:,} bytes"
                    )
                where = f"{path}, array {name}"
                check_rows(where, header.shape, header.bytes, info.compress_size, limit)
            yield name, header, stream


def read_arrays(
    path: Path, file: zipfile.ZipFile, names: Collection[str], limit: int
) -> dict[str, NDArray[Any]]:
    """Whole arrays of an archive, by name; all of them if `names` is empty.

    Raises:
        RecordingError: As `array_headers`; for objects, and for an array that is larger than
            `limits` allow.
        KeyError: The archive lacks an array of `names`.
        Exception: Any that zipfile and NumPy raise for a damaged archive.
    """
    arrays = {
        name: _read_values(f"{path}, array {name}", header, stream, limit)
        for name, header, stream in _members(path, file, limit)
        if not names or name in names
    }
    for name in names:
        file.getinfo(name + SUFFIX)  # raises KeyError for an absent array
    return arrays


def read_array(path: Path, limit: int) -> NDArray[Any]:
    """The array of an .npy file.

    Raises:
        RecordingError: For objects, and for an array that is larger than `limits` allow.
        Exception: Any that NumPy raises for a damaged file.
    """
    with path.open("rb") as stream:
        header = read_header(stream, path.stat().st_size)
        return _read_values(str(path), header, stream, limit)


def _read_values(where: str, header: ArrayHeader, stream: IO[bytes], limit: int) -> NDArray[Any]:
    if header.dtype.hasobject:
        raise RecordingError(f"{where}: expected numbers, got Python objects, which are not read")
    check_resident(where, header.bytes, header.stored, limit)
    data = stream.read(header.bytes)
    if len(data) != header.bytes:
        raise RecordingError(
            f"{where}: expected {header.dtype} {list(header.shape)}, got {len(data):,} bytes"
        )
    order: Any = "C" if header.in_rows else "F"
    return np.frombuffer(data, header.dtype).reshape(header.shape, order=order)


def read_header(stream: IO[bytes], stored: int) -> ArrayHeader:
    """Reads the header at the begin of a stream; the stream is then at the first value.

    Raises:
        ValueError: If the stream does not begin with a header.
    """
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"an array of version {version}")
    shape, fortran, dtype = read(stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {list(shape)}")
    return ArrayHeader(shape, dtype, not fortran or len(shape) < 2, stored)
