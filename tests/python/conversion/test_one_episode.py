"""Several files of one take: converted to one episode, and proposed as one where they may be."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from conversions import robocache

import robocache as rc
from robocache.readers import ReadOptions, RecordingError
from robocache.readers.merged_recording import open_merged

UNIX = 1_700_000_000


def write_csv(path: Path, name: str, times: np.ndarray, columns: int = 1) -> Path:
    """A table of one stream."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [name] if columns == 1 else [f"{name}_{i}" for i in range(columns)]
    rows = [
        ",".join([f"{t:.4f}", *(f"{np.sin(t + i):.6f}" for i in range(columns))]) for t in times
    ]
    path.write_text("\n".join([",".join(["time", *names]), *rows]) + "\n")
    return path


@pytest.fixture
def take(tmp_path: Path) -> list[Path]:
    """Joints of 5 s at 100 Hz, and a force that begins later and ends earlier."""
    folder = tmp_path / "take"
    return [
        write_csv(folder / "joints.csv", "q", np.arange(500) / 100, 3),
        write_csv(folder / "force.csv", "force", np.arange(0.2, 4.8, 0.02)),
    ]


def test_files_become_one_episode(take: list[Path], tmp_path: Path) -> None:
    report = rc.convert(take, tmp_path / "one", one_episode=True)
    assert (report.recordings, report.episodes, report.rows) == (2, 1, {"q": 500, "force": 230})
    assert (report.formats, report.proposals, report.skipped) == ({"CSV": 2}, [], [])
    (episode,) = rc.EpisodeStore(tmp_path / "one")
    assert episode.streams == ("q", "force")
    assert episode.source == f"{tmp_path}/take/{{force.csv,joints.csv}}#0"
    for path, name, columns in ((take[0], "q", 3), (take[1], "force", 1)):
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        np.testing.assert_array_equal(episode[name].times, np.rint(table[:, 0] * 1e9))
        np.testing.assert_array_equal(
            episode[name].values.reshape(-1, columns), table[:, 1:].reshape(-1, columns)
        )
    again = rc.convert(take[::-1], tmp_path / "one", one_episode=True)  # in any order
    assert (again.episodes, again.already_there, again.skipped) == (0, 1, [])


def test_each_folder_is_a_take(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / name / "joints.csv", "q", np.arange(100) / 100)
        write_csv(tmp_path / name / "force.csv", "force", np.arange(50) / 50)
    folders = [tmp_path / "a", tmp_path / "b"]
    report = rc.convert(folders, tmp_path / "two", one_episode=True, workers=2)
    assert report.episodes == 2
    store = rc.EpisodeStore(tmp_path / "two")
    assert [episode.source for episode in store] == [f"{folder}#0" for folder in folders]
    assert all(set(episode.streams) == {"q", "force"} for episode in store)
    with pytest.raises(RecordingError) as refused:
        rc.convert(tmp_path, tmp_path / "three", one_episode=True)
    # (the store of this test is no recording, and not among them)
    assert str(refused.value) == (
        f"{tmp_path}: expected a folder with the recordings of one take, got recordings in 2 "
        f"folders, such as {tmp_path}/a (name these folders)"
    )


def test_files_are_a_take_before_those_of_folders(take: list[Path], tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "other" / "joints.csv", "q", np.arange(100) / 100, 3).parent
    rc.convert([folder, *take], tmp_path / "s", one_episode=True)
    found = [episode.source for episode in rc.EpisodeStore(tmp_path / "s")]
    assert found == [f"{tmp_path}/take/{{force.csv,joints.csv}}#0", f"{folder}/joints.csv#0"]


def test_a_take_that_changed_is_reported(take: list[Path], tmp_path: Path) -> None:
    rc.convert(take, tmp_path / "one", one_episode=True)
    write_csv(take[1], "force", np.arange(0.2, 4.0, 0.02))
    with pytest.raises(RecordingError, match="expected it as it was when it was converted"):
        rc.convert(take, tmp_path / "one", one_episode=True)


def test_streams_of_one_name_are_named_by_their_files(tmp_path: Path) -> None:
    left = write_csv(tmp_path / "left.csv", "force", np.arange(100) / 100)
    right = write_csv(tmp_path / "right.csv", "force", np.arange(200) / 100)
    other = write_csv(tmp_path / "arm.csv", "q", np.arange(200) / 100, 2)
    report = rc.convert([left, right, other], tmp_path / "s", one_episode=True)
    (episode,) = rc.EpisodeStore(tmp_path / "s")
    assert episode.streams == ("left/force", "right/force", "q")
    assert (len(episode["left/force"]), len(episode["right/force"])) == (100, 200)
    assert report.notes == ["streams called force, named left/force, right/force here: 2"]


def test_image_streams_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.savez(
            tmp_path / f"{name}.npz",
            camera=np.zeros((5, 8, 8, 3), np.uint8),
            camera_times_ns=np.arange(5) * 10**8,
            **{name: np.arange(5.0), f"{name}_times_ns": np.arange(5) * 10**8},
        )
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    with pytest.raises(RecordingError) as refused:
        rc.convert(files, tmp_path / "s", one_episode=True)
    assert str(refused.value).endswith(
        "expected image streams of different names, got camera in a.npz and b.npz (topics chooses "
        "streams)"
    )
    chosen = rc.convert(files, tmp_path / "t", one_episode=True, topics=["a", "b"])
    assert chosen.episodes == 1


def test_topics_match_in_one_file_at_least(take: list[Path]) -> None:
    with open_merged(take, ReadOptions(topics=("force", "q"))) as recording:
        (episode,) = recording.episodes()
        assert {rows.stream for rows in episode.read()} == {"q", "force"}
    with open_merged(take, ReadOptions(topics=("q",))) as recording:
        (episode,) = recording.episodes()
        assert {rows.stream for rows in episode.read()} == {"q"}
    with pytest.raises(RecordingError, match=r"topics: expected some of .*; got 'torque'"):
        open_merged(take, ReadOptions(topics=("q", "torque")))


def test_clocks_that_do_not_overlap_are_refused(take: list[Path], tmp_path: Path) -> None:
    far = write_csv(tmp_path / "take" / "far.csv", "g", UNIX + np.arange(100) / 10)
    with pytest.raises(RecordingError) as refused:
        rc.convert([*take, far], tmp_path / "s", one_episode=True)
    assert str(refused.value) == (
        f"{tmp_path}/take/{{far.csv,force.csv,joints.csv}}: expected recordings that overlap in "
        "time, to be one episode, got joints.csv (0.000 s to 4.990 s) and far.csv (2023-11-14 "
        "22:13:20 UTC to 2023-11-14 22:13:29 UTC) (two clocks? recordings of different takes are "
        "episodes of their own)"
    )
    result = robocache("convert", "--one-episode", tmp_path / "take", tmp_path / "s")
    assert result.returncode == 2
    assert result.stderr.startswith(f"robocache: {tmp_path}/take: expected recordings that overlap")


def test_recordings_of_several_episodes_are_refused(take: list[Path], tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        for demo in range(2):
            file[f"data/demo_{demo}/actions"] = np.zeros((10, 2))
    with pytest.raises(RecordingError) as refused:
        rc.convert([tmp_path / "demo.hdf5", *take], tmp_path / "s", one_episode=True, rate=10)
    assert str(refused.value).endswith(
        f"{tmp_path}/demo.hdf5: expected a recording of 1 episode, to be one with others, got 2"
    )


# ---- proposals -----------------------------------------------------------------------------------


def test_overlapping_files_are_proposed_with_a_command_that_works(
    take: list[Path], tmp_path: Path
) -> None:
    result = robocache("convert", "--time-unit", "s", *take, tmp_path / "s.store")
    assert result.returncode == 0
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("note: joints")]
    assert line.startswith(
        f"note: joints.csv, force.csv in {tmp_path}/take overlap in time, and became 2 episodes; "
        "if both are of one take, make one episode of them: robocache convert --one-episode "
        "--time-unit s "
    )
    command = shlex.split(line.partition("make one episode of them: ")[2])
    assert command[0] == "robocache" and command[-1] == f"{tmp_path}/s-one.store"
    assert robocache(*command[1:]).returncode == 0
    (episode,) = rc.EpisodeStore(command[-1])
    assert set(episode.streams) == {"q", "force"}


def test_takes_whose_clocks_begin_anew_are_not_proposed(tmp_path: Path) -> None:
    for number in range(3):
        write_csv(tmp_path / "r" / f"take{number}.csv", "q", np.arange(100 + number) / 100)
    assert rc.convert(tmp_path / "r", tmp_path / "s").proposals == []


def test_several_takes_of_several_files(tmp_path: Path) -> None:
    """By a clock that begins anew which files belong together is not known: an example."""
    for number in range(2):
        write_csv(tmp_path / "r" / f"{number}_joints.csv", "q", np.arange(100) / 100)
        write_csv(tmp_path / "r" / f"{number}_force.csv", "force", np.arange(100) / 100)
    (proposal,) = rc.convert(tmp_path / "r", tmp_path / "s").proposals
    assert re.search(
        r"became 4 episodes; if some are of one take, make one episode of each such take: "
        r"robocache convert --one-episode \S*/0_force.csv \S*/0_joints.csv \S*/s-one$",
        proposal,
    )


def test_takes_told_apart_by_the_clock(tmp_path: Path) -> None:
    for number in range(2):
        start = UNIX + 1000 * number
        write_csv(tmp_path / "r" / f"{number}_left.csv", "force", start + np.arange(100) / 100)
        write_csv(tmp_path / "r" / f"{number}_right.csv", "force", start + np.arange(100) / 100)
    first, second = rc.convert(tmp_path / "r", tmp_path / "s").proposals
    assert "0_left.csv, 0_right.csv" in first and "1_left.csv, 1_right.csv" in second
