"""HDF5 demonstrations: every row is what h5py reads, and what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged
from recordings import DATA, message_of, needs, read_all

from robocache.readers import ReadOptions, open_recording
from robocache.readers.rows import row_times

h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")

ISAAC = DATA / "isaaclab_hdf5" / "dataset.hdf5"
ROBOSUITE = DATA / "robosuite_hdf5" / "demo.hdf5"
AT_20 = ReadOptions(rate=20)


def write(path: Path, lengths: dict[str, int], **attributes: Any) -> Path:
    """robomimic's layout: actions, an observation, an image, an array without rows, a text."""
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        for name, value in attributes.items():
            data.attrs[name] = json.dumps(value)
        for key, rows in lengths.items():
            demo = data.create_group(key)
            numbers = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
            demo["actions"] = numbers + int(key.rpartition("_")[2]) * 1000
            demo["obs/eef_quat"] = np.zeros((rows, 4), ">f8")
            demo["obs/camera"] = np.full((rows, 16, 24, 3), 7, np.uint8)
            demo["next_obs/eef_quat"] = np.zeros((rows, 4))
            demo["initial_state/pose"] = np.zeros((1, 7))
            demo["done"] = np.arange(rows) == rows - 1
            demo.create_dataset("words", (rows,), h5py.string_dtype())
    return path


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=needs(p), id=p.parent.name) for p in (ISAAC, ROBOSUITE)]
)
def test_every_row_is_h5py(path: Path) -> None:
    read, recording = read_all(path, AT_20)
    with h5py.File(path) as file:
        demos = file["data"]
        assert set(read) == set(demos)
        numbers = [int(key.removeprefix("demo_")) for key in read]
        assert numbers == sorted(numbers)
        for key, streams in read.items():
            rows = len(demos[key]["actions"])
            for name, found in streams.items():
                expected = demos[key][name][()]
                assert found.values.dtype == expected.dtype
                np.testing.assert_array_equal(found.values, expected)
                np.testing.assert_array_equal(found.times, row_times(0, rows, 20))
            left_out: list[str] = []
            demos[key].visititems(
                lambda name, item, streams=streams, left_out=left_out: (
                    left_out.append(name)
                    if isinstance(item, h5py.Dataset) and name not in streams
                    else None
                )
            )
            assert all(name.startswith("initial_state/") for name in left_out)
    count = sum(recording.notes.values())
    assert count == (10 if path == ISAAC else 0)


@needs(ISAAC)
def test_quaternions_of_isaac_lab() -> None:
    with open_recording(ISAAC, AT_20) as recording:
        streams = recording.streams
    assert streams["obs/eef_quat"].method == "slerp_wxyz"
    assert streams["obs/cube_orientations"].method == (("slerp_wxyz", 4),) * 3
    pose = streams["states/rigid_object/cube_1/root_pose"]
    assert pose.method == (("linear", 3), ("slerp_wxyz", 4))
    assert pose.timeline == "rows" and pose.rate == 20


@needs(ISAAC)
def test_a_rate_that_nobody_says() -> None:
    assert message_of(ISAAC) == (
        f"{ISAAC}: expected a rate, since the recording has neither times nor a rate, got none "
        "(--rate, or rate=, says it)"
    )


@pytest.mark.parametrize(
    ("attributes", "rate"),
    [
        ({"env_args": {"env_kwargs": {"control_freq": 20}}}, 20),
        ({"env_info": {"control_freq": 50.0}}, 50),
        ({"env_args": {"sim_args": {"dt": 0.01, "decimation": 5}}}, 20),
    ],
)
def test_the_rate_of_the_environment(
    tmp_path: Path, attributes: dict[str, Any], rate: float
) -> None:
    path = write(tmp_path / "a", {"demo_0": 3}, **attributes)
    read, recording = read_all(path, ReadOptions(rate=7))
    assert recording.streams["actions"].rate == pytest.approx(rate)
    np.testing.assert_array_equal(read["demo_0"]["actions"].times, row_times(0, 3, rate))


def test_layout(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_10": 2, "demo_9": 5, "demo_1": 0, "demo_100": 1})
    with h5py.File(path, "a") as file:
        file["mask/train"] = np.array([b"demo_9", b"demo_10"])
        file["mask/valid"] = np.array([b"demo_100", b"demo_9"])
        file["data/demo_9"].attrs["ep_meta"] = json.dumps({"lang": "open the drawer"})
    read, recording = read_all(path, AT_20)
    assert list(read) == ["demo_9", "demo_10", "demo_100"]
    assert list(read["demo_9"]) == ["actions", "done", "obs/camera", "obs/eef_quat"]
    assert read["demo_9"]["obs/camera"].values.shape == (5, 16, 24, 3)
    assert read["demo_9"]["done"].values.tolist() == [False] * 4 + [True]
    assert read["demo_10"]["actions"].values.tolist() == [[10000, 10001], [10002, 10003]]
    assert recording.streams["obs/eef_quat"].method == "slerp_xyzw"
    assert recording.notes == {
        "episodes without rows, skipped": 1,
        "datasets of next_obs left out, obs has them a row earlier": 1,
        "datasets of type object left out (words)": 1,
        "datasets left out that have not a row a step (initial_state)": 1,
    }
    with open_recording(path, AT_20) as recording:
        episodes = {episode.key: episode for episode in recording.episodes()}
        assert episodes["demo_9"].task == "open the drawer"
        assert episodes["demo_10"].task is None
        assert episodes["demo_9"].subsets == ("train", "valid")
        assert episodes["demo_10"].subsets == ("train",)


def test_images_may_be_left_out_or_resized(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_0": 3, "demo_1": 2})
    read, recording = read_all(path, ReadOptions(rate=20, images=False))
    assert "obs/camera" not in read["demo_0"]
    note = "streams of images left out (obs/camera)"
    assert recording.notes[note] == 1
    read, _ = read_all(path, ReadOptions(rate=20, resize=(12, 8)))
    assert read["demo_0"]["obs/camera"].values.shape == (3, 8, 12, 3)
    assert (read["demo_0"]["obs/camera"].values == 7).all()


def test_topics(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_0": 3})
    read, _ = read_all(path, ReadOptions(rate=20, topics=("obs/e*", "done")))
    assert set(read["demo_0"]) == {"obs/eef_quat", "done"}
    with pytest.raises(ValueError, match=r"^topics: expected some of actions, .*; got 'x'$"):
        open_recording(path, ReadOptions(rate=20, topics=("x",)))


def test_long_streams_come_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    numbers = np.random.default_rng(0).integers(0, 256, (120, 400, 400, 3), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", data=np.zeros((120, 1)))
        file.create_dataset("data/demo_0/camera", data=numbers, chunks=(7, 400, 400, 3))
    with open_recording(path, AT_20) as recording:
        (episode,) = recording.episodes()
        sizes = [len(rows.times) for rows in episode.read() if rows.stream == "camera"]
    assert max(sizes) * 480_000 <= 32 << 20 and all(size % 7 == 0 for size in sizes[:-1])
    read, _ = read_all(path, AT_20)
    np.testing.assert_array_equal(read["demo_0"]["camera"].values, numbers)


# ---- what is wrong -------------------------------------------------------------------------------


def test_truncated(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_0": 500})
    data = path.read_bytes()
    for size in (20, 100, 1000, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        assert message_of(path, AT_20).startswith(f"{path}: expected HDF5, got OSError: ")


def test_a_shape_that_promises_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with h5py.File(path, "w") as file:
        actions = file.create_dataset("data/demo_0/actions", (10**16, 7), "f4", chunks=(64, 7))
        actions[:64] = 1
    assert message_of(path, AT_20) == (
        f"{path}, dataset /data/demo_0/actions: expected at most 4,294,967,296 bytes in all for "
        "1,792 stored bytes, got 360,000,000,000,000,000 (memory_limit, or --memory-limit, allows "
        "more)"
    )


def test_what_was_never_written_is_left_out(tmp_path: Path) -> None:
    """A recorder that reserved the room and crashed: HDF5 reads that as zeros."""
    path = write(tmp_path / "a", {"demo_0": 3})
    with h5py.File(path, "a") as file:
        file.create_dataset("data/demo_0/force", (3, 2), "f4", chunks=(1, 2))
        file.create_dataset("data/demo_0/zeros", data=np.zeros((3, 2)))
    read, recording = read_all(path, AT_20)
    assert "force" not in read["demo_0"] and "zeros" in read["demo_0"]
    note = "datasets left out that were declared and never written (force)"
    assert recording.notes[note] == 1


def test_another_layout(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with h5py.File(path, "w") as file:
        file["observations/qpos"] = np.zeros((3, 2))
        file["joints"] = np.zeros((3, 2))
    assert message_of(path, AT_20) == (
        f"{path}: expected a group data with a group for each demonstration (data/demo_0), "
        "got joints, observations"
    )
    with h5py.File(path, "w") as file:
        file["data/demo_0/obs/x"] = np.zeros((3, 2))
    assert message_of(path, AT_20) == (
        f"{path}: expected actions or num_samples in /data/demo_0, got obs"
    )


def test_demonstrations_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_0": 3, "demo_1": 2})
    with h5py.File(path, "a") as file:
        file["data/demo_1/extra"] = np.array([1, 2])
    read, _ = read_all(path, AT_20)
    assert "extra" not in read["demo_0"]
    assert read["demo_1"]["extra"].values.tolist() == [1, 2]
    with h5py.File(path, "a") as file:
        del file["data/demo_1/done"]
        file["data/demo_1/done"] = np.zeros(5)
    message = f"{path}: expected 2 rows in /data/demo_1/done, got 5"
    assert message_of(path, AT_20) == message


def test_without_episodes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with h5py.File(path, "w") as file:
        file.create_group("data")
    assert message_of(path, AT_20).endswith("(data/demo_0), got data")


def test_permission_denied(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"demo_0": 2})
    path.chmod(0)
    message = unprivileged(message_of, path, AT_20)
    assert message == f"{path}: expected a recording, got permission denied"
