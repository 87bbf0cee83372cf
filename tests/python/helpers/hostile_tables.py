"""Writes tables whose pages state other sizes than their metadata, or expand to much more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

MIB = 1 << 20


def parquet_repeated(path: Path) -> Path:
    """4 million rows of one number, in a few kB."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    table = pa.table({"t": np.zeros(4 * MIB), "x": np.ones(4 * MIB)})
    pq.write_table(table, path, row_group_size=4 * MIB, compression="zstd")
    return path


def parquet_page_values(path: Path) -> Path:
    """A list of 4 million numbers in some bytes, of which the metadata state two."""
    count = 4 * MIB + 12_345
    _write_list(path, count, use_dictionary=True)
    return _with_number(path, count + 1, 2, in_footer=True)


def parquet_page_size(path: Path) -> Path:
    """A page of 8 MB whose header states 134 MB."""
    count = MIB + 12_345
    _write_list(path, count, use_dictionary=False)
    pages = pytest.importorskip("robocache.readers.tables.parquet_pages")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    with path.open("rb") as file:
        size = pages.read_pages(file, column.data_page_offset, column.total_compressed_size).largest
    return _with_number(path, size, (1 << 27) - 1, in_footer=False)


def _write_list(path: Path, count: int, **options: Any) -> None:
    """Two rows: a list of `count` equal numbers, and one of a single number."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    offsets = pa.array([0, count, count + 1], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(count + 1)))
    table = pa.table({"t": [0.0, 0.1], "x": lists})
    pq.write_table(table, path, compression="zstd", write_statistics=False, **options)


def _with_number(path: Path, old: int, new: int, in_footer: bool) -> Path:
    """Replaces the first such integer of the metadata, or of the headers of pages."""
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    parts = [data[:footer], data[footer:]]
    before = _varint(old)
    assert before in parts[in_footer]
    parts[in_footer] = parts[in_footer].replace(before, _varint(new, len(before)), 1)
    path.write_bytes(b"".join(parts))
    return path


def _varint(number: int, length: int = 1) -> bytes:
    """An integer as Thrift's compact protocol has it, in at least `length` bytes."""
    rest, parts = number << 1, []
    while rest > 127 or len(parts) < length - 1:
        parts.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*parts, rest])


def parquet_dictionary(path: Path) -> Path:
    """300 rows of one text of 1 MiB, which is stored once."""
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(300, np.int32)), pa.array(["x" * MIB])
    ).cast(pa.string())
    pq.write_table(
        pa.table({"t": np.arange(300.0), "x": texts}), path, compression="zstd",
        dictionary_pagesize_limit=2 * MIB,
    )  # fmt: skip
    return path


def csv_duplicates(path: Path) -> Path:
    path.write_text("t,x,x\n0.5,1,2\n")
    return path
