"""The recordings of a conversion's sources: files, folders, and takes of several files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from robocache.core.paths import absolute_path, check_path
from robocache.readers import RecordingError, find_reader, find_recordings
from robocache.readers.merged_recording import merged_name
from robocache.store.manifest import is_store

PathLike = str | os.PathLike[str]
Found = tuple[str, tuple[str, ...]]
"""A path and (), or the name of a take and the paths of its recordings."""


def check_sources(sources: object) -> list[PathLike]:
    """The sources of a conversion as a list.

    Raises:
        TypeError: `sources: expected ..., got ...`.
    """
    if isinstance(sources, (str, os.PathLike)):
        return [sources]
    if not isinstance(sources, Iterable) or isinstance(sources, bytes):
        raise TypeError(
            f"sources: expected a file or folder, or a list of them, got {type(sources).__name__}"
        )
    given = list(sources)
    for i, source in enumerate(given):
        check_path(f"sources[{i}]", source, "a file or folder")
    return given


def find_each(sources: Sequence[PathLike]) -> list[str]:
    """Finds the recordings of the sources, each once, in order."""
    found: dict[str, str] = {}
    others: list[PathLike] = []
    for source in sources:
        if is_store(source):
            raise RecordingError(
                f"{source}: expected recordings, got an episode store (`robocache merge` puts "
                "stores together)"
            )
        paths = find_recordings(source)
        if not paths:
            others.append(source)
        for path in paths:
            # Absolute: a relative path means another recording in another working directory.
            found.setdefault(os.path.realpath(path), absolute_path(path))
    if not found:
        listed = ", ".join(str(source) for source in sources) or "no source"
        raise RecordingError(f"{listed}: expected a recording of a known format, got none")
    # A source without recordings stays in the list, so that the report says it was skipped.
    return [*found.values(), *map(absolute_path, others)]


def find_takes(sources: Sequence[PathLike]) -> list[Found]:
    """Groups the sources into takes: all files together, and the recordings of each folder.

    Raises:
        RecordingError: The sources have no recording, or a folder has recordings in subfolders.
    """
    files: list[PathLike] = []
    takes: list[Found] = []
    for source in sources:
        if not Path(source).is_dir() or is_store(source) or find_reader(source) is not None:
            files.append(source)
            continue
        parts = find_each([source])
        folders = {str(Path(part).parent) for part in parts}
        if len(folders) > 1:
            raise RecordingError(
                f"{source}: expected a folder with the recordings of one take, got recordings in "
                f"{len(folders):,} folders, such as {min(folders)} (name these folders)"
            )
        takes.append(_take(absolute_path(source), parts))
    if files or not takes:
        parts = find_each(files)
        takes.insert(0, _take(merged_name(parts), parts))
    return takes


def _take(name: str, parts: Sequence[str]) -> Found:
    return (name, tuple(parts)) if len(parts) > 1 else (parts[0], ())
