"""Measure the conversion of camera frames: JPEG that is kept, and video that becomes JPEG.

*kept*: recordings of JPEG frames (quality 90, 4:2:0) in RLDS and HDF5, converted with
`--images keep`: MB/s of the recording, by wall time and per second of CPU time, workers included,
which other programs disturb less. Beside it stand the parts that no conversion can do without, on
one core: reading the recording with its library (RLDS: the bytes of the file), computing the
indices, and writing as many bytes with a checksum.

*video*: videos of LeRobot sets, converted with `--images jpeg:95`, those of 640 x 480 and 480 x 640
also with `--resize 224`. Peers are PyAV with as many threads, decoding only, and decoding to arrays
of RGB, which is what its users get. Times of all take turns; the best of the repeats counts.

Frames are generated, or those of a folder (`jpeg_frames.py` writes some). The store is written to
--folder, by default a temporary one: in /dev/shm no disk limits it.

Examples:
    python benchmarks/convert_images.py --folder /dev/shm
    python benchmarks/convert_images.py --frames g1_640x480 --only kept --megabytes 400
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import readers
import robocache as rc
from robocache.jpeg.frames import index_frames
from robocache.readers.rlds.tfrecord import masked_crc
from robocache.store.library import crc32

QUALITY, RATE = 90, 30.0
ROWS = 400  # frames of an episode
DISTINCT = 60  # frames of a recording, repeated
VIDEO_SECONDS = {(224, 224): 100, (640, 480): 25, (480, 640): 25}
CODECS = {"H.264": ("libx264", {"crf": "23"}), "AV1": ("libsvtav1", {"crf": "30", "preset": "10"})}


@dataclass
class Times:
    """Seconds that went by, and of CPU time with ended children: the least of several calls."""

    wall: float = float("inf")
    cpu: float = float("inf")

    def add(self, call: Callable[[], object]) -> None:
        start, cpu = time.perf_counter(), sum(os.times()[:4])
        call()
        self.wall = min(self.wall, time.perf_counter() - start)
        self.cpu = min(self.cpu, sum(os.times()[:4]) - cpu)


def pictures(folder: Path | None, width: int, height: int) -> list[Image.Image]:
    """Frames of a size."""
    if folder is not None:
        found = [Image.open(path).convert("RGB") for path in sorted(folder.glob("*.jpg"))]
    else:
        from frames import scene  # imports torch: workers, which import this file, need none

        found = [Image.fromarray(scene(seed)) for seed in range(DISTINCT)]
    return [image.resize((width, height), Image.Resampling.LANCZOS) for image in found]


def encoded(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=QUALITY, subsampling=2)
    return file.getvalue()


# ---- recordings of JPEG --------------------------------------------------------------------------


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def write_rlds(root: Path, files: list[bytes], episodes: int) -> Path:
    root.mkdir()
    steps = {
        "action": {"tensor": {"shape": {"dimensions": ["7"]}, "dtype": "float32"}},
        "image": {"image": {"dtype": "uint8", "encodingFormat": "jpeg"}},
    }
    sequence = {"sequence": {"feature": {"featuresDict": {"features": steps}}}}
    features = {"featuresDict": {"features": {"steps": sequence}}}
    (root / "features.json").write_text(json.dumps(features))
    splits = [{"name": "train", "shardLengths": [str(episodes)]}]
    (root / "dataset_info.json").write_text(json.dumps({"splits": splits}))
    with (root / "cameras-train.tfrecord-00000-of-00001").open("wb") as file:
        for episode in range(episodes):
            chosen = [files[(7 * episode + row) % len(files)] for row in range(ROWS)]
            lists = {
                b"steps/image": field(1, b"".join(field(1, each) for each in chosen)),
                b"steps/action": field(2, field(1, bytes(4 * 7 * ROWS))),
            }
            entries = (field(1, field(1, key) + field(2, each)) for key, each in lists.items())
            record = field(1, b"".join(entries))
            length = struct.pack("<Q", len(record))
            for part in (length, record):
                file.write(part + struct.pack("<I", masked_crc(part)))
    return root


def write_hdf5(path: Path, files: list[bytes], episodes: int) -> Path:
    h5py = readers.load("h5py")
    longest = max(map(len, files))
    rows = np.zeros((len(files), longest), np.uint8)
    for row, each in zip(rows, files, strict=True):
        row[: len(each)] = np.frombuffer(each, np.uint8)
    with h5py.File(path, "w") as file:
        for episode in range(episodes):
            demo = file.create_group(f"data/demo_{episode}")
            demo["actions"] = np.zeros((ROWS, 7), np.float32)
            demo["obs/camera"] = rows[(7 * episode + np.arange(ROWS)) % len(files)]
    return path


def read_rlds(path: Path) -> None:
    for file in path.glob("*.tfrecord*"):
        file.read_bytes()


def read_hdf5(path: Path) -> None:
    h5py = readers.load("h5py")
    with h5py.File(path) as file:
        for demo in file["data"].values():
            demo["obs/camera"][()]


FORMATS: dict[str, tuple[Callable[[Path, list[bytes], int], Path], Callable[[Path], None]]] = {
    "RLDS": (write_rlds, read_rlds),
    "HDF5": (write_hdf5, read_hdf5),
}


def bytes_of(path: Path) -> int:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(file.stat().st_size for file in files)


def write_checked(path: Path, data: memoryview, size: int) -> None:
    """Writes `size` bytes with their checksum."""
    checksum = 0
    with path.open("wb") as file:
        for begin in range(0, size, len(data)):
            part = data[: size - begin]
            checksum = crc32(part, checksum)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def measure_kept(
    name: str, size: tuple[int, int], folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    write, read = FORMATS[name]
    files = [encoded(image) for image in pictures(arguments.frames, *size)]
    mean = sum(map(len, files)) / len(files)
    episodes = max(1, round(arguments.megabytes * 1e6 / mean / ROWS))
    path = write(folder / f"recording.{name.lower()}", files, episodes)
    store, total = folder / "store", mean * ROWS * episodes

    def convert(workers: int) -> None:
        shutil.rmtree(store, ignore_errors=True)
        rc.convert([path], store, images="keep", rate=RATE, workers=workers)

    convert(1)
    stored = bytes_of(store)
    frames = rc.JpegFrames.from_files(files)
    block = memoryview(b"".join(files))[: 1 << 20]
    reading, indexing, writing = Times(), Times(), Times()
    converting = {workers: Times() for workers in arguments.workers}
    for _ in range(arguments.repeats):
        for workers, times in converting.items():
            times.add(lambda workers=workers: convert(workers))  # type: ignore[misc]
        reading.add(lambda: read(path))
        for _ in range(10):
            indexing.add(lambda: [index_frames(frames, 1) for _ in range(10)])
        writing.add(lambda: write_checked(folder / "copy", block, stored))
    index_seconds = indexing.cpu / (10 * len(files) * mean) * total
    for part in (path, store):
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    result: dict[str, Any] = {
        "format": name,
        "size": "x".join(map(str, size)),
        "frames": ROWS * episodes,
        "frame_bytes": round(mean),
        "read_mb_s": total / reading.cpu / 1e6,
        "index_mb_s": total / index_seconds / 1e6,
        "write_mb_s": total / writing.cpu / 1e6,
        "parts_mb_s": total / (reading.cpu + index_seconds + writing.cpu) / 1e6,
    }
    for workers, times in converting.items():
        result[f"workers_{workers}_mb_s"] = total / times.wall / 1e6
        result[f"workers_{workers}_mb_cpu_s"] = total / times.cpu / 1e6
    return result


# ---- video ---------------------------------------------------------------------------------------


def write_video(root: Path, images: list[Image.Image], codec: str, rows: int) -> Path:
    """A LeRobot set with a video that pans over frames."""
    av = readers.load("av")
    pq = readers.load("pyarrow.parquet")
    width, height = images[0].size
    readers.write_info(root, "v2.1")
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"] = {"camera": {"dtype": "video", "shape": [height, width, 3]}}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    line = {"episode_index": 0, "length": rows, "tasks": ["a"]}
    (root / "meta" / "episodes.jsonl").write_text(json.dumps(line))
    data = root / "data/chunk-000/episode_000000.parquet"
    video = root / "videos/chunk-000/camera/episode_000000.mp4"
    for path in (data, video):
        path.parent.mkdir(parents=True)
    vars(readers)["ROWS"] = rows
    pq.write_table(readers.episode_table(0), data)
    name, options = CODECS[codec]
    with av.open(str(video), "w") as container:
        stream = container.add_stream(name, rate=round(RATE), options={**options, "g": "2"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for row in range(rows):
            image = np.asarray(images[row // 40 % len(images)])
            moved = np.ascontiguousarray(np.roll(image, row % 40, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        container.mux(stream.encode())
    return video


def decode(video: Path, to_rgb: bool) -> None:
    av = readers.load("av")
    with av.open(str(video)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for frame in container.decode(video=0):
            if to_rgb:
                frame.to_ndarray(format="rgb24")


def measure_video(
    codec: str, size: tuple[int, int], resized: bool, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    rows = round(VIDEO_SECONDS[size] * RATE)
    root, store = folder / "set", folder / "store"
    video = write_video(root, pictures(arguments.frames, *size), codec, rows)

    def convert() -> None:
        shutil.rmtree(store, ignore_errors=True)
        resize = (224, 224) if resized else None
        rc.convert([root], store, images="jpeg:95", resize=resize, workers=1)

    convert()
    planes, rgb, converting = Times(), Times(), Times()
    for _ in range(arguments.repeats):
        planes.add(lambda: decode(video, False))
        rgb.add(lambda: decode(video, True))
        converting.add(convert)
    shutil.rmtree(root)
    shutil.rmtree(store)
    return {
        "codec": codec,
        "size": "x".join(map(str, size)),
        "stored": "224x224" if resized else "x".join(map(str, size)),
        "pyav_frames_s": rows / planes.wall,
        "pyav_rgb_s": rows / rgb.wall,
        "convert_s": rows / converting.wall,
        "of_frames": planes.wall / converting.wall,
        "of_rgb": rgb.wall / converting.wall,
        "cpu_ms": [1e3 * each.cpu / rows for each in (planes, rgb, converting)],
    }


VIDEOS = (
    ("H.264", (224, 224), False),
    ("H.264", (640, 480), True),
    ("H.264", (480, 640), True),
    ("AV1", (640, 480), True),
    ("AV1", (640, 480), False),
)


# ---- report --------------------------------------------------------------------------------------


def print_kept(result: dict[str, Any], workers: list[int]) -> None:
    wall = "".join(
        f"{result[f'workers_{n}_mb_s']:9.0f} {result[f'workers_{n}_mb_cpu_s']:9.0f}"
        for n in workers
    )
    print(
        f"{result['format']:<6} {result['size']:<8} {result['frames']:7,} "
        f"{result['frame_bytes']:7,} {result['read_mb_s']:7.0f} {result['index_mb_s']:7.0f} "
        f"{result['write_mb_s']:7.0f} {result['parts_mb_s']:7.0f}{wall}",
        flush=True,
    )


def print_video(result: dict[str, Any]) -> None:
    cpu = "".join(f"{each:8.2f}" for each in result["cpu_ms"])
    print(
        f"{result['codec']:<6} {result['size']:<8} {result['stored']:<8} "
        f"{result['pyav_frames_s']:8.0f} {result['pyav_rgb_s']:8.0f} {result['convert_s']:8.0f} "
        f"{result['of_frames']:9.2f} {result['of_rgb']:7.2f}{cpu}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=Path, help="a folder of JPEG files")
    parser.add_argument("--folder", type=Path, help="where recordings and stores are written")
    parser.add_argument("--only", choices=["kept", "video"])
    parser.add_argument("--megabytes", type=float, default=400, help="of the kept JPEG")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a JSON file of the results")
    arguments = parser.parse_args()
    import torch

    import machine

    results: dict[str, Any] = {
        "environment": machine.environment(torch.device("cpu"), False),
        "command": sys.argv[1:],
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if arguments.only != "video":
            header = "".join(f"{f'{n} workers':>9} {'per core':>9}" for n in arguments.workers)
            print(f"kept, MB/s; parts on one core\n{'':<15} {'frames':>7} {'bytes':>7} {'read':>7} "
                  f"{'index':>7} {'write':>7} {'parts':>7}{header}")  # fmt: skip
            results["kept"] = []
            for size in ((224, 224), (640, 480)):
                for case in FORMATS:
                    results["kept"].append(measure_kept(case, size, folder, arguments))
                    print_kept(results["kept"][-1], arguments.workers)
        if arguments.only != "kept":
            print(f"video, frames/s, and ms of CPU time per frame\n{'':<24} {'PyAV':>8} {'RGB':>8} "
                  f"{'convert':>8} {'of PyAV':>9} {'of RGB':>7}{'PyAV':>8}{'RGB':>8}"
                  f"{'convert':>8}")  # fmt: skip
            results["video"] = []
            for video in VIDEOS:
                results["video"].append(measure_video(*video, folder, arguments))
                print_video(results["video"][-1])
    if arguments.output is not None:
        machine.write_report(arguments.output, results)


if __name__ == "__main__":
    main()
