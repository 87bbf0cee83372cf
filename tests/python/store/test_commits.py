"""Stores of many episodes: commits, appending, shards of other processes, the writers' lock."""

from __future__ import annotations

import contextlib
import fcntl
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from store_files import TIMES, VALUES, file_names, read_manifest, read_store, write_episodes

import robocache as rc

# ---- stores ------------------------------------------------------------------------------------


def test_appending(tmp_path: Path) -> None:
    write_episodes(tmp_path, 3)
    before = (tmp_path / "shard-00000.safetensors").read_bytes()
    write_episodes(tmp_path, 2, append=True)
    assert (tmp_path / "shard-00000.safetensors").read_bytes() == before
    assert [e.source for e in read_store(tmp_path)] == [
        "file#0", "file#1", "file#2", "file#0", "file#1",
    ]  # fmt: skip
    assert read_manifest(tmp_path)["tasks"] == ["task 0", "task 1"]
    with rc.StoreWriter(tmp_path, append=True) as writer, writer.episode() as episode:
        with pytest.raises(ValueError, match=r"action.values: expected F32 .* got F64"):
            episode.add("action", TIMES, VALUES.astype(np.float64))
        episode.add("action", TIMES, VALUES)


def test_append_makes_a_store_where_there_is_none(tmp_path: Path) -> None:
    write_episodes(tmp_path / "new" / "store", 1, append=True)
    assert len(read_store(tmp_path / "new" / "store")) == 1


def test_a_new_store_is_one_from_the_start(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path):
        assert read_store(tmp_path) == []


def test_refused_folders(tmp_path: Path) -> None:
    write_episodes(tmp_path / "store", 1)
    with pytest.raises(rc.StoreError) as caught:
        rc.StoreWriter(tmp_path / "store")
    assert str(caught.value) == (
        f"{tmp_path / 'store'}: expected no store there, got one (append=True adds to it)"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "shard-00000.safetensors").write_text("someone's")
    for append in (False, True):
        with pytest.raises(
            rc.StoreError, match="expected a store or an empty folder, got one with"
        ):
            rc.StoreWriter(tmp_path / "other", append=append)
    assert (tmp_path / "other" / "shard-00000.safetensors").read_text() == "someone's"
    (tmp_path / "file").write_text("")
    with pytest.raises(rc.StoreError, match=r"file: expected a folder, got a file$"):
        rc.StoreWriter(tmp_path / "file")
    with pytest.raises(ValueError, match="shard_bytes: expected 1 or more, got 0"):
        rc.StoreWriter(tmp_path / "x", shard_bytes=0)


def test_shards_have_a_bounded_size(tmp_path: Path) -> None:
    small, large = 5 * 16, 400 * 16
    with rc.StoreWriter(tmp_path, shard_bytes=10 * small) as writer:
        for i in range(25):
            n = 400 if i == 12 else 5
            with writer.episode() as episode:
                episode.add("x", np.arange(n), np.zeros(n))
    shards = read_manifest(tmp_path)["shards"]
    assert [shard["episodes"] for shard in shards] == [10, 2, 1, 10, 2]
    assert large < shards[2]["bytes"] < large + 2000


def test_names_of_files_are_new_whatever_the_others_are(tmp_path: Path) -> None:
    """A store of another writer may have left numbers out."""
    write_episodes(tmp_path, 2)
    (tmp_path / "shard-00000.safetensors").rename(tmp_path / "shard-00001.safetensors")
    (tmp_path / "statistics-00000.safetensors").rename(tmp_path / "statistics-00001.safetensors")
    manifest = tmp_path / "manifest.json"
    body = manifest.read_bytes()[:-21].replace(b"-00000.", b"-00001.")
    manifest.write_bytes(body + b',"crc32":"%08x"}\n' % zlib.crc32(body))
    write_episodes(tmp_path, 3, append=True)
    assert len(read_store(tmp_path)) == 5
    assert [shard["file"][6:11] for shard in read_manifest(tmp_path)["shards"]] == [
        "00001",
        "00002",
    ]
    assert "statistics-00002.safetensors" in file_names(tmp_path)


def test_a_full_shard_that_cannot_be_committed(tmp_path: Path, monkeypatch) -> None:
    """Only the episode whose block raises is lost."""

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    kept = []
    with rc.StoreWriter(tmp_path, shard_bytes=1) as writer:
        for i in range(6):
            with monkeypatch.context() as patch, contextlib.suppress(OSError):
                if i in (2, 3):
                    patch.setattr("robocache.store.writer.new_file", refuse)
                with writer.episode(source=str(i)) as episode:
                    episode.add("x", TIMES, VALUES)
                kept.append(str(i))
    assert [episode.source for episode in read_store(tmp_path)] == kept
    assert len(kept) < 6


def test_a_commit_makes_episodes_visible(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
            assert read_store(tmp_path) == [] and writer.episodes == 0
        assert read_store(tmp_path) == [] and writer.episodes == 1
        writer.commit()
        assert len(read_store(tmp_path)) == writer.episodes == 1
        writer.commit()  # nothing to do
        with writer.episode() as episode:  # a commit within an episode leaves the episode alone
            episode.add("x", TIMES, VALUES)
            writer.commit()
            episode.add("x", TIMES + TIMES[-1], VALUES)
    assert [e.length for e in read_store(tmp_path)] == [5, 10]
    assert [stream.name for stream in writer.streams] == ["x"]


def test_finished_episodes_survive_an_exception(tmp_path: Path) -> None:
    with contextlib.suppress(RuntimeError), rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
        raise RuntimeError
    assert len(read_store(tmp_path)) == 1
    assert file_names(tmp_path) == [
        ".lock",
        "manifest.json",
        "shard-00000.safetensors",
        "statistics-00000.safetensors",
    ]


def test_after_the_end(tmp_path: Path) -> None:
    writer = rc.StoreWriter(tmp_path)
    episode = writer.episode()
    episode.add("x", TIMES, VALUES)
    writer.close()
    writer.close()
    for call in (writer.commit, writer.episode, episode.finish, lambda: writer.declare("x")):
        with pytest.raises(ValueError, match="writer: expected one that is open, got one that was"):
            call()
    with pytest.raises(ValueError, match="episode: expected one that goes on, got one that has"):
        episode.add("x", TIMES, VALUES)
    assert read_store(tmp_path) == []


# ---- large episodes ----------------------------------------------------------------------------


def test_rows_wait_on_the_disk(tmp_path: Path) -> None:
    """Every way of a row through memory and spools, by a spool of a few rows."""
    rng = np.random.default_rng(2)
    written = []
    shard = rc.ShardWriter(tmp_path, spool_bytes=2000)
    for i in range(40):
        times, values = [], []
        try:
            with shard.episode(source=str(i)) as episode:
                for _ in range(int(rng.integers(1, 12))):
                    n = int(rng.choice([1, 3, 10, 200]))
                    start = times[-1][-1] if times else 0
                    times.append(start + np.sort(rng.integers(0, 1000, n)))
                    values.append(rng.standard_normal((n, 2)))
                    received = times[-1] + 5 if rng.random() < 0.2 else None
                    valid = rng.random(n) < 0.5 if rng.random() < 0.2 else None
                    episode.add("x", times[-1], values[-1], received, valid)
                    if rng.random() < 0.5:
                        episode.add("y", times[-1], values[-1].astype(np.float32)[:, 0])
                if i % 7 == 3:
                    raise KeyError
        except KeyError:
            continue
        written.append((str(i), np.concatenate(times), np.concatenate(values)))
    record = shard.close()
    assert file_names(tmp_path) == [record.file]
    with rc.StoreWriter(tmp_path / "store") as writer:
        (tmp_path / record.file).rename(tmp_path / "store" / record.file)
        writer.commit_shard(record)
    found = read_store(tmp_path / "store")
    assert len(found) == len(written)
    for episode, (source, times, values) in zip(found, written, strict=True):
        assert episode.source == source
        np.testing.assert_array_equal(episode.streams["x"]["times"], times)
        np.testing.assert_array_equal(episode.streams["x"]["values"], values)
        has_late = set(np.unique(episode.streams["x"]["received"] - times)) <= {0, 5}
        assert has_late


def test_an_episode_larger_than_memory_allows(tmp_path: Path) -> None:
    """512 MiB in chunks of 8 MiB, in a process that may take 300 MiB more than it has."""
    script = """
import resource, sys
import numpy as np
import robocache as rc

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

chunk = np.zeros((64, 128 << 10), np.uint8)
with rc.StoreWriter(sys.argv[1]) as writer:
    before = peak()
    with writer.episode() as episode:
        for i in range(64):
            episode.add("x", np.arange(64) + 64 * i, chunk)
print(peak() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 150
    (shard,) = read_manifest(tmp_path)["shards"]
    assert shard["bytes"] > 512 << 20


# ---- shards of other processes -----------------------------------------------------------------


def make_shard(folder: Path, name: str, dtype: type = np.float32, **metadata: object) -> object:
    with rc.ShardWriter(folder) as shard:
        shard.declare("x", **metadata)
        with shard.episode(task=name, source=name, subsets=[name]) as episode:
            episode.add("x", TIMES, VALUES.astype(dtype))
        return shard.close()


def test_shards_of_workers(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        shards = [make_shard(tmp_path, name, units="rad") for name in "cab"]
        for shard in pickle.loads(pickle.dumps(shards)):
            writer.commit_shard(shard)
    found = read_store(tmp_path)
    assert [(e.task, e.source, e.subsets) for e in found] == [(n, n, (n,)) for n in "cab"]
    assert read_manifest(tmp_path)["streams"][0]["units"] == "rad"


def test_shards_that_do_not_fit(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        writer.commit_shard(make_shard(tmp_path, "a", units="rad", rate=50))
        for made, expected in (
            (make_shard(tmp_path, "b", np.float64),
             "stream 'x': expected F32 rows of shape [2], got F64 rows of shape [2]"),
            (make_shard(tmp_path, "b", units="degree"),
             "stream 'x': expected units 'rad', got 'degree'"),
            (make_shard(tmp_path, "b", timeline="rows", rate=30),
             "stream 'x': expected rate 50.0 Hz, got 30.0 Hz"),
        ):  # fmt: skip
            with pytest.raises(rc.StoreError) as caught:
                writer.commit_shard(made)
            assert str(caught.value) == f"{tmp_path / made.file}: {expected}"
        writer.commit_shard(make_shard(tmp_path, "c", method="previous", source="topic /x"))
    assert [e.source for e in read_store(tmp_path)] == ["a", "c"]
    x = read_manifest(tmp_path)["streams"][0]
    assert (x["units"], x["method"], x["source"]) == ("rad", "previous", "topic /x")


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        shard = make_shard(tmp_path, "a")
        (tmp_path / shard.file).write_bytes((tmp_path / shard.file).read_bytes()[:-1])
        with pytest.raises(rc.StoreError, match=f"expected {shard.bytes} bytes, got"):
            writer.commit_shard(shard)
        (tmp_path / shard.file).unlink()
        with pytest.raises(rc.StoreError, match="expected the shard's file, got none"):
            writer.commit_shard(shard)
    with pytest.raises(ValueError, match="shard: expected at least 1 episode, got none"):
        rc.ShardWriter(tmp_path).close()


# ---- the lock ------------------------------------------------------------------------------------


FORKS = """
import os, signal, sys, time
import robocache as rc
writer = rc.StoreWriter(sys.argv[1])
child = os.fork()
if child == 0:
    time.sleep(60)
try:
    writer.close()
    rc.StoreWriter(sys.argv[1], append=True).close()
finally:
    os.kill(child, signal.SIGKILL)
"""


def test_a_lock_ends_with_its_writer_though_a_fork_lives_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_a_lock_that_cannot_be_written_is_given_back(tmp_path: Path) -> None:
    script = f"""
import resource, signal
import robocache as rc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    rc.StoreWriter({str(tmp_path)!r})
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
rc.StoreWriter({str(tmp_path)!r}).close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"File too large: {str(tmp_path / '.lock')!r}")


def test_a_lock_on_a_file_that_was_removed_is_none(tmp_path: Path, monkeypatch) -> None:
    """A writer that fails removes the folder's lock; another one may have opened it before."""
    lock, removed = fcntl.flock, []

    def remove_and_lock(file: int, operation: int) -> None:
        if not removed:
            removed.append((tmp_path / ".lock").unlink())
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    refused = pytest.raises(rc.StoreError, match="expected no other writer, got one: process")
    with rc.StoreWriter(tmp_path), refused:
        rc.StoreWriter(tmp_path, append=True)
    assert removed and file_names(tmp_path) == [".lock", "manifest.json"]


def test_a_writer_that_fails_before_any_commit_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), rc.StoreWriter(tmp_path / "a" / "store"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with contextlib.suppress(ZeroDivisionError), rc.StoreWriter(tmp_path / "store") as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
        raise ZeroDivisionError
    assert len(read_store(tmp_path / "store")) == 1, "finished episodes are kept"


def test_a_shard_that_was_closed(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s"), rc.ShardWriter(tmp_path / "s") as shard:
        with shard.episode() as episode:
            episode.add("x", [0], np.zeros((1, 2), np.float32))
        shard.close()
        with pytest.raises(ValueError, match=r"^shard: expected one that is open, got one that "):
            shard.close()
