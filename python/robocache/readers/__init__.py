"""Readers of recordings: one for each format, which it recognizes by content.

:func:`open_recording` selects the reader of a file or folder. The library of a format is imported
when a recording of that format is opened.
"""

from __future__ import annotations

import os
from pathlib import Path

from robocache.core.extras import MissingLibrary
from robocache.readers import calvin, diffusion_policy, hdf5, ulog
from robocache.readers.errors import RecordingError, describe, reading, refuse_pointer
from robocache.readers.lerobot import reader as lerobot
from robocache.readers.options import ReadOptions
from robocache.readers.recording import EpisodeReader, Reader, Recording, StreamMetadata
from robocache.readers.rlds import reader as rlds
from robocache.readers.ros import reader as ros
from robocache.readers.rows import Rows
from robocache.readers.tables import csv_table, npz, parquet_table

__all__ = [
    "READERS",
    "EpisodeReader",
    "MissingLibrary",
    "ReadOptions",
    "Reader",
    "Recording",
    "RecordingError",
    "Rows",
    "StreamMetadata",
    "find_reader",
    "find_recordings",
    "open_recording",
]

# In order of precedence: the first reader that recognizes a path reads it.
READERS: tuple[Reader, ...] = (
    lerobot.READER,
    calvin.READER,
    diffusion_policy.READER,
    hdf5.READER,
    npz.READER,
    rlds.READER,
    ros.ROS1_READER,
    ros.ROS2_READER,
    ros.MCAP_READER,
    ulog.READER,
    parquet_table.READER,
    csv_table.READER,
)


def find_reader(path: str | os.PathLike[str]) -> Reader | None:
    """The reader that recognizes a file or folder; None if none does.

    Raises:
        RecordingError: If the file does not exist, or the process may not read it.
    """
    path = Path(path)
    with reading(path, "a recording"):
        path.stat()
        for reader in READERS:
            if reader.recognizes(path):
                return reader
    return None


def open_recording(path: str | os.PathLike[str], options: ReadOptions | None = None) -> Recording:
    """Opens a recording of any supported format.

    Args:
        path: A file or folder.
        options: None: the defaults.

    Raises:
        RecordingError: If no reader recognizes it, its reader cannot read it, or the options name
            streams or columns that it does not have.
        MissingLibrary: If its reader's library is not installed.
    """
    path = Path(path)
    with reading(path, "a recording"):
        if path.is_file():  # the CSV reader would accept a pointer as a table of text
            refuse_pointer(path, "a recording")
    reader = find_reader(path)
    if reader is None:
        candidates = _readers_by_suffix(path) or READERS
        known = "; ".join(f"{r.format} ({r.expects})" for r in candidates)
        raise RecordingError(f"{path}: expected a recording: {known}; got {describe(path)}")
    return reader.open(path, options or ReadOptions())


def _readers_by_suffix(path: Path) -> tuple[Reader, ...]:
    """The readers whose formats use the suffix of a path."""
    return tuple(reader for reader in READERS if path.suffix.lower() in reader.suffixes)


def find_recordings(path: str | os.PathLike[str]) -> list[Path]:
    """The recordings at or below a path, sorted by name; a recording folder is not searched.

    The search skips hidden files and folders, and links to folders. It returns a file or folder
    below `path` that the process may not read, and a file whose suffix is that of a format though
    no reader recognizes it (such as an empty file, left by a recorder that crashed): opening it
    reports the problem.

    Raises:
        RecordingError: If the path does not exist, or the process may not read it.
    """
    path = Path(path)
    if find_reader(path) is not None:
        return [path]
    if not path.is_dir():
        return [path] if _readers_by_suffix(path) else []
    recordings: list[Path] = []
    with reading(path, "a folder of recordings"):
        entries = sorted(path.iterdir())
    for entry in entries:
        if entry.name.startswith(".") or (entry.is_dir() and entry.is_symlink()):
            continue
        try:
            recordings += find_recordings(entry)
        except RecordingError:
            recordings.append(entry)
    return recordings
