"""A store read by other means than the project's: json, zlib and the safetensors package.

And by the project's too, which has to find the same.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

import robocache as rc

TIMES = np.arange(5, dtype=np.int64) * 20_000_000
VALUES = np.arange(10, dtype=np.float32).reshape(5, 2)


@dataclass
class EpisodeOnDisk:
    task: str | None
    source: str
    subsets: tuple[str, ...]
    start_ns: int
    end_ns: int
    length: int
    streams: dict[str, dict[str, np.ndarray]]


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest, its checksum checked."""
    text = (path / "manifest.json").read_bytes()
    body, suffix = text[:-21], text[-21:]
    assert suffix == b',"crc32":"%08x"}\n' % zlib.crc32(body)
    return json.loads(text)


def read_shard(path: Path, manifest: dict[str, Any], shard: dict[str, Any]) -> list[EpisodeOnDisk]:
    """The episodes of a shard, everything about its file checked."""
    data = (path / shard["file"]).read_bytes()
    header, header_end = read_header(data, shard)
    arrays: dict[str, np.ndarray] = {}
    with safe_open(path / shard["file"], "np") as tensors:
        for name, entry in header.items():
            if entry["dtype"] == "BF16":
                begin, stop = (header_end + offset for offset in entry["data_offsets"])
                arrays[name] = np.frombuffer(data[begin:stop], "<u2").reshape(entry["shape"])
            else:
                arrays[name] = tensors.get_tensor(name)
    types = {stream["name"]: stream for stream in manifest["streams"]}
    names = {name.rsplit("/", 1)[0] for name in header} - {"episode"}
    for name in names:
        assert header[f"{name}/values"]["dtype"] == types[name]["dtype"]
        shape = types[name]["shape"]
        is_ragged = shape[:1] == [None]
        assert header[f"{name}/values"]["shape"][1:] == shape[is_ragged:]
        assert (f"{name}/row_offsets" in header) == is_ragged
        assert len(arrays[f"{name}/values"]) > 0
    return [take_episode(manifest, shard, arrays, names, i) for i in range(shard["episodes"])]


def read_header(data: bytes, shard: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The header of a shard and where it ends; sizes, checksums and places of tensors checked."""
    assert len(data) == shard["bytes"]
    assert f"{zlib.crc32(data):08x}" == shard["crc32"]
    header_end = 8 + int.from_bytes(data[:8], "little")
    assert f"{zlib.crc32(data[:header_end]):08x}" == shard["header_crc32"]
    assert header_end % 64 == 0
    header = json.loads(data[8:header_end])
    notes = header.pop("__metadata__", {})
    assert all(isinstance(text, str) for text in notes.values())
    end = 0
    sizes = {"BOOL": 1, "BF16": 2}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        size = sizes.get(entry["dtype"]) or int(entry["dtype"][1:]) // 8
        assert begin == end and begin % size == 0, name
        assert stop - begin == size * int(np.prod(entry["shape"], dtype=np.int64))
        end = stop
    assert header_end + end == len(data)
    return header, header_end


def take_episode(
    manifest: dict[str, Any],
    shard: dict[str, Any],
    arrays: dict[str, np.ndarray],
    names: set[str],
    i: int,
) -> EpisodeOnDisk:
    """Episode i of a shard with these tensors and streams, its metadata checked."""
    streams = {}
    for name in names:
        begin, stop = arrays[f"{name}/offsets"][i : i + 2]
        if begin < stop:
            streams[name] = {
                column: arrays[f"{name}/{column}"][begin:stop]
                for column in ("values", "times", "received", "valid")
                if f"{name}/{column}" in arrays
            }
            times = streams[name]["times"]
            assert (times[1:] >= times[:-1]).all()
            if f"{name}/row_offsets" in arrays:  # ragged: the items of the rows, and their number
                offsets = arrays[f"{name}/row_offsets"]
                first, last = offsets[begin], offsets[stop]
                streams[name]["values"] = arrays[f"{name}/values"][first:last]
                streams[name]["row_lengths"] = np.diff(offsets[begin : stop + 1])
    task = arrays["episode/task"][i]
    begin, stop = arrays["episode/source_offsets"][i : i + 2]
    bits = int(arrays["episode/subsets"][i])
    episode = EpisodeOnDisk(
        None if task < 0 else manifest["tasks"][shard["tasks"][task]],
        arrays["episode/source"][begin:stop].tobytes().decode(),
        tuple(
            manifest["subsets"][number]
            for bit, number in enumerate(shard["subsets"])
            if bits >> bit & 1
        ),
        int(arrays["episode/start_ns"][i]),
        int(arrays["episode/end_ns"][i]),
        int(arrays["episode/length"][i]),
        streams,
    )
    rows = streams.values()
    assert episode.start_ns == min(r["times"][0] for r in rows)
    assert episode.end_ns == max(r["times"][-1] for r in rows)
    assert episode.length == max(len(r["times"]) for r in rows)
    return episode


def read_store(path: Path) -> list[EpisodeOnDisk]:
    """All episodes of a store, every file checked."""
    manifest = read_manifest(path)
    episodes = [e for shard in manifest["shards"] for e in read_shard(path, manifest, shard)]
    store = rc.EpisodeStore(path)
    store.verify()
    assert len(store) == len(episodes)
    for got, expected in zip(store, episodes, strict=True):
        assert (got.task, got.source, set(got.subsets)) == (
            expected.task,
            expected.source,
            set(expected.subsets),
        )
        assert set(got.streams) == set(expected.streams)
        for name, columns in expected.streams.items():
            for column in ("values", "times", "received", "valid"):
                rows = getattr(got[name], column)
                if column == "values" and "row_lengths" in columns:
                    np.testing.assert_array_equal(rows.lengths, columns["row_lengths"])
                    rows = rows.items
                if column in columns:
                    np.testing.assert_array_equal(rows.view(columns[column].dtype), columns[column])
                else:
                    assert rows is None
    return episodes


def file_names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def write_episodes(path: Path, count: int, append: bool = False, **options: int) -> None:
    with rc.StoreWriter(path, append=append, **options) as writer:
        for i in range(count):
            with writer.episode(task=f"task {i % 2}", source=f"file#{i}") as episode:
                episode.add("action", TIMES, VALUES + i)
