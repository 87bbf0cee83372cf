"""Episode stores written by hand, with the safetensors package and zlib, as docs/store.md says.

Nothing here is the project's: what reads these has been understood twice.
"""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

safetensors = pytest.importorskip("safetensors.numpy")

NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64", "bfloat16": "BF16",
}  # fmt: skip


@dataclass
class HandEpisode:
    """Rows by stream: (times, values), (times, values, received) or with `valid` too; or None."""

    streams: Mapping[str, Sequence[Any]]
    task: int = -1
    subsets: int = 0
    source: str = ""


@dataclass
class HandStore:
    """A store to be written, and spoiled before or after."""

    folder: Path
    manifest: dict[str, Any] = field(default_factory=dict)

    def write(self, shards: Sequence[Sequence[HandEpisode]], **manifest: Any) -> HandStore:
        """Writes shards and manifest; `manifest` has tables, statistics and metadata of streams."""
        self.folder.mkdir(parents=True, exist_ok=True)
        metadata = manifest.pop("streams", {})
        self.manifest = {
            "format": "robocache-store",
            "version": 1,
            "streams": streams_of(shards, metadata),
            "tasks": [],
            "subsets": [],
            "shards": [],
            "statistics": None,
        } | manifest
        for number, episodes in enumerate(shards):
            name = f"shard-{number:05}.safetensors"
            self.write_shard(name, tensors_of(episodes))
            self.manifest["shards"].append(
                {
                    "file": name,
                    "episodes": len(episodes),
                    "tasks": list(range(len(self.manifest["tasks"]))),
                    "subsets": list(range(len(self.manifest["subsets"]))),
                }
            )
        self.commit()
        return self

    def write_shard(self, name: str, tensors: Mapping[str, np.ndarray]) -> None:
        safetensors.save_file(dict(tensors), self.folder / name)

    def commit(self) -> None:
        """Writes the manifest, with sizes and checksums of the files as they are."""
        for shard in self.manifest["shards"]:
            if (self.folder / shard["file"]).is_file():
                shard |= checksums((self.folder / shard["file"]).read_bytes())
        self.write_manifest(self.manifest)

    def write_manifest(self, manifest: Any) -> None:
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        body = text.rstrip().removesuffix("}").rstrip().encode()
        (self.folder / "manifest.json").write_bytes(sealed(body))

    def changed(self, **changes: Any) -> dict[str, Any]:
        """A copy of the manifest with other members."""
        return copy.deepcopy(self.manifest) | changes


def sealed(body: bytes) -> bytes:
    """A manifest's bytes of those before its checksum."""
    return body + b',"crc32":"%08x"}\n' % zlib.crc32(body)


def checksums(data: bytes) -> dict[str, Any]:
    """The checksums of a shard's bytes, as a manifest has them."""
    header = 8 + int.from_bytes(data[:8], "little")
    return {
        "bytes": len(data),
        "header_crc32": f"{zlib.crc32(data[:header]):08x}",
        "crc32": f"{zlib.crc32(data):08x}",
    }


def streams_of(
    shards: Sequence[Sequence[HandEpisode]], metadata: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for episode in (episode for shard in shards for episode in shard):
        for name, (_, values, *_) in episode.streams.items():
            found[name] = {
                "name": name,
                "dtype": NAMES[values.dtype.name],
                "shape": list(values.shape[1:]),
                "method": "linear",
                "units": None,
                "channels": None,
                "rate": None,
                "timeline": "time",
                "source": None,
            } | dict(metadata.get(name, {}))
    return list(found.values())


def tensors_of(episodes: Sequence[HandEpisode]) -> dict[str, np.ndarray]:
    """The tensors of a shard."""
    names = dict.fromkeys(name for episode in episodes for name in episode.streams)
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        parts = [episode.streams[name] for episode in episodes if name in episode.streams]
        counts = [
            len(episode.streams[name][0]) if name in episode.streams else 0 for episode in episodes
        ]
        tensors[f"{name}/times"] = np.concatenate([np.asarray(p[0], np.int64) for p in parts])
        tensors[f"{name}/values"] = np.concatenate([p[1] for p in parts])
        tensors[f"{name}/offsets"] = np.cumsum([0, *counts], dtype=np.int64)
        for part, place, dtype in (("received", 2, np.int64), ("valid", 3, np.bool_)):
            if len(parts[0]) > place and parts[0][place] is not None:
                tensors[f"{name}/{part}"] = np.concatenate(
                    [np.asarray(p[place], dtype) for p in parts]
                )
    times = [np.concatenate([rows[0] for rows in e.streams.values()]) for e in episodes]
    sources = [episode.source.encode() for episode in episodes]
    tensors |= {
        "episode/start_ns": np.array([t.min() for t in times], np.int64),
        "episode/end_ns": np.array([t.max() for t in times], np.int64),
        "episode/length": np.array(
            [max(len(rows[0]) for rows in e.streams.values()) for e in episodes], np.int64
        ),
        "episode/task": np.array([e.task for e in episodes], np.int32),
        "episode/subsets": np.array([e.subsets for e in episodes], np.uint64),
        "episode/source_offsets": np.cumsum([0, *map(len, sources)], dtype=np.int64),
        "episode/source": np.frombuffer(b"".join(sources), np.uint8),
    }
    return tensors
