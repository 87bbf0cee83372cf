"""Headers of Parquet's pages, against the metadata that pyarrow reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import message_of, read_all

from robocache.readers.tables.parquet_pages import read_pages
from robocache.readers.tables.parquet_sizes import check_row_groups

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

ROWS = 50_000
COLUMNS = {
    "t": np.arange(float(ROWS)),
    "number": np.arange(ROWS) % 100,
    "flag": np.arange(ROWS) % 3 == 0,
    "text": np.array(["a" * (i % 50) for i in range(ROWS)]),
    "list": pa.array([[float(i), 2.0, 3.0] for i in range(ROWS)]),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_pages(tmp_path: Path, version: str, dictionary: bool, compression: str) -> None:
    path = tmp_path / "a.parquet"
    options: dict[str, Any] = {"data_page_version": version, "use_dictionary": dictionary}
    pq.write_table(
        pa.table(COLUMNS), path, compression=compression, row_group_size=20_000, **options
    )
    file = pq.ParquetFile(path)
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            begin = column.dictionary_page_offset or column.data_page_offset
            with path.open("rb") as opened:
                pages = read_pages(opened, begin, column.total_compressed_size)
            uncompressed = column.total_uncompressed_size  # with the headers
            assert 0.5 * uncompressed < pages.size < uncompressed, column.path_in_schema
            assert pages.values == column.num_values
            assert 0 < pages.largest <= pages.size
    check_row_groups(path, file, 256 << 20)
    streams = read_all(path)[0]["0"]
    assert streams["list"].values.shape == (ROWS, 3)


def test_long_texts_of_a_dictionary_are_measured(tmp_path: Path) -> None:
    """One of many texts is long, and occurs once."""
    path = tmp_path / "a.parquet"
    texts = ["b" * 900_000, *(["c"] * 999)]
    pq.write_table(pa.table({"t": np.arange(1000.0), "x": texts}), path)
    check_row_groups(path, pq.ParquetFile(path), 256 << 20)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x15\x00\x15", "bytes that are no header of a page at byte 0"),
        (b"\x15\x00\x00", "bytes that are no header of a page at byte 0"),
        (b"\x1d\x00", "a field of kind 13"),
        (b"\x1c" * 50, "structures nested too deeply"),
        (b"\x15\x00\x15\x01\x15\x00\x00", "a page of negative size at byte 0"),
        (b"\x15" + b"\xff" * 20, "a number of more than 64 bits"),
        (b"\x19\xf7" + b"\xff" * 8 + b"\x01", "bytes that are no header of a page at byte 0"),
    ],
)
def test_bytes_that_are_no_pages(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_pages(io.BytesIO(data), 0, len(data))


def test_damaged_pages_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [0.0, 0.1], "x": [1.0, 2.0]}), path)
    data = bytearray(path.read_bytes())
    data[4:8] = b"\x1d\x00\x00\x00"
    path.write_bytes(data)
    assert message_of(path) == (
        f"{path}, row group 0: expected pages of column t, got a field of kind 13"
    )
