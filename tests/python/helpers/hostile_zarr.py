"""Writes zarr groups that state sizes which they do not have, or decompress to much more."""

from __future__ import annotations

import bz2
import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20


def zarr_array(path: Path, name: str, shape: list[int], chunks: list[int], **changes: Any) -> Path:
    folder = path / name
    folder.mkdir(parents=True)
    for group in (path, folder.parent):
        (group / ".zgroup").write_text('{"zarr_format": 2}')
    about = {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i8", "order": "C",
        "compressor": None, "filters": None, "fill_value": 0, **changes,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(about))
    return folder


def zarr_shape(path: Path) -> Path:
    pytest.importorskip("zarr", reason="zarr needs zarr")
    (zarr_array(path, "meta/episode_ends", [1], [1]) / "0").write_bytes(struct.pack("<q", 10**12))
    zarr_array(path, "data/x", [10**12, 7], [10**12, 7])
    return path


def zarr_chunk(path: Path, codec: str, data: bytes) -> Path:
    """An array of 8 bytes whose chunk becomes 400 MiB."""
    pytest.importorskip("zarr", reason="zarr needs zarr")
    (zarr_array(path, "meta/episode_ends", [1], [1]) / "0").write_bytes(struct.pack("<q", 1))
    (zarr_array(path, "data/x", [1], [1], compressor={"id": codec}) / "0").write_bytes(data)
    return path


def zarr_bz2(path: Path) -> Path:
    return zarr_chunk(path, "bz2", bz2.compress(b"\0" * (400 * MIB)))


def zarr_zstd(path: Path) -> Path:
    return zarr_chunk(path, "zstd", zeros_in_zstd(400 * MIB))


def zarr_zlib(path: Path) -> Path:
    return zarr_chunk(path, "zlib", zlib.compress(b"\0" * (400 * MIB)))


def zarr_chunk_in_chunk(path: Path) -> Path:
    """A chunk of some bytes, compressed twice, that becomes 64 MiB."""
    pytest.importorskip("zarr", reason="zarr needs zarr")
    (zarr_array(path, "meta/episode_ends", [1], [1]) / "0").write_bytes(struct.pack("<q", 1))
    codecs: dict[str, Any] = {"compressor": {"id": "bz2"}, "filters": [{"id": "zlib"}]}
    data = bz2.compress(zlib.compress(b"\0" * (64 * MIB)))
    (zarr_array(path, "data/x", [1], [1], **codecs) / "0").write_bytes(data)
    return path


def zarr3_chunk_in_chunk(path: Path) -> Path:
    """An array of zarr's format 3, compressed twice."""
    pytest.importorskip("zarr", minversion="3", reason="format 3 needs zarr 3")
    gzipped = {"name": "gzip", "configuration": {"level": 1}}
    zarr3_array(path, "meta/episode_ends", struct.pack("<q", 1))
    zarr3_array(path, "data/x", gzip.compress(gzip.compress(b"\0" * (64 * MIB))), gzipped, gzipped)
    return path


def zarr3_array(path: Path, name: str, data: bytes, *codecs: dict[str, Any]) -> None:
    """An array of one int64, in one chunk."""
    folder = path / name / "c"
    folder.mkdir(parents=True)
    for group in (path, folder.parent.parent):
        (group / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    about = {
        "zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "int64", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *codecs],
    }  # fmt: skip
    (folder.parent / "zarr.json").write_text(json.dumps(about))
    (folder / "0").write_bytes(data)


def zarr_blosc(path: Path) -> Path:
    blosc = pytest.importorskip("numcodecs.blosc", reason="zarr needs numcodecs")
    codec = blosc.Blosc("zstd")
    return zarr_chunk(path, "blosc", bytes(codec.encode(bytes(64 * MIB))))


def zarr_objects(path: Path) -> Path:
    """2 billion texts in 4 bytes, where integers are expected."""
    pytest.importorskip("zarr", reason="zarr needs zarr")
    texts: dict[str, Any] = {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""}
    folder = zarr_array(path, "meta/episode_ends", [1], [1], **texts)
    (folder / "0").write_bytes(struct.pack("<I", 2**31 - 1))
    zarr_array(path, "data/x", [1], [1])
    return path


def zeros_in_zstd(count: int) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="MCAP needs zstandard")
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [stream.compress(b"\0" * MIB) for _ in range(count // MIB)]
    return b"".join([*parts, stream.flush()])
