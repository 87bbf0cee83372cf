"""Measure conversion to a store beside the libraries that read the recordings.

The recordings are those of readers.py, each several times over. Their library reads the same
columns and does nothing with them, in one process; `rc.convert` makes a store of them on the disk,
with statistics and checksums. The two take turns, the best of the repeats counts, and what is read
is in the page cache. Starting the workers counts too.

Examples:
    python benchmarks/convert.py
    python benchmarks/convert.py --only parquet --copies 16 --workers 2
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import robocache as rc
from readers import CASES, FPS, Case


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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

    library = float("inf")
    best = dict.fromkeys(arguments.workers, float("inf"))
    for _ in range(arguments.repeats):
        library = min(library, seconds(read))
        for workers in best:
            best[workers] = min(best[workers], seconds(partial(convert, workers)))
    columns = "".join(f"{size / s / 1e6:10,.0f} {library / s:8.2f}" for s in best.values())
    return f"{case.name:<14} {size / 1e6:8.1f} {size / library / 1e6:10,.0f}{columns}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="formats whose name has this in it")
    parser.add_argument("--copies", type=int, default=8, help="of each recording")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    header = "".join(f"{f'{n} workers':>10} {'ratio':>8}" for n in arguments.workers)
    print(f"{'format':<14} {'MB':>8} {'library':>10}{header}   (MB/s)")
    for case in CASES:
        if arguments.only.lower() in case.name.lower():
            with tempfile.TemporaryDirectory() as folder:
                print(measure(case, Path(folder), arguments), flush=True)


if __name__ == "__main__":
    main()
