"""How large decoded images get, said before a conversion: as large as they are after it."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import MS, START, messages_for, write

import robocache as rc
from robocache.readers import ReadOptions, open_recording

FRAMES = np.random.default_rng(0).integers(0, 256, (5, 16, 12, 3), np.uint8)


def write_hdf5(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    path = folder / "demos.hdf5"
    with h5py.File(path, "w") as file:
        for number in range(2):
            demo = file.create_group(f"data/demo_{number}")
            demo["actions"] = np.zeros((3 + number, 2))
            demo["obs/camera"] = FRAMES[: 3 + number]
            demo["obs/wrist"] = FRAMES[: 3 + number, :9, :10]
            demo["next_obs/camera"] = FRAMES[: 3 + number]  # left out
    return path


def write_zarr(folder: Path) -> Path:
    zarr = pytest.importorskip("zarr", reason="diffusion-policy needs zarr")
    group = zarr.open_group(str(folder / "set.zarr"), mode="w")
    group["data/action"] = np.zeros((5, 2), np.float32)
    group["data/img"] = FRAMES.astype(np.float32)  # stored as bytes
    group["data/wrist"] = FRAMES
    group["meta/episode_ends"] = np.array([2, 4])  # the last row belongs to none
    return folder / "set.zarr"


def write_npz(folder: Path) -> Path:
    np.savez(folder / "r.npz", times_ns=np.arange(5) * MS, camera=FRAMES, arm=np.zeros((5, 2)))
    return folder / "r.npz"


def write_calvin(folder: Path) -> Path:
    path = folder / "training"
    path.mkdir()
    np.save(path / "ep_start_end_ids.npy", [[0, 2], [3, 4]])
    for number in range(5):
        depth = np.zeros((16, 12), np.float32)
        np.savez(path / f"episode_{number:07d}.npz", rgb_static=FRAMES[number], depth_static=depth)
    return path


def write_bag(folder: Path, storage: str) -> Path:
    robot, kind = messages_for(storage), "sensor_msgs/msg/Image"
    jpeg = io.BytesIO()
    pytest.importorskip("PIL.Image", reason="images need Pillow").fromarray(FRAMES[0]).save(
        jpeg, "jpeg"
    )
    depth = np.zeros((16, 12), np.uint16).tobytes()
    entries: list[Any] = []
    for number, pixels in enumerate(FRAMES):
        at = START + number * MS
        rgb = robot.image(at, "rgb8", (16, 12), pixels.tobytes())
        entries.append(("/rgb", kind, at, rgb))
        entries.append(("/depth", kind, at, robot.image(at, "16UC1", (16, 12), depth)))
        compressed = robot.compressed(at, jpeg.getvalue())
        entries.append(("/jpeg", "sensor_msgs/msg/CompressedImage", at, compressed))
        bayer = robot.image(at, "bayer_rggb8", (16, 12), pixels[..., 0].tobytes())
        entries.append(("/bayer", kind, at, bayer))  # left out
        twist = robot.twist(float(number))
        entries.append(("/cmd", "geometry_msgs/msg/Twist", at, twist))
    return write(folder, storage, robot, entries)


FORMATS = {
    "hdf5": write_hdf5,
    "zarr": write_zarr,
    "npz": write_npz,
    "calvin": write_calvin,
    **{name: lambda folder, name=name: write_bag(folder, name) for name in ("bag", "db3", "mcap")},
}


def stored(path: Path) -> int:
    """Bytes of all image streams of a store, depth among them."""
    infos = rc.EpisodeStore(path).streams.values()
    return sum(info.rows * info.row_bytes for info in infos if len(info.shape) == 3)


@pytest.mark.parametrize("resize", [None, (10, 8)])
@pytest.mark.parametrize("name", FORMATS)
def test_sizes(
    tmp_path: Path, name: str, resize: tuple[int, int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    if resize is not None:
        pytest.importorskip("PIL.Image", reason="resizing needs Pillow")
    path = FORMATS[name](tmp_path)
    with caplog.at_level(logging.INFO, "robocache.conversion.disk_space"):
        report = rc.convert(path, tmp_path / "s", rate=10, resize=resize)
    assert report.skipped == []
    assert report.image_bytes == stored(tmp_path / "s") > 0
    texts = [r.getMessage() for r in caplog.records if r.name == "robocache.conversion.disk_space"]
    assert len(texts) == 1 and texts[0].startswith(f"{tmp_path}/s: decoded images take ")
    without = rc.convert(path, tmp_path / "t", rate=10, images=False) if name != "calvin" else None
    assert without is None or without.image_bytes == stored(tmp_path / "t") == 0


def test_recordings_of_one_take(tmp_path: Path) -> None:
    one, two = write_npz(tmp_path), tmp_path / "wrist.npz"
    np.savez(two, times_ns=np.arange(5) * MS, wrist=FRAMES)
    report = rc.convert([one, two], tmp_path / "s", one_episode=True)
    assert report.image_bytes == stored(tmp_path / "s") == 2 * FRAMES.nbytes


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    """Reading them says why; their size does not stop the conversion."""
    robot = messages_for("bag")
    broken = robot.compressed(START, b"no picture")
    entries = [
        ("/jpeg", "sensor_msgs/msg/CompressedImage", START, broken),
        ("/cmd", "geometry_msgs/msg/Twist", START, robot.twist(1)),
    ]
    path = write(tmp_path, "bag", robot, entries)
    with open_recording(path, ReadOptions()) as recording:
        assert recording.image_bytes() == 0


def test_an_mcap_file_without_an_index(tmp_path: Path) -> None:
    """It does not say how many messages there are: the size is not known."""
    module = pytest.importorskip("mcap.writer", reason="MCAP needs mcap")
    robot, kind = messages_for("mcap"), "sensor_msgs/msg/Image"
    text, _ = robot.store.generate_msgdef(kind, ros_version=2)
    data = bytes(
        robot.store.serialize_cdr(robot.image(START, "rgb8", (16, 12), FRAMES[0].tobytes()), kind)
    )
    for name, options, expected in (
        ("plain", {"index_types": module.IndexType.NONE}, None),
        ("indexed", {}, 3 * FRAMES[0].nbytes),
    ):
        path = tmp_path / f"{name}.mcap"
        with path.open("wb") as file:
            writer = module.Writer(file, **options)
            writer.start(profile="", library="test")
            schema = writer.register_schema(kind, "ros2msg", text.encode())
            channel = writer.register_channel("/rgb", "cdr", schema)
            for number in range(3):
                writer.add_message(channel, START + number, data, START + number)
            writer.finish()
        with open_recording(path, ReadOptions()) as recording:
            assert recording.image_bytes() == expected
        assert rc.convert(path, tmp_path / f"{name}.store").image_bytes == (expected or 0)
