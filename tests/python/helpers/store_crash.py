"""Kills writers of a store and looks at what they leave: `python store_crash.py FOLDER SEED`.

This process has everything imported, and forks the writers: fifty of them cost a second. It prints
what was found as JSON, and ends with an error where a store is not what it has to be.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np
from forks import fork, kill_at_operation
from store_files import EpisodeOnDisk, file_names, read_manifest, read_store

import robocache as rc

ROUNDS = 50
COMMITS = 6  # of a writer that nobody kills, one episode each


def make_rows(i: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(i)
    n = int(rng.integers(1, 300))
    return np.sort(rng.integers(0, 10**9, n)), rng.standard_normal((n, 3)).astype(np.float32)


def make_ragged(values: np.ndarray) -> rc.RaggedArray:
    """As many rows as `values`, with the same items, of which the first row has most."""
    ends = np.maximum(np.arange(1, len(values) + 1), len(values) // 2)
    return rc.RaggedArray(values, [0, *ends])


def append(path: Path, commits: int = COMMITS, report: int = -1) -> None:
    """Appends episodes, numbered from what is there, and says after each commit how many are."""
    with rc.StoreWriter(path, append=True) as writer:
        for _ in range(commits):
            i = writer.episodes
            with writer.episode(task=f"task {i % 3}", source=str(i)) as episode:
                times, values = make_rows(i)
                episode.add("x", times, values, received=times + i if i % 4 == 0 else None)
                if i % 2:
                    episode.add("y", times, values[:, 0] > 0)
                if i % 3 == 1:  # from the second commit on the store is of version 2
                    episode.add("ragged", times, make_ragged(values))
            writer.commit()
            if report >= 0:
                os.write(report, struct.pack("<q", writer.episodes))


def check(path: Path, at_least: int) -> list[EpisodeOnDisk]:
    """The store is whole, has no episode twice, and lacks none that was committed."""
    episodes = read_store(path)
    assert len(episodes) >= at_least, (len(episodes), at_least)
    for i, episode in enumerate(episodes):
        times, values = make_rows(i)
        assert episode.source == str(i) and episode.task == f"task {i % 3}"
        np.testing.assert_array_equal(episode.streams["x"]["times"], times)
        np.testing.assert_array_equal(episode.streams["x"]["values"], values)
        assert ("y" in episode.streams) == bool(i % 2)
        assert ("ragged" in episode.streams) == (i % 3 == 1)
        if i % 3 == 1:
            lengths = make_ragged(values).lengths
            np.testing.assert_array_equal(episode.streams["ragged"]["values"], values)
            np.testing.assert_array_equal(episode.streams["ragged"]["row_lengths"], lengths)
    count = sum(len(make_rows(i)[0]) for i in range(len(episodes)))
    statistics = read_manifest(path)["statistics"]
    assert (statistics["streams"]["x"]["count"] if statistics else [0] * 3) == [count] * 3
    return episodes


def kill_at_random_instants(folder: Path, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    started = time.monotonic()
    append(folder / "timed")
    duration = time.monotonic() - started
    episodes = leftovers = 0
    for i in range(ROUNDS):
        path = folder / f"store-{i // 10}"
        before = len(read_store(path)) if (path / "manifest.json").exists() else 0
        readable, report = os.pipe()
        pid = fork(lambda path=path, report=report: append(path, 10**6, report))
        os.close(report)
        time.sleep(rng.uniform(0, duration))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status)
        reports = os.read(readable, 1 << 16)
        os.close(readable)
        committed = struct.unpack("<q", reports[-8:])[0] if reports else before
        if (path / "manifest.json").exists():
            episodes = len(check(path, max(before, committed)))
            names = file_names(path)
            leftovers += any(name.startswith(".tmp-") for name in names)
        else:
            assert committed == 0  # killed before there was a store
    return {"killed": ROUNDS, "episodes": episodes, "with files left behind": leftovers}


def kill_at_every_file_operation(folder: Path) -> dict[str, int]:
    """The n-th call of an operation that changes files is never made, for every n."""
    n = 0
    while True:
        path = folder / f"operation-{n}"
        append(path)

        def child(n: int = n, path: Path = path) -> None:
            kill_at_operation(n)
            append(path)

        _, status = os.waitpid(fork(child), 0)
        found = len(check(path, COMMITS))
        append(path)  # the next writer goes on
        assert len(check(path, found)) == found + COMMITS
        assert not any(name.startswith(".tmp-") for name in file_names(path))
        assert len([f for f in file_names(path) if f.startswith("stat")]) == 1
        if status == 0:
            return {"operations": n, "episodes": found}
        assert os.WIFSIGNALED(status)
        n += 7 if n > 60 else 1  # later commits do what the first ones did


if __name__ == "__main__":
    where, number = Path(sys.argv[1]), int(sys.argv[2])
    found = {**kill_at_random_instants(where, number), **kill_at_every_file_operation(where)}
    print(json.dumps(found))
