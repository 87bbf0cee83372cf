"""Columns of bytes that grow in memory, and on disk above a limit.

    Column  [ extent | extent | bytearray ]      a part is in a file, or in memory
                 |        |
    Spool    ....xxxx..xxxxxx....                one file without a name: it goes with its process

Whatever fails here (a full disk) fails before anything was changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from robocache.store.files import naming, temporary_path, write_all

Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a column that lies in a spool's file."""

    spool: Spool
    offset: int
    size: int


class Spool:
    """Where columns keep what does not fit the memory that they are allowed together.

    Args:
        folder: Where the file goes, once there has to be one.
        limit: Bytes that the columns of this spool hold in memory at most.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._file = -1
        self._end = 0
        self._columns: list[Column] = []
        self._held = 0

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a file."""
        return self._file >= 0

    def column(self) -> Column:
        """A new one, empty."""
        self._columns.append(Column())
        return self._columns[-1]

    def add(self, pairs: Sequence[tuple[Column, Bytes | Column]]) -> None:
        """Adds to each column bytes, or what another column holds: to all of them, or to none.

        Bytes are copied. What lies in the file of another column's spool stays there: keep that
        spool open.

        Raises:
            OSError: The disk is full, or the like.
        """
        parts: list[tuple[Column, Bytes | Extent]] = []
        for column, source in pairs:
            for part in source.parts if isinstance(source, Column) else [source]:
                parts.append((column, part))
        held = sum(len(part) for _, part in parts if not isinstance(part, Extent))
        if held > self._limit:  # too much to copy into memory first
            parts = [(c, p if isinstance(p, Extent) else self._write(p)) for c, p in parts]
            held = 0
        elif self._held + held > self._limit:
            for column in self._columns:
                column.spill(self._write)
            self._held = 0
        for column, part in parts:
            column.add(part)
        self._held += held

    def close(self) -> None:
        """Frees the file. Columns of this spool are of no use then."""
        self._columns.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read(self, offset: int, size: int) -> bytes:
        """What an extent stands for."""
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
        parts: Where they are.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.parts: list[Extent | bytearray] = []

    def add(self, part: Bytes | Extent) -> None:
        """Only for the spool of this column."""
        if isinstance(part, Extent):
            self.parts.append(part)
            self.bytes += part.size
            return
        if self.parts and isinstance(self.parts[-1], bytearray):
            self.parts[-1] += part
        else:
            self.parts.append(bytearray(part))
        self.bytes += len(part)

    def spill(self, write: Callable[[Bytes], Extent]) -> None:
        """Everything goes to a file. Only for the spool of this column."""
        for i, part in enumerate(self.parts):
            if isinstance(part, bytearray):
                self.parts[i] = write(part)

    def chunks(self, size: int) -> Iterator[bytes]:
        """All bytes in pieces of `size`, the last one shorter."""
        pending = bytearray()
        for part in self.parts:
            total = len(part) if isinstance(part, bytearray) else part.size
            start = 0
            while start < total:
                take = min(size - len(pending), total - start)
                if isinstance(part, bytearray):
                    piece = bytes(memoryview(part)[start : start + take])
                else:
                    piece = part.spool.read(part.offset + start, take)
                start += take
                if take == size:
                    yield piece
                    continue
                pending += piece
                if len(pending) == size:
                    yield bytes(pending)
                    pending.clear()
        if pending:
            yield bytes(pending)
