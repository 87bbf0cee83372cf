"""Small LeRobot data sets in the layouts of v2.1 and v3.0, written by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FPS = 30

FEATURES: dict[str, dict[str, Any]] = {
    "observation.state": {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]},
    "action": {"dtype": "float64", "shape": [2], "names": {"motors": ["left", "right"]}},
    "observation.grid": {"dtype": "int16", "shape": [2, 2], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "observation.image": {"dtype": "image", "shape": [16, 24, 3], "names": ["h", "w", "c"]},
    "note": {"dtype": "string", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


def rows_of(episode: int, count: int) -> dict[str, NDArray[Any]]:
    """The numbers of an episode; the picture of a row is of one gray."""
    random = np.random.default_rng(episode)
    return {
        "observation.state": random.normal(size=(count, 3)).astype(np.float32),
        "action": random.normal(size=(count, 2)),
        "observation.grid": random.integers(-99, 99, (count, 2, 2)).astype(np.int16),
        "next.done": np.arange(count)[:, None] == count - 1,
        "observation.image": random.integers(0, 256, (count, 16, 24, 3), np.uint8),
    }


def table_of(episode: int, count: int, first: int = 0) -> Any:
    """An episode as a pyarrow.Table; `first` is the number of its first row in the data set."""
    import pyarrow as pa

    rows = rows_of(episode, count)
    numbers = {"observation.state": pa.float32(), "action": pa.float64()}
    columns: dict[str, Any] = {
        # A list of a fixed size, and one of any size: both are in use.
        "observation.state": pa.FixedSizeListArray.from_arrays(
            pa.array(rows["observation.state"].reshape(-1), numbers["observation.state"]), 3
        ),
        "action": pa.array(rows["action"].tolist(), pa.list_(numbers["action"])),
        "observation.grid": pa.array(
            rows["observation.grid"].tolist(), pa.list_(pa.list_(pa.int16()))
        ),
        "next.done": pa.array(rows["next.done"].reshape(-1)),
        "observation.image": pa.array(
            [{"bytes": png(pixels), "path": "a.png"} for pixels in rows["observation.image"]],
            pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        ),
        "note": pa.array(["a"] * count, pa.string()),
        "timestamp": pa.array(np.arange(count, dtype=np.float32) / np.float32(FPS)),
        "frame_index": pa.array(np.arange(count)),
        "episode_index": pa.array(np.full(count, episode)),
        "index": pa.array(np.arange(first, first + count)),
        "task_index": pa.array(np.zeros(count, np.int64)),
    }
    return pa.table(columns)


def png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_info(root: Path, version: str, **changes: Any) -> None:
    (root / "meta").mkdir(parents=True, exist_ok=True)
    info = {
        "codebase_version": version,
        "fps": FPS,
        "splits": {"train": "0:2", "test": "2:9"},
        "features": FEATURES,
    }
    (root / "meta" / "info.json").write_text(json.dumps({**info, **changes}))


def write_v2(root: Path, lengths: list[int], **changes: Any) -> Path:
    """v2.1: a file an episode; the default paths are left to the reader to know."""
    import pyarrow.parquet as pq

    write_info(root, "v2.1", **changes)
    lines = []
    folder = root / "data" / "chunk-000"
    folder.mkdir(parents=True)
    for episode, count in enumerate(lengths):
        task = {"tasks": [f"task {episode}"]}
        lines.append(json.dumps({"episode_index": episode, "length": count, **task}))
        pq.write_table(table_of(episode, count), folder / f"episode_{episode:06d}.parquet")
    (root / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    return root


def write_v3(
    root: Path, lengths: list[int], per_file: int = 2, group: int = 7, **changes: Any
) -> Path:
    """v3.0: `per_file` episodes a file, in row groups that do not end where episodes do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_info(root, "v3.0", **changes)
    entries: list[dict[str, Any]] = []
    tables: list[Any] = []
    first = 0
    for episode, count in enumerate(lengths):
        entries.append(
            {
                "episode_index": episode,
                "tasks": [f"task {episode}"],
                "length": count,
                "data/chunk_index": 0,
                "data/file_index": episode // per_file,
                "dataset_from_index": first,
                "dataset_to_index": first + count,
            }
        )
        tables.append(table_of(episode, count, first))
        first += count
    for number, a in enumerate(range(0, len(tables), per_file)):
        path = root / f"data/chunk-000/file-{number:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.concat_tables(tables[a : a + per_file])
        pq.write_table(table, path, row_group_size=group)
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(entries), path)
    return root
