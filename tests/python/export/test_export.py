"""Export to LeRobot: aligned by this library, and what LeRobot itself reads."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import robocache
from message_files import MS, START, Messages, write
from numpy.typing import NDArray

import robocache as rc
from robocache.readers import ReadOptions, open_recording

pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")

RATE = 20


def gray(row: Any) -> Any:
    """The brightness of a frame says which it is."""
    return 7 * row % 250


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes: an arm at 100 Hz, a quaternion, a gripper, flags, a camera at 15 Hz."""
    path = tmp_path_factory.mktemp("export") / "store"
    rng = np.random.default_rng(0)
    with rc.StoreWriter(path) as writer:
        writer.declare("action", channels=("a", "b"))
        writer.declare("hand", method="slerp_xyzw")
        for number in range(3):
            n = 200 + 20 * number
            times = START + np.arange(n) * 10 * MS + rng.integers(0, 2 * MS, n)
            t = (times - START) / 1e9
            with writer.episode(f"task {number % 2}", f"made#{number}") as episode:
                episode.add("action", times, np.stack([np.sin(t), t], 1).astype(np.float32))
                half = t / 2
                q = np.stack([0 * t, 0 * t, np.sin(half), np.cos(half)], 1)
                episode.add("hand", times, q * rng.choice([-1, 1], (n, 1)))
                episode.add("gripper", times, np.arange(n) // 50)
                episode.add("flag", times, np.arange(n) % 40 < 20)
                episode.add("tactile/left", times, rng.normal(size=(n, 2, 3)).astype(np.float16))
                frames = 30 + 2 * number
                pictures = np.zeros((frames, 48, 64, 3), np.uint8)
                pictures[:] = gray(np.arange(frames))[:, None, None, None]
                episode.add("camera", START + np.arange(frames) * 66 * MS, pictures)
    return path


@pytest.fixture(scope="module")
def exported(store: Path) -> Path:
    path = store.parent / "set"
    streams = ["action", "hand", "gripper", "flag", "tactile/left"]
    report = rc.export_lerobot(store, path, RATE, streams=streams, robot_type="arm")
    assert (report.episodes, report.skipped, report.frames_across_gaps) == (3, [], 0)
    return path


def table_of(path: Path, pattern: str) -> dict[str, Any]:
    import pyarrow.parquet as pq

    table = pq.read_table(path / pattern)
    columns: dict[str, Any] = table.to_pydict()
    return columns


def test_frames_are_aligned(exported: Path) -> None:
    """By time, each stream by its own method; not the nearest row of each."""
    data = table_of(exported, "data/chunk-000/file-000.parquet")
    frame = np.array(data["frame_index"])
    episode = np.array(data["episode_index"])
    assert np.array_equal(data["index"], np.arange(len(frame)))
    np.testing.assert_allclose(data["timestamp"], frame / RATE, atol=1e-6)
    action, hand = np.array(data["action"]), np.array(data["hand"])
    t = action[:, 1].astype(np.float64)  # channel b is the time itself
    for number in range(3):
        steps = np.diff(t[episode == number])
        np.testing.assert_allclose(steps, 1 / RATE, atol=1e-6)
    np.testing.assert_allclose(action[:, 0], np.sin(t), atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(hand, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.abs(hand[:, 2]), np.abs(np.sin(t / 2)), atol=1e-4)
    assert set(data["gripper"]) == {0, 1, 2, 3, 4} and set(data["flag"]) == {True, False}


def test_what_the_set_says_of_itself(exported: Path) -> None:
    info = json.loads((exported / "meta" / "info.json").read_text())
    frames = len(table_of(exported, "data/chunk-000/file-000.parquet")["index"])
    assert info["codebase_version"] == "v3.0" and info["fps"] == RATE
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (3, frames, 2)
    assert info["robot_type"] == "arm" and info["video_path"] is None
    assert info["features"]["action"] == {"dtype": "float32", "shape": [2], "names": ["a", "b"]}
    assert info["features"]["tactile.left"]["dtype"] == "float32", "half floats are widened"
    episodes = table_of(exported, "meta/episodes/chunk-000/file-000.parquet")
    assert episodes["dataset_from_index"][1:] == episodes["dataset_to_index"][:-1]
    assert episodes["dataset_to_index"][-1] == frames
    assert episodes["tasks"] == [["task 0"], ["task 1"], ["task 0"]]
    statistics = json.loads((exported / "meta" / "stats.json").read_text())
    action = np.array(table_of(exported, "data/chunk-000/file-000.parquet")["action"])
    np.testing.assert_allclose(statistics["action"]["mean"], action.mean(0), rtol=1e-5)
    np.testing.assert_allclose(statistics["action"]["q50"], np.median(action, 0), rtol=1e-5)
    assert np.shape(statistics["tactile.left"]["std"]) == (2, 3)


def test_read_back_by_our_own_reader(store: Path, exported: Path) -> None:
    with open_recording(exported, ReadOptions()) as recording:
        episodes = recording.episodes()
        assert [episode.task for episode in episodes] == ["task 0", "task 1", "task 0"]
        streams = {rows.stream for rows in episodes[0].read()}
    assert {"action", "hand", "gripper", "flag", "tactile.left"} <= streams


def test_gaps_are_counted(tmp_path: Path) -> None:
    times = START + np.concatenate([np.arange(100), np.arange(150, 250)]) * 10 * MS
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("action", times, np.zeros((200, 1), np.float32))
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    assert (report.frames, report.frames_across_gaps) == (25, 5)


def test_channels_without_a_number(tmp_path: Path) -> None:
    """JSON has no NaN; the frames keep it, and other channels their statistics."""
    values = np.stack([np.full(50, np.nan), np.arange(50.0)], 1)
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        episode.add("bad", np.arange(50) * 20 * MS, values)
        episode.add("infinite", np.arange(50) * 20 * MS, np.full(50, np.inf))
        episode.add("good", np.arange(50) * 20 * MS, values[:, 1])
    report = rc.export_lerobot(tmp_path / "store", tmp_path / "set", 50)
    assert report.without_statistics == ["bad", "infinite"]

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = (tmp_path / "set/meta/stats.json").read_text()
    statistics = json.loads(text, parse_constant=refuse)
    assert statistics["bad"]["mean"] == [0, 24.5] and statistics["bad"]["max"] == [0, 49]
    assert statistics["infinite"]["std"] == [0] and statistics["good"]["q50"] == [24.5]
    data = table_of(tmp_path / "set", "data/chunk-000/file-000.parquet")
    assert np.isnan(np.array(data["bad"])[:, 0]).all()


def test_an_episode_whose_clock_was_set_is_left_out(tmp_path: Path) -> None:
    """Frames across half a century are not made: they would not fit into memory."""
    good = START + np.arange(100) * 10 * MS
    with rc.StoreWriter(tmp_path / "s") as writer:
        for times in ([0, *good[1:]], good, [-(2**63), *good[1:-1], 2**63 - 1]):
            with writer.episode() as episode:
                episode.add("a", times, np.zeros((100, 1)))
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    reason = "expected times without a jump of more than a day, got one in a"
    assert (report.episodes, report.skipped) == (1, [(0, reason), (2, reason)])


def test_bytes_that_are_no_pictures(tmp_path: Path) -> None:
    """Rows of two or five channels, or too small for any encoder, are exported as numbers."""
    shapes = {"two": (16, 16, 2), "five": (16, 16, 5), "small": (2, 2, 3)}
    rng = np.random.default_rng(0)
    values = {n: rng.integers(0, 256, (3, *shape), np.uint8) for n, shape in shapes.items()}
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        for name, rows in values.items():
            episode.add(name, np.arange(3) * 100 * MS, rows)
    rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    data = table_of(tmp_path / "set", "data/chunk-000/file-000.parquet")
    for name, rows in values.items():
        np.testing.assert_array_equal(np.array(data[name]), rows)
    info = json.loads((tmp_path / "set/meta/info.json").read_text())
    assert info["features"]["two"]["dtype"] == "uint8" and info["video_path"] is None


def test_a_full_disk(store: Path, tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in: one line says so, and nothing half-written is left."""
    result = robocache(
        "export", store, tmp_path / "set", "--rate", RATE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("robocache: ") and result.stderr.count("\n") == 1
    assert "File too large" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_episode_without_a_stream_is_left_out(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        for names in (("a", "b"), ("a",)):
            with writer.episode() as episode:
                for name in names:
                    episode.add(name, START + np.arange(100) * 10 * MS, np.zeros((100, 1)))
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    assert report.episodes == 1
    assert report.skipped == [(1, "expected all streams, got none of b")]
    assert rc.export_lerobot(tmp_path / "s", tmp_path / "a", 10, streams=["a"]).episodes == 2


def test_streams_are_chosen_by_patterns(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        for name in ("imu/gyro", "imu/accel", "joints"):
            episode.add(name, np.arange(5) * 100 * MS, np.ones((5, 2), np.float32))
    for pattern, features in (("imu*", ["imu.gyro", "imu.accel"]), ("gyro", ["imu.gyro"])):
        report = rc.export_lerobot(tmp_path / "s", tmp_path / pattern[0], 10, streams=[pattern])
        assert sorted(report.features) == sorted(features)


def read_back(path: Path) -> dict[str, list[NDArray[Any]]]:
    """The values of each stream as our reader sees them, an array an episode."""
    found: dict[str, list[NDArray[Any]]] = {}
    with open_recording(path, ReadOptions()) as recording:
        for episode in recording.episodes():
            pieces: dict[str, list[NDArray[Any]]] = {}
            for rows in episode.read():
                pieces.setdefault(rows.stream, []).append(rows.values)
            for name, values in pieces.items():
                found.setdefault(name, []).append(np.concatenate(values))
    return found


def test_static_transforms_are_held(tmp_path: Path) -> None:
    """A ROS 2 store: what was sent once is in every frame, and shortens no episode."""
    with rc.StoreWriter(tmp_path / "s") as writer:
        for name in ("/tf_static/base/lidar", "/tf_static/base/arm"):
            writer.declare(name, source="topic /tf_static (tf2_msgs/msg/TFMessage)")
        for number in range(2):
            begin = START + number * 60_000 * MS
            with writer.episode() as episode:
                episode.add("/joint", begin + np.arange(100) * 13 * MS, np.zeros((100, 2)))
                episode.add("/tf_static/base/lidar", [begin - 900 * MS], [[1.0, 2.0, number]])
                # An arm that is calibrated anew half a second after the start.
                replaced = [[0.0, 0, 0], [0.0, 0, 1]]
                episode.add("/tf_static/base/arm", begin + np.array([-1, 500]) * MS, replaced)
                map_ = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
                episode.add("/map", [begin + 900 * MS], map_, valid=[number == 0])
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    assert (report.episodes, report.frames, report.skipped) == (2, 26, [])
    assert report.held == ["/tf_static/base/lidar", "/tf_static/base/arm", "/map"]
    assert report.frames_across_gaps == 13, "the second map is not valid"
    values = read_back(tmp_path / "set")
    for number in range(2):
        lidar, arm = (values[f"tf_static.base.{part}"][number] for part in ("lidar", "arm"))
        np.testing.assert_array_equal(lidar, [[1, 2, number]] * 13)
        np.testing.assert_array_equal(arm[:, 2], [0] * 5 + [1] * 8)
        np.testing.assert_array_equal(values["map"][number], [[[0, 1], [2, 3]]] * 13)


def test_a_ros_2_bag_with_static_transforms(tmp_path: Path) -> None:
    """From the recording to the data set; they were sent before anything else, and once."""
    pytest.importorskip("rosbags", reason="ROS bags need rosbags")
    robot = Messages(2)
    placed = robot.make(
        "geometry_msgs/msg/TransformStamped",
        header=robot.header(START),
        child_frame_id="lidar",
        transform=robot.make(
            "geometry_msgs/msg/Transform",
            translation=robot.vector(1, 2, 3),
            rotation=robot.quaternion(0, 0, 0, 1),
        ),
    )
    kind = "tf2_msgs/msg/TFMessage"
    entries = [("/tf_static", kind, START, robot.make(kind, transforms=[placed]))]
    for i in range(100):
        at = START + (500 + 10 * i) * MS
        entries.append(("/imu", "sensor_msgs/msg/Imu", at, robot.imu(at, i)))
    rc.convert(write(tmp_path, "mcap", robot, entries), tmp_path / "s", images=False)
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 100)
    static = [name for name in rc.EpisodeStore(tmp_path / "s").streams if "tf_static" in name]
    assert report.held == static and len(static) == 2
    assert (report.episodes_as_recorded, report.frames) == (1, 100)
    (name,) = [feature for feature in report.features if feature.endswith("lidar.translation")]
    np.testing.assert_array_equal(read_back(tmp_path / "set")[name][0], [[1, 2, 3]] * 100)


def test_a_stream_with_one_row_in_one_episode_is_not_held(tmp_path: Path) -> None:
    """It was broken off; its other episodes say that it moves."""
    with rc.StoreWriter(tmp_path / "s") as writer:
        for rows in (50, 1):
            with writer.episode() as episode:
                episode.add("a", START + np.arange(50) * 20 * MS, np.zeros((50, 1)))
                episode.add("b", START + np.arange(rows) * 20 * MS, np.zeros((rows, 1)))
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    assert (report.held, report.frames) == ([], 10 + 1)


def test_streams_that_are_all_sent_once(tmp_path: Path) -> None:
    """None is held where no other says when the episode begins."""
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("a", [START], [[1.0]])
        episode.add("b", [START], [[2.0]])
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 10)
    assert (report.frames, report.held) == (1, [])


def write_at_rate(path: Path) -> dict[str, list[NDArray[Any]]]:
    """A store of 2 episodes at 30 Hz, of values that alignment would change."""
    rng = np.random.default_rng(0)
    written: dict[str, list[NDArray[Any]]] = {}
    with rc.StoreWriter(path) as writer:
        writer.declare("hand", method="slerp_xyzw")
        writer.declare("force", method="mean")
        for count in (40, 50):
            times = START + np.rint(np.arange(count) * 1e9 / 30).astype(np.int64)
            hand = rng.normal(size=(count, 4))  # neither of norm 1 nor of one sign
            force = rng.normal(size=(count, 3)).astype(np.float32)
            force[7], force[9, 1] = np.nan, -0.0
            values = {"hand": hand, "force": force, "grip": np.arange(count), "on": hand[:, 0] > 0}
            with writer.episode() as episode:
                for name, rows in values.items():
                    episode.add(name, times, rows)
                    written.setdefault(name, []).append(rows)
                episode.add("calibration", [START], [[1.0, 2.0]])
    return written


def assert_bit_equal(path: Path, written: dict[str, list[NDArray[Any]]]) -> None:
    """Asserts that our reader finds in a data set the values written to its store."""
    values = read_back(path)
    for name, episodes in written.items():
        for rows, got in zip(episodes, values[name], strict=True):
            assert got.dtype == rows.dtype and got.tobytes() == rows.tobytes(), name


def test_rows_at_the_rate_are_exported_as_they_are(tmp_path: Path) -> None:
    written = write_at_rate(tmp_path / "s")
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 30)
    assert (report.episodes, report.episodes_as_recorded, report.frames) == (2, 2, 90)
    assert (report.held, report.frames_across_gaps) == (["calibration"], 0)
    assert_bit_equal(tmp_path / "set", written)


@pytest.mark.parametrize(("off", "as_recorded"), [(99_000, 1), (101_000, 0)])
def test_rows_within_the_tolerance_of_frames(tmp_path: Path, off: int, as_recorded: int) -> None:
    """LeRobot takes 0.1 ms; the streams need not share their times to the nanosecond."""
    times = START + np.rint(np.arange(50) * 1e9 / 30).astype(np.int64)
    jitter = np.where(np.arange(50) % 3 == 1, off, 0)
    rng = np.random.default_rng(1)
    written = {"a": [rng.normal(size=(50, 3))], "b": [rng.normal(size=(50, 2))]}
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("a", times + jitter, written["a"][0])
        episode.add("b", times - jitter, written["b"][0])
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", 30)
    assert report.episodes_as_recorded == as_recorded
    if as_recorded:
        assert_bit_equal(tmp_path / "set", written)


@pytest.mark.parametrize(
    ("rate", "step_ns"),
    [(30, 1e9 / 29.97), (15, 1e9 / 30), (60, 1e9 / 30), (1e-12, 1e9 / 30)],
)
def test_rows_at_another_rate_are_aligned(tmp_path: Path, rate: float, step_ns: float) -> None:
    """A clock that is off by 0.1 % drifts from its frames by more than LeRobot tolerates."""
    times = START + np.rint(np.arange(50) * step_ns).astype(np.int64)
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("t", times, ((times - START) / 1e9)[:, None])
    report = rc.export_lerobot(tmp_path / "s", tmp_path / "set", rate)
    assert report.episodes_as_recorded == 0
    (t,) = read_back(tmp_path / "set")["t"]
    np.testing.assert_allclose(t[:, 0] if t.ndim > 1 else t, np.arange(len(t)) / rate, atol=1e-9)


def test_what_the_command_says(tmp_path: Path) -> None:
    write_at_rate(tmp_path / "s")
    done = robocache("export", tmp_path / "s", tmp_path / "set", "--rate", 30)
    assert done.stdout == (
        f"{tmp_path / 'set'}: LeRobot v3.0, 2 episodes, 90 frames at 30 Hz, hand, force, grip, on, "
        "calibration\n"
        "2 episodes at 30 Hz already: rows as recorded, nothing resampled\n"
        "sent once, held in every frame: calibration\n"
    )


def test_errors(store: Path, exported: Path, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="expected no file or folder there, got one"):
        rc.export_lerobot(store, exported, RATE)
    with pytest.raises(ValueError, match="rate: expected frames per second above 0, got 0"):
        rc.export_lerobot(store, tmp_path / "set", 0)
    with pytest.raises(ValueError, match=r"streams: expected some of action, .* got 'arm'"):
        rc.export_lerobot(store, tmp_path / "set", 5, streams=["arm"])
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        episode.add("index", [0, MS], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="expected a name that LeRobot does not have, got 'index'"):
        rc.export_lerobot(tmp_path / "s", tmp_path / "set", 5)
    rc.StoreWriter(tmp_path / "empty").close()
    with pytest.raises(ValueError, match=r"empty: expected at least 1 episode, got none$"):
        rc.export_lerobot(tmp_path / "empty", tmp_path / "set", 5)
    with rc.StoreWriter(tmp_path / "apart") as writer, writer.episode() as episode:
        episode.add("a", [0], [[1.0]])
        episode.add("b", [MS], [[1.0]])
    with pytest.raises(ValueError, match="overlap in time") as caught:
        rc.export_lerobot(tmp_path / "apart", tmp_path / "set", 5)
    assert str(caught.value) == (
        f"{tmp_path / 'apart'}: expected an episode that can be exported, got none; of episode 0: "
        "expected streams that overlap in time, got 'b', which begins 1 ms after 'a' ends "
        "(--stream chooses others)"
    )
    with rc.StoreWriter(tmp_path / "alike") as writer, writer.episode() as episode:
        episode.add("a/b", [0], [[1.0]])
        episode.add("a.b", [0], [[1.0]])
        episode.add("/", [0], [[1.0]])
    with pytest.raises(ValueError, match=r"differ where slashes are dots, got 'a/b' and 'a.b'$"):
        rc.export_lerobot(tmp_path / "alike", tmp_path / "set", 5)
    with pytest.raises(ValueError, match="expected a name that LeRobot does not have, got ''"):
        rc.export_lerobot(tmp_path / "alike", tmp_path / "set", 5, streams=["/"])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["alike", "apart", "empty", "s"], "nothing half-written is left"


def test_video_has_the_frames_of_their_times(store: Path, tmp_path: Path) -> None:
    """Each frame of the file is the one that was shown at its time: no off-by-one."""
    av = pytest.importorskip("av", reason="video needs av")
    rc.export_lerobot(store, tmp_path / "set", RATE, streams=["action", "camera"])
    episodes = table_of(tmp_path / "set", "meta/episodes/chunk-000/file-000.parquet")
    data = table_of(tmp_path / "set", "data/chunk-000/file-000.parquet")
    seconds = np.array(data["action"])[:, 1]  # since START
    with av.open(str(tmp_path / "set/videos/camera/chunk-000/file-000.mp4")) as file:
        shown = {
            round(frame.time * RATE): frame.to_ndarray(format="rgb24").mean()
            for frame in file.decode(video=0)
        }
    assert len(shown) == len(seconds)
    for frame, begin in zip(
        episodes["dataset_from_index"], episodes["videos/camera/from_timestamp"], strict=True
    ):
        assert begin == pytest.approx(frame / RATE)
    expected = gray((seconds * 1e3 + 1e-3).astype(int) // 66)
    got = np.array([shown[frame] for frame in range(len(seconds))])
    np.testing.assert_allclose(got, expected, atol=3)


def test_lerobot_opens_it(store: Path, tmp_path: Path) -> None:
    module = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="needs lerobot")
    for video in (True, False):
        path = tmp_path / f"set-{video}"
        rc.export_lerobot(store, path, RATE, video=video)
        offsets = {"action": [0, 1 / RATE, 2 / RATE], "camera": [-1 / RATE, 0]}
        dataset = module.LeRobotDataset(
            "made/here", root=path, delta_timestamps=offsets, video_backend="pyav"
        )
        assert dataset.num_episodes == 3 and dataset.fps == RATE
        for index in (0, 1, 30, len(dataset) - 1):
            item = dataset[index]
            seconds = float(item["action"][0, 1])
            assert float(item["camera"][1].mean()) * 255 == pytest.approx(
                gray(int(seconds * 1e3 + 1e-3) // 66), abs=3
            )
            assert (
                item["tactile.left"].shape == (2, 3)
                and item["flag"].dtype.is_floating_point is False
            )
            assert item["task"] in ("task 0", "task 1")
        assert dataset.meta.stats["camera"]["mean"].shape == (3, 1, 1)


def test_the_command(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from robocache.cli import main

    arguments = ["export", str(store), str(tmp_path / "set"), "--rate", "20", "--stream", "action"]
    monkeypatch.setattr(sys, "argv", ["robocache", *arguments, "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert report["episodes"] == 3 and report["features"] == ["action"]
