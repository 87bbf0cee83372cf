"""Measure conversion to a store beside the libraries that read the recordings.

The recordings are those of readers.py, each so many times over that its library reads them for
some seconds, or that they are 1 GB: starting the workers counts too, and should not be what is
measured. The library reads the same columns and does nothing with them, in one process;
`rc.convert` makes a store of them on the disk, with statistics and checksums. The two take turns,
the best of the repeats counts, and what is read is in the page cache.

Beside the ratio of speeds stands that of CPU time, workers included, which other programs disturb
less: times the number of workers it says what the ratio can be where nothing else limits it.
`least` are both ratios of what no conversion can do without, in one process: to read with the
library, to write as many bytes as the store has, to sync them, and to compute their checksum and
the plainest of statistics, which are counts of bytes, or moments of floats without quantiles.

Examples:
    python benchmarks/convert.py
    python benchmarks/convert.py --only parquet --seconds 1 --workers 2
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import robocache as rc
from readers import CASES, FPS, Case
from robocache.store.library import count_bytes, crc32, moments

MOST_BYTES = 1e9  # of a format's rows


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


def copy(path: Path, size: int, pictures: bool) -> None:
    """Writes a file with checksum and statistics of its bytes, and nothing more."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (1 << 18, 3), np.uint8)
    numbers = random.random((1 << 14, 16), np.float32)
    block = (pixels if pictures else numbers).reshape(-1).view(np.uint8)
    checksum = 0
    with path.open("wb") as file:
        for start in range(0, size, len(block)):
            if pictures:
                count_bytes(pixels)
            else:
                moments(numbers)
            part = block[: size - start].data
            checksum = crc32(part, checksum)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def measure(case: Case, folder: Path, arguments: argparse.Namespace) -> str:
    first = case.write(folder / "recording-000")
    paths = [first]

    def read() -> None:
        for path in paths:
            case.read(path)

    store, other = folder / "store", folder / "copy"

    def convert(workers: int) -> None:
        rc.convert(paths, store, workers=workers, rate=FPS)

    def size() -> int:
        return sum(path.stat().st_size for path in store.iterdir())

    read()
    once = Times()
    once.add(read)
    convert(1)
    copies = math.ceil(min(arguments.seconds / once.wall, MOST_BYTES / size()))
    for number in range(1, copies):
        path = first.with_name(first.name.replace("000", f"{number:03d}"))
        if first.is_dir():
            shutil.copytree(first, path)
        else:
            shutil.copy(first, path)
        paths.append(path)

    streams = rc.EpisodeStore(store).streams
    pictures = any(stream.dtype == np.uint8 for stream in streams.values())
    library, least = Times(), Times()
    best = {workers: Times() for workers in arguments.workers}
    for _ in range(arguments.repeats):
        library.add(read)
        for workers in best:
            shutil.rmtree(store)
            os.sync()  # what others have to write is not part of it
            best[workers].add(partial(convert, workers))
        os.sync()
        least.add(partial(copy, other, size(), pictures))
        other.unlink()
    columns = "".join(
        f"{size() / t.wall / 1e6:11,.0f} {library.wall / t.wall:6.2f} {library.cpu / t.cpu:5.2f}"
        for t in best.values()
    )
    bounds = (
        f"{library.wall / (library.wall + least.wall):6.2f}"
        f" {library.cpu / (library.cpu + least.cpu):5.2f}"
    )
    speed = size() / library.wall / 1e6
    return f"{case.name:<14} {size() / 1e6:8.1f} {speed:10,.0f} {bounds}{columns}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="formats whose name has this in it")
    parser.add_argument("--seconds", type=float, default=4, help="of the library's reading")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    header = "".join(f"{f'{n} workers':>11} {'ratio':>6} {'cpu':>5}" for n in arguments.workers)
    print(f"{'format':<14} {'MB':>8} {'library':>10} {'least':>6} {'cpu':>5}{header}   (MB/s)")
    for case in CASES:
        if arguments.only.lower() in case.name.lower():
            with tempfile.TemporaryDirectory() as folder:
                print(measure(case, Path(folder), arguments), flush=True)


if __name__ == "__main__":
    main()
