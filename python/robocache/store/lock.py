"""One writer at a time: a lock on the file `.lock` of a store's folder.

The kernel holds it (`flock`), so it goes when its process does, however that ends. Readers never
ask for it.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from robocache.store.errors import StoreError
from robocache.store.files import naming


class StoreLock:
    """The lock of a store's folder, held from construction to :meth:`release`.

    Raises:
        StoreError: Another writer holds it; the text names its process and host.
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
            with naming(self._path):
                os.ftruncate(self._file, 0)
                holder = f"process {os.getpid()} on {socket.gethostname()}\n"
                os.pwrite(self._file, holder.encode(), 0)
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> bool:
        """Locks the file; whether it is still the one of that name."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False
        except BlockingIOError:
            holder = os.pread(self._file, 4096, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreError(
                f"{folder}: expected no other writer, got one: {holder or 'a process unknown'}"
            ) from None
        except BaseException:
            os.close(self._file)
            raise

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
            os.ftruncate(file, 0)
        finally:
            # Closing alone would not do: a process forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _open(path: Path) -> tuple[int, bool]:
    """The file, and whether it was made."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, flags, 0o666), False
