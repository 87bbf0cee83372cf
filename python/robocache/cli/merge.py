"""`robocache merge`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robocache.cli.console import counted, out, print_json, say, streams_of_rows
from robocache.store.episode_store import EpisodeStore
from robocache.store.merge import merge_stores


def run(sources: Sequence[Path], destination: Path, as_json: bool) -> None:
    """Merges stores, and prints the new store's episodes and rows."""
    if len(sources) < 2:
        raise ValueError(f"STORE...: expected two stores or more, got {len(sources)}")
    merge_stores(sources, destination)
    store = EpisodeStore(destination)
    if as_json:
        print_json(
            {"path": str(destination), "episodes": len(store), "streams": list(store.streams)}
        )
        return
    say(
        out(),
        f"{destination}: {counted(len(store), 'episode')} of {len(sources)} stores, "
        f"{streams_of_rows({name: info.rows for name, info in store.streams.items()})}",
    )
