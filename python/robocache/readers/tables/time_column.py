"""Finds the time column of a table and its unit, and converts its rows to nanoseconds."""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError
from robocache.readers.options import TIME_UNITS, ReadOptions
from robocache.readers.rows import Times
from robocache.readers.tables.arrow import array_of, numbers_of, one_array
from robocache.readers.tables.column_names import (
    TIME_NAMES,
    is_number_text,
    is_time_name,
    time_unit_of,
    without_marks,
)

_ONLY_NANOSECONDS = 2**63 // 1000
"""Integers above this are nanoseconds: in any other unit they lie beyond 292 years of 1970."""


@dataclass(frozen=True)
class TimeColumn:
    """The column of times."""

    column: str
    unit: int | None
    """Nanoseconds per unit; None: dates, whose type or text states it."""

    def read(self, path: Path, column: Any, first: int) -> Times:
        """[n] nanoseconds of a column (pyarrow.ChunkedArray) whose first row is the file's `first`.

        Raises:
            RecordingError: For a missing time, and for a time out of range.
        """
        pa = require("pyarrow", "tables", "parquet")
        where = f"{path}, column {self.column}"
        column = one_array(column)
        if column.null_count:
            row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise RecordingError(f"{where}: expected a time in every row, got none in row {row}")
        try:
            if self.unit is None:
                return _dates(pa, column)
            if pa.types.is_string(column.type):
                return _decimals(pa, column, self.unit, where, first)
        except pa.ArrowInvalid as error:
            raise RecordingError(f"{where}: expected times, got {error}") from error
        values = array_of(column, where)
        if values is None or values.ndim != 1 or values.dtype.kind not in "iuf":
            raise RecordingError(f"{where}: expected a number in every row, got {column.type}")
        return scale_times(values, self.unit, where, first)


def scale_times(values: NDArray[Any], unit: int, where: str, first: int = 0) -> Times:
    """Converts [n] numbers in a unit to nanoseconds; integers exactly.

    Raises:
        RecordingError: For a number that is not finite, or out of int64's range.
    """
    scaled = values.astype(np.float64) * unit
    good = np.abs(scaled) < 2.0**63
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise RecordingError(
            f"{where}: expected times within 292 years of 1970, "
            f"got {values[row]} in row {first + row}"
        )
    if values.dtype.kind in "iu":
        return values.astype(np.int64) * unit
    return np.rint(scaled).astype(np.int64)


def _dates(pa: Any, column: Any) -> Times:
    if pa.types.is_string(column.type):
        try:
            column = column.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid:
            column = column.cast(pa.timestamp("ns", "UTC"))  # text that names a zone
    elif not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s"))
    kind = pa.timestamp("ns", column.type.tz)
    times: Times = numbers_of(column.cast(kind).cast(pa.int64()))
    return times


def _decimals(pa: Any, column: Any, unit: int, where: str, first: int) -> Times:
    """Converts decimal text exactly; float64 would resolve Unix time to 0.2 us only."""
    scale = len(str(unit)) - 1
    column = require("pyarrow.compute", "tables", "parquet").utf8_trim_whitespace(column)
    try:
        exact = column.cast(pa.decimal128(38, scale))
    except pa.ArrowInvalid:  # an exponent, or digits below a nanosecond
        return _rounded(column.to_pylist(), scale, where, first)
    # An Arrow decimal is 16 bytes of the integer value * 10^scale: nanoseconds here.
    words = np.frombuffer(exact.buffers()[1], np.int64).reshape(-1, 2)
    words = words[exact.offset : exact.offset + len(exact)]
    low, high = words[:, 0], words[:, 1]
    if (high != low >> 63).any():  # more than 64 bits: `_rounded` reports the row
        return _rounded(column.to_pylist(), scale, where, first)
    times: Times = low.copy()
    return times


def _rounded(texts: Sequence[str], scale: int, where: str, first: int) -> Times:
    """Decimal texts times 10^scale, rounded to the nearest integer, half to even."""
    times = np.empty(len(texts), np.int64)
    digits = max((len(text) for text in texts), default=0) + 1
    # Without traps, text that is not a number becomes NaN, which is out of range like infinity.
    context = decimal.Context(
        prec=digits, rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[],
    )  # fmt: skip
    with decimal.localcontext(context):
        for row, text in enumerate(texts):
            value = decimal.Decimal(text).scaleb(scale).to_integral_value()
            if value.is_nan() and not is_number_text(text):
                raise RecordingError(
                    f"{where}: expected a number, got {text!r} in row {first + row}"
                )
            if not -(2**63) <= value < 2**63:
                raise RecordingError(
                    f"{where}: expected times within 292 years of 1970, "
                    f"got {text!r} in row {first + row}"
                )
            times[row] = int(value)
    return times


# ---- finding the column --------------------------------------------------------------------------


def find_time_column(names: Sequence[str], options: ReadOptions) -> str | None:
    """The column of times: that of the options, else the first with a name of times."""
    requested = options.time_column
    if requested is None:
        return next((name for name in names if is_time_name(name)), None)
    if requested in names:
        return requested
    plain = without_marks(requested)  # a header that is a comment has lost its mark
    return next((name for name in names if without_marks(name) == plain), None)


def describe_time(path: Path, schema: Any, options: ReadOptions, sample: str) -> TimeColumn | None:
    """The column of times of a table; None if it has none and the options state a rate.

    Args:
        path: For errors.
        schema: Of the table, a pyarrow.Schema.
        options: `time_column`, `time_unit` and `rate`.
        sample: One of the first times as text; empty if the table's types suffice.

    Raises:
        RecordingError: If the table has no such column and the options no rate; if the unit is
            unknown.
    """
    pa = require("pyarrow", "tables", "parquet")
    column = find_time_column(schema.names, options)
    if column is None:
        if options.time_column is None and options.rate is not None:
            return None
        wanted = options.time_column or ", ".join(TIME_NAMES)
        raise RecordingError(
            f"{path}: expected a column of times ({wanted}), got {', '.join(schema.names)} "
            "(--time-column names it; --rate does without)"
        )
    kind = schema.field(column).type
    is_text = bool(pa.types.is_string(kind))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or (is_text and ":" in sample):
        return TimeColumn(column, None)
    is_whole = re.fullmatch(r"\s*-?\d+\s*", sample) if is_text else pa.types.is_integer(kind)
    largest = abs(int(sample)) if is_whole and sample else 0
    unit = unit_of_times(column, options, largest, bool(is_whole))
    if unit is None:
        raise RecordingError(
            f"{path}: expected the unit of the integers in column {column}, got none "
            "(--time-unit says it, or a name such as time_ns)"
        )
    return TimeColumn(column, unit)


def unit_of_times(name: str, options: ReadOptions, largest: int, are_whole: bool) -> int | None:
    """The unit of numeric times, in nanoseconds; None if it is unknown.

    It is that of the options, else that of the name, else follows from the size of integers.
    Floating-point numbers are in seconds by default.

    Args:
        name: Of the column or array.
        options: `time_unit`.
        largest: The absolute value of one of the numbers, if they are integers.
        are_whole: Whether they are integers.
    """
    if options.time_unit is not None:
        return TIME_UNITS[options.time_unit]
    named = time_unit_of(name)
    if named is None and largest > _ONLY_NANOSECONDS:
        return TIME_UNITS["ns"]
    return named or (None if are_whole else TIME_UNITS["s"])
