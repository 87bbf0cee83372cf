"""Columns of bytes that grow in memory, and on disk above a limit.

    Column  [ extent | extent | bytearray | bytearray ]   a part is in a file, or in memory
                 |        |
    Spool    ....xxxx..xxxxxx....                         one file without a name: it goes with
                                                          its process

Small parts in memory are joined. Large ones are never copied again: a column that takes over what
another one holds shares them. Whatever fails here (a full disk) fails before anything was changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from robocache.store.files import naming, temporary_path, write_all

Bytes: TypeAlias = bytes | bytearray | memoryview

_JOINED_BYTES = 1 << 20  # in memory; parts are joined up to this, and shared from there on
_KEPT_BYTES = 1 << 12  # from which on what is `Kept` is worth a part of its own


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a column that lies in a spool's file."""

    spool: Spool
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that nobody changes any more, so that they need not be copied."""

    bytes: Bytes


@dataclass(slots=True)
class Memory:
    """The memory that several spools may use together, and its current use, in bytes."""

    limit: int
    held: int = 0


class Spool:
    """Where columns keep what does not fit the memory that they are allowed together.

    Args:
        folder: Where the file goes, once there has to be one.
        memory: Of the columns of this spool, and of those of other spools that share it.
    """

    def __init__(self, folder: Path, memory: Memory) -> None:
        self._folder = folder
        self._memory = memory
        self._file = -1
        self._end = 0
        self._columns: list[Column] = []
        self._held = 0  # of the memory

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a file."""
        return self._file >= 0

    def column(self) -> Column:
        """A new one, empty."""
        self._columns.append(Column())
        return self._columns[-1]

    def add(self, pairs: Sequence[tuple[Column, Bytes | Kept | Column]]) -> None:
        """Adds to each column bytes, or what another column holds: to all of them, or to none.

        Bytes are copied, but for those that are `Kept` and not a few. What lies in the file of
        another column's spool stays there: keep that spool open. Large parts of another column in
        memory are shared with it, and smaller ones joined.

        Raises:
            OSError: The disk is full, or the like.
        """
        parts: list[tuple[Column, Bytes | Extent, bool]] = []  # whether it stays as it is
        held = 0  # more than before: what another column has in memory is held already
        for column, source in pairs:
            if isinstance(source, Column):
                for part in source.sealed():
                    stays = isinstance(part, Extent) or len(part) >= _JOINED_BYTES
                    parts.append((column, part, stays))
                    held += 0 if isinstance(part, Extent) or stays else len(part)
            else:
                is_kept = isinstance(source, Kept)
                data = source.bytes if isinstance(source, Kept) else source
                parts.append((column, data, is_kept and len(data) >= _KEPT_BYTES))
                held += len(data)
        memory = self._memory
        if memory.held - self._held + held > memory.limit:  # also if all of this went to the file
            parts = [(c, p if isinstance(p, Extent) else self._write(p), True) for c, p, _ in parts]
            held = 0
        elif memory.held + held > memory.limit:
            for column in self._columns:
                column.spill(self._write)
            self._hold(-self._held)
        for column, part, stays in parts:
            column.add(part, stays)
        self._hold(held)

    def take_over(self, other: Spool) -> None:
        """Answers for what columns here share with those of another one, which is not used again.

        It stays open where there is a file, and is closed otherwise.
        """
        shared = sum(
            len(part)
            for column in other._columns
            for part in column.sealed()
            if not isinstance(part, Extent) and len(part) >= _JOINED_BYTES
        )
        other._hold(-other._held)
        self._hold(shared)
        if not other.is_on_disk:
            other.close()

    def _hold(self, more: int) -> None:
        self._held += more
        self._memory.held += more

    def close(self) -> None:
        """Frees the file. Columns of this spool are of no use then."""
        self._columns.clear()
        self._hold(-self._held)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of an extent."""
        with naming(self._folder):
            data = os.pread(self._file, size, offset)
        if len(data) != size:
            raise OSError(f"{self._folder}: expected {size} bytes of a spool, got {len(data)}")
        return data

    def _write(self, data: Bytes) -> Extent:
        if self._file < 0:
            path = temporary_path(self._folder)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            path.unlink()
        with naming(self._folder):
            os.lseek(self._file, self._end, os.SEEK_SET)
            write_all(self._file, data)
        extent = Extent(self, self._end, len(data))
        self._end += len(data)
        return extent


class Column:
    """Bytes in the order in which a :class:`Spool` added them.

    Attributes:
        bytes: How many.
        parts: Where they are. Each has whole additions.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.parts: list[Extent | Bytes] = []
        self._growing: bytearray | None = None  # the last part, as long as nobody else has it

    def add(self, part: Bytes | Extent, stays: bool) -> None:
        """Only for the spool of this column. What `stays` is not copied: nobody changes it."""
        if isinstance(part, Extent):
            self.bytes += part.size
            self.parts.append(part)
            self._growing = None
            return
        self.bytes += len(part)
        if stays:
            self.parts.append(part)
            self._growing = None
        elif self._growing is not None and len(self._growing) + len(part) <= _JOINED_BYTES:
            self._growing += part
        else:
            self._growing = bytearray(part)
            self.parts.append(self._growing)

    def sealed(self) -> list[Extent | Bytes]:
        """All parts, which stay as they are from here on."""
        self._growing = None
        return list(self.parts)

    def spill(self, write: Callable[[Bytes], Extent]) -> None:
        """Everything goes to a file. Only for the spool of this column."""
        self._growing = None
        for i, part in enumerate(self.parts):
            if not isinstance(part, Extent):
                self.parts[i] = write(part)

    def chunks(self, size: int) -> Iterator[memoryview]:
        """All bytes in pieces of at most `size`, each from one part."""
        for part in self.sealed():
            if isinstance(part, Extent):
                for start in range(0, part.size, size):
                    n = min(size, part.size - start)
                    yield memoryview(part.spool.read(part.offset + start, n))
            else:
                view = memoryview(part)
                for start in range(0, len(view), size):
                    yield view[start : start + size]


class Reader:
    """Reads the bytes of a column from the first to the last."""

    def __init__(self, column: Column) -> None:
        self._chunks = column.chunks(1 << 16)
        self._left = b""

    def take(self, n: int) -> bytes:
        """The next `n` bytes."""
        while len(self._left) < n:
            self._left += next(self._chunks)
        taken, self._left = self._left[:n], self._left[n:]
        return taken
