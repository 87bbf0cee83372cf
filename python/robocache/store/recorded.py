"""What recordings were like when they were converted, so that a later conversion sees changes.

A shard keeps it in the metadata of its header, which only this looks at: the state of one recording
after the other, and how many of the shard's episodes are from it.
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

KEY = "recordings"


class RecordingState(NamedTuple):
    """Of a file, or of all files in a folder."""

    bytes: int
    """Their size."""
    changed_ns: int
    """When the newest of them was last written to."""

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.changed_ns / 1e9).isoformat(" ", "milliseconds")
        return f"{self.bytes:,} bytes of {when}"


def state_of(path: str | os.PathLike[str]) -> RecordingState:
    """The state of a recording as it is.

    Raises:
        OSError: It is gone, or may not be looked at.
    """
    files = [os.stat(path)]  # noqa: PTH116 (half the time of Path.stat, of a million files)
    if stat.S_ISDIR(files[0].st_mode):
        files.clear()
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(FileNotFoundError):  # a link that leads nowhere
                    files.append(os.stat(f"{folder}/{name}"))  # noqa: PTH116
    newest = max((file.st_mtime_ns for file in files), default=0)
    return RecordingState(sum(file.st_size for file in files), newest)


def to_text(states: Iterable[RecordingState | None]) -> str:
    """The states of each episode's recording as a header has them; None where there is none."""
    runs = [(len(list(run)), state) for state, run in groupby(states)]
    return json.dumps([[count, *(state or ())] for count, state in runs], separators=(",", ":"))


def read_states(folder: Path) -> list[RecordingState | None]:
    """The states of the recordings of all episodes of a store.

    Raises:
        StoreError: It is no store, or damaged.
    """
    states: list[RecordingState | None] = []
    for shard in read_manifest(folder).shards:
        with (folder / shard.file).open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        states += from_text(header.get("__metadata__", {}).get(KEY, ""), shard.episodes)
    return states


def from_text(text: str, episodes: int) -> list[RecordingState | None]:
    """The states that :func:`to_text` wrote; as many None of any other text."""
    states: list[RecordingState | None] = []
    with suppress(ValueError, TypeError):  # somebody else's
        for count, *state in json.loads(text):
            one = RecordingState(*map(int, state)) if state else None
            states += [one] * min(count, episodes + 1)  # whatever a foreign header says
    return states if len(states) == episodes else [None] * episodes
