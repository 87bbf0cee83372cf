"""The options of alignment: their names, codes and dtypes, and parsers of their values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import NoReturn, TypeGuard

import torch

from robocache.core import names
from robocache.core.checks import number_text, to_float
from robocache.core.dtypes import DTYPES, dtype_text
from robocache.core.names import Outside

# The numbers of robocache::Method
LINEAR, PREVIOUS, NEAREST, SLERP_XYZW, SLERP_WXYZ, ANGLE, MEAN, SUM = range(8)
METHOD_NAMES: tuple[str, ...] = names.METHODS
METHODS: dict[str, int] = {name: code for code, name in enumerate(METHOD_NAMES)}
SLERPS = (SLERP_XYZW, SLERP_WXYZ)
COPIES = (PREVIOUS, NEAREST)  # methods that copy rows

# The numbers of robocache::Outside
HOLD, ZERO, NAN, EXTRAPOLATE = range(4)
OUTSIDE_NAMES: tuple[Outside, ...] = ("hold", "zero", "nan", "extrapolate")
OUTSIDES: dict[str, int] = {name: code for code, name in enumerate(OUTSIDE_NAMES)}

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
MAX_WIDTH = 2**50  # channels of a run, so that the sum over a call's runs fits an int64


def refuse_name(name: str, got: str) -> NoReturn:
    """Raises ValueError for an unknown method name."""
    raise ValueError(
        f"{name}: expected {', '.join(METHOD_NAMES[:-1])} or {METHOD_NAMES[-1]}, got {got!r}"
    )


def parse_layout(name: str, method: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The (name, width) pairs of a layout; `call_checks` checks that the widths sum to D."""
    if not isinstance(method, (list, tuple)):
        _refuse_runs(name, method)
    if not method:
        raise ValueError(f"{name}: expected at least 1 run, got 0")
    layout: list[tuple[str, int]] = []
    for run in method:
        if not isinstance(run, (list, tuple)) or len(run) != 2:
            _refuse_runs(name, run)
        method_name, width = run
        if not isinstance(method_name, str) or not _is_integer(width):
            _refuse_runs(name, run)
        if method_name not in METHODS:
            refuse_name(name, method_name)
        if width < 1:
            raise ValueError(
                f"{name}: expected runs of at least 1 channel, got {number_text(width)}"
            )
        if width > MAX_WIDTH:
            raise ValueError(
                f"{name}: expected runs of at most {MAX_WIDTH} channels, got {number_text(width)}"
            )
        layout.append((method_name, int(width)))
    return layout


def _refuse_runs(name: str, got: object) -> NoReturn:
    raise TypeError(f"{name}: expected a name or a list of (name, channels) pairs, got {got!r}")


def outside_code(outside: str) -> int:
    """The code of an `outside` option."""
    code = OUTSIDES.get(outside) if isinstance(outside, str) else None
    if code is None:
        raise ValueError(f"outside: expected hold, zero, nan or extrapolate, got {outside!r}")
    return code


def check_out_dtype(dtype: object) -> None:
    """Checks that a result can have this dtype."""
    if not isinstance(dtype, torch.dtype) or dtype not in DTYPES:
        raise TypeError(
            "out_dtype: expected float16, bfloat16, float32, float64 or uint8, "
            f"got {dtype_text(dtype)}"
        )


def parse_duration(
    name: str, value: object, times_dtype: torch.dtype, may_be_negative: bool = False
) -> float:
    """A duration in the unit of the times: an int of nanoseconds or a float of seconds."""
    if times_dtype == torch.int64:
        if not _is_integer(value):
            raise TypeError(
                f"{name}: expected an int (nanoseconds) for int64 times, got {type(value).__name__}"
            )
        nanoseconds = int(value)
        if nanoseconds < 0 and not may_be_negative:
            raise ValueError(f"{name}: expected 0 or more, got {number_text(value)}")
        if nanoseconds > MAX_INT64:
            raise ValueError(f"{name}: expected at most {MAX_INT64}, got {number_text(value)}")
        if nanoseconds < MIN_INT64:
            raise ValueError(f"{name}: expected at least {MIN_INT64}, got {number_text(value)}")
        return nanoseconds
    if times_dtype.is_floating_point:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(
                f"{name}: expected a number (seconds) for floating times, "
                f"got {type(value).__name__}"
            )
        seconds = to_float(value)
        if may_be_negative:
            if not -math.inf < seconds < math.inf:
                raise ValueError(f"{name}: expected a finite number, got {number_text(value)}")
        elif not seconds >= 0:  # NaN is refused too
            raise ValueError(f"{name}: expected 0 or more, got {number_text(value)}")
        return seconds
    return 0  # times of other dtypes are refused later


def _is_integer(value: object) -> TypeGuard[int]:
    # The first test is fast; the others accept NumPy's integers.
    return type(value) is int or (
        isinstance(value, numbers.Integral) and not isinstance(value, bool)
    )
