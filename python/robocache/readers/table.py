"""CSV and Parquet files of one recording: columns of numbers, one of them the time.

Columns that belong together make one stream: ``imu.x, imu.y, imu.z``, with ``/`` in place of the
dot too, or numbered ones, ``joint_0, joint_1`` or ``joint[0], joint[1]``. A column of lists is a
stream by itself. A row in which all columns of a stream are empty is not a row of that stream, so
streams of several rates share a file.
"""

from __future__ import annotations

import contextlib
import csv
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers import table_columns
from robocache.readers._arrow import array_of, one_array, reading_arrow
from robocache.readers.recording import (
    EpisodeReader,
    Reader,
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    StreamFacts,
    Times,
    WholeRecording,
    chunks,
    head,
    in_order,
    need_rate,
    refuse_twice,
    require,
    row_times,
)

CSV, PARQUET = "CSV", "Parquet"

WHOLE_BYTES = 256 << 20
"""Files up to this size are read at once, so that rows that are out of order can be sorted."""

BLOCK_BYTES = 2 << 20
"""How much of a larger CSV file is read at once."""

BEGINNING_BYTES = 1 << 16
"""How much of a small CSV file says which columns it has, before it is read."""

_DELIMITERS = ",;\t"
_NO_VALUE = ["", "NULL", "null", "N/A", "NA", "#N/A"]  # NaN is a number here, and kept


class Table(Recording):
    """A file of one episode."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        require("pyarrow", self.format, "parquet")
        self.groups: list[table_columns.Group] = []
        self._arrange(self._schema())

    def _arrange(self, schema: Any) -> None:
        """Finds the time, and the streams that the columns make."""
        path, options = self.path, self.options
        refuse_twice(path, "columns", schema.names)
        if self._is_empty():
            return
        clock = table_columns.find_clock(path, schema, options, self._time_sample(schema))
        self.clock = clock
        self.rate = need_rate(path, None, options) if clock is None else None
        names = [n for n in schema.names if clock is None or n != clock.column]
        numeric = [n for n in names if n.strip() and table_columns.is_numeric(schema.field(n).type)]
        for name in names:
            if name not in numeric:
                self.notes[f"columns that are not numbers left out ({name or 'no name'})"] = 1
        groups = table_columns.group(numeric, schema)
        refuse_twice(path, "streams", [group.stream for group in groups])
        if not groups:
            raise RecordingError(
                f"{path}: expected columns of numbers beside the time, got "
                + (f"others ({', '.join(names)})" if names else "none")
            )
        wanted = options.select(group.stream for group in groups)
        self.groups = [group for group in groups if group.stream in wanted]
        self.streams.clear()
        for group in self.groups:
            self.streams[group.stream] = StreamFacts(
                channels=group.channels,
                rate=self.rate,
                timeline="rows" if clock is None else "time",
                source=f"column{'s' * (len(group.columns) > 1)} {', '.join(group.columns)}",
            )

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode of the file, if it has rows."""
        if self._is_empty():
            self.notes["episodes without rows, skipped"] = 1
            return []
        return [WholeRecording(self.read)]

    def read(self) -> Iterator[Rows]:
        """The rows of the one episode; streams take turns."""
        first = 0
        latest: int | None = None
        for batch in self._batches():
            times = self._times(batch, first)
            if len(times):
                if latest is not None and times.min() < latest:
                    raise RecordingError(
                        f"{self.path}: expected ascending times in a file above "
                        f"{WHOLE_BYTES >> 20} MiB, got an earlier one after row {first}"
                    )
                latest = int(times.max())
            for group in self.groups:
                rows = self._rows(group, batch, times)
                yield from chunks(in_order(rows, self.notes))
            first += len(times)

    def _times(self, batch: Any, first: int) -> Times:
        if self.clock is None:
            assert self.rate is not None
            return row_times(first, batch.num_rows, self.rate)
        return self.clock.read(self.path, batch[self.clock.column], first)

    def _rows(self, group: table_columns.Group, batch: Any, times: Times) -> Rows:
        columns = [one_array(batch[name]) for name in group.columns]
        empty = np.logical_and.reduce([_nulls(column) for column in columns])
        if empty.any():
            batch_rows = np.flatnonzero(~empty)
            columns = [column.take(_indices(batch_rows)) for column in columns]
            times = times[batch_rows]
        arrays: list[NDArray[Any]] = []
        for name, column in zip(group.columns, columns, strict=True):
            values = array_of(column, f"{self.path}, column {name}")
            assert values is not None  # of a type that is_numeric
            arrays.append(values)
        if group.channels is None:
            return Rows(group.stream, times, arrays[0])
        return Rows(group.stream, times, np.stack(arrays, axis=1))

    @abstractmethod
    def _schema(self) -> Any:
        """The file's columns, a pyarrow.Schema."""

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """The file's rows as tables (pyarrow.Table), the whole of a small file in one."""

    @abstractmethod
    def _is_empty(self) -> bool:
        """Whether it is known to have no rows."""

    def _time_sample(self, schema: Any) -> str:
        """Where times are read as text, the longest of the first ones."""
        return ""

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return reading_arrow(self.path, self.format)


class CsvTable(Table):
    """A CSV file with a line of names."""

    format = CSV

    def _schema(self) -> Any:
        # Of a small file the types come from all of it, and it is parsed when its rows are read.
        # Its beginning says which columns there are, unless some of them begin without values.
        self._whole: Any = None
        self._is_small = self.path.stat().st_size <= WHOLE_BYTES
        if not self._is_small:
            with self._stream() as stream:
                self._has_rows = True
                return stream.schema
        self._begun = self._beginning() or self._parse().schema
        return self._begun

    def _beginning(self) -> Any:
        """The types of a small file's first rows; None where they don't tell enough."""
        arrow_csv = require("pyarrow.csv", CSV, "parquet")
        pa = require("pyarrow", CSV, "parquet")
        with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):  # a row above this size
            with arrow_csv.open_csv(self.path, **self._options({}, BEGINNING_BYTES)) as stream:
                schema = _without_integers(stream.schema)
                self._has_rows = any(len(batch) for batch in stream)
            if self._has_rows and not any(pa.types.is_null(kind) for kind in schema.types):
                return schema
        return None

    def _parse(self) -> Any:
        """The table of a small file."""
        arrow_csv = require("pyarrow.csv", CSV, "parquet")
        with self._reading():
            whole = arrow_csv.read_csv(self.path, **self._options({}))
            self._whole = whole.cast(_without_integers(whole.schema))
        self._has_rows = len(self._whole) > 0
        return self._whole

    def _batches(self) -> Iterator[Any]:
        if self._is_small:
            whole = self._parse() if self._whole is None else self._whole
            if not whole.schema.equals(self._begun):
                self._begun = whole.schema
                self._arrange(whole.schema)
            yield whole
            return
        pa = require("pyarrow", CSV, "parquet")
        with self._reading(), self._stream() as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch])

    def _time_sample(self, schema: Any) -> str:
        column = table_columns.find_time_column(schema.names, self.options)
        if column is None:
            return ""
        index = schema.names.index(column)
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = csv.reader(file, delimiter=_delimiter(_first_lines(self.path)[0]))
            values = [line[index] for line in islice(lines, 1, 1000) if len(line) > index]
        return max(values, key=len, default="")

    def _is_empty(self) -> bool:
        return not self._has_rows

    def close(self) -> None:
        """Forgets the rows."""
        self._whole = None

    def _stream(self) -> Any:
        """The file in blocks; their types are those of the first."""
        arrow_csv = require("pyarrow.csv", CSV, "parquet")
        with self._reading():
            with arrow_csv.open_csv(self.path, **self._options({})) as stream:
                schema = _without_integers(stream.schema)
            types = dict(zip(schema.names, schema.types, strict=True))
            return arrow_csv.open_csv(self.path, **self._options(types))

    def _options(self, types: dict[str, Any], block: int = BLOCK_BYTES) -> dict[str, Any]:
        arrow_csv = require("pyarrow.csv", CSV, "parquet")
        pa = require("pyarrow", CSV, "parquet")
        line = _first_lines(self.path)[0]
        time = table_columns.find_time_column(_fields(line), self.options)
        return {
            "read_options": arrow_csv.ReadOptions(block_size=block),
            "parse_options": arrow_csv.ParseOptions(delimiter=_delimiter(line)),
            "convert_options": arrow_csv.ConvertOptions(
                null_values=_NO_VALUE,
                strings_can_be_null=True,
                # As text, since a float64 of Unix time is good for 0.2 us only.
                column_types=types if time is None else {**types, time: pa.string()},
            ),
        }


class ParquetTable(Table):
    """A Parquet file."""

    format = PARQUET

    def _schema(self) -> Any:
        pa = require("pyarrow", PARQUET, "parquet")
        pq = require("pyarrow.parquet", PARQUET, "parquet")
        with self._reading():
            self._file = pq.ParquetFile(self.path)
        schema = self._file.schema_arrow
        refuse_twice(self.path, "columns", schema.names)
        fields = [(top.name, field) for top in schema for field in _flat_fields(pa, top)]
        self._tops = {field.name: top for top, field in fields}
        return pa.schema([field for _, field in fields])

    def _batches(self) -> Iterator[Any]:
        metadata = self._file.metadata
        sizes = [metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups)]
        names = [column for group in self.groups for column in group.columns]
        if self.clock is not None:
            names.append(self.clock.column)
        columns = list(dict.fromkeys(self._tops[name] for name in names))
        with self._reading():
            if sum(sizes) <= WHOLE_BYTES:
                yield _flat(self._file.read(columns))
                return
            for number in range(len(sizes)):
                yield _flat(self._file.read_row_group(number, columns))

    def _is_empty(self) -> bool:
        return bool(self._file.metadata.num_rows == 0)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _flat_fields(pa: Any, field: Any) -> list[Any]:
    """The columns that :func:`_flat` makes of one."""
    if not pa.types.is_struct(field.type):
        return [field]
    return [flat for child in field.flatten() for flat in _flat_fields(pa, child)]


def _flat(table: Any) -> Any:
    """Fields of structures as columns, ``imu.x``."""
    pa = require("pyarrow", PARQUET, "parquet")
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _nulls(column: Any) -> NDArray[np.bool_]:
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _indices(rows: NDArray[np.intp]) -> Any:
    return require("pyarrow", CSV, "parquet").array(rows)


def _without_integers(schema: Any) -> Any:
    """A CSV's types: what is whole numbers in one recording has fractions in the next."""
    pa = require("pyarrow", CSV, "parquet")
    fields = [
        field.with_type(pa.float64()) if pa.types.is_integer(field.type) else field
        for field in schema
    ]
    return pa.schema(fields)


# ---- recognising ---------------------------------------------------------------------------------


def _first_lines(path: Path) -> list[str]:
    """The first two lines, as far as they are text; empty ones if not."""
    with path.open("rb") as file:
        lines = [file.readline(1 << 16), file.readline(1 << 16)]
    try:
        return [line.decode("utf-8-sig").rstrip("\r\n") for line in lines]
    except UnicodeDecodeError:
        return ["", ""]


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _fields(line: str) -> list[str]:
    return next(csv.reader([line], delimiter=_delimiter(line)), [])


def is_csv(path: Path) -> bool:
    """Whether it is named as CSV and begins with a line of names, and one of as many fields."""
    if path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
        return False
    names, values = _first_lines(path)
    if not any(delimiter in names for delimiter in _DELIMITERS):
        return False
    found = _fields(names)
    fields = next(csv.reader([values], delimiter=_delimiter(names)), [])
    return len(fields or found) == len(found) and not any(_is_number(name) for name in found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_parquet(path: Path) -> bool:
    """Whether it is Parquet."""
    return head(path, 4) == b"PAR1"


CSV_READER = Reader(
    CSV, "parquet", "a .csv or .tsv file with a line of names", is_csv, CsvTable, (".csv", ".tsv")
)
PARQUET_READER = Reader(
    PARQUET, "parquet", "a Parquet file", is_parquet, ParquetTable, (".parquet",)
)
