"""Measure the readers of recordings beside the libraries that they read with.

Each format is generated, read by its library alone (the same columns, nothing else done with them)
and by robocache's reader. The two take turns, and the best of the repeats counts; files are in the
page cache.

Examples:
    python benchmarks/readers.py
    python benchmarks/readers.py --only zarr --repeats 10
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robocache.readers import ReadOptions, open_recording

FPS = 30
OPTIONS = ReadOptions(rate=FPS)  # of which the formats that have times or a rate need nothing
EPISODES, ROWS = 200, 500
IMAGE = (96, 96, 3)


@dataclass(frozen=True)
class Case:
    """A format: writes a recording, and reads it with the library alone."""

    name: str
    write: Callable[[Path], Path]
    read: Callable[[Path], Any]


def load(module: str) -> Any:
    """A library without types."""
    return importlib.import_module(module)


def random(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# ---- LeRobot -------------------------------------------------------------------------------------

VECTORS = {"observation.state": 26, "action": 26}


def episode_table(episode: int) -> Any:
    pa = load("pyarrow")

    columns: dict[str, Any] = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(random(ROWS * width)), width)
        for name, width in VECTORS.items()
    }
    columns["timestamp"] = np.arange(ROWS, dtype=np.float32) / np.float32(FPS)
    columns["frame_index"] = np.arange(ROWS)
    columns["episode_index"] = np.full(ROWS, episode)
    return pa.table(columns)


def write_info(root: Path, version: str) -> None:
    (root / "meta").mkdir(parents=True)
    features = {name: {"dtype": "float32", "shape": [width]} for name, width in VECTORS.items()}
    info = {"codebase_version": version, "fps": FPS, "features": features}
    (root / "meta" / "info.json").write_text(json.dumps(info))


def write_lerobot_v2(root: Path) -> Path:
    pq = load("pyarrow.parquet")

    write_info(root, "v2.1")
    folder = root / "data" / "chunk-000"
    folder.mkdir(parents=True)
    lines = []
    for episode in range(EPISODES):
        lines.append(json.dumps({"episode_index": episode, "length": ROWS, "tasks": ["a"]}))
        pq.write_table(episode_table(episode), folder / f"episode_{episode:06d}.parquet")
    (root / "meta" / "episodes.jsonl").write_text("\n".join(lines))
    return root


def write_lerobot_v3(root: Path) -> Path:
    pa = load("pyarrow")
    pq = load("pyarrow.parquet")

    write_info(root, "v3.0")
    data = root / "data/chunk-000/file-000.parquet"
    index = root / "meta/episodes/chunk-000/file-000.parquet"
    for path in (data, index):
        path.parent.mkdir(parents=True)
    first = episode_table(0)
    with pq.ParquetWriter(data, first.schema) as writer:  # as LeRobot: a row group an episode
        for episode in range(EPISODES):
            writer.write_table(episode_table(episode))
    zeros = np.zeros(EPISODES, np.int64)
    columns = {
        "episode_index": np.arange(EPISODES),
        "length": np.full(EPISODES, ROWS),
        "tasks": [["a"]] * EPISODES,
        "data/chunk_index": zeros,
        "data/file_index": zeros,
    }
    pq.write_table(pa.table(columns), index)
    return root


def read_parquet_files(root: Path) -> None:
    pq = load("pyarrow.parquet")

    for path in sorted(root.glob("data/*/*.parquet")):
        pq.read_table(path, columns=[*VECTORS, "timestamp"])


# ---- the others ----------------------------------------------------------------------------------


def write_hdf5(path: Path) -> Path:
    h5py = load("h5py")

    with h5py.File(path, "w") as file:
        for episode in range(EPISODES // 4):
            demo = file.create_group(f"data/demo_{episode}")
            for name, values in low_dimensional().items():
                demo[name] = values
            demo["obs/camera"] = np.random.default_rng(episode).integers(
                0, 256, (ROWS, *IMAGE), np.uint8
            )
    return path


def low_dimensional() -> dict[str, Any]:
    return {
        "actions": random(ROWS, 7),
        "obs/joint_pos": random(ROWS, 9),
        "obs/object": random(ROWS, 39),
    }


def write_hdf5_gzip(path: Path) -> Path:
    """As Isaac Lab writes it."""
    h5py = load("h5py")

    with h5py.File(path, "w") as file:
        for episode in range(EPISODES):
            demo = file.create_group(f"data/demo_{episode}")
            for name, values in low_dimensional().items():
                demo.create_dataset(name, data=values, compression="gzip")
    return path


def read_hdf5(path: Path) -> None:
    h5py = load("h5py")

    with h5py.File(path) as file:
        for demo in file["data"].values():
            demo["actions"][()]
            for dataset in demo["obs"].values():
                dataset[()]


def write_zarr(path: Path) -> Path:
    zarr = load("zarr")

    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    rows = EPISODES * 125
    for name, values in {
        "data/action": random(rows, 2),
        "data/state": random(rows, 5),
        "data/keypoint": random(rows, 9, 2),
        "meta/episode_ends": np.arange(1, EPISODES + 1) * 125,
    }.items():
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(161, *values.shape[1:])
        )
        array[...] = values
    return path


def read_zarr(path: Path) -> None:
    zarr = load("zarr")

    group = zarr.open_group(str(path), mode="r")
    for _, array in group["data"].arrays():
        array[...]


def write_calvin(path: Path) -> Path:
    path.mkdir()
    np.save(path / "ep_start_end_ids.npy", np.array([[0, ROWS - 1]]))
    for step in range(ROWS):
        np.savez(
            path / f"episode_{step:07d}.npz",
            actions=random(7),
            robot_obs=random(15),
            rgb_static=np.zeros((200, 200, 3), np.uint8),
        )
    return path


def read_calvin(path: Path) -> None:
    for step in range(ROWS):
        with np.load(path / f"episode_{step:07d}.npz") as file:
            for name in file.files:
                file[name]


def table() -> Any:
    pa = load("pyarrow")

    rows = EPISODES * ROWS
    columns = {f"joint_{number}": random(rows) for number in range(14)}
    return pa.table({"time": np.arange(rows) / 1000, **columns})


def write_csv(path: Path) -> Path:
    csv = load("pyarrow.csv")

    path = path.with_suffix(".csv")
    csv.write_csv(table(), path)
    return path


def read_csv(path: Path) -> None:
    csv = load("pyarrow.csv")

    csv.read_csv(path)


def write_parquet(path: Path) -> Path:
    pq = load("pyarrow.parquet")

    pq.write_table(table(), path)
    return path


def read_parquet(path: Path) -> None:
    pq = load("pyarrow.parquet")

    pq.read_table(path)


def write_npz(path: Path) -> Path:
    with path.open("wb") as file:
        np.savez(file, times=np.arange(ROWS * 20) / 100, state=random(ROWS * 20, 500))
    return path


def read_npz(path: Path) -> None:
    with np.load(path) as file:
        for name in file.files:
            file[name]


def write_video(root: Path) -> Path:
    """A LeRobot set of one episode with a video, 640x480, H.264."""
    av = load("av")
    pq = load("pyarrow.parquet")

    frames = 200
    write_info(root, "v2.1")
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"] = {"camera": {"dtype": "video", "shape": [480, 640, 3]}}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    line = {"episode_index": 0, "length": frames, "tasks": ["a"]}
    (root / "meta" / "episodes.jsonl").write_text(json.dumps(line))
    data = root / "data/chunk-000/episode_000000.parquet"
    video = root / "videos/chunk-000/camera/episode_000000.mp4"
    for path in (data, video):
        path.parent.mkdir(parents=True)
    pq.write_table(episode_table(0).slice(0, frames), data)
    scene = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    scene = scene.repeat(8, 0).repeat(8, 1)
    with av.open(str(video), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuv420p"
        for number in range(frames):
            moved = np.ascontiguousarray(np.roll(scene, 3 * number, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        container.mux(stream.encode())
    return root


def read_video(root: Path) -> None:
    av = load("av")

    with av.open(str(next(root.glob("videos/*/*/*.mp4")))) as container:
        container.streams.video[0].thread_type = "AUTO"
        for frame in container.decode(video=0):
            frame.to_ndarray(format="rgb24")


CASES = (
    Case("LeRobot v2.1", write_lerobot_v2, read_parquet_files),
    Case("LeRobot v3.0", write_lerobot_v3, read_parquet_files),
    Case("LeRobot video", write_video, read_video),
    Case("HDF5", write_hdf5, read_hdf5),
    Case("HDF5 gzip", write_hdf5_gzip, read_hdf5),
    Case("zarr", write_zarr, read_zarr),
    Case("CALVIN", write_calvin, read_calvin),
    Case("CSV", write_csv, read_csv),
    Case("Parquet", write_parquet, read_parquet),
    Case("NPZ", write_npz, read_npz),
)


def read_all(path: Path) -> int:
    """Every chunk of every episode: bytes of values."""
    with open_recording(path, OPTIONS) as recording:
        return sum(
            rows.values.nbytes for episode in recording.episodes() for rows in episode.read()
        )


def measure(case: Case, folder: Path, repeats: int) -> str:
    path = case.write(folder / case.name.replace(" ", "_"))
    size = read_all(path)
    library = reader = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        case.read(path)
        middle = time.perf_counter()
        read_all(path)
        library = min(library, middle - start)
        reader = min(reader, time.perf_counter() - middle)
    speeds = f"{size / library / 1e6:10,.0f} {size / reader / 1e6:10,.0f}"
    return f"{case.name:<14} {size / 1e6:8.1f} {speeds} {library / reader:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="formats whose name has this in it")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'format':<14} {'MB':>8} {'library':>10} {'reader':>10} {'ratio':>8}   (MB/s)")
    for case in CASES:
        if arguments.only.lower() in case.name.lower():
            with tempfile.TemporaryDirectory() as folder:
                print(measure(case, Path(folder), arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
