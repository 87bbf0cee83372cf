"""CSV files of one recording: a line of names, and numbers separated by one of four characters."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError, reading, refuse_duplicates
from robocache.readers.recording import Reader
from robocache.readers.tables import table
from robocache.readers.tables.arrow import is_beyond_float64
from robocache.readers.tables.csv_header import read_header, recognizes
from robocache.readers.tables.table import Table, first_rows
from robocache.readers.tables.time_column import find_time_column

FORMAT = "CSV"

BLOCK_BYTES = 2 << 20
"""Bytes of a large file that are read at once."""

BEGINNING_BYTES = 1 << 16
"""Bytes of a small file that are parsed for its schema, before the file is read."""

_NO_VALUE = ["", "NULL", "null", "N/A", "NA", "#N/A"]  # NaN is a number here, and kept
_NUMBER_OF_COLUMN = re.compile(r"In CSV column #(\d+): ")


class CsvTable(Table):
    """A CSV file with a line of names."""

    format = FORMAT

    def _schema(self) -> Any:
        pa = require("pyarrow", FORMAT, "parquet")
        # The types of a small file come from all of its rows, parsed when the rows are read. Its
        # first rows give the schema, unless a column has no value in them.
        self._header = read_header(self.path)
        refuse_duplicates(self.path, "columns", self._header.names)
        self._whole: Any = None
        self._is_small = self.path.stat().st_size <= table.WHOLE_BYTES
        if not self._is_small:
            with self._stream() as stream:
                self._begun = _floats(pa.Table.from_batches([stream.read_next_batch()]))
                self._has_rows = True
        else:
            self._begun = self._beginning()
            if self._begun is None:
                self._begun = self._parse()
        return self._begun.schema

    def _beginning(self) -> Any:
        """A small file's first rows; None if they do not determine all types."""
        arrow_csv = require("pyarrow.csv", FORMAT, "parquet")
        pa = require("pyarrow", FORMAT, "parquet")
        with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):  # a longer row
            with arrow_csv.open_csv(self.path, **self._options({}, BEGINNING_BYTES)) as stream:
                batch = next((batch for batch in stream if len(batch)), None)
            self._has_rows = batch is not None
            if batch is not None and not any(pa.types.is_null(t) for t in batch.schema.types):
                return _floats(pa.Table.from_batches([batch]))
        return None

    def _parse(self) -> Any:
        """The table of a small file."""
        arrow_csv = require("pyarrow.csv", FORMAT, "parquet")
        with self._reading():
            self._whole = _floats(arrow_csv.read_csv(self.path, **self._options({})))
        self._has_rows = len(self._whole) > 0
        return self._whole

    def _batches(self) -> Iterator[Any]:
        if self._is_small:
            whole = self._parse() if self._whole is None else self._whole
            if not whole.schema.equals(self._begun.schema):
                self._begun = whole
                self._arrange(whole.schema)
            yield whole
            return
        pa = require("pyarrow", FORMAT, "parquet")
        types = dict(zip(self._begun.schema.names, self._begun.schema.types, strict=True))
        with self._reading(), self._stream(types) as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch])

    def _is_empty(self) -> bool:
        return not self._has_rows

    def _is_beyond_float64(self, column: str) -> bool:
        return True  # `_floats` has converted all other integers

    def _first_rows(self, columns: Sequence[str]) -> NDArray[np.float64]:
        return first_rows(self._begun.slice(0, table.UNIT_ROWS), columns)

    def _time_sample(self, schema: Any) -> str:
        column = find_time_column(schema.names, self.options)
        if column is None:
            return ""
        index = schema.names.index(column)
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = csv.reader(islice(file, self._header.skip, None), **self._header.dialect)
            values = [line[index] for line in islice(lines, 1000) if len(line) > index]
        return max(values, key=len, default="")

    def close(self) -> None:
        """Releases the rows."""
        self._whole = None

    def _stream(self, types: dict[str, Any] | None = None) -> Any:
        """The file in blocks, whose types are those of the first where none are given."""
        arrow_csv = require("pyarrow.csv", FORMAT, "parquet")
        with self._reading():
            return arrow_csv.open_csv(self.path, **self._options(types or {}))

    def _options(self, types: dict[str, Any], block: int | None = None) -> dict[str, Any]:
        arrow_csv = require("pyarrow.csv", FORMAT, "parquet")
        pa = require("pyarrow", FORMAT, "parquet")
        header = self._header
        time = find_time_column(header.names, self.options)
        return {
            "read_options": arrow_csv.ReadOptions(
                block_size=block or BLOCK_BYTES, column_names=header.names, skip_rows=header.skip
            ),
            "parse_options": arrow_csv.ParseOptions(delimiter=header.delimiter),
            "convert_options": arrow_csv.ConvertOptions(
                null_values=_NO_VALUE,
                strings_can_be_null=True,
                # As text, since a float64 of Unix time is good for 0.2 us only.
                column_types=types if time is None else {**types, time: pa.string()},
            ),
        }

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Converts pyarrow's errors to a RecordingError with the column's name, not its number."""
        try:
            with reading(self.path, FORMAT):
                yield
        except RecordingError as error:
            raise RecordingError(
                _NUMBER_OF_COLUMN.sub(
                    lambda found: f"column {self._header.names[int(found[1])]}: ", str(error)
                )
            ) from error


def _floats(rows: Any) -> Any:
    """A pyarrow.Table with float64 in place of integers.

    A column may have integers in one recording and fractions in the next. Integers that float64
    cannot represent stay: stamps in nanoseconds, identifiers.
    """
    pa = require("pyarrow", FORMAT, "parquet")
    fields = [
        field.with_type(pa.float64())
        if pa.types.is_integer(field.type) and not is_beyond_float64(rows[field.name])
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


READER = Reader(
    FORMAT,
    "parquet",
    "a .csv or .tsv file with a line of names",
    recognizes,
    CsvTable,
    (".csv", ".tsv"),
)
