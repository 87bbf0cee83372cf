"""Measure conversion to a store beside the libraries that read the recordings.

The recordings are those of readers.py, each several times over. Their library reads the same
columns and does nothing with them, in one process; `rc.convert` makes a store of them on the disk,
with statistics and checksums. The two take turns, the best of the repeats counts, and what is read
is in the page cache. Starting the workers counts too.

Beside the ratio of speeds stands that of CPU time, workers included, which other programs disturb
less: times the number of workers it says what the ratio can be where nothing else limits it. `copy`
is the ratio of a program that reads with the library, writes as many bytes as the store has, syncs
them and does nothing else.

Examples:
    python benchmarks/convert.py
    python benchmarks/convert.py --only parquet --copies 16 --workers 2
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import robocache as rc
from readers import CASES, FPS, Case


@dataclass
class Times:
    """Seconds that went by, and of CPU time with ended children; the least of several calls."""

    wall: float = float("inf")
    cpu: float = float("inf")

    def add(self, call: Callable[[], object]) -> None:
        start, cpu = time.perf_counter(), sum(os.times()[:4])
        call()
        self.wall = min(self.wall, time.perf_counter() - start)
        self.cpu = min(self.cpu, sum(os.times()[:4]) - cpu)


def write(path: Path, size: int) -> None:
    block = bytes(1 << 20)
    with path.open("wb") as file:
        for start in range(0, size, len(block)):
            file.write(block[: size - start])
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def measure(case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    first = case.write(folder / "recording-000")
    paths = [first]
    for number in range(1, arguments.copies):
        path = first.with_name(first.name.replace("000", f"{number:03d}"))
        if first.is_dir():
            shutil.copytree(first, path)
        else:
            shutil.copy(first, path)
        paths.append(path)

    def read() -> None:
        for path in paths:
            case.read(path)

    store = folder / "store"
    size = 0

    def convert(workers: int) -> None:
        nonlocal size
        shutil.rmtree(store, ignore_errors=True)
        size = rc.convert(paths, store, workers=workers, rate=FPS).bytes

    library, writing = Times(), Times()
    best = {workers: Times() for workers in arguments.workers}
    for _ in range(arguments.repeats):
        library.add(read)
        for workers in best:
            best[workers].add(partial(convert, workers))
        writing.add(partial(write, folder / "copy", size))
    columns = "".join(
        f"{size / t.wall / 1e6:11,.0f} {library.wall / t.wall:6.2f} {library.cpu / t.cpu:5.2f}"
        for t in best.values()
    )
    copy = library.wall / (library.wall + writing.wall)
    speed = size / library.wall / 1e6
    return f"{case.name:<14} {size / 1e6:8.1f} {speed:10,.0f} {copy:6.2f}{columns}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="formats whose name has this in it")
    parser.add_argument("--copies", type=int, default=8, help="of each recording")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    header = "".join(f"{f'{n} workers':>11} {'ratio':>6} {'cpu':>5}" for n in arguments.workers)
    print(f"{'format':<14} {'MB':>8} {'library':>10} {'copy':>6}{header}   (MB/s)")
    for case in CASES:
        if arguments.only.lower() in case.name.lower():
            with tempfile.TemporaryDirectory() as folder:
                print(measure(case, Path(folder), arguments), flush=True)


if __name__ == "__main__":
    main()
