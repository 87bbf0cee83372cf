"""Files that are whole or not there: temporary names, synced, then renamed."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robocache.store._library import crc32

TEMPORARY = ".tmp-"
SHARD = re.compile(r"shard-\d{5,}\.safetensors")
STATISTICS = re.compile(r"statistics-\d{5,}\.safetensors")


def temporary_path(folder: Path) -> Path:
    """A name in `folder` that nobody has, and that no reader looks at."""
    return folder / f"{TEMPORARY}{uuid.uuid4().hex}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the operating system name `path` where they name no file (a full disk)."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise


class NewFile:
    """A file being written under a temporary name, and the CRC-32 of what was written.

    Attributes:
        path: The temporary name.
        bytes: How many were written.
        crc32: Of them all.
    """

    def __init__(self, folder: Path) -> None:
        self.path = temporary_path(folder)
        self.bytes = 0
        self.crc32 = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends `data`.

        Raises:
            OSError: The disk is full, or the like; it names the file.
        """
        with naming(self.path):
            write_all(self._file, data)
        self.bytes += len(data)
        self.crc32 = crc32(data, self.crc32)

    def finish(self) -> None:
        """Everything is on the disk, and the file is closed. Its name is still temporary."""
        with naming(self.path):
            os.fsync(self._file)
        os.close(self._file)
        self._file = -1

    def discard(self) -> None:
        """Removes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.path.unlink(missing_ok=True)


def new_file(folder: Path, data: bytes) -> NewFile:
    """A finished file that holds `data`; nothing is left behind where that fails."""
    file = NewFile(folder)
    try:
        file.write(data)
        file.finish()
    except BaseException:
        file.discard()
        raise
    return file


def write_all(file: int, data: bytes | bytearray | memoryview) -> None:
    """Writes `data` to a file descriptor: one call of the kernel may take less than it is given."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.write(file, view[done:])


def sync_folder(folder: Path) -> None:
    """What was renamed in `folder` stays so when the power fails."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
