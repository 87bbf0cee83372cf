"""Git LFS pointers in the place of recordings, and of files of recordings: `git lfs pull`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from lerobot_sets import FEATURES, write_v2
from recordings import DATA, message_of, needs

from robocache.readers import find_recordings

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
GOT = "got a Git LFS pointer (git lfs pull downloads the file itself)"


NAMES = (
    "a.bag a.db3 a.mcap a.ulg a.hdf5 a.npz a.parquet a.csv a.tsv a a.zarr.zip "
    "toy-train.tfrecord-00000-of-00001"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(POINTER)
    (tmp_path / "features.json").write_text("{}")  # as beside a file of RLDS
    assert message_of(path) == f"{path}: expected a recording, {GOT}"
    if path.suffix:
        assert path in find_recordings(tmp_path) or path.suffix == ".zip"


def test_a_large_file_that_begins_so_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(POINTER.encode() + bytes(2000))
    assert "Git LFS" not in message_of(path)


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("data/chunk-000/episode_000000.parquet", "a Parquet file"),
        ("meta/episodes.jsonl", "LeRobot's list of episodes"),
    ],
)
def test_files_of_lerobot(tmp_path: Path, file: str, what: str) -> None:
    pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    root = write_v2(tmp_path / "a", [3])
    (root / file).write_text(POINTER)
    assert message_of(root) == f"{root / file}: expected {what}, {GOT}"
    (root / "meta/info.json").write_text(POINTER)
    (root / file).unlink()
    assert message_of(root).endswith(f"; got a folder with meta/info.json, {GOT[4:]}")


def test_a_video_of_lerobot(tmp_path: Path) -> None:
    for library in ("pyarrow", "av", "PIL"):
        pytest.importorskip(library, reason=f"videos of LeRobot need {library}")
    camera = {"dtype": "video", "shape": [16, 24, 3], "names": ["h", "w", "c"]}
    root = write_v2(tmp_path / "a", [3], features={**FEATURES, "top": camera})
    video = root / "videos/chunk-000/top/episode_000000.mp4"
    video.parent.mkdir(parents=True)
    video.write_text(POINTER)
    assert message_of(root) == f"{video}: expected a video, {GOT}"


def test_a_step_of_calvin(tmp_path: Path) -> None:
    np.save(tmp_path / "ep_start_end_ids.npy", np.array([[0, 1]]))
    for step in (0, 1):
        (tmp_path / f"episode_000000{step}.npz").write_text(POINTER)
    assert message_of(tmp_path) == (
        f"{tmp_path}/episode_0000000.npz: expected the arrays of a step, {GOT}"
    )


PUSHT = DATA / "pusht_zarr" / "pusht.zarr"


@needs(PUSHT)
def test_a_chunk_of_zarr(tmp_path: Path) -> None:
    pytest.importorskip("zarr", reason="replay buffers need zarr")
    root = tmp_path / "a.zarr"
    (root / "meta").mkdir(parents=True)
    shutil.copytree(
        PUSHT / "meta", root / "meta", dirs_exist_ok=True, copy_function=shutil.copyfile
    )
    shutil.copyfile(PUSHT / ".zgroup", root / ".zgroup")
    chunk = root / "meta/episode_ends/0"
    chunk.write_text(POINTER)
    assert message_of(root) == f"{chunk}: expected a zarr group, {GOT}"


def test_a_database_of_ros(tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="ROS bags need rosbags")
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information:\n  version: 5\n")
    (tmp_path / "a.db3").write_text(POINTER)
    assert message_of(tmp_path).startswith(f"{tmp_path}/a.db3: expected a ROS 2 bag")
    assert message_of(tmp_path).endswith(GOT)
