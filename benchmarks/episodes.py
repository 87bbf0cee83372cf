"""Measure how long rc.Loader takes to choose among many episodes, by each option that chooses.

Times are those of the process (CPU time, the least of the repeats), which other programs affect
less than time of the clock. A line's last number is the growth of its time over that of the number
of episodes, from the smallest store to the largest: 1 is linear.

Examples:
    python benchmarks/episodes.py
    python benchmarks/episodes.py --sizes 10000 1000000 --only tasks --repeats 1
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robocache as rc

SHARDS = 100  # identical ones
ROWS = 3
MS = 1_000_000
WINDOWS = {"state": [-0.02, 0.0], "action": [0.0, 0.02]}

Options = Callable[[int], dict[str, Any]]


def chosen(**options: Any) -> Options:
    return lambda count: {"episodes": rc.Episodes(**options)}


CASES: dict[str, Options] = {
    "all": lambda count: {},
    "a slice, every second": chosen(indices=slice(None, None, 2)),
    "indices, half of them at random": lambda count: {
        "episodes": np.random.default_rng(0).permutation(count)[: count // 2]
    },
    "tasks": chosen(tasks="task 1"),
    "subset": chosen(subset="odd"),
    "predicate": chosen(predicate=lambda episode: episode.index % 2 == 0),
    "split, train": chosen(split=("train", 0.1)),
    "split, validation": chosen(split=("validation", 0.1)),
    "time_ranges": chosen(time_ranges=[(0.01, 0.03)]),
    "time_ranges by episode": lambda count: {
        "episodes": rc.Episodes(time_ranges={i: [(0.01, 0.03)] for i in range(0, count, 2)})
    },
    "drop_n_first_frames, drop_n_last_frames": chosen(drop_n_first_frames=1, drop_n_last_frames=1),
    "replicate=False, 2 ranks": lambda count: {
        "episodes": rc.Episodes(replicate=False), "rank": 1, "world_size": 2,
    },
    "replicate=False, 64 ranks": lambda count: {
        "episodes": rc.Episodes(replicate=False), "rank": 1, "world_size": 64,
    },
    "anchors at 100 Hz": lambda count: {
        "anchor": 100.0, "windows": {"state": [-0.02, 0.0]},
    },
    "tasks, subset, predicate, split at once": chosen(
        tasks="task 1", subset="odd", predicate=lambda episode: True, split=("train", 0.1)
    ),
}  # fmt: skip


def write_store(folder: Path, episodes: int) -> Path:
    """A store of identical shards: one is written, and the others are links to its file."""
    part = folder / "part"
    times = np.arange(ROWS) * 20 * MS
    values = np.zeros((ROWS, 2), np.float32)
    with rc.StoreWriter(part) as writer:
        writer.declare("action", rate=50, timeline="rows")
        for i in range(episodes // SHARDS):
            subset = ("even", "odd")[i % 2]
            with writer.episode(f"task {i % 4}", f"set#{i}", [subset]) as episode:
                episode.add("state", times, values)
                episode.add("action", times, values)
    parts = [folder / f"part-{i}" for i in range(SHARDS)]
    for each in parts:
        shutil.copytree(part, each, copy_function=os.link)
    rc.merge_stores(parts, folder / "store")
    return folder / "store"


def seconds(store: rc.EpisodeStore, options: dict[str, Any], repeats: int) -> float:
    """The least CPU time of the process that the construction of a loader takes."""
    found = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        rc.Loader(store, 256, **{"windows": WINDOWS, "device": "cpu", **options})
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", default="", help="regular expression of the cases")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cases = {name: case for name, case in CASES.items() if re.search(arguments.only, name)}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="robocache-bench-") as folder:
            store = rc.EpisodeStore(write_store(Path(folder), size))
            seconds(store, {"episodes": range(9)}, 1)  # loads what a first call loads
            for name, case in cases.items():
                times[name].append(seconds(store, case(len(store)), arguments.repeats))
                print(f"{size:,} episodes, {name}: {times[name][-1]:.3f} s", flush=True)
    sizes = arguments.sizes
    print(f"\n| option | {' | '.join(f'{size:,}' for size in sizes)} | growth |")
    print(f"|---|{'---:|' * (len(sizes) + 1)}")
    for name, row in times.items():
        growth = (row[-1] / row[0]) / (sizes[-1] / sizes[0])
        print(f"| {name} | {' | '.join(f'{x:.3g}' for x in row)} | {growth:.2f} |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\nCPU seconds; peak memory {peak / 1e9:.1f} GB, load average {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
