"""Streams past 2**31 rows and values past 4 GiB, in a sparse file that takes no space."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from stores import HandStore, checksums

import robocache as rc

ROWS = 2**31 + 5
FIRST = 2**31 + 1  # rows of the first episode


def write_shard(path: Path) -> tuple[int, int]:
    """A shard of two episodes, sparse; where its data begin, and its size."""
    metadata = {
        "episode/start_ns": np.array([0, 0]),
        "episode/end_ns": np.array([0, 9]),
        "episode/length": np.array([FIRST, ROWS - FIRST]),
        "episode/source_offsets": np.array([0, 1, 2]),
        "episode/subsets": np.array([0, 0], np.uint64),
        "touch/offsets": np.array([0, FIRST, ROWS]),
    }
    small = {"episode/task": np.array([-1, -1], np.int32), "episode/source": np.zeros(2, np.uint8)}
    header: dict[str, object] = {}
    begin = 0

    def place(name: str, dtype: str, shape: list[int], size: int) -> int:
        nonlocal begin
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
        return begin - size

    places = {}
    for name, array in metadata.items():
        dtype = "U64" if array.dtype == np.uint64 else "I64"
        places[name] = place(name, dtype, list(array.shape), array.nbytes)
    times = place("touch/times", "I64", [ROWS], 8 * ROWS)
    places["episode/task"] = place("episode/task", "I32", [2], 8)
    values = place("touch/values", "U8", [ROWS, 3], 3 * ROWS)
    places["episode/source"] = place("episode/source", "U8", [2], 2)

    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)
    data = 8 + len(text)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, array in (metadata | small).items():
            file.seek(data + places[name])
            file.write(array.tobytes())
        file.seek(data + times + 8 * (ROWS - 1))
        file.write((9).to_bytes(8, "little"))
        file.seek(data + values + 3 * (ROWS - 1))
        file.write(bytes([1, 2, 3]))
        file.truncate(data + begin)
    return data, data + begin


def test_more_rows_than_31_bits_count(tmp_path: Path) -> None:
    path = tmp_path / "shard-00000.safetensors"
    data, size = write_shard(path)
    hand = HandStore(tmp_path)
    hand.write([])
    stream = {
        "name": "touch",
        "dtype": "U8",
        "shape": [3],
        "method": "previous",
        "timeline": "time",
    }
    shard = {"file": path.name, "episodes": 2, "tasks": [], "subsets": [], "crc32": "00000000"}
    sizes = checksums(path.open("rb").read(data)) | {"bytes": size, "crc32": "00000000"}
    hand.write_manifest(hand.changed(streams=[stream], shards=[shard | sizes]))

    store = rc.EpisodeStore(tmp_path)
    assert store.streams["touch"].rows == ROWS
    assert store.episodes.lengths.tolist() == [FIRST, ROWS - FIRST]
    first, last = store[0]["touch"], store[1]["touch"]
    assert len(first) == FIRST and first.values.shape == (FIRST, 3)
    assert last.times.tolist() == [0, 0, 0, 9]
    assert last.values.tolist() == [[0, 0, 0]] * 3 + [[1, 2, 3]]
