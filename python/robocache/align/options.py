"""Options as users write them, and as the integers that the operators take.

call      bits 0-1 outside, 2 the mask is wanted, 3 the age is wanted, 4 a fusion,
          8-11 output dtype, 12-15 values dtype (backward only)
stream    flags, the durations that are there, the layout: method, width, method, width, ...
flags     bits 0-3 method, 4-11 what is there (HAS_...), from 16 on the number of the layout's runs
duration  nanoseconds, or the bits of a float64 of seconds
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard

import torch

from robocache.core import names
from robocache.core.dtypes import DTYPE_CODES, DTYPES, RESULT_DTYPES, dtype_text
from robocache.core.names import Outside

LINEAR, PREVIOUS, NEAREST, SLERP_XYZW, SLERP_WXYZ, ANGLE, MEAN, SUM = range(8)
METHOD_NAMES: tuple[str, ...] = names.METHODS
METHODS: dict[str, int] = {name: code for code, name in enumerate(METHOD_NAMES)}
SLERPS = (SLERP_XYZW, SLERP_WXYZ)
COPIES = (PREVIOUS, NEAREST)  # methods that hand rows on as they are

HOLD, ZERO, NAN, EXTRAPOLATE = range(4)
OUTSIDE_NAMES: tuple[Outside, ...] = ("hold", "zero", "nan", "extrapolate")
OUTSIDES: dict[str, int] = {name: code for code, name in enumerate(OUTSIDE_NAMES)}

# Of a call
WANTS_VALID, WANTS_AGE, IS_FUSION = 1 << 2, 1 << 3, 1 << 4
OUT_DTYPE_SHIFT, VALUES_DTYPE_SHIFT = 8, 12
# Of a stream
HAS_LENGTHS, HAS_VALID, HAS_SUBTRACT, HAS_MULTIPLY = 1 << 4, 1 << 5, 1 << 6, 1 << 7
IS_SCALED = HAS_SUBTRACT | HAS_MULTIPLY
HAS_MAX_GAP, HAS_TOLERANCE, HAS_MEAN_WINDOW, HAS_CLOCK_OFFSET = 1 << 8, 1 << 9, 1 << 10, 1 << 11
RUNS_SHIFT = 16

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
MAX_WIDTH = 2**50  # of a run, so that those of a call fit an int64 also when summed


# ---- packing ---------------------------------------------------------------------------------


def refuse_name(name: str, got: str) -> NoReturn:
    """Raises ValueError for a method name that does not exist."""
    raise ValueError(
        f"{name}: expected {', '.join(METHOD_NAMES[:-1])} or {METHOD_NAMES[-1]}, got {got!r}"
    )


def pack_layout(name: str, method: Sequence[tuple[str, int]]) -> list[int]:
    """[("linear", 7), ("slerp_xyzw", 4)] as [0, 7, 3, 4]. That they sum to D is checked later."""
    if not isinstance(method, (list, tuple)):
        _refuse_runs(name, method)
    if not method:
        raise ValueError(f"{name}: expected at least 1 run, got 0")
    layout: list[int] = []
    for run in method:
        if not isinstance(run, (list, tuple)) or len(run) != 2:
            _refuse_runs(name, run)
        method_name, width = run
        if not isinstance(method_name, str) or not _is_integer(width):
            _refuse_runs(name, run)
        code = METHODS.get(method_name)
        if code is None:
            refuse_name(name, method_name)
        if width < 1:
            raise ValueError(
                f"{name}: expected runs of at least 1 channel, got {number_text(width)}"
            )
        if width > MAX_WIDTH:
            raise ValueError(
                f"{name}: expected runs of at most {MAX_WIDTH} channels, got {number_text(width)}"
            )
        layout.append(code)
        layout.append(int(width))
    return layout


def _refuse_runs(name: str, got: object) -> NoReturn:
    raise TypeError(f"{name}: expected a name or a list of (name, channels) pairs, got {got!r}")


def outside_code(outside: str) -> int:
    """The code of an `outside` option."""
    code = OUTSIDES.get(outside) if isinstance(outside, str) else None
    if code is None:
        raise ValueError(f"outside: expected hold, zero, nan or extrapolate, got {outside!r}")
    return code


def out_dtype_code(dtype: torch.dtype) -> int:
    """The code of an output dtype."""
    code = DTYPE_CODES.get(dtype) if isinstance(dtype, torch.dtype) else None
    if code is None:
        raise TypeError(
            "out_dtype: expected float16, bfloat16, float32, float64 or uint8, "
            f"got {dtype_text(dtype)}"
        )
    return code


def pack_duration(
    name: str, value: object, times_dtype: torch.dtype, may_be_negative: bool = False
) -> int:
    """A duration as one integer: nanoseconds, or the bits of a float64 of seconds."""
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
        return bits_of_seconds(seconds)
    return 0  # for times that are refused


def to_float(number: Any) -> float:
    """A real number as a float; infinity for an integer beyond every float."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def number_text(number: Any) -> str:
    """A number as it was given; of an integer that would fill a line, how long it is."""
    if isinstance(number, numbers.Integral) and abs(int(number)) >= 10**40:
        sign = "negative " if int(number) < 0 else ""
        return f"a {sign}number of {int(math.log10(abs(int(number)))) + 1} digits"
    return str(number)


def bits_of_seconds(seconds: float) -> int:
    """The bits of a float64, as struct.unpack("<q", struct.pack("<d", seconds)) has them.

    In arithmetic, because torch.compile does not trace struct.
    """
    if seconds < 0:
        return bits_of_seconds(-seconds) + MIN_INT64
    if seconds == 0:
        return 0
    if seconds == math.inf:
        return 0x7FF << 52
    mantissa, exponent = math.frexp(seconds)
    biased = exponent + 1022
    if biased <= 0:  # subnormal
        return int(math.ldexp(seconds, 1074))
    return (biased << 52) + int(math.ldexp(mantissa, 53)) - (1 << 52)


def seconds_of_bits(bits: int) -> float:
    """The float64 seconds whose bits an integer holds."""
    if bits < 0:
        return -seconds_of_bits(bits - MIN_INT64)
    biased, mantissa = bits >> 52, bits & ((1 << 52) - 1)
    if biased == 0x7FF:
        return math.inf
    if biased == 0:
        return math.ldexp(mantissa, -1074)
    return math.ldexp(mantissa + (1 << 52), biased - 1075)


def _is_integer(value: object) -> TypeGuard[int]:
    # The first test is the fast one; the others are for NumPy's integers.
    return type(value) is int or (
        isinstance(value, numbers.Integral) and not isinstance(value, bool)
    )


# ---- unpacking -------------------------------------------------------------------------------


def outside_of(options: int) -> int:
    """The code of `outside` in a packed call."""
    return options & 3


def out_dtype_of(options: int, values_dtype: torch.dtype) -> torch.dtype:
    """The output dtype in a packed call; that of the values where it names none."""
    code = (options >> OUT_DTYPE_SHIFT) & 15
    return RESULT_DTYPES[code - 1] if code else values_dtype


def values_dtype_of(options: int) -> torch.dtype:
    """The dtype of the values in the packed call of a gradient."""
    return DTYPES[((options >> VALUES_DTYPE_SHIFT) & 15) - 1]
