"""Conversion: parallel, resumable after any kill, honest about what it skips, bounded in memory."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robocache as rc
from robocache.conversion import run as conversion
from robocache.conversion.pools import Inline, Pool, Processes, run_in_order
from robocache.readers import RecordingError

START = 1_700_000_000_000_000_000
MS = 1_000_000


def write_recording(path: Path, seed: int, rows: int = 400, channels: int = 3) -> Path:
    """An NPZ file of one episode: an arm and, at another rate, a force."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        arm=rng.normal(size=(rows, channels)).astype(np.float32),
        arm_times_ns=START + np.arange(rows) * 10 * MS,
        force=rng.normal(size=(3 * rows, 2)),
        force_times_ns=START + np.arange(3 * rows) * 3 * MS,
    )
    return path


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A folder of eight."""
    for seed in range(8):
        write_recording(tmp_path / "recordings" / f"r{seed}.npz", seed)
    return tmp_path / "recordings"


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group for every two of these recordings, so that there are several commits."""
    monkeypatch.setattr(conversion, "LEAST_GROUP_BYTES", 90_000)


def content(path: Path) -> dict[str, Any]:
    """All that a store holds, by its episodes' sources."""
    store = rc.EpisodeStore(path)
    store.verify()
    episodes = {}
    for episode in store:
        streams = {}
        for name in episode.streams:
            rows = episode[name]
            streams[name] = (rows.values.tobytes(), rows.times.tobytes(), rows.values.dtype.str)
        assert episode.source not in episodes, "doubled"
        episodes[episode.source] = (episode.task, episode.subsets, streams)
    statistics = {
        name: (found.count.tolist(), found.min.tolist(), found.max.tolist())
        for name, found in store.statistics.items()
    }
    return {"episodes": list(episodes.items()), "statistics": statistics}


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != ".lock"}


def robocache(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "robocache.cli", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


# ---- what comes out ------------------------------------------------------------------------------


def test_a_folder(recordings: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = rc.convert(
        recordings, tmp_path / "s", progress=lambda done, total: calls.append((done, total))
    )
    assert (report.recordings, report.episodes, report.skipped) == (8, 8, [])
    assert report.rows == 8 * (400 + 1200)
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


def test_an_array_of_no_elements_is_left_out(tmp_path: Path) -> None:
    times = np.arange(3)
    np.savez(tmp_path / "r.npz", times_ns=times, x=np.zeros((3, 2)), empty=np.zeros((3, 0)))
    report = rc.convert(tmp_path / "r.npz", tmp_path / "s")
    assert list(rc.EpisodeStore(tmp_path / "s").streams) == ["x"]
    assert any("empty: left out" in note for note in report.notes)


def test_rows_beside_one_that_does_not_fit_are_counted(tmp_path: Path) -> None:
    for i, width in enumerate((2, 3, 2)):
        x = np.zeros((5000, width), np.float32)
        np.savez(tmp_path / f"{i}.npz", times_ns=np.arange(5000), x=x)
    report = rc.convert(tmp_path, tmp_path / "s", shard_bytes=1000)
    assert (report.episodes, report.rows, len(report.skipped)) == (2, 10_000, 1)


def test_a_bounded_shard(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s", shard_bytes=80_000)  # of two recordings
    shards = list((tmp_path / "s").glob("shard-*"))
    assert len(shards) == 4 and all(shard.stat().st_size < 90_000 for shard in shards)
    assert content(tmp_path / "s")["episodes"]


# ---- what can't be converted ---------------------------------------------------------------------


def spoil(recordings: Path) -> None:
    """The fourth of eight is cut short, and there is a file of no format."""
    os.truncate(recordings / "r3.npz", 3000)
    (recordings / "notes.txt").write_text("nothing")


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


# ---- stores that are there -----------------------------------------------------------------------


def test_more_recordings_of_the_same_folder(recordings: Path, tmp_path: Path) -> None:
    rc.convert(recordings, tmp_path / "s")
    write_recording(recordings / "r8.npz", 8)
    report = rc.convert(recordings, tmp_path / "s")
    assert (report.episodes, report.already_there) == (1, 8)
    rc.convert(recordings, tmp_path / "t")
    assert content(tmp_path / "s") == content(tmp_path / "t")


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


# ---- kills ---------------------------------------------------------------------------------------

KILLS = 50


def convert_and_kill(recordings: Path, store: Path, seconds: float, append: bool) -> bool:
    """Converts in a copy of this process, which is killed after a while; whether it was."""
    child = os.fork()
    if child == 0:  # no pytest, no torch here: a conversion and nothing else
        code = 1
        try:
            rc.convert(recordings, store, append=append)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def test_killed_at_any_instant(recordings: Path, tmp_path: Path, small_groups: None) -> None:
    """What a killed conversion leaves opens, and converting again gives what it would have been.

    Every other one appends to a store of another recording.
    """
    other = write_recording(tmp_path / "other.npz", 9)
    rc.convert(other, tmp_path / "appended")
    rc.convert(recordings, tmp_path / "appended", append=True)
    appended = content(tmp_path / "appended")
    whole_s = 9.0
    for number in range(3):
        begin = time.perf_counter()
        rc.convert(recordings, tmp_path / f"whole{number}")
        whole_s = min(whole_s, time.perf_counter() - begin)
    whole = content(tmp_path / "whole0")
    rng = np.random.default_rng(0)
    killed, partly = 0, 0
    for number, share in enumerate(rng.permutation(KILLS) / KILLS):
        store = tmp_path / f"s{number}"
        append = number % 2 == 1
        expected = appended if append else whole
        if append:
            rc.convert(other, store)
        seconds = whole_s * (share + rng.uniform(0, 0.02))
        killed += convert_and_kill(recordings, store, seconds, append)
        if append or (store / "manifest.json").exists():
            there = content(store)["episodes"]
            assert there == expected["episodes"][: len(there)]
            assert len(there) >= append, "what was there is lost"
            partly += append < len(there) < len(expected["episodes"])
        report = rc.convert(recordings, store, append=append)
        assert report.skipped == []
        assert content(store) == expected, f"kill {number}"
        assert not list(store.glob(".tmp-*"))
    assert killed > KILLS / 3 and partly > 3, (killed, partly)


def test_killed_with_workers(tmp_path: Path) -> None:
    """The workers of a killed conversion end too, and the next one finds nobody in its way."""
    recordings = tmp_path / "recordings"
    for seed in range(6):
        write_recording(recordings / f"r{seed}.npz", seed, rows=100_000)
    command = [sys.executable, "-m", "robocache.cli", "convert", recordings, tmp_path / "s",
               "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)))
    deadline = time.monotonic() + 60
    while not list((tmp_path / "s").glob(".tmp-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    children = children_of(process.pid)
    process.kill()
    process.wait()
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "workers go on without their parent"
        time.sleep(0.01)
    assert rc.convert(recordings, tmp_path / "s").skipped == []
    assert len(content(tmp_path / "s")["episodes"]) == 6


def children_of(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found


def test_a_full_disk(recordings: Path, tmp_path: Path) -> None:
    """What was committed stays, the error names the file, and with room made it goes on."""
    write_recording(recordings / "r5.npz", 5, rows=60_000)
    limit = 1_000_000
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from robocache.conversion import run\n"
        "run.LEAST_GROUP_BYTES = 90_000\n"
        "from robocache.cli import main\n"
        "main()\n"
    )
    arguments = ["convert", str(recordings), str(tmp_path / "s"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr and str(tmp_path / "s") in done.stderr
    there = content(tmp_path / "s")["episodes"]
    assert 0 < len(there) < 8
    assert rc.convert(recordings, tmp_path / "s").skipped == []
    rc.convert(recordings, tmp_path / "t")
    assert content(tmp_path / "s") == content(tmp_path / "t")


# ---- workers that die ----------------------------------------------------------------------------


def square_or_die(number: int, marks: str) -> int:
    """-3 kills its process always, -2 the first time."""
    mark = Path(marks) / str(number)
    if number == -3 or (number == -2 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number * number


def test_a_worker_that_dies(tmp_path: Path) -> None:
    """Its task runs again; one that kills every worker gives None, and no other task is lost."""
    numbers = [1, 2, -2, 3, 4, -3, 5, 6]
    pool = Processes(2)
    try:
        tasks = [(number, str(tmp_path)) for number in numbers]
        results = [result for _, result in run_in_order(pool, square_or_die, tasks)]
    finally:
        pool.close()
    assert results == [1, 4, 4, 9, 16, None, 25, 36]


def fail(number: int) -> int:
    raise OSError(28, f"no room for {number}")


def test_an_error_of_a_worker_is_raised() -> None:
    pools: list[Pool] = [Inline(), Processes(1)]
    for pool in pools:
        try:
            with pytest.raises(OSError, match="no room for 7"):
                list(run_in_order(pool, fail, [(7,), (8,)]))
        finally:
            pool.close()


# ---- Ray -----------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Any:
    """A local Ray with two workers."""
    ray = pytest.importorskip("ray", reason="conversion on Ray needs ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_ray_makes_no_difference(
    recordings: Path, tmp_path: Path, small_groups: None, cluster: Any
) -> None:
    spoil(recordings)
    report = rc.convert(recordings, tmp_path / "ray", ray="auto")
    assert report.episodes == 7 and len(report.skipped) == 1
    rc.convert(recordings, tmp_path / "s")
    assert files(tmp_path / "ray") == files(tmp_path / "s")


def test_a_killed_worker_of_ray(tmp_path: Path, small_groups: None, cluster: Any) -> None:
    """No episode is lost, and none is there twice."""
    recordings = tmp_path / "recordings"
    for seed in range(12):
        write_recording(recordings / f"r{seed:02d}.npz", seed, rows=30_000)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        """Once two recordings are converted, workers of the next ones."""
        if done < 2 or len(killed) >= 2:
            return
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    if b"ray::make_shards" in process.read_bytes():
                        killed.append(int(process.parent.name))
                        os.kill(killed[-1], signal.SIGKILL)
                        return
            time.sleep(0.002)

    report = rc.convert(recordings, tmp_path / "ray", ray="auto", progress=kill)
    assert killed, "no worker was seen at work"
    assert report.skipped == [] and report.episodes == 12
    rc.convert(recordings, tmp_path / "s")
    assert content(tmp_path / "ray") == content(tmp_path / "s")
    assert not list((tmp_path / "ray").glob(".tmp-*"))


def test_without_ray(recordings: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("ray"):
        pytest.skip("ray is installed")
    done = robocache("convert", recordings, tmp_path / "s", "--ray", "auto")
    assert done.returncode == 2
    assert done.stderr == "robocache: converting on Ray needs ray: pip install 'robocache[ray]'\n"


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.skipif(
    os.environ.get("ROBOCACHE_TEST_LARGE") != "1",
    reason="writes 3 GB and takes a minute; ROBOCACHE_TEST_LARGE=1 asks for it",
)
def test_memory_is_bounded(tmp_path: Path) -> None:
    """1.3 GB of images, in one long episode and ten short ones: all processes stay under 1 GiB."""
    rng = np.random.default_rng(0)
    for number, frames in enumerate([1200, *[120] * 10]):
        times = START + np.arange(frames) * 33 * MS
        pictures = rng.integers(0, 255, (frames, 360, 480, 3), dtype=np.uint8)
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"r{number:02d}.npz", camera=pictures, camera_times_ns=times)
        del pictures
    size = sum(file.stat().st_size for file in (tmp_path / "recordings").iterdir())
    assert size > 1 << 30
    command = [sys.executable, "-m", "robocache.cli", "convert", str(tmp_path / "recordings"),
               str(tmp_path / "s"), "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(command)
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for one in [process.pid, *children_of(process.pid)]:
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{one}/status").read_text()
                if "VmHWM:" in status:
                    peaks[one] = int(status.split("VmHWM:")[1].split()[0]) * 1024
        time.sleep(0.02)
    total = sum(peaks.values())
    print(f"{size:,} bytes converted; peaks {sorted(peaks.values())}, together {total:,} bytes")
    assert process.returncode == 0
    assert total < 1 << 30
    store = rc.EpisodeStore(tmp_path / "s")
    assert store.streams["camera"].rows == 2400
