"""NumPy arrays in files and zip archives, whose stated sizes are compared with the bytes there.

`numpy.load` allocates what a header states, unpickles where it is asked to, and takes an archive
for an array. Here a header is read first.
"""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.errors import RecordingError, head, refuse_duplicates
from robocache.readers.limits import check_resident, check_streams, check_total

SUFFIX = ".npy"


@dataclass(frozen=True)
class ArrayHeader:
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    in_rows: bool
    """Whether a row's bytes lie together in the file."""
    stored: int = 0
    """Bytes that the array takes in the file, compressed or not."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the array in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def names_in(path: Path) -> list[str] | None:
    """The names of the files in a zip archive; None if it is none, or damaged."""
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
    """The arrays of an archive, each as long as its header states.

    Raises:
        RecordingError: If one is not, if two have one name, or if there are too many.
    """
    members = [info for info in file.infolist() if info.filename.endswith(SUFFIX)]
    check_streams(path, len(members))
    refuse_duplicates(path, "arrays", [info.filename.removesuffix(SUFFIX) for info in members])
    stored = sum(info.compress_size for info in members)
    if stored > path.stat().st_size:
        raise RecordingError(
            f"{path}: expected arrays that lie one behind the other, got {stored:,} bytes of them "
            "in a smaller file"
        )
    headers = {}
    for info in members:
        with file.open(info) as stream:
            found = read_header(stream, info.compress_size)
            got = info.file_size - stream.tell()
        if got != found.bytes and not found.dtype.hasobject:
            raise RecordingError(
                f"{path}: expected {found.dtype} {list(found.shape)} in {info.filename}, "
                f"got {got:,} bytes"
            )
        name = info.filename.removesuffix(SUFFIX)
        if not found.dtype.hasobject:
            rows = found.shape[0] if found.shape else 1
            where = f"{path}, array {name}"
            check_total(where, found.bytes + 8 * rows, info.compress_size, limit)
        headers[name] = found
    return headers


def read_member(path: Path, file: zipfile.ZipFile, name: str, limit: int) -> NDArray[Any]:
    """A whole array of an archive.

    Raises:
        RecordingError: For objects, and for an array that is larger than `limits` allow.
        Exception: What zipfile and NumPy raise for a damaged archive.
    """
    info = file.getinfo(name + SUFFIX)
    with file.open(info) as stream:
        return _read_array(f"{path}, array {name}", stream, info.compress_size, limit)


def read_array(path: Path, limit: int) -> NDArray[Any]:
    """The array of an .npy file.

    Raises:
        RecordingError: For objects, and for an array that is larger than `limits` allow.
        Exception: What NumPy raises for a damaged file.
    """
    with path.open("rb") as stream:
        return _read_array(str(path), stream, path.stat().st_size, limit)


def _read_array(where: str, stream: IO[bytes], stored: int, limit: int) -> NDArray[Any]:
    found = read_header(stream, stored)
    if found.dtype.hasobject:
        raise RecordingError(f"{where}: expected numbers, got Python objects, which are not read")
    check_resident(where, found.bytes, stored, limit)
    data = stream.read(found.bytes)
    if len(data) != found.bytes:
        raise RecordingError(
            f"{where}: expected {found.dtype} {list(found.shape)}, got {len(data):,} bytes"
        )
    order: Any = "C" if found.in_rows else "F"
    return np.frombuffer(data, found.dtype).reshape(found.shape, order=order)


def read_header(stream: IO[bytes], stored: int) -> ArrayHeader:
    """The header that a stream begins with; the stream is then at the first value.

    Raises:
        ValueError: If it is none.
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
