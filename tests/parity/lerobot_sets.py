"""Generated LeRobot data sets of every kind of feature, as v3.0 and as v2.1."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import robocache as rc
from robocache.export.video import VideoFile

TASKS = ("push the block", "lift the lid")
LENGTHS = (5, 1, 24, 17, 2)
PICTURE, FILM = (16, 24, 3), (64, 64, 3)


def write_store(path: Path, fps: int, lengths: Sequence[int] = LENGTHS) -> Path:
    """Streams of many types and shapes, a row a frame."""
    random = np.random.default_rng(fps)
    with rc.StoreWriter(path) as writer:
        for number, n in enumerate(lengths):
            times = np.rint(np.arange(n) * 1e9 / fps).astype(np.int64)
            with writer.episode(TASKS[number % 2], f"made#{number}") as episode:
                episode.add("observation.state", times, random.normal(size=(n, 3)).astype("f4"))
                episode.add("action", times, random.normal(size=(n, 2)))
                episode.add("observation.grid", times, random.integers(-99, 99, (n, 2, 2), "i2"))
                episode.add("observation.field", times, random.normal(size=(n, 2, 3)))
                episode.add("observation.bits", times, random.integers(0, 256, (n, 4), np.uint8))
                episode.add("counter", times, random.integers(-(2**31), 2**31, (n, 1), "i4"))
                episode.add("serial", times, random.integers(-(2**62), 2**62, (n, 2), "i8"))
                episode.add("next.done", times, np.arange(n)[:, None] == n - 1)
                episode.add("contacts", times, random.integers(0, 2, (n, 3)).astype(bool))
                episode.add("next.reward", times, random.normal(size=(n, 1)).astype("f4"))
                episode.add("score", times, random.normal(size=(n, 1)))
                episode.add(
                    "observation.image", times, random.integers(0, 256, (n, *PICTURE), np.uint8)
                )
                episode.add("observation.film", times, _film(random, n))
    return path


def _film(random: np.random.Generator, n: int) -> np.ndarray:
    """Colored squares that move: each frame differs from its neighbors after encoding too."""
    frames = np.zeros((n, *FILM), np.uint8)
    for row, frame in enumerate(frames):
        frame[:] = random.integers(0, 256, 3, np.uint8)
        x = 5 * row % (FILM[1] - 16)
        frame[16:32, x : x + 16] = random.integers(0, 256, 3, np.uint8)
    return frames


def write_v3(path: Path, fps: int, lengths: Sequence[int] = LENGTHS) -> Path:
    """The store exported, with still images beside video, and two tasks within an episode."""
    store = write_store(path.with_name(f"{path.name}-store"), fps, lengths)
    stills = path.with_name(f"{path.name}-stills")
    streams = [name for name in rc.EpisodeStore(store).streams if name != "observation.film"]
    rc.export_lerobot(store, stills, fps, streams=streams, video=False)
    rc.export_lerobot(store, path, fps, streams=["observation.film"])
    file = "data/chunk-000/file-000.parquet"
    table = pq.read_table(stills / file)
    tasks = table["task_index"].to_numpy().copy()
    episodes = table["episode_index"].to_numpy()
    tasks[np.flatnonzero(episodes == int(np.argmax(lengths)))[::2]] ^= 1
    number = table.schema.get_field_index("task_index")
    table = table.set_column(number, "task_index", pa.array(tasks))
    pq.write_table(table, path / file, row_group_size=7)
    info, known = (json.loads((p / "meta/info.json").read_text()) for p in (path, stills))
    info["features"] = {
        **known["features"],
        "observation.film": info["features"]["observation.film"],
    }
    (path / "meta/info.json").write_text(json.dumps(info))
    (path / "meta/stats.json").unlink()
    return path


def write_v2(path: Path, v3: Path, store: Path) -> Path:
    """Writes a v3.0 data set's rows as v2.1: a table and a video for each episode."""
    info = json.loads((v3 / "meta/info.json").read_text())
    table = pq.read_table(v3 / "data/chunk-000/file-000.parquet")
    # Up to v2.1 LeRobot knows images by what the datasets library keeps in the table's schema.
    features = datasets.Features.from_arrow_schema(table.schema)
    features["observation.image"] = datasets.Image()
    known = features.arrow_schema.metadata[b"huggingface"].replace(b'"List"', b'"Sequence"')
    table = table.replace_schema_metadata({b"huggingface": known})
    film = "observation.film"
    lines, statistics = [], []
    for number, episode in enumerate(rc.EpisodeStore(store)):
        rows = table.filter(pc.equal(table["episode_index"], number))
        file = path / f"data/chunk-000/episode_{number:06d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
        video = VideoFile(
            path / f"videos/chunk-000/{film}/episode_{number:06d}.mp4", info["fps"], *FILM[:2]
        )
        video.add(episode[film].values[: len(rows)])
        video.close()
        lines.append({"episode_index": number, "tasks": list(TASKS), "length": len(rows)})
        one = {"min": [0.0], "max": [1.0], "mean": [0.0], "std": [1.0], "count": [len(rows)]}
        statistics.append({"episode_index": number, "stats": {"next.reward": one}})
    info |= {
        "codebase_version": "v2.1",
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/"
        "episode_{episode_index:06d}.mp4",
        "total_chunks": 1,
        "total_videos": len(lines),
    }
    (path / "meta").mkdir()
    (path / "meta/info.json").write_text(json.dumps(info))
    tasks = [{"task_index": number, "task": task} for number, task in enumerate(TASKS)]
    _write_lines(path / "meta/tasks.jsonl", tasks)
    _write_lines(path / "meta/episodes.jsonl", lines)
    _write_lines(path / "meta/episodes_stats.jsonl", statistics)
    return path


def _write_lines(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
