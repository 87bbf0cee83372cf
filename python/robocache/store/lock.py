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
        self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 4096, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreError(
                f"{folder}: expected no other writer, got one: {holder or 'a process unknown'}"
            ) from None
        except BaseException:
            os.close(self._file)
            raise
        try:
            with naming(folder / ".lock"):
                os.ftruncate(self._file, 0)
                holder = f"process {os.getpid()} on {socket.gethostname()}\n"
                os.pwrite(self._file, holder.encode(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Gives the lock back. The file stays: removing it would let two writers lock two files."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        try:
            os.ftruncate(file, 0)
        finally:
            # Closing alone would not do: a process forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
