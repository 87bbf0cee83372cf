"""Rows that are marked as not valid after they were stored: what changes in the files, and when."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forks import fork, kill_at_operation
from store_files import read_manifest, read_store
from stores import HandEpisode, HandStore

import robocache as rc
from robocache.store import rewrite
from robocache.store.files import NewFile
from robocache.store.history import Marking, read_markings
from robocache.store.manifest import read_manifest as library_manifest
from robocache.store.marks import Mark, mark_rows, new_marks
from robocache.store.statistics import StreamStatistics
from robocache.store.writer import StoreWriter

EPISODES = 6


def write_store(path: Path, shard_bytes: int = 3000) -> Path:
    """Six episodes in shards of one or two; `flags` has three rows that are not valid."""
    rng = np.random.default_rng(0)
    with rc.StoreWriter(path, shard_bytes=shard_bytes) as writer:
        for number in range(EPISODES):
            n = 40 + number
            with writer.episode(task=f"task {number % 2}", source=str(number)) as episode:
                times = np.arange(n) * 10_000_000
                episode.add("arm", times, rng.normal(size=(n, 3)), received=times + 5)
                episode.add("step", times, np.arange(n, dtype=np.int16))
                episode.add("flags", times[:20], np.arange(20) % 2 == 0, valid=np.arange(20) > 2)
                if number % 2:
                    episode.add("camera", times[:4], rng.integers(0, 9, (4, 8, 8, 3), np.uint8))
    return path


def mark(path: Path, *marks: Mark) -> int:
    with StoreWriter(path, append=True) as writer:
        return mark_rows(writer, new_marks(rc.EpisodeStore(path), marks))


def rows_of(path: Path) -> list[dict[str, dict[str, np.ndarray]]]:
    return [episode.streams for episode in read_store(path)]


MARKS = (
    Mark(1, "arm", ((3, 7), (5, 9)), "stuck"),
    Mark(1, "arm", ((8, 11),), "spike"),
    Mark(4, "flags", ((0, 5),), "by hand"),
    Mark(5, "camera", ((0, 4),), "by hand"),
)


def test_new_marks(tmp_path: Path) -> None:
    """Each row once, and none that is not valid already."""
    store = rc.EpisodeStore(write_store(tmp_path / "s"))
    found = new_marks(store, [*MARKS, Mark(4, "flags", ((0, 3),), "spike")])
    assert found == [
        Mark(1, "arm", ((3, 9),), "stuck"),
        Mark(1, "arm", ((9, 11),), "spike"),
        Mark(4, "flags", ((3, 5),), "by hand"),
        Mark(5, "camera", ((0, 4),), "by hand"),
    ]
    assert [mark.count for mark in found] == [6, 2, 2, 4]


def test_several_ranges_of_one_mark(tmp_path: Path) -> None:
    store = rc.EpisodeStore(write_store(tmp_path / "s"))
    ranges = ((0, 2), (5, 6), (9, 12))
    assert new_marks(store, [Mark(1, "arm", ranges, "spike")]) == [Mark(1, "arm", ranges, "spike")]


def test_a_marking_of_two_shards_is_one(tmp_path: Path) -> None:
    """Also where the shards have other numbers of its rows."""
    path = write_store(tmp_path / "s", shard_bytes=1)
    mark(path, Mark(0, "arm", ((0, 3),), "spike"), Mark(1, "arm", ((0, 4),), "spike"))
    (found,) = read_markings(path)
    assert (found.rows, found.episodes) == (7, 2)


@pytest.mark.parametrize("shard_bytes", [1, 3000, 1 << 20], ids=["each", "some", "one"])
def test_marked(tmp_path: Path, shard_bytes: int) -> None:
    """Flags alone differ, in the files as other programs read them; others are the same files."""
    path = write_store(tmp_path / "s", shard_bytes)
    before, opened = rows_of(path), rc.EpisodeStore(path)
    files = {entry["file"]: path / entry["file"] for entry in read_manifest(path)["shards"]}
    inodes = {name: file.stat().st_ino for name, file in files.items()}
    rewritten = mark(path, *MARKS)
    after, store = rows_of(path), rc.EpisodeStore(path)
    expected = {(1, "arm"): range(3, 11), (4, "flags"): range(5), (5, "camera"): range(4)}
    for number, streams in enumerate(after):
        assert streams.keys() == before[number].keys()
        for name, columns in streams.items():
            old = dict(before[number][name])
            valid = old.pop("valid", np.ones(len(columns["times"]), bool)).copy()
            valid[list(expected.get((number, name), ()))] = False
            new = columns.pop("valid", np.ones(len(valid), bool))
            np.testing.assert_array_equal(new, valid)
            assert columns.keys() == old.keys()
            for column, array in columns.items():
                assert array.tobytes() == old[column].tobytes(), (name, column)
    store.verify()
    entries = read_manifest(path)["shards"]
    kept = [entry["file"] for entry in entries if inodes.get(entry["file"])]
    assert len(entries) - len(kept) == rewritten == {1: 3, 3000: 3, 1 << 20: 1}[shard_bytes]
    assert all((path / name).stat().st_ino == inodes[name] for name in kept)
    names = {entry["file"] for entry in entries}
    assert {file.name for file in path.glob("shard-*")} == names, "old files are gone"
    assert len(list(path.glob("statistics-*"))) == 1 and not list(path.glob(".tmp-*"))
    assert mark(path, *MARKS) == 0 and read_manifest(path)["shards"] == entries
    opened.episodes[1]["arm"].values.sum()  # who has the store open keeps what was there
    assert opened[1]["arm"].valid is None or opened[1]["arm"].valid.all()


def test_statistics(tmp_path: Path) -> None:
    """They are those of a store that was written with these flags from the start."""
    path = write_store(tmp_path / "s")
    others = read_manifest(path)["statistics"]["streams"]["step"]
    mark(path, *MARKS)
    store = rc.EpisodeStore(path)
    for name in ("arm", "flags", "camera", "step"):
        info = store.streams[name]
        expected = StreamStatistics(info.type_name, info.shape)
        for episode in store:
            rows = episode[name]
            expected.update(rows.values, rows.valid)
        summary, found = expected.summary(), read_manifest(path)["statistics"]["streams"][name]
        assert found["count"] == summary["count"]
        for number in ("mean", "std", "min", "max"):
            np.testing.assert_allclose(found[number], summary[number], rtol=1e-12)
        assert found["quantiles"] == summary["quantiles"]
    assert read_manifest(path)["statistics"]["streams"]["step"] == others
    with rc.StoreWriter(path, append=True) as writer, writer.episode() as episode:  # they go on
        episode.add("arm", [0], np.zeros((1, 3)))
    rc.EpisodeStore(path).verify()


def test_all_rows_of_a_stream(tmp_path: Path) -> None:
    """There are no statistics left then, which the manifest says as null."""
    path = write_store(tmp_path / "s")
    mark(path, *(Mark(number, "arm", ((0, 99),), "by hand") for number in range(EPISODES)))
    store = rc.EpisodeStore(path)
    store.verify()
    assert store.statistics["arm"].count.tolist() == [0, 0, 0]
    assert np.isnan(store.statistics["arm"].mean).all()


def test_history(tmp_path: Path) -> None:
    """It stays in the shards, also of stores that are appended to or merged."""
    path = write_store(tmp_path / "s")
    assert read_markings(path) == []
    mark(path, *MARKS)
    mark(path, Mark(1, "arm", ((20, 21),), "stuck"))
    with rc.StoreWriter(path, append=True) as writer, writer.episode() as episode:
        episode.add("arm", [0], np.zeros((1, 3)))
    rc.merge_stores([path, write_store(tmp_path / "other")], tmp_path / "both")
    for folder in (path, tmp_path / "both"):
        found = read_markings(folder)
        assert all(len(one.time) == 20 and one.time.endswith("Z") for one in found)
        total: dict[tuple[str, str], int] = {}
        for one in found:
            total[one.stream, one.reason] = total.get((one.stream, one.reason), 0) + one.rows
        assert total == {
            ("arm", "stuck"): 7, ("arm", "spike"): 2, ("flags", "by hand"): 2,
            ("camera", "by hand"): 4,
        }  # fmt: skip
    marking = Marking("2026-11-23T14:30:00Z", "arm", "stuck", 1, 2)
    assert str(marking) == "2026-11-23: 1 row of arm in 2 episodes marked as not valid (stuck)"
    for text in ('{"a": 1}', "[[1]]", "[1]", "x", '[[[], "a", "b", "c", 1]]'):
        shard = path / read_manifest(path)["shards"][0]["file"]
        assert rewrite.with_markings({"marked": text}, [marking])["marked"] == json.dumps(
            [list(marking)], separators=(",", ":")
        ), shard


def test_a_store_of_another_program(tmp_path: Path) -> None:
    """Its data begin where they did, whatever the alignment is."""
    times = np.arange(5, dtype=np.int64)
    flags = np.arange(5) != 3
    rows = {"a": (times, np.arange(5.0)), "b": (times, np.arange(5, dtype=np.int8), times, flags)}
    hand = HandStore(tmp_path / "s").write([[HandEpisode(rows, source="é")]])
    shard = library_manifest(tmp_path / "s").shards[0]
    wanted = {"a": np.arange(5) > 0, "b": np.arange(5) < 2}
    made = rewrite.rewrite_shard(tmp_path / "s", shard, wanted, [])
    (tmp_path / "s" / made.file).rename(tmp_path / "s" / shard.file)
    hand.commit()
    (episode,) = rc.EpisodeStore(tmp_path / "s")
    assert episode.source == "é"
    for name, valid in wanted.items():
        np.testing.assert_array_equal(episode[name].valid, valid)
        np.testing.assert_array_equal(episode[name].values, rows[name][1])
        np.testing.assert_array_equal(episode[name].times, times)


def test_values_across_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags are replaced in whatever parts the file is copied."""
    path = write_store(tmp_path / "s", 1 << 20)
    monkeypatch.setattr(rewrite, "_CHUNK_BYTES", 7)
    mark(path, Mark(0, "flags", ((3, 20),), "x"), Mark(5, "flags", ((4, 6),), "x"))
    rc.EpisodeStore(path).verify()
    found = [episode["flags"].valid for episode in rc.EpisodeStore(path)]
    assert [int(flags.sum()) for flags in found] == [0, 17, 17, 17, 17, 15]


# ---- what goes wrong -----------------------------------------------------------------------------


def test_another_writer(tmp_path: Path) -> None:
    path = write_store(tmp_path / "s")
    before = {file.name: file.read_bytes() for file in path.glob("*.*")}
    with (
        rc.StoreWriter(path, append=True),
        pytest.raises(rc.StoreError, match="expected no other writer, got one: process"),
    ):
        mark(path, *MARKS)
    assert before == {file.name: file.read_bytes() for file in path.glob("*.*")}


def test_a_damaged_shard(tmp_path: Path) -> None:
    """It is not copied under a new checksum; the store is as it was."""
    path = write_store(tmp_path / "s")
    manifest = read_manifest(path)
    file = path / manifest["shards"][1]["file"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    expected = manifest["shards"][1]["crc32"]
    with pytest.raises(rc.StoreError, match=f"^{file}: expected checksum {expected}, got "):
        mark(path, Mark(0, "arm", ((0, 1),), "x"), Mark(1, "arm", ((0, 1),), "x"))
    assert read_manifest(path) == manifest
    assert not list(path.glob(".tmp-*"))
    assert {entry["file"] for entry in manifest["shards"]} == {
        one.name for one in path.glob("shard-*")
    }


def test_killed_at_every_file_operation(tmp_path: Path) -> None:
    """The n-th operation that changes files is never made: the store is the old or the new one."""
    source = write_store(tmp_path / "source")
    old = [[flags_of(rows) for rows in streams.values()] for streams in rows_of(source)]
    mark(write_store(tmp_path / "marked"), *MARKS)
    new = [[flags_of(rows) for rows in s.values()] for s in rows_of(tmp_path / "marked")]
    assert old != new
    seen = {"old": 0, "new": 0}
    for n in range(1000):
        path = write_store(tmp_path / f"killed-{n}")

        def child(n: int = n, path: Path = path) -> None:
            kill_at_operation(n)
            mark(path, *MARKS)

        _, status = os.waitpid(fork(child), 0)
        rc.EpisodeStore(path).verify()
        found = [[flags_of(rows) for rows in streams.values()] for streams in rows_of(path)]
        assert found in (old, new)
        seen["old" if found == old else "new"] += 1
        mark(path, *MARKS)  # the next one goes on
        rc.EpisodeStore(path).verify()
        assert [[flags_of(r) for r in s.values()] for s in rows_of(path)] == new
        assert not list(path.glob(".tmp-*")) and len(list(path.glob("statistics-*"))) == 1
        assert len(list(path.glob("shard-*"))) == len(read_manifest(path)["shards"])
        if status == 0:
            break
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert n > 25 and seen["old"] > 15 and seen["new"] > 3, (n, seen)


def flags_of(rows: dict[str, np.ndarray]) -> list[bool]:
    return list(rows.get("valid", np.ones(len(rows["times"]), bool)).tolist())


def test_a_reader_that_opens_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the old manifest, and its files are gone: it opens the new store."""
    from robocache.store import library

    path = write_store(tmp_path / "s")
    handle, opened = library._Handle, []

    def late(name: str) -> Any:
        opened.append(name)
        if len(opened) == 1:  # as if the shards were looked for after another process was done
            text = (path / "manifest.json").read_bytes()
            monkeypatch.setattr(library, "_Handle", handle)
            mark(path, *MARKS)
            monkeypatch.setattr(library, "_Handle", late)
            new = (path / "manifest.json").read_bytes()
            (path / "manifest.json").write_bytes(text)
            try:
                return handle(name)
            finally:
                (path / "manifest.json").write_bytes(new)
        return handle(name)

    monkeypatch.setattr(library, "_Handle", late)
    store = rc.EpisodeStore(path)
    assert len(opened) == 2 and not store[1]["arm"].valid.all()
    (path / read_manifest(path)["shards"][0]["file"]).unlink()
    message = f"^{path / read_manifest(path)['shards'][0]['file']}: "
    with pytest.raises(rc.StoreError, match=message):
        rc.EpisodeStore(path)
    assert len(opened) == 3, "what is gone stays gone: it does not try for ever"


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever file it fills up, the store is as it was, and nothing is left behind."""
    path = write_store(tmp_path / "s")
    before = {file.name: file.read_bytes() for file in path.glob("*.*")}
    write, writes = NewFile.write, 0

    def full(file: NewFile, data: bytes) -> None:
        nonlocal writes
        writes += 1
        if writes > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
        write(file, data)

    monkeypatch.setattr(NewFile, "write", full)
    for room in range(10):  # three shards, the statistics, the manifest
        writes = 0
        with pytest.raises(OSError, match="No space left"):
            mark(path, *MARKS)
        assert {file.name: file.read_bytes() for file in path.glob("*.*")} == before, room
    room, writes = 100, 0
    mark(path, *MARKS)
    assert writes == 10 and rc.EpisodeStore(path)[1]["arm"].valid is not None


def test_bfloat16(tmp_path: Path) -> None:
    """NumPy lacks the type; its rows are marked, and their statistics computed, all the same."""
    torch = pytest.importorskip("torch")
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("x", np.arange(6), torch.arange(6).to(torch.bfloat16)[:, None])
    assert mark(tmp_path / "s", Mark(0, "x", ((4, 6),), "by hand")) == 1
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    assert store.statistics["x"].max.tolist() == [3]
