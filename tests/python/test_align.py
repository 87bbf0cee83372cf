"""`rc.align` and `robocache align`: exact values, masks, files, and what is refused."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from conversions import robocache
from recordings import DATA, needs

import robocache as rc
from robocache.readers import open_recording, read_rows

MS = 1_000_000
START = 1_700_000_000_000_000_000
BAG = DATA / "husky_bag" / "husky.bag"


@pytest.fixture
def streams() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A force with a gap of 300 ms, and a gripper that begins later."""
    rng = np.random.default_rng(0)
    times = START + np.arange(200) * 10 * MS + rng.integers(0, 3 * MS, 200)
    times[100:] += 300 * MS
    grip_times = START + 500 * MS + np.arange(12) * 100 * MS
    return {
        "force": (rng.normal(size=(200, 3)), times),
        "grip": (np.arange(12) * 2**50 + 1, grip_times),
    }


def test_align_stays_a_function() -> None:
    """A package `robocache.align` would replace it on its first import."""
    rc.fuse  # noqa: B018 (loads the modules of alignment)
    assert inspect.isfunction(rc.align)


def test_values_against_numpy(streams: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    table = rc.align(streams, 50, max_gap=0.05)
    force, force_times = streams["force"]
    grip, grip_times = streams["grip"]
    first, last = force_times[0], force_times[-1]
    np.testing.assert_array_equal(table.times, np.arange(first, last + 1, 20 * MS))
    t = table.times
    inside = (t >= first) & (t <= last)
    after = np.minimum(np.searchsorted(force_times, t, "right"), len(force_times) - 1)
    near = force_times[after] - force_times[after - 1] <= 50 * MS
    np.testing.assert_array_equal(table["force"].valid, inside & near)
    for channel in range(3):
        since = (t - first).astype(float)
        expected = np.interp(since, (force_times - first).astype(float), force[:, channel])
        expected[~(inside & near)] = np.nan
        np.testing.assert_allclose(table["force"].values[:, channel], expected, atol=1e-9)
    row = np.searchsorted(grip_times, t, "right") - 1
    held = (row >= 0) & (t <= grip_times[-1]) & (t - grip_times[row] <= 50 * MS)
    np.testing.assert_array_equal(table["grip"].valid, held)
    assert table["grip"].values.dtype == grip.dtype  # beyond float64: rows are chosen
    np.testing.assert_array_equal(table["grip"].values[held], grip[row[held]])
    np.testing.assert_array_equal(table["grip"].age[held], (t - grip_times[row])[held])
    assert not table.valid.all() and table.valid.shape == (len(t), 2)


def test_the_span_where_all_streams_have_rows(
    streams: dict[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    table = rc.align(streams, 50, span="overlap")
    assert table.times[0] == streams["grip"][1][0] and table.valid.all()
    late = {**streams, "late": (np.zeros(2), START + np.array([5000, 6000]) * MS)}
    with pytest.raises(ValueError, match=r"^span: expected streams that overlap, got grip, which "):
        rc.align(late, 50, span="overlap")


def test_an_episode_is_aligned_by_its_stored_methods(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("pose", method="slerp_xyzw", channels=("x", "y", "z", "w"))
        with writer.episode() as new:
            new.add("pose", [0, 100 * MS], np.array([[0.0, 0, 0, 1], [0, 0, 1, 0]]))
            new.add("camera", [0, 100 * MS], np.zeros((2, 4, 4, 3), np.uint8))
    episode = rc.EpisodeStore(tmp_path / "s")[0]
    table = episode.align(rate=20)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(table["pose"].values[1], [0, 0, half, half], atol=1e-12)
    assert table.notes == ["images and wide streams are left out unless asked for: camera"]
    assert list(table.to_pandas().columns) == [
        "t_ns", "pose.x", "pose.y", "pose.z", "pose.w", "pose_valid", "pose_age_s"
    ]  # fmt: skip
    linear = rc.align(tmp_path / "s", 20, method={"pose": "linear"})
    assert linear.notes[1].startswith("pose looks like quaternions and is aligned linearly")
    asked = episode.align(rate=20, streams=["camera"])
    assert asked["camera"].values.shape == (3, 4, 4, 3)
    with pytest.raises(ValueError, match=r"^streams\[camera\]: expected numbers that fit columns"):
        asked.save(tmp_path / "x.csv")


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_files(
    suffix: str, streams: dict[str, tuple[np.ndarray, np.ndarray]], tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    table = rc.align(streams, 50, max_gap=0.05)
    path = tmp_path / f"table{suffix}"
    table.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if suffix == ".npz":
        with np.load(path) as arrays:
            for name, array in table.to_numpy().items():
                np.testing.assert_array_equal(arrays[name], array)
        return
    read = pandas.read_csv(path) if suffix == ".csv" else pandas.read_parquet(path)
    np.testing.assert_array_equal(read["t_ns"], table.times)
    np.testing.assert_array_equal(read["force.1"], table["force"].values[:, 1])
    np.testing.assert_array_equal(read["force_valid"], table["force"].valid)
    np.testing.assert_array_equal(read["grip"].isna(), ~table["grip"].valid)
    with open_recording(path) as recording:  # by this project's reader: valid rows alone
        (episode,) = recording.episodes()
        rows = [rows for rows in read_rows(recording, episode) if rows.stream == "force"]
    valid = table["force"].valid
    np.testing.assert_array_equal(np.concatenate([r.times for r in rows]), table.times[valid])
    np.testing.assert_array_equal(
        np.concatenate([r.values for r in rows]), table["force"].values[valid]
    )


@needs(BAG)
def test_a_ros_bag(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    table = rc.align(BAG, 50, max_gap=0.2)
    name = "/imu/data/linear_acceleration"
    with open_recording(BAG) as recording:
        (episode,) = recording.episodes()
        parts = [rows for rows in read_rows(recording, episode) if rows.stream == name]
    times = np.concatenate([rows.times for rows in parts])
    values = np.concatenate([rows.values for rows in parts])
    valid = table[name].valid
    assert valid.mean() > 0.95
    expected = np.interp(
        (table.times - times[0]).astype(float), (times - times[0]).astype(float), values[:, 1]
    )
    np.testing.assert_allclose(table[name].values[valid, 1], expected[valid], atol=1e-5)
    turns = table["/imu/data/orientation"]
    np.testing.assert_allclose(np.linalg.norm(turns.values[turns.valid], axis=1), 1, atol=1e-6)


def test_the_command_on_files_of_one_take(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,q\n" + "".join(f"{i / 10},{i}.5\n" for i in range(11)))
    (tmp_path / "b.csv").write_text("time,f\n" + "".join(f"{i / 20},{i}.0\n" for i in range(21)))
    out = tmp_path / "out.csv"
    result = robocache(
        "align", tmp_path / "a.csv", tmp_path / "b.csv", "--rate", 20, "--method", "q=previous",
        "-o", out,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].endswith("out.csv: 21 rows at 20 Hz, 1 s, 2 streams")
    lines = out.read_text().splitlines()
    assert lines[0] == "t_ns,t_s,q,q_valid,q_age_s,f,f_valid,f_age_s"
    assert lines[2] == "50000000,0.05,0.5,1,0.05,1.0,1,0.0"


def test_what_the_command_refuses(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,q\n0.0,1.5\n0.1,2.5\n")
    for arguments, message in (
        ((path, "--rate", 20, "-o", "x.txt"),
         "output: expected a name with .npz, .csv, .parquet, got x.txt"),
        ((path, "--rate", 0, "-o", "x.csv"),
         "rate: expected targets per second above 0, up to 1e9, got 0.0"),
        ((path, "--rate", 20, "-o", path),
         f"--output: expected another file than the recordings, got {path}"),
        ((path, "--rate", 20, "--episode", 3, "-o", tmp_path / "x.csv"),
         f"episode: expected one of the 1 of {path}, got 3"),
    ):  # fmt: skip
        result = robocache("align", *arguments, cwd=tmp_path)
        assert (result.returncode, " ".join(result.stderr.split())) == (2, f"robocache: {message}")
    assert path.read_text() == "time,q\n0.0,1.5\n0.1,2.5\n"


def test_two_clocks_are_refused() -> None:
    both = {
        "a": (np.zeros(3), np.arange(3) * MS),
        "b": (np.zeros(3), START + np.arange(3) * MS),
    }
    with pytest.raises(ValueError, match=r"^streams: expected the times of one clock, got a sil"):
        rc.align(both, 50)
