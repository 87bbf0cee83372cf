"""`robocache stats`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robocache.cli.console import number, out, print_json, say
from robocache.cli.tables import print_table
from robocache.store.episode_store import EpisodeStore

NUMBERS = ("mean", "std", "min", "max")
MOST_CHANNELS = 32  # of a stream that are printed


def run(path: Path, as_json: bool) -> None:
    """Prints the statistics of a store."""
    store = EpisodeStore(path)
    found = {name: as_dict(store, name) for name in store.streams if name in store.statistics}
    if as_json:
        print_json({"path": str(path), "episodes": len(store), "streams": found})
        return
    header: list[str] | None = None
    rows: list[list[str]] = []
    for name, statistics in found.items():
        channels = statistics["channels"]
        quantiles = statistics["quantiles"]
        header = ["stream", "channel", "count", *NUMBERS, *(f"q{q}" for q in quantiles)]
        for i, channel in enumerate(channels[:MOST_CHANNELS]):
            values = [statistics[key][i] for key in NUMBERS]
            values += [quantile[i] for quantile in quantiles.values()]
            count = f"{statistics['count'][i]:,}"
            rows.append([name if i == 0 else "", channel, count, *map(number, values)])
        if len(channels) > MOST_CHANNELS:
            rows.append(
                ["", f"and {len(channels) - MOST_CHANNELS:,} more", *[""] * (len(header) - 2)]
            )
    if header is None:
        say(out(), f"{path}: no rows, so no statistics")
        return
    print_table(out(), header, rows, left=(0, 1), shrink={0: 12, 1: 12})
    if not all(statistics["exact_quantiles"] for statistics in found.values()):
        say(out(), "Quantiles of long streams come from a sketch; docs/store.md states its error.")


def as_dict(store: EpisodeStore, name: str) -> dict[str, Any]:
    """The statistics of a stream: for each a list with one number per channel."""
    statistics = store.statistics[name]
    count = len(statistics.mean)
    names: Sequence[str] | None = store.streams[name].channels
    if names is None or len(names) != count:
        names = [str(i) for i in range(count)]
    return {
        "channels": list(names),
        "count": [int(n) for n in statistics.count],
        **{key: [float(x) for x in getattr(statistics, key)] for key in NUMBERS},
        "quantiles": {
            str(q): [float(x) for x in values] for q, values in statistics.quantiles.items()
        },
        "exact_quantiles": bool(statistics.exact_quantiles),
    }
