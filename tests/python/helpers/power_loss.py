"""Possible states of a disk after a power loss, from a record of the calls that wrote to it.

    calls   mkdir  open  write  fsync  rename  fsync(folder) ...     recorded by `Recorder`
              |-------------------|                                  a prefix: the power fails here
    disk    contents as of a file's last fsync, names as of a folder's last fsync, and of what came
            since: nothing, everything, or any of it                 `states` makes each of them

Contents that were not synced are lost or there. Names that were not synced are there in any
combination: a file system may write them in another order than they were made in.
"""

# ruff: noqa: PTH112, PTH118, PTH119, PTH120 - functions of os are what is recorded
from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FEW = 5  # names not yet synced, of which all combinations are tried; of more: none, all, each one


@dataclass
class File:
    """A file on the disk: what was written, and what was synced of it."""

    written: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass
class Folder:
    """A folder on the disk: its names as of the last sync, and the changes since then."""

    synced: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[tuple[str | None, str | None, File | Folder | None]] = field(default_factory=list)
    """The name that goes, the name that comes, and what has it."""

    def names(self, chosen: tuple[int, ...] | None = None) -> dict[str, File | Folder]:
        """The names after some of the changes; after all of them by default."""
        names = dict(self.synced)
        for i, (gone, new, what) in enumerate(self.changes):
            if chosen is None or i in chosen:
                if gone is not None:
                    names.pop(gone, None)
                if new is not None and what is not None:
                    names[new] = what
        return names


class Recorder:
    """Records what this process does to files below a folder, while it is a context.

    Attributes:
        calls: Functions that do each call again to a :class:`Folder`, and marks of the caller.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self.calls: list[tuple[str, Callable[[Folder], None]]] = []
        self._open: dict[int, str] = {}  # the name under which a descriptor's file was opened
        self._files: dict[int, int] = {}  # and a number of the file, which outlives its names
        self._number_of: dict[tuple[int, int], int] = {}  # by device and inode
        self._numbers = itertools.count()
        self._real: dict[str, Any] = {}

    def __enter__(self) -> Recorder:
        for name in ("open", "write", "pwrite", "fsync", "rename", "replace", "unlink", "mkdir",
                     "rmdir", "link", "close", "ftruncate"):  # fmt: skip
            self._real[name] = getattr(os, name)
            self._put(name, getattr(self, f"_{name}_", None) or self._refuse(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._real.items():
            self._put(name, function)

    def _put(self, name: str, function: Any) -> None:
        setattr(os, name, function)
        accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10
        if accessor is not None and hasattr(accessor, name):
            setattr(accessor, name, staticmethod(function))

    def _refuse(self, name: str) -> Any:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            assert not self._is_ours(target), f"os.{name} of a file below the root"
            return self._real[name](target, *arguments, **options)

        return call

    def mark(self, text: str) -> None:
        """Notes that the caller has come so far."""
        self.calls.append((f"mark {text}", lambda disk: None))

    # ---- calls -----------------------------------------------------------------------------------

    def _is_ours(self, target: Any) -> bool:
        if isinstance(target, int):
            return target in self._open
        return (os.path.realpath(os.path.dirname(os.fspath(target))) + "/").startswith(
            self._root + "/"
        )

    def _parts(self, path: Any) -> tuple[str, ...]:
        """The names from the root to a path; its last name is not followed, unless it is `..`."""
        text = os.fspath(path)
        if os.path.basename(text) in ("..", "."):
            text = os.path.realpath(text)
        text = os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))
        relative = os.path.relpath(text, self._root)
        return () if relative == "." else tuple(relative.split("/"))

    def _note(self, name: str, call: Callable[[Folder], None]) -> None:
        self.calls.append((name, call))

    def _change(self, name: str, gone: Any, new: Any, number: int | None) -> None:
        """A change of one folder's names."""
        old = None if gone is None else self._parts(gone)
        to = None if new is None else self._parts(new)
        where = (to or old or ())[:-1]
        assert old is None or old[:-1] == where, "a file stays in its folder"

        def call(disk: Folder) -> None:
            folder = find_folder(disk, where)
            what: File | Folder | None = None
            if to is not None:
                what = folder.names().get(old[-1]) if old else None
                if what is None:
                    what = Folder() if number is None else file_of(disk, number)
            change = (old[-1] if old else None, to[-1] if to else None, what)
            folder.changes.append(change)

        self._note(name, call)

    def _open_(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        is_new = self._is_ours(path) and flags & os.O_CREAT and not os.path.lexists(path)
        file: int = self._real["open"](path, flags, mode, **options)
        if self._is_ours(path):
            found = os.fstat(file)
            key = (found.st_dev, found.st_ino)
            if is_new or key not in self._number_of:
                self._number_of[key] = next(self._numbers)
            self._open[file] = os.fspath(path)
            self._files[file] = self._number_of[key]
            if is_new:
                self._change(f"create {os.path.basename(path)}", None, path, self._files[file])
        return file

    def _close_(self, file: int) -> None:
        self._open.pop(file, None)
        self._real["close"](file)

    def _write_(self, file: int, data: Any) -> int:
        if file not in self._open:
            return self._real["write"](file, data)
        return self._written(
            file, os.lseek(file, 0, os.SEEK_CUR), data, self._real["write"](file, data)
        )

    def _pwrite_(self, file: int, data: Any, offset: int) -> int:
        if file not in self._open:
            return self._real["pwrite"](file, data, offset)
        return self._written(file, offset, data, self._real["pwrite"](file, data, offset))

    def _written(self, file: int, offset: int, data: Any, count: int) -> int:
        number, copy = self._files[file], bytes(data[:count])

        def call(disk: Folder) -> None:
            written = file_of(disk, number).written
            written.extend(bytes(max(0, offset + count - len(written))))
            written[offset : offset + count] = copy

        self._note(f"write {os.path.basename(self._open[file])}", call)
        return count

    def _fsync_(self, file: int) -> None:
        self._real["fsync"](file)
        if file not in self._open:
            return
        if os.path.isdir(self._open[file]):
            parts = self._parts(self._open[file])

            def sync_folder(disk: Folder) -> None:
                folder = find_folder(disk, parts)
                folder.synced, folder.changes = folder.names(), []

            self._note(f"fsync folder {'/'.join(parts)}", sync_folder)
            return
        number = self._files[file]

        def sync_file(disk: Folder) -> None:
            found = file_of(disk, number)
            found.synced = bytes(found.written)

        self._note(f"fsync {os.path.basename(self._open[file])}", sync_file)

    def _rename_(self, source: Any, target: Any, **options: Any) -> None:
        self._real["rename"](source, target, **options)
        if self._is_ours(source):
            self._change(f"rename to {os.path.basename(target)}", source, target, None)

    _replace_ = _rename_

    def _unlink_(self, path: Any, **options: Any) -> None:
        self._real["unlink"](path, **options)
        if self._is_ours(path):
            self._change(f"unlink {os.path.basename(path)}", path, None, None)

    def _mkdir_(self, path: Any, *arguments: Any, **options: Any) -> None:
        self._real["mkdir"](path, *arguments, **options)
        if self._is_ours(path):
            self._change(f"mkdir {os.path.basename(path)}", None, path, None)

    def _rmdir_(self, path: Any, **options: Any) -> None:
        self._real["rmdir"](path, **options)
        if self._is_ours(path):
            self._change(f"rmdir {os.path.basename(path)}", path, None, None)

    def _link_(self, source: Any, target: Any, **options: Any) -> None:
        self._real["link"](source, target, **options)
        if not self._is_ours(target):
            return
        where, to = self._parts(source), self._parts(target)

        def call(disk: Folder) -> None:
            what = find_folder(disk, where[:-1]).names()[where[-1]]
            find_folder(disk, to[:-1]).changes.append((None, to[-1], what))

        self._note(f"link {os.path.basename(target)}", call)


def find_folder(disk: Folder, parts: tuple[str, ...]) -> Folder:
    """The folder of these names, as programs see it."""
    for part in parts:
        found = disk.names()[part]
        assert isinstance(found, Folder)
        disk = found
    return disk


def file_of(disk: Folder, number: int) -> File:
    """The file that the recorder numbered so; a new one the first time."""
    files: dict[int, File] = disk.__dict__.setdefault("files", {})
    return files.setdefault(number, File())


# ---- states --------------------------------------------------------------------------------------

Tree = dict[str, "bytes | Tree"]


def states(disk: Folder) -> Iterator[Tree]:
    """The possible contents of the disk if the power fails now."""
    for is_written in (False, True):
        yield from _states(disk, is_written)


def _states(folder: Folder, is_written: bool) -> Iterator[Tree]:
    count = len(folder.changes)
    choices: list[tuple[int, ...]]
    if count <= FEW:
        choices = [
            chosen for n in range(count + 1) for chosen in itertools.combinations(range(count), n)
        ]
    else:
        choices = [(), tuple(range(count)), *((i,) for i in range(count))]
    for chosen in choices:
        names = folder.names(chosen)
        folders = {name: what for name, what in names.items() if isinstance(what, Folder)}
        files: Tree = {
            name: bytes(what.written) if is_written else what.synced
            for name, what in names.items()
            if isinstance(what, File)
        }
        for inner in itertools.product(*(_states(what, is_written) for what in folders.values())):
            yield {**files, **dict(zip(folders, inner, strict=True))}


def write_tree(tree: Tree, folder: Path) -> None:
    """Makes files and folders of a state."""
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, dict):
            write_tree(content, folder / name)
        else:
            (folder / name).write_bytes(content)
