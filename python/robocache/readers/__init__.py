"""Readers of recordings: each knows one format, by its content.

:func:`open_recording` finds the reader of a file or folder. A format's library is imported when a
recording of it is opened.
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

# The first that recognizes a path reads it.
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
        RecordingError: If there is no such file, or it may not be read.
    """
    path = Path(path)
    with reading(path, "a recording"):
        path.stat()
        for reader in READERS:
            if reader.recognizes(path):
                return reader
    return None


def open_recording(path: str | os.PathLike[str], options: ReadOptions | None = None) -> Recording:
    """Opens a recording of any format that a reader knows.

    Args:
        path: A file or folder.
        options: None: the defaults.

    Raises:
        RecordingError: If no reader recognizes it, its reader cannot read it, or the options ask
            for what is not in it.
        MissingLibrary: If its reader's library is not installed.
    """
    path = Path(path)
    with reading(path, "a recording"):
        if path.is_file():  # a table of text has a place for anything
            refuse_pointer(path, "a recording")
    reader = find_reader(path)
    if reader is None:
        meant = _meant_for(path) or READERS
        known = "; ".join(f"{r.format} ({r.expects})" for r in meant)
        raise RecordingError(f"{path}: expected a recording: {known}; got {describe(path)}")
    return reader.open(path, options or ReadOptions())


def _meant_for(path: Path) -> tuple[Reader, ...]:
    """The readers whose recordings are named like a file."""
    return tuple(reader for reader in READERS if path.suffix.lower() in reader.suffixes)


def find_recordings(path: str | os.PathLike[str]) -> list[Path]:
    """The recordings at or below a path, sorted by name; none inside a folder that is one.

    Hidden files and folders, and links to folders, are not looked at. A file or folder below `path`
    that may not be read counts as a recording, and so does a file that is named as one, though no
    reader recognizes it (empty, say, since the recorder crashed): opening it says what is wrong.

    Raises:
        RecordingError: If there is no such path, or it may not be read.
    """
    path = Path(path)
    if find_reader(path) is not None:
        return [path]
    if not path.is_dir():
        return [path] if _meant_for(path) else []
    found: list[Path] = []
    with reading(path, "a folder of recordings"):
        entries = sorted(path.iterdir())
    for entry in entries:
        if entry.name.startswith(".") or (entry.is_dir() and entry.is_symlink()):
            continue
        try:
            found += find_recordings(entry)
        except RecordingError:
            found.append(entry)
    return found
