"""Stores that somebody prepared: links and pipes in place of files, records that lie.

Writing trusts nothing in the folder that it writes into, and ends with an error that names the
file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from store_files import file_names, read_store, write_episodes
from stores import HandEpisode, HandStore, checksums, sealed

import robocache as rc
from robocache.store import shard_header
from robocache.store.shard_header import read_metadata
from robocache.store.source_state import RecordingState, from_text, read_states, to_text

SECRET = b"somebody else's 800 bytes " * 32
STATISTICS = "statistics-00000.safetensors"


def refused(path: Path) -> str:
    """The message of the error that a writer of a store in `path` raises."""
    with pytest.raises(rc.StoreError) as caught:
        rc.StoreWriter(path, append=True)
    return str(caught.value)


# ---- the lock ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_store", [True, False])
@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda lock, other: lock.symlink_to(other), "expected a file, got a symbolic link"),
        (lambda lock, other: lock.hardlink_to(other), "expected a file of one name, got 2 links"),
        (
            lambda lock, other: lock.symlink_to(other.with_name("nowhere")),
            "expected a file, got a symbolic link",
        ),
        (lambda lock, other: os.mkfifo(lock), "expected a file, got something that is no file"),
        (lambda lock, other: lock.mkdir(), "expected a file, got a folder"),
        (
            lambda lock, other: lock.write_bytes(SECRET),
            "expected the lock of a store, got a file with other contents",
        ),
        (
            lambda lock, other: lock.write_bytes(b"mine\n"),
            "expected the lock of a store, got a file with other contents",
        ),
    ],
)
def test_a_lock_that_is_no_lock(tmp_path: Path, make, got: str, is_store: bool) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    other.write_bytes(SECRET)
    if is_store:
        write_episodes(path, 1)
        (path / ".lock").unlink()
    else:
        path.mkdir()
    make(path / ".lock", other)
    before = (path / ".lock").read_bytes() if (path / ".lock").is_file() else b""
    assert refused(path) == f"{path / '.lock'}: {got}"
    assert other.read_bytes() == SECRET
    assert sorted(file_names(tmp_path)) == ["other", "store"]
    assert not (path / ".lock").is_file() or (path / ".lock").read_bytes() == before
    assert not is_store or len(read_store(path)) == 1


def test_the_lock_is_a_file_like_others(tmp_path: Path) -> None:
    """Readable and writable as the user's mask allows, and not executable."""
    with rc.StoreWriter(tmp_path / "s"):
        mode = (tmp_path / "s" / ".lock").stat().st_mode & 0o777
    (tmp_path / "other").touch()
    assert mode == (tmp_path / "other").stat().st_mode & 0o777


def test_locks_of_other_writers_are_taken_over(tmp_path: Path) -> None:
    """An empty file, one of an older version, one of a writer that was killed."""
    for text in (b"", b"process 12 on a-host\n", b"process 12 on a-host".ljust(511) + b"\n"):
        (tmp_path / ".lock").write_bytes(text)
        with rc.StoreWriter(tmp_path, append=True):
            held = (tmp_path / ".lock").read_bytes()
            assert held.startswith(b"process %d on " % os.getpid()) and held.endswith(b" \n")
            assert len(held) == 512


# ---- files in place of others --------------------------------------------------------------------


def test_a_pipe_in_place_of_statistics(tmp_path: Path) -> None:
    """Neither append nor merge waits for somebody who writes into it."""
    write_episodes(tmp_path / "a", 1)
    (tmp_path / "a" / STATISTICS).unlink()
    os.mkfifo(tmp_path / "a" / STATISTICS)
    message = f"{tmp_path / 'a' / STATISTICS}: expected a file, got something that is no file"
    assert refused(tmp_path / "a") == message
    with pytest.raises(rc.StoreError) as caught:
        rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    assert str(caught.value) == message
    assert not (tmp_path / "b").exists()


def test_a_device_in_place_of_statistics(tmp_path: Path) -> None:
    write_episodes(tmp_path, 1)
    (tmp_path / STATISTICS).unlink()
    (tmp_path / STATISTICS).symlink_to("/dev/zero")
    assert refused(tmp_path) == f"{tmp_path / STATISTICS}: expected a file, got a symbolic link"


def test_statistics_of_another_size_are_not_read(tmp_path: Path) -> None:
    write_episodes(tmp_path, 1)
    size = (tmp_path / STATISTICS).stat().st_size
    os.truncate(tmp_path / STATISTICS, 1 << 40)
    assert refused(tmp_path) == (
        f"{tmp_path / STATISTICS}: expected {size} bytes, as the manifest says, got {1 << 40}"
    )


def test_statistics_larger_than_any(tmp_path: Path) -> None:
    """A manifest that names a file of a terabyte, which exists."""
    write_episodes(tmp_path, 1)
    os.truncate(tmp_path / STATISTICS, 1 << 40)
    manifest = json.loads((tmp_path / "manifest.json").read_bytes())
    del manifest["crc32"]
    manifest["statistics"]["bytes"] = 1 << 40
    body = json.dumps(manifest).removesuffix("}").encode()
    (tmp_path / "manifest.json").write_bytes(sealed(body))
    streams = len(manifest["streams"])
    assert refused(tmp_path) == (
        f"{tmp_path}/manifest.json: statistics.bytes: expected at most {(1 + streams) << 27} for "
        f"{streams} streams, got {1 << 40}"
    )


def test_a_manifest_larger_than_any(tmp_path: Path, monkeypatch) -> None:
    """It is not read, and no writer makes one."""
    write_episodes(tmp_path, 1)
    file = tmp_path / "manifest.json"
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("robocache.store.writer.MOST_BYTES", len(before))
        with pytest.raises(rc.StoreError) as caught:
            write_episodes(tmp_path, 1, append=True)
    assert str(caught.value).startswith(f"{file}: expected at most {len(before)} bytes, got ")
    assert file.read_bytes() == before and len(read_store(tmp_path)) == 1
    os.truncate(file, 3 << 30)
    with pytest.raises(rc.StoreError) as caught:
        rc.EpisodeStore(tmp_path)
    assert str(caught.value) == f"{file}: expected at most {256 << 20} bytes, got {3 << 30}"


def test_the_longest_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_episodes(tmp_path, 1)
    file = tmp_path / "shard-00000.safetensors"
    length = int.from_bytes(file.read_bytes()[:8], "little")
    monkeypatch.setattr(shard_header, "MOST_BYTES", length)
    assert read_metadata(file) == {}
    monkeypatch.setattr(shard_header, "MOST_BYTES", length - 1)
    with pytest.raises(rc.StoreError) as caught:
        read_metadata(file)
    assert str(caught.value) == f"{file}: header: expected at most {length - 1} bytes, got {length}"


def test_a_link_in_place_of_a_finished_shard(tmp_path: Path) -> None:
    """A worker's file that was replaced before its commit."""
    other = tmp_path / "other"
    with rc.StoreWriter(tmp_path / "store") as writer:
        with rc.ShardWriter(tmp_path / "store") as shard:
            with shard.episode() as episode:
                episode.add("x", [0], [1.0])
            record = shard.close()
        path = tmp_path / "store" / record.file
        path.rename(other)
        path.symlink_to(other)
        with pytest.raises(rc.StoreError) as caught:
            writer.commit_shard(record)
        assert str(caught.value) == f"{path}: expected a file, got a symbolic link"


def test_a_copy_that_is_merged_has_the_size_that_the_manifest_says(
    tmp_path: Path, monkeypatch
) -> None:
    """Another file system: a shard that grows meanwhile is not copied without end."""
    write_episodes(tmp_path / "a", 1)
    shard = tmp_path / "a" / "shard-00000.safetensors"
    size = shard.stat().st_size

    def grow(path: Path, target: Path) -> None:
        os.truncate(shard, 1 << 40)
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", grow)
    with pytest.raises(rc.StoreError) as caught:
        rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    assert str(caught.value) == (
        f"{shard}: expected {size} bytes, as the manifest says, got {1 << 40}"
    )


# ---- errors of the disk --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_error_of_fsync_names_the_file(tmp_path: Path, monkeypatch, kind: str) -> None:
    fsync = os.fsync

    def fail(file: int) -> None:
        if (kind == "folder") == os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112
            raise OSError(5, "Input/output error")
        fsync(file)

    with rc.StoreWriter(tmp_path / "store") as writer:
        with writer.episode() as episode:
            episode.add("x", [0], [1.0])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="Input/output error") as caught:
                writer.commit()
        name = str(caught.value.filename)
        expected = str(tmp_path / "store") + ("" if kind == "folder" else "/.tmp-")
        assert name.startswith(expected) and (kind == "file" or name == expected), name


# ---- records -------------------------------------------------------------------------------------


def test_streams_without_optional_members(tmp_path: Path) -> None:
    """Readers accept them, so do writers."""
    rows = {"x": (np.array([0, 1]), np.zeros((2, 3), np.float32))}
    store = HandStore(tmp_path / "a").write([[HandEpisode(rows)]])
    write_episodes_of_x(tmp_path / "new", rows["x"])
    made = json.loads((tmp_path / "new" / "manifest.json").read_bytes())["statistics"]
    (tmp_path / "a" / made["file"]).write_bytes((tmp_path / "new" / made["file"]).read_bytes())
    store.manifest["statistics"] = made
    for member in ("units", "channels", "rate", "source"):
        del store.manifest["streams"][0][member]
    store.commit()
    info = rc.EpisodeStore(tmp_path / "a").streams["x"]
    assert (info.units, info.channels, info.rate, info.source) == (None, None, None, None)
    rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    write_episodes_of_x(tmp_path / "a", rows["x"])
    assert [len(rc.EpisodeStore(tmp_path / name)) for name in "ab"] == [2, 1]


def write_episodes_of_x(path: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    with rc.StoreWriter(path, append=True) as writer, writer.episode() as episode:
        episode.add("x", *rows)


STATES = [RecordingState(7, 8), RecordingState(7, 8), None]


@pytest.mark.parametrize(
    "text",
    [
        "", "[[5, 1e400, 2]]", "[" * 100_000, "[[5,1,2]]", "[[-3,1,2],[6]]", "[[0],[3]]",
        "[[3,1.5,2]]", "[[3,true,2]]", "[[true],[2]]", "[[3,1]]", "[[3,1,2,3]]", "[3]", "3", "{}",
        "[[3,null,2]]", f"[[3,{1 << 63},2]]", "[[3,1," + "9" * 5000 + "]]", "[[1],[1]]",
        "[[1e400]]", f"[[{10**300}]]", '[["3",1,2]]', "[[3,NaN,2]]",
    ],
)  # fmt: skip
def test_states_that_no_conversion_wrote(text: str) -> None:
    assert from_text(to_text(STATES), 3) == STATES
    assert from_text(text, 3) == [None] * 3


@pytest.mark.parametrize("recordings", ["[[5, 1e400, 2]]", "[" * 100_000, "[[2]]", "no JSON"])
def test_a_shard_header_of_hostile_states(tmp_path: Path, recordings: str) -> None:
    """A conversion that goes on reads it as if nothing were known."""
    np.savez(tmp_path / "demo.npz", x=np.zeros((5, 2)), t=np.arange(5) * 0.1)
    convert = [sys.executable, "-m", "robocache", "convert", tmp_path / "demo.npz"]
    convert += ["--time-column", "t", tmp_path / "store"]
    run = subprocess.run(convert, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    spoil_metadata(tmp_path / "store", recordings)
    assert read_states(tmp_path / "store") == [None] * len(rc.EpisodeStore(tmp_path / "store"))
    run = subprocess.run(convert, capture_output=True, text=True)
    assert (run.returncode, "Traceback" in run.stderr) == (0, False), run.stderr


def spoil_metadata(folder: Path, recordings: str) -> None:
    """Puts another text into the header of a store's only shard; checksums fit."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    shard = folder / manifest["shards"][0]["file"]
    data = shard.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end]) | {"__metadata__": {"recordings": recordings}}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    shard.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
    manifest["shards"][0] |= checksums(shard.read_bytes())
    del manifest["crc32"]
    (folder / "manifest.json").write_bytes(sealed(json.dumps(manifest).removesuffix("}").encode()))
