"""Conversion: parallel, resumable after any kill, honest about what it skips, bounded in memory."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import content, files, robocache, spoil, write_recording

import robocache as rc
from robocache.conversion import run as conversion
from robocache.conversion import worker
from robocache.readers import RecordingError
from robocache.readers.tables.npz import Npz
from robocache.store import source_state as recorded
from robocache.store.shard import ShardWriter

# ---- what comes out ------------------------------------------------------------------------------


def test_a_folder(recordings: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = rc.convert(
        recordings, tmp_path / "s", progress=lambda done, total: calls.append((done, total))
    )
    assert (report.recordings, report.episodes, report.skipped) == (8, 8, [])
    assert report.rows == {"arm": 8 * 400, "force": 8 * 1200}
    assert calls[-1] == (8, 8)
    store = rc.EpisodeStore(tmp_path / "s")
    assert [episode.source for episode in store] == [
        f"{recordings}/r{seed}.npz#{store[seed].source.partition('#')[2]}" for seed in range(8)
    ]
    with np.load(recordings / "r3.npz") as arrays:
        for name in ("arm", "force"):
            np.testing.assert_array_equal(store[3][name].values, arrays[name])
            np.testing.assert_array_equal(store[3][name].times, arrays[f"{name}_times_ns"])
    assert store.statistics["force"].count.tolist() == [9600, 9600]


def test_workers_make_no_difference(recordings: Path, tmp_path: Path, small_groups: None) -> None:
    """Neither does the order in which they finish: every file has the same bytes."""
    one, two = tmp_path / "one", tmp_path / "two"
    rc.convert(recordings, one, workers=1)
    rc.convert(recordings, two, workers=2)
    assert len(list(one.glob("shard-*"))) >= 3
    assert files(one) == files(two)


def test_long_streams_have_the_same_statistics_each_time(tmp_path: Path) -> None:
    """Sketches are deterministic; other shards give other statistics within the same bounds."""
    for seed in range(3):
        write_recording(tmp_path / "r" / f"r{seed}.npz", seed, rows=40_000)
    rc.convert(tmp_path / "r", tmp_path / "one")
    rc.convert(tmp_path / "r", tmp_path / "two", workers=2)
    rc.convert(tmp_path / "r" / "r0.npz", tmp_path / "three", append=True)
    rc.convert(tmp_path / "r", tmp_path / "three", append=True)
    one, two, three = (rc.EpisodeStore(tmp_path / name) for name in ("one", "two", "three"))
    assert not one.statistics["force"].exact_quantiles
    assert files(tmp_path / "one") == files(tmp_path / "two")
    for rank, quantile in one.statistics["force"].quantiles.items():
        assert (two.statistics["force"].quantiles[rank] == quantile).all()
        assert np.abs(three.statistics["force"].quantiles[rank] - quantile).max() < 0.15


def test_several_sources_each_once(recordings: Path, tmp_path: Path) -> None:
    report = rc.convert([recordings / "r1.npz", recordings, recordings / "r0.npz"], tmp_path / "s")
    assert report.episodes == 8
    assert "r1.npz" in rc.EpisodeStore(tmp_path / "s")[0].source, "in the order given"


def test_a_recording_of_the_same_name_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        monkeypatch.chdir(tmp_path / day)
        np.savez("demo.npz", times_ns=np.arange(3), x=np.zeros((3, 2), np.float32))
        rc.convert("demo.npz", tmp_path / "s", append=True)
        assert rc.convert(f"../{day}/demo.npz", tmp_path / "s", append=True).episodes == 0
    assert [Path(one.source).parent.name for one in rc.EpisodeStore(tmp_path / "s")] == [
        "monday",
        "tuesday",
    ]


def test_an_array_of_no_elements_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = np.arange(3)
    np.savez(tmp_path / "r.npz", times_ns=times, x=np.zeros((3, 2)), empty=np.zeros((3, 0)))
    with caplog.at_level(logging.INFO, "robocache.conversion.run"):
        report = rc.convert(tmp_path / "r.npz", tmp_path / "s")
    assert list(rc.EpisodeStore(tmp_path / "s").streams) == ["x"]
    assert any("empty: left out" in note for note in report.notes)
    logged = [r.getMessage() for r in caplog.records if r.name == "robocache.conversion.run"]
    end = f"{tmp_path / 's'}: 1 episode added, 0 skipped"
    assert logged == [*(f"{tmp_path / 's'}: {note}" for note in report.notes), end]


def test_rows_beside_one_that_does_not_fit_are_counted(tmp_path: Path) -> None:
    for i, width in enumerate((2, 3, 2)):
        x = np.zeros((5000, width), np.float32)
        np.savez(tmp_path / f"{i}.npz", times_ns=np.arange(5000), x=x)
    report = rc.convert(tmp_path, tmp_path / "s", shard_bytes=1000)
    assert (report.episodes, report.rows, len(report.skipped)) == (2, {"x": 10_000}, 1)


def test_a_bounded_shard(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s", shard_bytes=80_000)  # of two recordings
    shards = list((tmp_path / "s").glob("shard-*"))
    assert len(shards) == 4 and all(shard.stat().st_size < 90_000 for shard in shards)
    assert content(tmp_path / "s")["episodes"]


def test_tables_do_not_need_pandas(tmp_path: Path) -> None:
    """pyarrow imports it, a second in every worker, for some of what it does."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"time": np.arange(3) / 10, "x": np.zeros(3), "y": [[1.0, 2.0]] * 3}),
        tmp_path / "r.parquet",
    )
    code = (
        "import sys\n"
        "import robocache as rc\n"
        "assert rc.convert(sys.argv[1], sys.argv[2]).rows == {'x': 3, 'y': 3}\n"
        "assert not {'pandas', 'torch'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r.parquet"), str(tmp_path / "s")]
    subprocess.run(command, check=True)


# ---- what can't be converted ---------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_file_is_reported_and_skipped(recordings: Path, tmp_path: Path, workers: int) -> None:
    spoil(recordings)
    done = robocache("convert", recordings, tmp_path / "s", "--workers", workers)
    assert done.returncode == 1, done.stderr
    assert f"skipped {recordings}/r3.npz" in done.stdout
    assert "7 episodes added" in done.stdout and "1 skipped" in done.stdout
    assert len(content(tmp_path / "s")["episodes"]) == 7
    again = robocache("convert", recordings, tmp_path / "s", "--json")
    report = json.loads(again.stdout)
    assert again.returncode == 1
    assert (report["episodes"], report["already_there"], len(report["skipped"])) == (0, 7, 1)
    assert report["skipped"][0]["source"].startswith(f"{recordings}/r3.npz")


@pytest.mark.parametrize("where", ["reading", "listing", "the shard"])
def test_no_memory_for_a_recording(
    recordings: Path,
    tmp_path: Path,
    small_groups: None,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    """It is reported, and the others are converted; without memory for a shard its group is."""

    def without_memory_for(path: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if any(path in str(getattr(one, "path", one)) for one in arguments):
                raise MemoryError("Unable to allocate 2 TiB")
            return function(*arguments)

        return call

    if where == "reading":
        monkeypatch.setattr(Npz, "read", without_memory_for("r3.npz", Npz.read))
    elif where == "listing":
        opening = without_memory_for("r3.npz", worker.open_recording)
        monkeypatch.setattr(worker, "open_recording", opening)
    else:
        monkeypatch.setattr(ShardWriter, "_note", without_memory_for("", ShardWriter._note))
    report = rc.convert(recordings, tmp_path / "s")
    skipped = [Path(one.source).name.partition("#")[0] for one in report.skipped]
    assert skipped == [f"r{i}.npz" for i in range(8) if where == "the shard" or i == 3]
    assert {one.reason for one in report.skipped} == {"out of memory: Unable to allocate 2 TiB"}
    monkeypatch.undo()
    assert report.episodes + rc.convert(recordings, tmp_path / "s").episodes == 8


def test_what_is_no_recording_is_reported_where_its_name_promises_one(
    recordings: Path, tmp_path: Path
) -> None:
    (recordings / "crashed.mcap").touch()
    (recordings / "notes.txt").touch()
    asked, folder = tmp_path / "asked.txt", tmp_path / "folder"
    asked.write_text("text")
    folder.mkdir()
    report = rc.convert([asked, recordings, folder], tmp_path / "s")
    assert report.episodes == 8
    assert [one.source for one in report.skipped] == [
        str(recordings / "crashed.mcap"),
        str(asked),
        str(folder),
    ]
    assert report.skipped[0].reason.endswith("MCAP (a .mcap file); got an empty file")


def test_names_are_printed_as_they_are(recordings: Path, tmp_path: Path) -> None:
    """Brackets are no markup."""
    (recordings / "r3.npz").rename(recordings / "r [bold]3.npz")
    os.truncate(recordings / "r [bold]3.npz", 3000)
    done = robocache("convert", recordings, tmp_path / "[s]")
    assert f"skipped {recordings}/r [bold]3.npz" in done.stdout
    assert done.stdout.startswith(f"{tmp_path}/[s]: 7 episodes added")


def test_strict_stops(recordings: Path, tmp_path: Path) -> None:
    spoil(recordings)
    done = robocache("convert", recordings, tmp_path / "s", "--strict")
    assert done.returncode == 2
    assert "r3.npz" in done.stderr and done.stderr.count("\n") == 1
    with pytest.raises(RecordingError, match=r"r3\.npz"):
        rc.convert(recordings, tmp_path / "s", strict=True)
    (recordings / "r3.npz").unlink()
    assert rc.convert(recordings, tmp_path / "s", strict=True).skipped == []
    assert len(content(tmp_path / "s")["episodes"]) == 7


@pytest.mark.parametrize("groups", ["one group", "several groups"])
def test_streams_that_differ(
    recordings: Path, tmp_path: Path, groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first recording says what streams are; others that differ are left out, and no more."""
    if groups == "several groups":
        monkeypatch.setattr(conversion, "LEAST_GROUP_BYTES", 60_000)
    for seed in (2, 4):  # the second begins a group: its shard does not fit the store
        write_recording(recordings / f"r{seed}.npz", seed, channels=5)
    report = rc.convert(recordings, tmp_path / "s")
    assert report.episodes == 6
    assert [Path(one.source.partition("#")[0]).name for one in report.skipped] == [
        "r2.npz",
        "r4.npz",
    ]
    assert all("expected F32 rows of shape [3]" in one.reason for one in report.skipped)
    assert not list((tmp_path / "s").glob(".tmp-*"))


def test_nothing_to_convert(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingError, match="expected a recording of a known format, got none"):
        rc.convert(tmp_path / "empty", tmp_path / "s")
    with pytest.raises(RecordingError, match="absent"):
        rc.convert(tmp_path / "absent", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_store_is_no_recording(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s")
    with pytest.raises(RecordingError, match="expected recordings, got an episode store"):
        rc.convert(tmp_path / "s", tmp_path / "t")


def test_wrong_options(recordings: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers: expected 1 or more, got 0"):
        rc.convert(recordings, tmp_path / "s", workers=0)
    with pytest.raises(ValueError, match="rate: expected rows per second above 0, got -1"):
        rc.convert(recordings, tmp_path / "s", rate=-1)
    done = robocache("convert", recordings, tmp_path / "s", "--resize", "big")
    assert done.returncode == 2
    assert done.stderr == "robocache: --resize: expected WxH such as 224x224, got 'big'\n"


def test_a_store_that_was_forgotten(recordings: Path) -> None:
    done = robocache("convert", recordings)
    assert (done.returncode, done.stderr) == (
        2,
        "robocache: STORE: expected a folder after the recordings, got none "
        f"(`robocache convert {recordings} my.store`)\n",
    )


def test_a_folder_that_cannot_be_made(recordings: Path, tmp_path: Path) -> None:
    done = robocache("convert", recordings, "/proc/s")
    assert (done.returncode, done.stderr) == (2, "robocache: /proc/s: No such file or directory\n")


# ---- stores that are there -----------------------------------------------------------------------


def test_more_recordings_of_the_same_folder(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s")
    write_recording(recordings / "r8.npz", 8)
    report = rc.convert(recordings, tmp_path / "s")
    assert (report.episodes, report.already_there) == (1, 8)
    rc.convert(recordings, tmp_path / "t")
    assert content(tmp_path / "s") == content(tmp_path / "t")


def test_a_recording_that_changed(recordings: Path, tmp_path: Path) -> None:
    """Its episode stays as it was, and is not taken for what the file holds by now."""
    rc.convert(recordings, tmp_path / "s")
    before = content(tmp_path / "s")
    assert rc.convert(recordings, tmp_path / "s").skipped == []
    size = (recordings / "r3.npz").stat().st_size
    write_recording(recordings / "r3.npz", 33, rows=500)
    os.utime(recordings / "r5.npz", ns=(0, 0))
    done = robocache("convert", recordings, tmp_path / "s", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["episodes"], report["already_there"]) == (1, 0, 8)
    assert [Path(one["source"]).name for one in report["skipped"]] == ["r3.npz"]
    assert report["notes"] == ["recordings with another date than when they were converted: 1"]
    reason = report["skipped"][0]["reason"]
    assert reason.startswith(f"expected it as it was when it was converted, {size:,} bytes of 20")
    assert reason.endswith("(converting to another store takes those of now)")
    assert content(tmp_path / "s") == before
    rc.merge_stores([tmp_path / "s"], tmp_path / "merged")
    assert len(rc.convert(recordings, tmp_path / "merged").skipped) == 1


@pytest.mark.parametrize("text", ["", "x", "[1]", "[[2, 5]]", "[[999999999999, 1, 2]]", "[[1]]"])
def test_what_is_known_of_recordings_may_be_foreign(text: str) -> None:
    assert recorded.from_text(text, 2) == [None, None]


def test_a_recording_that_grew(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    path = tmp_path / "demos.hdf5"
    for number in range(3):
        with h5py.File(path, "a") as file:
            file[f"data/demo_{number}/actions"] = np.full((5, 2), number, np.float32)
        report = rc.convert(path, tmp_path / "s", rate=10)
        assert (report.episodes, report.already_there, report.skipped) == (1, number, [])
        note = f"{path} has changed and has more episodes; those that were there stay: {number}"
        assert report.notes == [note][: min(number, 1)]
        assert rc.convert(path, tmp_path / "s", rate=10).notes == []


def test_other_recordings_need_append(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s")
    other = write_recording(tmp_path / "other.npz", 9)
    before = files(tmp_path / "s")
    with pytest.raises(rc.StoreError, match=r"got one with 8 other episodes.*append adds to it"):
        rc.convert(other, tmp_path / "s")
    assert files(tmp_path / "s") == before
    assert rc.convert(other, tmp_path / "s", append=True).episodes == 1
    assert len(rc.EpisodeStore(tmp_path / "s")) == 9


def test_one_writer_at_a_time(recordings: Path, tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s"):
        done = robocache("convert", recordings, tmp_path / "s")
    assert done.returncode == 2
    assert f"expected no other writer, got one: process {os.getpid()}" in done.stderr


def test_paths_of_another_type(tmp_path: Path) -> None:
    def message(call: Any, *arguments: Any) -> str:
        with pytest.raises(TypeError, match=r": expected .*, got ") as caught:
            call(*arguments)
        return str(caught.value)

    several = "sources: expected a file or folder, or a list of them, got "
    assert message(rc.convert, None, tmp_path / "store") == several + "NoneType"
    assert message(rc.convert, 3, tmp_path / "store") == several + "int"
    assert message(rc.convert, b"a.csv", tmp_path / "store") == several + "bytes"
    one = "sources[1]: expected a file or folder, got NoneType"
    assert message(rc.convert, ["a.csv", None], tmp_path / "store") == one
    folder = "destination: expected the folder of the store, got NoneType"
    assert message(rc.convert, "a.csv", None) == folder
    assert not (tmp_path / "store").exists()
    store = "expected the folder of an episode store, got NoneType"
    assert message(rc.EpisodeStore, None) == message(rc.StoreWriter, None) == f"path: {store}"
    assert message(rc.repair, None) == f"store: {store}"
