"""The log of rows that were marked as not valid after they were stored.

The log is in the metadata of each shard's header, beside `recordings`. It stays with the shard when
stores are merged or appended to; readers of all versions ignore it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from robocache.store.manifest import read_manifest
from robocache.store.shard_header import read_metadata

KEY = "marked"


class Marking(NamedTuple):
    """Rows of a stream that were marked together."""

    time: str
    """Time of the marking in UTC: ``2026-11-23T14:30:00Z``."""
    stream: str
    reason: str
    """The kind of the doctor's finding, or ``by hand``."""
    rows: int
    episodes: int
    """Number of episodes with such rows."""

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
        episodes = f"{self.episodes:,} episode{'s' * (self.episodes != 1)}"
        return (
            f"{self.time[:10]}: {rows} of {self.stream} in {episodes} marked as not valid "
            f"({self.reason})"
        )


def with_markings(metadata: Mapping[str, str], markings: Iterable[Marking]) -> dict[str, str]:
    """A shard's header metadata with `markings` appended to the log."""
    listed = [list(marking) for marking in (*_from_text(metadata.get(KEY, "")), *markings)]
    text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return {**metadata, KEY: text}


def read_markings(folder: Path) -> list[Marking]:
    """All markings of a store, the oldest first; one marking that spans shards is one item.

    Raises:
        StoreError: The folder is no store, or is damaged.
    """
    markings: dict[tuple[str, str, str], Marking] = {}
    for shard in read_manifest(folder).shards:
        for marking in _from_text(read_metadata(folder / shard.file).get(KEY, "")):
            known = markings.get(marking[:3])
            if known is not None:
                rows, episodes = known.rows + marking.rows, known.episodes + marking.episodes
                marking = marking._replace(rows=rows, episodes=episodes)
            markings[marking[:3]] = marking
    return sorted(markings.values())


def _from_text(text: Any) -> list[Marking]:
    """Parses the log in a header; another program's text counts as an empty log."""
    with suppress(ValueError, TypeError):
        return [
            Marking(str(time), str(stream), str(reason), int(rows), int(episodes))
            for time, stream, reason, rows, episodes in json.loads(text)
        ]
    return []
