"""Reads the point clouds of real scans: PLY (binary, little-endian) and PCD, compressed too."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[3] / ".." / "shared" / "data"

_PLY_TYPES = {"float": "<f4", "double": "<f8", "uchar": "u1", "int": "<i4"}


def need(path: str) -> Path:
    """A file of the shared recordings; skips where they are absent."""
    file = FOLDER / path
    if not file.exists():
        pytest.skip(f"../shared/data/{path}, a real scan, is absent")
    return file


def read_ply(path: Path) -> dict[str, np.ndarray]:
    """The properties of the vertices, [P] each."""
    data = path.read_bytes()
    end = data.index(b"end_header\n") + len(b"end_header\n")
    lines = [line.split() for line in data[:end].decode("ascii", "replace").splitlines()]
    if ["format", "binary_little_endian", "1.0"] not in lines:
        raise ValueError(f"{path}: expected binary_little_endian")
    (count,) = (int(line[2]) for line in lines if line[:2] == ["element", "vertex"])
    fields = [(line[2], _PLY_TYPES[line[1]]) for line in lines if line[:1] == ["property"]]
    rows = np.frombuffer(data, np.dtype(fields), count, end)
    return {name: rows[name].copy() for name, _ in fields}


def read_pcd(path: Path) -> dict[str, np.ndarray]:
    """The fields, [P] each; those with NaN are kept."""
    data = path.read_bytes()
    end = data.index(b"\nDATA ") + 1
    end = data.index(b"\n", end) + 1
    header = {
        line.split()[0]: line.split()[1:]
        for line in data[:end].decode("ascii").splitlines()
        if not line.startswith("#")
    }
    names = header["FIELDS"]
    types = [
        np.dtype(f"<{kind.lower()}{size}")
        for kind, size in zip(header["TYPE"], header["SIZE"], strict=True)
    ]
    count = int(header["POINTS"][0])
    if header["DATA"] != ["binary_compressed"] or set(header["COUNT"]) != {"1"}:
        raise ValueError(f"{path}: expected binary_compressed fields of one number each")
    compressed, size = struct.unpack_from("<II", data, end)
    packed = decompress_lzf(data[end + 8 : end + 8 + compressed], size)
    # Compressed data are field after field, not point after point.
    found: dict[str, np.ndarray] = {}
    at = 0
    for name, dtype in zip(names, types, strict=True):
        found[name] = np.frombuffer(packed, dtype, count, at).copy()
        at += count * dtype.itemsize
    return found


def decompress_lzf(data: bytes, size: int) -> bytes:
    """LZF, as liblzf writes it: runs of literals, and references to what was written before."""
    out = bytearray()
    i = 0
    while i < len(data):
        control = data[i]
        i += 1
        if control < 32:  # so many literals and one
            out += data[i : i + control + 1]
            i += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[i]
            i += 1
        back = ((control & 31) << 8) + data[i] + 1
        i += 1
        for _ in range(length + 2):  # byte by byte: it may overlap with what it writes
            out.append(out[-back])
    if len(out) != size:
        raise ValueError(f"LZF: expected {size} bytes, got {len(out)}")
    return bytes(out)


def xyz(fields: dict[str, Any]) -> np.ndarray:
    """[P,3]."""
    return np.stack([fields[axis] for axis in "xyz"], -1)
