"""Columns of bytes that grow in memory and spill to a file above a limit.

    Column  [ extent | extent | bytearray | bytearray ]   a part is in a file, or in memory
                 |        |
    Spool    ....xxxx..xxxxxx....                         an unlinked file: the kernel frees it
                                                          when the process ends

Small parts in memory are joined. Large parts are not copied: a column that is extended by another
column shares them. An error, such as that of a full disk, leaves all columns unchanged.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from robocache.store.files import naming, temporary_path, write_all

Bytes: TypeAlias = bytes | bytearray | memoryview

_JOINED_BYTES = 1 << 20  # smaller parts in memory are joined, parts from this size on are shared
_KEPT_BYTES = 1 << 12  # smaller `Kept` bytes are copied: a part for each would cost more


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a column in a spool's file."""

    spool: Spool
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that the caller will not change: columns may share them instead of copying."""

    bytes: Bytes


@dataclass(slots=True)
class Memory:
    """A memory limit that several spools share, and their current use, in bytes."""

    limit: int
    held: int = 0


class Spool:
    """A file for the parts of columns that exceed a memory limit.

    Args:
        folder: Folder of the file, which is created at the first spill.
        memory: The limit, for the columns of this spool and of the other spools that share it.
    """

    def __init__(self, folder: Path, memory: Memory) -> None:
        self._folder = folder
        self._memory = memory
        self._file = -1
        self._end = 0
        self._columns: list[Column] = []
        self._held = 0  # bytes of `memory` that this spool's columns use

    @property
    def is_on_disk(self) -> bool:
        """Whether the spool has a file."""
        return self._file >= 0

    def column(self) -> Column:
        """Creates an empty column of this spool."""
        self._columns.append(Column())
        return self._columns[-1]

    def add(self, pairs: Sequence[tuple[Column, Bytes | Kept | Column]]) -> None:
        """Appends to each column bytes or the contents of another column; all pairs, or none.

        Bytes are copied, except `Kept` bytes from 4 KiB on. Extents of another column stay in its
        spool's file: keep that spool open. Parts of another column in memory are shared from 1 MiB
        on, and copied below.

        Raises:
            OSError: The write failed, for example because the disk is full.
        """
        parts: list[tuple[Column, Bytes | Extent, bool]] = []  # the flag: share, do not copy
        held = 0  # additional memory: parts shared with another column are counted there
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
        if memory.held - self._held + held > memory.limit:  # even if all columns here were spilled
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
        """Counts the memory of parts shared with `other`, which must not be used again, as its.

        Closes `other` unless it has a file, whose extents columns here may share.
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
        """Closes the file and frees its disk space; the columns of this spool become invalid."""
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
        bytes: Number of bytes.
        parts: The parts, in memory or in a file. No addition is split between two.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.parts: list[Extent | Bytes] = []
        self._growing: bytearray | None = None  # the last part, while no other column shares it

    def add(self, part: Bytes | Extent, stays: bool) -> None:
        """Appends a part; for the column's spool only. `stays`: share the part, do not copy it."""
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
        """Returns all parts; later additions go to new parts and leave these unchanged."""
        self._growing = None
        return list(self.parts)

    def spill(self, write: Callable[[Bytes], Extent]) -> None:
        """Moves all parts in memory to a file by `write`; for the column's spool only."""
        self._growing = None
        for i, part in enumerate(self.parts):
            if not isinstance(part, Extent):
                self.parts[i] = write(part)

    def chunks(self, size: int) -> Iterator[memoryview]:
        """All bytes in chunks of at most `size`, each from one part."""
        for part in self.sealed():
            if isinstance(part, Extent):
                for start in range(0, part.size, size):
                    n = min(size, part.size - start)
                    yield memoryview(part.spool.read(part.offset + start, n))
            else:
                view = memoryview(part)
                for start in range(0, len(view), size):
                    yield view[start : start + size]


class RandomReader:
    """Reads ranges of the bytes of a column."""

    def __init__(self, column: Column) -> None:
        self._parts = column.sealed()
        sizes = (part.size if isinstance(part, Extent) else len(part) for part in self._parts)
        self._ends = list(accumulate(sizes))

    def read(self, begin: int, end: int) -> bytes:
        """The bytes from `begin` up to `end`."""
        pieces = []
        number = bisect_right(self._ends, begin)
        while begin < end:
            part = self._parts[number]
            size = part.size if isinstance(part, Extent) else len(part)
            first = self._ends[number] - size
            a, b = begin - first, min(end, self._ends[number]) - first
            if isinstance(part, Extent):
                pieces.append(part.spool.read(part.offset + a, b - a))
            else:
                pieces.append(bytes(memoryview(part)[a:b]))
            begin = first + b
            number += 1
        return b"".join(pieces)


class Reader:
    """Reads the bytes of a column from the first to the last."""

    def __init__(self, column: Column) -> None:
        self._chunks = column.chunks(1 << 16)
        self._left = b""

    def take(self, n: int) -> bytes:
        """The next `n` bytes."""
        parts, size = [self._left], len(self._left)
        while size < n:
            parts.append(bytes(next(self._chunks)))
            size += len(parts[-1])
        joined = parts[0] if len(parts) == 1 else b"".join(parts)
        taken, self._left = joined[:n], joined[n:]
        return taken
