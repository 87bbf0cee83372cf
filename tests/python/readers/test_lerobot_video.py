"""Videos of LeRobot data sets whose frames are shown at other times than the rows' timestamps."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lerobot_sets import FEATURES, write_v2, write_v3
from recordings import message_of, read_all
from videos import number_of, write_video

pytest.importorskip("av", reason="videos need av")
pytest.importorskip("PIL.Image", reason="images need Pillow")

CAMERA = {"camera": {"dtype": "video", "shape": [48, 64, 3], "names": ["h", "w", "c"]}}
BY_NUMBER = "episodes whose video of camera is matched by number: a frame a row, at other times"
BETWEEN = [0.0, 0.05, 0.11, 0.16, 0.22, 0.27, 0.33, 0.38]  # about 18.3 Hz, in a set of 30 Hz


def set_of(tmp_path: Path, stamps: list[list[float]], write: Any = write_v2) -> Path:
    """A data set with a camera and these timestamps, its videos yet to be written."""
    pa = pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    root: Path = write(tmp_path / "set", [len(s) for s in stamps], features={**FEATURES, **CAMERA})
    tables = sorted(root.glob("data/*/*.parquet"))
    packed = stamps if len(tables) == len(stamps) else [list(itertools.chain(*stamps))]
    for path, seconds in zip(tables, packed, strict=True):
        table = pq.read_table(path)
        index = table.schema.get_field_index("timestamp")
        pq.write_table(table.set_column(index, "timestamp", pa.array(seconds)), path)
    (root / "videos/chunk-000/camera").mkdir(parents=True)
    (root / "videos/camera/chunk-000").mkdir(parents=True)
    return root


def cut(root: Path, **columns: list[float]) -> Path:
    """Where the episodes of a v3.0 set lie in its video; returns the video's path."""
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    (path,) = root.glob("meta/episodes/*/*.parquet")
    table = pq.read_table(path)
    for name in ("chunk_index", "file_index"):
        table = table.append_column(f"videos/camera/{name}", [[0] * len(table)])
    for name, values in columns.items():
        table = table.append_column(f"videos/camera/{name}", [values])
    pq.write_table(table, path)
    return root / "videos/camera/chunk-000/file-000.mp4"


def read_camera(root: Path) -> tuple[list[list[int]], dict[str, int]]:
    """The numbers of the frames of each episode, and the notes on videos."""
    read, recording = read_all(root)
    found = [[number_of(frame) for frame in one["camera"].values] for one in read.values()]
    for one in read.values():
        np.testing.assert_array_equal(one["camera"].times, one["action"].times)
    return found, {note: n for note, n in recording.notes.items() if "video" in note}


@pytest.mark.parametrize("late", [0, 30])
def test_a_frame_a_row_at_other_times(tmp_path: Path, late: int) -> None:
    """Frames 1/30 s apart, while the rows' timestamps are those of a robot at 18.3 Hz."""
    root = set_of(tmp_path, [BETWEEN, BETWEEN[:5]])
    for episode, count in enumerate((8, 5)):
        path = root / f"videos/chunk-000/camera/episode_{episode:06d}.mp4"
        write_video(path, [512 * (late + k) for k in range(count)], options={"bf": "2"})
    found, notes = read_camera(root)
    assert found == [list(range(8)), list(range(5))]
    assert notes == {BY_NUMBER: 2}


def test_frames_of_the_rate_are_matched_by_time(tmp_path: Path) -> None:
    """As many frames as rows, which share some of them: times decide where all rows have one."""
    root = set_of(tmp_path, [[0.0, 0.033, 0.034, 0.1]])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [0, 512, 1024, 1536])
    assert read_camera(root) == ([[0, 1, 1, 3]], {})


@pytest.mark.parametrize("frames", [7, 9])
def test_other_times_and_another_number_of_frames(tmp_path: Path, frames: int) -> None:
    root = set_of(tmp_path, [BETWEEN])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [512 * k for k in range(frames)])
    assert message_of(root) == (
        f"{path}: expected a frame at 0.050000 s (row 1), got 0.033333 s and 0.066667 s "
        "(--no-images, or images=False, leaves videos out)"
    )


@pytest.mark.parametrize("has_stop", [True, False])
def test_episodes_of_one_video_with_a_frame_a_row(tmp_path: Path, has_stop: bool) -> None:
    """Without to_timestamp, an episode lasts as long as its rows at the set's rate."""
    stamps = [BETWEEN, BETWEEN[:5], [k / 30 for k in range(4)]]
    root = set_of(tmp_path, stamps, functools.partial(write_v3, per_file=3))
    starts, stops = [0.0, 8 / 30, 13 / 30], [8 / 30, 13 / 30, 17 / 30]
    rest = {"to_timestamp": stops} if has_stop else {}
    write_video(cut(root, from_timestamp=starts, **rest), [512 * k for k in range(17)])
    assert read_camera(root) == (
        [list(range(8)), list(range(8, 13)), list(range(13, 17))],
        {BY_NUMBER: 2},
    )


def test_where_an_episode_ends_in_its_video(tmp_path: Path) -> None:
    """Frames 1/15 s apart in a set of 30 Hz: to_timestamp says which belong to an episode."""
    stamps = [[k / 30 for k in range(6)], [k / 30 for k in range(5)]]
    root = set_of(tmp_path, stamps, functools.partial(write_v3, per_file=2))
    video = cut(root, from_timestamp=[0.0, 6 / 15], to_timestamp=[6 / 15, 11 / 15])
    write_video(video, [1024 * k for k in range(11)])
    assert read_camera(root) == ([list(range(6)), list(range(6, 11))], {BY_NUMBER: 2})


@pytest.mark.parametrize("size", [0, 1000, -200])
def test_a_truncated_video_of_a_set(tmp_path: Path, size: int) -> None:
    root = set_of(tmp_path, [BETWEEN])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [512 * k for k in range(8)])
    path.write_bytes(path.read_bytes()[:size])
    assert message_of(root).startswith(f"{path}: expected a video, got ")
