"""`robocache replay`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from robocache.cli.console import counted, number, out, print_json, say
from robocache.cli.tables import print_table
from robocache.live.replay import Quantiles, Replay, replay_store
from robocache.store.episode_store import EpisodeStore

HEADER = (
    "stream", "windows", "differing bits", "padded", "age, ms: p50", "p99", "latency, ms: p50",
    "p99", "rows", "overwritten", "given up", "short windows",
)  # fmt: skip


def run(
    path: Path, spec: Path, episodes: int | None, query_every_s: float | None, as_json: bool
) -> bool:
    """Replays a store and prints the report; returns whether no bit differs."""
    store = EpisodeStore(path)
    chosen = None
    if episodes is not None and episodes < len(store):
        chosen = np.linspace(0, len(store) - 1, episodes).round().astype(int).tolist()
    report = replay_store(
        store, spec, episodes=chosen, query_every_s=query_every_s, progress=not as_json
    )
    if as_json:
        print_json({"path": str(path), "spec": str(spec), **report.as_json()})
    else:
        print_replay(path, report)
    return report.differing_bits == 0


def print_replay(path: Path, found: Replay) -> None:
    """Prints a row for each stream, and the totals."""
    console = out()
    rows = [
        [
            name,
            f"{stream.windows:,}",
            f"{stream.differing_bits:,}",
            f"{stream.padded / max(stream.steps, 1):.1%}",
            *_numbers(stream.age_ms),
            *_numbers(stream.latency_ms),
            f"{stream.rows:,}",
            f"{stream.overwritten:,}",
            f"{stream.given_up:,}",
            f"{stream.short_windows:,}",
        ]
        for name, stream in found.streams.items()
    ]
    print_table(console, HEADER, rows, left=(0,), shrink={0: 16})
    bits = counted(found.differing_bits, "differing bit")
    say(
        console,
        f"{path}: {counted(found.episodes, 'episode')}, {counted(found.anchors, 'anchor')}, "
        f"{bits}; a query takes {' / '.join(_numbers(found.query_us))} us (p50 / p99)",
        style="green" if found.differing_bits == 0 else "bold red",
    )

    short = {name: stream.short_windows for name, stream in found.streams.items()}
    lacking = [f"{name} ({count:,})" for name, count in short.items() if count]
    if lacking:
        note = (
            "windows that reach back to rows that were overwritten or dropped: "
            f"{', '.join(lacking)} (on the robot, query more often, or state query_every_s, "
            "ring_rows or buffer_rows)"
        )
        say(console, note, style="bold red")
    late = [
        name
        for name, stream in found.streams.items()
        if not stream.by_arrival and (stream.latency_ms.p99 or 0) > 0
    ]
    if late:  # the replay does not test their late arrival
        note = f"by rows, and so pushed at their times, not when they arrived: {', '.join(late)}"
        say(console, note)


def _numbers(quantiles: Quantiles) -> list[str]:
    return [number(quantiles.p50), number(quantiles.p99)]
