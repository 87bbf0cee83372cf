"""Parquet files of one recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import head, reading, refuse_duplicates
from robocache.readers.recording import Reader
from robocache.readers.tables import table
from robocache.readers.tables.arrow import EXACT, open_parquet
from robocache.readers.tables.table import Table, first_rows
from robocache.readers.tables.time_column import find_time_column

FORMAT = "Parquet"


class ParquetTable(Table):
    """A Parquet file."""

    format = FORMAT

    def _schema(self) -> Any:
        pa = require("pyarrow", FORMAT, "parquet")
        self._file = open_parquet(self.path, FORMAT, self.options.memory_limit)
        schema = self._file.schema_arrow
        refuse_duplicates(self.path, "columns", schema.names)
        fields = [(top.name, field) for top in schema for field in _flat_fields(pa, top)]
        self._tops = {field.name: top for top, field in fields}
        return pa.schema([field for _, field in fields])

    def _batches(self) -> Iterator[Any]:
        metadata = self._file.metadata
        sizes = [metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups)]
        names = [column for one in self.groups for column in one.columns]
        if self.time is not None:
            names.append(self.time.column)
        columns = self._columns(names)
        with reading(self.path, FORMAT):
            if sum(sizes) <= table.WHOLE_BYTES:
                yield _flat(self._file.read(columns))
                return
            for number in range(len(sizes)):
                yield _flat(self._file.read_row_group(number, columns))

    def _columns(self, names: Sequence[str]) -> list[str]:
        """The top-level columns that contain `names`, which may be fields of structures."""
        return list(dict.fromkeys(self._tops[name] for name in names))

    def _is_empty(self) -> bool:
        return bool(self._file.metadata.num_rows == 0)

    def _is_beyond_float64(self, column: str) -> bool:
        """Decides by the file's statistics; True without them."""
        metadata = self._file.metadata
        paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        if column not in paths:
            return True
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(paths.index(column)).statistics
            if statistics is None or not statistics.has_min_max:
                return True
            if max(int(statistics.max), -int(statistics.min)) > EXACT:
                return True
        return False

    def _begin(self, columns: Sequence[str]) -> Any:
        """The first rows of some columns, a pyarrow.Table."""
        pa = require("pyarrow", FORMAT, "parquet")
        with reading(self.path, FORMAT):
            batches = self._file.iter_batches(table.UNIT_ROWS, columns=self._columns(columns))
            return _flat(pa.Table.from_batches([next(batches)]))

    def _first_rows(self, columns: Sequence[str]) -> NDArray[np.float64]:
        return first_rows(self._begin(columns), columns)

    def _time_sample(self, schema: Any) -> str:
        """A first integer time as text: integers that can only be nanoseconds need no unit."""
        types = require("pyarrow", FORMAT, "parquet").types
        column = find_time_column(schema.names, self.options)
        if column is None or not types.is_integer(schema.field(column).type):
            return ""
        first = self._begin([column])[column].drop_null()
        return str(first[0].as_py()) if len(first) else ""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _flat_fields(pa: Any, field: Any) -> list[Any]:
    """The columns that :func:`_flat` returns for one field."""
    if not pa.types.is_struct(field.type):
        return [field]
    return [flat for child in field.flatten() for flat in _flat_fields(pa, child)]


def _flat(table: Any) -> Any:
    """Replaces structures by a column for each of their fields: ``imu.x``."""
    pa = require("pyarrow", FORMAT, "parquet")
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def recognizes(path: Path) -> bool:
    """Whether a file is Parquet."""
    return head(path, 4) == b"PAR1"


READER = Reader(FORMAT, "parquet", "a Parquet file", recognizes, ParquetTable, (".parquet",))
