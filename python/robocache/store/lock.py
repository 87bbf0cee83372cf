"""The writer lock: `flock` on the file `.lock` in a store's folder allows one writer at a time.

The kernel releases the lock when the writer's process ends, however it ends. Readers do not use
the lock.

A file named `.lock` may belong to another program: it is opened without following links, never
truncated, and written to only if it is empty or a lock of this library.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from pathlib import Path

from robocache.store.errors import StoreError
from robocache.store.files import naming, open_regular

_HOLDER_BYTES = 512
"""Length of the text that names the holder's process, padded with blanks."""
_HOLDER = re.compile(rb"(process \d+ on [^\n]*)?\s*")


class StoreLock:
    """The lock of a store's folder, held from construction to :meth:`release`.

    Raises:
        StoreError: Another writer holds the lock (the message names its process and host), or
            `.lock` is no lock of this library: a link, a pipe, a file with other contents, or one
            with several hard links.
        OSError: The folder is not writable.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._file, self._is_new = _open(self._path)
        while not self._take(folder):
            # Its writer removed the file between open and lock; other writers will lock a new file.
            os.close(self._file)
            self._file, self._is_new = _open(self._path)
        try:
            self._write(f"process {os.getpid()} on {socket.gethostname()}")
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> bool:
        """Locks the file; returns whether the path still names this file."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(self._path.lstat(), os.fstat(self._file))
            if is_current:
                _refuse_foreign(self._path, self._file)
            return is_current
        except FileNotFoundError:
            return False
        except BlockingIOError:
            holder = os.pread(self._file, _HOLDER_BYTES, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreError(
                f"{folder}: expected no other writer, got one: {holder or 'a process unknown'}"
            ) from None
        except BaseException:
            os.close(self._file)
            raise

    def _write(self, holder: str) -> None:
        """Writes the holder's name at a fixed length, which overwrites any earlier name."""
        text = holder.encode()[: _HOLDER_BYTES - 1].ljust(_HOLDER_BYTES - 1) + b"\n"
        with naming(self._path):
            os.pwrite(self._file, text, 0)

    def release(self, remove: bool = False) -> None:
        """Releases the lock.

        Args:
            remove: Also remove the file, if this lock created it: the folder became no store.
        """
        if self._file < 0:
            return
        file, self._file = self._file, -1
        try:
            if remove and self._is_new:
                self._path.unlink(missing_ok=True)
        finally:
            # Unlock explicitly: a process that was forked in between has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _open(path: Path) -> tuple[int, bool]:
    """Opens or creates the file; returns its descriptor and whether it is new."""
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return os.open(path, flags, 0o666), True
        except FileExistsError:
            pass
        try:
            return open_regular(path, os.O_RDWR), False
        except FileNotFoundError:
            pass  # its writer has just removed it


def _refuse_foreign(path: Path, file: int) -> None:
    """Refuses a file with several hard links, or with contents other than a holder's name."""
    status = os.fstat(file)
    if status.st_nlink > 1:
        raise StoreError(f"{path}: expected a file of one name, got {status.st_nlink} links")
    if status.st_size > _HOLDER_BYTES or not _HOLDER.fullmatch(os.pread(file, _HOLDER_BYTES, 0)):
        raise StoreError(f"{path}: expected the lock of a store, got a file with other contents")
