"""Limits on the memory that row groups of Parquet files take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from robocache.readers.errors import RecordingError
from robocache.readers.limits import check_resident, check_streams, check_total, max_resident
from robocache.readers.tables.parquet_pages import Pages, read_pages

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
"""Bytes of a value of each numeric type of Parquet."""


def check_row_groups(path: Path, file: Any, limit: int) -> None:
    """Raises for a Parquet file that its encodings expand to more memory than `limits` allow.

    A run of a repeated value takes some bytes, a repeated text an index. The sizes are those of
    the pages: the metadata of a column may state others, and pyarrow follows the pages.

    Args:
        path: For errors.
        file: The pyarrow.parquet.ParquetFile.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: If a row group, or all of them, take more than `limits` allow.
    """
    metadata = file.metadata
    check_streams(path, metadata.num_columns)
    stored = path.stat().st_size
    total = 0
    with path.open("rb", buffering=0) as opened:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = [group.column(index) for index in range(group.num_columns)]
            packed = min(sum(column.total_compressed_size for column in columns), stored)
            most = max_resident(packed, limit)
            size = 0
            for index, column in enumerate(columns):
                pages = _pages_of(path, opened, number, column)
                size += _column_bytes(file, number, index, column, pages, most)
            check_resident(f"{path}, row group {number}", size, packed, limit)
            total += size
    check_total(f"{path}, all row groups", total, stored, limit)


def _pages_of(path: Path, file: BinaryIO, group: int, column: Any) -> Pages:
    if column.num_values == 0:
        return Pages(0, 0, 0, 0)  # pyarrow reads none then
    begin = column.data_page_offset
    if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < begin:
        begin = column.dictionary_page_offset
    try:
        return read_pages(file, begin, column.total_compressed_size)
    except (ValueError, OSError) as error:
        raise RecordingError(
            f"{path}, row group {group}: expected pages of column {column.path_in_schema}, "
            f"got {error}"
        ) from error


def _column_bytes(file: Any, group: int, index: int, column: Any, pages: Pages, most: int) -> int:
    """Bytes of a column in memory; for texts that may take more than `most`, some above it."""
    field = file.metadata.schema.column(index)
    width = _WIDTHS.get(column.physical_type) or (
        field.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0
    )
    values = max(int(column.num_values), pages.values)
    size: int = max(values * width, pages.size, int(column.total_uncompressed_size))
    if column.physical_type != "BYTE_ARRAY" or max(size, pages.texts) <= most:
        return size
    if field.max_repetition_level:  # a row may have any number of texts
        return max(size, pages.texts)
    # Most texts of a dictionary are shorter than the dictionary: read them, a bounded part at once.
    rows = max(1, most // 16 // max(1, pages.largest))
    measured = 0
    for batch in file.iter_batches(rows, row_groups=[group], columns=[column.path_in_schema]):
        measured += batch.nbytes
        if measured > most:
            break
    return max(size, measured)
