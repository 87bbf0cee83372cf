"""Rows that were marked as not valid after they were stored: a note in the headers of shards.

The note is in the metadata of a shard's header, beside `recordings`. It stays with the shard when
stores are merged or appended to, and readers of any version leave it alone.
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
    """When, in UTC: ``2026-11-23T14:30:00Z``."""
    stream: str
    reason: str
    """The kind of the doctor's finding, or ``by hand``."""
    rows: int
    episodes: int
    """How many episodes they are in."""

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
        episodes = f"{self.episodes:,} episode{'s' * (self.episodes != 1)}"
        return (
            f"{self.time[:10]}: {rows} of {self.stream} in {episodes} marked as not valid "
            f"({self.reason})"
        )


def with_markings(metadata: Mapping[str, str], markings: Iterable[Marking]) -> dict[str, str]:
    """The metadata of a shard's header with further markings."""
    listed = [list(marking) for marking in (*_from_text(metadata.get(KEY, "")), *markings)]
    text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return {**metadata, KEY: text}


def read_markings(folder: Path) -> list[Marking]:
    """All markings of a store, the oldest first.

    Raises:
        StoreError: It is no store, or damaged.
    """
    found: dict[tuple[str, str, str], Marking] = {}
    for shard in read_manifest(folder).shards:
        for marking in _from_text(read_metadata(folder / shard.file).get(KEY, "")):
            known = found.get(marking[:3])
            if known is not None:
                rows, episodes = known.rows + marking.rows, known.episodes + marking.episodes
                marking = marking._replace(rows=rows, episodes=episodes)
            found[marking[:3]] = marking
    return sorted(found.values())


def _from_text(text: Any) -> list[Marking]:
    """The markings that a header has; none of another program's text."""
    with suppress(ValueError, TypeError):
        return [
            Marking(str(time), str(stream), str(reason), int(rows), int(episodes))
            for time, stream, reason, rows, episodes in json.loads(text)
        ]
    return []
