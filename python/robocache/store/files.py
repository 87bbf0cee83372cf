"""Files of a store: opened without following links, and written atomically.

A new file has a temporary name until its data is synced; the writer renames it then.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from robocache.store.errors import StoreError
from robocache.store.library import crc32

TEMPORARY = ".tmp-"
SHARD = re.compile(r"shard-\d{5,}\.safetensors")
STATISTICS = re.compile(r"statistics-\d{5,}\.safetensors")


def temporary_path(folder: Path) -> Path:
    """A new path in `folder`, with a name that readers ignore."""
    return folder / f"{TEMPORARY}{uuid.uuid4().hex}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds `path` to an `OSError` that names no file (a full disk, `fsync`) or a temporary one."""
    try:
        yield
    except OSError as error:
        named = Path(os.fsdecode(error.filename)).name if error.filename else TEMPORARY
        if named.startswith(TEMPORARY) and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Opens a regular file and returns its descriptor; follows no link, and waits for no pipe.

    Raises:
        StoreError: The path is a symbolic link, a folder, a pipe or a device.
        OSError: The file can't be opened.
    """
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"{path}: expected a file, got a symbolic link") from None
        if error.errno == errno.EISDIR:
            raise StoreError(f"{path}: expected a file, got a folder") from None
        raise
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        got = "a folder" if stat.S_ISDIR(mode) else "something that is no file"
        raise StoreError(f"{path}: expected a file, got {got}")
    return file


def expect_regular(path: Path, size: int) -> None:
    """Checks the kind and the size of a file that the caller is about to rename or link.

    Raises:
        StoreError: The path is no regular file, or the file has another size.
        FileNotFoundError: The path does not exist.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        got = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "something that is no file"
        raise StoreError(f"{path}: expected a file, got {got}")
    if status.st_size != size:
        raise StoreError(f"{path}: expected {size} bytes, got {status.st_size}")


def read_chunks(path: Path, size: int, chunk_bytes: int) -> Iterator[bytes]:
    """Reads a regular file in chunks, after a check that it has exactly `size` bytes.

    Raises:
        StoreError: The path is no regular file, or the file has another size.
        OSError: The file can't be read; the error names it.
    """
    file = open_regular(path)
    with naming(path), os.fdopen(file, "rb", buffering=0) as opened:
        got = os.fstat(file).st_size
        if got != size:
            raise StoreError(f"{path}: expected {size} bytes, as the manifest says, got {got}")
        while size > 0 and (chunk := opened.read(min(size, chunk_bytes))):
            size -= len(chunk)
            yield chunk
    if size:
        raise StoreError(f"{path}: expected {size} bytes more: the file was cut while it was read")


class NewFile:
    """A file being written under a temporary name, with the CRC-32 of its data.

    Attributes:
        path: The temporary path.
        bytes: Number of bytes written.
        crc32: CRC-32 of all bytes written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = temporary_path(folder)
        self.bytes = 0
        self.crc32 = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends `data`.

        Raises:
            OSError: The write failed, for example because the disk is full; it names the file.
        """
        with naming(self.path):
            write_all(self._file, data)
        self.bytes += len(data)
        self.crc32 = crc32(data, self.crc32)

    def finish(self) -> None:
        """Syncs the file to the disk and closes it. It keeps its temporary name.

        Raises:
            OSError: The sync failed, for example because the disk is full; it names the file.
        """
        with naming(self.path):
            os.fsync(self._file)
            file, self._file = self._file, -1
            os.close(file)

    def discard(self) -> None:
        """Removes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.path.unlink(missing_ok=True)


def new_file(folder: Path, data: bytes) -> NewFile:
    """Writes `data` to a new file and syncs it; a failure leaves no file behind."""
    file = NewFile(folder)
    try:
        file.write(data)
        file.finish()
    except BaseException:
        file.discard()
        raise
    return file


def write_all(file: int, data: bytes | bytearray | memoryview) -> None:
    """Writes all of `data` to a file descriptor: one `os.write` may write a part only."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.write(file, view[done:])


def sync_folder(folder: Path) -> None:
    """Syncs the entries of `folder`, so that renamed and new files survive a power loss.

    Raises:
        OSError: The sync failed; the error names the folder.
    """
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with naming(folder):
            os.fsync(file)
    finally:
        os.close(file)


def sync_parents(folders: Iterable[Path]) -> None:
    """Syncs the folders that hold `folders`, so that new folders survive a power loss.

    A parent that this process may not read is skipped: the system syncs it later.
    """
    for folder in folders:
        with suppress(PermissionError):
            sync_folder(folder / os.pardir)
