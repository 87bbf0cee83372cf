"""Size and modification time of each recording at conversion, to detect later changes.

The metadata of a shard's header holds them, in the order of its episodes: for each run of episodes
from one recording, the length of the run and the recording's state. Only this module reads them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from robocache.store.manifest import read_manifest
from robocache.store.shard_header import read_metadata

KEY = "recordings"


class RecordingState(NamedTuple):
    """State of a recording: a file, or all files in a folder."""

    bytes: int
    """Total size of the files."""
    changed_ns: int
    """Modification time of the newest file, in nanoseconds since 1970."""

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.changed_ns / 1e9).isoformat(" ", "milliseconds")
        return f"{self.bytes:,} bytes of {when}"


def state_of(path: str | os.PathLike[str]) -> RecordingState:
    """The current state of a recording.

    Raises:
        OSError: The recording is gone or not accessible.
    """
    files = [os.stat(path)]  # noqa: PTH116 (half the time of Path.stat, of a million files)
    if stat.S_ISDIR(files[0].st_mode):
        files.clear()
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(FileNotFoundError):  # a broken link
                    files.append(os.stat(f"{folder}/{name}"))  # noqa: PTH116
    newest = max((file.st_mtime_ns for file in files), default=0)
    return RecordingState(sum(file.st_size for file in files), newest)


def to_text(states: Iterable[RecordingState | None]) -> str:
    """Encodes the state of each episode's recording for a header; None if it is unknown."""
    runs = [(len(list(run)), state) for state, run in groupby(states)]
    return json.dumps([[count, *(state or ())] for count, state in runs], separators=(",", ":"))


def read_states(folder: Path) -> list[RecordingState | None]:
    """The state of each episode's recording at its conversion; None if it is unknown.

    Raises:
        StoreError: The folder is no store, or is damaged.
        OSError: A shard can't be read.
    """
    states: list[RecordingState | None] = []
    for shard in read_manifest(folder).shards:
        states += from_text(read_metadata(folder / shard.file).get(KEY, ""), shard.episodes)
    return states


def from_text(text: str, episodes: int) -> list[RecordingState | None]:
    """Parses the text of :func:`to_text`; any other text gives None for each episode."""
    try:
        runs = json.loads(text)
    except (ValueError, RecursionError):  # another program's text
        return [None] * episodes
    states: list[RecordingState | None] = []
    for run in runs if isinstance(runs, list) else []:
        if not isinstance(run, list) or len(run) not in (1, 3) or not all(map(_is_int64, run)):
            return [None] * episodes
        count, *state = run
        if not 0 < count <= episodes - len(states):
            return [None] * episodes
        states += [RecordingState(*state) if state else None] * count
    return states if len(states) == episodes else [None] * episodes


def _is_int64(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63
