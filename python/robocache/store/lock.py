"""One writer at a time: a lock on the file `.lock` of a store's folder.

The kernel holds it (`flock`), so it goes when its process does, however that ends. Readers never
ask for it.

Whatever has the name `.lock` may be somebody else's file: it is opened without following links,
never truncated, and written to only if it is a lock of this library or empty.
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
"""Length of the text that names the holder, padded with blanks."""
_HOLDER = re.compile(rb"(process \d+ on [^\n]*)?\s*")


class StoreLock:
    """The lock of a store's folder, held from construction to :meth:`release`.

    Raises:
        StoreError: Another writer holds it (the text names its process and host), or `.lock` is not
            a lock of this library: a link, a pipe, a file with other contents or several names.
        OSError: The folder can't be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._file, self._is_new = _open(self._path)
        while not self._take(folder):
            # Its writer removed it between the two steps: a lock on it keeps nobody out.
            os.close(self._file)
            self._file, self._is_new = _open(self._path)
        try:
            self._write(f"process {os.getpid()} on {socket.gethostname()}")
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> bool:
        """Locks the file; whether it is still the one of that name."""
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
        """Names the holder; a text of fixed length covers that of any holder before."""
        text = holder.encode()[: _HOLDER_BYTES - 1].ljust(_HOLDER_BYTES - 1) + b"\n"
        with naming(self._path):
            os.pwrite(self._file, text, 0)

    def release(self, remove: bool = False) -> None:
        """Gives the lock back.

        Args:
            remove: The file goes too, if this lock made it: the folder did not become a store.
        """
        if self._file < 0:
            return
        file, self._file = self._file, -1
        try:
            if remove and self._is_new:
                self._path.unlink(missing_ok=True)
        finally:
            # Closing alone would not do: a process forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _open(path: Path) -> tuple[int, bool]:
    """The file, and whether it was made."""
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return os.open(path, flags, 0o666), True
        except FileExistsError:
            pass
        try:
            return open_regular(path, os.O_RDWR), False
        except FileNotFoundError:
            pass  # its writer has removed it since


def _refuse_foreign(path: Path, file: int) -> None:
    """Refuses a file that other names share, or that holds anything but a holder's name."""
    found = os.fstat(file)
    if found.st_nlink > 1:
        raise StoreError(f"{path}: expected a file of one name, got {found.st_nlink} links")
    if found.st_size > _HOLDER_BYTES or not _HOLDER.fullmatch(os.pread(file, _HOLDER_BYTES, 0)):
        raise StoreError(f"{path}: expected the lock of a store, got a file with other contents")
