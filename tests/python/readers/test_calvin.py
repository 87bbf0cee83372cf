"""CALVIN's folders of steps, generated in the documented layout."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from privileges import unprivileged
from recordings import message_of, read_all

from robocache.readers import ReadOptions, find_recordings, open_recording
from robocache.readers.rows import row_times


def step(number: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(number)
    return {
        "actions": random.normal(size=7),
        "rel_actions": random.normal(size=7),
        "robot_obs": random.normal(size=15),
        "scene_obs": random.normal(size=24),
        "rgb_static": random.integers(0, 256, (20, 20, 3), np.uint8),
        "rgb_tactile": random.integers(0, 256, (16, 12, 6), np.uint8),
        "depth_static": random.random((20, 20), np.float32),
    }


def write(path: Path, ends: Any, steps: range) -> Path:
    path.mkdir(parents=True)
    np.save(path / "ep_start_end_ids.npy", np.asarray(ends))
    for number in steps:
        np.savez(path / f"episode_{number:07d}.npz", **step(number))
    return path


def test_every_row(tmp_path: Path) -> None:
    path = write(tmp_path / "training", [[20, 24], [10, 12]], range(9, 30))
    read, recording = read_all(path)
    assert recording.format == "CALVIN" and recording.notes == {}
    assert list(read) == ["steps_20_24", "steps_10_12"]
    for key, numbers in (("steps_20_24", range(20, 25)), ("steps_10_12", range(10, 13))):
        assert set(read[key]) == set(step(0))
        for name, rows in read[key].items():
            expected = np.stack([step(number)[name] for number in numbers])
            if name == "depth_static":
                expected = expected[..., None]
            assert rows.values.dtype == expected.dtype
            np.testing.assert_array_equal(rows.values, expected)
            np.testing.assert_array_equal(rows.times, row_times(0, len(numbers), 30))
    metadata = recording.streams["robot_obs"]
    assert metadata.channels is not None and len(metadata.channels) == 15
    assert metadata.method == (("linear", 3), ("angle", 3), ("linear", 8), ("previous", 1))
    with open_recording(path) as recording:
        assert recording.episodes()[0].subsets == ("training",)


def test_images(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 2]], range(3))
    read, recording = read_all(path, ReadOptions(images=False))
    assert set(read["steps_0_2"]) == {"actions", "rel_actions", "robot_obs", "scene_obs"}
    assert len(recording.notes) == 3
    read, _ = read_all(path, ReadOptions(resize=(10, 8), fit="stretch"))
    streams = read["steps_0_2"]
    assert streams["rgb_static"].values.shape == (3, 8, 10, 3)
    assert streams["rgb_tactile"].values.shape == (3, 8, 10, 6)
    # Depth takes the nearest pixel, and no mean of near and far.
    whole = np.stack([step(number)["depth_static"] for number in range(3)])
    assert np.isin(streams["depth_static"].values, whole).all()


def test_a_rate_that_is_not_30(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 2]], range(3))
    read, _ = read_all(path, ReadOptions(rate=10))
    assert read["steps_0_2"]["actions"].times.tolist() == [0, 100_000_000, 200_000_000]


def test_both_folders_are_found(tmp_path: Path) -> None:
    for name in ("validation", "training"):
        write(tmp_path / name, [[0, 0]], range(1))
    assert find_recordings(tmp_path) == [tmp_path / "training", tmp_path / "validation"]


def test_episodes_without_rows_and_annotations(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 1], [3, 2]], range(3))
    (path / "lang_annotations").mkdir()
    read, recording = read_all(path)
    assert list(read) == ["steps_0_1"]
    assert recording.notes == {
        "episodes without rows, skipped": 1,
        "folders of language annotations left out": 1,
    }


# ---- what is wrong -------------------------------------------------------------------------------


def test_a_step_that_is_absent(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 3]], range(3))
    missing = path / "episode_0000003.npz"
    assert message_of(path) == f"{missing}: expected the arrays of a step, got no such file"


def test_a_step_that_is_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 2]], range(3))
    damaged = path / "episode_0000001.npz"
    data = damaged.read_bytes()
    for size in (0, 3, 100, len(data) - 5):
        damaged.write_bytes(data[:size])
        assert message_of(path).startswith(f"{damaged}: expected the arrays of a step, got ")
    np.savez(damaged, **{**step(1), "actions": np.zeros(3)})
    assert message_of(path) == (
        f"{damaged}: expected actions as in the step before, float64 [7], got float64 [3]"
    )
    np.savez(damaged, **{name: a for name, a in step(1).items() if name != "actions"})
    assert message_of(path).startswith(f"{damaged}: expected the arrays of a step, got KeyError")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (np.zeros(2, np.int64), "expected integers [episodes, 2], got int64 [2]"),
        (np.zeros((2, 2)), "expected integers [episodes, 2], got float64 [2, 2]"),
    ],
)
def test_a_list_of_another_kind(tmp_path: Path, ends: NDArray[Any], message: str) -> None:
    path = write(tmp_path / "a", ends, range(1))
    assert message_of(path) == f"{path / 'ep_start_end_ids.npy'}: {message}"


def test_an_array_that_is_none(tmp_path: Path) -> None:
    """`numpy.load` returns the bytes of an array whose first ones are damaged."""
    path = write(tmp_path / "a", [[0, 2]], range(3))
    step = path / "episode_0000001.npz"
    with np.load(step) as file:
        arrays = {name: file[name] for name in file.files}
    with zipfile.ZipFile(step, "w") as file:
        for name in arrays:
            file.writestr(f"{name}.npy", b"\0" * 200)
    assert message_of(path).startswith(f"{step}: expected the arrays of a step, got ValueError: ")


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 2]], range(3))
    twice = path / "episode_0000001.npz"
    with zipfile.ZipFile(twice) as file:
        data = file.read("actions.npy")
    with (
        zipfile.ZipFile(twice, "a") as file,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        file.writestr("actions.npy", data)
    assert message_of(path) == f"{twice}: expected arrays of different names, got actions twice"


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = write(tmp_path / "a", np.array([[{}, {}]], object), range(1))
    ends = path / "ep_start_end_ids.npy"
    assert message_of(path) == (f"{ends}: expected numbers, got Python objects, which are not read")


def test_no_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 1]], range(0))
    assert message_of(path) == f"{path}: expected steps (episode_0000000.npz), got none"


def test_permission_denied(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [[0, 2]], range(3))
    closed = path / "episode_0000001.npz"
    closed.chmod(0)
    message = unprivileged(message_of, path)
    assert message == f"{closed}: expected the arrays of a step, got permission denied"
